"""Where numbers come from: versions, machine, digests of source code, and the one-line signature."""

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
from lmassay.storage.commands import command_line as command_line  # also imported from here
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
    """Return the versions of packages. Reading them takes longer than a small run, so a sweep reads them once."""
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
    """Return the arguments of this lmassay command; empty in a Python program, whose arguments mean something else."""
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
    """Return the command that started a run; for a run of a Python program, the function."""
    command = record.provenance.command
    return command_line(*command) if command else "lmassay.evaluate(…) in Python"


def rerun_command(record: RunRecord, folder: Path) -> str:
    """Return the command that repeats a stored run, or what to do if its task or model is a Python object."""
    if is_python_object(record.config.get("task")) or is_python_object(record.config.get("model")):
        return "lmassay.evaluate(…) in Python, with the same objects"
    return f"{command_line('show', record.id, '--results', folder, '--yaml')} > run.yaml && lmassay run run.yaml"


def source_digest(obj: Any) -> str:
    """Return a digest that changes with the source of a class or function.

    In a user's file, it changes with the whole file and with the modules that it imports from its folder.
    """
    digest = digest_of(str(getattr(obj, "__module__", "")))
    if digest is not None:
        return f"src:{digest}"
    try:
        return _known_digest(obj) if _can_be_known(obj) else _digest_of_source(obj)
    except (OSError, TypeError):
        return "src:unknown"


# Each plan asks for the digests of its task and its model, and to find a class in its file, Python parses the file.
_digests: WeakKeyDictionary[type, tuple[object, str]] = WeakKeyDictionary()


def _can_be_known(obj: Any) -> bool:
    return isinstance(obj, type) and type(obj).__hash__ is type.__hash__


def _known_digest(cls: type) -> str:
    """The digest of the source of a class, from memory as long as its file has not changed."""
    try:
        status = Path(inspect.getsourcefile(cls) or "\0").stat()
    except (OSError, ValueError):
        # It was not written in a file but, for example, in a notebook.
        return _digest_of_source(cls)
    version = (status.st_mtime_ns, status.st_size)
    known = _digests.get(cls)
    if known is None or known[0] != version:
        known = version, _digest_of_source(cls)
        _digests[cls] = known
    return known[1]


def _digest_of_source(obj: Any) -> str:
    source = inspect.getsource(obj)
    return "src:" + hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def joint_digest(*digests: str) -> str:
    """Combine several digests of sources into one; empty and repeated ones do not count."""
    distinct = [digest for digest in dict.fromkeys(digests) if digest]
    if len(distinct) < 2:
        return "".join(distinct)
    return "src:" + hashlib.sha256("\n".join(distinct).encode()).hexdigest()[:8]


def signature_value(value: Any) -> str:
    """Return a value as it is written in a signature: without white space, floats in their shortest form."""
    if isinstance(value, float):
        return f"{value:g}"
    return re.sub(r"\s+", "_", str(value))
