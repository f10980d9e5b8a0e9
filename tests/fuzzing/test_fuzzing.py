"""The fuzzers in their short form, the cases that they found, and that they would notice a bug."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.fuzzing import __main__ as program
from tests.fuzzing import harness
from tests.fuzzing.harness import CASES, Failure, Finding, Fuzzer, problem_of, replay, run_commands
from tests.fuzzing.kinds import KINDS, CommandKind

STORED = sorted(CASES.glob("*.json"))
# Results folders and model folders have tests of their own.
SHORT = sorted(set(KINDS) - {"stores", "model_folders"})
SECONDS = 5.0
MOST_CASES = 12


@pytest.mark.parametrize("name", SHORT)
def test_no_command_ends_in_a_traceback(name, tmp_path):
    fuzzer = Fuzzer(name, KINDS[name], seed=7, work=tmp_path)
    assert fuzzer.check_intact() is None
    fuzzer.run(SECONDS, MOST_CASES)
    assert fuzzer.cases > 0
    assert [failure.finding for failure in fuzzer.failures.values()] == []


@pytest.mark.parametrize("case", STORED, ids=lambda case: case.stem)
def test_what_was_found_before_stays_fixed(case, tmp_path):
    assert replay(case, KINDS, tmp_path) is None


# --- the fuzzer itself ------------------------------------------------------------------------------------------------

CRASH = """
from lmassay import Model, Response

class Crashes(Model):
    name, can = "crashes", frozenset({"generate"})

    def identity(self):
        return {"name": "crashes"}

    def generate(self, requests):
        text = open("word.txt").read()
        for request in requests:
            if text != "good":
                %s
            yield Response(request.prompt)
"""
CONFIG = "task: {name: robustness, src: src.txt, attack: charswap}\nmodel: model.py:Crashes\n"


def crashing_kind(statement: str) -> CommandKind:
    def prepare(folder: Path) -> None:
        (folder / "model.py").write_text(CRASH % statement)
        (folder / "src.txt").write_text("one line\nanother line\n")
        (folder / "config.yaml").write_text(CONFIG)
        (folder / "word.txt").write_text("good")

    def damage(path: Path, rng: random.Random) -> str:
        # Every second change is harmless.
        if rng.random() < 0.5:
            (path / "word.txt").write_text("bad")
            return "bad word"
        return "nothing"

    return CommandKind(prepare, damage, lambda *_: [["check", "config.yaml"], ["run", "config.yaml"]])


def test_a_traceback_is_found_reduced_to_one_change_stored_and_repeated(tmp_path):
    kind = crashing_kind("raise SystemExit(77)")
    (tmp_path / "work").mkdir()
    fuzzer = Fuzzer("planted", kind, seed=1, work=tmp_path / "work")
    assert fuzzer.check_intact() is None
    fuzzer.run(60, 12)
    (failure,) = fuzzer.failures.values()
    assert failure.finding.problem == "exit code 77"
    assert failure.changes == ["bad word"]
    assert failure.files == {"word.txt": b"bad"}
    file = failure.save(tmp_path / "cases")
    (tmp_path / "again").mkdir()
    repeated = replay(file, {"planted": kind}, tmp_path / "again")
    assert repeated is not None
    assert repeated.problem == "exit code 77"


def test_a_command_that_hangs_is_found(tmp_path):
    kind = crashing_kind("import time; time.sleep(100)")
    kind.prepare(tmp_path)
    (tmp_path / "word.txt").write_text("bad")
    start = time.monotonic()
    finding = run_commands([["run", "config.yaml"]], tmp_path, limit=0.4)
    assert time.monotonic() - start < 60
    assert finding is not None
    assert finding.problem.startswith("hangs")


def test_many_lines_for_one_mistake_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(harness.in_process, "run", lambda *_: _done(2, "error: one\n" * 4))
    assert "4 lines for 1 mistakes" in problem_of(["ls"], tmp_path)[0]
    assert problem_of(["ls"], tmp_path, changes=2) == ("", "error: one\n" * 4)


def test_the_options_that_an_original_program_shows_are_not_errors():
    usage = "usage: TEAPOT [-h] [--src SRC]\n              [--out OUT]\n              [--ref REF]\n"
    assert harness.error_lines(usage + "TEAPOT: error: no such option\n") == ["TEAPOT: error: no such option"]


@pytest.mark.parametrize(
    ("code", "stderr", "problem"),
    [
        (0, "", ""),
        (1, "2 examples with errors\n", ""),
        (2, "error: no\n", ""),
        (2, "[1/1] robustness\nwarning: x\n", "exit code 2 without a message"),
        (3, "", "exit code 3"),
        (-11, "", "exit code -11"),
        (
            1,
            'Traceback (most recent call last):\n  File "/x/src/lmassay/a.py", line 3, in f\n    x\nKeyError: 1\n',
            "traceback: KeyError in lmassay/a.py, line 3",
        ),
    ],
)
def test_how_a_command_may_end(code, stderr, problem, tmp_path, monkeypatch):
    monkeypatch.setattr(harness.in_process, "run", lambda *_: _done(code, stderr))
    assert problem_of(["ls"], tmp_path)[0] == problem


def _done(code: int, stderr: str):
    return subprocess.CompletedProcess(["lmassay"], code, "", stderr)


def test_the_same_seed_makes_the_same_cases(tmp_path):
    changes = []
    for run in range(2):
        (tmp_path / str(run)).mkdir()
        kind = KINDS["configurations"]
        kind.prepare(tmp_path / str(run))
        rng = random.Random(5)
        changes.append([kind.damage(tmp_path / str(run), rng) for _ in range(20)])
    assert changes[0] == changes[1]


def test_a_case_that_is_too_large_is_not_stored(tmp_path):
    finding = Finding([["ls"]], "problem", "")
    assert Failure("logs", ["x"], finding, {"f": bytes(harness.LARGEST_CASE + 1)}).save(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_program_stops_after_a_number_of_cases(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(program, "KINDS", {"planted": crashing_kind("raise SystemExit(1)")})
    assert program.main(["--seconds", "60", "--number", "3", "--cases", str(tmp_path)]) == 0
    assert "planted              3 cases" in capsys.readouterr().out


def test_the_program_reports_and_stores_failures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(program, "KINDS", {"planted": crashing_kind("raise SystemExit(77)")})
    assert program.main(["--seconds", "5", "--seed", "1", "--cases", str(tmp_path / "cases")]) == 1
    printed = capsys.readouterr().out
    assert "exit code 77" in printed
    assert "seed 1: 1 failures" in printed
    assert len(list((tmp_path / "cases").glob("planted-*.json"))) == 1
