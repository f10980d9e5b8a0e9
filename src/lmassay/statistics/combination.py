"""Metrics that are no mean over examples but put together from several: an accuracy less another, say.

The value is ``constant + Σ weight · mean(column)``, each mean over the rows that have the column. With ``each``, that
is worked out within every label of a group and averaged over labels, so that each counts alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lmassay.statistics import intervals
from lmassay.statistics.intervals import Difference, Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Combination as Combination
from lmassay.types import Result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

_SWAPS_AT_ONCE = 4_000_000
_NOTHING = 1e-12


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums and counts of each term's column, a row a cluster (or a label of ``each``)."""

    labels: Sequence[str]
    sums: Floats
    counts: Floats
    weights: Floats = field(repr=False)
    constant: float

    def whole(self) -> float | None:
        """The value over all clusters; None where a column is empty."""
        import numpy as np

        totals = self.counts.sum(axis=0)
        return (
            None if (totals == 0).any() else self.constant + float(np.dot(self.weights, self.sums.sum(axis=0) / totals))
        )

    def shares(self) -> Floats:
        """What each cluster adds to the deviation of the whole; they sum to zero."""
        import numpy as np

        totals = self.counts.sum(axis=0)
        means = self.sums.sum(axis=0) / totals
        return np.asarray(((self.sums - means * self.counts) / totals) @ self.weights)

    def by_label(self) -> Floats:
        """The value within each label; NaN where a column is empty."""
        import numpy as np

        with np.errstate(invalid="ignore"):
            return np.asarray(self.constant + (self.sums / self.counts) @ self.weights)


def mean_over_labels(values: Floats) -> Floats:
    """The plain mean over labels, each counting the same: of one number, or of several, a row a label."""
    import numpy as np

    return np.asarray(values.mean(axis=0))


def sums_of(table: ScoreTable, combination: Combination, labels: Sequence[str], where: Mask) -> Sums:
    """Each column's sums and counts by label, for the rows in ``where``."""
    import numpy as np

    names, codes = np.unique(np.asarray(labels)[where], return_inverse=True)
    sums, counts = [], []
    for column in combination.terms:
        values = table.column(column)[where]
        has = ~np.isnan(values)
        sums.append(np.bincount(codes[has], weights=values[has], minlength=len(names)))
        counts.append(np.bincount(codes[has], minlength=len(names)))
    shape = (len(combination.terms), len(names))
    weights = np.array(list(combination.terms.values()))
    return Sums(
        [str(name) for name in names],
        np.reshape(sums, shape).T.astype(float),
        np.reshape(counts, shape).T.astype(float),
        weights,
        combination.constant,
    )


def combination_result(
    table: ScoreTable,
    metric: str,
    combination: Combination,
    settings: Settings,
    *,
    group: str,
    where: Mask,
    cluster: str | None,
) -> Result:
    """The value over a part of the table, with an interval that knows which rows belong together."""
    import numpy as np

    has = np.zeros(len(table), dtype=bool)
    for column in combination.terms:
        has |= ~np.isnan(table.column(column))
    n = int((has & where).sum())
    n_error = int((table.in_error() & where).sum())
    counts = (n, n_error, int(where.sum()) - n - n_error)
    found = sums_of(table, combination, _labels(table, combination.each or cluster), where)
    if combination.each is not None:
        values = found.by_label()
        values = values[~np.isnan(values)]
        if not len(values):
            return _no_data(metric, group, found, counts)
        is_rate = combination.bounds == (0.0, 1.0)
        low, high = (intervals.mean_interval if is_rate else intervals.interval_of_mean)(values, settings)
        return Result(metric, group, float(mean_over_labels(values)), *_inside(combination, low, high), *counts)
    value = found.whole()
    if value is None:
        return _no_data(metric, group, found, counts)
    return Result(metric, group, value, *_interval(table, combination, found, value, where, cluster, settings), *counts)


def _no_data(metric: str, group: str, found: Sums, counts: tuple[int, int, int]) -> Result:
    """One column at least is empty: rows that have another one are not enough for a number."""
    n, n_error, n_unscored = counts
    least = int(found.counts.sum(axis=0).min()) if found.counts.size else 0
    return Result(metric, group, None, None, None, least, n_error, n_unscored + n - least)


def empty_labels(table: ScoreTable, combination: Combination, where: Mask) -> tuple[int, int]:
    """How many labels of ``each`` there are, and how many of them have no value."""
    import numpy as np

    values = sums_of(table, combination, _labels(table, combination.each), where).by_label()
    return len(values), int(np.isnan(values).sum())


def paired(
    base: ScoreTable, new: ScoreTable, combination: Combination, cluster: str | None, settings: Settings
) -> tuple[float, float, Difference] | None:
    """Both values over the examples that both runs have, and their difference; None where one has no value.

    Each run counts its own rows, so that the difference is that of the numbers reported. The test swaps the two runs
    within clusters.
    """
    import numpy as np

    failed = {i for table in (base, new) for i, bad in zip(table.ids, table.in_error(), strict=True) if bad}
    shared = set(base.ids) & set(new.ids) - failed

    def sums(table: ScoreTable) -> Sums:
        inside = np.fromiter((i in shared for i in table.ids), bool, len(table))
        return sums_of(table, combination, _labels(table, combination.each or cluster), inside)

    a, b = sums(base), sums(new)
    if a.labels != b.labels:
        return None
    if combination.each is not None:
        before, after = a.by_label(), b.by_label()
        both = ~np.isnan(before) & ~np.isnan(after)
        if not both.any():
            return None
        difference = intervals.paired_difference(before[both], after[both], settings)
        return float(mean_over_labels(before[both])), float(mean_over_labels(after[both])), difference
    left, right = a.whole(), b.whole()
    if left is None or right is None:
        return None
    low, high = _paired_interval(a, b, combination, settings)
    n = min(int(side.counts.sum()) for side in (a, b))
    return left, right, Difference(right - left, low, high, _swap_p(a, b, settings), n)


