"""Keeps secrets, such as API keys, out of everything that is stored or shown."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

# Environment variables whose values are secrets. The last three are the names that KoBBQ's own programs use.
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|^(CLAUDE|OPENAI|CLOVA)$", re.IGNORECASE)
# Options need a narrower pattern than variables: in options, tokens are often words, and keys are names of columns.
_SECRET_OPTION = re.compile(
    r"(^|_)((api|access|auth|private|secret|openai|anthropic|claude|azure|google|subscription|service|signing)_?keys?"
    r"|(api|access|auth|bearer|hf|hub|huggingface|github|gitlab|bot|user|login|refresh|session)_?tokens?"
    r"|secret|password|passwd|passphrase|credentials?|authorization|cookie)$|^token$"
)
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRET_SHAPE = re.compile(r"\b(sk-[A-Za-z0-9_\-]{8,})|(?<=Bearer )\S+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
# A shorter value, such as "none", would be blanked out of ordinary text.
_MIN_SECRET_LENGTH = 8
_in_use: set[str] = set()


def as_variable(option: str) -> str:
    """Return the usual name of an environment variable for an option.

    >>> as_variable("x-apiKey")
    'X_API_KEY'
    """
    return _BETWEEN_WORDS.sub("_", option).strip("_").upper()


def is_secret_option(name: str) -> bool:
    """Return whether an option with this name contains a secret, rather than say where to find one.

    >>> [is_secret_option(name) for name in ("api_key", "token", "api_key_env", "pad_token", "max_tokens")]
    [True, True, False, False, False]
    """
    return _SECRET_OPTION.search(as_variable(name).lower()) is not None


def remember_secret(value: str) -> None:
    """Remember a key that is in use, so that it is blanked out of all text that is stored or shown from now on."""
    _in_use.add(value)


def is_remembered(value: str) -> bool:
    """Return whether a value is a key in use."""
    return value in _in_use


def redact(text: str) -> str:
    """Blank out secrets in a text.

    These are keys in use, values of environment variables with a name like ``…_API_KEY``, and anything that looks like
    a key.
    """
    secrets = set(_in_use)
    # Reading a value takes longer than looking at a name.
    for name in os.environ:
        if _SECRET_NAME.search(name):
            secrets.add(os.environ.get(name, ""))
    # The longest first, in case one secret is part of another.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) < _MIN_SECRET_LENGTH:
            continue
        text = text.replace(secret, "[redacted]")
        # In an address, the secret is percent-encoded.
        text = text.replace(quote(secret, safe=""), "[redacted]")
    return _SECRET_SHAPE.sub("[redacted]", text)
