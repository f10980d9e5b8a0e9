"""Runs against each other: paired by example id, on what both have scored.

First the comparison itself, then what changed between the runs of a pair. Warnings about comparisons are in
:mod:`lmassay.statistics.caveats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import compress
from math import inf, isclose, isfinite
from typing import TYPE_CHECKING, Any

from lmassay.errors import UserError, did_you_mean
from lmassay.plugins.evaluations import metric_of
from lmassay.statistics.combination import Combination, labels_of, sums_of
from lmassay.statistics.distributions import false_discovery_rates
from lmassay.statistics.estimation import Estimate, Term
from lmassay.statistics.intervals import (
    ABSOLUTE_SLACK,
    RELATIVE_SLACK,
    Difference,
    Settings,
    difference_of,
    possible_change,
    the_same,
)
from lmassay.statistics.repetition import SAMPLE_OF
from lmassay.statistics.replicates import difference_of_repetitions, difference_on_tests, mean_over_repetitions
from lmassay.statistics.table import ScoresOnTests, ScoreTable, score_table
from lmassay.storage.store import Store
from lmassay.types import Better, Example, Row, RunRecord, Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of one run against the base run; ``p_adjusted`` holds the false discovery rate over all rows."""

    metric: str
    base: str
    new: str
    base_label: str
    new_label: str
    base_mean: float
    new_mean: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    n: int
    units: int = 0
    """What the test takes for independent: the pairs, or the clusters they belong to."""
    changed: int = 0
    """Those of the units that are not the same in both runs; the others do not show which run is better."""
    can_fall: int = 0
    """Those of the units that could be lower than in the base run: a score of 0 that lies between 0 and 1 could not."""
    can_rise: int = 0
    better: Better = "higher"
    """Which direction is better, as the metric declares."""
    only_base: int = 0
    """Examples that only the base run scored: they are in no pair, so nothing here refers to them."""
    only_new: int = 0
    estimate: Estimate | None = None
    """What difference, interval and p come from; for one-sided questions and other thresholds."""

    @property
    def relative(self) -> float | None:
        """The difference as a share of the base: what "falls by 43 %" means, unlike "falls by 43 points"."""
        return self.difference / abs(self.base_mean) if self.base_mean else None

    def as_json(self) -> dict[str, Any]:
        """All fields, with the method of the interval instead of everything that it was computed from."""
        values: dict[str, Any] = {}
        for field in fields(self):
            if field.name != "estimate":
                values[field.name] = getattr(self, field.name)
        values["relative"] = self.relative
        if self.estimate is not None:
            is_known = not self.estimate.reason
            values["method"] = self.estimate.method
            values["standard_error"] = self.estimate.standard_error if is_known else None
            values["degrees_of_freedom"] = self.estimate.degrees if is_known else None
        return values


@dataclass(frozen=True, slots=True)
class Side:
    """A run with its scores."""

    record: RunRecord
    table: ScoreTable
    averaged_samples: int = 0
    """How many samples of a question each score is the mean of (see :func:`with_equal_samples`); 0 for none."""

    @property
    def name(self) -> str:
        return f"{self.record.label} on {self.record.model}"

    @property
    def depends_on(self) -> Mapping[str, str]:
        """The parts of the signature, by name."""
        return self.record.depends_on


def load_side(store: Store, record: RunRecord, groups: Mapping[str, str] | None = None) -> Side:
    """A run with its scores, or with those of the examples that have the labels named, such as ``category: Age``."""
    with_test_scores = record.design.replicates is not None
    if not groups:
        return Side(record, score_table(store, record.id, with_test_scores=with_test_scores))
    rows = store.score_rows(record.id, with_test_scores=with_test_scores)
    return Side(record, ScoreTable(_rows_with_labels(rows, groups)))


def _rows_with_labels(rows: Iterable[Row], groups: Mapping[str, str]) -> Iterator[Row]:
    for row in rows:
        if all(row.example.groups.get(group) == label for group, label in groups.items()):
            yield row


