"""Helpers for encoding with any tokenizer.

They give the token ids of a text, the special tokens around one or two texts, and shorten two texts as PET does.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.errors import ConfigError

_CACHE_SIZE = 2048
# Two short texts that every tokenizer knows. They are encoded to find out which special tokens it adds around texts.
_PROBE = ("the", "a")
_SPECIAL = ("unk", "pad", "cls", "sep", "mask", "bos", "eos")


def special_ids(tokenizer: Any) -> set[int]:
    """The ids of the special tokens, such as padding and mask.

    ``tokenizer.all_special_ids`` is not used, because it also contains words that a sentencepiece model lists as
    user-defined symbols.
    """
    ids = set()
    for name in _SPECIAL:
        token = getattr(tokenizer, f"{name}_token_id", None)
        if token is not None:
            ids.add(int(token))
    return ids


class CachedTokenizer:
    """The token ids of texts, each tokenized on its own. Recent texts are cached."""

    def __init__(self, tokenizer: Any) -> None:
        # A weak reference: the tokenizer is the key under which this object is kept, and must not be kept alive by it.
        self._tokenizer = weakref.ref(tokenizer)
        self._needs_space = reads_leading_space(tokenizer)
        self._cache: dict[str, list[int]] = {}

    @classmethod
    def of(cls, tokenizer: Any) -> CachedTokenizer:
        """The cache of a tokenizer, shared by all patterns. A tokenizer that was given new tokens gets a new cache."""
        size = len(tokenizer) if hasattr(tokenizer, "__len__") else 0
        known_size, cached = _CACHES.get(tokenizer, (None, None))
        if cached is None or known_size != size:
            cached = cls(tokenizer)
            _CACHES[tokenizer] = (size, cached)
        return cached

    def ids(self, text: str) -> list[int]:
        """The token ids of a text as it stands inside a longer text."""
        cached = self._cache.get(text)
        if cached is not None:
            return list(cached)
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        spaced = text
        if self._needs_space and text and not text[0].isspace():
            # Byte-level vocabularies contain the words inside a text only together with the space before them.
            spaced = f" {text}"
        tokenizer = self._tokenizer()
        assert tokenizer is not None, "the tokenizer is gone"
        # A verbose tokenizer would warn that a text is longer than the window, although it is shortened later.
        ids = [int(token) for token in tokenizer.encode(spaced, add_special_tokens=False, verbose=False)]
        self._cache[text] = ids
        return list(ids)


_CACHES: weakref.WeakKeyDictionary[Any, tuple[int, CachedTokenizer]] = weakref.WeakKeyDictionary()


def reads_leading_space(tokenizer: Any) -> bool:
    """Whether a word has other tokens at the start of a text than inside it, as with byte-level tokenizers (GPT-2)."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return any(name in type(tokenizer).__name__ for name in ("GPT2", "Roberta"))
    return _is_byte_level(json.loads(backend.to_str())["pre_tokenizer"])


def _is_byte_level(pre_tokenizer: Any) -> bool:
    if not isinstance(pre_tokenizer, dict):
        return False
    if pre_tokenizer.get("type") == "ByteLevel":
        return True
    return any(map(_is_byte_level, pre_tokenizer.get("pretokenizers", ())))


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The special tokens before, between and after one or two texts. With a single text, ``between`` is empty."""

    before: tuple[int, ...]
    between: tuple[int, ...]
    after: tuple[int, ...]
    types: tuple[int, int, int, int, int]
    """The token types (BERT's segment numbers) of ``before``, first text, ``between``, second text, ``after``."""

    @property
    def size(self) -> int:
        """How many special tokens there are."""
        return len(self.before) + len(self.between) + len(self.after)

    @classmethod
    def of(cls, tokenizer: Any, *, pair: bool) -> SpecialTokens:
        """The special tokens that the tokenizer itself puts around one text, or around two if ``pair`` is true.

        A ConfigError if it has no tokens for simple English words, so that they cannot be found.
        """
        first, second = _PROBE
        encoded = tokenizer(first, second if pair else None, return_token_type_ids=True)
        # For each token: 0 in the first text, 1 in the second, None for a special token.
        sides = encoded.sequence_ids(0)
        if 0 not in sides or (pair and 1 not in sides):
            raise ConfigError(f"the tokenizer {type(tokenizer).__name__} has no tokens for '{first}' and '{second}'")
        ids = encoded["input_ids"]
        types = encoded.get("token_type_ids") or [0] * len(ids)
        first_start = sides.index(0)
        first_end = _last_index(sides, 0) + 1
        if not pair:
            return cls(
                before=tuple(ids[:first_start]),
                between=(),
                after=tuple(ids[first_end:]),
                types=(types[0], types[first_start], 0, 0, types[-1]),
            )
        second_start = sides.index(1)
        second_end = _last_index(sides, 1) + 1
        return cls(
            before=tuple(ids[:first_start]),
            between=tuple(ids[first_end:second_start]),
            after=tuple(ids[second_end:]),
            types=(types[0], types[first_start], types[first_end], types[second_start], types[-1]),
        )

    def around(self, first: Sequence[int], second: Sequence[int] = ()) -> tuple[list[int], list[int]]:
        """The ids and the token types of the whole input, for the token ids of its one or two texts."""
        ids: list[int] = []
        types: list[int] = []
        parts = (self.before, first, self.between, second, self.after)
        for token_type, part in zip(self.types, parts, strict=True):
            ids += part
            types += [token_type] * len(part)
        return ids, types


def _last_index(values: Sequence[Any], wanted: Any) -> int:
    return len(values) - 1 - list(reversed(values)).index(wanted)


@dataclass(slots=True)
class Piece:
    """The token ids of one part of an input."""

    ids: list[int]
    shortenable: bool = False
    """Whether tokens may be removed from its end."""
    is_prompt: bool = False
    """Whether these are continuous prompt tokens, whose vectors are learned (P-tuning)."""


def shorten(first: Sequence[Piece], second: Sequence[Piece], surplus: int) -> int:
    """Remove ``surplus`` tokens from the ends of shortenable pieces; returns how many could not be removed.

    ``first`` and ``second`` are the pieces of the two texts of an input. PET removes one token after the other from the
    text with more shortenable tokens left, and from the second text if both have equally many. This function computes
    directly how many tokens each text loses in this way.
    """
    in_first = _count_shortenable(first)
    in_second = _count_shortenable(second)
    removable = min(surplus, in_first + in_second)
    # First the longer text is cut until both are equally long, then both are cut in turn, the second text first.
    to_equal = min(removable, abs(in_first - in_second))
    remaining = removable - to_equal
    from_first = remaining // 2
    from_second = remaining - from_first
    if in_first > in_second:
        from_first += to_equal
    else:
        from_second += to_equal
    _cut(first, from_first)
    _cut(second, from_second)
    return surplus - removable


def _count_shortenable(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.ids) for piece in pieces if piece.shortenable)


def _cut(pieces: Sequence[Piece], count: int) -> None:
    """Remove tokens from the end of the last shortenable piece, then from the one before it, and so on."""
    for piece in reversed(pieces):
        if count and piece.shortenable:
            removed = min(count, len(piece.ids))
            piece.ids = piece.ids[: len(piece.ids) - removed]
            count -= removed
