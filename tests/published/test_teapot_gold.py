"""What the original TEAPOT printed on the shared cases, and what this one does where the original crashed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers.meteor import find_jar
from lmassay.evaluations.robustness.teapot.program import run
from tests.helpers import ROOT, lmassay

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


def cases() -> list[dict]:
    from tests.conftest import shared_folder

    folder = shared_folder()
    if folder is None:
        return []
    found = []
    for line in (folder / "gold" / "teapot" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            # One case was recorded with an unescaped quote; it is covered by the test of missing custom files.
            assert "err.custom-missing-file" in line
    return found


CASES = cases()
RIGHT = [case for case in CASES if case["rc"] == 0]
WRONG = [case for case in CASES if case["rc"] != 0]


def arguments(case: dict, shared: Path) -> list[str]:
    jar = ""
    if any("{meteor_jar}" in argument for argument in case["args"]):
        if shutil.which("java") is None:
            pytest.skip("there is no java for METEOR")
        try:
            jar = str(find_jar())
        except UserError as error:
            pytest.skip(str(error))
    places = {
        "{data}": str(shared / "data" / "teapot"),
        "{inputs}": str(shared / "gold" / "teapot" / "inputs"),
        "{custom}": str(ROOT / "examples" / "custom_scorers.py"),
        "{meteor_jar}": jar,
    }
    found = []
    for argument in case["args"]:
        for name, value in places.items():
            argument = argument.replace(name, value)
        found.append(argument)
    return found


def test_the_gold_was_found(shared):
    assert len(RIGHT) > 130
    assert len(WRONG) > 40


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case["name"])
def test_standard_output_is_the_original_s(case, shared, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    args = arguments(case, shared)
    if "-h" in args:
        with pytest.raises(SystemExit) as stop:
            run(args)
        assert stop.value.code == 0
        assert capsys.readouterr().out == case["stdout"]
        return
    printed = run(args).text
    if case["name"] in CAPPED:
        before, after = CAPPED[case["name"]]
        assert f"Success percentage: {before} %" in case["stdout"]
        assert printed == case["stdout"].replace(f"percentage: {before}", f"percentage: {after}")
    else:
        assert printed == case["stdout"]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case["name"])
def test_a_crash_of_the_original_is_a_clear_error_or_the_right_result(case, shared, capsys):
    args = arguments(case, shared)
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


@pytest.mark.parametrize("name", ["mt.charswap.chrf.both.ref", "missing.ref.both", "abbrev-options", "help"])
def test_the_command_itself_prints_it_and_ends_with_the_right_code(name, shared):
    case = next(case for case in CASES if case["name"] == name)
    done = lmassay("teapot", *arguments(case, shared), env={"COLUMNS": "80"})
    if case["rc"] == 0:
        assert (done.returncode, done.stdout) == (0, case["stdout"])
    else:
        assert (done.returncode, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr


def test_bleu_of_sacrebleu_1_is_an_option(shared):
    mt = shared / "data" / "teapot" / "MT"
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
