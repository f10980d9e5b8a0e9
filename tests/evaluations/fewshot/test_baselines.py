"""The floor: most frequent label, and labels at random."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.evaluations.fewshot.baselines import Majority, Random
from lmassay.evaluations.fewshot.methods.contract import Fitted, Lesson
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.toys import write_data


@pytest.fixture
def lesson(tmp_path):
    task = open_task("rte", write_data(tmp_path, train=16, test=400), tmp_path)
    return Lesson(task=task, model=None, train=task.examples("train")[:3])


def test_majority_says_the_most_frequent_label(lesson):
    fitted = Majority().fit(lesson)
    assert isinstance(fitted, Fitted)
    assert set(fitted.logits(lesson.task.examples("dev")).argmax(1)) == {0}


def test_random_follows_the_shares_of_the_training_examples(lesson):
    shares = np.bincount(Random().fit(lesson).logits(lesson.task.examples("dev")).argmax(1)) / 400
    assert shares[0] == pytest.approx(2 / 3, abs=0.1)


def test_random_does_not_depend_on_what_else_is_asked(lesson):
    fitted, examples = Random().fit(lesson), lesson.task.examples("dev")
    assert np.array_equal(fitted.logits(examples)[5:9], fitted.logits(examples[5:9]))
