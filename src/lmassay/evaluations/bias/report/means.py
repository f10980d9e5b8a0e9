"""The mean over prompts with an interval that knows that all prompts asked about the same templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmassay.statistics import intervals
from lmassay.statistics.combination import Sums
from lmassay.statistics.intervals import Difference, Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Combination

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TEMPLATE = "template"


@dataclass(frozen=True, slots=True)
class Parts:
    """A number of one run as the sum of what its templates add to it: ``shares`` are deviations, which sum to zero."""

    value: float
    shares: Mapping[str, float]


def parts_by_group(
    table: ScoreTable, combinations: Mapping[str, Combination], groups: Sequence[str]
) -> dict[tuple[str, str], Parts]:
    """(metric, group) → its parts, for all and for every label of the groups; those without data are left out."""
    import numpy as np

    names, codes = np.unique(np.asarray(table.groups.get(TEMPLATE, table.ids)), return_inverse=True)
    masks = {"overall": np.ones(len(table), dtype=bool)}
    for group in groups:
        masks |= {f"{group}={label}": where for label, where in table.parts(group) if label}
    found = {}
    for metric, combination in combinations.items():
        columns = [table.column(column) for column in combination.terms]
        weights = np.array(list(combination.terms.values()))
        for group, where in masks.items():
            sums, counts = np.zeros((2, len(names), len(columns)))
            for place, column in enumerate(columns):
                inside = where & ~np.isnan(column)
                sums[:, place] = np.bincount(codes[inside], weights=column[inside], minlength=len(names))
                counts[:, place] = np.bincount(codes[inside], minlength=len(names))
            parts = _parts(Sums([str(n) for n in names], sums, counts, weights, combination.constant), combination)
            if parts is not None:
                found[metric, group] = parts
    return found


def mean_of(parts: Sequence[Parts], settings: Settings) -> tuple[float, float | None, float | None]:
    """The mean with its interval; the prompts are taken as given, templates as a sample."""
    value = sum(p.value for p in parts) / len(parts)
    return value, *intervals.interval_around(value, _together([(p, 1 / len(parts)) for p in parts]), settings)


def mean_difference(before: Sequence[Parts], after: Sequence[Parts], settings: Settings) -> Difference:
    """How far one mean is from another of the same templates: interval, and p of Student's t over templates."""
    from scipy.stats import ttest_1samp

    value = sum(p.value for p in after) / len(after) - sum(p.value for p in before) / len(before)
    shares = _together([(p, 1 / len(after)) for p in after] + [(p, -1 / len(before)) for p in before])
    low, high = intervals.interval_around(value, shares, settings)
    p = None if low is None else float(ttest_1samp(value + shares * len(shares), 0.0).pvalue)
    return Difference(value, low, high, p, len(shares))


def _parts(found: Sums, combination: Combination) -> Parts | None:
    import numpy as np

    if combination.each is not None:
        values = found.by_label()
        known = ~np.isnan(values)
        if not known.any():
            return None
        value = float(values[known].mean())
        shares = (values - value) / known.sum()
    else:
        whole = found.whole()
        if whole is None:
            return None
        value, known = whole, np.asarray((found.counts > 0).any(axis=1))
        totals = found.counts.sum(axis=0)
        shares = ((found.sums - found.sums.sum(axis=0) / totals * found.counts) / totals) @ found.weights
    return Parts(
        value, {label: float(share) for label, share, has in zip(found.labels, shares, known, strict=True) if has}
    )


def _together(weighted: Sequence[tuple[Parts, float]]) -> Floats:
    """What each template adds to a weighted sum."""
    import numpy as np

    totals: dict[str, float] = {}
    for parts, weight in weighted:
        for template, share in parts.shares.items():
            totals[template] = totals.get(template, 0.0) + weight * share
    return np.array(list(totals.values()))
