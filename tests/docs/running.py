"""Run what a page shows as a reader would: in one folder, from top to bottom.

Plain ``lmassay …`` lines run in this process, which saves starting Python each time, and Python in a fork of it; bash
runs the others.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from tests import in_process
from tests.docs.blocks import Block

# Commands that no test runs because they install something, need a network, or change the repository. test_readme.py
# and test_contributing.py check the targets of make and the commands for contributors.
EXEMPT = re.compile(
    r"\s*(make( |$)|(python -m )?pip install |git (clone|commit|tag) |\S+/bin/|python -m (venv|build|twine)\b)"
)
LANGUAGES = ("sh", "console", "python")
_OTHER_SHELLS = ("bash", "shell", "zsh", "powershell", "bat", "shell-session", "sh-session")
_SECONDS = 900

# What a block may need: a fixture, which may skip, or a program.
FIXTURES = ("smollm2", "smollm2_gguf", "data_folder", "mirror", "server", "package")
PROGRAMS = ("java", "chromium", "pdflatex")
NEEDS = (*FIXTURES, *PROGRAMS)

# How the Python of a page is run.
_SCRIPT = "python .shown.py"
_DOCTEST = "python -m doctest -o ELLIPSIS .shown.txt"

# Characters that only a shell understands outside quotes: pipes, redirections, patterns, lists of commands.
_OF_THE_SHELL = re.compile(r"[|&;<>()`*?\[\]{}~]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")
# A call of lmassay, perhaps with variables for this call only: NAME=value lmassay …
_CALL = re.compile(r"(\w+=[^\s'\"]+ +)*lmassay ")
# Lines that change what the lines after them mean, so that one bash must run them all.
_CHANGES_THE_SHELL = re.compile(r"\s*(cd|export|set|source|\.|for|while|if|case|function|trap|\w+=\S*$)\b|.*(<<|\\$)")


def commands(block: Block) -> list[str]:
    """The command lines of a block, continued ones joined, without comments and blank lines."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def left_out(blocks: Sequence[Block]) -> list[str]:
    """Commands that a reader sees and no test runs, because their block is of a kind that is not run."""
    problems: list[str] = []
    for block in blocks:
        if block.language in ("sh", "console"):
            if not commands(block):
                problems.append(f"{block.where}: no command")
        elif block.language in _OTHER_SHELLS:
            problems.append(f"{block.where}: write sh or console, which are run")
        elif block.language != "python" and not {"prints", "file", "part"} & set(block.notes):
            for line in block.text.splitlines():
                if line.startswith(("lmassay ", "$ ", "python -m ")):
                    problems.append(f"{block.where}: {line!r} is in a block that is not run")
    return problems