def with_equal_samples(sides: Sequence[Side]) -> list[Side]:
    """Runs that asked each question equally often as they are; otherwise with the mean score of each question.

    Samples can be paired one by one only if both runs have equally many. The mean over the samples of a question
    estimates the same expected score whatever their number, so questions can always be paired. Repetitions of an
    experiment, such as splits, are averaged when they are paired.
    """
    if len({_samples_of(side) for side in sides}) <= 1 or any(side.record.design.replicates for side in sides):
        return list(sides)
    return [_with_question_means(side) for side in sides]


def _samples_of(side: Side) -> int:
    """How many samples each question has; 0 if questions were asked once."""
    if SAMPLE_OF not in side.table.groups:
        return 0
    return max(Counter(side.table.groups[SAMPLE_OF]).values(), default=0)


def _with_question_means(side: Side) -> Side:
    import numpy as np

    samples = _samples_of(side)
    if samples == 0:
        return side
    table = side.table
    rows_of_question: dict[str, list[int]] = {}
    for row, question in enumerate(table.groups[SAMPLE_OF]):
        rows_of_question.setdefault(question, []).append(row)
    in_error = table.in_error()
    means = []
    for question, rows in rows_of_question.items():
        values: dict[str, float] = {}
        for metric in table.metrics:
            scores = table.column(metric)[rows]
            scores = scores[~np.isnan(scores)]
            if len(scores):
                values[metric] = float(scores.mean())
        groups = {name: labels[rows[0]] for name, labels in table.groups.items() if name != SAMPLE_OF}
        example = Example(question, {}, None, groups)
        if in_error[rows].any():
            # As for any other example: what is in error is not compared, and a gate refuses it.
            means.append(Row(example, "error", error="a sample is in error"))
        else:
            means.append(Row(example, "scored" if values else "unscored", Score(values)))
    return Side(side.record, ScoreTable(means), samples)


def compare_runs(base: Side, others: Sequence[Side], metrics: Sequence[str] | None = None) -> list[Comparison]:
    """Each other run against the base: the headline metrics of its task, or those named, in their order."""
    available = set(comparable(base))
    compared = [metric for metric in metrics or headline(base) if metric in available]
    rows: list[Comparison] = []
    for other in others:
        rows += _compare_pair(base, other, compared)
    return with_false_discovery_rate(rows)


def headline(side: Side) -> Sequence[str]:
    """The metrics that a run's task puts first; all of a task that does not say, those it reports first."""
    declared: Sequence[str] = side.record.design.headline
    if declared:
        return declared
    reported = [result.metric for result in side.record.results if side.table.has(result.metric)]
    return list(dict.fromkeys([*reported, *side.table.metrics]))


def comparable(side: Side) -> list[str]:
    """The metrics that a run can be compared by: those an example has, and those put together from them."""
    return list(dict.fromkeys([*side.record.design.combinations, *side.table.metrics]))


def known_metrics(base: Side, others: Sequence[Side], names: Iterable[str]) -> list[str]:
    """The names, each once, if all runs have such metrics; the first that a run does not have is an error."""
    unique_names = list(dict.fromkeys(names))
    for name in unique_names:
        for side in (base, *others):
            _require_metric(side, name, base)
    return unique_names


def _require_metric(side: Side, name: str, base: Side) -> None:
    available = comparable(side)
    if name in available:
        return
    if any(result.metric == name for result in side.record.results):
        listed = ", ".join(comparable(base))
        raise UserError(f"'{name}' is not a mean over examples, so runs cannot be paired by it; choose one of {listed}")
    _require_scores(side)
    raise UserError(f"{side.record.id} has no metric '{name}'{did_you_mean(name, available)}")


def _require_scores(side: Side) -> None:
    table = side.table
    if table.metrics:
        return
    if not len(table):
        raise UserError(f"{side.record.id} has no examples, so the runs share no example with a score")
    counts = f"{len(table):,} unscored" if not table.n_error else f"{len(table):,} unscored or in error"
    raise UserError(
        f"no example of {side.record.id} has a score ({counts}), so there is nothing to compare; "
        f"`lmassay show {side.record.id}` tells why"
    )


