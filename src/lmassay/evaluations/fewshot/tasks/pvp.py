"""Patterns and verbalizers (PVPs): an example becomes a text with a mask for the answer, a label becomes words.

Your own PVP defines the text and the words, as in FewNLU::

    class MRPCPVP(PVP):
        VERBALIZER = {"1": ["Yes"], "0": ["No"]}

        def get_parts(self, example):
            a, b = self.shortenable(example.text_a), self.shortenable(example.text_b)
            if not self.use_cloze:
                return [a], [b]
            return ["Does", a, "mean the same as", b, "?", [self.mask_id], "."], []

        def verbalize(self, label):
            return self.VERBALIZER[label]
"""

from __future__ import annotations

import random
import string
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import CachedTokenizer, Piece, SpecialTokens, shorten, special_ids

Mode = Literal["cls", "cloze", "ptuning"]
Kind = Literal["labels", "choices", "referent", "entities"]
"""What fills the mask: a label's word, one of an example's choices (COPA), the noun that a pronoun refers to (WSC), or
one of the entities of a passage (ReCoRD)."""
Part: TypeAlias = str | tuple[str, bool] | list[int] | int
"""A text; (text, True) for a text that may be shortened; a list of token ids (masks); a number of prompt tokens."""
PVPOutputPattern: TypeAlias = tuple[Sequence[Part], Sequence[Part]]
_AnyText = TypeVar("_AnyText", str, tuple[str, bool])

NO_MASK = -1
"""The token id at the position of the answer if a tokenizer has no mask; a causal network must stop before it."""


@dataclass(frozen=True, slots=True)
class EncodedText:
    """An example in a pattern, as token ids without padding."""

    ids: list[int]
    types: list[int]
    """The token type of each id: 0 in the first text, 1 in the second, if the tokenizer distinguishes them."""
    masks: list[int] = field(default_factory=list)
    """Positions of the mask tokens, which are next to each other."""
    prompts: list[int] = field(default_factory=list)
    """Positions of the continuous prompt tokens; their id is the size of the vocabulary."""


class _AnyMeta(dict[str, Any]):
    """Metadata that returns a text for every name, so that any pattern can be filled in."""

    def __missing__(self, name: str) -> str:
        return "x"


