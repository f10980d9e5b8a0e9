"""The notation of patterns, and pattern-verbalizer pairs (PVPs) whose patterns are in tables.

A pattern turns an example into the text that a model reads, with a mask for the answer. In the notation:

- ``|`` separates parts, each of which is tokenized on its own.
- ``||`` separates the two sides of an input (BERT's two segments).
- ``{x}`` is the field x of the example. A part that consists of it alone may be shortened.
- ``{x!}`` is a field that is never shortened.
- ``[M]`` is the mask. If an answer has several tokens, it stands for as many masks.
- ``<2>`` stands for two continuous prompt tokens, whose vectors P-tuning learns.

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
    """A pattern, divided into the parts of both sides of the input."""

    sides: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of both sides."""
        return self.sides[0] + self.sides[1]

    @property
    def slots(self) -> int:
        """How many continuous prompt tokens it has."""
        slots = 0
        for part in self.parts:
            match = _SLOTS.fullmatch(part)
            if match is not None:
                slots += int(match[1])
        return slots

    @property
    def masks(self) -> int:
        """How many masks it has."""
        return sum(part == _MASK for part in self.parts)

    @property
    def fields(self) -> set[str]:
        """The names of the fields in its braces."""
        names = set()
        for part in self.parts:
            names |= {name for name, _ in _FIELD.findall(part)}
        return names

    def fill(self, fields: Mapping[str, str], masks: list[int]) -> PVPOutputPattern:
        """The parts of both sides with an example's fields and mask tokens, as ``PVP.get_parts`` returns them."""
        first, second = self.sides
        first_parts = [_filled(part, fields, masks) for part in first]
        second_parts = [_filled(part, fields, masks) for part in second]
        return first_parts, second_parts


@functools.cache
def pattern(text: str) -> Pattern:
    """Parse a text in the notation."""
    first, _, second = text.partition("||")
    first_parts = tuple(first.split("|"))
    second_parts: tuple[str, ...] = ()
    if second:
        second_parts = tuple(second.split("|"))
    return Pattern((first_parts, second_parts))


def notation(text: str) -> str:
    """Convert a pattern as users write it to the notation: fields, mask and prompt tokens become separate parts.

    >>> notation('Does "{a}" mean the same as "{b}"? [mask].')
    'Does "|{a}|" mean the same as "|{b}|"?|[M]|.'
    >>> notation("A: {premise}? B: [mask], {hypothesis}")
    '{premise}|?||[M]|,|{hypothesis}'
    """
    text = re.sub(r"\[mask\]", _MASK, text.strip(), flags=re.IGNORECASE)
    sides = _SIDES.fullmatch(text)
    if sides is not None:
        return f"{notation(sides[1])}||{notation(sides[2])}"
    if "|" in text:
        # It is in the notation already.
        return text
    pieces = [piece.strip() for piece in _PIECES.split(text)]
    return "|".join(piece for piece in pieces if piece)


def _filled(part: str, fields: Mapping[str, str], masks: list[int]) -> Part:
    """A part with its fields filled in, as ``PVP.get_parts`` returns it."""
    if part == _MASK:
        return masks
    slots = _SLOTS.fullmatch(part)
    if slots is not None:
        return int(slots[1])
    field = _FIELD.fullmatch(part)
    if field is not None and not field[2]:
        # A field on its own, without "!", may be shortened.
        return fields[field[1]], True
    return _FIELD.sub(lambda match: fields[match[1]], part)


def slotted(text: str, counts: Mapping[int, tuple[int, ...]]) -> dict[int, str]:
    """The patterns of P-tuning, which differ only in their numbers of continuous prompt tokens.

    ``counts`` says for each pattern id how many there are at ``<a>``, ``<b>`` and ``<c>`` of the text.

    >>> slotted("{text}|<a>|[M]|<b>", {3: (1, 2)})
    {3: '{text}|<1>|[M]|<2>'}
    """
    patterns = {}
    for number, counts_of_slots in counts.items():
        filled = text
        for letter, count in zip("abc", counts_of_slots, strict=False):
            filled = filled.replace(f"<{letter}>", f"<{count}>")
        patterns[number] = filled
    return patterns


class TablePVP(PVP):
    """A PVP whose patterns and words are in tables."""

    PATTERNS: ClassVar[Mapping[Mode, Mapping[int, str]]] = {}
    """Mode → pattern id → the pattern in the notation."""
    WORDS: ClassVar[Mapping[Mode, Mapping[int, Words]]] = {}
    """Mode → pattern id → label → words."""

    @abstractmethod
    def fields(self, example: InputExample) -> dict[str, str]:
        """The texts of an example, by the names that patterns have in braces."""

    def mask_count(self, example: InputExample) -> int:
        """How many masks the answer needs."""
        return 1

    def available_patterns(self) -> list[int]:
        """The ids of the patterns that the table has in this mode."""
        return list(self.PATTERNS.get(self.mode, {}))

    @property
    def pattern(self) -> Pattern:
        """The pattern with the id ``pattern_id``; a ConfigError if there is none."""
        patterns = self.PATTERNS.get(self.mode, {})
        if self.pattern_id not in patterns:
            raise missing_pattern(type(self).__name__, self.mode, self.pattern_id, list(patterns))
        return pattern(patterns[self.pattern_id])

    @property
    def prompt_length(self) -> int:
        """The number of continuous prompt tokens."""
        return self.pattern.slots

    def get_parts(self, example: InputExample) -> PVPOutputPattern:
        """The pattern with the fields of the example."""
        try:
            fields = self.fields(example)
            masks = [self.mask_id] * self.mask_count(example) if self.use_cloze else []
        except (KeyError, AttributeError, TypeError) as error:
            raise DataError(f"{example.guid}: this is not an example of {type(self).__name__}: {error!r}") from None
        return self.pattern.fill(fields, masks)

    def verbalize(self, label: str) -> Sequence[str]:
        """The words of the table; empty if the pattern has no mask, and for tasks whose answers are texts."""
        if not self.use_cloze or self.is_multi_token:
            return []
        return self.WORDS[self.mode][self.pattern_id][label]


def missing_pattern(name: str, mode: Mode, number: int, available: Sequence[int]) -> ConfigError:
    """The error for a pattern that a task does not have."""
    existing = "it has none in this mode"
    if available:
        existing = f"it has {', '.join(map(str, available))}"
    return ConfigError(f"{name} has no {mode} pattern {number}; {existing}")
