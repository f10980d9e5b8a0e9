"""Selects the values of which a mean is computed, with their weights and clusters.

Usually, there is one value for each example. If a metric is in ``Design.crossed``, an example has several values, one
for each label: in a targeted syntactic evaluation (TSE), a context has one for each pair of verbs. The same labels
occur in other examples, so these values are clustered in two ways: by the cluster of the example and by the label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmassay.statistics.table import ScoreTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

FEW_LABELS = 8
"""With fewer labels than this, the data say little about other labels, and the interval is usually very wide."""


@dataclass(frozen=True, slots=True)
class Observations:
    """The values of a metric in a part of a table; there is at least one."""

    values: Floats
    weights: Floats | None
    clusters: Sequence[NDArray[np.int64]]
    """For each grouping, the number of the cluster of each value."""
    clustered_by: tuple[str, ...]
    """The names of the groupings."""
    mean: float
    """The mean over examples, even if ``values`` has several for each: another order of summation would change the last
    digit."""
    not_clustered_by: str = ""
    """The name of the labels, such as ``verb_pair``, by which the values should be clustered, but which the run did not
    store; empty otherwise."""


def observations(
    table: ScoreTable,
    metric: str,
    where: Mask | None = None,
    *,
    clusters: Sequence[str] = (),
    weight: str | None = None,
    crossed: str | None = None,
) -> Observations | None:
    """The values of a metric in the rows ``where``; None if there is none with a positive weight.

    ``clusters`` names the groups by which examples are clustered, ``weight`` the column that says how much each example
    counts. ``crossed`` is the entry of ``Design.crossed`` for this metric: a noun for the labels of its outcomes.
    """
    import numpy as np

    counted = np.isfinite(table.column(metric))
    if where is not None:
        counted = counted & where
    weights = np.ones(len(table))
    if weight is not None and counted.any():
        weights[counted] = table.weights(metric, weight, where)
        # Rows of weight 0 are left out: otherwise, they would count as observations that agree with the mean.
        counted = counted & (weights > 0)
    if not counted.any():
        return None
    values = table.column(metric)[counted]
    if weight is None:
        own_weights = None
        mean = float(values.mean())
    else:
        own_weights = weights[counted]
        mean = float((values * own_weights).sum() / own_weights.sum())
    groupings = [table.codes(name)[1] for name in clusters]
    outcomes = None if crossed is None else table.outcomes(metric)
    if crossed is None or outcomes is None:
        return Observations(
            values=values,
            weights=own_weights,
            clusters=[codes[counted] for codes in groupings],
            clustered_by=tuple(clusters),
            mean=mean,
            not_clustered_by=crossed or "",
        )

    is_counted = counted[outcomes.table_rows] & (outcomes.rows > 0)
    table_rows = outcomes.table_rows[is_counted]
    rows = outcomes.rows[is_counted]
    # The weight of an example is divided among its outcomes.
    rows_of_example = np.bincount(table_rows, weights=rows, minlength=len(table))
    by_group = [codes[table_rows] for codes in groupings]
    return Observations(
        values=outcomes.values[is_counted],
        weights=rows * (weights[table_rows] / rows_of_example[table_rows]),
        clusters=[*by_group, outcomes.codes[is_counted]],
        clustered_by=(*clusters, crossed),
        mean=mean,
    )


_PLURALS = {"phenomenon": "phenomena", "category": "categories"}


def label_in_plural(name: str) -> str:
    """The plural of a group's name for running text.

    >>> label_in_plural("verb_pair")
    'verb pairs'
    """
    words = name.replace("_", " ")
    return _PLURALS.get(words, f"{words}s")


def counted_labels(count: int, name: str) -> str:
    """A number of labels as a phrase for running text.

    >>> counted_labels(1, "verb_pair"), counted_labels(1200, "noun")
    ('1 verb pair', '1,200 nouns')
    """
    label = name.replace("_", " ") if count == 1 else label_in_plural(name)
    return f"{count:,} {label}"
