"""In-context learning: what is asked, of whom, and how the answers are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmassay import evaluate
from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.icl import InContext
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.types import Continuation, LogProbs, Response
from tests.evaluations.fewshot.toys import write_data

LIKES_GOOD = '''
from lmassay.types import Continuation, Response


class Model:
    """Finds Yes likelier behind a text in which a good word stands last."""

    name, can = "reader", frozenset({"logprobs"})

    def identity(self):
        return {"name": self.name}

    def logprobs(self, requests):
        for request in requests:
            text = request.context.rpartition("\\n\\n")[2]
            good = any(word in text for word in ("fine", "sunny", "warm", "nice"))
            total = -1.0 if good == (request.continuation == " true") else -3.0
            yield Continuation(total, (total,))
'''


@pytest.fixture
def task(tmp_path: Path):
    return open_task("rte", write_data(tmp_path / "data"), tmp_path)


def inputs(task, seed: int = 42) -> TrainingInputs:
    return TrainingInputs(task=task, model=None, train=task.examples("train"), seed=seed)


def test_demonstrations_of_every_label_stand_before_the_question(task):
    ((first, second),) = InContext(shots=4, pattern=4).questions(inputs(task), task.examples("dev")[:1])
    assert isinstance(first, LogProbs)
    assert [first.continuation, second.continuation] == [" true", " false"]
    shown = first.context.split("\n\n")
    assert len(shown) == 5
    assert sorted(text.rpartition(" ")[2] for text in shown[:4]) == ["false", "false", "true", "true"]
    assert shown[4].endswith("answer:")


def test_the_order_is_drawn_by_the_seed(task):
    method = InContext(shots=8, pattern=4)
    asked = [method.questions(inputs(task, seed), task.examples("dev")[:1])[0][0].context for seed in (1, 1, 2)]
    assert asked[0] == asked[1] != asked[2]


def test_no_shots_is_the_bare_question(task):
    ((first, _),) = InContext(shots=0, pattern=4).questions(inputs(task), task.examples("dev")[:1])
    assert "\n\n" not in first.context


def test_a_pattern_that_goes_on_behind_its_mask_is_refused_with_those_that_do_not(task):
    with pytest.raises(ConfigError, match=r"continues after its mask.*use 4, 5"):
        InContext(pattern=0).check_task(task)


def test_scores_may_be_taken_a_token(task):
    answers = [Response(Continuation(-4.0, (-2.0, -2.0))), Response(Continuation(-3.0, (-3.0,)))]
    example = task.examples("dev")[0]
    assert InContext(pattern=4).logits(task, example, answers) == [-4.0, -3.0]
    assert InContext(pattern=4, per_token=True).logits(task, example, answers) == [-2.0, -3.0]


def test_a_model_that_can_read_is_right(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reader.py").write_text(LIKES_GOOD, encoding="utf-8")
    options = {"name": "fewshot", "data": "rte", "data_dir": "data", "labelled": ["train"], "splits": {"k": 2}}
    method = {"name": "icl", "pattern": 4, "shots": 4}
    (run,) = evaluate({"task": {**options, "method": method}, "model": "reader.py:Model", "resamples": 200})
    assert run["acc"].value == 1.0
    assert run["dev"].value == 1.0


def test_choices_are_taken_by_their_word(task):
    method = InContext(pattern=4, answer_by="choices")
    assert method.needs == {"generate", "choices"}
    ((question,),) = method.questions(inputs(task), task.examples("dev")[:1])
    assert question.choices == ("true", "false")
    assert method.logits(task, task.examples("dev")[0], [Response("false")]) == [0.0, 1.0]


def test_an_answer_that_is_no_choice_is_neither_right_nor_wrong(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talker.py").write_text(TALKER, encoding="utf-8")
    options = {"name": "fewshot", "data": "rte", "data_dir": "data", "labelled": ["train"], "splits": {"k": 2}}
    method = {"name": "icl", "pattern": 4, "shots": 0, "answer_by": "choices"}
    for answer, is_scored in (("banana", False), ("True.", True)):
        model = {"name": "talker.py:Model", "answer": answer}
        (run,) = evaluate({"task": {**options, "method": method}, "model": model, "resamples": 200})
        assert {"acc" in row["scores"] for row in run.rows()} == {is_scored}
        assert run["ooc"].value == float(not is_scored)


TALKER = """
class Model:
    name, can = "talker", frozenset({"generate", "choices"})

    def __init__(self, answer: str):
        self.answer = answer

    def identity(self):
        return {"name": self.name, "answer": self.answer}

    def generate(self, requests):
        return [self.answer for _ in requests]
"""
