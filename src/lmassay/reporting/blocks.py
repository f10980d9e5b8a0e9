"""The blocks of a report: tables, figures, notes, examples, tiles.

An evaluation describes its section of a report in these blocks. The page (``templates/blocks.html``) and the formats
(`lmassay.reporting.formats`) know how to write each of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import ClassVar, Literal, TypeVar

from markupsafe import Markup

from lmassay.reporting.chart import Chart
from lmassay.reporting.numbers import interval_text, value_text
from lmassay.types import Result

ABSENT = "not measured"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: a text with lines of small print below it.

    ``kind`` is what the cell holds: the name of its row, a text, or a number. ``span`` is the number of columns that it
    covers. ``edge`` draws a line to the left of the cell, where a group of columns begins. ``bold`` emphasizes the
    text. ``link`` is the place on the page to which the text links, such as ``#examples``. ``warns`` marks what a
    reader should look at, such as a number of errors.
    """

    text: str
    small: Sequence[str] = ()
    kind: Literal["name", "text", "num"] = "num"
    span: int = 1
    edge: bool = False
    bold: bool = False
    link: str = ""
    warns: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table: a ``part`` belongs to the row above it, a ``total`` sums up, a ``head`` begins a group."""

    cells: Sequence[Cell]
    kind: Literal["plain", "total", "head", "part"] = "plain"


@dataclass(frozen=True, slots=True)
class Body:
    """Rows that belong together.

    If ``folds``, the page shows only the first row, and readers open it to see the others. If ``apart``, LaTeX draws a
    rule above the rows.
    """

    rows: Sequence[TableRow]
    folds: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table with one or more header rows; a ``dense`` table has narrower columns."""

    kind: ClassVar[str] = "table"
    caption: str
    headers: Sequence[Sequence[Cell]]
    bodies: Sequence[Body]
    dense: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing and the sentence under it.

    A figure made with ``Figure.of(chart, caption)`` keeps its chart, which can be laid out again for the width of a
    paper's column. A figure that has only a drawing is scaled to that width instead.
    """

    drawing: Markup
    caption: str
    chart: Chart | None = None

    @classmethod
    def of(cls, chart: Chart, caption: str) -> Figure:
        """Draw a chart and return it as a figure."""
        return cls(chart.svg(), caption, chart)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures side by side if there is room: three ``small`` ones in a row, two ``middle`` ones or one ``wide`` one."""

    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]
    size: Literal["small", "middle", "wide"] = "small"


@dataclass(frozen=True, slots=True)
class Note:
    """A paragraph of text."""

    kind: ClassVar[str] = "note"
    text: str
    explains_figures: bool = False
    """Whether it only explains the figures after it. Reports without these figures leave it out."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within the section. On the page, what follows is closed until readers open it, unless ``is_open``."""

    kind: ClassVar[str] = "heading"
    text: str
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class DisplayedExample:
    """An example of a list in the report: a line of facts such as its scores, and its texts as (name, text)."""

    id: str
    scores: str
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples that a reader can open."""

    kind: ClassVar[str] = "examples"
    summary: str
    examples: Sequence[DisplayedExample]


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are hidden until the reader opens them."""

    kind: ClassVar[str] = "folded"
    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class TileEntry:
    """The number of one model on a tile, with its interval; or the ``reason`` why there is no number.

    ``scope`` says what the number was computed from, such as ``120 examples``. ``details`` are further numbers and
    facts.
    """

    model: str
    value: str = ""
    interval: str = ""
    scope: str = ""
    details: Sequence[str] = ()
    reason: str = ""
    drawing: Markup = field(default_factory=Markup)


@dataclass(frozen=True, slots=True)
class ReferenceList:
    """Numbers to compare with, best first; ``rows`` are (label, value, whether it is a number of these runs)."""

    title: str
    rows: Sequence[tuple[str, str, bool]]
    sources: str