class PVP(ABC):
    """A pattern with its verbalizer; subclasses define ``get_parts`` and ``verbalize``."""

    kind: ClassVar[Kind] = "labels"
    _is_multi_token: bool | None = False
    """A subclass sets this to True if its answers may have several tokens, whatever its ``kind``."""

    def __init__(
        self,
        tokenizer: Any,
        max_seq_length: int = 256,
        label_list: Sequence[str] = (),
        use_cloze: bool = True,
        use_continuous_prompt: bool = False,
        pattern_id: int = 0,
        seed: int = 42,
    ) -> None:
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.label_list = list(label_list)
        self.use_cloze = use_cloze
        self.use_continuous_prompt = use_continuous_prompt
        self.pattern_id = pattern_id
        self.rng = random.Random(seed)
        self.training = False
        """Whether ``encode`` was called for a training example. The Winograd Schema Challenge (WSC) then adds masks."""
        self._cached_tokenizer: CachedTokenizer | None = None
        self._special_tokens: dict[bool, SpecialTokens] = {}
        self._prompt_id: int | None = None
        self._label_ids: list[list[int]] | None = None

    @abstractmethod
    def get_parts(self, example: InputExample) -> PVPOutputPattern:
        """The parts of the first and of the second text (an empty list for none)."""

    @abstractmethod
    def verbalize(self, label: str) -> Sequence[str]:
        """The words for a label."""

    def available_patterns(self) -> list[int]:
        """The pattern ids that ``get_parts`` knows in this mode."""
        return [1] if self.mode == "ptuning" else [0]

    @property
    def mode(self) -> Mode:
        """``cls``: no pattern; ``cloze``: a pattern; ``ptuning``: a pattern with continuous prompt tokens."""
        if not self.use_cloze:
            return "cls"
        return "ptuning" if self.use_continuous_prompt else "cloze"

    @property
    def is_multi_token(self) -> bool:
        """Whether the answer is a text of any length instead of one word of the verbalizer."""
        return bool(self._is_multi_token) or self.kind != "labels"

    @property
    def prompt_length(self) -> int:
        """The number of continuous prompt tokens."""
        if self.mode != "ptuning":
            return 0
        probe = InputExample("probe-0", "x", "x", meta=_AnyMeta())
        try:
            first, second = self.get_parts(probe)
        except Exception:
            # The pattern can only be filled with a real example. As in FewNLU, its id is taken for the number of
            # prompt tokens then.
            return self.pattern_id
        length = 0
        for part in (*first, *(second or ())):
            if isinstance(part, int):
                length += part
        return length

    @property
    def mask(self) -> str:
        """The mask token as text."""
        return str(self.tokenizer.mask_token)

    @property
    def mask_id(self) -> int:
        """The id of the mask token; NO_MASK for a tokenizer without one."""
        if self.tokenizer.mask_token_id is None:
            return NO_MASK
        return int(self.tokenizer.mask_token_id)

    @staticmethod
    def shortenable(text: str) -> tuple[str, bool]:
        """The text, marked as one that may be cut at its end to fit the window."""
        return text, True

    @staticmethod
    def remove_final_punc(text: _AnyText) -> _AnyText:
        """The text without its final punctuation."""
        if isinstance(text, tuple):
            content, shortenable = text
            return content.rstrip(string.punctuation), shortenable
        return text.rstrip(string.punctuation)

    @staticmethod
    def lowercase_first(text: _AnyText) -> _AnyText:
        """The text with its first letter in lower case."""
        if isinstance(text, tuple):
            content, shortenable = text
            return content[:1].lower() + content[1:], shortenable
        return text[:1].lower() + text[1:]

    def encode(self, example: InputExample, *, training: bool | None = None) -> EncodedText:
        """Token ids of the example in this pattern, cut to ``max_seq_length``.

        ``training`` matters for WSC only. If it is None, the file of the example decides, as in FewNLU.
        """
        if training is None:
            # The guid begins with the name of the file.
            training = "train" in example.guid
        self.training = training
        first_parts, second_parts = self._parts(example)
        # Each part is tokenized separately, as in PET and FewNLU.
        first = [self._piece(part, example) for part in first_parts or ()]
        second = [self._piece(part, example) for part in second_parts or ()]
        special = self._special(pair=bool(second))
        length = special.size + sum(len(piece.ids) for piece in (*first, *second))
        if length > self.max_seq_length:
            surplus = shorten(first, second, length - self.max_seq_length)
            if surplus:
                raise DataError(
                    f"{example.guid}: the parts that may not be shortened have {self.max_seq_length + surplus} tokens "
                    f"(with the special tokens) in pattern {self.pattern_id}, but the window has "
                    f"{self.max_seq_length}; raise max_seq_length or remove the example"
                )
        ids, types = special.around(_token_ids(first), _token_ids(second))
        masks = self._mask_positions(ids, example)
        prompts = self._prompt_positions(special, first, second)
        return EncodedText(ids, types, masks, prompts)

    def label_token_ids(self) -> list[list[int]]:
        """The token ids of each label's words, in the order of the labels; empty lists if a task has no words."""
        if self._label_ids is None:
            self._label_ids = []
            for label in self.label_list:
                self._label_ids.append([self._word_id(word, label) for word in self.words(label)])
        return self._label_ids

    def label_word_ids(self) -> list[list[list[int]]]:
        """The token ids of each word of each label; a word may have several tokens."""
        word_ids = []
        for label in self.label_list:
            word_ids.append([self._word_ids(word, label) for word in self.words(label)])
        return word_ids

    def words(self, label: str) -> list[str]:
        """The words for a label as a list; a ConfigError if ``verbalize`` does not know the label."""
        try:
            words = self.verbalize(label)
        except (KeyError, IndexError):
            words = None
        if words is None:
            raise ConfigError(
                f"{type(self).__name__}: the verbalizer of pattern {self.pattern_id} has no word for the label "
                f"'{label}'; add one, or remove the label from get_labels()"
            )
        words = [words] if isinstance(words, str) else list(words)
        if not words and self.use_cloze and not self.is_multi_token:
            raise ConfigError(f"{type(self).__name__}: the label '{label}' has no words in pattern {self.pattern_id}")
        return words

    def choice_texts(self, example: InputExample) -> list[str]:
        """The texts that may fill the masks: COPA's choices, WSC's candidate, ReCoRD's entities; else empty."""
        return []

    def choices(self, example: InputExample) -> list[list[int]]:
        """The token ids of each of the ``choice_texts``."""
        return [self.text_ids(text) for text in self.choice_texts(example)]

    def text_ids(self, text: str) -> list[int]:
        """The token ids of a text as it stands inside a pattern."""
        if self._cached_tokenizer is None:
            self._cached_tokenizer = CachedTokenizer.of(self.tokenizer)
        return self._cached_tokenizer.ids(text)

    def _parts(self, example: InputExample) -> PVPOutputPattern:
        """The result of ``get_parts``; a ConfigError if it is not a pair of parts."""
        parts = self.get_parts(example)
        if parts is None:
            raise ConfigError(
                f"{type(self).__name__} has no pattern {self.pattern_id} for mode {self.mode}; available patterns: "
                f"{', '.join(map(str, self.available_patterns()))}"
            )
        if not isinstance(parts, tuple) or len(parts) != 2:
            raise ConfigError(f"{type(self).__name__}: get_parts must return two lists of parts, not {parts!r}")
        return parts

    def _piece(self, part: Part, example: InputExample) -> Piece:
        """A part of the pattern as tokens."""
        content, shortenable = part if isinstance(part, tuple) else (part, False)
        if isinstance(content, str):
            return Piece(self.text_ids(content), bool(shortenable))
        if isinstance(content, int) and not isinstance(content, bool):
            if self._prompt_id is None:
                self._prompt_id = len(self.tokenizer.get_vocab())
            return Piece([self._prompt_id] * content, is_prompt=True)
        if isinstance(content, list) and all(isinstance(token, int) for token in content):
            return Piece(content)
        raise ConfigError(
            f"{type(self).__name__}, pattern {self.pattern_id}, example {example.guid}: the part {content!r} is not "
            "a text, a list of token ids or a number of prompt tokens"
        )

    def _special(self, *, pair: bool) -> SpecialTokens:
        if pair not in self._special_tokens:
            self._special_tokens[pair] = SpecialTokens.of(self.tokenizer, pair=pair)
        return self._special_tokens[pair]

    def _mask_positions(self, ids: Sequence[int], example: InputExample) -> list[int]:
        """The positions of the masks; a ConfigError if there is none, or if the verbalizer cannot fill them."""
        mask_id = self.mask_id
        masks = [position for position, token in enumerate(ids) if token == mask_id]
        if not self.use_cloze:
            return masks
        location = f"{type(self).__name__}, pattern {self.pattern_id}, example {example.guid}"
        if not masks:
            raise ConfigError(f"{location}: the pattern has no mask; put [self.mask_id] where the answer belongs")
        if masks[-1] - masks[0] + 1 != len(masks):
            raise ConfigError(f"{location}: the masks are not next to each other (positions {masks})")
        if len(masks) > 1 and not self.is_multi_token:
            raise ConfigError(f"{location}: {len(masks)} masks, but the words of the verbalizer are one token; use one")
        return masks

    @staticmethod
    def _prompt_positions(special: SpecialTokens, first: Sequence[Piece], second: Sequence[Piece]) -> list[int]:
        """The positions of continuous prompt tokens in the whole input."""
        positions: list[int] = []
        start = len(special.before)
        for side in (first, second):
            for piece in side:
                if piece.is_prompt:
                    positions += range(start, start + len(piece.ids))
                start += len(piece.ids)
            start += len(special.between)
        return positions

    def _word_ids(self, word: str, label: str) -> list[int]:
        """The token ids of a label's word; a ConfigError if a part of it is not in the vocabulary."""
        ids = self.text_ids(word)
        # A part of a word that the vocabulary lacks becomes the unknown token, which is a special one.
        special = special_ids(self.tokenizer)
        if not ids or any(token in special for token in ids):
            tokens = ", ".join(self.tokenizer.convert_ids_to_tokens(ids)) or "nothing"
            raise ConfigError(
                f"{type(self).__name__}, pattern {self.pattern_id}: the word '{word}' for the label '{label}' is not "
                f"in the vocabulary (it becomes {tokens}); choose another word"
            )
        return ids

    def _word_id(self, word: str, label: str) -> int:
        """The token id of a label's word; a ConfigError if the word has several tokens or is not in the vocabulary."""
        ids = self.text_ids(word)
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        subject = f"{type(self).__name__}, pattern {self.pattern_id}: the word '{word}' for the label '{label}'"
        if len(ids) != 1:
            raise ConfigError(
                f"{subject} must be one token, but this tokenizer splits it into {len(ids)}: "
                f"{', '.join(tokens) or 'none'}; choose another word or another pattern"
            )
        if ids[0] in special_ids(self.tokenizer):
            raise ConfigError(f"{subject} is not in the vocabulary (it becomes {tokens[0]}); choose another word")
        return ids[0]


