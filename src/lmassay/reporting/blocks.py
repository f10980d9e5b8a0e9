"""What a section of the page is made of: tables, figures, notes, examples. The template knows how each is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeVar

from markupsafe import Markup

from lmassay.reporting.numbers import interval_text, value_text
from lmassay.types import Result

ABSENT = "not measured"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """A text, lines in small print below it, and how it is set; ``edge`` begins a group of columns."""

    text: str
    small: Sequence[str] = ()
    kind: Literal["name", "text", "num"] = "num"
    span: int = 1
    edge: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table. A ``part`` stands under the line before it, a ``total`` sums up."""

    cells: Sequence[Cell]
    kind: Literal["plain", "total", "head", "part"] = "plain"


@dataclass(frozen=True, slots=True)
class Body:
    """Rows that belong together.

    If ``folds``, all but the first are shown when the first is opened; if ``apart``, LaTeX draws a rule above them.
    """

    lines: Sequence[TableRow]
    folds: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under one or more rows of headings; a ``dense`` one has many columns."""

    kind: ClassVar[str] = "table"
    caption: str
    heads: Sequence[Sequence[Cell]]
    bodies: Sequence[Body]
    dense: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing and the sentence under it."""

    drawing: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Drawings side by side where there is room: ``small`` ones three in a row, ``middle`` two, ``wide`` one."""

    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]
    size: Literal["small", "middle", "wide"] = "small"


@dataclass(frozen=True, slots=True)
class Note:
    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    kind: ClassVar[str] = "heading"
    text: str


@dataclass(frozen=True, slots=True)
class DisplayedExample:
    """One example as the page shows it."""

    id: str
    scores: str
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Examples:
    kind: ClassVar[str] = "examples"
    summary: str
    examples: Sequence[DisplayedExample]


@dataclass(frozen=True, slots=True)
class Folded:
    """What only some readers want to see."""

    kind: ClassVar[str] = "folded"
    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class TileEntry:
    """What a tile says of one model: a number with its interval, or why there is none."""

    model: str
    value: str = ""
    interval: str = ""
    scope: str = ""
    beside: Sequence[str] = ()
    reason: str = ""
    drawing: Markup = field(default_factory=Markup)


@dataclass(frozen=True, slots=True)
class Tile:
    """One question with its answer in short; ``anchor`` is the section that tells more."""

    question: str
    title: str
    lines: Sequence[TileEntry]
    meaning: str
    limits: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Tiles:
    kind: ClassVar[str] = "tiles"
    tiles: Sequence[Tile]


Block = Table | Figures | Note | Heading | Examples | Folded | Tiles


@dataclass(frozen=True, slots=True)
class Section:
    """All that a task has to show: ``blocks`` before the comparison of runs, ``examples`` behind it."""

    blocks: Sequence[Block]
    examples: Sequence[Examples] = ()
    compared: Sequence[str] | None = None
    """The metrics that runs are compared by; None leaves it to the task's headline, none at all to the section."""
    comparison_note: str = ""
    tells_errors: bool = False
    """True where the section itself lists the examples in error."""


def name(text: str, *small: str) -> Cell:
    return Cell(text, small, "name")


def count(number: int | None) -> Cell:
    return Cell("" if number is None else f"{number:,}")


def measured(result: Result | None, digits: int = 4, *small: str, edge: bool = False) -> Cell:
    """A result with its interval below, and more small print where there is any."""
    if result is None:
        return Cell("", (ABSENT,), edge=edge)
    if result.value is None:
        return Cell(value_text(result), edge=edge)
    return Cell(value_text(result, digits), (interval_text(result, digits), *small), edge=edge)


def in_short(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def overlapping(items: Sequence[T], names: Callable[[T], Sequence[str]]) -> list[tuple[list[str], list[T]]]:
    """Items that have names in common, each group with all names of its members in order of appearance."""
    found: list[tuple[list[str], list[T]]] = []
    for item in items:
        for known, members in found:
            if not set(known).isdisjoint(names(item)):
                known += [new for new in names(item) if new not in known]
                members.append(item)
                break
        else:
            found.append((list(names(item)), [item]))
    return found
