"""Minimal pairs: two sentences that differ where the grammar cares. Read strictly, split at the word that differs."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lmassay.errors import DataError
from lmassay.storage.files import TextFile, open_text

Number = Literal["singular", "plural"]
NUMBER_OF_LABEL: Mapping[int, Number] = {-1: "singular", -2: "plural"}
# Glued to the word before them when words are joined to a text, alone or together.
_GLUED = ".,;?!"


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """One line of a data set. ``number`` is that of the correct verb, where the data tell."""

    good: str
    bad: str
    number: Number | None
    file: str
    line: int
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}"


class NoSingleDifference(ValueError):  # noqa: N818 - reads as what it is
    """Two sentences that do not differ in exactly one word."""


@dataclass(frozen=True, slots=True)
class BlankedPair:
    """A sentence around the one word that differs."""

    left: tuple[str, ...]
    good: str
    bad: str
    right: tuple[str, ...]


def open_pairs(path: Path) -> TextFile:
    return open_text(path, "pairs")


def pair_of(row: Mapping[str, Any], file: str, line: int) -> MinimalPair:
    """A pair from the fields of a row."""
    for key in ("sentence_good", "sentence_bad"):
        if not isinstance(row.get(key), str):
            raise DataError(f"{file}, line {line}: the text '{key}' is missing; known here: {', '.join(row)}")
        _require_text(row[key], f"{file}, line {line}")
    label = row.get("label")
    if label is not None and (type(label) is not int or label not in NUMBER_OF_LABEL):
        raise DataError(
            f"{file}, line {line}: label is {label!r}; it must be -1 (the correct verb is singular) or -2 (plural)"
        )
    rest = {k: v for k, v in row.items() if k not in ("sentence_good", "sentence_bad", "label")}
    number = None if label is None else NUMBER_OF_LABEL[label]
    return MinimalPair(row["sentence_good"], row["sentence_bad"], number, file, line, rest)


def _require_text(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: the character {text[error.start]!a} is half of one; mend the file") from None


def split_at_difference(good: str, bad: str) -> BlankedPair:
    """The words around the only one that differs; punctuation at both ends does not count."""
    words, others = (s.strip().strip(string.punctuation).split() for s in (good, bad))
    if good == bad:
        raise NoSingleDifference("the two sentences are identical")
    differing = [i for i, (a, b) in enumerate(zip(words, others, strict=False)) if a != b]
    if not differing and len(words) == len(others):
        raise NoSingleDifference("the two sentences are identical but for punctuation or spaces")
    if len(words) != len(others):
        raise NoSingleDifference(f"the sentences have {len(words)} and {len(others)} words; only one word may differ")
    if len(differing) > 1:
        raise NoSingleDifference(f"the sentences differ in {len(differing)} words; only one may differ")
    (at,) = differing
    return BlankedPair(tuple(words[:at]), words[at], others[at], tuple(words[at + 1 :]))


def text_around(blank: BlankedPair, capitalize: bool, period: bool) -> tuple[str, str]:
    """The text before and behind the blank, spaces included."""
    left = list(blank.left)
    if capitalize and left:
        # As the original does, which also lower-cases the rest of the word.
        left[0] = left[0].capitalize()
    right = [*blank.right, "."] if period else list(blank.right)
    before, after = joined(left), joined(["", *right])
    return (f"{before} " if before else ""), after


def joined(words: Sequence[str]) -> str:
    """Words as a text: a space between them, but none before punctuation."""
    text = ""
    for place, word in enumerate(words):
        text += word if place == 0 or word in _GLUED else f" {word}"
    return text
