"""Minimal pairs: two sentences that differ in what makes one of them ungrammatical, split at the word that differs."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lmassay.errors import DataError
from lmassay.storage.files import TextFile, open_text

Number = Literal["singular", "plural"]
NUMBER_OF_LABEL: Mapping[int, Number] = {-1: "singular", -2: "plural"}
"""refining-tse labels the correct verb with the index of its form: -1 singular, -2 plural."""
Blank = Literal["only", "first"]
"""Where the blank is: at the only word that differs, or at the first of several."""
_OWN_FIELDS = ("sentence_good", "sentence_bad", "label")
# When words are joined to a text, these follow the word before them without a space.
_NO_SPACE_BEFORE = ".,;?!"
# Some data sets separate what is one word in writing: the elided words of French and Italian (l' auteur), and the
# prefixes of Hebrew (and, the, that, in, to, like, from).
_ELIDED = re.compile(r"(?:[cdjlmnst]|un|\w*qu|\w*ll)['’]", re.IGNORECASE)
_HEBREW_PREFIXES = frozenset("והשבלכמ")


@dataclass(frozen=True, slots=True)
class MinimalPair:
    """One line of a data set. ``number`` is the grammatical number of the correct verb, if the data state it."""

    good: str
    bad: str
    number: Number | None
    file: str
    line: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All other fields of the line."""
    blank: Blank = "only"

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
    differs_after: bool = False
    """Whether words after the blank differ as well, such as a French adjective (*est petit*, *sont petits*)."""


def open_pairs(path: Path) -> TextFile:
    """Open a file of pairs, or raise a DataError if it is missing or not UTF-8."""
    return open_text(path, "pairs")


def pair_of(row: Mapping[str, Any], file: str, line: int, blank: Blank = "only") -> MinimalPair:
    """Return a pair from the fields of a row, or raise a DataError with its location."""
    good = row.get("sentence_good")
    bad = row.get("sentence_bad")
    for key, sentence in (("sentence_good", good), ("sentence_bad", bad)):
        if not isinstance(sentence, str):
            if key in row:
                raise DataError(f"{file}, line {line}: '{key}' must be a text; got {sentence!r}")
            raise DataError(
                f"{file}, line {line}: the text '{key}' is missing; the fields are: {', '.join(row)}; if yours have "
                "other names, write task.columns: {right: …, wrong: …}"
            )
        if not sentence.isascii():
            _check_encodable(sentence, file, line)
    assert isinstance(good, str)
    assert isinstance(bad, str)
    label = row.get("label")
    if label is not None and (type(label) is not int or label not in NUMBER_OF_LABEL):
        raise DataError(
            f"{file}, line {line}: label is {label!r}; it must be -1 (the correct verb is singular) or -2 (plural)"
        )
    number = None if label is None else NUMBER_OF_LABEL[label]
    other_fields = dict(row)
    for name in _OWN_FIELDS:
        other_fields.pop(name, None)
    return MinimalPair(good, bad, number, file, line, other_fields, blank)


def _check_encodable(text: str, file: str, line: int) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        # A lone surrogate can be written in JSON, but no tokenizer takes it.
        raise DataError(
            f"{file}, line {line}: the character {text[error.start]!a} is half of a surrogate pair; correct the file"
        ) from None


def split_at_difference(good: str, bad: str, *, first: bool = False) -> BlankedPair:
    """Return the words around the only one that differs, or around the ``first`` of several.

    Punctuation at both ends of a sentence does not count. Raises NoSingleDifference if there is no such word.
    """
    good_words = _words(good)
    bad_words = _words(bad)
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
    if len(differing) > 1 and not first:
        raise NoSingleDifference(f"the sentences differ in {len(differing)} words; only one may differ")
    index = differing[0]
    good_word, bad_word, mark = _without_shared_punctuation(good_words[index], bad_words[index])
    right = (*mark, *good_words[index + 1 :])
    return BlankedPair(tuple(good_words[:index]), good_word, bad_word, right, differs_after=len(differing) > 1)


def _words(sentence: str) -> list[str]:
    """Return the words of a sentence without punctuation at its ends, in any script (¿…?, «…», …।)."""
    text = sentence.strip()
    if text[:1].isalnum() and text[-1:].isalnum():
        # Most sentences end here, which is faster than looking for punctuation.
        return text.split()
    start = 0
    end = len(text)
    while start < end and _is_punctuation(text[start]):
        start += 1
    while end > start and _is_punctuation(text[end - 1]):
        end -= 1
    return text[start:end].split()


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def _without_shared_punctuation(good: str, bad: str) -> tuple[str, str, tuple[str, ...]]:
    """Return both words without the punctuation mark that both end in, and that mark, which is text after the blank."""
    mark = good[-1:]
    if mark == bad[-1:] and mark in _NO_SPACE_BEFORE and len(good) > 1 and len(bad) > 1:
        return good[:-1], bad[:-1], (mark,)
    return good, bad, ()


def text_around(pair: BlankedPair, capitalize: bool, period: bool) -> tuple[str, str]:
    """Return the text before and after the blank, including spaces."""
    left = list(pair.left)
    if capitalize and left:
        # As in the original, which also lower-cases the rest of the word.
        left[0] = left[0].capitalize()
    right = [*pair.right, "."] if period else list(pair.right)
    before = joined(left)
    after = joined(["", *right])
    return (f"{before} " if before else ""), after


def joined(words: Sequence[str]) -> str:
    """Join words to a text: with a space between them, but none before punctuation or after an elided word.

    >>> joined(["l'", "auteur", ",", "qu'", "on", "voit"])
    "l'auteur, qu'on voit"
    """
    text = ""
    for index, word in enumerate(words):
        needs_space = index > 0 and word not in _NO_SPACE_BEFORE and not _is_written_with_next(words[index - 1])
        text += f" {word}" if needs_space else word
    return text


def _is_written_with_next(word: str) -> bool:
    return word in _HEBREW_PREFIXES or _ELIDED.fullmatch(word) is not None