def require_one_task(base: Side, other: Side) -> None:
    """Refuse runs of different tasks: they have no scores in common, even where metrics have the same name."""
    if other.record.task != base.record.task:
        raise UserError(
            f"{other.record.id} is a {other.record.task} run, {base.record.id} a {base.record.task} run; "
            "compare runs of one task"
        )


def share_examples(base: Side, other: Side) -> bool:
    """True if two runs of one task have an example in common, or what their task pairs by."""
    if base.record.task != other.record.task:
        return False
    key = pairing_key(base, other)
    return not set(keys_of(base, key)).isdisjoint(keys_of(other, key))


def _compare_pair(base: Side, other: Side, metrics: Sequence[str]) -> list[Comparison]:
    require_one_task(base, other)
    rows = []
    for metric in metrics:
        pairs = paired_columns(base, other, metric)
        if pairs is not None:
            rows.append(_row(base, other, metric, pairs))
    if not rows:
        _require_scores(base)
        _require_scores(other)
        raise UserError(
            f"{base.record.id} and {other.record.id} share no example with a score; were they run on the same data?"
        )
    return rows


@dataclass(frozen=True, slots=True)
class PairedColumn:
    """The scores of one column on the units that both runs have scored: examples, or what stands for them."""

    coefficient: float
    before: NDArray[np.float64]
    after: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    clusters: Sequence[Sequence[str]]
    """One sequence of labels for each grouping of the units."""
    units: Sequence[str]
    """What each score belongs to in the test: its cluster (of two groupings, the one with fewer), or itself."""

    def changes(self) -> NDArray[np.float64]:
        """New minus base; 0 where scores differ by rounding only."""
        return _changes(self.before, self.after)

    def mean(self, values: NDArray[np.float64]) -> float:
        if self.weights is None:
            return float(values.mean())
        return float((values * self.weights).sum() / self.weights.sum())


@dataclass(frozen=True, slots=True)
class Pairs:
    """All that two runs are compared on by one metric."""

    columns: Sequence[PairedColumn]
    constant: float
    n: int
    """Examples, or what stands for them, that are in a pair."""
    only_base: int
    only_new: int
    combination: Combination | None = None
    clustered_by: tuple[str, ...] = ()
    estimated: Estimate | None = None
    """The difference, if it is more than a mean over independent pairs: of repetitions on overlapping data."""

    def base_mean(self) -> float:
        return self.constant + sum(column.coefficient * column.mean(column.before) for column in self.columns)

    def new_mean(self) -> float:
        return self.constant + sum(column.coefficient * column.mean(column.after) for column in self.columns)

    def difference(self, settings: Settings) -> Difference:
        """Interval and p from the differences of single pairs, so that nothing outside the pairs can matter."""
        import numpy as np

        if self.estimated is not None:
            low, high = self.estimated.interval(settings.confidence)
            return Difference(self.estimated.value, low, high, self.estimated.p_value(), self.n, self.estimated)
        terms = []
        # Scores between two ends cannot differ by more than the ends do.
        furthest = 0.0
        for column in self.columns:
            step = possible_change(np.concatenate([column.before, column.after]))
            terms.append(Term(column.changes(), column.coefficient, column.clusters, column.weights, step=step))
            low, high = _bounds(column)
            furthest += abs(column.coefficient) * (high - low)
        return difference_of(terms, settings, self.clustered_by, furthest if isfinite(furthest) else None)

    def at_end(self, *, falls: bool) -> Pairs | None:
        """The pairs if every new score were as low, or as high, as it can be; None where scores have no end."""
        import numpy as np

        columns = []
        for column in self.columns:
            low, high = _column_bounds(self.combination, column)
            # A column that is subtracted makes the metric fall where it rises.
            end = low if falls is (column.coefficient > 0) else high
            if not isfinite(end):
                return None
            columns.append(replace(column, after=np.full_like(column.before, end)))
        return replace(self, columns=columns, estimated=None)


def paired_columns(base: Side, other: Side, metric: str) -> Pairs | None:
    """The pairs of two runs; None where they have none."""
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


