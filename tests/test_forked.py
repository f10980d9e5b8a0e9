"""A forked command has its own environment, folder, streams and exit code, and leaves nothing in the server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.forked import CommandServer, command_server, in_forks

PLUGIN = """
import os, sys
from pathlib import Path
from lmassay import Model

print("process", os.getpid(), "folder", Path.cwd().name, "setting", os.environ.get("SETTING"), file=sys.stderr)

class Mine(Model):
    name = "mine"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    with command_server() as running:
        yield running


def test_output_errors_and_exit_code_are_those_of_the_command(server):
    done = server.run(["--version"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("lmassay, version ")
    wrong = server.run(["nosuchcommand"])
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "nosuchcommand" in wrong.stderr


def test_each_command_has_its_own_process_folder_and_environment(server, tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "c.yaml").write_text("task: syntax\nmodel: mine.py:Mine\n", encoding="utf-8")
    processes = set()
    for setting in ("one", "two"):
        seen = server.run(["check", "c.yaml"], tmp_path, {"SETTING": setting}).stderr
        _, process, _, folder, _, value = seen.splitlines()[0].split()
        assert (folder, value) == (tmp_path.name, setting)
        processes.add(int(process))
    assert len(processes) == 2
    assert not processes & {os.getpid(), server.process.pid}


def test_what_python_reads_when_it_starts_is_refused(server):
    with pytest.raises(ValueError, match="PYTHONUTF8: read when Python starts"):
        server.run(["--version"], env={"PYTHONUTF8": "0"})


def test_the_server_ends_with_the_block():
    with command_server() as running:
        process = running.process
    assert process.poll() == 0


def test_forks_of_the_test_end_as_their_functions_do(tmp_path):
    def leaves() -> None:
        (tmp_path / "done").write_text(str(os.getpid()), encoding="utf-8")

    def fails() -> None:
        raise ValueError("on purpose")

    def stops() -> None:
        raise SystemExit(3)

    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_forks(leaves, fails, stops, dies) == [0, 1, 3, -signal.SIGKILL]
    assert (tmp_path / "done").read_text(encoding="utf-8") != str(os.getpid())
