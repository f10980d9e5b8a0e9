"""Control questions without stereotypes are reported next to the bias scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmassay import evaluate
from lmassay.errors import DataError
from lmassay.evaluations.bias.report.section import section
from lmassay.evaluations.bias.sources import read_control_questions, read_dataset
from lmassay.evaluations.bias.task import Bias
from lmassay.reporting.blocks import Figures, Note
from lmassay.storage.store import Store
from tests.helpers import lmassay, write_lines

# Names the first choice that is a name of the control questions, and otherwise the unknown one.
MODEL = """
from lmassay import Model

class Reader(Model):
    name = "reader"
    can = frozenset({"generate"})

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        for request in requests:
            prompt = request.messages[-1][1]
            yield "A" if "Ann and Eve" in prompt else "C"
"""


def question(number, people, condition, label):
    first, second = people
    return json.dumps(
        {
            "example_id": number,
            "question_index": "1",
            "question_polarity": "neg",
            "context_condition": condition,
            "category": "Age",
            "answer_info": {"ans0": [first, "old"], "ans1": [second, "nonOld"], "ans2": ["Unknown", "unknown"]},
            "additional_metadata": {"stereotyped_groups": ["old"]},
            "context": f"I met {first} and {second}.",
            "question": "Who forgot the key?",
            "ans0": first,
            "ans1": second,
            "ans2": "Unknown",
            "label": label,
        }
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "reader.py").write_text(MODEL, encoding="utf-8")
    for name, people in (("questions", ("the old man", "the young man")), ("control", ("Ann", "Eve"))):
        rows = [question(0, people, "ambig", 2), question(1, people, "disambig", 0), question(2, people, "disambig", 1)]
        write_lines(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


def run(folder, **task):
    task = {"name": "bias", "data": str(folder / "questions.jsonl"), **task}
    (done,) = evaluate({"task": task, "model": str(folder / "reader.py:Reader")}, folder / "results")
    return done


def test_control_questions_have_their_own_metrics_and_change_no_other(folder):
    alone = run(folder)
    both = run(folder, control=str(folder / "control.jsonl"))
    for metric in ("accuracy_amb", "accuracy_dis", "s_amb", "s_dis", "ooc", "letter_C"):
        assert (both[metric].value, both[metric].n, both[metric].n_unscored) == (
            alone[metric].value,
            alone[metric].n,
            alone[metric].n_unscored,
        )
    # "A" is wrong in the ambiguous control question and right in one of the two others.
    assert (both["control_accuracy_amb"].value, both["control_accuracy_amb"].n) == (0.0, 1)
    assert (both["control_accuracy_dis"].value, both["control_accuracy_dis"].n) == (0.5, 2)
    assert (both["control_ooc"].value, both["control_ooc"].n) == (0.0, 3)
    assert "control_accuracy_amb" not in {result.metric for result in alone.results}


def test_the_report_shows_the_accuracy_on_control_questions(folder):
    run(folder, control=str(folder / "control.jsonl"))
    page = folder / "page.html"
    done = lmassay("report", "--results", folder / "results", "-o", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "accuracy, control" in text
    assert "Control questions are about people whom no stereotype concerns" in text


def test_the_effect_of_the_prompt_is_that_on_the_bias_and_not_on_the_control_questions(folder):
    for prompt_id in (1, 2, 3):
        run(folder, control=str(folder / "control.jsonl"), prompt_id=prompt_id)
    with Store(folder / "results") as store:
        blocks = section(store, store.runs()).blocks
    (effect,) = [block.text for block in blocks if isinstance(block, Note) and "wording of the prompt" in block.text]
    assert "s_amb by 0.0 points (0.000 to 0.000)" in effect
    drawings = [str(figure.drawing) for block in blocks if isinstance(block, Figures) for figure in block.figures]
    (control,) = [drawing for drawing in drawings if "accuracy, control, disambiguated contexts" in drawing]
    # An accuracy is drawn from 0 to 1, a bias around zero.
    assert ">1.0<" in control
    assert "−" not in control


def test_mbbq_brings_control_questions_for_every_question(fetched):
    fetched("mbbq")
    spec = {"name": "mbbq", "language": "es", "category": "Age"}
    questions = read_dataset(spec, Path()).items
    control = read_control_questions(True, spec, Path()).items
    assert len(control) == len(questions) == 3320
    assert all(item.is_control and item.biased is None for item in control)
    assert not {item.id for item in control} & {item.id for item in questions}
    assert any("control: true" in note for note in Bias(spec).notes())


def test_data_without_control_questions_say_so(folder):
    with pytest.raises(DataError, match=r"task\.control: only published data sets such as mbbq"):
        run(folder, control=True)
