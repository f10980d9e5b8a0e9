"""METEOR 1.5 by its own Java program, started once for a language and kept open.

Loading the paraphrase table takes the jar some ten seconds, scoring a line less than a millisecond, so every
METEOR object of this Python process talks to the same Java process through the jar's ``-stdio`` mode:

    we write   SCORE ||| reference ||| hypothesis
    it says    23 numbers, the sufficient statistics
    we write   EVAL ||| statistics ||| statistics ...
    it says    one score a set of statistics, then the score of all together (not wanted here)

Nothing is written to disk. The jar ends when its standard input closes, so it cannot outlive this process.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import queue
import re
import shlex
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self
from urllib.parse import quote

from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers.base import Scorer

Pair = tuple[str, str]  # hypothesis, reference

BLOCK = 64  # one EVAL line carries the statistics of a block, about 110 bytes each
SECONDS_TO_END = 5
NUMBERS = re.compile(r"[-+.\dE ]+")
SURROGATE = re.compile("[\ud800-\udfff]")
# The jar reads its own statistics with the locale's decimal sign (a German machine fails at "2.0") and lowercases
# by the locale's rules (a Turkish one makes a dotless i of I): scores must not depend on either.
LOCALE = ["-Duser.language=en", "-Duser.language.format=en", "-Duser.country=US", "-Duser.country.format=US"]
# Without the last one Java keeps a file in the temporary folder.
FORCED = ["-Dfile.encoding=UTF-8", *LOCALE, "-XX:-UsePerfData"]
COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
NOISE = re.compile(r"\s+at |\s*\.\.\. \d+ more|(NOTE: )?Picked up ")
JAVA_PREFIX = re.compile(r'^(Exception in thread "\w+" )?(java\.lang\.RuntimeException: )?')


@dataclass(frozen=True, slots=True)
class Launch:
    """What tells one Java process from another."""

    jar: Path
    command: str
    lang: str

    def argv(self) -> list[str]:
        """The whole command, with what must not depend on the user's machine put in before ``-jar``."""
        words = shlex.split(self.command)
        if "-jar" in words:  # else it is a wrapper script, which may not take Java's options
            place = len(words) - 1 - words[::-1].index("-jar")
            words[place:place] = _java_options(words)
        return [*words, str(self.jar), "-", "-", "-stdio", "-norm", "-l", self.lang, *self._paraphrases()]

    def _paraphrases(self) -> list[str]:
        # The jar escapes its own path twice (a space becomes %2520) and then misses the table beside it.
        table = self.jar.parent / "data" / f"paraphrase-{self.lang}.gz"
        return ["-a", str(table)] if quote(str(table)) != str(table) and table.is_file() else []


def _java_options(words: Sequence[str]) -> list[str]:
    # 0.6 GB instead of 1.4 and 2 s less to start. Two collectors are an error, so the user's choice stands.
    chosen = [*words, *(os.environ.get(name, "") for name in OPTION_VARIABLES)]
    return FORCED if COLLECTOR.search(" ".join(chosen)) else [*FORCED, "-XX:+UseSerialGC"]


def scores(launch: Launch, pairs: Sequence[Pair]) -> list[float]:
    """METEOR of each (hypothesis, reference), to the last bit what the jar's batch mode prints."""
    return _server(launch).scores(pairs) if pairs else []


def one_line(text: str) -> str:
    """The text as it can stand between ``|||`` on one line, with the score that batch mode gives it.

    >>> one_line("a ||| b")
    'a | | | b'
    """
    # Java ends a line at LF and CR only (not at FF, U+0085 or U+2028). In batch mode either would shift all
    # further lines, so there is no score to keep: a line break is white space here.
    text = text.replace("\r", " ").replace("\n", " ")
    # Under -norm a bar is always a token of its own, so a blank between two bars changes nothing.
    while "|||" in text:
        text = text.replace("|||", "| | |")
    # A lone surrogate has no UTF-8; U+FFFD is what Java puts where it cannot read.
    text = SURROGATE.sub("\ufffd", text)
    # -stdio trims all characters up to U+0020; batch mode does not, and takes a NUL for a word. An em space stops
    # the trimming, and -norm makes a blank of it. Outer blanks, tabs and form feeds count in neither mode.
    text = text.strip(" \t\f")
    if text and text[0] < " ":
        text = "\u2003" + text
    return text + "\u2003" if text and text[-1] < " " else text


