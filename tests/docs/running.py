"""Running what a page shows, as a reader would: bash, in one folder, from top to bottom."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.blocks import Block
from tests.helpers import ROOT

# What no test runs: it installs, or needs a network. make's targets are held by tests/docs/test_readme.py.
EXEMPT = re.compile(r"\s*(make( |$)|(python -m )?pip install |git clone )")
LANGUAGES = ("sh", "console", "python")
_OTHER_SHELLS = ("bash", "shell", "zsh", "powershell", "bat", "shell-session", "sh-session")
_SECONDS = 300

# What a block may need: a fixture that gives it or skips, or a program.
FIXTURES = ("smollm2", "smollm2_gguf", "shared", "server", "package")
PROGRAMS = ("java", "chromium", "pdflatex")
NEEDS = (*FIXTURES, *PROGRAMS)


def commands(block: Block) -> list[str]:
    """The command lines of a block, continued ones joined, without comments and blank lines."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def left_out(blocks: Sequence[Block]) -> list[str]:
    """Commands that a reader sees and no test runs: those in a block of another kind than the ones that are run."""
    found = []
    for block in blocks:
        if block.language in ("sh", "console"):
            found += [] if commands(block) else [f"{block.where}: no command"]
        elif block.language in _OTHER_SHELLS:
            found.append(f"{block.where}: write sh or console, which are run")
        elif block.language != "python" and not {"prints", "file", "part"} & set(block.notes):
            stray = [line for line in block.text.splitlines() if line.startswith(("lmassay ", "$ ", "python -m "))]
            found += [f"{block.where}: {line!r} stands in a block that is not run" for line in stray]
    return found


@dataclass
class Reader:
    """Somebody who does what a page says, in a folder of their own."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    transcript: str = ""

    def __post_init__(self) -> None:
        (self.folder / "examples").symlink_to(ROOT / "examples", target_is_directory=True)

    def does(self, block: Block) -> None:
        """Run a block, or write the file that it shows, or compare what it says was printed."""
        if "prints" in block.notes:
            check_printed(block, block.text, self.printed)
        elif "file" in block.notes and not block.notes["file"].startswith("examples/"):
            self._writes(block)
        elif block.language == "console":
            self._types(block)
        elif block.language == "sh":
            self._runs(block, _script(block))
        elif block.language == "python" and ">>> " in block.text:
            (self.folder / ".shown.txt").write_text(block.text, encoding="utf-8")
            self._runs(block, "python -m doctest -o ELLIPSIS .shown.txt")
        elif block.language == "python" and "run" in block.notes:
            (self.folder / ".shown.py").write_text(block.text, encoding="utf-8")
            self._runs(block, "python .shown.py")

    def _writes(self, block: Block) -> None:
        path = self.folder / block.notes["file"]
        assert path.resolve().is_relative_to(self.folder.resolve()), block.where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def _types(self, block: Block) -> None:
        """A console: each command, and below it what it prints."""
        for entry in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = entry.replace("\\\n", " ").partition("\n")
            if not EXEMPT.match(command):
                self._runs(block, command)
                check_printed(block, shown, self.printed)

    def _runs(self, block: Block, script: str) -> None:
        wanted, until = int(block.notes.get("exits") or 0), block.notes.get("until")
        if (wanted or until) and block.language != "python":
            assert len(commands(block)) == 1, f"{block.where}: 'exits' and 'until' are for a block of one command"
        if not script.strip():
            return
        log = self.folder / ".printed"
        code = _bash(script, self.folder, self.variables, log, until)
        self.printed = log.read_text(encoding="utf-8", errors="replace")
        self.transcript += self.printed
        assert code == wanted, f"{block.where} ended with exit code {code}, not {wanted}:\n{script}\n{self.printed}"


def _script(block: Block) -> str:
    """The block without the lines that are not to be run."""
    return "\n".join(line for line in block.text.replace("\\\n", " ").splitlines() if not EXEMPT.match(line))


def _bash(script: str, folder: Path, variables: Mapping[str, str], log: Path, until: str | None) -> int:
    """Run a script; what it leaves in the background ends with it."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LMASSAY_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "NO_COLOR": "1",
        **variables,
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [str(shutil.which("bash")), "--norc", "-e", "-u", "-o", "pipefail", "-c", script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            if until is None:
                return process.wait(_SECONDS)
            _wait(lambda: until in log.read_text(encoding="utf-8") or process.poll() is not None)
            assert until in log.read_text(encoding="utf-8"), f"{until!r} was not printed:\n{log.read_text()}"
            return 0
        finally:
            _end(process)


def _wait(done: Callable[[], bool]) -> None:
    latest = time.monotonic() + _SECONDS
    while not done() and time.monotonic() < latest:
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the script and whatever it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def check_printed(block: Block, shown: str, printed: str) -> None:
    """Every line that a page shows was printed as a whole line; ``…`` alone stands for anything."""
    lines = [line.rstrip() for line in printed.splitlines()]
    wrong = [line for line in map(str.rstrip, shown.splitlines()) if line and not any(map(_like(line), lines))]
    told = "\n".join(wrong)
    assert not wrong, f"{block.where}: the page shows\n{told}\nbut this was printed:\n{printed}"


def _like(shown: str) -> Callable[[str], object]:
    return re.compile(".*".join(map(re.escape, shown.split("…")))).fullmatch
