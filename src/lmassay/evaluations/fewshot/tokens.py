"""What encoding needs of a tokenizer: ids of a text, the special tokens around one or two texts, fair truncation."""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.errors import ConfigError

_CACHED = 2048
_PROBE = ("the", "a")


_SPECIAL = ("unk", "pad", "cls", "sep", "mask", "bos", "eos")


def special_ids(tokenizer: Any) -> set[int]:
    """The ids of special tokens. Not ``all_special_ids``: there stand words, too, that a sentencepiece model lists as
    symbols of its own."""
    found = {getattr(tokenizer, f"{name}_token_id", None) for name in _SPECIAL}
    return {int(token) for token in found if token is not None}


class CachedTokenizer:
    """The tokens of texts, each tokenised on its own; what was asked for lately is kept."""

    def __init__(self, tokenizer: Any) -> None:
        # The keeper of this object holds the tokenizer, and this must not hold its own key.
        self._tokenizer = weakref.ref(tokenizer)
        self._led = reads_leading_space(tokenizer)
        self._known: dict[str, list[int]] = {}

    @classmethod
    def of(cls, tokenizer: Any) -> CachedTokenizer:
        """The same for all patterns of a tokenizer, until it learns new tokens."""
        kept = _WORDS.get(tokenizer)
        size = len(tokenizer) if hasattr(tokenizer, "__len__") else 0
        if kept is None or kept[0] != size:
            kept = _WORDS[tokenizer] = (size, cls(tokenizer))
        return kept[1]

    def ids(self, text: str) -> list[int]:
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _CACHED:
                self._known.clear()
            # Byte-level vocabularies know a word inside a text only with the space before it.
            led = f" {text}" if self._led and text and not text[0].isspace() else text
            tokenizer = self._tokenizer()
            assert tokenizer is not None, "the tokenizer is gone"
            # Not verbose: the notice that a text is longer than the window comes before it is shortened.
            known = [int(token) for token in tokenizer.encode(led, add_special_tokens=False, verbose=False)]
            self._known[text] = known
        return list(known)


_WORDS: weakref.WeakKeyDictionary[Any, tuple[int, CachedTokenizer]] = weakref.WeakKeyDictionary()


def reads_leading_space(tokenizer: Any) -> bool:
    """Whether a word has other tokens at the start of a text than inside it (RoBERTa, GPT-2: byte-level)."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return any(name in type(tokenizer).__name__ for name in ("GPT2", "Roberta"))
    return _names_byte_level(json.loads(backend.to_str())["pre_tokenizer"])


def _names_byte_level(step: Any) -> bool:
    if not isinstance(step, dict):
        return False
    return step.get("type") == "ByteLevel" or any(map(_names_byte_level, step.get("pretokenizers", ())))


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The special tokens before, between and after texts, with their token types; one text has no ``between``."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]
    """Of: before, first text, between, second text, after."""

    @property
    def size(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    @classmethod
    def of(cls, tokenizer: Any, *, pair: bool) -> SpecialTokens:
        """What the tokenizer's own post-processor puts around texts."""
        first, second = _PROBE
        encoded = tokenizer(first, second if pair else None, return_token_type_ids=True)
        sides = encoded.sequence_ids(0)
        if 0 not in sides or (pair and 1 not in sides):
            raise ConfigError(f"the tokenizer {type(tokenizer).__name__} has no tokens for '{first}' and '{second}'")
        ids, types = encoded["input_ids"], encoded.get("token_type_ids") or [0] * len(encoded["input_ids"])
        start, stop = sides.index(0), _last(sides, 0) + 1
        begin, end = (sides.index(1), _last(sides, 1) + 1) if pair else (stop, stop)
        return cls(
            before=tuple(ids[:start]),
            between=tuple(ids[stop:begin]),
            after=tuple(ids[end:]),
            types=(
                types[0],
                types[start],
                types[stop] if pair else 0,
                types[begin] if pair else 0,
                types[-1],
            ),
        )

    def around(self, first: Sequence[int], second: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """Ids and token types of the whole input."""
        pieces = (self.before, first, self.between, second, self.after)
        ids = [token for piece in pieces for token in piece]
        return ids, [kind for kind, piece in zip(self.types, pieces, strict=True) for _ in piece]


def _last(values: Sequence[Any], wanted: Any) -> int:
    return len(values) - 1 - list(reversed(values)).index(wanted)


@dataclass(slots=True)
class Piece:
    """The tokens of one part of an input; ``slots`` marks continuous prompt tokens."""

    ids: list[int]
    shortenable: bool = False
    slots: bool = False


def shorten(first: Sequence[Piece], second: Sequence[Piece], surplus: int) -> int:
    """Take ``surplus`` tokens off the ends of shortenable pieces; returns how many could not be taken.

    As in PET: one after the other from the side that has more left that may go, from the second where both are level.
    """
    a, b = _may_go(first), _may_go(second)
    surplus, left = min(surplus, a + b), max(0, surplus - a - b)
    levelling = min(surplus, abs(a - b))
    rest = surplus - levelling
    _cut(first, (levelling if a > b else 0) + rest // 2)
    _cut(second, (levelling if b > a else 0) + rest - rest // 2)
    return left


def _may_go(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.ids) for piece in pieces if piece.shortenable)


def _cut(pieces: Sequence[Piece], count: int) -> None:
    for piece in reversed(pieces):
        if count and piece.shortenable:
            going = min(count, len(piece.ids))
            piece.ids = piece.ids[: len(piece.ids) - going]
            count -= going
