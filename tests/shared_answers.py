"""What the embedded model has answered, so that no command waits for the same answer twice.

The card of README, the pages of the documentation and the examples put many of the same questions to a real model,
each into a results folder of its own. Only commands share answers; tests of the model itself ask it directly.
Commands never change the model, so those of one process share its weights and its tokenizer, too.

Answers are kept in pytest's cache for the next session, until something changes that could change an answer: the source
of the models or a library that they use. ``pytest --cache-clear`` forgets them.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import lmassay

file: Path | None = None
"""Where the answers are kept: conftest.py puts a file there that all workers of the session share."""

# All that models import of lmassay, and the libraries that compute an answer.
_SOURCES = ("models", "types", "storage", "contracts.py", "errors.py", "redaction.py")
_LIBRARIES = ("jinja2", "numpy", "safetensors", "tokenizers", "torch", "transformers")


def kept_in(folder: Path) -> Path:
    """The file in this folder for answers of the models as they are now; those of earlier ones are deleted."""
    kept = folder / f"{_digest_of_the_models()}.sqlite"
    for other in folder.iterdir():
        if not other.name.startswith(kept.name):
            with contextlib.suppress(OSError):
                other.unlink()
    return kept


def _digest_of_the_models() -> str:
    package = Path(lmassay.__file__).parent
    machine = (platform.machine(), platform.python_version(), os.environ.get("OMP_NUM_THREADS"))
    digest = hashlib.sha256(repr(machine).encode())
    for name in _SOURCES:
        for path in sorted((package / name).rglob("*.py")) or [package / name]:
            digest.update(f"\n{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f"\n{name} {importlib.metadata.version(name)}".encode())
    return digest.hexdigest()[:16]


# By the key of the engine, and by the options of the tokenizer.
_engines: dict[str, Any] = {}
_tokenizers: dict[tuple[Any, ...], Any] = {}


@contextmanager
def shared() -> Iterator[None]:
    """While this lasts, the embedded model is loaded once and answers what it was asked before from memory."""
    if file is None:
        yield
        return
    from lmassay.models.hf.model import HuggingFace, SmolLM2

    def remembering(verb: str) -> Any:
        def ask(self: SmolLM2, requests: Sequence[Any]) -> Iterator[tuple[int, Any]]:
            return _answers(self, getattr(HuggingFace, verb), requests)

        return ask

    with (
        mock.patch.object(SmolLM2, "_open_engine", _engine, create=True),
        mock.patch.object(SmolLM2, "_word_tokenizer", property(_tokenizer), create=True),
        mock.patch.object(SmolLM2, "slot", remembering("slot"), create=True),
        mock.patch.object(SmolLM2, "logprobs", remembering("logprobs"), create=True),
        mock.patch.object(SmolLM2, "generate", remembering("generate"), create=True),
    ):
        yield


@contextmanager
def not_shared() -> Iterator[None]:
    """While this lasts, commands ask the model itself."""
    global file
    before, file = file, None
    try:
        yield
    finally:
        file = before


def _engine(model: Any) -> Any:
    """The engine of the embedded model with these options; the latest one is kept."""
    from lmassay.models.hf.model import HuggingFace

    if model._key not in _engines:
        _engines.clear()
        _engines[model._key] = HuggingFace._open_engine(model)
    return _engines[model._key]


def _tokenizer(model: Any) -> Any:
    """The tokenizer of the embedded model with these options."""
    from lmassay.models.hf.model import HuggingFace

    options = (model.folder, model._prefix, model._leading_space, model._trust_remote_code)
    if options not in _tokenizers:
        _tokenizers[options] = HuggingFace._word_tokenizer.func(model)  # type: ignore[attr-defined]
    return _tokenizers[options]


def _answers(model: Any, ask: Any, requests: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    from lmassay.types import digest, request_key, response_as_dict, response_from_dict

    identity = digest(dict(model.identity()))
    keys = [digest(identity, request_key(request)) for request in requests]
    with closing(_opened()) as store:
        known = {}
        for place, key in enumerate(keys):
            row = store.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            if row is not None:
                known[place] = row[0]
        for place, answer in known.items():
            yield place, response_from_dict(json.loads(answer))
        unknown = [place for place in range(len(requests)) if place not in known]
        if not unknown:
            return
        for place, response in ask(model, [requests[place] for place in unknown]):
            if response.error is None:
                row = keys[unknown[place]], json.dumps(response_as_dict(response))
                store.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", row)
            yield unknown[place], response


def _opened() -> sqlite3.Connection:
    """A connection that waits for other workers and leaves nothing half-written; what is lost at a crash is no loss."""
    store = sqlite3.connect(str(file), timeout=600, isolation_level=None)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = OFF")
    store.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)")
    return store
