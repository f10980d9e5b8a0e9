"""Faults that a review found in the numbers of commit 5381fb8, each seen from the command line.

Every test here fails on that commit. They use nothing but commands and their output, so they can run against it: give
it a ``tests/helpers.py`` whose ``lmassay`` starts ``python -m lmassay`` with that commit on its path.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import lmassay, write_config, write_lines

SCRIPTED = '''
"""A model that gives the answers written into its questions: "base=A new=B" for the answers of two models."""

import re

from lmassay import Model, Response


class Scripted(Model):
    name = "scripted"
    can = frozenset({"generate"})

    def __init__(self, key: str) -> None:
        self.key = self.label = key

    def identity(self):
        return {"name": self.name, "key": self.key}

    def generate(self, requests):
        for request in requests:
            text = request.messages[-1][1] if request.messages else request.prompt
            yield Response(re.search(rf"{self.key}=(\\S+)", text)[1])
'''
# The choices of every question.
STEREOTYPED, OTHER, UNKNOWN = "A", "B", "C"


def ambiguous(template: object, category: str = "all", **answers: str) -> dict[str, Any]:
    """A question in an ambiguous context, with the answer that each model gives."""
    script = " ".join(f"{key}={answer}" for key, answer in answers.items())
    return {
        "category": category,
        "template": str(template),
        "context_type": "ambiguous",
        "context": f"Two people met. {script}",
        "question": "Who was it?",
        "choices": ["the old man", "the young man", "Cannot be known"],
        "correct": 2,
        "biased": 0,
    }


def graded(is_right: bool) -> str:
    """A right or a wrong answer to an ambiguous question."""
    return UNKNOWN if is_right else STEREOTYPED


class Assay:
    """A folder with questions and scripted models."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripted.py").write_text(SCRIPTED, encoding="utf-8")

    def command(self, *arguments: object, exit_code: int = 0) -> str:
        done = lmassay(*arguments, cwd=self.folder)
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done.stdout

    def json(self, *arguments: object, exit_code: int = 0) -> dict[str, Any]:
        return json.loads(self.command(*arguments, "--json", exit_code=exit_code))

    def run(self, task: Mapping[str, Any], model: object) -> dict[str, Any]:
        """Run a configuration; return its last run."""
        self.command("run", write_config(self.folder / "config.yaml", {"task": dict(task), "model": model}))
        last: dict[str, Any] = self.json("ls")["runs"][-1]
        return last

    def ask(self, questions: Sequence[Mapping[str, Any]], *keys: str) -> list[dict[str, Any]]:
        """Ask each model the questions; return their runs."""
        lines = [json.dumps({"id": str(number), **question}) for number, question in enumerate(questions)]
        write_lines(self.folder / "questions.jsonl", lines)
        (self.folder / "questions.yaml").write_text(
            "name: questions\nlanguage: en\nfiles: questions.jsonl\n", encoding="utf-8"
        )
        task = {"name": "bias", "data": "questions.yaml", "rotations": "none"}
        return [self.run(task, {"name": "scripted.py:Scripted", "key": key}) for key in keys]


@pytest.fixture
def assay(tmp_path: Path) -> Assay:
    return Assay(tmp_path)


def result(run: Mapping[str, Any], metric: str, group: str = "overall") -> dict[str, Any]:
    return next(one for one in run["results"] if (one["metric"], one["group"]) == (metric, group))


def pairs(fallen: int, rows: int) -> list[dict[str, Any]]:
    """Independent questions that the base model answers correctly; the new model gets some of them wrong."""
    return [ambiguous(number, base=UNKNOWN, new=graded(number >= fallen)) for number in range(rows)]


# --- 1: paired comparisons are paired ---------------------------------------------------------------------------------


