"""What every bias data set comes down to: a context, a question, choices, and which of them is what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True, slots=True)
class Item:
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
class Dataset:
    """Items with where they came from."""

    name: str
    items: Sequence[Item]
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
