"""Words and tokens: how a tokenizer spells a word inside a text, and where in the tokens a place of the text lies.

Places are found from the tokenizer's offsets into the text, never by counting the tokens of a part tokenised by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import ConfigError, DataError, ModelError
from lmassay.models.hf.chat import RenderedPrompt

# A word before the one that is asked about, so that it is spelled as inside a sentence.
_BEFORE = "the"
Position = Literal["found", "counted"]


@dataclass(frozen=True, slots=True)
class EncodedText:
    """A text as tokens; ``start`` is the first of them that was asked about."""

    ids: tuple[int, ...]
    start: int


class WordTokenizer:
    """A fast tokenizer with the policies of the model: what stands before a text, and whether a space does."""

    def __init__(self, tokenizer: Any, prefix: str, leading_space: bool | None) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise DataError("this model's tokenizer gives no offsets; convert it to a fast one (tokenizer.json)")
        self.tokenizer = tokenizer
        self._prefix = prefix
        self._leading_space = leading_space
        # Thousands of blanks share a list of words: it is spelled once.
        self.spell_all = lru_cache(maxsize=16)(self._spell_all)
        self.single_ids = lru_cache(maxsize=16)(self._single_ids)

    # --- policies ---------------------------------------------------------------------------------------------------

    @cached_property
    def own_prefix(self) -> tuple[int, ...]:
        """What the tokenizer itself puts before a text, e.g. Llama's <s>."""
        bare = self._ids("a")
        whole = tuple(self.tokenizer("a")["input_ids"])
        return whole[: whole.index(bare[0])] if bare and bare[0] in whole else ()

    @cached_property
    def separator(self) -> tuple[int, ...]:
        """What stands between documents in training, for a text that nothing precedes."""
        if "<|endoftext|>" in self._vocabulary:
            return (int(self._vocabulary["<|endoftext|>"]),)
        for token in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return (int(token),)
        return ()

    @cached_property
    def given_prefix(self) -> tuple[int, ...] | None:
        """The prefix that was asked for; None means automatic."""
        if self._prefix == "auto":
            return None
        if self._prefix == "none":
            return ()
        if self._prefix in ("bos", "eos"):
            token = getattr(self.tokenizer, f"{self._prefix}_token_id")
            if token is None:
                raise ConfigError(f"model.prefix: this tokenizer has no {self._prefix} token")
            return (int(token),)
        token = self._vocabulary.get(self._prefix)
        if token is None:
            raise ConfigError(
                f"model.prefix: '{self._prefix}' is no token of this model; write auto, none, bos, eos or a token"
            )
        return (int(token),)

    def prefix(self, something_precedes: bool) -> tuple[int, ...]:
        """Before a context that something can be predicted from: the tokenizer's own; before nothing: the separator."""
        if self.given_prefix is not None:
            return self.given_prefix
        return self.own_prefix if something_precedes or self.own_prefix else self.separator

    def policy(self, masked: bool) -> dict[str, str]:
        """The policies as a signature shows them."""
        if masked:
            spaced = "yes" if self.space_before_texts else "blanks only" if self.space_before_blanks else "no"
            return {"leading_space": spaced}
        context, sentence = (self._name(self.prefix(first)) for first in (True, False))
        prefix = context if context == sentence else f"{context}/{sentence}"
        return {"prefix": prefix, "leading_space": "yes" if self._leading_space else "no"}

    def _name(self, ids: Sequence[int]) -> str:
        return "".join(self.tokenizer.convert_ids_to_tokens(list(ids))) or "none"

    @cached_property
    def space_before_blanks(self) -> bool:
        """RoBERTa-like vocabularies spell a word at the very beginning unlike one in a sentence; the published system
        puts a space before the whole text, and so do we unless told otherwise."""
        if self._leading_space is not None:
            return self._leading_space
        return self._ids(" the") != self._ids("the") and len(self._ids(" the")) == 1

    @property
    def space_before_texts(self) -> bool:
        return bool(self._leading_space)

    # --- words ------------------------------------------------------------------------------------------------------

    def spell(self, word: str, first: bool = False) -> tuple[int, ...] | None:
        """The tokens of a word after a space (``first``: at the beginning), or None if an unknown token is needed."""
        entry = self._entry(word)
        if entry is not None:
            return (entry,)
        before = "" if first else _BEFORE
        found = self.tokenizer(
            word if first else f"{before} {word}", add_special_tokens=False, return_offsets_mapping=True
        )
        # A token that holds nothing but the space before the word is needed to spell it, too.
        inside = [i for i, (_, end) in enumerate(found["offset_mapping"]) if end > len(before)]
        ids = tuple(int(found["input_ids"][i]) for i in inside)
        return ids if self.knows(ids) else None

    def _entry(self, word: str) -> int | None:
        """WordPiece vocabularies list whole words. One that is listed counts, even if the tokenizer itself would split
        it at a hyphen."""
        if not self._is_word_piece:
            return None
        normalizer = self.tokenizer.backend_tokenizer.normalizer
        token = self._vocabulary.get(word if normalizer is None else normalizer.normalize_str(word))
        return None if token is None or token == self.tokenizer.unk_token_id else int(token)

    @cached_property
    def _is_word_piece(self) -> bool:
        return type(self.tokenizer.backend_tokenizer.model).__name__ == "WordPiece"

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        return dict(self.tokenizer.get_vocab())

    def _spell_all(self, words: tuple[str, ...], first: bool) -> tuple[tuple[int, ...] | None, ...]:
        return tuple(self.spell(word, first) for word in words)

    def _single_ids(self, words: tuple[str, ...], first: bool) -> NDArray[np.int64]:
        """The token of each word that is one token, -1 for the others."""
        spelled = self.spell_all(words, first)
        return np.array([ids[0] if ids is not None and len(ids) == 1 else -1 for ids in spelled], dtype=np.int64)

    # --- texts ------------------------------------------------------------------------------------------------------

    def left_context(self, left: str) -> tuple[int, ...]:
        """What a causal model reads before a blank; the space before the blank belongs to the word."""
        text = left.rstrip(" ")
        if text and text == left:
            raise ModelError("the blank stands inside a word; put a space before it, or score whole sentences")
        if self.space_before_texts and text:
            text = f" {text}"
        context = (*self.prefix(bool(text)), *self._ids(text))
        if not context:
            raise ModelError("nothing stands before the blank; set the model's prefix to a token, e.g. prefix: bos")
        return context

    def continuation(self, context: str, continuation: str) -> EncodedText:
        """A text for a causal model; its score begins with the first token that reaches into the continuation."""
        space = " " if self.space_before_texts and not context and not continuation.startswith(" ") else ""
        found = self.tokenizer(
            context + space + continuation, add_special_tokens=False, return_offsets_mapping=True, truncation=False
        )
        ids = tuple(found["input_ids"])
        start = next((i for i, (_, end) in enumerate(found["offset_mapping"]) if end > len(context)), len(ids))
        prefix = self.prefix(start > 0)
        return EncodedText((*prefix, *ids), len(prefix) + start)

    def prompt(self, prompt: RenderedPrompt) -> tuple[int, ...]:
        """What a causal model reads before it goes on with a text of its own; never nothing."""
        tokenizer = self.tokenizer
        ids = self._ids(prompt.text) if prompt.templated else tuple(tokenizer(prompt.text)["input_ids"])
        return ids or (tokenizer.bos_token_id or tokenizer.eos_token_id or 0,)

    def behind(self, text: str, continuations: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of each continuation where the text before it keeps its own.

        They are what the tokenizer makes of both together, unless it would join the last letters of the one and the
        first of the other in one token, which a model that goes on with the text cannot do.
        """
        before = self._ids(text)
        wholes = [self._ids(text + continuation) for continuation in continuations]
        return [
            whole[len(before) :] if whole[: len(before)] == before else self._on_a_new_line(continuation)
            for whole, continuation in zip(wholes, continuations, strict=True)
        ]

    def _on_a_new_line(self, text: str) -> tuple[int, ...]:
        """The tokens of a text that nothing is joined to, and that does not count as the beginning of all."""
        found = self.tokenizer(f"\n{text}", add_special_tokens=False, return_offsets_mapping=True)
        offsets = found["offset_mapping"]
        if any(start < 1 < end for start, end in offsets):
            return self._ids(text)
        return tuple(token for token, (_, end) in zip(found["input_ids"], offsets, strict=True) if end > 1)

    def reply(self, prompt: RenderedPrompt, continuation: str) -> EncodedText:
        """A continuation of chat turns; a template says itself what stands before it."""
        if not prompt.templated:
            # Without a template a reply is what comes next in the text: a blank stands between.
            blank = " " if prompt.text[-1:].strip() and continuation[:1].strip() else ""
            return self.continuation(prompt.text, blank + continuation)
        ids = self._ids(prompt.text)
        return EncodedText((*ids, *self.behind(prompt.text, [continuation])[0]), len(ids))

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether tokens spell something: there are any, and none stands for what the vocabulary lacks."""
        unknown = self.tokenizer.unk_token_id
        return bool(ids) and (unknown is None or unknown not in ids)

    def blank(self, left: str, right: str, position: Position) -> tuple[tuple[int, ...], int]:
        """A text with a mask for a masked model, and the place of the mask among its tokens."""
        mask = self.tokenizer.mask_token
        if (left and not left.endswith(" ")) or (right and right[0].isalnum()):
            raise ModelError("the blank stands inside a word; put spaces around it, or score whole sentences")
        space = " " if self.space_before_blanks and not left.startswith(" ") else ""
        before = space + left
        found = self.tokenizer(before + mask + right, return_offsets_mapping=True)
        ids = tuple(found["input_ids"])
        if position == "counted":
            # The released code: tokens of the left side by itself, without the space that the input begins with.
            return ids, min(1 + len(self._ids(left.rstrip(" "))), len(ids) - 1)
        end_of_mask = len(before) + len(mask)
        for place, (token, (_, end)) in enumerate(zip(ids, found["offset_mapping"], strict=True)):
            if token == self.tokenizer.mask_token_id and end == end_of_mask:
                return ids, place
        raise ModelError("the tokenizer lost the blank; is there something odd in the text?")

    def masked_text(self, context: str, continuation: str) -> tuple[tuple[int, ...], list[int], list[int]]:
        """A text for a masked model: its tokens, the places to be scored, and the word that each of them belongs to."""
        space = " " if self.space_before_texts and not context and not continuation.startswith(" ") else ""
        found = self.tokenizer(
            context + space + continuation, return_offsets_mapping=True, return_special_tokens_mask=True
        )
        words = found.word_ids(0)
        places = [
            i
            for i, (special, (_, end)) in enumerate(
                zip(found["special_tokens_mask"], found["offset_mapping"], strict=True)
            )
            if not special and end > len(context)
        ]
        return tuple(found["input_ids"]), places, [words[i] for i in places]

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else ()
