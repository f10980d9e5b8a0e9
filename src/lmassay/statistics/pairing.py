"""Finds the pairs of scores by which two runs are compared.

What is paired depends on the task: the examples that both runs have; if they have no example in common, the labels of a
group (each with the mean of its examples); or the single test examples of a few-shot training, within each repetition
of the training. What is paired is called a *unit* here.

:mod:`lmassay.statistics.comparison` turns the pairs into a row of a table, :mod:`lmassay.statistics.gate` into a
verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmassay.statistics.combination import Combination, labels_of, sums_of
from lmassay.statistics.intervals import changes_of
from lmassay.statistics.paired_scores import PairedColumn, Pairs
from lmassay.statistics.replicates import difference_of_repetitions, difference_on_tests, mean_over_repetitions
from lmassay.statistics.sides import Side
from lmassay.statistics.table import ScoresOnTests

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def pairs_of(base: Side, other: Side, metric: str) -> Pairs | None:
    """The pairs of scores that two runs have in one metric; None if there are none."""
    if _are_replicates(base, other) and base.table.has(metric) and other.table.has(metric):
        return _pairs_of_replicates(base, other, metric)
    key = pairing_key(base, other)
    combination = base.record.design.combinations.get(metric)
    is_combined_the_same = combination == other.record.design.combinations.get(metric)
    if key is None and combination is not None and is_combined_the_same:
        if combination.each:
            pairs = _pairs_by_label(base, other, combination)
        else:
            pairs = _pairs_of_combination(base, other, combination)
        if pairs is not None:
            return pairs
    return _pairs_of_metric(base, other, metric, key)


def share_examples(base: Side, other: Side) -> bool:
    """True if two runs of one task have an example in common, or a label of the group that their task pairs by."""
    if base.record.task != other.record.task:
        return False
    key = pairing_key(base, other)
    return not set(keys_of(base, key)).isdisjoint(keys_of(other, key))


def pairing_key(base: Side, other: Side) -> str | None:
    """The name of the group by whose labels two runs without a common example are paired; None for pairs by id."""
    pair_by = base.record.design.pair_by
    if not pair_by or not set(base.table.ids).isdisjoint(other.table.ids):
        return None
    group = pair_by[0]
    is_in_both = group in base.table.groups and group in other.table.groups
    return group if is_in_both else None


def keys_of(side: Side, key: str | None) -> Sequence[str]:
    """By what each row of a run is paired: its id, or its label in the group ``key``."""
    return side.table.ids if key is None else side.table.groups[key]


def unit_states(side: Side, key: str | None) -> dict[str, str]:
    """A dict from each unit of a run to its state: "scored" if any of its rows is, else "error" or "unscored"."""
    table = side.table
    states: dict[str, str] = {}
    keys = keys_of(side, key)
    for unit, is_scored, is_failed in zip(keys, table.has_score(), table.has_error(), strict=True):
        if is_scored:
            states[unit] = "scored"
        elif is_failed and states.get(unit) != "scored":
            states[unit] = "error"
        else:
            states.setdefault(unit, "unscored")
    return states


@dataclass(frozen=True, slots=True)
class PairingUnit:
    """The score of one unit in one run: that of an example, or the mean over the examples that share a label."""

    value: float
    weight: float
    """How much the unit counts: the sum of the weights of its rows; 1 for a whole unit of a metric without weights."""
    clusters: tuple[str, ...]
    """The label of the unit in each group by which the task clusters examples."""


def units_of(side: Side, metric: str, key: str | None) -> dict[str, PairingUnit]:
    """A dict from each unit of a run to its mean score; units without a score are left out."""
    import numpy as np

    table = side.table
    column = table.column(metric)
    has_weights = metric in side.record.design.weights
    weights = _weights(side, metric)
    groups = [table.groups[name] for name in _cluster_names(side)]
    sums: dict[str, _WeightedSum] = {}
    rows = zip(keys_of(side, key), column, weights, strict=True)
    for row, (unit, value, weight) in enumerate(rows):
        if np.isnan(value):
            continue
        if unit not in sums:
            # A unit of several examples belongs to the clusters of the first of them.
            sums[unit] = _WeightedSum(tuple(group[row] for group in groups))
        sums[unit].add(value, weight)
    units: dict[str, PairingUnit] = {}
    for unit, summed in sums.items():
        if summed.weight:
            # Without weights, each unit counts the same, no matter how many examples of a run share its label.
            weight = summed.weight if has_weights else 1.0
            units[unit] = PairingUnit(summed.mean(), weight, summed.clusters)
    return units


@dataclass(slots=True)
class _WeightedSum:
    """The running sums from which a weighted mean is computed."""

    clusters: tuple[str, ...]
    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float, weight: float) -> None:
        self.total += float(value * weight)
        self.weight += float(weight)

    def mean(self) -> float:
        return self.total / self.weight


def _weights(side: Side, metric: str) -> NDArray[np.float64]:
    """How much each example counts in a metric."""
    import numpy as np

    weight_column = side.record.design.weights.get(metric)
    if weight_column is None:
        return np.ones(len(side.table))
    # An example without a weight has the weight 0, as in the results of the run (ScoreTable.weights).
    return np.asarray(np.nan_to_num(side.table.column(weight_column)))


def _cluster_names(side: Side) -> list[str]:
    """The groups by which a task clusters examples, without those that the run does not have."""
    return [name for name in side.record.design.clusters if name in side.table.groups]


def labelled_units_of(side: Side, metric: str, key: str | None) -> dict[tuple[str, str], PairingUnit]:
    """A dict from unit and label to the score of the unit's outcomes with that label.

    Only metrics in ``Design.crossed`` have outcomes with labels: in a targeted syntactic evaluation (TSE), an example
    has an outcome for each verb pair. Empty for other metrics, and for runs of earlier versions, which did not store
    outcomes.
    """
    import numpy as np

    table = side.table
    crossed = side.record.design.crossed.get(metric)
    outcomes = None if crossed is None else table.outcomes(metric)
    if outcomes is None:
        return {}
    weight_of_example = _weights(side, metric)
    n_rows_of_example = np.bincount(outcomes.table_rows, weights=outcomes.rows, minlength=len(table))
    keys = keys_of(side, key)
    groups = [table.groups[name] for name in _cluster_names(side)]
    sums: dict[tuple[str, str], _WeightedSum] = {}
    # Convert arrays to lists, because Python iterates over a list faster.
    outcome_rows = outcomes.table_rows.tolist()
    outcome_values = outcomes.values.tolist()
    outcome_counts = outcomes.rows.tolist()
    for row, label, value, n_rows in zip(outcome_rows, outcomes.labels, outcome_values, outcome_counts, strict=True):
        unit = (keys[row], label)
        if unit not in sums:
            labels_of_row = [group[row] for group in groups]
            sums[unit] = _WeightedSum((*labels_of_row, label))
        # The weight of an example is divided among its outcomes.
        weight = float(n_rows * (weight_of_example[row] / n_rows_of_example[row]))
        sums[unit].add(value, weight)
    units: dict[tuple[str, str], PairingUnit] = {}
    for unit, summed in sums.items():
        if summed.weight:
            units[unit] = PairingUnit(summed.mean(), summed.weight, summed.clusters)
    return units


def _pairs_of_metric(base: Side, other: Side, metric: str, key: str | None) -> Pairs | None:
    """The pairs of a metric that is a mean over units; pairs of single outcomes if both runs have stored them."""
    crossed = base.record.design.crossed.get(metric)
    if crossed is None and are_aligned(base, other, metric, key):
        return _pairs_of_aligned_rows(base, other, metric)
    before = units_of(base, metric, key)
    after = units_of(other, metric, key)
    by_label_before = labelled_units_of(base, metric, key)
    by_label_after = labelled_units_of(other, metric, key)
    clustered_by = _cluster_names(base)
    if by_label_before and by_label_after:
        # Only metrics in Design.crossed have scores by label.
        assert crossed is not None
        clustered_by.append(crossed)
    else:
        # One of the runs has no outcomes by label. Pair whole units, each with an empty label.
        by_label_before = {(unit, ""): value for unit, value in before.items()}
        by_label_after = {(unit, ""): value for unit, value in after.items()}
    shared: list[tuple[str, str]] = []
    for unit_and_label, unit_before in by_label_before.items():
        unit_after = by_label_after.get(unit_and_label)
        # A unit whose weight differs between the runs does not consist of the same rows, so it is not paired.
        if unit_after is not None and unit_before.weight == unit_after.weight:
            shared.append(unit_and_label)
    if not shared:
        return None
    column = _column_of_units(
        names=[unit for unit, _ in shared],
        before=[by_label_before[unit_and_label] for unit_and_label in shared],
        after=[by_label_after[unit_and_label] for unit_and_label in shared],
    )
    paired_units = {unit for unit, _ in shared}
    return Pairs(
        columns=[column],
        constant=0.0,
        n=len(paired_units),
        only_base=len(before.keys() - paired_units),
        only_new=len(after.keys() - paired_units),
        clustered_by=tuple(clustered_by),
        unpaired_unit="example" if key is None else "label",
    )


def _column_of_units(names: Sequence[str], before: Sequence[PairingUnit], after: Sequence[PairingUnit]) -> PairedColumn:
    """The paired scores of units, with their weights and clusters in the base run."""
    import numpy as np

    values_before = np.array([unit.value for unit in before])
    values_after = np.array([unit.value for unit in after])
    unit_weights = np.array([unit.weight for unit in before])
    # Equal weights do not change the mean, so they are left out.
    weights: NDArray[np.float64] | None = None
    if (unit_weights != unit_weights[0]).any():
        weights = unit_weights
    clusters: list[list[str]] = []
    # With two-way clustering, a unit has a cluster in each grouping, such as its noun and its verb pair.
    for grouping in range(len(before[0].clusters)):
        clusters.append([unit.clusters[grouping] for unit in before])
    return PairedColumn(
        coefficient=1.0,
        before=values_before,
        after=values_after,
        weights=weights,
        clusters=clusters,
        units=_labels_of_fewest_clusters(clusters) or names,
    )


def are_aligned(base: Side, other: Side, metric: str, key: str | None) -> bool:
    """Whether both runs have the same examples in the same order, each only once and without weights.

    In that case, whole columns can be compared row by row.
    """
    weighted = metric in base.record.design.weights or metric in other.record.design.weights
    if key is not None or weighted or len(base.table) != len(other.table):
        return False
    return base.table.has_unique_ids and base.table.ids == other.table.ids


def _pairs_of_aligned_rows(base: Side, other: Side, metric: str) -> Pairs | None:
    """The same pairs as those by id, but faster: no example, of up to a million, is looked up in a dictionary."""
    import numpy as np

    before = base.table.column(metric)
    after = other.table.column(metric)
    in_base = ~np.isnan(before)
    in_other = ~np.isnan(after)
    rows = np.flatnonzero(in_base & in_other)
    if not len(rows):
        return None
    names = _cluster_names(base)
    clusters = [_values_at(base.table.groups[name], rows) for name in names]
    column = PairedColumn(
        coefficient=1.0,
        before=before[rows],
        after=after[rows],
        weights=None,
        clusters=clusters,
        units=_labels_of_fewest_clusters(clusters) or _values_at(base.table.ids, rows),
    )
    return Pairs(
        columns=[column],
        constant=0.0,
        n=len(rows),
        only_base=int((in_base & ~in_other).sum()),
        only_new=int((in_other & ~in_base).sum()),
        clustered_by=tuple(names),
    )


def _values_at(values: Sequence[str], rows: NDArray[np.int64]) -> Sequence[str]:
    """The values at these rows, which are ascending and unique."""
    # If there are as many rows as values, the rows are all rows, and nothing needs to be copied.
    if len(rows) == len(values):
        return values
    return [values[row] for row in rows.tolist()]


def _labels_of_fewest_clusters(clusters: Sequence[Sequence[str]]) -> Sequence[str]:
    """The labels of the grouping with the fewest clusters; empty without groupings.

    The fewest clusters limit what can be significant, so these are the units that are counted.
    """

    def count(labels: Sequence[str]) -> int:
        return len(set(labels))

    return min(clusters, key=count, default=())


def _pairs_of_combination(base: Side, other: Side, combination: Combination) -> Pairs | None:
    """The pairs of a metric that combines several columns. Each column is paired on its own, by example."""
    usable = _without_errors(base, other)
    groups = _cluster_names(base)
    paired: set[str] = set()
    columns = []
    for name, coefficient in combination.terms.items():
        scores_before = base.table.by_id(name)
        scores_after = other.table.by_id(name)
        shared = [example for example in scores_before if example in scores_after and example in usable]
        if not shared:
            # The combination has no value if one of its terms has no pairs.
            return None
        columns.append(_column_of_examples(base, coefficient, scores_before, scores_after, shared, groups))
        paired.update(shared)
    only_base, only_new = _scored_by_one(base, other, combination)
    return Pairs(
        columns=columns,
        constant=combination.constant,
        n=len(paired),
        only_base=only_base,
        only_new=only_new,
        combination=combination,
        clustered_by=tuple(groups),
    )


def _column_of_examples(
    base: Side,
    coefficient: float,
    scores_before: Mapping[str, float],
    scores_after: Mapping[str, float],
    shared: Sequence[str],
    groups: Sequence[str],
) -> PairedColumn:
    """The scores of the shared examples in both runs, with their clusters in the base run."""
    import numpy as np

    row_of_example = {example: row for row, example in enumerate(base.table.ids)}
    shared_rows = [row_of_example[example] for example in shared]
    clusters = []
    for group in groups:
        labels = base.table.groups[group]
        clusters.append([labels[row] for row in shared_rows])
    return PairedColumn(
        coefficient=coefficient,
        before=np.array([scores_before[example] for example in shared]),
        after=np.array([scores_after[example] for example in shared]),
        weights=None,
        clusters=clusters,
        units=_labels_of_fewest_clusters(clusters) or shared,
    )


def _scored_by_one(base: Side, other: Side, combination: Combination) -> tuple[int, int]:
    """The numbers of examples that have a score of the combination only in the base run, and only in the other run."""
    scored_by_base = _scored_examples(base, combination)
    scored_by_other = _scored_examples(other, combination)
    return len(scored_by_base - scored_by_other), len(scored_by_other - scored_by_base)


def _scored_examples(side: Side, combination: Combination) -> set[str]:
    """The examples that have a value in at least one of the columns, and no error."""
    scored: set[str] = set()
    for name in combination.terms:
        scored |= side.table.by_id(name).keys()
    return scored - _failed_examples(side)


def _failed_examples(side: Side) -> set[str]:
    failed: set[str] = set()
    for example, is_failed in zip(side.table.ids, side.table.has_error(), strict=True):
        if is_failed:
            failed.add(example)
    return failed


def _without_errors(base: Side, other: Side) -> set[str]:
    """The examples that both runs have, without an error in either."""
    failed = _failed_examples(base) | _failed_examples(other)
    return (set(base.table.ids) & set(other.table.ids)) - failed


def _pairs_by_label(base: Side, other: Side, combination: Combination) -> Pairs | None:
    """The pairs of a metric that is a mean over labels. What is paired are labels, with their values in both runs.

    The value of a label is computed only from examples that both runs have scored. This is decided separately for each
    column, because an example may have a value in one column in both runs, and in another column in only one run.
    """
    import numpy as np

    usable = _without_errors(base, other)
    before = _values_by_label(base, combination, base, other, usable)
    after = _values_by_label(other, combination, base, other, usable)
    shared = [label for label in before if label in after]
    if not shared:
        return None
    column = PairedColumn(
        coefficient=1.0,
        before=np.array([before[label] for label in shared]),
        after=np.array([after[label] for label in shared]),
        weights=None,
        clusters=(),
        units=shared,
    )
    only_base, only_new = _scored_by_one(base, other, combination)
    return Pairs(
        columns=[column],
        constant=0.0,
        n=len(shared),
        only_base=only_base,
        only_new=only_new,
        combination=combination,
    )


def _values_by_label(
    side: Side, combination: Combination, base: Side, other: Side, usable: set[str]
) -> dict[str, float]:
    """The value of one run for each label that has all columns, from the examples that both runs have scored."""
    import numpy as np

    labels = labels_of(side.table, combination.each)
    totals: dict[str, float] = {}
    columns_of_label: dict[str, int] = {}
    for column, coefficient in combination.terms.items():
        scored_in_base = base.table.by_id(column).keys()
        scored_in_other = other.table.by_id(column).keys()
        shared = scored_in_base & scored_in_other & usable
        is_shared = np.array([example in shared for example in side.table.ids], dtype=bool)
        # One column at a time, because the examples that both runs have scored may differ between columns.
        single_term = Combination({column: coefficient})
        sums = sums_of(side.table, single_term, labels, is_shared)
        for label, value in zip(sums.labels, sums.by_label().tolist(), strict=True):
            totals[label] = totals.get(label, combination.constant) + value
            columns_of_label[label] = columns_of_label.get(label, 0) + 1
    values: dict[str, float] = {}
    for label, total in totals.items():
        # A label that lacks one of the columns has no value.
        has_all_columns = columns_of_label[label] == len(combination.terms)
        if has_all_columns and not np.isnan(total):
            values[label] = total
    return values


def paired_on_tests(base: Side, other: Side, metric: str) -> bool:
    """True if the pairs of two runs are test examples within each repetition of a few-shot training."""
    if not _are_replicates(base, other):
        return False
    tested_before = base.table.on_tests(metric)
    tested_after = other.table.on_tests(metric)
    if tested_before is None or tested_after is None:
        return False
    return tested_before.tests == tested_after.tests


def _are_replicates(base: Side, other: Side) -> bool:
    """True if the examples of both runs are repetitions of an experiment, such as trainings, that can be paired."""
    replicates = base.record.design.replicates
    other_replicates = other.record.design.replicates
    if replicates is None or other_replicates is None:
        return False
    return replicates.group == other_replicates.group


def _pairs_of_replicates(base: Side, other: Side, metric: str) -> Pairs | None:
    """The pairs of runs whose examples are repetitions of an experiment, such as trainings on several splits.

    If both runs have scores of the same single test examples, these are paired within each repetition; otherwise, whole
    repetitions are paired.
    """
    import numpy as np

    mean_before = _by_replicate(base, metric)
    mean_after = _by_replicate(other, metric)
    shared = [label for label in mean_before if label in mean_after]
    if not shared:
        return None
    # The runs may have different splits and so different correlations between repetitions. The larger one is used,
    # because it gives the wider interval.
    correlation = max(_correlation(base, metric), _correlation(other, metric))
    only_base = len(mean_before) - len(shared)
    only_new = len(mean_after) - len(shared)
    tested_before = base.table.on_tests(metric)
    tested_after = other.table.on_tests(metric)
    if tested_before is None or tested_after is None or tested_before.tests != tested_after.tests:
        # Single test examples cannot be paired, so whole repetitions are.
        before = np.array([mean_before[label] for label in shared])
        after = np.array([mean_after[label] for label in shared])
        by = base.record.design.replicates.group if base.record.design.replicates else ""
        return Pairs(
            columns=[PairedColumn(1.0, before, after, None, (), shared)],
            constant=0.0,
            n=len(shared),
            only_base=only_base,
            only_new=only_new,
            estimated=difference_of_repetitions(changes_of(before, after), correlation, by=by),
            unpaired_unit=base.record.unit,
        )
    before = _scores_by_replicate(base, metric, tested_before, shared)
    after = _scores_by_replicate(other, metric, tested_after, shared)
    # A test example counts only in the repetitions in which both runs have a usable answer to it.
    lacks_answer = np.isnan(before) | np.isnan(after)
    is_paired = ~lacks_answer.all(axis=0)
    if not is_paired.any():
        return None
    before = np.where(lacks_answer, np.nan, before)[:, is_paired]
    after = np.where(lacks_answer, np.nan, after)[:, is_paired]
    tests = [f"test {number}" for number in np.flatnonzero(is_paired)]
    group_numbers = tested_before.groups
    if len(group_numbers):
        group_numbers = group_numbers[is_paired]
    groups = [str(group) for group in group_numbers.tolist()]
    column = PairedColumn(
        coefficient=1.0,
        before=mean_over_repetitions(before),
        after=mean_over_repetitions(after),
        weights=None,
        clusters=[groups] if groups else (),
        units=groups or tests,
    )
    return Pairs(
        columns=[column],
        constant=0.0,
        n=len(tests),
        only_base=only_base,
        only_new=only_new,
        estimated=difference_on_tests(changes_of(before, after), correlation, group_numbers),
        unpaired_unit=base.record.unit,
    )


def _correlation(side: Side, metric: str) -> float:
    replicates = side.record.design.replicates
    return 0.0 if replicates is None else replicates.correlation.get(metric, 0.0)


def _replicate_labels(side: Side, metric: str) -> list[str]:
    """The repetition that each score of a metric belongs to."""
    replicates = side.record.design.replicates
    assert replicates is not None
    names, _ = side.table.codes(replicates.group)
    return [names[code] for code in side.table.clusters(metric, replicates.group)]


def _by_replicate(side: Side, metric: str) -> dict[str, float]:
    """A dict from repetition to mean score. A split may have been trained with several patterns, which are averaged."""
    scores: dict[str, list[float]] = {}
    labels = _replicate_labels(side, metric)
    values_of_rows = side.table.values(metric).tolist()
    for label, value in zip(labels, values_of_rows, strict=True):
        scores.setdefault(label, []).append(value)
    return {label: sum(values) / len(values) for label, values in scores.items()}


def _scores_by_replicate(side: Side, metric: str, tested: ScoresOnTests, wanted: Sequence[str]) -> NDArray[np.float64]:
    """An array with a row for each of the wanted repetitions and a column for each test example."""
    import numpy as np

    labels = np.array(_replicate_labels(side, metric))
    return np.stack([mean_over_repetitions(tested.scores[labels == label]) for label in wanted])
