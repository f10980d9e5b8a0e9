"""The variance of scores if each question was asked several times.

The answers to one question are called its *samples*. They are not independent, so their rows form a cluster
(``SAMPLE_OF``). The cluster-robust variance of a mean has two parts: the variance between questions, and the variance
within questions divided by the number of samples. More samples reduce only the second part; only more questions reduce
the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmassay.types import OVERALL, Result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmassay.statistics.table import ScoreTable

SAMPLE_OF = "sampled_example"
"""The group of rows that are samples; its labels are the ids of the examples (questions) to which they belong."""
# A variance needs two values: two samples of a question, and two questions.
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class SampleVariances:
    """The two parts of the variance of a single answer's score."""

    within: float
    """The mean variance of the samples of a question, which is due to chance."""
    between: float
    """The variance of the questions' expected scores, which is due to differences between questions."""
    questions: int
    """The number of questions with at least two scored samples, from which both parts are computed."""


def sample_variances(values: NDArray[np.float64], questions: NDArray[np.int64]) -> SampleVariances | None:
    """Compute both parts by an analysis of variance; None unless two questions have two scored samples each.

    ``values`` are the scores of all samples, ``questions`` the number of the question to which each belongs. The
    variance of the question means also contains chance: the variance within questions divided by the number of samples.
    It is subtracted, and the result is at least 0.

    >>> import numpy as np
    >>> sample_variances(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    SampleVariances(within=0.0, between=0.5, questions=2)
    """
    import numpy as np

    means = []
    variances = []
    # The variance of each question's mean that is due to chance.
    noises = []
    order = np.argsort(questions, kind="stable")
    borders = np.flatnonzero(np.diff(questions[order])) + 1
    for samples in np.split(values[order], borders):
        samples = samples[~np.isnan(samples)]
        if len(samples) < _FEWEST:
            continue
        variance = float(samples.var(ddof=1))
        means.append(float(samples.mean()))
        variances.append(variance)
        noises.append(variance / len(samples))
    if len(means) < _FEWEST:
        return None
    between = float(np.var(means, ddof=1)) - float(np.mean(noises))
    return SampleVariances(float(np.mean(variances)), max(between, 0.0), len(means))


def variance_results(table: ScoreTable, metric: str) -> list[Result]:
    """The results ``metric.within`` and ``metric.between`` of a run with samples; empty if they cannot be computed."""
    values, questions = _answers(table, metric)
    variances = sample_variances(values, questions)
    if variances is None:
        return []
    method = "none: a variance of these answers"
    results = []
    for part, value in (("within", variances.within), ("between", variances.between)):
        results.append(Result(f"{metric}.{part}", OVERALL, value, None, None, variances.questions, method=method))
    return results


def _answers(table: ScoreTable, metric: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The score of each answer, and the number of the question to which it belongs.

    If each row has scores of many test examples, each test example is a question.
    """
    import numpy as np

    rows = table.clusters(metric, SAMPLE_OF)
    tested = table.on_tests(metric)
    if tested is None:
        return table.values(metric), rows
    n_tests = tested.scores.shape[1]
    questions = rows[:, None] * n_tests + np.arange(n_tests)
    return tested.scores.ravel(), questions.ravel()