def _pairs_of_metric(base: Side, other: Side, metric: str, key: str | None) -> Pairs | None:
    """A metric that is a mean over examples, or over what stands for them; by label where both runs have that."""
    import numpy as np

    if are_aligned(base, other, metric, key) and metric not in base.record.design.crossed:
        return _pairs_of_aligned_rows(base, other, metric)
    before = units_of(base, metric, key)
    after = units_of(other, metric, key)
    by_label_before = labelled_units_of(base, metric, key)
    by_label_after = labelled_units_of(other, metric, key)
    if not by_label_before or not by_label_after:
        by_label_before = _unlabelled(before)
        by_label_after = _unlabelled(after)
    shared: list[tuple[str, str]] = []
    for unit in by_label_before:
        # Units that stand for another number of rows in the two runs would compare different rows.
        if unit in by_label_after and by_label_before[unit].weight == by_label_after[unit].weight:
            shared.append(unit)
    if not shared:
        return None
    weights = np.array([by_label_before[unit].weight for unit in shared])
    clusters = []
    for grouping in range(len(by_label_before[shared[0]].clusters)):
        clusters.append([by_label_before[unit].clusters[grouping] for unit in shared])
    names = [name for name in base.record.design.clusters if name in base.table.groups]
    if len(clusters) > len(names):
        names.append(base.record.design.crossed[metric])
    paired = {unit for unit, _ in shared}
    column = PairedColumn(
        coefficient=1.0,
        before=np.array([by_label_before[unit].value for unit in shared]),
        after=np.array([by_label_after[unit].value for unit in shared]),
        weights=None if bool((weights == weights[0]).all()) else weights,
        clusters=clusters,
        units=_fewest(clusters) or [unit for unit, _ in shared],
    )
    return Pairs(
        columns=[column],
        constant=0.0,
        n=len(paired),
        only_base=len(before.keys() - paired),
        only_new=len(after.keys() - paired),
        clustered_by=tuple(names),
    )


def are_aligned(base: Side, other: Side, metric: str, key: str | None) -> bool:
    """Whether row n of both runs is the same example, which counts once, so that whole columns can be compared."""
    weighted = metric in base.record.design.weights or metric in other.record.design.weights
    if key is not None or weighted or len(base.table) != len(other.table):
        return False
    return base.table.has_unique_ids and base.table.ids == other.table.ids


def _pairs_of_aligned_rows(base: Side, other: Side, metric: str) -> Pairs | None:
    """The same pairs as by ids, without a look-up for each of a million examples."""
    import numpy as np

    before = base.table.column(metric)
    after = other.table.column(metric)
    in_base = ~np.isnan(before)
    in_other = ~np.isnan(after)
    rows = np.flatnonzero(in_base & in_other)
    if not len(rows):
        return None
    names = [name for name in base.record.design.clusters if name in base.table.groups]
    clusters = [_entries(base.table.groups[name], rows) for name in names]
    column = PairedColumn(
        coefficient=1.0,
        before=before[rows],
        after=after[rows],
        weights=None,
        clusters=clusters,
        units=_fewest(clusters) or _entries(base.table.ids, rows),
    )
    return Pairs(
        columns=[column],
        constant=0.0,
        n=len(rows),
        only_base=int((in_base & ~in_other).sum()),
        only_new=int((in_other & ~in_base).sum()),
        clustered_by=tuple(names),
    )


def _entries(values: Sequence[str], rows: NDArray[np.int64]) -> Sequence[str]:
    """The values of these rows, which are sorted."""
    if len(rows) == len(values):
        return values
    return [values[row] for row in rows.tolist()]


def _fewest(clusters: Sequence[Sequence[str]]) -> Sequence[str]:
    """The labels of the grouping with the fewest clusters, which decide what can be significant."""

    def count(labels: Sequence[str]) -> int:
        return len(set(labels))

    return min(clusters, key=count, default=())


