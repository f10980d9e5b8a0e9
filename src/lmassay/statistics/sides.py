"""Loads a run with its scores, to compare it with another run. Each of the two runs is a *side* of the comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lmassay.statistics.repetition import SAMPLE_OF
from lmassay.statistics.table import ScoreTable, score_table
from lmassay.storage.store import Store
from lmassay.types import Example, Row, RunRecord, Score


@dataclass(frozen=True, slots=True)
class Side:
    """A run with its scores."""

    record: RunRecord
    table: ScoreTable
    averaged_samples: int = 0
    """The number of samples (answers to one question) of which each score is the mean; 0 if scores are not averaged.

    See :func:`comparable_sides`.
    """

    @property
    def name(self) -> str:
        """Label and model, for tables."""
        return self.record.title

    @property
    def depends_on(self) -> Mapping[str, str]:
        """The parts of the signature, by name."""
        return self.record.depends_on


def load_side(store: Store, record: RunRecord, groups: Mapping[str, str] | None = None) -> Side:
    """Load a run with its scores.

    With ``groups``, only the examples that have these labels are loaded; for example, ``{"category": "Age"}``.
    """
    with_test_scores = record.design.replicates is not None
    if not groups:
        return Side(record, score_table(store, record.id, with_test_scores=with_test_scores))
    rows = store.score_rows(record.id, with_test_scores=with_test_scores)
    return Side(record, ScoreTable(_rows_with_labels(rows, groups)))


def _rows_with_labels(rows: Iterable[Row], groups: Mapping[str, str]) -> Iterator[Row]:
    for row in rows:
        if all(row.example.groups.get(group) == label for group, label in groups.items()):
            yield row


def comparable_sides(sides: Sequence[Side]) -> list[Side]:
    """Return the runs unchanged if all asked each question equally often; otherwise with one mean score per question.

    Samples (several answers to one question) can be paired one by one only if the runs have equally many. The mean over
    the samples estimates the same expected score whatever their number, so means can always be paired. Repetitions of
    an experiment, such as trainings on several splits, are left unchanged: they are averaged when they are paired.
    """
    numbers_of_samples = {_samples_of(side) for side in sides}
    are_repetitions = any(side.record.design.replicates for side in sides)
    if len(numbers_of_samples) <= 1 or are_repetitions:
        return list(sides)
    return [_with_question_means(side) for side in sides]


def _samples_of(side: Side) -> int:
    """The number of samples of each question; 0 if every question was asked once."""
    if SAMPLE_OF not in side.table.groups:
        return 0
    return max(Counter(side.table.groups[SAMPLE_OF]).values(), default=0)


def _with_question_means(side: Side) -> Side:
    """The run with one row per question: the mean of each metric over the samples that have a score."""
    import numpy as np

    samples = _samples_of(side)
    if samples == 0:
        return side
    table = side.table
    rows_of_question: dict[str, list[int]] = {}
    for row, question in enumerate(table.groups[SAMPLE_OF]):
        rows_of_question.setdefault(question, []).append(row)
    has_error = table.has_error()
    question_rows = []
    for question, rows in rows_of_question.items():
        values: dict[str, float] = {}
        for metric in table.metrics:
            scores = table.column(metric)[rows]
            scores = scores[~np.isnan(scores)]
            if len(scores):
                values[metric] = float(scores.mean())
        groups = {name: labels[rows[0]] for name, labels in table.groups.items() if name != SAMPLE_OF}
        example = Example(question, {}, None, groups)
        if has_error[rows].any():
            # An example with an error is not compared, and a gate refuses to judge a run that has one. A question is
            # such an example if one of its samples has an error.
            question_rows.append(Row(example, "error", error="a sample has an error"))
        else:
            question_rows.append(Row(example, "scored" if values else "unscored", Score(values)))
    return Side(side.record, ScoreTable(question_rows), samples)
