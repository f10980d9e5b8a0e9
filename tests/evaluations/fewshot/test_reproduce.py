"""FewNLU's published numbers, and how close ours must be."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lmassay.evaluations.fewshot import reproduce
from lmassay.evaluations.fewshot.reproduce import _cells, _tolerance, _work
from lmassay.types import Result

PET_DEBERTA = ("pet", "microsoft/deberta-v2-xxlarge")


@dataclass
class Record:
    """A run whose accuracies over the splits have this standard deviation."""

    std: float

    def result(self, metric, group):
        assert (metric, group) == ("acc.std", "overall")
        return Result(metric, group, self.std, None, None, 4)


def test_the_average_of_the_table_follows_from_its_cells():
    """The printed average, 79.00, counts each task once; CB and MultiRC have two metrics."""
    means = []
    for task in reproduce._TASKS:
        numbers = [float(cell) for cell in _cells(reproduce._PUBLISHED[PET_DEBERTA], task)]
        means.append(sum(numbers) / len(numbers))
    assert round(sum(means) / len(means), 2) == 79.00


@pytest.mark.parametrize("row", reproduce._PUBLISHED)
def test_every_row_has_a_number_for_every_metric(row):
    metrics = sum(len(task.metrics) for task in reproduce._TASKS.values())
    assert len(reproduce._PUBLISHED[row].split()) == metrics


def test_the_tolerance_is_that_of_a_t_test_with_four_splits_each():
    # sqrt((3² + 4²) / 4) = 2.5, and the 97.5 % quantile of t with 6 degrees of freedom is 2.4469.
    assert _tolerance(Record(0.03), "acc", 4.0) == pytest.approx(2.5 * 2.4469, abs=1e-3)


def test_an_unknown_published_deviation_is_taken_to_be_ours():
    assert _tolerance(Record(0.03), "acc", None) == _tolerance(Record(0.03), "acc", 3.0)


def test_the_estimate_counts_every_training_of_a_search():
    task = reproduce._TASKS["rte"]
    options = {
        "max_steps": [250, 500],
        "learning_rate": [1e-5, 2e-5],
        "pattern": [0, 1, 2],
        "eval_ratios": [0.02, 0.04],
    }
    work = _work([options], task, "albert-xxlarge-v2")
    # Two learning rates, three patterns, four splits; 16 examples per update.
    assert work.trained_tokens == 2 * 3 * 4 * (250 + 500) * 16 * task.tokens
    # 51 evaluations on 32 dev examples and one on the tests, for each of the 48 trainings.
    assert work.read_tokens == 48 * (51 * 32 + 277) * task.tokens