def _paired_interval(
    a: Sums, b: Sums, combination: Combination, settings: Settings
) -> tuple[float | None, float | None]:
    import numpy as np

    # A cluster without an answer says nothing, and must not count as one that agrees.
    shares = (b.shares() - a.shares())[(a.counts + b.counts).sum(axis=1) > 0]
    if np.ptp(shares) < _NOTHING:
        return None, None
    if len(shares) < intervals.FEW:
        whole = [side.whole() or 0.0 for side in (a, b)]
        return intervals.interval_around(whole[1] - whole[0], shares, settings)
    samples = tuple(np.hstack([a.sums, a.counts, b.sums, b.counts]).T)
    return intervals.interval(samples, _difference_of(combination), settings)


def _labels(table: ScoreTable, group: str | None) -> Sequence[str]:
    return table.ids if group is None or group not in table.groups else table.groups[group]


def _interval(
    table: ScoreTable,
    combination: Combination,
    found: Sums,
    value: float,
    where: Mask,
    cluster: str | None,
    settings: Settings,
) -> tuple[float | None, float | None]:
    import numpy as np

    if list(combination.terms.values()) == [1.0] and combination.constant == 0 and combination.bounds == (0.0, 1.0):
        (column,) = combination.terms
        clusters = table.clusters(column, cluster, where) if cluster else None
        return intervals.mean_interval(table.values(column, where), settings, clusters)
    # A cluster without an answer says nothing, and must not count as one that agrees.
    shares = found.shares()[found.counts.sum(axis=1) > 0]
    if np.ptp(shares) < _NOTHING:
        # Clusters that all agree tell nothing of what another would be, however many rows each has.
        return None, None
    if len(shares) < intervals.FEW:
        return _inside(combination, *intervals.interval_around(value, shares, settings))
    samples = tuple(np.hstack([found.sums, found.counts]).T)
    return _inside(combination, *intervals.interval(samples, _value_of(combination), settings))


def _inside(combination: Combination, low: float | None, high: float | None) -> tuple[float | None, float | None]:
    least, most = combination.bounds
    return (low, high) if low is None or high is None else (max(low, least), min(high, most))


def _value_of(combination: Combination) -> intervals.Statistic:
    weights, width = list(combination.terms.values()), len(combination.terms)

    def value(*columns: Floats, axis: int = -1) -> Floats:
        import numpy as np

        totals = [np.sum(column, axis=axis) for column in columns]
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = [w * totals[k] / totals[width + k] for k, w in enumerate(weights)]
        return np.asarray(combination.constant + sum(parts))

    return value


def _difference_of(combination: Combination) -> intervals.Statistic:
    value, width = _value_of(combination), 2 * len(combination.terms)

    def difference(*columns: Floats, axis: int = -1) -> Floats:
        return value(*columns[width:], axis=axis) - value(*columns[:width], axis=axis)

    return difference


def _swap_p(a: Sums, b: Sums, settings: Settings) -> float | None:
    """How often swapping the runs within clusters, at random, makes a difference as large as the one found."""
    import numpy as np

    if len(a.labels) < 2:
        return None
    before, after = (np.hstack([side.sums, side.counts]) for side in (a, b))
    differ = ~intervals.the_same(before, after)
    moved: Floats = np.where(differ, after - before, 0.0)[differ.any(axis=1)]
    if not len(moved):
        return 1.0
    totals = [np.concatenate([side.sums.sum(axis=0), side.counts.sum(axis=0)]) for side in (a, b)]

    def difference(shift: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            left, right = (
                (t[..., :width] / t[..., width:]) @ a.weights for t in (totals[0] + shift, totals[1] - shift)
            )
        return np.asarray(right - left)

    width = a.sums.shape[1]
    found = float(difference(np.zeros(2 * width)))
    # A cluster that is the same in both runs changes nothing; of few others all swaps can be gone through.
    exact = 2 ** len(moved) <= intervals.RESAMPLES_OF_TEST
    if not exact and not settings.draws_suffice:
        return intervals.t_test_p(found, b.shares() - a.shares(), len(moved))
    null = np.concatenate([difference(swaps @ moved) for swaps in _swaps(len(moved), exact, settings)])
    return intervals.p_of_draws(found, null[~np.isnan(null)], exact, max(1.0, abs(found)))


def _swaps(clusters: int, exact: bool, settings: Settings) -> Iterator[NDArray[np.int64]]:
    """Which clusters are swapped: all ways there are, or many drawn at random; so many at a time as memory has room."""
    import numpy as np

    if exact:
        yield np.arange(2**clusters)[:, None] >> np.arange(clusters) & 1
        return
    rng = np.random.default_rng(settings.seed)
    block = max(1, _SWAPS_AT_ONCE // clusters)
    for start in range(0, intervals.RESAMPLES_OF_TEST, block):
        yield rng.integers(0, 2, (min(block, intervals.RESAMPLES_OF_TEST - start), clusters))
