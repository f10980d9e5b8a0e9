"""Running what a page shows, as a reader would: in one folder, from top to bottom.

A line that is only ``lmassay …`` is run in this process, which saves starting Python each time; bash runs the rest.
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
from pathlib import Path

from tests import in_process
from tests.docs.blocks import Block
from tests.helpers import ROOT

# What no test runs: it installs, needs a network, or changes the repository. The targets of make and the commands of
# contributors are checked by test_readme.py and test_contributing.py.
EXEMPT = re.compile(
    r"\s*(make( |$)|(python -m )?pip install |git (clone|commit|tag) |\S+/bin/|python -m (venv|build|twine)\b)"
)
LANGUAGES = ("sh", "console", "python")
_OTHER_SHELLS = ("bash", "shell", "zsh", "powershell", "bat", "shell-session", "sh-session")
_SECONDS = 900

# What a block may need: a fixture that gives it or skips, or a program.
FIXTURES = ("smollm2", "smollm2_gguf", "shared", "mirror", "server", "package")
PROGRAMS = ("java", "chromium", "pdflatex")
NEEDS = (*FIXTURES, *PROGRAMS)

# What only a shell understands, outside quotes: pipes, redirections, patterns, lists of commands.
_OF_THE_SHELL = re.compile(r"[|&;<>()`*?\[\]{}~]")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)\}")
# Lines that change what the lines after them mean, so that one bash must run them all.
_CHANGES_THE_SHELL = re.compile(r"\s*(cd|export|set|source|\.|for|while|if|case|function|trap|\w+=\S*$)\b|.*(<<|\\$)")


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
        log.write_bytes(b"")
        code = 0
        for part in [script] if until else parts(script):
            code = self._run_part(part, log, until)
            if code:
                break
        self.printed = log.read_text(encoding="utf-8", errors="replace")
        self.transcript += self.printed
        assert code == wanted, f"{block.where} ended with exit code {code}, not {wanted}:\n{script}\n{self.printed}"

    def _run_part(self, part: str, log: Path, until: str | None) -> int:
        """Run one command line in this process, or some by bash; what they print is added to the log."""
        environment = _environment(self.variables)
        words = command_words(part, environment)
        # What a variable adds to the search path is seen by a new process only.
        if words is None or until or "PYTHONPATH" in self.variables:
            return _bash(part, self.folder, environment, log, until)
        with log.open("ab") as stream:
            return in_process.run_into(stream, stream, words[1:], self.folder, environment)


def _script(block: Block) -> str:
    """The block without the lines that are not to be run."""
    return "\n".join(line for line in block.text.replace("\\\n", " ").splitlines() if not EXEMPT.match(line))


def parts(script: str) -> Iterator[str]:
    """The lines that are run in this process one by one; those between them together, by one bash."""
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
    return line.startswith("lmassay ") and not _OF_THE_SHELL.search(unquoted) and not ("'" in line and "$" in line)


def command_words(line: str, variables: Mapping[str, str]) -> list[str] | None:
    """The words of a plain call of lmassay, variables filled in; None where only a shell can tell.

    >>> command_words('lmassay run "$NAME.yaml" # now', {"NAME": "my own"})
    ['lmassay', 'run', 'my own.yaml']
    """
    if "\n" in line or not _is_plain(line):
        return None
    words = shlex.split(line, comments=True)
    wanted = {name for word in words for pair in _VARIABLE.findall(word) for name in pair if name}
    if not wanted <= set(variables):
        return None
    return [_VARIABLE.sub(lambda found: variables[found[1] or found[2]], word) for word in words]


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("LMASSAY_")}
    # The model that a fixture has fetched lies there.
    kept = {name: os.environ[name] for name in ("LMASSAY_CACHE",) if name in os.environ}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**own, **kept, "PATH": path, "NO_COLOR": "1", **variables}


def _bash(script: str, folder: Path, environment: Mapping[str, str], log: Path, until: str | None) -> int:
    """Run a script; what it leaves in the background ends with it."""
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
    """Every line that a page shows was printed as a whole line; ``…`` alone stands for anything."""
    lines = [line.rstrip() for line in printed.splitlines()]
    wrong = [line for line in map(str.rstrip, shown.splitlines()) if line and not any(map(_like(line), lines))]
    told = "\n".join(wrong)
    assert not wrong, f"{block.where}: the page shows\n{told}\nbut this was printed:\n{printed}"


def _like(shown: str) -> Callable[[str], object]:
    return re.compile(".*".join(map(re.escape, shown.split("…")))).fullmatch
