"""ReCoRD: entities as answers, and the metrics of what was chosen."""

from __future__ import annotations

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from tests.evaluations.fewshot.methods.test_multimask import NAMES, small_task, tiny


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global RULE
    global torch, Reading, Item, learner_for, open_network, MOST_WRONG, Entities, answer_of, right_first
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Reading
    from lmassay.evaluations.fewshot.methods.learner import Item
    from lmassay.evaluations.fewshot.methods.multimask import learner_for
    from lmassay.evaluations.fewshot.methods.network import open_network
    from lmassay.evaluations.fewshot.methods.record import MOST_WRONG, Entities, answer_of, right_first

    RULE = Entities(None, ["0", "1"])


__all__ = ["small_task", "tiny"]  # Fixtures.


class Known:
    """Gaps whose scores are given."""

    def __init__(self, *scores):
        self._scores = list(scores)

    def scores(self, items, texts):
        return self._scores


def question(names, right):
    return Item([], [], extra={"names": names, "texts": [[n] for n in range(len(names))], "right": right})


def test_the_best_entity_is_the_answer_and_says_the_label():
    items = [question(["a", "b", "c"], [False, True, True]), question(["a", "b"], [True, False])]
    found = RULE.logits(Known([-3.0, -2.0, -5.0], [-4.0, -1.0]), items)
    assert found.tolist() == [[-3.0, -2.0], [-1.0, -4.0]]
    assert [answer_of(item) for item in items] == ["b", "b"]


@pytest.mark.parametrize(("right", "label"), [([True, True], 1), ([False, False], 0)])
def test_a_question_without_wrong_or_right_entities_has_finite_scores(right, label):
    found = RULE.logits(Known([-3.0, -2.0]), [question(["a", "b"], right)])
    assert torch.isfinite(found).all()
    assert found.argmax().item() == label


def test_an_answer_is_trained_against_nine_wrong_entities_at_most():
    item = question([str(n) for n in range(20)], [n == 4 for n in range(20)])
    texts = right_first(item)
    assert texts[0] == [4]
    assert len(texts) == 1 + MOST_WRONG
    assert [4] not in texts[1:]


def test_other_right_answers_are_not_wrong():
    assert right_first(question(["a", "b", "c"], [True, False, True])) == [[0], [1]]


@pytest.fixture
def record(tiny, small_task):
    task = small_task("record")
    learner = learner_for(task, open_network(tiny("bert")), Reading(0, 150))
    learner.network.eval()
    return task, learner


def test_all_entities_are_asked_in_evaluation(record):
    task, learner = record
    for item in learner.encode(task.examples("dev"), training=False):
        assert sorted(item.extra["names"]) == sorted(NAMES)
        assert sum(item.extra["right"]) == 1


def test_a_question_whose_answer_is_no_entity_cannot_be_learned(record):
    task, learner = record
    example = task.examples("train")[0]
    lost = InputExample("train-3", example.text_a, example.text_b, "1", meta={**example.meta, "answers": ["nobody"]})
    with pytest.raises(DataError, match="train-3: none of its entities is an answer"):
        learner.encode([lost], training=True)


def test_the_loss_is_the_mean_over_questions(record):
    task, learner = record
    items = learner.encode(task.examples("train"), training=True)
    with torch.no_grad():
        apart = [learner.loss([item]).item() for item in items]
        assert learner.loss(items).item() == pytest.approx(sum(apart) / len(apart), abs=1e-4)