def close_all() -> None:
    """End every Java process; the next score starts a new one."""
    with _lock:
        servers = list(_servers.values())
        _servers.clear()
    for server in servers:
        server.close()


class _Gone(Exception):  # noqa: N818 - an event, turned into a UserError or a restart
    """The Java process ended, or said what it should not, in the middle of a conversation."""

    def __init__(self, code: int | None, words: str) -> None:
        super().__init__(words)
        self.code = code

    @property
    def killed(self) -> bool:
        """True if it was ended from outside: minus the signal, or Java's own 128 plus the signal."""
        return self.code is not None and (self.code < 0 or self.code > 128)


class _Process:
    """One running Java process."""

    def __init__(self, launch: Launch) -> None:
        self.place = 0  # how many pairs of the present block have their statistics
        self.said: deque[str] = deque(maxlen=40)
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.popen = subprocess.Popen(
            launch.argv(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C.UTF-8"},  # how Java reads the path of the jar
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        assert self.popen.stderr is not None
        self._stdin = self.popen.stdin
        # Both outputs are drained all the time: Java never waits for us, so no write of ours blocks for good.
        self._threads = [
            threading.Thread(target=self._read_answers, args=[self.popen.stdout], daemon=True),
            threading.Thread(target=self._read_errors, args=[self.popen.stderr], daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def scores(self, pairs: Sequence[Pair]) -> list[float]:
        self._write(f"SCORE ||| {one_line(ref)} ||| {one_line(hyp)}" for hyp, ref in pairs)
        statistics: list[str] = []
        for self.place, _ in enumerate(pairs):
            statistics.append(self._answer())
        self._write([" ||| ".join(["EVAL", *statistics])])
        # float() also reads 4.4395116537180923E-4, which TEAPOT's own parser dropped.
        values = [float(self._answer()) for _ in pairs]
        self._answer()  # the score of the whole block
        return values

    def close(self) -> None:
        """End it, and wait until it has ended."""
        with contextlib.suppress(OSError):  # a broken pipe with something still unwritten
            self._stdin.close()
        if self.popen.poll() is None:
            self.popen.terminate()
        try:
            self.popen.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for thread in self._threads:
            thread.join(SECONDS_TO_END)

    def _write(self, lines: Iterable[str]) -> None:
        try:
            self._stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._stdin.flush()
        except (OSError, ValueError):  # ValueError: closed by close_all() from another thread
            raise self._gone() from None

    def _answer(self) -> str:
        while (line := self._answers.get()) is not None:
            if NUMBERS.fullmatch(line):
                return line
            self.said.append(line)
            if line.startswith("Error"):  # the jar goes on after this, and we would wait for ever
                break
        raise self._gone()

    def _gone(self) -> _Gone:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(SECONDS_TO_END)
        self._threads[1].join(SECONDS_TO_END)  # so that all of its last words are here
        lines = [JAVA_PREFIX.sub("", line).strip() for line in self.said if not NOISE.match(line)]
        words = "; ".join([line for line in lines if line][-5:])
        code = self.popen.returncode
        return _Gone(code, words or f"it left no message (exit code {code})")

    def _read_answers(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._answers.put(line.decode(errors="replace").strip())
        self._answers.put(None)

    def _read_errors(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                self.said.append(line.decode(errors="replace").rstrip())


class _Server:
    """The Java process of one launch: started when first needed, replaced when killed, used by one at a time."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._closed = False

    def scores(self, pairs: Sequence[Pair]) -> list[float]:
        with self._lock:
            values: list[float] = []
            for start in range(0, len(pairs), BLOCK):
                values += self._block(pairs[start : start + BLOCK], start)
            return values

    def close(self) -> None:
        self._closed = True
        if self._process is not None:
            self._process.close()

    def _block(self, pairs: Sequence[Pair], start: int, again: bool = True) -> list[float]:
        process = self._running()
        try:
            return process.scores(pairs)
        except _Gone as gone:
            self._drop(process)
            # An error of Java's own would come again; a kill (Ctrl-C in a notebook, a full machine) need not.
            if gone.killed and again and not self._closed:
                return self._block(pairs, start, again=False)
            raise UserError(self._explain(gone, start + process.place)) from None
        except BaseException:
            # Ctrl-C halfway: the answers still under way would be taken for those to the next question.
            self._drop(process)
            raise

    def _running(self) -> _Process:
        if self._process is not None and self._process.popen.poll() is not None:
            self._drop(self._process)
        if self._process is None:
            try:
                self._process = _Process(self._launch)
            except OSError as error:
                raise UserError(f"METEOR's Java program could not be started: {error}") from error
        return self._process

    def _drop(self, process: _Process) -> None:
        self._process = None
        process.close()

    def _explain(self, gone: _Gone, pairs_done: int) -> str:
        where = f"after {pairs_done} pairs" if pairs_done or gone.killed else f"for the language '{self._launch.lang}'"
        return f"METEOR's Java program failed {where}: {gone}{_hint(str(gone))}"


def _hint(words: str) -> str:
    if "OutOfMemory" in words:
        return "; give Java more memory, e.g. --java-command 'java -Xmx4G -jar'"
    if "language" in words or "paraphrase" in words:
        return (
            "; METEOR takes en, cz, de, es, fr or ru, and needs data/paraphrase-LANG.gz beside the jar "
            "(pycocoevalcap brings that of en only)"
        )
    return ""


_servers: dict[Launch, _Server] = {}
_lock = threading.Lock()


def _server(launch: Launch) -> _Server:
    with _lock:
        return _servers.setdefault(launch, _Server(launch))


def _forget_all() -> None:
    """In a forked child: the pipes belong to the parent, so the child starts Java processes of its own."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()


atexit.register(close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# --- the scorer -------------------------------------------------------------------------------------------------------

JAVA_COMMAND = "java -Xmx2G -jar"
JAR_IN_PYCOCOEVALCAP = Path("meteor") / "meteor-1.5.jar"


class METEOR(Scorer):
    """METEOR 1.5, the Java program (needs java and the jar).

    ``meteor_jar`` may be left out: then $METEOR_JAR counts, then the jar that pycocoevalcap brings.
    All METEOR objects share one Java process per language; :func:`close_all` ends it early.
    """

    _name = "METEOR"
    by_chunks = True
    chunk = 256

    def __init__(self, meteor_jar: str | Path | None = None, java_command: str = JAVA_COMMAND) -> None:
        self._given_jar = meteor_jar
        self._java_command = java_command

    @property
    def jar(self) -> Path:
        """The jar in use, as an absolute path."""
        return _file(self._given_jar, "--meteor-jar") if self._given_jar is not None else find_jar()

    @property
    def signature(self) -> str:
        return f"METEOR(1.5|norm:yes|jar:{_digest(self.jar)})"

    def check(self, lang: str | None = None) -> None:
        """Java, the jar and a language must be there; whether the jar knows the language, it says itself."""
        self._launch(lang)

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        return scores(self._launch(lang), list(zip(hyps, refs, strict=True)))

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        return METEOR.score_corpus(self, [hyp], [ref], lang=lang)[0]

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("METEOR")
        group.add_argument("--meteor-jar", metavar="FILE", required=True, help="the file meteor-1.5.jar")
        group.add_argument("--java-command", default=JAVA_COMMAND, help="how to run it (default: %(default)s)")

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> Self:
        return cls(meteor_jar=args.meteor_jar, java_command=args.java_command)

    def _launch(self, lang: str | None) -> Launch:
        if not lang:
            raise UserError("METEOR needs a language: --src-lang / --tgt-lang (src_lang / tgt_lang in a configuration)")
        _check_java(self._java_command)
        return Launch(self.jar, self._java_command, lang)


def find_jar() -> Path:
    """The jar of $METEOR_JAR, else the one inside an installed pycocoevalcap (which is not imported)."""
    if named := os.environ.get("METEOR_JAR"):
        return _file(named, "$METEOR_JAR")
    spec = importlib.util.find_spec("pycocoevalcap")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        if (jar := Path(folder) / JAR_IN_PYCOCOEVALCAP).is_file():
            return jar.absolute()
    raise UserError("METEOR needs the file meteor-1.5.jar: pip install --no-deps pycocoevalcap, or use --meteor-jar")


def _file(name: str | Path, origin: str) -> Path:
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise UserError(f"there is no METEOR jar {path} ({origin})")
    return path


def _check_java(command: str) -> None:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--java-command {command!r} cannot be read: {error}") from None
    if not words or shutil.which(words[0]) is None:
        raise UserError(
            f"java was not found: there is no program {' '.join(words[:1])!r}; install a JRE, e.g. Debian's "
            "default-jre-headless, or set --java-command"
        )


@functools.cache
def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()[:8]
