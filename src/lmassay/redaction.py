"""Keeps secrets, such as API keys, out of everything that is stored or shown. Below, a secret is also called a key.

All text that leaves the process passes through one of two functions. :func:`redact` is for errors, notes,
configurations, addresses and messages: it blanks out keys in use, the values of environment variables with a name like
``…_API_KEY``, and anything that looks like a key. :func:`without_keys` is for data and answers: it blanks out keys in
use and nothing else, because an answer that merely looks like a key is a result. Keys in use are those that
:func:`remember_secret` was called with: those that a model or an option uses and, during a run, those in the
environment. The code that writes results folders, prints on the terminal and talks to workers calls these functions, so
plug-ins need not.
"""

from __future__ import annotations

import functools
import html
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

REDACTED = "[redacted]"
"""The text that replaces a secret."""
# Names of environment variables whose values are secrets. TOKENIZERS_PARALLELISM and the like are not. The names at the
# end are those that the programs of the KoBBQ benchmark use for API keys.
_SECRET_NAME = re.compile(r"KEY|TOKEN(?!I)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|^(CLAUDE|OPENAI|CLOVA)$", re.IGNORECASE)
# Names of options whose values are secrets. The pattern is narrower than that for variables, because in the name of an
# option, "token" often means a word of a text, and "key" the name of a column.
_SECRET_OPTION = re.compile(
    r"(^|_)((api|access|auth|private|secret|openai|anthropic|claude|azure|google|subscription|service|signing)_?keys?"
    r"|(api|access|auth|bearer|hf|hub|huggingface|github|gitlab|bot|user|login|refresh|session)_?tokens?"
    r"|secret|password|passwd|passphrase|credentials?|authorization|cookie)$|^token$"
)
_BETWEEN_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
# Where a key may begin: where a word of ASCII characters begins (also directly after a letter of another script, since
# some scripts have no spaces), and after an escape sequence of Python, JSON or an address, such as "\n" or "%22", which
# ends in a letter or a digit. The codes for colours on a terminal, such as "ESC[31m" and "ESC[1;31m", end in a letter
# too.
_BEGINNING = (
    r"(?a:\b|(?<=\\[nrtbfv])|(?<=\\x[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\U[0-9A-Fa-f]{8})"
    r"|(?<=%[0-9A-Fa-f]{2})|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=;[0-9]m)|(?<=;[0-9]{2}m)|(?<=;[0-9]{3}m))"
)
# The keys of providers: OpenAI and Anthropic, Hugging Face, GitHub, GitLab, Slack, Google and AWS. The first letter is
# tested first, because this is faster than looking back from each letter of a long text.
_KNOWN_KEYS = (
    rf"(?=[shgxA]){_BEGINNING}"
    r"(?:sk-[A-Za-z0-9_\-]{8,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w\-]{16,}|xox[abprs]-[A-Za-z0-9\-]{10,}|AIza[\w\-]{30,}|AKIA[A-Z0-9]{16}(?a:\b))"
)
_SECRET_SHAPE = re.compile(rf"{_KNOWN_KEYS}|(?<=Bearer )[^\s\"'<>]+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
# JSON Web Tokens. The search begins where a word begins and never backtracks: to search again from each "eyJ" in a long
# word would take time that grows with the square of its length.
_WEB_TOKEN = re.compile(
    rf"(?a:(?<![\w\-])(?P<before>(?>[\w\-]*?(?=eyJ){_BEGINNING}))"
    r"(?P<token>eyJ[\w\-]{8,}+\.eyJ[\w\-]{8,}+\.[\w\-]+))"
)
_SECOND_PART_OF_JWT = ".eyJ"
# A key that is written out in a configuration. Such a configuration is refused, so this needs more evidence than
# blanking out text in a message: a prompt may contain "Bearer of good news" or "sk-learn-like". The evidence is
# searched for in each match afterwards: a lookahead through the rest of a long word, at each of its letters, would take
# seconds.
_WRITTEN_KEY = re.compile(rf"{_KNOWN_KEYS}|(?<=Bearer )[^\s{{}}]{{12,}}")
_EVIDENCE = re.compile(r"\d|\bsk-(?:proj|ant|svcacct)-")
# A part of an address that is not a word: letters and digits mixed, or a long number. Whether a match has both letters
# and digits is tested afterwards: a lookahead from each letter of a long word would take minutes.
_LETTERS_AND_DIGITS = re.compile(r"[A-Za-z0-9]{16,}")
_LONG_NUMBER = re.compile(r"\d{10,}")
_SHORTEST_KEY_IN_ADDRESS = 10
# Digests of git commits and of files, which are parts of addresses of published models.
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LONG_WORD = re.compile(r"[A-Za-z0-9]{20,}")
_LOWER_UPPER_DIGIT = (re.compile(r"[a-z]"), re.compile(r"[A-Z]"), re.compile(r"\d"))
_VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_URL = re.compile(r"[a-z][a-z0-9+.\-]{0,30}://\S+", re.IGNORECASE)
# The scheme itself is not part of the match, because it would be searched for at each letter of a long text.
_URL_AFTER_SCHEME = re.compile(r"(?<=[a-z0-9+.\-])://\S+", re.IGNORECASE)
# A key may go on beyond the end of an excerpt, so at least this many further characters are searched, too.
_LONGEST_KEY = 50_000
# A shorter value, such as "none", is not blanked out, because it would disappear from ordinary text.
_MIN_SECRET_LENGTH = 8
# A shorter value without a digit is taken for a word, not for a key.
_LENGTH_WITHOUT_DIGITS = 20
# A longer text of capitals and digits, without an underscore, is taken for a key, not for the name of a variable.
_LONGEST_PLAIN_NAME = 23
# The keys in use, which are blanked out of everything.
_in_use: set[str] = set()


# --- names ------------------------------------------------------------------------------------------------------------


def as_variable(option: str) -> str:
    """Return the usual name of an environment variable for an option.

    >>> as_variable("x-apiKey")
    'X_API_KEY'
    """
    return _BETWEEN_WORDS.sub("_", option).strip("_").upper()


def is_secret_option(name: str) -> bool:
    """Return whether the value of an option with this name is a secret. ``api_key_env`` only says where to find one.

    >>> [is_secret_option(name) for name in ("api_key", "token", "api_key_env", "pad_token", "max_tokens")]
    [True, True, False, False, False]
    """
    return _SECRET_OPTION.search(as_variable(name).lower()) is not None


@functools.lru_cache(maxsize=4096)
def is_secret_variable(name: str) -> bool:
    """Return whether the value of an environment variable with this name is a secret.

    >>> [is_secret_variable(name) for name in ("MY_API_KEY", "HF_TOKEN", "TOKENIZERS_PARALLELISM", "HOME")]
    [True, True, False, False]
    """
    return _SECRET_NAME.search(name) is not None


def is_variable_name(text: str) -> bool:
    """Return whether a text can be the name of an environment variable, not a key that was pasted in its place.

    >>> [is_variable_name(text) for text in ("MY_KEY", "sk-proj-0123", "0a1b2c3d4e5f", "AKIA0123456789ABCDEF")]
    [True, False, False, False]
    """
    if _has_written_key(text):
        return False
    if text in os.environ:
        return True
    if not _VARIABLE_NAME.fullmatch(text):
        return False
    return "_" in text or len(text) <= _LONGEST_PLAIN_NAME or text.isalpha()


# --- values -----------------------------------------------------------------------------------------------------------


def remember_secret(value: str) -> None:
    """Remember a key that is in use, so that it is blanked out of all text that is stored or shown from now on."""
    # A file from which a variable was set often ends in a line break, which is not part of the key.
    _in_use.add(value.strip())


def remember_variable(option: str, variable: str, value: str) -> None:
    """Remember the value of an environment variable that an option refers to, unless it is evidently not a secret.

    Values of options and variables with a name like ``api_key`` are secrets, and so are values that look like a key.
    Other values, such as a label or a folder, are shown.
    """
    if is_secret_option(option) or is_secret_variable(variable):
        remember_secret(value)
    elif is_secret_variable(option) and may_be_key(value):
        # An option called "key" may also contain the name of a column.
        remember_secret(value)
    elif _is_mixed(value) and not _URL.match(value) and not _is_path(value):
        remember_secret(value)
    for secret in [*_keys_with_known_shape(value), *keys_in_addresses(value)]:
        remember_secret(secret)


def _value_of_variable(name: str) -> str:
    """Return the value of an environment variable, without a line break at its end."""
    return os.environ.get(name, "").strip()


def is_remembered(value: str) -> bool:
    """Return whether a value is a key in use."""
    return value.strip() in _in_use


def may_be_key(value: str) -> bool:
    """Return whether a value can be a key. A word, a sentence and the path of an existing file cannot.

    >>> [may_be_key(value) for value in ("password", "key-0123456789", "a text of 4 words")]
    [False, True, False]
    """
    if len(value) < _MIN_SECRET_LENGTH or any(character.isspace() for character in value):
        return False
    has_digit = any(character.isdigit() for character in value)
    if not has_digit and len(value) < _LENGTH_WITHOUT_DIGITS:
        return False
    return not _is_path(value)


def _is_path(value: str) -> bool:
    try:
        return ("/" in value or "\\" in value) and Path(value).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def written_keys(text: str) -> list[str]:
    """Return the secrets that are written out in a text of a configuration.

    These are keys with a known shape, values of environment variables with a name like ``…_API_KEY``, and parts of
    addresses that look like a key.
    """
    keys = list(_keys_with_known_shape(text))
    for name in os.environ:
        if is_secret_variable(name):
            value = _value_of_variable(name)
            if value in text and may_be_key(value):
                keys.append(value)
    return [*keys, *keys_in_addresses(text)]


def _keys_with_known_shape(text: str) -> Iterator[str]:
    """Yield the keys with a known form that are written out in a text: those of providers, and JSON Web Tokens."""
    for match in _WRITTEN_KEY.finditer(text):
        if _EVIDENCE.search(match[0]) is not None:
            yield match[0]
    if _SECOND_PART_OF_JWT in text:
        for match in _WEB_TOKEN.finditer(text):
            yield match["token"]


def _has_written_key(text: str) -> bool:
    return any(True for _ in _keys_with_known_shape(text))


def keys_in_addresses(text: str) -> list[str]:
    """Return the parts of addresses in a text that look like a key or a password.

    >>> keys_in_addresses("http://host/0a1b2c3d4e5f6a7b8c9d/v1 and http://host/models/v1")
    ['0a1b2c3d4e5f6a7b8c9d']
    """
    keys: list[str] = []
    for after_scheme in _URL_AFTER_SCHEME.findall(text):
        try:
            parts = urlsplit(f"scheme{after_scheme}")
        except ValueError:
            continue
        user_and_password, at, _ = parts.netloc.rpartition("@")
        if at and "${" not in user_and_password:
            keys.append(user_and_password)
        for part in re.split(r"[/;]", parts.path):
            if _is_random(unquote(part)):
                keys.append(part)
        for part in re.split(r"[&;?#]", f"{parts.query}&{parts.fragment}"):
            name, equals, value = part.rpartition("=")
            is_named_secret = equals and (is_secret_option(name) or name.lower() in ("key", "sig", "signature"))
            if value and "${" not in value and (is_named_secret or _is_random(unquote(value))):
                keys.append(value)
    return keys


def _is_random(text: str) -> bool:
    """Return whether a part of an address looks like a key: a long number, or letters and digits mixed."""
    if len(text) < _SHORTEST_KEY_IN_ADDRESS:
        return False
    if _has_written_key(text):
        return True
    # Hashes look random as well, but addresses of files and commits contain them, and they are not secret.
    if _HASH.fullmatch(text) is not None:
        return False
    if _LONG_NUMBER.search(text) is not None:
        return True
    words = _LETTERS_AND_DIGITS.findall(text)
    return any(not word.isalpha() and not word.isdigit() for word in words)


def _is_mixed(text: str) -> bool:
    """Return whether a text has a long word and, from the start of this word on, lower case, capitals and digits."""
    word = _LONG_WORD.search(text)
    return word is not None and all(kind.search(text, word.start()) is not None for kind in _LOWER_UPPER_DIGIT)


# --- redaction --------------------------------------------------------------------------------------------------------


def redact(text: str) -> str:
    """Blank out secrets in a message, a configuration or an address.

    These are keys in use, values of environment variables with a name like ``…_API_KEY``, and anything that looks like
    a key.
    """
    return _redacted_text(text, _pattern_of_all_secrets())


def _pattern_of_all_secrets() -> re.Pattern[str] | None:
    """Return a pattern of the keys in use and the values of environment variables with a name like ``…_API_KEY``."""
    secrets = set(_in_use)
    # The name is tested first, because reading the value of a variable takes longer.
    for name in os.environ:
        if is_secret_variable(name):
            secrets.add(_value_of_variable(name))
    return _pattern(frozenset(secrets))


def _redacted_text(text: str, pattern: re.Pattern[str] | None) -> str:
    """Blank out the matches of a pattern of known secrets, and anything that looks like a key."""
    if pattern is not None:
        text = pattern.sub(REDACTED, text)
    text = _SECRET_SHAPE.sub(REDACTED, text)
    if _SECOND_PART_OF_JWT in text:
        text = _WEB_TOKEN.sub(rf"\g<before>{REDACTED}", text)
    return text


def excerpt(text: str, length: int) -> str:
    """Return the beginning of a text for a message, without secrets.

    Secrets must be blanked out before a text is cut: half of a key would not be recognised any more.
    """
    searched = length + 2 * _LONGEST_KEY
    redacted = redact(text[:searched])
    # Blanking out makes a text shorter, so the searched part may be too short now. A key that was cut in two at the end
    # of the searched part must not get into the excerpt.
    while searched < len(text) and len(redacted) < length + _LONGEST_KEY:
        searched *= 2
        redacted = redact(text[:searched])
    return redacted[:length]


def without_keys(text: str) -> str:
    """Blank out the keys in use, and nothing else, in an answer of a model or in a text of the data."""
    pattern = _pattern(frozenset(_in_use))
    if pattern is None:
        return text
    return pattern.sub(REDACTED, text)


def has_keys_in_use() -> bool:
    """Return whether there are keys that :func:`without_keys` would blank out."""
    return _pattern(frozenset(_in_use)) is not None


def value_without_keys(value: Any) -> Any:
    """Blank out the keys in use in all texts of a value that can be written as JSON."""
    if isinstance(value, str):
        return without_keys(value)
    if isinstance(value, Mapping):
        return {value_without_keys(name): value_without_keys(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [value_without_keys(inner) for inner in value]
    return value


def redacted_value(value: Any) -> Any:
    """Apply :func:`redact` to all texts of a value that can be written as JSON."""
    # Searching the environment takes longer than searching a text, so it is done once for all texts.
    return _redacted_parts(value, _pattern_of_all_secrets())


def _redacted_parts(value: Any, pattern: re.Pattern[str] | None) -> Any:
    """Apply :func:`_redacted_text` to all texts of a value."""
    if isinstance(value, str):
        return _redacted_text(value, pattern)
    if isinstance(value, Mapping):
        return {_redacted_parts(name, pattern): _redacted_parts(inner, pattern) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted_parts(inner, pattern) for inner in value]
    return value


def config_without_keys(value: Any) -> Any:
    """Blank out keys in use and keys that are written out in all texts of a configuration."""
    if isinstance(value, str):
        for secret in dict.fromkeys(written_keys(value)):
            value = value.replace(secret, REDACTED)
        return without_keys(value)
    if isinstance(value, Mapping):
        return {name: config_without_keys(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [config_without_keys(inner) for inner in value]
    return value


def remember_environment() -> None:
    """Remember the values of all environment variables with a name like ``…_API_KEY`` that can be a key."""
    for name in os.environ:
        if is_secret_variable(name) and may_be_key(_value_of_variable(name)):
            remember_secret(_value_of_variable(name))


def shown_value(value: Any) -> str:
    """Return a value of a configuration as text for a message, without secrets.

    The values of options with a name like ``api_key`` are blanked out, whatever they look like.
    """
    return redact(repr(_with_blanked_options(value)))


def _with_blanked_options(value: Any) -> Any:
    """Return a value in which the values of options with a name like ``api_key`` are replaced."""
    if isinstance(value, Mapping):
        blanked = {}
        for name, inner in value.items():
            is_secret = is_secret_option(str(name)) and not isinstance(inner, bool | None)
            blanked[name] = REDACTED if is_secret else _with_blanked_options(inner)
        return blanked
    if isinstance(value, list | tuple):
        return [_with_blanked_options(inner) for inner in value]
    return value


# Cached: searching with a compiled pattern takes less than a microsecond, and compiling it a thousand times longer.
@functools.lru_cache(maxsize=64)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches the secrets in all their spellings; None if there are no secrets."""
    spellings: set[str] = set()
    for secret in secrets:
        if len(secret) >= _MIN_SECRET_LENGTH:
            spellings.update(_spellings(secret))
    if not spellings:
        return None
    # The longest first, in case one secret is part of another.
    return re.compile("|".join(re.escape(text) for text in sorted(spellings, key=_longest_first)))


def _longest_first(text: str) -> tuple[int, str]:
    return -len(text), text


def _spellings(secret: str) -> Iterable[str]:
    """Return a secret as it is, percent-encoded as in an address, and escaped as in JSON, in Python and in HTML."""
    as_json = json.dumps(secret)[1:-1]
    as_readable_json = json.dumps(secret, ensure_ascii=False)[1:-1]
    as_python = repr(secret)[1:-1]
    in_addresses = {quote(secret, safe=""), quote(secret), quote_plus(secret)}
    spellings = {secret, *in_addresses, as_json, as_readable_json, as_python}
    for text in (secret, as_json, as_readable_json):
        escaped = html.escape(text)
        # Templates write quotation marks as numbers.
        spellings |= {escaped, escaped.replace("&quot;", "&#34;").replace("&#x27;", "&#39;")}
    return spellings
