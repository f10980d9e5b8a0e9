"""METEOR 1.5 by its own Java program; the process behind it lives in ``meteor_jvm``."""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers import meteor_jvm
from lmassay.evaluations.robustness.scorers.base import Scorer

JAVA_COMMAND = "java -Xmx2G -jar"
JAR_IN_PYCOCOEVALCAP = Path("meteor") / "meteor-1.5.jar"


class METEOR(Scorer):
    """METEOR 1.5, the Java program (needs java and the jar).

    ``meteor_jar`` may be left out: then $METEOR_JAR counts, then the jar that pycocoevalcap brings.
    All METEOR objects share one Java process per language; ``meteor_jvm.close_all()`` ends it early.
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
        return meteor_jvm.scores(self._launch(lang), list(zip(hyps, refs, strict=True)))

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

    def _launch(self, lang: str | None) -> meteor_jvm.Launch:
        if not lang:
            raise UserError("METEOR needs a language: --src-lang / --tgt-lang (src_lang / tgt_lang in a configuration)")
        _check_java(self._java_command)
        return meteor_jvm.Launch(self.jar, self._java_command, lang)


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
