"""Metrics that combine the means of several columns, such as one accuracy minus another.

The value is ``constant + Σ weight · mean(column)``, where each mean is over the rows that have a value in the column.
If the combination has a group ``each``, such as a template, the value is computed separately for each label of this
group and then averaged over the labels, so that each label has the same weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lmassay.statistics.estimation import Estimate, estimate, mean_of_estimates
from lmassay.statistics.intervals import Settings, cluster_names, result_of
from lmassay.statistics.table import ScoreTable
from lmassay.statistics.terms import Term
from lmassay.types import Combination as Combination
from lmassay.types import Result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """The sum and the number of values in each term's column, with a row for each label (of ``each``, or a cluster)."""

    labels: Sequence[str]
    sums: Floats
    counts: Floats
    weights: Floats = field(repr=False)
    """The weight of each term in the combination."""
    constant: float

    def whole(self) -> float | None:
        """The value over all labels together; None if a column is empty."""
        import numpy as np

        totals = self.counts.sum(axis=0)
        if (totals == 0).any():
            return None
        means = self.sums.sum(axis=0) / totals
        return self.constant + float(np.dot(self.weights, means))

    def by_label(self) -> Floats:
        """The value of each label; NaN if one of its columns is empty."""
        import numpy as np

        with np.errstate(invalid="ignore"):
            return np.asarray(self.constant + (self.sums / self.counts) @ self.weights)


def mean_over_labels(values: Floats) -> Floats:
    """The unweighted mean over labels. ``values`` has one number, or one row of numbers, for each label."""
    import numpy as np

    return np.asarray(values.mean(axis=0))


def sums_of(table: ScoreTable, combination: Combination, labels: Sequence[str], where: Mask) -> ColumnSums:
    """Each column's sums and counts by label, for the rows in ``where``."""
    import numpy as np

    names, codes = np.unique(np.asarray(labels)[where], return_inverse=True)
    # order="F" must stay: numpy adds up values in the order of the memory, which affects the last digit of the result.
    sums = np.zeros((len(names), len(combination.terms)), order="F")
    counts = np.zeros((len(names), len(combination.terms)), order="F")
    for number, column in enumerate(combination.terms):
        values = table.column(column)[where]
        # A row without this column counts in the other columns only.
        present = ~np.isnan(values)
        sums[:, number] = np.bincount(codes[present], weights=values[present], minlength=len(names))
        counts[:, number] = np.bincount(codes[present], minlength=len(names))
    return ColumnSums(
        labels=[str(name) for name in names],
        sums=sums,
        counts=counts,
        weights=np.array(list(combination.terms.values())),
        constant=combination.constant,
    )


def combination_result(
    table: ScoreTable,
    metric: str,
    combination: Combination,
    settings: Settings,
    *,
    group: str,
    where: Mask,
    cluster: str | Sequence[str] | None,
) -> Result:
    """The result for the rows in ``where``, with an interval that takes the clusters into account."""
    import numpy as np

    # An example counts if it has a value in any of the columns. It need not have all: a question with an ambiguous
    # context has no value in the columns for the other kind of context.
    has_score = np.zeros(len(table), dtype=bool)
    for column in combination.terms:
        has_score |= ~np.isnan(table.column(column))
    n = int((has_score & where).sum())
    n_error = int((table.has_error() & where).sum())
    n_unscored = int(where.sum()) - n - n_error
    counts = (n, n_error, n_unscored)
    by = cluster_names(cluster)
    summed_by = combination.each
    if summed_by is None and by:
        summed_by = by[0]
    sums = sums_of(table, combination, labels_of(table, summed_by), where)
    if combination.each is not None:
        if np.isnan(sums.by_label()).all():
            return _no_data(metric, group, sums, counts)
        estimated = estimate_over_labels(table, combination, where)
        return result_of(estimated, metric, group, counts, settings, (combination.each,))
    value = sums.whole()
    if value is None:
        return _no_data(metric, group, sums, counts)
    estimated = combination_estimate(table, combination, where, by)
    # The value that is reported was added up cluster by cluster, as in earlier versions: another order could change its
    # last digit.
    return result_of(replace(estimated, value=value), metric, group, counts, settings, by)


def combination_estimate(table: ScoreTable, combination: Combination, where: Mask, clusters: Sequence[str]) -> Estimate:
    """The estimate for the rows in ``where``. No column may be empty there. For combinations without ``each``."""
    import numpy as np

    groupings = []
    for name in clusters:
        _, codes = table.codes(name)
        groupings.append(codes)
    terms = []
    for column, weight in combination.terms.items():
        values = table.column(column)
        # Each column has other rows: a question with an ambiguous context has no score of the other kind.
        present = where & ~np.isnan(values)
        clusters_of_rows = [codes[present] for codes in groupings]
        terms.append(Term(values[present], weight, clusters_of_rows))
    return estimate(terms, constant=combination.constant, bounds=combination.bounds)


