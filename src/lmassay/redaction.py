"""Keeps secrets out of everything that is stored or shown."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

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