def _token_ids(pieces: Sequence[Piece]) -> list[int]:
    ids: list[int] = []
    for piece in pieces:
        ids += piece.ids
    return ids


# --- a pattern as plain text ----------------------------------------------------------------------------------------
# For models that read text instead of masks; no tokenizer is needed.

_NO_SPACE_BEFORE = tuple(".,;:?!)]}%’”")
_NO_SPACE_AFTER = ("(", "[", "{", "“", "‘")
_SENTENCE_ENDS = (".", "!", "?")
_GAP = "\0"


class NoTokenizer:
    """Takes the place of a tokenizer where only texts are needed: it has one token per word, and a mask."""

    mask_token = _GAP
    mask_token_id = 0
    sep_token = ""
    pad_token_id = 0
    unk_token_id = 0
    all_special_ids = (0,)

    def encode(self, text: str, **_: Any) -> list[int]:
        """One token per word."""
        return [1] * max(1, len(text.split()))

    def get_vocab(self) -> dict[str, int]:
        """Empty: there is no vocabulary."""
        return {}


def cloze_text(pvp: PVP, example: InputExample) -> tuple[str, str]:
    """The text before and after the answer: ``before + word + after`` is readable text."""
    first, second = pvp.get_parts(example)
    before, _, after = _joined([*first, *(second or ())]).partition(_GAP)
    return before.lstrip(), after.replace(_GAP, "").rstrip()


