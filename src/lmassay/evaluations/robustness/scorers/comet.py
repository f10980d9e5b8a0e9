"""COMET (Rei et al. 2020): a trained model that compares a translation with its source and a reference.

unbabel-comet requires transformers below 5, and lmassay's extra ``hf`` requires transformers 5. So COMET runs in
another environment: this scorer starts that environment's Python, which runs :mod:`.comet_worker`, and exchanges lines
of JSON with it.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from lmassay.errors import UserError
from lmassay.evaluations.robustness.scorers.base import Scorer, ScorerError
from lmassay.redaction import redact
from lmassay.storage.files import sha256

_WORKER = Path(__file__).with_name("comet_worker.py")
_VERSION_PROGRAM = "import importlib.metadata; print(importlib.metadata.version('unbabel-comet'))"
_VERSION_TIMEOUT = 60.0
_MESSAGE_LENGTH = 300


class COMET(Scorer):
    """COMET of a local checkpoint; scores below 0 or above 1 count as 0 or 1. Only as ``s_tgt``, with ``src``.

    ``model`` is the checkpoint (.ckpt) of a model that compares with references, such as wmt22-comet-da; loading it
    can run any code, so take it only from people you trust. ``python`` is the Python of an environment with
    unbabel-comet.
    """

    _name = "COMET"
    needs_source = True
    by_chunks = True
    chunk = 512

    def __init__(
        self, model: Path | None = None, python: Path | None = None, batch_size: int = 8, gpus: int = 0
    ) -> None:
        if batch_size < 1 or gpus < 0:
            raise UserError("comet: batch_size must be 1 or more, and gpus 0 or more")
        self._given_model = None if model is None else Path(model).expanduser()
        self._given_python = None if python is None else Path(python).expanduser()
        self._batch_size = batch_size
        self._gpus = gpus

    @property
    def signature(self) -> str:
        checkpoint = self._checkpoint
        return f"COMET(model:{checkpoint.stem}|sha:{sha256(checkpoint)[:8]}|version:{self._version})"

    def check(self, lang: str | None = None) -> None:
        # The signature needs the checkpoint and the version of unbabel-comet, and raises if one of them is missing.
        _ = self.signature

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        raise UserError("comet also reads the source of a translation; use it as s_tgt of a task with src")

    def score_translations(self, hyps: Sequence[str], refs: Sequence[str], sources: Sequence[str]) -> list[float]:
        if not hyps:
            return []
        samples = []
        for source, hyp, ref in zip(sources, hyps, refs, strict=True):
            samples.append({"src": source, "mt": hyp, "ref": ref})
        scores = self._worker.scores(samples)
        # In this order of arguments, NaN stays NaN, which the caller refuses.
        return [min(max(score, 0.0), 1.0) for score in scores]

    @property
    def _checkpoint(self) -> Path:
        if self._given_model is None:
            raise UserError(
                "the scorer comet needs a checkpoint and an environment with unbabel-comet: "
                "{name: comet, model: path/to/model.ckpt, python: path/to/environment/bin/python}"
            )
        if not self._given_model.is_file():
            raise UserError(f"comet: there is no checkpoint {self._given_model}; give the .ckpt file of a model")
        return self._given_model.resolve()

    @cached_property
    def _version(self) -> str:
        """The version of unbabel-comet in its environment."""
        python = self._python
        try:
            done = subprocess.run(
                [python, "-c", _VERSION_PROGRAM],
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=_VERSION_TIMEOUT,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UserError(f"comet: {python} cannot be run ({error}); give the Python of an environment") from None
        if done.returncode:
            raise UserError(
                f"comet: {python} has no unbabel-comet, which cannot be installed next to lmassay's extra hf because "
                "it requires transformers below 5; install it in another environment and give its Python: "
                "{name: comet, model: …, python: path/to/environment/bin/python}"
            )
        return done.stdout.strip()

    @property
    def _python(self) -> str:
        # Not resolved: the link in an environment's bin folder is what makes it that environment's Python.
        return sys.executable if self._given_python is None else str(self._given_python.absolute())

    @cached_property
    def _worker(self) -> _Worker:
        return _Worker([self._python, str(_WORKER), str(self._checkpoint), str(self._batch_size), str(self._gpus)])


class _Worker:
    """The process that computes scores. It is started with the first score and ends with the scorer."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        # Standard error goes to a file, because a full pipe that nobody reads would block the process.
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process ends
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
        )
        weakref.finalize(self, _end, self._process, self._log)
        self._read("cannot load the model")

    def scores(self, samples: Sequence[dict[str, str]]) -> list[float]:
        """The scores of translations, in their order."""
        assert self._process.stdin is not None
        # If the process has ended, what it wrote last says why; that is read below.
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps({"samples": samples}) + "\n")
            self._process.stdin.flush()
        scores = self._read("failed").get("scores")
        if not isinstance(scores, list) or len(scores) != len(samples):
            raise ScorerError(f"comet: the other environment's program returned no scores for {len(samples)} texts")
        return [float(score) for score in scores]

    def _read(self, failure: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not line:
            message = {"error": f"the program ended: {self._last_words()}"}
        elif not isinstance(message, dict):
            # For example, a wrapper script around Python prints a message. The process still runs.
            message = {"error": f"{Path(self._command[0]).name} printed {line.strip()!r} instead of an answer"}
        if "error" in message:
            raise ScorerError(f"comet {failure}: {redact(str(message['error']))[:_MESSAGE_LENGTH]}")
        return message

    def _last_words(self) -> str:
        """The last line that the process wrote to standard error, which is often the reason why it ended."""
        self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"


def _end(process: subprocess.Popen[str], log: IO[bytes]) -> None:
    """End the process and close its pipes. A request that it has not read is lost with it."""
    process.kill()
    with contextlib.suppress(OSError), process:
        pass
    log.close()
