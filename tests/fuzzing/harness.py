"""Runs commands on damaged input, decides what counts as a failure, and keeps failures as cases that a test repeats.

Each kind of input can write intact input into a folder (``prepare``), make one change and describe it (``damage``), and
run commands on the result (``check``); ``kinds.py`` lists them.

A command may fail, but only as documented: exit code 0, 1, 2 or 130, no traceback, at most three lines for one
mistake, and in time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from tests import in_process

CASES = Path(__file__).parent / "cases"
EXIT_CODES = (0, 1, 2, 130)
MOST_ERROR_LINES = 3
HANG = 60.0
"""Seconds after which a command counts as hanging."""
PATIENCE = 5
"""How many times as long a command may take that was given less than half of a processor: the machine is busy."""
MOST_CHANGES = 3
LARGEST_CASE = 200_000
"""Bytes of damaged files that a case stores."""

# Lines on standard error that do not report a mistake: progress, and how to continue.
_PROGRESS = re.compile(
    r"\s*$|lists start |\[\d+/\d+\]|warning: |all answers so far|continue with|see |results in |.*: wrote "
)


@dataclass(frozen=True)
class Finding:
    """What is wrong with how a command ended."""

    commands: list[list[str]]
    problem: str
    output: str


class Kind(Protocol):
    """One kind of input."""

    def prepare(self, folder: Path) -> None:
        """Write intact input."""

    def damage(self, path: Path, rng: random.Random) -> str:
        """Make one change and describe it."""

    def check(self, folder: Path, rng: random.Random, changes: int) -> Finding | None:
        """Run commands on input with this many changes; without any, they must succeed."""


class CommandHung(BaseException):
    """A command took too long. Not an Exception, so that no handler in between takes it for its own."""


@dataclass
class Failure:
    """A command that ended in a way that it must not, and how to make it do so again."""

    kind: str
    changes: list[str]
    finding: Finding
    files: dict[str, bytes | None] = field(default_factory=dict)
    """Damaged files by their name in the folder; None for a file that was deleted."""
    case: int = 0
    """The number of the case, which makes it again with the same seed."""

    @property
    def name(self) -> str:
        """The same for the same problem, so that a bug that many changes reveal is stored once."""
        return f"{self.kind}-{hashlib.blake2b(self.finding.problem.encode(), digest_size=4).hexdigest()}"

    def save(self, folder: Path = CASES) -> Path | None:
        """Write the case, unless the files are too large for the repository."""
        if sum(len(content or b"") for content in self.files.values()) > LARGEST_CASE:
            return None
        encoded: dict[str, str | None] = {}
        for name, content in self.files.items():
            encoded[name] = None if content is None else base64.b64encode(content).decode()
        document = {
            "kind": self.kind,
            "problem": self.finding.problem,
            "changes": self.changes,
            "commands": self.finding.commands,
            "files": encoded,
        }
        folder.mkdir(exist_ok=True)
        file = folder / f"{self.name}.json"
        file.write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
        return file


def save_folder(failure: Failure, intact: Path, target: Path) -> Path:
    """Write intact input and damaged files next to each other, for a case that is too large for the repository."""
    folder = target / f"{failure.name}-{failure.case}"
    shutil.copytree(intact, folder / "intact", dirs_exist_ok=True)
    for name, content in failure.files.items():
        if content is not None:
            file = folder / "damaged" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    (folder / "problem.txt").write_text("\n".join([*failure.changes, failure.finding.output]), encoding="utf-8")
    return folder


# --- running one command ----------------------------------------------------------------------------------------------


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt a command that does not end. There is no such signal on Windows, where the limit does not apply."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    start, start_of_work = time.monotonic(), time.process_time()

    def interrupt(_: int, __: FrameType | None) -> None:
        is_busy = time.process_time() - start_of_work >= seconds / 2
        if is_busy or time.monotonic() - start >= seconds * PATIENCE:
            raise CommandHung(f"not finished after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_commands(
    commands: Sequence[Sequence[str]], folder: Path, *, changes: int = 1, limit: float = HANG
) -> Finding | None:
    """Run commands one after another in a folder, until one ends in a way that it must not."""
    for number, command in enumerate(commands):
        problem, output = problem_of(command, folder, changes=changes, limit=limit)
        if problem:
            return Finding([list(earlier) for earlier in commands[: number + 1]], problem, output)
    return None


def problem_of(command: Sequence[str], folder: Path, *, changes: int = 1, limit: float = HANG) -> tuple[str, str]:
    """Run a command in a folder. Returns what is wrong with how it ended, empty if nothing, and what it printed."""
    environment = {"LMASSAY_RESULTS": "results", "LMASSAY_CACHE": "cache", "COLUMNS": "200"}
    with time_limit(limit):
        done = in_process.run(command, folder, environment)
    if "CommandHung" in done.stderr:
        return f"hangs: not finished after {limit:.0f} s", done.stderr
    if "Traceback (most recent call last)" in done.stderr:
        return f"traceback: {bug_in(done.stderr)}", done.stderr
    if done.returncode not in (EXIT_CODES if changes else (0,)):
        return f"exit code {done.returncode}", done.stderr
    errors = error_lines(done.stderr) if done.returncode == 2 else []
    if len(errors) > MOST_ERROR_LINES * changes:
        return f"{len(errors)} lines for {changes} mistakes: {errors[0][:80]}", done.stderr
    if done.returncode == 2 and not errors:
        return "exit code 2 without a message", done.stderr
    return "", done.stderr


def error_lines(stderr: str) -> list[str]:
    """The lines that report a mistake."""
    # The commands of the original programs show their options, as these programs do, and then the mistake.
    without_usage = re.sub(r"^usage: (?:.*\n)+?(?=\S+: error: )", "", stderr, flags=re.MULTILINE)
    return [line for line in without_usage.splitlines() if not _PROGRESS.match(line)]


def bug_in(traceback: str) -> str:
    """The exception and the innermost line of lmassay: what makes two bugs the same."""
    places = re.findall(r'File "[^"]*src/(lmassay/[^"]+)", line (\d+)', traceback)
    # The message of the exception is the last line that is not indented.
    lines = [line for line in traceback.splitlines() if line and not line.startswith((" ", "Traceback"))]
    exception = lines[-1].partition(":")[0] if lines else "unknown"
    file, line = places[-1] if places else ("?", "?")
    return f"{exception} in {file}, line {line}"


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass
class Fuzzer:
    """Damages intact input again and again and counts what happens."""

    name: str
    kind: Kind
    seed: int
    work: Path
    first: int = 0
    """The number of the first case."""
    report: Callable[[Failure], None] | None = None
    """Called with each new failure."""
    cases: int = 0
    failures: dict[str, Failure] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.intact = self.work / f"{self.name}-intact"
        self.intact.mkdir(parents=True)
        self.kind.prepare(self.intact)

    def check_intact(self) -> Finding | None:
        """The commands must work on intact input, or the fuzzer would test nothing."""
        with self._copy() as folder:
            return self.kind.check(folder, self._rng("intact"), 0)

    def run(self, seconds: float, most_cases: int | None = None) -> None:
        """Try new cases until the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and (most_cases is None or self.cases < most_cases):
            self._one_case(self.first + self.cases)
            self.cases += 1

    def _rng(self, *parts: object) -> random.Random:
        return random.Random(" ".join(map(str, (self.name, self.seed, *parts))))

    def _one_case(self, number: int) -> None:
        count = self._rng(number, "count").choice((1, 1, 1, 2, MOST_CHANGES))
        chosen = list(range(count))
        failure = self._try(number, chosen)
        if failure is None:
            return
        if failure.name in self.failures:
            return
        # One change is often enough.
        for change in chosen if count > 1 else []:
            smaller = self._try(number, [change])
            if smaller is not None and smaller.name == failure.name:
                failure = smaller
                break
        self.failures[failure.name] = failure
        if self.report is not None:
            self.report(failure)

    def _try(self, number: int, chosen: Sequence[int]) -> Failure | None:
        with self._copy() as folder:
            changes = []
            for change in chosen:
                changes.append(self.kind.damage(folder, self._rng(number, change)))
            files = self._damaged_files(folder)
            finding = self.kind.check(folder, self._rng(number, "commands"), len(chosen))
        if finding is None:
            return None
        return Failure(self.name, changes, finding, files, number)

    @contextmanager
    def _copy(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self.work) as name:
            folder = Path(name) / "case"
            shutil.copytree(self.intact, folder)
            yield folder

    def _damaged_files(self, folder: Path) -> dict[str, bytes | None]:
        damaged: dict[str, bytes | None] = {}
        intact = _contents(self.intact)
        now = _contents(folder)
        for name in sorted({*intact, *now}):
            if intact.get(name) != now.get(name):
                damaged[name] = now.get(name)
        return damaged


def _contents(folder: Path) -> dict[str, bytes]:
    contents = {}
    for file in folder.rglob("*"):
        if file.is_file():
            contents[file.relative_to(folder).as_posix()] = file.read_bytes()
    return contents


def replay(file: Path, kinds: Mapping[str, Kind], work: Path) -> Finding | None:
    """Run a stored case again."""
    case = json.loads(file.read_text(encoding="utf-8"))
    folder = work / "case"
    folder.mkdir()
    kinds[case["kind"]].prepare(folder)
    for name, encoded in case["files"].items():
        path = folder / name
        if encoded is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(encoded))
    return run_commands(case["commands"], folder, changes=len(case["changes"]))