@dataclass(frozen=True, slots=True)
class Tile:
    """A question with its short answer for each model; ``anchor`` is the id of the section with the details.

    ``distinguishable`` is a sentence that says how far two models must differ to be distinguished. ``further`` are
    tiles with other numbers for the same question, shown below the first number.
    """

    question: str
    title: str
    entries: Sequence[TileEntry]
    meaning: str
    limits: str
    anchor: str
    references: Sequence[ReferenceList] = ()
    distinguishable: str = ""
    further: Sequence[Tile] = ()


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of an overview."""

    kind: ClassVar[str] = "tiles"
    tiles: Sequence[Tile]


# Formats match on these types; a new one needs a branch in each of them and in templates/blocks.html.
Block = Table | Figures | Note | Heading | Examples | Folded | Tiles


@dataclass(frozen=True, slots=True)
class Section:
    """The section of a task: ``blocks`` come before the comparison of runs, ``examples`` after it."""

    blocks: Sequence[Block]
    examples: Sequence[Examples] = ()
    compared: Sequence[str] | None = None
    """The metrics by which the report compares the runs; None stands for the task's headline metrics.

    Empty if the report should not compare the runs, because the section does it itself.
    """
    comparison_note: str = ""
    lists_errors: bool = False
    """Whether the section lists the examples with errors itself; otherwise the report does."""
    tells_errors: InitVar[bool] = False
    """The old name of ``lists_errors``."""

    def __post_init__(self, tells_errors: bool) -> None:
        """Accept the old name of ``lists_errors``."""
        if tells_errors:
            warnings.warn("Section(tells_errors=…) is deprecated; use lists_errors=…", DeprecationWarning, stacklevel=3)
            # The class is frozen, so the field cannot be assigned in the usual way.
            object.__setattr__(self, "lists_errors", True)


def name(text: str, *small: str) -> Cell:
    """Return the cell that names a row, with lines in small print below the name."""
    return Cell(text, small, "name")


def text_cell(text: str, *small: str) -> Cell:
    """Return a cell of text; empty lines of small print are left out."""
    return Cell(text, [line for line in small if line], kind="text")


def count(number: int | None) -> Cell:
    """Return a cell with a number of things; empty if the number is not known."""
    return Cell("" if number is None else f"{number:,}")


def measured(result: Result | None, digits: int = 4, *small: str, edge: bool = False) -> Cell:
    """Return the cell of a result, with its interval and then the lines of ``small`` in small print."""
    if result is None:
        # The run has no result of this metric, which is not the same as a result without a value.
        return Cell("", (ABSENT,), edge=edge)
    if result.value is None:
        return Cell(value_text(result), edge=edge)
    return Cell(value_text(result, digits), (interval_text(result, digits), *small), edge=edge)


def header_row(text_titles: Sequence[str], number_titles: Sequence[str] = ()) -> list[Cell]:
    """Return a header row: first the titles of text columns, then those of number columns."""
    cells = [Cell(title, kind="text") for title in text_titles]
    cells += [Cell(title) for title in number_titles]
    return cells


def in_short(names: Sequence[str]) -> str:
    """Return the first of several names and the number of the others: ``syntax and 2 more``."""
    if len(names) == 1:
        return names[0]
    return f"{names[0]} and {len(names) - 1} more"


def overlapping(items: Sequence[T], names: Callable[[T], Sequence[str]]) -> list[tuple[list[str], list[T]]]:
    """Group items that have names in common; each group has all names of its members in order of appearance.

    An item joins the first group that has one of its names. Two groups stay apart if a later item has names of both.
    """
    groups: list[tuple[list[str], list[T]]] = []
    for item in items:
        item_names = names(item)
        for group_names, members in groups:
            if set(group_names).isdisjoint(item_names):
                continue
            # += changes the list in place, and the list is part of the group.
            group_names += [new for new in item_names if new not in group_names]
            members.append(item)
            break
        else:
            groups.append((list(item_names), [item]))
    return groups
