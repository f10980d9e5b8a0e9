"""A report as Markdown, with tables as GitHub and most others read them."""

from __future__ import annotations

import html
import re
import unicodedata
import urllib.parse
from collections.abc import Iterator, Sequence

import lmassay
from lmassay.reporting.blocks import (
    Block,
    Cell,
    Examples,
    Figure,
    Figures,
    Folded,
    Heading,
    Note,
    Table,
    TableRow,
    Tiles,
)
from lmassay.reporting.formats.content import Chapter, Pictures

# An underscore between letters or digits emphasizes nothing.
_SPECIAL = re.compile(r"[\\`*<>|~$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])[\[(:]|&(?=#?\w+;)")
# Read as a list, a heading, a rule, a quote, a link's target at the beginning of a line.
_BEGINNING = re.compile(r"([-+=#\[]|\d+[.)])")


def markdown(chapters: Sequence[Chapter], pictures: Pictures | None = None) -> str:
    """One heading a chapter; figures only where there are files to show."""
    return f"# lmassay report\n\nWritten by lmassay {lmassay.__version__}.\n\n{body(chapters, pictures)}"


def body(chapters: Sequence[Chapter], pictures: Pictures | None = None) -> str:
    """The chapters alone."""
    parts = []
    for chapter in chapters:
        parts.append(f"## {escape(chapter.title)}")
        parts += [text for block in chapter.blocks for text in _block(block, pictures or {})]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Text that Markdown leaves as it is, in one line.

    >>> print(escape("a|b *c* s_src _d_ [x](y) 1 < 2"))
    a\\|b \\*c\\* s_src \\_d\\_ [x]\\(y) 1 \\< 2
    """
    # Signs that turn the direction of writing would reach beyond the text they stand in.
    shown = "".join(" " if unicodedata.category(sign) in ("Cc", "Zl", "Zp") else sign for sign in text)
    shown = "".join(sign for sign in shown if unicodedata.bidirectional(sign) not in _TURNING)
    return _SPECIAL.sub(r"\\\g<0>", " ".join(shown.split()))


_TURNING = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def _paragraph(text: str) -> str:
    shown = escape(text)
    return _BEGINNING.sub(_held, shown, count=1) if _BEGINNING.match(shown) else shown


def _held(found: re.Match[str]) -> str:
    """The sign that would begin something, as a sign: ``1.`` is held before its dot."""
    return f"{found[0][:-1]}\\{found[0][-1]}"


def _block(block: Block, pictures: Pictures) -> Iterator[str]:
    match block:
        case Table():
            yield _table(block)
            if block.caption:
                yield _paragraph(block.caption)
        case Figures():
            yield from (text for figure in block.figures for text in _figure(figure, pictures))
        case Note():
            yield _paragraph(block.text)
        case Heading():
            yield f"### {escape(block.text)}"
        case Folded():
            inner = [text for part in block.blocks for text in _block(part, pictures)]
            if inner:
                yield f"<details><summary>{html.escape(' '.join(block.summary.split()))}</summary>"
                yield from inner
                yield "</details>"
        case Examples() | Tiles():
            # Texts to read are on the page, and all of them come by `lmassay export`; a table stands for tiles.
            return


def _figure(figure: Figure, pictures: Pictures) -> Iterator[str]:
    if picture := pictures.get(figure.drawing):
        told = re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", escape(picture.title))
        yield f"![{told}]({urllib.parse.quote(picture.path)})"
        if figure.caption:
            yield _paragraph(figure.caption)


def _table(table: Table) -> str:
    columns = max((sum(cell.span for cell in row) for row in table.heads), default=0)
    heads = [_spread(row, columns) for row in table.heads]
    titles = [[escape(row[place].text) for row in heads] for place in range(columns)]
    kinds = [cell.kind for cell in heads[-1]] if heads else []
    lines = [
        _row(["<br>".join(filter(None, title)) for title in titles]),
        _row(["---:" if kind == "num" else "---" for kind in kinds]),
    ]
    lines += [_row(_cells(line, columns)) for body in table.bodies for line in body.lines]
    return "\n".join(lines)


def _cells(line: TableRow, columns: int) -> list[str]:
    found = []
    for place, cell in enumerate(_spread(line.cells, columns)):
        text = escape(cell.text)
        if text and line.kind in ("total", "head"):
            text = f"**{text}**"
        if place == 0 and line.kind == "part":
            text = f"– {text}"
        found.append("<br>".join(filter(None, [text, *map(escape, cell.small)])))
    return found


def _spread(row: Sequence[Cell], columns: int) -> list[Cell]:
    """A cell for every column: those that span several are repeated."""
    cells = [cell for cell in row for _ in range(cell.span)]
    return [*cells, *[Cell("")] * (columns - len(cells))][:columns]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
