"""The tests do not depend on what a developer has set for himself, nor touch his results."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.conftest import loaded_by_collecting
from tests.helpers import ROOT

_TEST = "tests/cli/test_completion.py::test_runs_of_the_results_folder"
_TABLE = "tests/cli/test_first_run.py::test_what_is_no_terminal_has_neither_colours_nor_bars"


def test_a_developers_results_colours_and_width_change_no_test(tmp_path):
    own = {"LMASSAY_RESULTS": str(tmp_path / "mine"), "FORCE_COLOR": "1", "COLUMNS": "50"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", _TEST, _TABLE],
        cwd=ROOT,
        env={**os.environ, **own},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "mine").exists()


def test_collecting_the_tests_imports_no_library_that_takes_seconds(pytestconfig):
    """Import it in ``setup_module``, a fixture or a test."""
    assert pytestconfig.stash[loaded_by_collecting] == []
