"""Where a number comes from: versions, machine, and the one-line signature; and keeping secrets out of all of it."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import lmassay

_PACKAGES = (
    "numpy",
    "scipy",
    "sacrebleu",
    "numba",
    "torch",
    "transformers",
    "sentence-transformers",
    "httpx2",
    "openai",
    "anthropic",
)
# The last three are what KoBBQ's own programs call their keys.
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|^(CLAUDE|OPENAI|CLOVA)$", re.IGNORECASE)
# An option is more often called like a secret without being one: tokens are words too, and keys belong to columns.
_SECRET_OPTION = re.compile(
    r"(^|_)((api|access|auth|private|secret|openai|anthropic|claude|azure|google|subscription|service|signing)_?keys?"
    r"|(api|access|auth|bearer|hf|hub|huggingface|github|gitlab|bot|user|login|refresh|session)_?tokens?"
    r"|secret|password|passwd|passphrase|credentials?|authorization|cookie)$|^token$"
)
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRET_SHAPE = re.compile(r"\b(sk-[A-Za-z0-9_\-]{8,})|(?<=Bearer )\S+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_SHORTEST_SECRET = 8
_in_use: set[str] = set()


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
    return "|".join(f"{name}:{plain(value)}" for name, value in parts.items() if value is not None)


def command_line(*words: object) -> str:
    """A command of lmassay as a shell reads it, whatever a folder is called.

    >>> command_line("resume", "--results", "my results")
    "lmassay resume --results 'my results'"
    """
    return shlex.join(["lmassay", *map(str, words)])


def to_run_again(run: str, folder: Path) -> str:
    """What gives a stored run anew."""
    return f"{command_line('show', run, '--results', folder, '--yaml')} > run.yaml && lmassay run run.yaml"


def source_digest(obj: Any) -> str:
    """Eight hex digits that change with the source of a class or function; in a user's file, with the whole file."""
    try:
        if str(getattr(obj, "__module__", "")).startswith("lmassay_user_"):
            source = Path(inspect.getfile(obj)).read_text(encoding="utf-8")
        else:
            source = inspect.getsource(obj)
    except (OSError, TypeError):
        return "src:unknown"
    return "src:" + hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def as_variable(option: str) -> str:
    """What an environment variable for an option would be called.

    >>> as_variable("x-apiKey")
    'X_API_KEY'
    """
    return _BETWEEN_WORDS.sub("_", option).strip("_").upper()


def is_secret_option(name: str) -> bool:
    """Whether an option of this name holds a secret, rather than say where one is found.

    >>> [is_secret_option(name) for name in ("api_key", "token", "api_key_env", "pad_token", "max_tokens")]
    [True, True, False, False, False]
    """
    return _SECRET_OPTION.search(as_variable(name).lower()) is not None


def remember_secret(value: str) -> None:
    """A key that is in use: from now on it is blanked out wherever text is kept or shown."""
    _in_use.add(value)


def is_remembered(value: str) -> bool:
    """Whether it is a key in use."""
    return value in _in_use


def redact(text: str) -> str:
    """Blank out keys in use, values of environment variables named like a secret, and what is shaped like a key."""
    named = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    for value in sorted(_in_use | named, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "[redacted]").replace(quote(value, safe=""), "[redacted]")
    return _SECRET_SHAPE.sub("[redacted]", text)


def plain(value: Any) -> str:
    """A value as it stands in a signature: no white space, floats in their shortest form."""
    if isinstance(value, float):
        return f"{value:g}"
    return re.sub(r"\s+", "_", str(value))