def _joined(parts: Sequence[Part]) -> str:
    """The parts of a pattern as one text, with spaces where a reader expects them; the masks are one gap."""
    text = ""
    # Whether a quotation mark of the pattern itself is open.
    is_quoted = False
    for part in parts:
        if isinstance(part, int) or (isinstance(part, list) and text.endswith(_GAP)):
            # Prompt tokens have no text, and several masks are one gap.
            continue
        is_literal = isinstance(part, str)
        if isinstance(part, list):
            piece = _GAP
        elif isinstance(part, tuple):
            piece = part[0].strip()
        else:
            piece = part.strip()
        if is_literal:
            piece = piece.replace('" ?', '"?')
            if piece.startswith(".") and text.rstrip().endswith(_SENTENCE_ENDS):
                # The text of the field before it already ends with such a character.
                piece = piece[1:].lstrip()
        if not piece:
            continue
        closes_quote = is_literal and is_quoted and piece.startswith('"')
        # As in "[mask]'s opinion".
        is_genitive = text.endswith(_GAP) and piece.startswith("'")
        follows_opening = text.endswith(_NO_SPACE_AFTER) or (is_quoted and text.endswith('"'))
        has_no_space = closes_quote or is_genitive or follows_opening or piece.startswith(_NO_SPACE_BEFORE)
        text += piece if not text or has_no_space else f" {piece}"
        if is_literal and piece.count('"') % 2 == 1:
            is_quoted = not is_quoted
    return text
