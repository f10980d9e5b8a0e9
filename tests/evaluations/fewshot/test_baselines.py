"""The floor: most frequent label, and labels at random."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.evaluations.fewshot.baselines import Majority, Random
from lmassay.evaluations.fewshot.methods.contract import TrainedClassifier, TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.toys import write_data


@pytest.fixture
def inputs(tmp_path):
    task = open_task("rte", write_data(tmp_path, train=16, test=400), tmp_path)
    return TrainingInputs(task=task, model=None, train=task.examples("train")[:3])


def test_majority_says_the_most_frequent_label(inputs):
    fitted = Majority().fit(inputs)
    assert isinstance(fitted, TrainedClassifier)
    assert set(fitted.logits(inputs.task.examples("dev")).argmax(1)) == {0}


def test_random_follows_the_shares_of_the_training_examples(inputs):
    shares = np.bincount(Random().fit(inputs).logits(inputs.task.examples("dev")).argmax(1)) / 400
    assert shares[0] == pytest.approx(2 / 3, abs=0.1)


def test_random_does_not_depend_on_what_else_is_asked(inputs):
    fitted, examples = Random().fit(inputs), inputs.task.examples("dev")
    assert np.array_equal(fitted.logits(examples)[5:9], fitted.logits(examples[5:9]))
