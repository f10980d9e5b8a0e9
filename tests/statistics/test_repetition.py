"""The variance within and between questions that were asked several times."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.statistics.intervals import mean_result
from lmassay.statistics.repetition import SAMPLE_OF, sample_variances, variance_results
from lmassay.statistics.table import ScoreTable
from lmassay.types import Example, Row, Score


def table_of(answers: list[list[float]]) -> ScoreTable:
    rows = []
    for question, samples in enumerate(answers):
        for number, value in enumerate(samples):
            example = Example(f"q{question}~{number}", {}, None, {SAMPLE_OF: f"q{question}"})
            rows.append(Row(example, "scored", Score({"score": value})))
    return ScoreTable(rows)


def test_both_variances_are_found_again_in_simulated_answers():
    rng = np.random.default_rng(1)
    questions = np.repeat(np.arange(4000), 3)
    values = rng.normal(0, 2.0, 4000)[questions] + rng.normal(0, 1.0, 12000)
    parts = sample_variances(values, questions)
    assert parts is not None
    assert parts.within == pytest.approx(1.0, rel=0.05)
    assert parts.between == pytest.approx(4.0, rel=0.07)


def test_the_order_of_rows_does_not_matter():
    values = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    questions = np.array([0, 0, 1, 1, 2, 2])
    shuffled = np.array([5, 0, 3, 1, 4, 2])
    assert sample_variances(values, questions) == sample_variances(values[shuffled], questions[shuffled])


def test_single_samples_and_single_questions_have_no_variances():
    assert sample_variances(np.array([1.0, 0.0]), np.array([0, 1])) is None
    assert sample_variances(np.array([1.0, 0.0]), np.array([0, 0])) is None
    assert sample_variances(np.array([1.0, np.nan, 0.0, 1.0]), np.array([0, 0, 1, 1])) is None


def test_results_have_the_number_of_questions():
    results = variance_results(table_of([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), "score")
    assert [(result.metric, result.n) for result in results] == [("score.within", 3), ("score.between", 3)]
    assert results[0].value == pytest.approx(0.5 / 3)
    assert results[0].method.startswith("none")


def test_samples_are_clustered_although_the_task_names_no_clusters():
    result = mean_result(table_of([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), "score")
    assert result.clusters == {SAMPLE_OF: 4}
    assert result.n == 12