def _pairs_of_combination(base: Side, other: Side, combination: Combination) -> Pairs | None:
    """A metric that combines several columns: each is paired on the examples that have it in both runs."""
    import numpy as np

    row_of_example = {example: row for row, example in enumerate(base.table.ids)}
    usable = _without_errors(base, other)
    groups = [name for name in base.record.design.clusters if name in base.table.groups]
    paired: set[str] = set()
    columns = []
    for name, coefficient in combination.terms.items():
        before = base.table.by_id(name)
        after = other.table.by_id(name)
        shared = [example for example in before if example in after and example in usable]
        if not shared:
            return None
        clusters = []
        for group in groups:
            labels = base.table.groups[group]
            clusters.append([labels[row_of_example[example]] for example in shared])
        column = PairedColumn(
            coefficient=coefficient,
            before=np.array([before[example] for example in shared]),
            after=np.array([after[example] for example in shared]),
            weights=None,
            clusters=clusters,
            units=clusters[0] if clusters else shared,
        )
        columns.append(column)
        paired.update(shared)
    only_base, only_new = _scored_by_one(base, other, combination)
    return Pairs(columns, combination.constant, len(paired), only_base, only_new, combination, tuple(groups))


def _scored_by_one(base: Side, other: Side, combination: Combination) -> tuple[int, int]:
    """How many examples have a score of the combination in the base run only, and in the other run only."""
    scored_by_base = _scored_examples(base, combination)
    scored_by_other = _scored_examples(other, combination)
    return len(scored_by_base - scored_by_other), len(scored_by_other - scored_by_base)


def _scored_examples(side: Side, combination: Combination) -> set[str]:
    """The examples that have one of the columns at least, and no error."""
    scored: set[str] = set()
    for name in combination.terms:
        scored |= side.table.by_id(name).keys()
    return scored - _failed_examples(side)


def _failed_examples(side: Side) -> set[str]:
    failed: set[str] = set()
    for example, is_failed in zip(side.table.ids, side.table.in_error(), strict=True):
        if is_failed:
            failed.add(example)
    return failed


