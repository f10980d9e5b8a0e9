"""A pattern as plain text with a gap, for models that read text instead of masks; no tokenizer needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.pvp import PVP, Part

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