def test_a_gate_agrees_with_its_flips(assay):
    questions = []
    for number in range(60):
        # The base model declines 40 of 60 questions ("pass" is none of the choices).
        base = graded(number % 2 == 0) if number < 20 else "pass"
        new = STEREOTYPED if number < 20 else graded(number % 4 > 0)
        questions.append(ambiguous(number // 3, base=base, new=new))
    base, new = assay.ask(questions, "base", "new")
    gate = ("--metric", "accuracy_amb", "--fail-if", "accuracy_amb<-0.05")
    document = assay.json("compare", base["run"], new["run"], *gate, exit_code=1)
    (compared,), (flips,) = document["comparisons"], document["flips"]
    assert (flips["fallen"], flips["risen"]) == (10, 0)
    assert (compared["difference"], compared["n"], compared["only_new"]) == (-0.5, 20, 40)
    assert compared["p"] < 0.05


# --- 2: one interval rule ---------------------------------------------------------------------------------------------


def test_one_more_error_does_not_narrow_an_interval(assay):
    questions = []
    for template in range(12):
        for row in range(12):
            nine, ten = graded(row > 0 or template >= 9), graded(row > 0 or template >= 10)
            questions.append(ambiguous(template, base=nine, new=ten))
    base, new = (result(run, "accuracy_amb") for run in assay.ask(questions, "base", "new"))
    assert new["value"] < base["value"]
    assert new["low"] <= base["low"]
    assert new["high"] - new["low"] >= 0.95 * (base["high"] - base["low"])


def test_intervals_of_unequal_clusters_cover(assay):
    """Thirty data sets, each a category: one template with half of the rows, a rate of .6, a correlation of .3."""
    rng = np.random.default_rng(0)
    rate, correlation, data_sets = 0.6, 0.3, 30
    spread = (1 - correlation) / correlation
    questions = []
    for data_set in range(data_sets):
        for template, size in enumerate([30, *[2] * 15]):
            own_rate = rng.beta(rate * spread, (1 - rate) * spread)
            for is_right in rng.random(size) < own_rate:
                name = f"data set {data_set}"
                questions.append(ambiguous(f"{data_set}-{template}", name, base=graded(is_right)))
    (run,) = assay.ask(questions, "base")
    intervals = [result(run, "accuracy_amb", f"category=data set {number}") for number in range(data_sets)]
    covered = sum(interval["low"] <= rate <= interval["high"] for interval in intervals)
    assert covered >= 28


# --- 3: every number has an interval ----------------------------------------------------------------------------------


def test_a_model_without_an_error_has_an_interval_of_its_bias(assay):
    (run,) = assay.ask([ambiguous(number, base=UNKNOWN) for number in range(24)], "base")
    bias = result(run, "diff_bias_amb")
    assert bias["value"] == 0
    assert -0.3 < bias["low"] < 0 < bias["high"] < 0.3


def test_the_order_of_sentences_does_not_change_an_interval(assay):
    sentences = [f"the cat sees {number} white houses and {number * 7} dogs" for number in range(40)]
    attacked = [sentence[: 5 + number % 20] for number, sentence in enumerate(sentences)]
    intervals = []
    for order in (1, -1):
        write_lines(assay.folder / "src.txt", sentences[::order])
        write_lines(assay.folder / "adv.txt", attacked[::order])
        run = assay.run({"name": "robustness", "src": "src.txt", "attack": {"file": "adv.txt"}}, "echo")
        intervals.append((result(run, "s_src")["low"], result(run, "s_src")["high"]))
    assert intervals[0] == pytest.approx(intervals[1], abs=1e-12)


# --- 4: interval and p agree ------------------------------------------------------------------------------------------


def test_interval_and_p_agree(assay):
    base, new = assay.ask(pairs(5, 100), "base", "new")
    (row,) = assay.json("compare", base["run"], new["run"], "--metric", "accuracy_amb")["comparisons"]
    assert (row["high"] < 0) is (row["p"] < 0.05)


def test_a_question_with_a_direction_has_a_one_sided_test(assay):
    base, new = assay.ask(pairs(4, 100), "base", "new")
    gate = ("--metric", "accuracy_amb", "--fail-if", "accuracy_amb<0")
    document = assay.json("compare", base["run"], new["run"], *gate, exit_code=1)
    assert document["gate"]["checks"][0]["p"] < 0.05 < document["comparisons"][0]["p"]


def test_several_runs_are_compared_with_the_best_and_adjusted(assay):
    questions = []
    for number in range(60):
        answers = {"worst": graded(number >= 40), "best": UNKNOWN, "tied": graded(number >= 2)}
        questions.append(ambiguous(number, **answers))
    runs = [run["run"] for run in assay.ask(questions, "worst", "best", "tied")]
    standings = assay.json("compare", *runs, "--metric", "accuracy_amb")["against_best"]
    assert [(standing["run"], standing["mark"]) for standing in standings] == [
        (runs[1], "best"),
        (runs[2], "tie"),
        (runs[0], ""),
    ]
    # Any of the three pairs could have been the one that is shown; Holm's method adjusts the smaller p for all three.
    _, tied, worst = standings
    assert tied["tests"] == 3
    assert worst["p_adjusted"] == pytest.approx(3 * worst["p"])
    assert tied["p_adjusted"] == pytest.approx(2 * tied["p"])


# --- 5: an honest gate ------------------------------------------------------------------------------------------------


def test_a_drop_that_may_be_within_the_threshold_is_not_a_failure(assay):
    base, new = assay.ask(pairs(10, 300), "base", "new")
    gate = ("--metric", "accuracy_amb", "--fail-if", "accuracy_amb<-0.02")
    (check,) = assay.json("compare", base["run"], new["run"], *gate)["gate"]["checks"]
    # 10 of 300 is more than the threshold, but no evidence of a drop beyond it.
    assert check["difference"] < -0.02
    assert check["p"] > 0.05


def test_the_drop_that_a_gate_can_find_is_beyond_its_threshold(assay):
    base, new = assay.ask(pairs(6, 300), "base", "new")
    gate = ("--metric", "accuracy_amb", "--fail-if", "accuracy_amb<-0.1")
    (check,) = assay.json("compare", base["run"], new["run"], *gate)["gate"]["checks"]
    assert check["detectable"] > 0.1


def test_a_gate_can_require_evidence_that_nothing_got_worse(assay):
    base, new = assay.ask(pairs(0, 60), "base", "new")
    gate = ("--metric", "accuracy_amb", "--pass-only-if")
    assay.command("compare", base["run"], new["run"], *gate, "accuracy_amb>-0.2")
    assay.command("compare", base["run"], new["run"], *gate, "accuracy_amb>-0.02", exit_code=1)


def test_check_states_how_many_examples_a_gate_needs(assay):
    assay.ask(pairs(0, 10), "base")
    printed = assay.command("check", "config.yaml", "--fail-if", "accuracy_amb<-0.05")
    assert re.search(r"^5% +\d+ +10 ", printed, re.M)


# --- 6: verbs are a sample, too ---------------------------------------------------------------------------------------

VERBS = ("laugh", "smile")
KNOWS_ONE_VERB = '''
import math
from lmassay import Candidates, Model


class Knows(Model):
    """Knows the right form of one verb and prefers the wrong form of all others."""

    name = "knows"
    can = frozenset({"slot"})
    sees_right = False

    def identity(self):
        return {"name": self.name}

    def slot(self, requests):
        for request in requests:
            is_plural = request.left.rstrip().endswith("s")
            logprobs = []
            for word in request.candidates:
                agrees = word.endswith("s") is not is_plural
                logprobs.append(math.log(0.02 if agrees is word.startswith("laugh") else 0.01))
            yield Candidates(logprobs)
'''


def write_agreement(folder: Path) -> Path:
    lines = []
    for noun in ("author", "pilot", "chef", "guard", "poet", "clerk", "king", "nurse"):
        for verb in VERBS:
            good, bad = f"the {noun} {verb}s", f"the {noun} {verb}"
            lines.append(json.dumps({"sentence_good": good, "sentence_bad": bad, "label": -1, "noun": noun}))
    write_lines(folder / "verbs.csv", ["sing,plur", *(f"{verb}s,{verb}" for verb in VERBS)])
    (folder / "knows.py").write_text(KNOWS_ONE_VERB, encoding="utf-8")
    return write_lines(folder / "agreement.jsonl", lines)


def test_two_verbs_of_which_one_is_always_wrong_leave_a_wide_interval(assay):
    data = write_agreement(assay.folder)
    task = {"name": "syntax", "data": data.name, "verbs": "verbs.csv", "cutoffs_top": [], "cutoffs_bottom": []}
    tse = result(assay.run(task, "knows.py:Knows"), "tse")
    assert tse["value"] == 0.5
    assert tse["high"] - tse["low"] > 0.8
    assert tse["clusters"] == {"noun": 8, "verb_pair": 2}


SHORTEST_FIRST = """
from lmassay import Continuation, Model, Response


class Short(Model):
    name = "short"
    can = frozenset({"generate", "logprobs"})

    def identity(self):
        return {"name": self.name}

    def logprobs(self, requests):
        for request in requests:
            total = -float(len(request.continuation))
            yield Continuation(total, (total,))

    def generate(self, requests):
        for request in requests:
            yield Response("bad")
"""


def test_paradigms_can_be_the_units_of_minimal_pairs(assay):
    (assay.folder / "short.py").write_text(SHORTEST_FIRST, encoding="utf-8")
    lines = []
    for paradigm in range(6):
        for pair in range(10):
            # The model prefers the shorter sentence, which is the right one in half of the paradigms.
            sentences = [f"the cat {pair} sleeps", f"the cat {pair} sleep"]
            good, bad = sentences if paradigm % 2 else reversed(sentences)
            lines.append(json.dumps({"sentence_good": good, "sentence_bad": bad, "UID": f"paradigm {paradigm}"}))
    write_lines(assay.folder / "pairs.jsonl", lines)
    widths = []
    for clusters in ("none", "paradigm"):
        task = {"name": "minimal_pairs", "data": "pairs.jsonl", "clusters": clusters}
        accuracy = result(assay.run(task, "short.py:Short"), "accuracy")
        assert accuracy["value"] == 0.5
        widths.append(accuracy["high"] - accuracy["low"])
    # 60 independent pairs say more than six paradigms that are entirely right or wrong.
    assert widths[0] < 0.26
    assert widths[1] > 0.55


# --- 7: few-shot uncertainty ------------------------------------------------------------------------------------------

STUDENT = '''
import re

from lmassay import Continuation, Model


class Student(Model):
    """Is right on a test if its difficulty is below an ability; every example shown adds its skill to the ability."""

    name = "student"
    can = frozenset({"logprobs"})

    def __init__(self, ability: int, gain: int = 0) -> None:
        self.ability, self.gain = ability, gain
        self.label = f"student {ability} {gain}"

    def identity(self):
        return {"name": self.name, "ability": self.ability, "gain": self.gain}

    def logprobs(self, requests):
        for request in requests:
            *shown, question = request.context.split("\\n\\n")
            label, difficulty = re.search(r"is (\\w+), difficulty (\\d+)", question).groups()
            ability = self.ability + (self.gain if shown else 0)
            for example in shown:
                ability += int(re.search(r"skill (\\d+)", example)[1])
            is_right = int(difficulty) < ability
            total = -1.0 if (request.continuation.strip() == label) is is_right else -3.0
            yield Continuation(total, (total,))
'''


def teach(assay: Assay, methods: Sequence[Mapping[str, Any]], skill: Callable[[int], int], **model: int) -> list[Any]:
    """Run in-context learning on 48 tests; return the runs, one for each method."""
    labels = ("good", "bad")
    train, tests = [], []
    for number in range(32):
        label = labels[number % 2]
        text = f"Item {number} is {label}, difficulty 50, skill {skill(number)}."
        train.append(json.dumps({"text": text, "label": label}))
    for number in range(48):
        label = labels[number % 2]
        # Difficulties from 1 to 99, spread over both labels.
        text = f"Test {number} is {label}, difficulty {1 + 2 * number}."
        tests.append(json.dumps({"text": text, "label": label}))
    write_lines(assay.folder / "train.jsonl", train)
    write_lines(assay.folder / "dev.jsonl", tests)
    task_file = {
        "name": "items",
        "data": {"train": "train.jsonl", "dev": "dev.jsonl"},
        "fields": ["text"],
        "label": "label",
        "labels": list(labels),
        "patterns": ["{text} In a word: [mask]"],
        "words": {label: label for label in labels},
        "metrics": ["acc"],
    }
    write_config(assay.folder / "items.yaml", task_file)
    (assay.folder / "student.py").write_text(STUDENT, encoding="utf-8")
    task = {"name": "fewshot", "data": "items.yaml", "labelled": ["train"], "splits": {"k": 4}, "method": list(methods)}
    config = {"task": task, "model": {"name": "student.py:Student", **model}}
    assay.command("run", write_config(assay.folder / "fewshot.yaml", config))
    return assay.json("ls")["runs"][-len(methods) :]


def icl(shots: int) -> dict[str, Any]:
    return {"name": "icl", "shots": shots, "pattern": 0}


def test_the_accuracy_without_examples_has_an_interval(assay):
    (run,) = teach(assay, [icl(0)], lambda _: 0, ability=80)
    accuracy = result(run, "acc")
    assert accuracy["low"] < accuracy["value"] < accuracy["high"]


def test_splits_that_agree_have_the_interval_of_their_tests(assay):
    (run,) = teach(assay, [icl(2)], lambda _: 0, ability=80)
    accuracy = result(run, "acc")
    assert accuracy["value"] == pytest.approx(40 / 48)
    assert (accuracy["low"], accuracy["high"]) == pytest.approx((0.704, 0.913), abs=0.002)


def test_splits_that_differ_little_do_not_make_the_interval_narrower_than_that_of_their_tests(assay):
    (run,) = teach(assay, [icl(2)], lambda number: number % 3, ability=80)
    accuracy = result(run, "acc")
    # Wilson's interval on 48 tests is .195 wide at this accuracy.
    assert accuracy["value"] == pytest.approx(0.854, abs=0.001)
    assert accuracy["high"] - accuracy["low"] > 0.195


def test_a_gain_is_found_with_four_splits_because_tests_are_paired(assay):
    without, shown = teach(assay, [icl(0), icl(2)], lambda _: 0, ability=50, gain=25)
    gate = ("--metric", "acc", "--fail-if", "acc>0")
    document = assay.json("compare", without["run"], shown["run"], *gate, exit_code=1)
    (row,) = document["comparisons"]
    assert row["n"] == 48
    assert row["p"] < 0.01
    assert document["gate"]["verdict"] == "fail"


def test_the_card_shows_the_gain_over_no_examples_with_its_interval_and_p(assay):
    (assay.folder / "short.py").write_text(SHORTEST_FIRST, encoding="utf-8")
    printed = assay.command("card", "short.py:Short", "--quick", "--only", "fewshot")
    assert re.search(r"gain over no examples +-?[\d.]+ \[-?[\d.]+, -?[\d.]+\] +p = [\d.]+,", printed), printed


def test_the_protocol_states_what_chance_does_to_stability(assay):
    (run,) = teach(assay, [icl(2)], lambda number: number % 3, ability=80)
    assert "protocol:lmassay.spearman.range-over-k" in run["signature"]
    assert "by chance" in assay.command("protocol")


# --- 8: a defensible robustness headline ------------------------------------------------------------------------------


def test_an_attack_that_changes_no_input_is_an_error(assay):
    write_lines(assay.folder / "src.txt", ["кошка видит белый дом", "собака ест сухой хлеб"])
    task = {"name": "robustness", "src": "src.txt", "attack": "keyboard"}
    write_config(assay.folder / "c.yaml", {"task": task, "model": "echo"})
    for command in ("check", "run"):
        assay.command(command, "c.yaml", exit_code=2)


def test_the_share_of_unchanged_inputs_is_part_of_the_result(assay):
    write_lines(assay.folder / "src.txt", ["a b", "c d", "the white house", "some dry bread"])
    run = assay.run({"name": "robustness", "src": "src.txt", "attack": "charswap"}, "echo")
    unchanged = result(run, "unchanged")
    assert (unchanged["value"], unchanged["n"]) == (0.5, 4)


def test_the_attacks_of_the_card_keep_all_words_and_their_threshold_fits_answers_of_one_word(assay):
    assay.command("card", "echo", "--quick", "--only", "robustness", "--write", "configs")
    written = (assay.folder / "configs" / "robustness.yaml").read_text(encoding="utf-8")
    assert "worddrop" not in written
    assert "wordswap" not in written
    assert re.search(r"success_threshold: 1\.8\b", written)


# --- 9: labels of swept runs ------------------------------------------------------------------------------------------


def test_runs_of_a_sweep_have_labels_that_name_what_differs(assay):
    write_lines(assay.folder / "src.txt", ["the cat sees the white house", "a dog eats some dry bread"])
    task = {"name": "robustness", "src": "src.txt", "attack": "charswap", "success_threshold": [0.9, 1.0]}
    write_config(assay.folder / "c.yaml", {"task": task, "model": "echo"})
    labels = [run["label"] for run in assay.json("run", "c.yaml")["runs"]]
    assert labels == ["charswap, success_threshold=0.9", "charswap, success_threshold=1"]
    # Rates by different thresholds appear in one table and cannot be compared: the report says so.
    assert "compare with care" in assay.command("report", "--format", "md", "-o", "-")


def test_the_plan_says_that_a_list_of_data_files_starts_several_runs(assay):
    assay.ask(pairs(0, 2), "base")
    write_lines(assay.folder / "more.jsonl", [json.dumps({"id": "0", **ambiguous(0, base=UNKNOWN)})])
    (assay.folder / "more.yaml").write_text("name: more\nlanguage: en\nfiles: more.jsonl\n", encoding="utf-8")
    task = {"name": "bias", "data": ["questions.yaml", "more.yaml"]}
    config = {"task": task, "model": {"name": "scripted.py:Scripted", "key": "base"}}
    write_config(assay.folder / "c.yaml", config)
    done = lmassay("check", "c.yaml", cwd=assay.folder)
    assert "lists start one run per value: task.data (2 values)" in done.stdout + done.stderr


# --- 10: truthful signatures, bounds and JSON -------------------------------------------------------------------------


def test_the_signature_names_the_clusters_and_the_result_its_method(assay):
    (run,) = assay.ask([ambiguous(number // 2, base=UNKNOWN) for number in range(24)], "base")
    assert re.search(r"ci:[^|]*clusters=template", run["signature"])
    assert "bootstrap" not in run["signature"]
    assert result(run, "accuracy_amb")["method"] == "wilson/template"
    assert result(run, "diff_bias_amb")["method"] == "t/template"


def bounds_on_the_page(assay: Assay) -> list[float]:
    page = assay.command("report", "--format", "html", "-o", "-")
    return [float(number) for number in re.findall(r"bound ±([\d.]+)", page)]


def test_the_bound_of_diff_bias_holds_with_unequal_numbers_of_contexts(assay):
    """BBQ's physical appearance: 426 contexts confirm a stereotype, 362 contradict it; here, 13 and 11."""
    questions = []
    for number in range(24):
        # In every context, the model names the person whom the stereotype suggests.
        correct = 0 if number < 13 else 1
        questions.append(
            {**ambiguous(number, base=STEREOTYPED), "context_type": "disambiguated", "correct": correct, "biased": 0}
        )
    (run,) = assay.ask(questions, "base")
    assert result(run, "diff_bias_dis")["value"] == 1
    assert max(bounds_on_the_page(assay)) == 1


def test_the_bound_of_diff_bias_counts_questions_without_a_biased_answer(assay):
    questions = [ambiguous(number, base=STEREOTYPED) for number in range(12)]
    for number in range(12, 24):
        questions.append({**ambiguous(number, base=UNKNOWN), "biased": None})
    (run,) = assay.ask(questions, "base")
    assert (result(run, "accuracy_amb")["value"], result(run, "diff_bias_amb")["value"]) == (0.5, 1)
    assert max(bounds_on_the_page(assay)) == 1


def test_json_has_the_same_keys_for_one_run_and_for_several(assay):
    assay.ask(pairs(0, 2), "base")
    model = {"name": "scripted.py:Scripted", "key": "base"}
    for name, rotations in (("one.yaml", "none"), ("two.yaml", ["none", "all"])):
        task = {"name": "bias", "data": "questions.yaml", "rotations": rotations}
        write_config(assay.folder / name, {"task": task, "model": model})
    for command in ("check", "run"):
        one, two = (assay.json(command, name) for name in ("one.yaml", "two.yaml"))
        assert list(one) == list(two) == ["runs"]
        assert set(one["runs"][0]) == set(two["runs"][0])


# --- 11: no stale results ---------------------------------------------------------------------------------------------

WITH_SIBLING = """
from lmassay import Model, Response
from wording import ANSWER


class Talker(Model):
    name = "talker"
    can = frozenset({"generate"})

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        for request in requests:
            yield Response(ANSWER)
"""


def write_talker(folder: Path, answer: str, before: str = "") -> str:
    """A model that imports its answer from a module in its folder."""
    folder.mkdir(exist_ok=True)
    (folder / "talker.py").write_text(before + WITH_SIBLING, encoding="utf-8")
    (folder / "wording.py").write_text(f"ANSWER = {answer!r}\n", encoding="utf-8")
    return f"{folder.name}/talker.py:Talker"


def accuracies(assay: Assay, models: Sequence[str]) -> list[float]:
    config = {"task": {"name": "bias", "data": "questions.yaml", "rotations": "none"}, "model": list(models)}
    write_config(assay.folder / "talkers.yaml", config)
    assay.command("run", "talkers.yaml")
    return [result(run, "accuracy_amb")["value"] for run in assay.json("ls")["runs"][-len(models) :]]


def test_a_model_can_import_the_modules_next_to_it_and_each_folder_has_its_own(assay):
    assay.ask(pairs(0, 4), "base")
    models = [write_talker(assay.folder / name, answer) for name, answer in (("one", "C"), ("two", "A"))]
    assert accuracies(assay, models) == [1, 0]


def test_answers_are_not_reused_if_a_module_that_the_model_imports_has_changed(assay):
    assay.ask(pairs(0, 4), "base")
    # The folder is put on the path by hand, because the faulty version did not look for modules there.
    before = f"import sys; sys.path.insert(0, {str(assay.folder / 'one')!r})"
    assert accuracies(assay, [write_talker(assay.folder / "one", "C", before)]) == [1]
    assert accuracies(assay, [write_talker(assay.folder / "one", "A", before)]) == [0]


def edit(assay: Assay, statement: str, *values: str) -> None:
    with sqlite3.connect(assay.folder / "results" / "lmassay.sqlite") as database:
        assert database.execute(statement, values).rowcount == 1
    database.close()


def test_a_result_that_was_changed_in_the_results_folder_is_not_shown(assay):
    (run,) = assay.ask(pairs(1, 10), "new")
    assert "0.900" in assay.command("show", run["run"])
    edit(assay, "UPDATE runs SET results = replace(results, '0.9', '0.8')")
    shown = assay.command("show", run["run"])
    assert "0.800" not in shown
    assert f"lmassay resume {run['run']}" in shown.replace("\n", " ")


def test_latest_is_the_run_that_was_recorded_last_whatever_the_clock_said(assay):
    first, second = assay.ask(pairs(0, 4), "base", "new")
    edit(assay, "UPDATE runs SET created = '2099-01-01T00:00:00+00:00' WHERE id = ?", first["run"])
    shown = assay.command("show", "latest")
    assert second["run"] in shown
    assert first["run"] not in shown