def _pairs_by_label(base: Side, other: Side, combination: Combination) -> Pairs | None:
    """A metric that is a mean over labels: labels are paired, each by the examples that both runs have scored.

    Each column is paired by itself, as for other combinations: an example may have one of them in both runs and another
    in one run only.
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
    return Pairs([column], 0.0, len(shared), only_base, only_new, combination)


def _values_by_label(
    side: Side, combination: Combination, base: Side, other: Side, usable: set[str]
) -> dict[str, float]:
    """The value of one run within each label that has all columns, from the examples that both runs have scored."""
    import numpy as np

    labels = labels_of(side.table, combination.each)
    totals: dict[str, float] = {}
    columns_of_label: dict[str, int] = {}
    for column, coefficient in combination.terms.items():
        shared = base.table.by_id(column).keys() & other.table.by_id(column).keys() & usable
        is_shared = np.array([example in shared for example in side.table.ids], dtype=bool)
        sums = sums_of(side.table, Combination({column: coefficient}), labels, is_shared)
        for label, value in zip(sums.labels, sums.by_label().tolist(), strict=True):
            totals[label] = totals.get(label, combination.constant) + value
            columns_of_label[label] = columns_of_label.get(label, 0) + 1
    values: dict[str, float] = {}
    for label, total in totals.items():
        # A label without one of the columns has no value.
        has_all_columns = columns_of_label[label] == len(combination.terms)
        if has_all_columns and not np.isnan(total):
            values[label] = total
    return values


def _pairs_of_replicates(base: Side, other: Side, metric: str) -> Pairs | None:
    """Repetitions of an experiment, such as trainings on splits: paired by test within them, if both runs allow it."""
    import numpy as np

    mean_before = _by_replicate(base, metric)
    mean_after = _by_replicate(other, metric)
    shared = [label for label in mean_before if label in mean_after]
    if not shared:
        return None
    correlation = max(_correlation(base, metric), _correlation(other, metric))
    only_base = len(mean_before) - len(shared)
    only_new = len(mean_after) - len(shared)
    tested_before = base.table.on_tests(metric)
    tested_after = other.table.on_tests(metric)
    if tested_before is None or tested_after is None or tested_before.tests != tested_after.tests:
        # Single tests cannot be paired: repetitions are compared as wholes.
        before = np.array([mean_before[label] for label in shared])
        after = np.array([mean_after[label] for label in shared])
        by = base.record.design.replicates.group if base.record.design.replicates else ""
        return Pairs(
            columns=[PairedColumn(1.0, before, after, None, (), shared)],
            constant=0.0,
            n=len(shared),
            only_base=only_base,
            only_new=only_new,
            estimated=difference_of_repetitions(_changes(before, after), correlation, by=by),
        )
    before = _scores_by_replicate(base, metric, tested_before, shared)
    after = _scores_by_replicate(other, metric, tested_after, shared)
    # A test counts in those repetitions in which both runs have a usable answer to it.
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
        estimated=difference_on_tests(_changes(before, after), correlation, group_numbers),
    )


def _are_replicates(base: Side, other: Side) -> bool:
    """True if the examples of both runs are repetitions that can be paired."""
    replicates = base.record.design.replicates
    other_replicates = other.record.design.replicates
    if replicates is None or other_replicates is None:
        return False
    return replicates.group == other_replicates.group


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
    """The mean score of each repetition: several patterns of one split are averaged."""
    scores: dict[str, list[float]] = {}
    for label, value in zip(_replicate_labels(side, metric), side.table.values(metric).tolist(), strict=True):
        scores.setdefault(label, []).append(value)
    return {label: sum(values) / len(values) for label, values in scores.items()}


def _scores_by_replicate(side: Side, metric: str, tested: ScoresOnTests, wanted: Sequence[str]) -> NDArray[np.float64]:
    """A row for each repetition that is wanted, a column for each test."""
    import numpy as np

    labels = np.array(_replicate_labels(side, metric))
    return np.stack([mean_over_repetitions(tested.scores[labels == label]) for label in wanted])


def _changes(before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
    """New minus base; 0 where scores differ by rounding only."""
    import numpy as np

    return np.where(the_same(before, after), 0.0, after - before)


def paired_on_tests(base: Side, other: Side, metric: str) -> bool:
    """True if a metric of two runs is compared test by test within repetitions."""
    if not _are_replicates(base, other):
        return False
    tested_before = base.table.on_tests(metric)
    tested_after = other.table.on_tests(metric)
    if tested_before is None or tested_after is None:
        return False
    return tested_before.tests == tested_after.tests


def pairing_text(base: Side, other: Side, rows: Sequence[Comparison] = ()) -> str:
    """What is paired, and what is treated as independent, in the comparisons of two runs."""
    design = base.record.design
    metrics = [row.metric for row in rows]
    tested = [metric for metric in metrics if paired_on_tests(base, other, metric)]
    if design.replicates is not None and tested:
        others = [metric for metric in metrics if metric not in tested]
        group = design.replicates.group
        if not others:
            return f"paired by test within each {group}"
        return f"{', '.join(tested)} paired by test within each {group}, {', '.join(others)} by {group}"
    text = f"paired by {pairing_key(base, other) or 'example'}"
    clusters = _clusters_text(rows)
    if clusters:
        text += f", clustered by {clusters}"
    return text


def _clusters_text(rows: Sequence[Comparison]) -> str:
    """What the rows are clustered by; metrics are named where they are clustered differently."""
    # A dictionary in place of a set keeps the order of the metrics.
    metrics_by_clusters: dict[str, dict[str, None]] = {}
    for row in rows:
        names = () if row.estimate is None else row.estimate.clustered_by
        clusters = " and ".join(name.replace("_", " ") for name in names)
        metrics_by_clusters.setdefault(clusters, {})[row.metric] = None
    if len(metrics_by_clusters) == 1:
        return next(iter(metrics_by_clusters))
    parts = []
    for clusters, metrics in metrics_by_clusters.items():
        if clusters:
            parts.append(f"{clusters} ({', '.join(metrics)})")
    return " or ".join(parts)


def _without_errors(base: Side, other: Side) -> set[str]:
    """The examples that both runs have and neither has in error."""
    failed = _failed_examples(base) | _failed_examples(other)
    return (set(base.table.ids) & set(other.table.ids)) - failed


def _row(base: Side, other: Side, metric: str, pairs: Pairs) -> Comparison:
    difference = pairs.difference(base.record.settings)
    counts = count_changes(pairs)
    return Comparison(
        metric=metric,
        base=base.record.id,
        new=other.record.id,
        base_label=base.name,
        new_label=other.name,
        base_mean=pairs.base_mean(),
        new_mean=pairs.new_mean(),
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        p_adjusted=None,
        n=pairs.n,
        units=counts.units,
        changed=counts.changed,
        can_fall=counts.can_fall,
        can_rise=counts.can_rise,
        better=metric_of(base.record, metric).better,
        only_base=pairs.only_base,
        only_new=pairs.only_new,
        estimate=difference.estimate,
    )


@dataclass(frozen=True, slots=True)
class PairingUnit:
    """What is paired: an example, or the examples that share a label; ``weight`` rows."""

    value: float
    weight: float
    clusters: tuple[str, ...]
    """Its label in each group that the task clusters by."""


def pairing_key(base: Side, other: Side) -> str | None:
    """None if the runs share examples; else the group that their task pairs by."""
    pair_by = base.record.design.pair_by
    if not pair_by or not set(base.table.ids).isdisjoint(other.table.ids):
        return None
    group = pair_by[0]
    return group if group in base.table.groups and group in other.table.groups else None


def unit_names(side: Side, key: str | None) -> dict[str, str]:
    """All that a run could be paired by, with the state of it: scored, unscored or error; any score makes it scored."""

    table = side.table
    states: dict[str, str] = {}
    for unit, is_scored, is_failed in zip(keys_of(side, key), table.has_score(), table.in_error(), strict=True):
        if is_scored:
            states[unit] = "scored"
        elif is_failed and states.get(unit) != "scored":
            states[unit] = "error"
        else:
            states.setdefault(unit, "unscored")
    return states


def keys_of(side: Side, key: str | None) -> Sequence[str]:
    """What each row of a run is paired by: its id, or its label in the group ``key``."""
    return side.table.ids if key is None else side.table.groups[key]


def units_of(side: Side, metric: str, key: str | None) -> dict[str, PairingUnit]:
    """What a run is paired by, with its scores; without those that have none."""
    import numpy as np

    table = side.table
    column = table.column(metric)
    weight_column = side.record.design.weights.get(metric)
    weights = np.ones(len(table)) if weight_column is None else table.column(weight_column)
    groups = [table.groups[name] for name in side.record.design.clusters if name in table.groups]
    sums: dict[str, tuple[float, float, tuple[str, ...]]] = {}
    for row, (unit, value, weight) in enumerate(zip(keys_of(side, key), column, weights, strict=True)):
        if np.isnan(value):
            continue
        labels = tuple(group[row] for group in groups)
        # Of examples that are paired together, the clusters of the first one count.
        total, count, first_labels = sums.get(unit, (0.0, 0.0, labels))
        sums[unit] = (total + float(value * weight), count + float(weight), first_labels)
    # Without weights, averages over examples that share a label count the same, however many a run has of it.
    units: dict[str, PairingUnit] = {}
    for unit, (total, count, labels) in sums.items():
        if count:
            units[unit] = PairingUnit(total / count, 1.0 if weight_column is None else count, labels)
    return units


def labelled_units_of(side: Side, metric: str, key: str | None) -> dict[tuple[str, str], PairingUnit]:
    """The units of each label of a metric that is crossed with something; empty where the run has no labels."""
    import numpy as np

    table = side.table
    crossed = side.record.design.crossed.get(metric)
    outcomes = None if crossed is None else table.outcomes(metric)
    if outcomes is None:
        return {}
    weight_column = side.record.design.weights.get(metric)
    weight_of_example = np.ones(len(table)) if weight_column is None else table.column(weight_column)
    rows_of_example = np.bincount(outcomes.table_rows, weights=outcomes.rows, minlength=len(table))
    keys = keys_of(side, key)
    groups = [table.groups[name] for name in side.record.design.clusters if name in table.groups]
    sums: dict[tuple[str, str], tuple[float, float, tuple[str, ...]]] = {}
    for row, label, value, rows in zip(
        outcomes.table_rows.tolist(), outcomes.labels, outcomes.values.tolist(), outcomes.rows.tolist(), strict=True
    ):
        # Together, the outcomes of an example count as much as the example.
        weight = float(rows * (weight_of_example[row] / rows_of_example[row]))
        unit = (keys[row], label)
        labels_of_row = tuple(group[row] for group in groups)
        total, count, clusters = sums.get(unit, (0.0, 0.0, (*labels_of_row, label)))
        sums[unit] = (total + value * weight, count + weight, clusters)
    units: dict[tuple[str, str], PairingUnit] = {}
    for unit, (total, count, clusters) in sums.items():
        if count:
            units[unit] = PairingUnit(total / count, count, clusters)
    return units


def _unlabelled(units: Mapping[str, PairingUnit]) -> dict[tuple[str, str], PairingUnit]:
    return {(name, ""): unit for name, unit in units.items()}


def with_false_discovery_rate(rows: Sequence[Comparison]) -> list[Comparison]:
    """The rows with their p-values adjusted for how many there are (Benjamini and Hochberg 1995)."""
    rates = iter(false_discovery_rates([row.p for row in rows if row.p is not None]))
    adjusted = []
    for row in rows:
        if row.p is not None:
            row = replace(row, p_adjusted=next(rates))
        adjusted.append(row)
    return adjusted


# --- what changed, and what could have --------------------------------------------------------------------------------

# Scores between 0 and 1 have an end: an example that the base run has at 0 cannot fall. Where few can change in one
# direction, no difference in that direction can ever be significant.

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Numbers of units: all, those that changed, and those that could be lower or higher than in the base run."""

    units: int
    changed: int
    can_fall: int
    can_rise: int


