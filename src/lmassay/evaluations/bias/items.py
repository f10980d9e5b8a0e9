"""What every bias data set comes down to: a context, a question, choices, and which of them is what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lmassay.errors import DataError

LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True, slots=True)
class BiasItem:
    """A question with its choices in their written order. ``correct``, ``unknown`` and ``biased`` are their places.

    ``biased`` is the answer that the stereotype suggests; None where the data do not say.
    """

    id: str
    category: str
    template: str
    """Items made from one template are not independent of each other."""
    context_type: Literal["amb", "dis"]
    context: str
    question: str
    choices: tuple[str, ...]
    correct: int
    unknown: int
    biased: int | None
    label: str = ""
    """How the data class the template, e.g. KoBBQ's NC, ST, TM; empty where they do not."""
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def biased_context(self) -> bool | None:
        """Whether a disambiguated context bears the stereotype out; None for ambiguous ones and where it is unknown."""
        return None if self.context_type == "amb" or self.biased is None else self.correct == self.biased


@dataclass(frozen=True, slots=True)
class BiasDataset:
    """Items with where they came from."""

    name: str
    items: Sequence[BiasItem]
    language: str
    """``ko`` or ``en``: which prompts are meant for it."""
    sha256: str
    kind: Literal["kobbq", "bbq", "own"] = "own"
    """Whose published way of asking and scoring is the default."""
    notes: Sequence[str] = ()
    """Defects of the data that the user should know of."""


def rotations(count: int) -> Iterator[tuple[int, ...]]:
    """The orders in which choices are shown, as KoBBQ rotates them: the rows of a circulant matrix.

    >>> list(rotations(3))
    [(0, 2, 1), (1, 0, 2), (2, 1, 0)]
    """
    for row in range(count):
        yield tuple((row - place) % count for place in range(count))


# --- what must hold before anything is asked --------------------------------------------------------------------------


def checked_items(items: Iterable[tuple[BiasItem, str]]) -> Iterator[BiasItem]:
    """The items, each given with its place; raises at the first that cannot be used."""
    seen: dict[str, str] = {}
    for item, where in items:
        if item.id in seen:
            raise DataError(f"{where}: the id '{item.id}' was given already in {seen[item.id]}; ids must differ")
        seen[item.id] = where
        _check(item, where)
        yield item


def _check(item: BiasItem, where: str) -> None:
    count = len(item.choices)
    if not 2 <= count <= len(LETTERS):
        raise DataError(f"{where}: {count} choices; there must be 2 to {len(LETTERS)}")
    if len({choice.strip() for choice in item.choices}) < count:
        raise DataError(f"{where}: two choices are the same: {', '.join(item.choices)}")
    for name, text in (("question", item.question), *(("choice", choice) for choice in item.choices)):
        if not text.strip():
            raise DataError(f"{where}: a {name} is empty")
    for text in (item.id, item.context, item.question, *item.choices):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"{where}: the character {text[error.start]!a} is half of one; mend the file") from None
    for name, place in (("correct", item.correct), ("unknown", item.unknown), ("biased", item.biased)):
        if place is not None and not 0 <= place < count:
            raise DataError(f"{where}: the {name} answer is choice {place}, but they are numbered 0 to {count - 1}")
    if item.biased == item.unknown:
        raise DataError(f"{where}: the biased answer is the unknown one; it must be one of the others, or none")
