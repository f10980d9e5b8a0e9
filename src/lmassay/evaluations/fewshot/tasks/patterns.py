"""The notation of patterns, and PVPs that are tables of them.

Parts are separated by ``|`` (each is tokenised on its own) and the two sides of an input by ``||``. ``{x}`` is a field
that may be shortened, ``{x!}`` one that may not (also inside other text), ``[M]`` the mask or as many masks as the
answer has tokens, ``<2>`` two continuous prompt tokens.

>>> pattern('{premise}|Question:|{hypothesis}|?|<1>|[M]').slots
1
"""

from __future__ import annotations

import functools
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.pvp import PVP, Mode, Part, PVPOutputPattern

Label = str
Words = Mapping[Label, Sequence[str]]
_FIELD = re.compile(r"\{([^{}!]+)(!?)\}")
_SLOTS = re.compile(r"<(\d+)>")
_MASK = "[M]"
_PIECES = re.compile(r"(\{[^{}]+\}|\[M\]|<\d+>)")
_SIDES = re.compile(r"A:\s*(.+?)\s+B:\s*(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, taken apart."""

    sides: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def parts(self) -> tuple[str, ...]:
        return self.sides[0] + self.sides[1]

    @property
    def slots(self) -> int:
        """How many continuous prompt tokens it has."""
        return sum(int(found[1]) for part in self.parts if (found := _SLOTS.fullmatch(part)))

    @property
    def masks(self) -> int:
        """How many places for an answer it has."""
        return sum(part == _MASK for part in self.parts)

    @property
    def fields(self) -> set[str]:
        return {name for part in self.parts for name, _ in _FIELD.findall(part)}

    def fill(self, fields: Mapping[str, str], masks: list[int]) -> PVPOutputPattern:
        """The parts of an input."""
        first, second = ([_filled(part, fields, masks) for part in side] for side in self.sides)
        return first, second


@functools.cache
def pattern(text: str) -> Pattern:
    """Read the notation."""
    first, _, second = text.partition("||")
    return Pattern((tuple(first.split("|")), tuple(second.split("|")) if second else ()))


def notation(text: str) -> str:
    """A pattern as people write it, in the notation: fields, mask and prompt tokens part what stands between them.

    >>> notation('Does "{a}" mean the same as "{b}"? [mask].')
    'Does "|{a}|" mean the same as "|{b}|"?|[M]|.'
    >>> notation("A: {premise}? B: [mask], {hypothesis}")
    '{premise}|?||[M]|,|{hypothesis}'
    """
    text = re.sub(r"\[mask\]", _MASK, text.strip(), flags=re.IGNORECASE)
    if sides := _SIDES.fullmatch(text):
        return f"{notation(sides[1])}||{notation(sides[2])}"
    if "|" in text:
        return text
    return "|".join(piece.strip() for piece in _PIECES.split(text) if piece.strip())


def _filled(part: str, fields: Mapping[str, str], masks: list[int]) -> Part:
    if part == _MASK:
        return masks
    if slots := _SLOTS.fullmatch(part):
        return int(slots[1])
    if (field := _FIELD.fullmatch(part)) and not field[2]:
        return fields[field[1]], True
    return _FIELD.sub(lambda found: fields[found[1]], part)


def slotted(text: str, counts: Mapping[int, tuple[int, ...]]) -> dict[int, str]:
    """P-tuning's series: pattern id → the pattern with that many prompt tokens at the places ``<a>``, ``<b>``, ``<c>``.

    >>> slotted("{text}|<a>|[M]|<b>", {3: (1, 2)})
    {3: '{text}|<1>|[M]|<2>'}
    """
    found = {}
    for number, shares in counts.items():
        filled = text
        for letter, share in zip("abc", shares, strict=False):
            filled = filled.replace(f"<{letter}>", f"<{share}>")
        found[number] = filled
    return found


class TablePVP(PVP):
    """A PVP whose patterns are strings and whose words stand in a table."""

    PATTERNS: ClassVar[Mapping[Mode, Mapping[int, str]]] = {}
    WORDS: ClassVar[Mapping[Mode, Mapping[int, Words]]] = {}

    @abstractmethod
    def fields(self, example: InputExample) -> dict[str, str]:
        """What stands for the names in braces."""

    def mask_count(self, example: InputExample) -> int:
        """How many masks the answer needs."""
        return 1

    def available_patterns(self) -> list[int]:
        return list(self.PATTERNS.get(self.mode, {}))

    @property
    def pattern(self) -> Pattern:
        known = self.PATTERNS.get(self.mode, {})
        if self.pattern_id not in known:
            raise missing_pattern(type(self).__name__, self.mode, self.pattern_id, list(known))
        return pattern(known[self.pattern_id])

    @property
    def prompt_length(self) -> int:
        return self.pattern.slots

    def get_parts(self, example: InputExample) -> PVPOutputPattern:
        try:
            fields = self.fields(example)
            masks = [self.mask_id] * self.mask_count(example) if self.use_cloze else []
        except (KeyError, AttributeError, TypeError) as error:
            raise DataError(f"{example.guid}: this is no example of {type(self).__name__}: {error!r}") from None
        return self.pattern.fill(fields, masks)

    def verbalize(self, label: str) -> Sequence[str]:
        if not self.use_cloze or self.is_multi_token:
            return []
        return self.WORDS[self.mode][self.pattern_id][label]


def missing_pattern(name: str, mode: Mode, number: int, known: Sequence[int]) -> ConfigError:
    offered = f"it has {', '.join(map(str, known))}" if known else "it has none in this mode"
    return ConfigError(f"{name} has no {mode} pattern {number}; {offered}")