@dataclass
class Reader:
    """Somebody who follows a page in an empty folder."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    transcript: str = ""

    def does(self, block: Block) -> None:
        """Run a block, write the file that it shows, or compare its text with the output above."""
        if "prints" in block.notes:
            check_printed(block, block.text, self.printed)
        elif "file" in block.notes:
            self._writes(block)
        elif "part" in block.notes:
            text = self._path(block.notes["part"], block).read_text(encoding="utf-8")
            assert block.text in text, f"{block.where}: not a part of {block.notes['part']}"
        elif block.language == "console":
            self._types(block)
        elif block.language == "sh":
            self._runs(block, _script(block))
        elif block.language == "python" and ">>> " in block.text:
            (self.folder / ".shown.txt").write_text(block.text, encoding="utf-8")
            self._runs(block, _DOCTEST)
        elif block.language == "python" and "run" in block.notes:
            (self.folder / ".shown.py").write_text(block.text, encoding="utf-8")
            self._runs(block, _SCRIPT)

    def _writes(self, block: Block) -> None:
        path = self._path(block.notes["file"], block)
        if path.exists() and "changed" not in block.notes:
            # A command has written it, and the page shows it.
            assert block.text == path.read_text(encoding="utf-8"), f"{block.where}: not what {path.name} contains"
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def _path(self, name: str, block: Block) -> Path:
        path = self.folder / name
        assert path.resolve().is_relative_to(self.folder.resolve()), block.where
        return path

    def _types(self, block: Block) -> None:
        """Run each command of a console block and compare its output with the lines below it."""
        for entry in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, shown = entry.replace("\\\n", " ").partition("\n")
            if not EXEMPT.match(command):
                self._runs(block, command)
                check_printed(block, shown, self.printed)

    def _runs(self, block: Block, script: str) -> None:
        expected_code, until = int(block.notes.get("exits") or 0), block.notes.get("until")
        if (expected_code or until) and block.language != "python":
            assert len(commands(block)) == 1, f"{block.where}: 'exits' and 'until' are for a block of one command"
        if not script.strip():
            return
        log = self.folder / ".printed"
        log.write_bytes(b"")
        code = 0
        for part in [script] if until else parts(script):
            code = self._run_part(part, log, until)
            if code:
                break
        self.printed = log.read_text(encoding="utf-8", errors="replace")
        self.transcript += self.printed
        assert code == expected_code, (
            f"{block.where} ended with exit code {code}, not {expected_code}:\n{script}\n{self.printed}"
        )

    def _run_part(self, part: str, log: Path, until: str | None) -> int:
        """Run one command line in this process, or several with bash, and append their output to the log."""
        environment = _environment(self.variables)
        if part in (_SCRIPT, _DOCTEST) and "PYTHONPATH" not in self.variables:
            with log.open("ab") as stream:
                return in_process.run_python_into(stream, stream, part.split()[1:], self.folder, environment)
        words = command_words(part, environment)
        # Only a new process sees what a variable adds to the search path.
        if words is None or until or "PYTHONPATH" in self.variables:
            return _bash(part, self.folder, environment, log, until)
        command = words.index("lmassay")
        for assignment in words[:command]:
            name, _, value = assignment.partition("=")
            environment[name] = value
        with log.open("ab") as stream:
            return in_process.run_into(stream, stream, words[command + 1 :], self.folder, environment)


def _script(block: Block) -> str:
    """The block without the lines that are exempt."""
    return "\n".join(line for line in block.text.replace("\\\n", " ").splitlines() if not EXEMPT.match(line))


def parts(script: str) -> Iterator[str]:
    """Split a script: each plain line for this process on its own, and the lines between them together for bash."""
    if any(map(_CHANGES_THE_SHELL.match, script.splitlines())):
        yield script
        return
    for_bash: list[str] = []
    for line in filter(str.strip, script.splitlines()):
        if not _is_plain(line):
            for_bash.append(line)
            continue
        if for_bash:
            yield "\n".join(for_bash)
        for_bash = []
        yield line
    if for_bash:
        yield "\n".join(for_bash)


def _is_plain(line: str) -> bool:
    """Whether a line is a call of lmassay with words, quotes and variables only."""
    unquoted = _QUOTED.sub("", line.partition(" #")[0])
    return bool(_CALL.match(line)) and not _OF_THE_SHELL.search(unquoted) and not ("'" in line and "$" in line)


def command_words(line: str, variables: Mapping[str, str]) -> list[str] | None:
    """The words of a plain call of lmassay with variables filled in; None if it needs a shell.

    >>> command_words('lmassay run "$NAME.yaml" # now', {"NAME": "my own"})
    ['lmassay', 'run', 'my own.yaml']
    >>> command_words("DATA=$HOME/data lmassay check c.yaml", {"HOME": "/home/ann"})
    ['DATA=/home/ann/data', 'lmassay', 'check', 'c.yaml']
    """
    if "\n" in line or not _is_plain(line):
        return None
    words = shlex.split(line, comments=True)
    try:
        return [_VARIABLE.sub(lambda match: variables[match[1] or match[2]], word) for word in words]
    except KeyError:  # a variable that is not set
        return None


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("LMASSAY_")}
    # The cache contains the model that a fixture has fetched.
    if "LMASSAY_CACHE" in os.environ:
        inherited["LMASSAY_CACHE"] = os.environ["LMASSAY_CACHE"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**inherited, "PATH": path, "NO_COLOR": "1", **variables}


def _bash(script: str, folder: Path, environment: Mapping[str, str], log: Path, until: str | None) -> int:
    """Run a script and end all processes that it leaves in the background."""
    with log.open("ab") as stream:
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
    """Check that every line that a page shows was printed as a whole line; ``…`` matches anything.

    The fourth decimal of a number may differ by one: processors add the same products in different orders.
    """
    printed_lines = [line.rstrip() for line in printed.splitlines()]
    missing: list[str] = []
    for line in map(str.rstrip, shown.splitlines()):
        if line and not any(map(_matcher(line), printed_lines)):
            missing.append(line)
    message = "\n".join(missing)
    assert not missing, f"{block.where}: the page shows\n{message}\nbut this was printed:\n{printed}"


def _matcher(shown: str) -> Callable[[str], object]:
    pattern = ""
    end = 0
    for part in re.finditer(r"…|(?<![\d.])\d+\.\d{4}(?!\d)", shown):
        pattern += re.escape(shown[end : part.start()])
        if part.group() == "…":
            pattern += ".*"
        else:
            pattern += _with_neighbours(part.group())
        end = part.end()
    return re.compile(pattern + re.escape(shown[end:])).fullmatch


def _with_neighbours(number: str) -> str:
    """A pattern of a number with four decimals and the two numbers next to it."""
    value = Decimal(number)
    step = Decimal("0.0001")
    return "(?:" + "|".join(re.escape(str(n)) for n in (value, value - step, value + step) if n >= 0) + ")"
