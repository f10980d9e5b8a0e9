"""What the original TEAPOT printed on its published examples, and what lmassay does where the original crashed.

The figures are in ``figures/teapot``. The sentences come from the catalogue of data sets.
``test_teapot_reference.py`` makes the same comparison on sentences of this repository.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers.meteor import find_jar
from lmassay.evaluations.robustness.teapot.program import run
from tests.helpers import EVALUATIONS, lmassay
from tests.published.teapot_inputs import write_inputs
from tests.published.teapot_reference import why_meteor_is_missing
from tests.published_data import FIGURES, digests, published_set

# BLEU of identical text is 1.0000000000000004 in the original, so an unchanged line counted as a successful attack.
# Capped at 1 it is none: case → (what the original printed, what is printed here).
CAPPED = {
    "identical.bleu.both.ref": ("100.00", "0.00"),
    "mt.charswap.bleu.both.ref": ("42.60", "41.60"),
    "mt.charswap.bleu-chrf.both.ref": ("10.20", "9.20"),
}
# Crashes of the original (a division by zero where the target is wholly destroyed) that have a right result.
DESTROYED = "ZeroDivisionError"
RIGHT_RESULTS = {
    "mt.knn.default.both.noref": "68.40",
    "mt.knn.chrf.both.noref": "68.40",
}


CASES = [json.loads(line) for line in (FIGURES / "teapot" / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


def needs_meteor(case: dict) -> bool:
    return any("{meteor_jar}" in argument for argument in case["args"])


def parameters(cases: list[dict]) -> list:
    """Cases with METEOR are slow: they run on one worker with the other tests of METEOR, so that Java starts once."""
    marked = []
    for case in cases:
        marks = [pytest.mark.slow] if needs_meteor(case) else []
        marked.append(pytest.param(case, id=case["name"], marks=marks))
    return marked


RIGHT = parameters([case for case in CASES if case["rc"] == 0])
WRONG = parameters([case for case in CASES if case["rc"] != 0])


@pytest.fixture(scope="session")
def data():
    return published_set("teapot")


@pytest.fixture(scope="session")
def inputs(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(data, folder)
    return folder


def arguments(case: dict, data: Path, inputs: Path) -> list[str]:
    jar = ""
    if needs_meteor(case):
        missing = why_meteor_is_missing()
        if missing:
            pytest.skip(missing)
        jar = str(find_jar())
    places = {
        "{data}": str(data),
        "{inputs}": str(inputs),
        "{custom}": str(EVALUATIONS / "robustness/starters/custom_scorers.py"),
        "{meteor_jar}": jar,
    }
    collected = []
    for argument in case["args"]:
        for name, value in places.items():
            argument = argument.replace(name, value)
        collected.append(argument)
    return collected


def test_all_figures_are_there():
    assert len(RIGHT) > 130
    assert len(WRONG) > 40


def test_the_inputs_are_those_of_the_original_runs(inputs):
    made = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs.iterdir()}
    assert made == digests(FIGURES / "teapot" / "inputs.sha256")


@pytest.mark.parametrize("case", RIGHT)
def test_standard_output_is_the_original_s(case, data, inputs):
    printed = run(arguments(case, data, inputs)).text
    if case["name"] in CAPPED:
        before, after = CAPPED[case["name"]]
        assert f"Success percentage: {before} %" in case["stdout"]
        assert printed == case["stdout"].replace(f"percentage: {before}", f"percentage: {after}")
    else:
        assert printed == case["stdout"]


@pytest.mark.parametrize("case", WRONG)
def test_a_crash_of_the_original_is_a_clear_error_or_the_right_result(case, data, inputs, capsys):
    args = arguments(case, data, inputs)
    try:
        printed = run(args).text
    except UserError as error:
        assert len(str(error)) > 20
        assert "Traceback" not in str(error)
    except SystemExit as stop:
        assert stop.code == 2
        assert capsys.readouterr().err.splitlines()[-1] == case["error"]
    else:
        assert DESTROYED in case["error"]
        assert printed.startswith(case["stdout"])
        if case["name"] in RIGHT_RESULTS:
            assert printed.endswith(f"Success percentage: {RIGHT_RESULTS[case['name']]} %\n")


@pytest.mark.parametrize("name", ["mt.charswap.chrf.both.ref", "missing.ref.both", "abbrev-options"])
def test_the_command_itself_prints_it_and_ends_with_the_right_code(name, data, inputs):
    case = next(case for case in CASES if case["name"] == name)
    done = lmassay("teapot", *arguments(case, data, inputs), env={"COLUMNS": "80"})
    if case["rc"] == 0:
        assert (done.returncode, done.stdout) == (0, case["stdout"])
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr


def test_bleu_of_sacrebleu_1_is_an_option(data):
    mt = data / "MT"
    args = [
        "--src",
        mt / "src.fr",
        "--adv-src",
        mt / "adv.knn.fr",
        "--out",
        mt / "base.en",
        "--adv-out",
        mt / "adv.knn.en",
    ]
    args += ["--ref", mt / "ref.en", "--s-src", "bleu", "--s-tgt", "bleu", "--bleu-compat", "1.x", "--terse"]
    assert run([str(a) for a in args]).text.splitlines()[:2] == ["55.931", "31.600"]
