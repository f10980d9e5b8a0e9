"""Where a number comes from: versions, machine, and the one-line signature; and keeping secrets out of all of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import os
import platform
import re
import sys
from collections.abc import Mapping
from typing import Any

import lmassay

_PACKAGES = ("numpy", "scipy", "sacrebleu", "numba", "torch", "transformers", "sentence-transformers", "httpx2")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_SECRET_SHAPE = re.compile(r"\b(sk-[A-Za-z0-9_\-]{8,})|(?<=Bearer )\S+")
_SHORTEST_SECRET = 8


def versions() -> dict[str, str]:
    """Installed versions of what can change a number."""
    found = {"lmassay": lmassay.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def snapshot() -> dict[str, Any]:
    """Provenance of a run that starts now."""
    return {
        "versions": versions(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "command": [redact(argument) for argument in sys.argv[1:]],
    }


def signature(parts: Mapping[str, Any]) -> str:
    """One line in the manner of sacrebleu: ``key:value|key:value``.

    >>> signature({"task": "robustness.1", "s_src": "chrF2"})
    'task:robustness.1|s_src:chrF2'
    """
    return "|".join(f"{name}:{_plain(value)}" for name, value in parts.items() if value is not None)


def source_digest(obj: Any) -> str:
    """Eight hex digits that change with the source code of a class or function of the user's own."""
    try:
        source = inspect.getsource(obj)
    except (OSError, TypeError):
        return "src:unknown"
    return "src:" + hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def redact(text: str) -> str:
    """Blank out anything that looks like a key, and the value of every environment variable that is named like one."""
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "[redacted]")
    return _SECRET_SHAPE.sub("[redacted]", text)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return re.sub(r"\s+", "_", str(value))
