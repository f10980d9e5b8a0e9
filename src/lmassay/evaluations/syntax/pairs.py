"""Minimal pairs: two sentences that differ in what makes one of them ungrammatical, split at the word that differs."""

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
"""refining-tse labels the correct verb with the index of its form: -1 singular, -2 plural."""
# When words are joined to a text, these follow the word before them without a space.
_NO_SPACE_BEFORE = ".,;?!"


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """One line of a data set. ``number`` is that of the correct verb, if the data say it."""

    good: str
    bad: str
    number: Number | None
    file: str
    line: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All other fields of the line."""

    @property
    def where(self) -> str:
        """The location of the pair, for error messages."""
        return f"{self.file}, line {self.line}"


class NoSingleDifference(ValueError):  # noqa: N818 - reads as what it is
    """Raised for two sentences that do not differ in exactly one word."""


@dataclass(frozen=True, slots=True)
class BlankedPair:
    """The words around the one word that differs, and that word in both sentences."""

    left: tuple[str, ...]
    good: str
    bad: str
    right: tuple[str, ...]


def open_pairs(path: Path) -> TextFile:
    """Open a file of pairs, or raise a DataError if it is missing or not UTF-8."""
    return open_text(path, "pairs")


def pair_of(row: Mapping[str, Any], file: str, line: int) -> MinimalPair:
    """Return a pair from the fields of a row, or raise a DataError with its location."""
    for key in ("sentence_good", "sentence_bad"):
        if not isinstance(row.get(key), str):
            raise DataError(f"{file}, line {line}: the text '{key}' is missing; the fields are: {', '.join(row)}")
        _check_encodable(row[key], f"{file}, line {line}")
    label = row.get("label")
    if label is not None and (type(label) is not int or label not in NUMBER_OF_LABEL):
        raise DataError(
            f"{file}, line {line}: label is {label!r}; it must be -1 (the correct verb is singular) or -2 (plural)"
        )
    number = None if label is None else NUMBER_OF_LABEL[label]
    own_fields = ("sentence_good", "sentence_bad", "label")
    other_fields = {name: value for name, value in row.items() if name not in own_fields}
    return MinimalPair(row["sentence_good"], row["sentence_bad"], number, file, line, other_fields)


def _check_encodable(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        # A lone surrogate can be written in JSON, but no tokenizer takes it.
        raise DataError(
            f"{where}: the character {text[error.start]!a} is half of a surrogate pair; correct the file"
        ) from None


def split_at_difference(good: str, bad: str) -> BlankedPair:
    """Return the words around the only one that differs; punctuation at both ends does not count."""
    good_words = good.strip().strip(string.punctuation).split()
    bad_words = bad.strip().strip(string.punctuation).split()
    if good == bad:
        raise NoSingleDifference("the two sentences are identical")
    differing = []
    for index, (good_word, bad_word) in enumerate(zip(good_words, bad_words, strict=False)):
        if good_word != bad_word:
            differing.append(index)
    if not differing and len(good_words) == len(bad_words):
        raise NoSingleDifference("the two sentences are identical except for punctuation or spaces")
    if len(good_words) != len(bad_words):
        raise NoSingleDifference(
            f"the sentences have {len(good_words)} and {len(bad_words)} words; only one word may differ"
        )
    if len(differing) > 1:
        raise NoSingleDifference(f"the sentences differ in {len(differing)} words; only one may differ")
    (index,) = differing
    return BlankedPair(tuple(good_words[:index]), good_words[index], bad_words[index], tuple(good_words[index + 1 :]))


def text_around(pair: BlankedPair, capitalize: bool, period: bool) -> tuple[str, str]:
    """Return the text before and behind the blank, including spaces."""
    left = list(pair.left)
    if capitalize and left:
        # As in the original, which also lower-cases the rest of the word.
        left[0] = left[0].capitalize()
    right = [*pair.right, "."] if period else list(pair.right)
    before, after = joined(left), joined(["", *right])
    return (f"{before} " if before else ""), after


def joined(words: Sequence[str]) -> str:
    """Join words to a text: with a space between them, but none before punctuation."""
    text = ""
    for index, word in enumerate(words):
        text += word if index == 0 or word in _NO_SPACE_BEFORE else f" {word}"
    return text
