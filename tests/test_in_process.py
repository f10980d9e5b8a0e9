"""A command in the test's process prints and ends as one in a process of its own does, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from lmassay import redaction
from lmassay.plugins import registry
from tests.helpers import lmassay, lmassay_process, write_config, write_lines

MODEL = """
import logging, os, signal, subprocess, sys, warnings
import beside
from lmassay.models.echo import Echo
from lmassay.redaction import remember_secret

remember_secret("0123456789abcdef")
logging.getLogger().setLevel(logging.DEBUG)
logging.getLogger().addHandler(logging.NullHandler())
os.environ["LEFT_BEHIND"] = "1"
os.chdir(os.path.dirname(__file__) + "/elsewhere")
sys.path.append("/left/behind")
signal.signal(signal.SIGINT, signal.SIG_IGN)
warnings.warn("mind the gap")
warnings.simplefilter("ignore")
subprocess.run([sys.executable, "-c", "import os; os.write(2, b'from a child')"], check=True)


class Own(Echo):
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A configuration with a model that changes all it can reach, and a module beside it."""
    (tmp_path / "own.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "beside.py").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))  # as python -m does
    write_lines(tmp_path / "src.txt", ["the cat sat on the mat"])
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "delete", "rate": 1.0}}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "own.py:Own", "resamples": 100})
    return tmp_path


def state() -> tuple[object, ...]:
    root = logging.getLogger()
    return (
        Path.cwd(),
        dict(os.environ),
        list(sys.path),
        sys.argv,
        [sys.stdin, sys.stdout, sys.stderr],
        [os.fstat(number).st_ino for number in range(3)],
        [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
        (root.level, list(root.handlers)),
        list(warnings.filters),
        dict(registry._root._own),
        dict(registry._root._files),
        set(redaction._in_use),
    )


def test_what_a_command_changes_is_put_back(folder):
    lmassay("scorers")
    before, modules = state(), set(sys.modules)
    done = lmassay("run", "c.yaml", cwd=folder, env={"OWN": "1"})
    assert done.returncode == 0, done.stderr
    assert state() == before
    left = {name for name in set(sys.modules) - modules if "lmassay_user_" in name or name == "beside"}
    assert left == set()


def test_what_a_child_writes_and_what_is_warned_of_is_seen(folder):
    done = lmassay("run", "c.yaml", "--json", cwd=folder)
    assert "UserWarning: mind the gap" in done.stderr
    assert "from a child" in done.stderr
    assert "from a child" not in done.stdout


@pytest.mark.parametrize("arguments", [["ls"], ["--version"], ["nonsense"], ["scorers", "--json"], ["init"]])
def test_it_prints_and_ends_as_a_process_does(tmp_path, arguments):
    ours, theirs = lmassay(*arguments, cwd=tmp_path), lmassay_process(*arguments, cwd=tmp_path)
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)


def test_a_bug_is_a_traceback_and_exit_code_one(monkeypatch):
    from lmassay.cli.actions import components

    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(components, "print_table", broken)
    done = lmassay("scorers")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("RuntimeError: a bug\n")


def test_plug_ins_and_keys_of_a_test_are_not_seen():
    with registry.Registry().active():
        registry.register("scorer", "only_here")(lambda hyp, ref: 1.0)
        assert "only_here" not in lmassay("scorers").stdout


@pytest.mark.parametrize("name", ["PYTHONUTF8", "HF_HOME", "LC_ALL"])
def test_what_is_read_at_the_start_of_a_process_needs_one(name):
    with pytest.raises(ValueError, match="use lmassay_process"):
        lmassay("ls", env={name: "another"})


def test_a_result_is_that_of_subprocess():
    assert isinstance(lmassay("--version"), subprocess.CompletedProcess)
    assert lmassay("--version").args == ["lmassay", "--version"]
