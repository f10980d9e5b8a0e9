"""File names that every operating system accepts, and existing files whose names differ in Unicode normalisation."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from pathlib import Path
from typing import Any

# Characters that separate parts of a path or that some file system refuses; brackets, which are special in glob
# patterns; control characters, line breaks and marks that reorder text, which must not reach a terminal; and lone
# surrogates, which UTF-8 cannot represent.
_UNSAFE = re.compile(
    r"[\"<>:/|\\?*\[\]\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+",
)
# Windows reserves these names for devices, with any extension.
_RESERVED = re.compile(r"con|prn|aux|nul|conin\$|conout\$|(com|lpt)[\d¹²³]", re.IGNORECASE)
# File systems limit bytes, not characters.
_MAX_BYTES = 120
_DIGEST_MARK = "+"


def safe_name(name: str) -> str:
    """Return a name that can be a part of a path on every system.

    >>> safe_name("acme/lengths: 1b"), safe_name("CON"), safe_name(".."), safe_name("nul.txt")
    ('acme__lengths__ 1b', '_CON', '_', '_nul.txt')
    """
    replaced = _UNSAFE.sub("__", name)
    # The limit may cut through a character, whose remaining bytes are ignored.
    shortened = replaced.encode()[:_MAX_BYTES].decode(errors="ignore")
    # Windows drops dots and spaces at the end of a name, and a dot at its beginning hides a file elsewhere.
    text = shortened.strip(". ")
    if not text or is_reserved(text):
        return f"_{text}"
    return text


def run_file(folder: Path, run: str, ending: str = "") -> Path:
    """Return the file in a folder that belongs to a run or a sweep.

    An id that lmassay assigned is used unchanged. A results folder from somebody else may have other ids. Their paths
    must lead neither out of the folder nor to the file of another run, even on file systems that ignore case and
    Unicode normalisation, so a digest is appended to them.

    >>> run_file(Path("models"), "20261117-typos-ca5a8c", ".json").as_posix()
    'models/20261117-typos-ca5a8c.json'
    >>> run_file(Path("models"), "../../notes", ".json").as_posix()
    'models/__..__notes+df16d059.json'
    >>> run_file(Path("models"), "Typos").name, run_file(Path("models"), "typos").name
    ('Typos+08b5dad3', 'typos')
    """
    name = safe_name(run)
    # An id with the mark also gets a digest. So no unchanged id can be equal to a name with a digest.
    if name != run or same_file_key(run) != run or _DIGEST_MARK in run:
        name += f"{_DIGEST_MARK}{hashlib.sha256(run.encode('utf-8', 'backslashreplace')).hexdigest()[:8]}"
    return folder / f"{name}{ending}"


def is_reserved(name: str) -> bool:
    """Return whether a name is reserved for a device in Windows.

    >>> is_reserved("Nul"), is_reserved("com1.txt"), is_reserved("console")
    (True, True, False)
    """
    return _RESERVED.fullmatch(name.partition(".")[0].rstrip()) is not None


def same_file_key(name: str) -> str:
    """Return a key that is equal for all names that some file system treats as the same file.

    File systems may ignore case and Unicode normalisation.

    >>> same_file_key("Model") == same_file_key("MODEL")
    True
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def spelled_on_disk(path: Path) -> Path:
    """Return a path in the Unicode normalisation of the file on the disk, if it exists only in another one.

    macOS writes Hangul and accents decomposed (NFD), editors write them composed (NFC). On Linux, a file that came from
    a Mac is not found under the name that the user types. Parts of the path that do not exist are not changed.
    """
    if str(path).isascii() or path.exists():
        return path
    spelled = Path(path.anchor)
    for part in path.parts[len(spelled.parts) :]:
        spelled /= _spelled_part(spelled, part)
    return spelled


def _spelled_part(folder: Path, part: str) -> str:
    if part.isascii() or (folder / part).exists():
        return part
    composed = unicodedata.normalize("NFC", part)
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return part
    return next((name for name in names if unicodedata.normalize("NFC", name) == composed), part)


def paths_spelled_on_disk(value: Any, base: Path) -> Any:
    """Return a value of a configuration in which :func:`spelled_on_disk` was applied to all files and folders.

    Relative paths refer to the folder ``base``; a path that is changed begins with this folder afterwards.
    """
    if isinstance(value, dict):
        return {key: paths_spelled_on_disk(inner, base) for key, inner in value.items()}
    if isinstance(value, list):
        return [paths_spelled_on_disk(inner, base) for inner in value]
    if not isinstance(value, str) or value.isascii():
        return value
    # A configuration names a class in a user's file as file.py:Name.
    file, separator, name = value.partition(".py:")
    written = file + separator.removesuffix(":")
    try:
        spelled = spelled_on_disk(base / Path(written).expanduser())
        if spelled.exists() and not (base / Path(written).expanduser()).exists():
            return str(spelled) + (f":{name}" if separator else "")
    except (OSError, ValueError, RuntimeError):
        # The text is not a path: it is too long, contains a zero byte, or names the home of an unknown user.
        return value
    return value
