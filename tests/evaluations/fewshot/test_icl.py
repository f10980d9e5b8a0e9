"""In-context learning: what is asked, of whom, and how the answers are read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lmassay import evaluate
from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.icl import InContext
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.types import Continuation, LogProbs, Response
from tests.evaluations.fewshot.toys import rows, write_data
from tests.helpers import lmassay, write_config, write_lines

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


# --- prompts that are too long ----------------------------------------------------------------------------------------

NARROW = """
from lmassay.contracts import Model
from lmassay.types import Continuation, Response


class Narrow(Model):
    name, can = "narrow", frozenset({"logprobs"})

    def __init__(self, window: int):
        self.window = window

    def identity(self):
        return {"name": self.name, "window": self.window}

    def is_too_long(self, request):
        return len(request.context.split()) > self.window

    def unanswerable(self, requests):
        if any(map(self.is_too_long, requests)):
            return f"narrow reads at most {self.window} tokens"
        return ""

    def logprobs(self, requests):
        for request in requests:
            if self.is_too_long(request):
                yield Response(finish="too_long")
            else:
                total = -1.0 if request.continuation == " true" else -3.0
                yield Continuation(total, (total,))


class NarrowChooser(Narrow):
    can = frozenset({"generate", "choices"})

    def is_too_long(self, request):
        return len(request.prompt.split()) > self.window

    def generate(self, requests):
        for request in requests:
            yield Response(finish="too_long") if self.is_too_long(request) else Response("banana")
"""


def narrow_config(folder: Path, shots: object, window: int, model: str = "Narrow", long_tests: int = 0) -> Path:
    write_data(folder / "data")
    (folder / "narrow.py").write_text(NARROW, encoding="utf-8")
    tests = []
    for number, row in enumerate(rows(12)):
        row["premise"] += " again" * (100 if number < long_tests else 1)
        tests.append(json.dumps(row))
    write_lines(folder / "data" / "val.jsonl", tests)
    method = {"name": "icl", "pattern": 4, "shots": shots}
    task = {"name": "fewshot", "data": "rte", "data_dir": "data", "labelled": ["train"], "splits": {"k": 2}}
    config = {"task": {**task, "method": method}, "model": {"name": f"narrow.py:{model}", "window": window}}
    return write_config(folder / "fs.yaml", config)


def overall(folder: Path) -> dict[str, dict[str, Any]]:
    (run,) = json.loads(lmassay("show", "latest", "--json", cwd=folder).stdout)["runs"]
    return {result["metric"]: result for result in run["results"] if result["group"] == "overall"}


@pytest.mark.parametrize("model", ["Narrow", "NarrowChooser"])
def test_a_run_whose_prompts_are_all_too_long_is_incomplete_and_says_so(tmp_path, model):
    narrow_config(tmp_path, 4, window=3, model=model)
    done = lmassay("run", "fs.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "none of 2 examples could be scored" in done.stderr
    assert "2 × prompt too long: narrow reads at most 3 tokens" in done.stderr
    assert "read as a label" not in done.stdout + done.stderr
    assert overall(tmp_path) == {}


def test_check_lists_shots_that_are_too_long_as_not_applicable_and_the_others_as_planned(tmp_path):
    narrow_config(tmp_path, [0, 4], window=30)
    done = lmassay("check", "fs.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^fewshot +rte icl", done.stdout, re.MULTILINE)
    reason = "shots=4: fs.yaml: no example of rte icl can be scored: narrow reads at most 30 tokens"
    assert f"not applicable: {reason}" in done.stderr
    assert lmassay("check", "fs.yaml", "--strict", cwd=tmp_path).returncode == 2


def test_check_refuses_a_run_whose_prompts_are_all_too_long_and_names_the_file(tmp_path):
    narrow_config(tmp_path, 4, window=3)
    done = lmassay("check", "fs.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "fs.yaml: no example of rte icl can be scored: narrow reads at most 3 tokens" in done.stderr


def test_prompts_that_are_too_long_are_neither_wrong_nor_out_of_choice(tmp_path):
    narrow_config(tmp_path, 0, window=40, long_tests=3)
    assert lmassay("check", "fs.yaml", cwd=tmp_path).returncode == 0
    assert lmassay("run", "fs.yaml", cwd=tmp_path).returncode == 0
    results = overall(tmp_path)
    assert "ooc" not in results
    assert results["not_asked"]["value"] == pytest.approx(3 / 12)
    labels = [row["label"] for row in rows(12)][3:]
    assert results["acc"]["value"] == pytest.approx(labels.count("entailment") / 9)


def test_the_out_of_choice_rate_is_a_share_of_the_prompts_that_were_asked(tmp_path):
    narrow_config(tmp_path, 0, window=40, model="NarrowChooser", long_tests=3)
    lmassay("run", "fs.yaml", cwd=tmp_path)
    results = overall(tmp_path)
    assert results["ooc"]["value"] == 1.0
    assert results["not_asked"]["value"] == pytest.approx(3 / 12)
    reasons = lmassay("show", "latest", cwd=tmp_path).stdout
    assert "none of 9 answers can be read as a label; 3 examples not asked: prompt too long: narrow" in reasons