def estimate_by_cluster_name(
    table: ScoreTable, combination: Combination, where: Mask, clusters: Sequence[str]
) -> Estimate | None:
    """The estimate for the rows in ``where``, with contributions by cluster name; None if a column is empty.

    :func:`mean_over_runs` needs names to add up what each cluster contributes in several runs, because each run numbers
    its clusters differently.
    """
    import numpy as np

    for column in combination.terms:
        if not (where & ~np.isnan(table.column(column))).any():
            return None
    if combination.each is not None:
        return estimate_over_labels(table, combination, where)
    present = [name for name in clusters if name in table.groups]
    estimated = combination_estimate(table, combination, where, present)
    if not present:
        return estimated
    names = table.codes(present[0])[0]
    by_name: dict[str | int, float] = {}
    for code, contribution in estimated.contributions.items():
        by_name[names[int(code)]] = contribution
    return replace(estimated, contributions=by_name)


def mean_over_runs(
    results: Sequence[Result], estimates: Sequence[Estimate], settings: Settings, by: Sequence[str]
) -> Result:
    """The unweighted mean of one metric over runs on the same examples, such as one model under several prompts.

    The interval covers other clusters (named in ``by``), not other runs or prompts. ``results`` has one result for each
    run, ``estimates`` one estimate for each result that has a value; if some are missing, there is no interval.
    """
    import numpy as np

    first = results[0]
    counts = _total_counts(results)
    values = [result.value for result in results if result.value is not None]
    if not values:
        return Result(first.metric, first.group, None, None, None, *counts)
    value = float(np.mean(values))
    if len(estimates) < len(values):
        reason = "none: not estimated for every run"
        return Result(first.metric, first.group, value, None, None, *counts, method=reason)
    mean = replace(mean_of_estimates(estimates), value=value)
    return result_of(mean, first.metric, first.group, counts, settings, by)


def _total_counts(results: Sequence[Result]) -> tuple[int, int, int]:
    """The total numbers of scored examples, examples with errors, and unscored examples in all results."""
    n = 0
    n_error = 0
    n_unscored = 0
    for result in results:
        n += result.n
        n_error += result.n_error
        n_unscored += result.n_unscored
    return n, n_error, n_unscored


def mean_over_data_sets(results: Sequence[Result], metric: str, group: str = "overall") -> Result:
    """The unweighted mean of results on different data sets, which are independent of each other.

    The distances from the values to the ends of their intervals are combined like standard errors (the method of
    variance estimates recovery, MOVER: Zou and Donner 2008). The interval covers other examples in these data sets, not
    other data sets.

    >>> from lmassay.types import Result
    >>> parts = [Result("accuracy", "overall", 0.6, 0.5, 0.7, 90), Result("accuracy", "overall", 0.8, 0.7, 0.9, 90)]
    >>> mean = mean_over_data_sets(parts, "accuracy")
    >>> round(mean.value, 2), round(mean.low, 3), round(mean.high, 3), mean.n
    (0.7, 0.629, 0.771, 180)
    """
    counts = _total_counts(results)
    values = [result.value for result in results if result.value is not None]
    if not values or len(values) < len(results):
        return Result(metric, group, None, None, None, *counts, method="none: not every data set has a value")
    value = sum(values) / len(values)
    # The squared distances from the values to the ends replace the variances, separately for the two sides.
    squares_below = 0.0
    squares_above = 0.0
    for result in results:
        if result.value is None or result.low is None or result.high is None:
            return Result(metric, group, value, None, None, *counts, method="none: not every data set has an interval")
        squares_below += (result.value - result.low) ** 2
        squares_above += (result.high - result.value) ** 2
    low = value - squares_below**0.5 / len(values)
    high = value + squares_above**0.5 / len(values)
    return Result(metric, group, value, low, high, *counts, method="mover")


def estimate_over_labels(table: ScoreTable, combination: Combination, where: Mask) -> Estimate:
    """The mean over the labels of ``each``, where every label is one independent value."""
    import numpy as np

    sums = sums_of(table, combination, labels_of(table, combination.each), where)
    values = sums.by_label()
    has_value = ~np.isnan(values)
    estimated = estimate([Term(values[has_value])], bounds=combination.bounds)
    value = float(mean_over_labels(values[has_value]))
    n_labels = int(has_value.sum())
    # The mean of several such estimates, e.g. over prompts, needs the contribution of each label to all of them.
    contributions: dict[str | int, float] = {}
    for label, label_value in zip(sums.labels, values.tolist(), strict=True):
        if not np.isnan(label_value):
            contributions[label] = (label_value - value) / n_labels
    return replace(estimated, value=value, contributions=contributions)


def _no_data(metric: str, group: str, sums: ColumnSums, counts: tuple[int, int, int]) -> Result:
    """The result if a column is empty, so that there is no value."""
    n, n_error, n_unscored = counts
    fewest = 0
    if sums.counts.size:
        fewest = int(sums.counts.sum(axis=0).min())
    # Rows that have values only in other columns are reported as unscored.
    return Result(metric, group, None, None, None, fewest, n_error, n_unscored + n - fewest)


def empty_labels(table: ScoreTable, combination: Combination, where: Mask) -> tuple[int, int]:
    """The number of labels of ``each``, and the number of those that have no value."""
    import numpy as np

    values = sums_of(table, combination, labels_of(table, combination.each), where).by_label()
    return len(values), int(np.isnan(values).sum())


def labels_of(table: ScoreTable, group: str | None) -> Sequence[str]:
    """The label of each row in a group; the ids of the rows if there is no such group."""
    if group is None or group not in table.groups:
        return table.ids
    return table.groups[group]
