"""Patterns and verbalizers: an example becomes a text with a place for the answer, a label becomes words.

A PVP of the user's own says what the text is and what the words are, as in FewNLU::

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
Text: TypeAlias = str | tuple[str, bool]
Part: TypeAlias = str | tuple[str, bool] | list[int] | int
"""A text, a text that may be shortened, token ids (masks), or a number of continuous prompt tokens."""
PVPOutputPattern: TypeAlias = tuple[Sequence[Part], Sequence[Part]]
_AnyText = TypeVar("_AnyText", str, tuple[str, bool])

NO_MASK = -1
"""Stands at the place of the answer where a tokenizer has no mask: a network that reads on must stop before it."""


@dataclass(frozen=True, slots=True)
class EncodedText:
    """An example as token ids without padding."""

    ids: list[int]
    types: list[int]
    masks: list[int] = field(default_factory=list)
    """Positions of the mask tokens: one run."""
    prompts: list[int] = field(default_factory=list)
    """Positions of the continuous prompt tokens; their id is the size of the vocabulary."""


class _AnyMeta(dict[str, Any]):
    """Has a text for every name."""

    def __missing__(self, name: str) -> str:
        return "x"


class PVP(ABC):
    """A pattern with its verbalizer; subclasses define ``get_parts`` and ``verbalize``."""

    kind: ClassVar[Kind] = "labels"
    _is_multi_token: bool | None = False

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
        """Whether ``encode`` was asked for a training example; WSC then adds masks to the referent's."""
        self._words: CachedTokenizer | None = None
        self._frames: dict[bool, SpecialTokens] = {}
        self._prompt_id: int | None = None
        self._label_ids: list[list[int]] | None = None

    @abstractmethod
    def get_parts(self, example: InputExample) -> PVPOutputPattern:
        """The parts of the first and of the second text (an empty list for none)."""

    @abstractmethod
    def verbalize(self, label: str) -> Sequence[str]:
        """The words for a label."""

    def available_patterns(self) -> list[int]:
        """The ids that ``get_parts`` knows in this mode."""
        return [1] if self.mode == "ptuning" else [0]

    @property
    def mode(self) -> Mode:
        if not self.use_cloze:
            return "cls"
        return "ptuning" if self.use_continuous_prompt else "cloze"

    @property
    def is_multi_token(self) -> bool:
        """Whether the answer is text of any length instead of one word of the verbalizer."""
        return bool(self._is_multi_token) or self.kind != "labels"

    @property
    def prompt_length(self) -> int:
        """The number of continuous prompt tokens."""
        if self.mode != "ptuning":
            return 0
        try:
            first, second = self.get_parts(InputExample("probe-0", "x", "x", meta=_AnyMeta()))
        except Exception:  # a pattern that needs a real example is numbered by its prompt tokens, as in FewNLU
            return self.pattern_id
        return sum(part for part in (*first, *(second or ())) if isinstance(part, int))

    @property
    def mask(self) -> str:
        return str(self.tokenizer.mask_token)

    @property
    def mask_id(self) -> int:
        return NO_MASK if self.tokenizer.mask_token_id is None else int(self.tokenizer.mask_token_id)

    @staticmethod
    def shortenable(text: str) -> tuple[str, bool]:
        """The text, marked as one that may be cut at its end to fit the window."""
        return text, True

    @staticmethod
    def remove_final_punc(text: _AnyText) -> _AnyText:
        """The text without punctuation at its end."""
        if isinstance(text, tuple):
            return text[0].rstrip(string.punctuation), text[1]
        return text.rstrip(string.punctuation)

    @staticmethod
    def lowercase_first(text: _AnyText) -> _AnyText:
        """The text with a small first letter."""
        if isinstance(text, tuple):
            return text[0][:1].lower() + text[0][1:], text[1]
        return text[:1].lower() + text[1:]

    def encode(self, example: InputExample, *, training: bool | None = None) -> EncodedText:
        """Token ids of the example in this pattern, cut to ``max_seq_length``.

        ``training`` matters to WSC only; where it is not said, examples of a training file count as such (FewNLU).
        """
        self.training = "train" in example.guid if training is None else training
        first, second = (self._pieces(parts, example) for parts in self._parts(example))
        frame = self._frame(pair=bool(second))
        length = frame.size + sum(len(piece.ids) for piece in (*first, *second))
        if length > self.max_seq_length:
            left = shorten(first, second, length - self.max_seq_length)
            if left:
                raise DataError(
                    f"{example.guid}: what may not be shortened has {self.max_seq_length + left} tokens in pattern "
                    f"{self.pattern_id}, but the window has {self.max_seq_length}; raise max_seq_length or drop the "
                    f"example"
                )
        ids, types = frame.around(*([token for piece in side for token in piece.ids] for side in (first, second)))
        return EncodedText(ids, types, self._mask_positions(ids, example), self._slots(frame, first, second))

    def label_token_ids(self) -> list[list[int]]:
        """The token ids of each label's words, in the order of the labels; empty lists where a task has no words."""
        if self._label_ids is None:
            self._label_ids = [[self._word_id(word, label) for word in self.words(label)] for label in self.label_list]
        return self._label_ids

    def words(self, label: str) -> list[str]:
        """``verbalize``, with a plain message for a label it does not know."""
        try:
            words = self.verbalize(label)
        except (KeyError, IndexError):
            words = None
        if words is None:
            raise ConfigError(
                f"{type(self).__name__}: the verbalizer of pattern {self.pattern_id} has no word for the label "
                f"'{label}'; add one, or take the label out of get_labels()"
            )
        words = [words] if isinstance(words, str) else list(words)
        if not words and self.use_cloze and not self.is_multi_token:
            raise ConfigError(f"{type(self).__name__}: the label '{label}' has no words in pattern {self.pattern_id}")
        return words

    def choice_texts(self, example: InputExample) -> list[str]:
        """The texts that may stand at the masks: COPA's choices, WSC's candidate, ReCoRD's entities; else none."""
        return []

    def choices(self, example: InputExample) -> list[list[int]]:
        """The tokens of ``choice_texts``."""
        return [self.text_ids(text) for text in self.choice_texts(example)]

    def text_ids(self, text: str) -> list[int]:
        """The tokens of a text as they stand inside a pattern."""
        if self._words is None:
            self._words = CachedTokenizer.of(self.tokenizer)
        return self._words.ids(text)

    def _parts(self, example: InputExample) -> PVPOutputPattern:
        parts = self.get_parts(example)
        if parts is None:
            raise ConfigError(
                f"{type(self).__name__} has no pattern {self.pattern_id} for mode {self.mode}; it says it has "
                f"{', '.join(map(str, self.available_patterns()))}"
            )
        if not isinstance(parts, tuple) or len(parts) != 2:
            raise ConfigError(f"{type(self).__name__}: get_parts must return two lists of parts, not {parts!r}")
        return parts

    def _pieces(self, parts: Sequence[Part], example: InputExample) -> list[Piece]:
        return [self._piece(part, example) for part in parts or ()]

    def _piece(self, part: Part, example: InputExample) -> Piece:
        content, shortenable = part if isinstance(part, tuple) else (part, False)
        if isinstance(content, str):
            return Piece(self.text_ids(content), bool(shortenable))
        if isinstance(content, int) and not isinstance(content, bool):
            if self._prompt_id is None:
                self._prompt_id = len(self.tokenizer.get_vocab())
            return Piece([self._prompt_id] * content, slots=True)
        if isinstance(content, list) and all(isinstance(token, int) for token in content):
            return Piece(content)
        raise ConfigError(
            f"{type(self).__name__}, pattern {self.pattern_id}, example {example.guid}: the part {content!r} is no "
            f"text, list of token ids or number of prompt tokens"
        )

    def _frame(self, *, pair: bool) -> SpecialTokens:
        if pair not in self._frames:
            self._frames[pair] = SpecialTokens.of(self.tokenizer, pair=pair)
        return self._frames[pair]

    def _mask_positions(self, ids: Sequence[int], example: InputExample) -> list[int]:
        mask = self.mask_id
        masks = [place for place, token in enumerate(ids) if token == mask]
        if not self.use_cloze:
            return masks
        where = f"{type(self).__name__}, pattern {self.pattern_id}, example {example.guid}"
        if not masks:
            raise ConfigError(f"{where}: the pattern has no mask; put [self.mask_id] where the answer stands")
        if masks[-1] - masks[0] + 1 != len(masks):
            raise ConfigError(f"{where}: its masks stand apart (positions {masks}); they must stand side by side")
        if len(masks) > 1 and not self.is_multi_token:
            raise ConfigError(f"{where}: {len(masks)} masks, but the words of the verbalizer are one token; use one")
        return masks

    @staticmethod
    def _slots(frame: SpecialTokens, first: Sequence[Piece], second: Sequence[Piece]) -> list[int]:
        found: list[int] = []
        place = len(frame.before)
        for side in (first, second):
            for piece in side:
                if piece.slots:
                    found += range(place, place + len(piece.ids))
                place += len(piece.ids)
            place += len(frame.between)
        return found

    def _word_id(self, word: str, label: str) -> int:
        ids = self.text_ids(word)
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        what = f"{type(self).__name__}, pattern {self.pattern_id}: the word '{word}' for the label '{label}'"
        if len(ids) != 1:
            raise ConfigError(
                f"{what} must be one token, but this tokenizer makes {len(ids)} of it: {', '.join(tokens) or 'none'}; "
                f"choose another word or another pattern"
            )
        if ids[0] in special_ids(self.tokenizer):
            raise ConfigError(f"{what} is not in the vocabulary (it becomes {tokens[0]}); choose another word")
        return ids[0]


