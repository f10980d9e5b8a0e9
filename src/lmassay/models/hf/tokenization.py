"""Words and tokens: which tokens a word has inside a text (its spelling), and which tokens belong to a part of a text.

Parts are located by the tokenizer's offsets into the text, never by tokenizing a part alone and counting its tokens:
tokenizers merge characters across the borders of parts.
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

# Put before a word whose tokens are needed: many tokenizers spell the first word of a text differently.
_WORD_BEFORE = "the"

Position = Literal["found", "counted"]
"""How the position of a blank is determined: by offsets, or by counting tokens as refining-tse does (the program of
Newman et al. 2021)."""


@dataclass(frozen=True, slots=True)
class EncodedContinuation:
    """A text as tokens; ``start`` is the position of the first token that is scored."""

    ids: tuple[int, ...]
    start: int


class WordTokenizer:
    """A fast tokenizer with the model's options: what precedes a text, and whether a text begins with a space."""

    def __init__(self, tokenizer: Any, prefix: str, leading_space: bool | None) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise DataError("this model's tokenizer has no offsets; convert it to a fast one (tokenizer.json)")
        self.tokenizer = tokenizer
        self._prefix = prefix
        self._leading_space = leading_space
        # Thousands of blanks have the same list of words; the cache spells each list once.
        self.spell_all = lru_cache(maxsize=16)(self._spell_all)
        self.single_ids = lru_cache(maxsize=16)(self._single_ids)

    # --- what precedes a text ---------------------------------------------------------------------------------------

    @cached_property
    def own_prefix(self) -> tuple[int, ...]:
        """The tokens that the tokenizer itself puts before a text, e.g. Llama's <s>."""
        without_prefix = self._ids("a")
        with_prefix = tuple(self.tokenizer("a")["input_ids"])
        if not without_prefix or without_prefix[0] not in with_prefix:
            return ()
        return with_prefix[: with_prefix.index(without_prefix[0])]

    @cached_property
    def separator(self) -> tuple[int, ...]:
        """The token that separates documents in training: <|endoftext|>, bos or eos, in this order; empty without any.

        It is put before a text that nothing precedes.
        """
        if "<|endoftext|>" in self._vocabulary:
            return (int(self._vocabulary["<|endoftext|>"]),)
        for token in (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id):
            if token is not None:
                return (int(token),)
        return ()

    @cached_property
    def user_prefix(self) -> tuple[int, ...] | None:
        """The prefix that the user set; None if it is automatic. Raises a ConfigError if there is no such token."""
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
                f"model.prefix: '{self._prefix}' is not a token of this model; write auto, none, bos, eos or a token"
            )
        return (int(token),)

    def prefix(self, something_precedes: bool) -> tuple[int, ...]:
        """The tokens before a text.

        The automatic prefix is the tokenizer's own. If the tokenizer has none and nothing else precedes the first token
        to be predicted, it is the separator.
        """
        if self.user_prefix is not None:
            return self.user_prefix
        if something_precedes or self.own_prefix:
            return self.own_prefix
        return self.separator

    def policy(self, masked: bool) -> dict[str, str]:
        """The options that affect scores, as the signature of a run shows them."""
        if masked:
            if self.space_before_texts:
                return {"leading_space": "yes"}
            return {"leading_space": "blanks only" if self.space_before_blanks else "no"}
        after_context = self._joined_tokens(self.prefix(something_precedes=True))
        at_beginning = self._joined_tokens(self.prefix(something_precedes=False))
        prefix = after_context
        if at_beginning != after_context:
            prefix = f"{after_context}/{at_beginning}"
        return {"prefix": prefix, "leading_space": "yes" if self._leading_space else "no"}

    def _joined_tokens(self, ids: Sequence[int]) -> str:
        return "".join(self.tokenizer.convert_ids_to_tokens(list(ids))) or "none"

    @cached_property
    def space_before_blanks(self) -> bool:
        """Whether a text with a blank gets a space at the beginning.

        RoBERTa-like vocabularies spell a word at the very beginning differently from one in a sentence. refining-tse
        (the program of Newman et al. 2021) puts a space before the whole text. lmassay does the same unless the user
        sets ``leading_space``.
        """
        if self._leading_space is not None:
            return self._leading_space
        with_space = self._ids(" the")
        return len(with_space) == 1 and with_space != self._ids("the")

    @property
    def space_before_texts(self) -> bool:
        """Whether a text that is scored gets a space at the beginning; one that follows a context does not."""
        return bool(self._leading_space)

    # --- words ------------------------------------------------------------------------------------------------------

    def spell(self, word: str, first: bool = False) -> tuple[int, ...] | None:
        """The tokens of a word after a space, or (``first``) at the beginning of a text.

        None if the word cannot be spelled without the unknown token.
        """
        return self._spell_all((word,), first)[0]

    def _spell_all(self, words: tuple[str, ...], first: bool) -> tuple[tuple[int, ...] | None, ...]:
        """The tokens of each word, as in :meth:`spell`.

        All words that are not found in a WordPiece vocabulary are tokenized in one call, which takes a fraction of the
        time.
        """
        spelled: list[tuple[int, ...] | None] = []
        to_split: list[int] = []
        for index, word in enumerate(words):
            entry = self._vocabulary_entry(word)
            spelled.append(None if entry is None else (entry,))
            if entry is None:
                to_split.append(index)
        if not to_split:
            return tuple(spelled)
        before = "" if first else _WORD_BEFORE
        texts = []
        for index in to_split:
            texts.append(words[index] if first else f"{before} {words[index]}")
        encoded = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
        for index, tokens, offsets in zip(to_split, encoded["input_ids"], encoded["offset_mapping"], strict=True):
            ids = []
            for token, (_, end) in zip(tokens, offsets, strict=True):
                # What follows _WORD_BEFORE belongs to the word, even a token that is only the space between the two.
                if end > len(before):
                    ids.append(int(token))
            spelled[index] = tuple(ids) if self.knows(ids) else None
        return tuple(spelled)

    def _vocabulary_entry(self, word: str) -> int | None:
        """The token of a whole word in a WordPiece vocabulary.

        A word that the vocabulary lists counts as one token, even if the tokenizer itself would split it at a hyphen.
        """
        if not self._is_word_piece:
            return None
        normalizer = self.tokenizer.backend_tokenizer.normalizer
        if normalizer is not None:
            word = normalizer.normalize_str(word)
        token = self._vocabulary.get(word)
        if token is None or token == self.tokenizer.unk_token_id:
            return None
        return int(token)

    @cached_property
    def _is_word_piece(self) -> bool:
        return type(self.tokenizer.backend_tokenizer.model).__name__ == "WordPiece"

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        return dict(self.tokenizer.get_vocab())

    def _single_ids(self, words: tuple[str, ...], first: bool) -> NDArray[np.int64]:
        """The token of each word that is one token, -1 for the others."""
        ids = np.full(len(words), -1, dtype=np.int64)
        for index, spelled in enumerate(self.spell_all(words, first)):
            if spelled is not None and len(spelled) == 1:
                ids[index] = spelled[0]
        return ids

    def knows(self, ids: Sequence[int]) -> bool:
        """Whether these tokens represent a text: there is at least one, and none is the unknown token."""
        unknown = self.tokenizer.unk_token_id
        return bool(ids) and (unknown is None or unknown not in ids)

    # --- texts for causal models ------------------------------------------------------------------------------------

    def left_context(self, left: str) -> tuple[int, ...]:
        """What a causal model reads before a blank; the space before the blank belongs to the word.

        Raises a ModelError if the blank is inside a word, or if there is neither text nor a prefix before it.
        """
        text = left.rstrip(" ")
        if text and text == left:
            raise ModelError("the blank is inside a word; put a space before it, or score whole sentences")
        if self.space_before_texts and text:
            text = f" {text}"
        context = (*self.prefix(bool(text)), *self._ids(text))
        if not context:
            raise ModelError("there is nothing before the blank; set the model's prefix to a token, e.g. prefix: bos")
        return context

    def continuation(self, context: str, continuation: str) -> EncodedContinuation:
        """A text to be scored from the first token that reaches into the continuation."""
        text = self._joined(context, continuation)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False)
        ids = tuple(encoded["input_ids"])
        start = len(ids)
        for position, (_, end) in enumerate(encoded["offset_mapping"]):
            if end > len(context):
                start = position
                break
        prefix = self.prefix(start > 0)
        return EncodedContinuation((*prefix, *ids), len(prefix) + start)

    def _joined(self, context: str, continuation: str) -> str:
        """The whole text, with a leading space if the user asked for one and there is no context."""
        if self.space_before_texts and not context and not continuation.startswith(" "):
            return f" {continuation}"
        return context + continuation

    def prompt(self, prompt: RenderedPrompt) -> tuple[int, ...]:
        """What a causal model reads before it generates text; at least one token."""
        # A template has written its special tokens already.
        encoded = self.tokenizer(prompt.text, add_special_tokens=not prompt.templated)
        if encoded["input_ids"]:
            return tuple(encoded["input_ids"])
        return (self.tokenizer.bos_token_id or self.tokenizer.eos_token_id or 0,)

    def tokens_after(self, text: str, continuations: Sequence[str]) -> list[tuple[int, ...]]:
        """The tokens of each continuation of a text whose own tokens do not change.

        Usually, these are what follows the text's tokens when both are tokenized together. But the tokenizer may join
        the last letters of the text and the first letters of the continuation into one token. A model that continues
        the text cannot write this token, so the continuation is then tokenized separately.
        """
        before = self._ids(text)
        tokens = []
        for continuation in continuations:
            together = self._ids(text + continuation)
            if together[: len(before)] == before:
                tokens.append(together[len(before) :])
            else:
                tokens.append(self._after_line_break(continuation))
        return tokens

    def _after_line_break(self, text: str) -> tuple[int, ...]:
        """The tokens of a text that is not joined to anything before it, but is not at the very beginning either."""
        encoded = self.tokenizer(f"\n{text}", add_special_tokens=False, return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        if any(start < 1 < end for start, end in offsets):
            # The line break was joined to the text after all.
            return self._ids(text)
        return tuple(token for token, (_, end) in zip(encoded["input_ids"], offsets, strict=True) if end > 1)

    def reply(self, prompt: RenderedPrompt, continuation: str) -> EncodedContinuation:
        """A reply to chat messages, to be scored; a chat template itself writes what comes before the reply."""
        if not prompt.templated:
            # Without a template, a reply is the next piece of the text, after a space.
            needs_space = prompt.text[-1:].strip() and continuation[:1].strip()
            return self.continuation(prompt.text, f" {continuation}" if needs_space else continuation)
        ids = self._ids(prompt.text)
        reply_ids = self.tokens_after(prompt.text, [continuation])[0]
        return EncodedContinuation((*ids, *reply_ids), len(ids))

    # --- tokens and words of a text ----------------------------------------------------------------------------------

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of a text begins and ends in it; tokens that the tokenizer adds are left out."""
        joined = self._joined("", text)
        added = len(joined) - len(text)
        encoded = self.tokenizer(joined, add_special_tokens=False, return_offsets_mapping=True, truncation=False)
        return [(max(start - added, 0), max(end - added, 0)) for start, end in encoded["offset_mapping"]]

    def unknown_tokens(self, text: str) -> int:
        """How many tokens of a text are the unknown token, which stands for all that the vocabulary lacks."""
        unknown = self.tokenizer.unk_token_id
        # GPT-2's unknown token is its end of text; a byte-level vocabulary can spell everything.
        if unknown is None or unknown in (self.tokenizer.eos_token_id, self.tokenizer.bos_token_id):
            return 0
        return self._ids(text).count(unknown)

    def repeats_own_prefix(self, text: str) -> bool:
        """Whether a text begins with the token that the tokenizer puts before it anyway."""
        if not self.own_prefix or self.user_prefix not in (None, self.own_prefix):
            # The model's option ``prefix`` puts something else before the text, or nothing.
            return False
        ids = self._ids(text)
        return bool(ids) and ids[0] == self.own_prefix[-1]

    @cached_property
    def ids_after_space(self) -> NDArray[np.int64]:
        """The tokens that begin with a space, so that the word before them is complete.

        There are none if the tokenizer does not mark spaces at the beginning of tokens, for example WordPiece.
        """
        no_tokens = np.empty(0, dtype=np.int64)
        space = self._ids(" ")
        # Some tokenizers drop a lone space, or map it to the unknown token.
        if not space or space[0] in set(self.tokenizer.all_special_ids):
            return no_tokens
        # The first character of this token marks a space, such as the Ġ of GPT-2. A letter or digit is not a mark.
        mark = self.tokenizer.convert_ids_to_tokens(space[0])[0]
        if mark.isascii() and mark.isalnum():
            return no_tokens
        ids = [index for token, index in self._vocabulary.items() if token.startswith(mark)]
        # Added tokens such as RoBERTa's <mask> may include the space before them.
        for index, token in self.tokenizer.added_tokens_decoder.items():
            if token.lstrip:
                ids.append(index)
        return np.array(sorted(set(ids)), dtype=np.int64)

    # --- texts for masked models ------------------------------------------------------------------------------------

    def blank(self, left: str, right: str, position: Position) -> tuple[tuple[int, ...], int]:
        """A text with a mask, as tokens, and the mask's position. Raises a ModelError if the blank is inside a word."""
        mask = self.tokenizer.mask_token
        if (left and not left.endswith(" ")) or (right and right[0].isalnum()):
            raise ModelError("the blank is inside a word; put spaces around it, or score whole sentences")
        before = left
        if self.space_before_blanks and not left.startswith(" "):
            before = f" {left}"
        encoded = self.tokenizer(before + mask + right, return_offsets_mapping=True)
        ids = tuple(encoded["input_ids"])
        if position == "counted":
            # As refining-tse was released: it counts the tokens of the left side by itself, without the space that the
            # input begins with. The position that it computes can therefore miss the mask.
            return ids, min(1 + len(self._ids(left.rstrip(" "))), len(ids) - 1)
        # The text itself may contain mask tokens; ours is the one that ends here.
        end_of_mask = len(before) + len(mask)
        for index, (token, (_, end)) in enumerate(zip(ids, encoded["offset_mapping"], strict=True)):
            if token == self.tokenizer.mask_token_id and end == end_of_mask:
                return ids, index
        raise ModelError("the tokenizer lost the blank; check the text for unusual characters")

    def masked_text(self, context: str, continuation: str) -> tuple[tuple[int, ...], list[int], list[int]]:
        """A text as tokens, the positions to be scored, and the number of the word that each of them belongs to."""
        text = self._joined(context, continuation)
        encoded = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        word_of_token = encoded.word_ids(0)
        positions = []
        words = []
        tokens = zip(encoded["special_tokens_mask"], encoded["offset_mapping"], strict=True)
        for position, (is_special, (_, end)) in enumerate(tokens):
            # A token that begins in the context and ends in the continuation belongs to the continuation.
            if not is_special and end > len(context):
                positions.append(position)
                words.append(word_of_token[position])
        return tuple(encoded["input_ids"]), positions, words

    def _ids(self, text: str) -> tuple[int, ...]:
        if not text:
            return ()
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
