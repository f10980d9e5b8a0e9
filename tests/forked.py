"""Commands in new processes that do not have to import lmassay again.

A server process imports the command line once and forks for each command. The fork is a real process with its own
environment, working folder, streams and exit code, and it has loaded nothing but the command line. Variables that
Python reads when it starts (``PYTHON…``, ``LANG``, ``LC_…``) come too late for it; ``helpers.lmassay_process`` starts
Python again and has no such limit.

``in_forks`` calls functions in forks of the test's own process, which has torch and everything else loaded that takes
seconds to import: for processes that are killed, or that do the same at the same time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

# The last lines are reached only in a fork: the server leaves the loop when its input ends. A fork ends as Python does,
# but does not take apart what the server has imported, which would take longer than most commands.
_SERVER = """
import atexit, gc, json, os, sys, traceback
from lmassay.cli import main

# A fork that collects garbage would copy everything that the server has imported.
gc.freeze()
for line in sys.stdin:
    command = json.loads(line)
    process = os.fork()
    if process:
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
        continue
    for number, (name, flags) in enumerate(command["streams"]):
        stream = os.open(name, flags)
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["environment"])
    sys.argv = ["lmassay", *command["arguments"]]
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
"""
_READ_AT_START = ("PYTHON", "LANG", "LC_")


class CommandServer:
    """Runs one command after the other, each in a fork of the server process."""

    def __init__(self, preparation: str = "") -> None:
        """Start the server; ``preparation`` is Python that it executes before it imports lmassay."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", preparation + _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def run(
        self, arguments: Sequence[object], cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``lmassay ARGUMENTS``; ``env`` is added to the environment."""
        late = [name for name in env or {} if name.startswith(_READ_AT_START)]
        if late:
            raise ValueError(f"{', '.join(late)}: read when Python starts; use lmassay_process")
        words = [str(argument) for argument in arguments]
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            writing = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            command = {
                "arguments": words,
                "cwd": str(cwd or Path.cwd()),
                "environment": {**os.environ, **(env or {})},
                "streams": [(os.devnull, os.O_RDONLY), (str(out), writing), (str(err), writing)],
            }
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
            code = self.process.stdout.readline()
            if not code:
                raise RuntimeError(f"the server process ended with exit code {self.process.wait()}")
            return subprocess.CompletedProcess(
                ["lmassay", *words], int(code), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
            )

    def close(self) -> None:
        """End the server, which waits for no input then."""
        self.process.communicate()


@contextmanager
def command_server(preparation: str = "") -> Iterator[CommandServer]:
    """A server that ends with the block."""
    server = CommandServer(preparation)
    try:
        yield server
    finally:
        server.close()


def in_forks(*functions: Callable[[], object]) -> list[int]:
    """Call each function in a fork of this process, all at once; return the exit codes, negative for a signal."""
    children = [_forked(function) for function in functions]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _forked(function: Callable[[], object]) -> int:
    with warnings.catch_warnings():
        # The other threads are those of the test runner, which the child does not need.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code = 1
    try:
        torch = sys.modules.get("torch")
        if torch is not None:
            # The threads that computed for the parent do not exist here.
            torch.set_num_threads(1)
        function()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Nothing of what the parent has yet to do: no further test, no fixture, no exit handler.
        os._exit(code)