# --- a pattern as plain text ----------------------------------------------------------------------------------------
# For models that read text instead of masks; no tokenizer is needed.

_STUCK_TO_WHAT_PRECEDES = tuple(".,;:?!)]}%’”")
_STUCK_TO_WHAT_FOLLOWS = ("(", "[", "{", "“", "‘")
_ENDS = (".", "!", "?")
_GAP = "\0"


class NoTokenizer:
    """Stands in for a tokenizer where only texts are asked for: one token a word, and a mask."""

    mask_token = _GAP
    mask_token_id = 0
    sep_token = ""
    pad_token_id = 0
    unk_token_id = 0
    all_special_ids = (0,)

    def encode(self, text: str, **_: Any) -> list[int]:
        return [1] * max(1, len(text.split()))

    def get_vocab(self) -> dict[str, int]:
        return {}


def cloze_text(pvp: PVP, example: InputExample) -> tuple[str, str]:
    """What stands before and after the answer: ``before + word + after`` reads as a text."""
    first, second = pvp.get_parts(example)
    before, _, after = _joined([*first, *(second or ())]).partition(_GAP)
    return before.lstrip(), after.replace(_GAP, "").rstrip()


def _joined(parts: Sequence[Part]) -> str:
    text, quoted = "", False
    for part in parts:
        if isinstance(part, int) or (isinstance(part, list) and text.endswith(_GAP)):
            continue
        piece = _GAP if isinstance(part, list) else (part[0] if isinstance(part, tuple) else part).strip()
        literal = isinstance(part, str)
        if literal:
            piece = piece.replace('" ?', '"?')
        if literal and piece.startswith(".") and text.rstrip().endswith(_ENDS):
            piece = piece[1:].lstrip()
        if not piece:
            continue
        closes = literal and quoted and piece.startswith('"')
        genitive = text.endswith(_GAP) and piece.startswith("'")
        stuck = closes or genitive or piece.startswith(_STUCK_TO_WHAT_PRECEDES) or _opens(text, quoted)
        text += piece if not text or stuck else f" {piece}"
        if literal:
            quoted ^= piece.count('"') % 2 == 1
    return text


def _opens(text: str, quoted: bool) -> bool:
    """Whether the next text follows without a space: after a bracket, or a quotation mark that was just opened."""
    return text.endswith(_STUCK_TO_WHAT_FOLLOWS) or (quoted and text.endswith('"'))
