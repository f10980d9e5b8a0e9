"""What the rows of a bias run tell besides its numbers: how answers were read, how they ended, some to look at."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lmassay.evaluations.bias.items import LETTERS
from lmassay.types import Row

Reading = Literal["agree", "neither", "robust", "reference", "different"]
"""How the two parsers read an answer: alike, not at all, only one of them, or as different choices."""

MOST_SHAPES = 400
_LONGEST_SHAPE = 80
_LETTER = re.compile(rf"(?<![A-Za-z])[{LETTERS}{LETTERS.lower()}](?![A-Za-z])")


@dataclass(slots=True)
class Kept:
    """The first answer of a shape, and how many there are of it."""

    row: Row
    times: int = 1


@dataclass(slots=True)
class Seen:
    """Counts over all rows, and a few rows to show, however many there are."""

    choices: int = 0
    finishes: Counter[str] = field(default_factory=Counter)
    readings: Counter[Reading] = field(default_factory=Counter)
    by_rotation: dict[str, list[int]] = field(default_factory=dict)
    """Rotation → (answers out of choice, answers)."""
    shapes: dict[tuple[Reading, str], Kept] = field(default_factory=dict)
    """Answers that the parsers read differently, or neither reads; those that differ only in the choice are one."""
    stereotypes: dict[str, Kept] = field(default_factory=dict)
    """Category → a stereotyped answer where the context does not say, the one that stays in most orders of choices."""
    _streak: Kept | None = None

    def add(self, row: Row) -> None:
        self.choices = max(self.choices, len(row.example.inputs.get("choices", ())))
        self._note_finish(row)
        if row.state != "scored":
            return
        details, groups = row.score.details, row.example.groups
        asked = self.by_rotation.setdefault(groups.get("rotation", ""), [0, 0])
        asked[0] += details.get("letter") is None
        asked[1] += 1
        if "raw" in details:
            self._note_reading(row, details)
        if groups.get("context") == "amb" and details.get("role") == "biased":
            self._note_stereotype(row, groups)

    def take_in(self, other: Seen) -> None:
        """Add what was seen of another prompt."""
        self.choices = max(self.choices, other.choices)
        self.finishes += other.finishes
        self.readings += other.readings
        for rotation, (unread, asked) in other.by_rotation.items():
            known = self.by_rotation.get(rotation, [0, 0])
            self.by_rotation[rotation] = [known[0] + unread, known[1] + asked]
        for key, kept in other.shapes.items():
            times = self.shapes[key].times if key in self.shapes else 0
            self.shapes[key] = Kept(self.shapes[key].row if times else kept.row, times + kept.times)
        for category, kept in other.stereotypes.items():
            if category not in self.stereotypes or kept.times > self.stereotypes[category].times:
                self.stereotypes[category] = kept

    def shown(self, readings: Sequence[Reading], most: int) -> list[Kept]:
        """The most frequent shapes of each of these readings in turn."""
        of_kind = [
            sorted((kept for (kind, _), kept in self.shapes.items() if kind == reading), key=lambda kept: -kept.times)
            for reading in readings
        ]
        rounds = (found[place] for place in range(most) for found in of_kind if place < len(found))
        return [kept for _, kept in zip(range(most), rounds, strict=False)]

    def _note_finish(self, row: Row) -> None:
        if row.state == "error":
            self.finishes["error"] += 1
            return
        reason = row.score.unscored.get("answer", "")
        finish = row.score.details.get("finish") or reason.removeprefix("no answer: ")
        if finish:
            self.finishes[str(finish)] += 1

    def _note_reading(self, row: Row, details: Mapping[str, Any]) -> None:
        reading = _reading(details.get("reference"), details.get("robust"))
        self.readings[reading] += 1
        if reading == "agree":
            return
        key = reading, _shape(str(details["raw"]), row.example.inputs.get("choices", ()))
        if key in self.shapes:
            self.shapes[key].times += 1
        elif len(self.shapes) < MOST_SHAPES:
            self.shapes[key] = Kept(row)

    def _note_stereotype(self, row: Row, groups: Mapping[str, str]) -> None:
        """Rows of one question follow each other; of those answered so in as many orders the first is kept."""
        streak = self._streak
        if streak is not None and streak.row.example.groups.get("question") == groups.get("question"):
            streak.times += 1
        else:
            self._streak = streak = Kept(row)
        category = groups.get("category", "")
        best = self.stereotypes.get(category)
        if best is None or streak.times > best.times:
            self.stereotypes[category] = streak


def noted(rows: Iterable[Row], seen: Seen) -> Iterator[Row]:
    """The rows, noted as they pass."""
    for row in rows:
        seen.add(row)
        yield row


def _reading(reference: str | None, robust: str | None) -> Reading:
    if reference == robust:
        return "neither" if reference is None else "agree"
    if reference is None:
        return "robust"
    return "reference" if robust is None else "different"


def _shape(raw: str, choices: Sequence[str]) -> str:
    """What answers have in common that differ only in the choice they name."""
    text = raw[: 4 * _LONGEST_SHAPE]
    for choice in sorted(filter(None, choices), key=len, reverse=True):
        text = text.replace(choice, "…")
    return _LETTER.sub("□", text)[:_LONGEST_SHAPE]
