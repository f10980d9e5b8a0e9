"""Small random changes to bytes, lines, and documents of lists and dictionaries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Values that have broken programs before.
NUMBERS: Sequence[Any] = (0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, 5e-324)
NUMBERS_AS_TEXT = ("NaN", ".nan", ".inf", "-.inf", "1e999", "0x10", "0o17", "1_000", "١٢", "½", "1,5", "--1", "+")
TEXTS = (
    "",
    " ",
    "\t",
    "a" * 300,
    "null",
    "true",
    "[]",
    "{}",
    "../../x",
    "/nowhere/at/all",
    "CON",
    "C:\\x:y",
    "한글",
    "한글",
    "\u202e\u200b\ufeff",
    "\x00",
    "\x1b[31m",
    "\ud800",
    "😀",
    "e\u0301",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "${HOME}",
    "${NOT_SET_ANYWHERE}",
    "${",
    "$${x}",
    "%s%n{0}{x.__class__}",
    "=1+1",
    "__import__('os')",
    "a\nb",
    "file:name",
    "*",
    "~",
    "1e5",
)
OTHERS: Sequence[Any] = (None, True, False, [], {}, [[]], [None], {"": ""}, {"name": None})
VALUES: Sequence[Any] = (*NUMBERS, *NUMBERS_AS_TEXT, *TEXTS, *OTHERS)


# --- bytes and lines --------------------------------------------------------------------------------------------------


def damage_bytes(file: Path, rng: random.Random) -> str:
    """Change a file without regard for what it means, and describe the change."""
    content = file.read_bytes()
    position = rng.randrange(len(content) + 1)
    kind = rng.choice(("flip", "overwrite", "insert", "delete", "cut", "repeat", "zeros", "empty"))
    length = rng.choice((1, 1, 2, 8, 64))
    junk = bytes(rng.randrange(256) for _ in range(length))
    if kind == "flip" and position < len(content):
        changed = bytes([content[position] ^ (1 << rng.randrange(8))])
        content = content[:position] + changed + content[position + 1 :]
    elif kind == "overwrite":
        content = content[:position] + junk + content[position + length :]
    elif kind == "insert":
        content = content[:position] + junk + content[position:]
    elif kind == "delete":
        content = content[:position] + content[position + length :]
    elif kind == "cut":
        content = content[:position]
    elif kind == "repeat":
        content = content[:position] + content[max(0, position - 200) : position] * 3 + content[position:]
    elif kind == "zeros":
        content = content[:position] + bytes(length) + content[position:]
    else:
        content = b""
    file.write_bytes(content)
    return f"{file.name}: {kind} {length} bytes at {position}"


def damage_lines(file: Path, rng: random.Random) -> str:
    """Change whole lines or words of a text file, and describe the change."""
    lines = _text_of(file).split("\n")
    number = rng.randrange(len(lines))
    kind = rng.choice(("drop", "double", "swap", "blank", "junk", "append", "prepend", "crlf", "bom", "word", "indent"))
    junk = rng.choice(TEXTS)
    line = lines[number]
    if kind == "drop":
        del lines[number]
    elif kind == "double":
        lines.insert(number, line)
    elif kind == "swap":
        other = rng.randrange(len(lines))
        lines[number], lines[other] = lines[other], line
    elif kind == "blank":
        lines[number] = ""
    elif kind == "junk":
        lines[number] = junk
    elif kind == "append":
        lines[number] = line + junk
    elif kind == "prepend":
        lines[number] = junk + line
    elif kind == "crlf":
        lines = [text + "\r" for text in lines]
    elif kind == "bom":
        lines[0] = "\ufeff" + lines[0]
    elif kind == "indent":
        lines[number] = rng.choice((" ", "   ", "\t")) + line
    else:
        words = line.split(" ")
        words[rng.randrange(len(words))] = junk
        lines[number] = " ".join(words)
    _write(file, "\n".join(lines))
    return f"{file.name}: {kind} line {number + 1} ({junk!r})"


def _text_of(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "surrogateescape")


def _write(file: Path, text: str) -> None:
    # A lone surrogate of TEXTS becomes bytes that are not UTF-8.
    file.write_bytes(text.encode("utf-8", "surrogatepass"))


# --- documents --------------------------------------------------------------------------------------------------------


def damage_document(document: Any, rng: random.Random, keys: Sequence[str] = ()) -> tuple[Any, str]:
    """Change one value, key or element of a document. ``keys`` are names that may be added."""
    places = list(_places(document))
    container, key = rng.choice(places)
    if container is None:
        value = rng.choice(VALUES)
        return value, f"the whole document becomes {value!r:.60}"
    kind = rng.choice(("value", "value", "value", "delete", "rename", "add", "nest", "double"))
    value = rng.choice(VALUES)
    if kind == "delete":
        del container[key]
    elif kind == "rename" and isinstance(container, dict):
        new_name = rng.choice([*keys, *map(str, VALUES[:20]), f"{key}s", str(key)[1:]])
        container[new_name] = container.pop(key)
    elif kind == "add" and isinstance(container, dict) and keys:
        key = rng.choice(keys)
        container[key] = value
    elif kind == "nest":
        container[key] = rng.choice(([container[key]], {"name": container[key]}, {"x": [container[key]]}))
    elif kind == "double" and isinstance(container, list):
        container.append(container[key])
    else:
        kind = "value"
        container[key] = value
    return document, f"{kind} {key!r:.40} ({value!r:.40})"


def _places(document: Any) -> list[tuple[Any, Any]]:
    """All places of a document as (container, key); the document itself is (None, None)."""
    places: list[tuple[Any, Any]] = [(None, None)]
    unvisited = [document]
    while unvisited:
        container = unvisited.pop()
        if isinstance(container, dict):
            keys: Sequence[Any] = list(container)
        elif isinstance(container, list):
            keys = range(len(container))
        else:
            continue
        for key in keys:
            places.append((container, key))
            unvisited.append(container[key])
    return places


def keys_of(document: Any) -> set[str]:
    """All names in a document."""
    return {key for container, key in _places(document) if isinstance(key, str)}
