"""A report as Markdown, with tables in the syntax of GitHub, which most other programs read, too."""

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
from lmassay.reporting.formats.content import Chapter, Pictures, without_missing_figures

# Markup inside a line. An underscore between letters or digits emphasizes nothing, so it is not escaped. After "]", one
# of "[", "(" and ":" would make a link or its target; "&" matters only where it begins an entity such as "&lt;".
_SPECIAL = re.compile(r"[\\`*<>|~$]|(?<![^\W_])_|_(?![^\W_])|(?<=\])[\[(:]|&(?=#?\w+;)")
# At the beginning of a line these start a list, a heading, a rule, a quote or the target of a link.
_LINE_START = re.compile(r"([-+=#\[]|\d+[.)])")
# Characters that change the writing direction would also affect the text around them.
_DIRECTION_CHANGES = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def markdown(chapters: Sequence[Chapter], pictures: Pictures | None = None) -> str:
    """Return the report as a document with one heading per chapter.

    ``pictures`` has the files of figures; a figure without a file is left out.
    """
    return f"# lmassay report\n\nWritten by lmassay {lmassay.__version__}.\n\n{body(chapters, pictures)}"


def body(chapters: Sequence[Chapter], pictures: Pictures | None = None) -> str:
    """Return the chapters without the heading of the document."""
    parts = []
    for chapter in chapters:
        parts.append(f"## {escape(chapter.title)}")
        for block in without_missing_figures(chapter.blocks, pictures or {}):
            parts += _block(block, pictures or {})
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return a text in one line, escaped so that it contains no Markdown markup.

    >>> print(escape("a|b *c* s_src _d_ [x](y) 1 < 2"))
    a\\|b \\*c\\* s_src \\_d\\_ [x]\\(y) 1 \\< 2
    """
    characters = []
    for character in text:
        if unicodedata.category(character) in ("Cc", "Zl", "Zp"):
            # Control characters and line ends.
            characters.append(" ")
        elif unicodedata.bidirectional(character) not in _DIRECTION_CHANGES:
            characters.append(character)
    one_line = " ".join("".join(characters).split())
    return _SPECIAL.sub(r"\\\g<0>", one_line)


def _paragraph(text: str) -> str:
    escaped = escape(text)
    start = _LINE_START.match(escaped)
    if start is None:
        return escaped
    # The backslash comes before the last character: "1." becomes "1\.".
    marker = start[0]
    return f"{marker[:-1]}\\{marker[-1]}{escaped[len(marker) :]}"


def _block(block: Block, pictures: Pictures) -> Iterator[str]:
    match block:
        case Table():
            yield _table(block)
            if block.caption:
                yield _paragraph(block.caption)
        case Figures():
            for figure in block.figures:
                yield from _figure(figure, pictures)
        case Note():
            yield _paragraph(block.text)
        case Heading():
            yield f"### {escape(block.text)}"
        case Folded():
            inner: list[str] = []
            for part in block.blocks:
                inner += _block(part, pictures)
            if inner:
                yield f"<details><summary>{html.escape(' '.join(block.summary.split()))}</summary>"
                yield from inner
                yield "</details>"
        case Examples() | Tiles():
            # Examples are on the page and in `lmassay export`; a table takes the place of tiles.
            return


def _figure(figure: Figure, pictures: Pictures) -> Iterator[str]:
    picture = pictures.get(figure.drawing)
    if picture is None:
        return
    # A bracket would end the description of the picture.
    description = re.sub(r"(?<!\\)[\[\]]", r"\\\g<0>", escape(picture.title))
    yield f"![{description}]({urllib.parse.quote(picture.path)})"
    if figure.caption:
        yield _paragraph(figure.caption)


def table_text(table: Table) -> str:
    """Return one table with its caption, without a document around it."""
    return "\n\n".join(_block(table, {})) + "\n"


def _table(table: Table) -> str:
    # Markdown has only one header row, so the titles of several header rows are joined, column by column.
    column_count = 0
    for header in table.headers:
        column_count = max(column_count, sum(cell.span for cell in header))
    titles: list[list[str]] = [[] for _ in range(column_count)]
    for header in table.headers:
        for column, cell in enumerate(_spread(header, column_count)):
            if cell.text:
                titles[column].append(escape(cell.text))
    alignments = []
    if table.headers:
        for cell in _spread(table.headers[-1], column_count):
            is_number = cell.kind == "num"
            alignments.append("---:" if is_number else "---")
    joined_titles = ["<br>".join(title) for title in titles]
    lines = [_line(joined_titles), _line(alignments)]
    for table_body in table.bodies:
        for row in table_body.rows:
            lines.append(_line(_cell_texts(row, column_count)))
    return "\n".join(lines)


def _cell_texts(row: TableRow, column_count: int) -> list[str]:
    texts = []
    for column, cell in enumerate(_spread(row.cells, column_count)):
        text = escape(cell.text)
        if text and (cell.bold or row.kind in ("total", "head")):
            text = f"**{text}**"
        if column == 0 and row.kind == "part":
            text = f"– {text}"
        parts = [text, *(escape(line) for line in cell.small)]
        texts.append("<br>".join(part for part in parts if part))
    return texts


def _spread(cells: Sequence[Cell], column_count: int) -> list[Cell]:
    """Return a cell for every column: a cell that spans several columns is repeated."""
    spread: list[Cell] = []
    for cell in cells:
        spread += [cell] * cell.span
    spread += [Cell("")] * (column_count - len(spread))
    return spread[:column_count]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
