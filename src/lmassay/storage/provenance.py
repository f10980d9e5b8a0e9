"""Collects the provenance of numbers: versions, machine, digests of source code, and the one-line signature."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import inspect
import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import lmassay
from lmassay.plugins.python_objects import is_python_object
from lmassay.plugins.source_folder import digest_of
from lmassay.redaction import redact
from lmassay.storage.commands import command_line as command_line  # other modules import it from here
from lmassay.types import Provenance, RunRecord

_PACKAGES = (
    "numpy",
    "scipy",
    "sacrebleu",
    "numba",
    "torch",
    "transformers",
    "sentence-transformers",
    "httpx2",
)


def versions() -> dict[str, str]:
    """Return the versions of lmassay, Python and all installed packages that can affect a number."""
    return {"lmassay": lmassay.__version__, "python": platform.python_version(), **_installed_versions(tuple(sys.path))}


@functools.cache
def _installed_versions(_path: tuple[str, ...]) -> Mapping[str, str]:
    """Return the versions of packages.

    Reading them takes longer than a small run, so they are read once for each search path, which is the cache key.
    """
    by_package: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            by_package[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return by_package


def snapshot() -> Provenance:
    """Return the versions, machine and command of a run that starts now."""
    return Provenance(
        versions=versions(),
        platform=platform.platform(),
        machine=platform.machine(),
        cpus=os.cpu_count(),
        command=_command(),
    )


def _command() -> tuple[str, ...]:
    """Return the arguments of this lmassay command; empty in a Python program, whose arguments have another meaning."""
    program = Path(sys.argv[0] if sys.argv else "")
    is_module = program.name == "__main__.py" and program.parent.name == "lmassay"
    if program.stem != "lmassay" and not is_module:
        return ()
    return tuple(redact(argument) for argument in sys.argv[1:])


def signature(parts: Mapping[str, Any]) -> str:
    """Return the signature in the format of sacrebleu, ``key:value|key:value``; parts that are None are left out.

    >>> signature({"task": "robustness.1", "s_src": "chrF2"})
    'task:robustness.1|s_src:chrF2'
    """
    return "|".join(f"{name}:{signature_value(value)}" for name, value in parts.items() if value is not None)


def started_by(record: RunRecord) -> str:
    """Return the command that started a run or, if a Python program did, the function that it called."""
    command = record.provenance.command
    return command_line(*command) if command else "lmassay.evaluate(…) in Python"


def rerun_command(record: RunRecord, folder: Path) -> str:
    """Return the command that repeats a stored run; if its task or model is a Python object, how to do it in Python."""
    if is_python_object(record.config.get("task")) or is_python_object(record.config.get("model")):
        return "lmassay.evaluate(…) in Python, with the same objects"
    return f"{command_line('show', record.id, '--results', folder, '--yaml')} > run.yaml && lmassay run run.yaml"


def source_digest(obj: Any) -> str:
    """Return a digest that changes with the source of a class or function.

    For a class or function in a user's file, it changes with anything in the file, and with the modules that the file
    imports from its folder.
    """
    digest = digest_of(str(getattr(obj, "__module__", "")))
    if digest is not None:
        return f"src:{digest}"
    try:
        return _cached_digest(obj) if _is_cacheable(obj) else _digest_of_source(obj)
    except (OSError, TypeError):
        return "src:unknown"


# The digest of each class with the version of its file. Every plan needs the digests of its task and its model, and
# computing them is slow, because Python parses the whole file to find a class.
_digests: WeakKeyDictionary[type, tuple[object, str]] = WeakKeyDictionary()


def _is_cacheable(obj: Any) -> bool:
    """Return whether an object is a class that can be a key of a dictionary."""
    return isinstance(obj, type) and type(obj).__hash__ is type.__hash__


def _cached_digest(cls: type) -> str:
    """Return the digest of the source of a class, which is computed again only if its file has changed."""
    try:
        status = Path(inspect.getsourcefile(cls) or "\0").stat()
    except (OSError, ValueError):
        # The class is not in a file but, for example, in a notebook.
        return _digest_of_source(cls)
    version = (status.st_mtime_ns, status.st_size)
    cached = _digests.get(cls)
    if cached is None or cached[0] != version:
        cached = version, _digest_of_source(cls)
        _digests[cls] = cached
    return cached[1]


def _digest_of_source(obj: Any) -> str:
    source = inspect.getsource(obj)
    return "src:" + hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def joint_digest(*digests: str) -> str:
    """Combine several digests of sources into one; empty and repeated ones are ignored."""
    distinct = [digest for digest in dict.fromkeys(digests) if digest]
    if len(distinct) < 2:
        return "".join(distinct)
    return "src:" + hashlib.sha256("\n".join(distinct).encode()).hexdigest()[:8]


def signature_value(value: Any) -> str:
    """Return a value as it is written in a signature: without white space, floats in their shortest form."""
    if isinstance(value, float):
        return f"{value:g}"
    return re.sub(r"\s+", "_", str(value))