def is_same(before: float | None, after: float | None) -> bool:
    """True if a score is the one it was, but for rounding; no score is the same as none."""
    if before is None or after is None:
        return before is after
    return isclose(before, after, rel_tol=RELATIVE_SLACK, abs_tol=ABSOLUTE_SLACK)


def same_scores(before: NDArray[np.float64], after: NDArray[np.float64] | float) -> NDArray[np.bool_]:
    """Which scores are the same as :func:`is_same` sees it; ``after`` may be one number for all, also infinite."""
    import numpy as np

    if isinstance(after, float) and not isfinite(after):
        return np.zeros(len(before), dtype=bool)
    slack = np.maximum(RELATIVE_SLACK * np.maximum(np.abs(before), np.abs(after)), ABSOLUTE_SLACK)
    is_close: NDArray[np.bool_] = np.abs(before - after) <= slack
    return is_close


def count_changes(pairs: Pairs) -> ChangeCounts:
    """How many units changed, and how many could have: by the scores that are paired."""
    units: set[str] = set()
    changed: set[str] = set()
    # Units that could make the metric lower or higher than it is in the base run.
    lower: set[str] = set()
    higher: set[str] = set()
    for column in pairs.columns:
        low, high = _column_bounds(pairs.combination, column)
        # A column that is subtracted makes the metric fall where it rises.
        falls, rises = (lower, higher) if column.coefficient > 0 else (higher, lower)
        units.update(column.units)
        changed.update(compress(column.units, ~same_scores(column.before, column.after)))
        falls.update(compress(column.units, ~same_scores(column.before, low)))
        rises.update(compress(column.units, ~same_scores(column.before, high)))
    return ChangeCounts(len(units), len(changed), len(lower), len(higher))


def _column_bounds(combination: Combination | None, column: PairedColumn) -> Bounds:
    """The bounds of one column are those of its combination; of several columns only the scores can tell."""
    if combination is None or len(combination.terms) > 1:
        return _bounds(column)
    if combination.each is not None:
        return combination.bounds
    ends = [(end - combination.constant) / column.coefficient for end in combination.bounds]
    return min(ends), max(ends)


def _bounds(column: PairedColumn) -> Bounds:
    """Scores that are all between 0 and 1 are assumed to be limited to this range."""
    for scores in (column.before, column.after):
        if not bool(((scores >= 0) & (scores <= 1)).all()):
            return -inf, inf
    return 0.0, 1.0
