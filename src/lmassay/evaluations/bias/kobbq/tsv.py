"""Read tab-separated files as KoBBQ's programs do, but with strict checks, and fast on large files.

The originals use pandas, which reads words such as ``NA`` as missing values. The same is done here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lmassay.errors import DataError, did_you_mean
from lmassay.storage.files import STANDARD_INPUT, open_bytes, require_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MISSING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""Cells that pandas reads as "no value"."""
_MISSING_BYTES = frozenset(word.encode() for word in MISSING)
_MAX_MISSING_WORD_LENGTH = max(map(len, _MISSING_BYTES))
_BOM = b"\xef\xbb\xbf"
# A cell and the separator after it. As in csv and pandas, quotation marks have a meaning only at the start of a cell.
_CELL = re.compile(rb'(?:"([^"]*(?:""[^"]*)*)"([^\t\n\r]*)|((?!")[^\t\n\r]*))(\t|\r\n|\n|\r|\Z)')
_QUOTED = re.compile(rb'"([^"]*(?:""[^"]*)*)"')
_TAB, _FEED, _RETURN, _QUOTE = b'\t\n\r"'
# The file is searched in blocks of this many bytes.
_BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class RegularBody:
    """The body (all rows below the header) of a file in which every row has as many cells as the header.

    Only the positions of the cells are kept, in arrays of rows × columns. Cells are cut out of the data when a column
    is needed.
    """

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    missing: NDArray[np.bool_]
    quoted: NDArray[np.bool_] | None
    """Which cells are quoted; None if there are none."""

    def columns(self, indices: Sequence[int]) -> list[list[bytes]]:
        """Return the cells of several columns; missing ones are empty."""
        # The cells of all wanted columns are cut out row by row, so that the data are read only once, in order.
        starts = self.starts[:, indices].ravel().tolist()
        ends = self.ends[:, indices].ravel().tolist()
        cells = list(map(self.data.__getitem__, map(slice, starts, ends)))
        columns = [cells[offset :: len(indices)] for offset in range(len(indices))]
        for index, column in zip(indices, columns, strict=True):
            if self.quoted is not None:
                quoted_rows = self.quoted[:, index].nonzero()[0]
                for row in quoted_rows.tolist():
                    column[row] = _unquoted(column[row])
            for row in self.rows_with_missing_word(index):
                column[row] = b""
        return columns

    def rows_with_missing_word(self, index: int) -> list[int]:
        """Return the rows in which the cell of a column is a word for a missing value, such as NA."""
        lengths = self.ends[:, index] - self.starts[:, index]
        has_word = self.missing[:, index] & (lengths > 0)
        if self.quoted is not None:
            # Two quotes with nothing between them are an empty cell, not a word.
            has_word &= ~self.quoted[:, index] | (lengths > 2)
        rows: list[int] = has_word.nonzero()[0].tolist()
        return rows

    def line(self, row: int) -> int:
        """Return the line on which a row begins."""
        return 1 + self.data.count(b"\n", 0, self.starts[row, 0])


@dataclass(frozen=True, slots=True)
class ScannedBody:
    """The body of a file that was read row by row, because its rows are not regular.

    ``texts`` are its columns, ``lines`` the line on which each row begins.
    """

    texts: Sequence[Sequence[bytes]]
    lines: Sequence[int]

    def columns(self, indices: Sequence[int]) -> list[list[bytes]]:
        """Return the cells of several columns; missing ones are empty."""
        columns = []
        for index in indices:
            columns.append([b"" if cell in _MISSING_BYTES else cell for cell in self.texts[index]])
        return columns

    def rows_with_missing_word(self, index: int) -> list[int]:
        """Return the rows in which the cell of a column is a word for a missing value, such as NA."""
        return [row for row, cell in enumerate(self.texts[index]) if cell and cell in _MISSING_BYTES]

    def line(self, row: int) -> int:
        """Return the line on which a row begins."""
        return self.lines[row]


@dataclass(frozen=True, slots=True)
class TsvTable:
    """A file with a header. Its columns are decoded when they are needed; missing cells are empty texts."""

    path: Path
    header: tuple[str, ...]
    count: int
    complete: bool
    """Whether the last line has its line end; if not, the file may have been cut off."""
    body: RegularBody | ScannedBody = field(repr=False)

    def __contains__(self, name: str) -> bool:
        return name in self.header

    def line(self, row: int) -> int:
        """Return the line on which a row begins."""
        return self.body.line(row)

    def where(self, row: int) -> str:
        """Return the file and the line of a row, for messages."""
        return f"{self.path}, line {self.line(row)}"

    def cells(self, name: str) -> list[bytes]:
        """Return a column as undecoded bytes."""
        return self.columns(name)[0]

    def columns(self, *names: str) -> list[list[bytes]]:
        """Return several columns as undecoded bytes."""
        return self.body.columns([self.header.index(name) for name in names])

    def column(self, name: str) -> list[str]:
        """Return a column as text; raise a DataError with the line of the first cell that is not UTF-8."""
        cells = self.cells(name)
        try:
            # Decoding all cells at once is fastest; it works unless a cell contains a line end itself.
            texts = b"\n".join(cells).decode().split("\n")
            if len(texts) == len(cells):
                return texts
            return [cell.decode() for cell in cells]
        except UnicodeDecodeError:
            raise self._undecodable(name, cells) from None

    def missing(self) -> list[int]:
        """Return how many cells of each column are missing."""
        if isinstance(self.body, RegularBody):
            return [int(number) for number in self.body.missing.sum(axis=0)]
        return [self.cells(name).count(b"") for name in self.header]

    def missing_word_count(self, name: str) -> int:
        """Return how many cells of a column are a word for a missing value, such as NA."""
        return len(self.body.rows_with_missing_word(self.header.index(name)))

    def require_unique(self, name: str, texts: Sequence[str] | None = None) -> dict[str, int]:
        """Return a dict from each value of a column to its row; raise a DataError if a value is missing or repeated.

        ``texts`` is the column, if the caller has read it already.
        """
        texts = self.column(name) if texts is None else texts
        row_of = {text: row for row, text in enumerate(texts)}
        if "" in row_of:
            raise DataError(f"{self.where(row_of[''])}: {name} is empty; every row needs one")
        if len(row_of) < len(texts):
            # The dict has the last row of each value, so a row that is not in it has a value that is repeated below.
            first_row = next(row for row, text in enumerate(texts) if row_of[text] != row)
            value = texts[first_row]
            lines = f"{self.line(first_row)} and {self.line(row_of[value])}"
            raise DataError(f"{self.path}: {name} {value} appears twice, on lines {lines}; keep one")
        return row_of

    def _undecodable(self, name: str, cells: Sequence[bytes]) -> DataError:
        for row, cell in enumerate(cells):
            try:
                cell.decode()
            except UnicodeDecodeError as error:
                problem = f"byte 0x{cell[error.start]:02x} in column {name} is not UTF-8"
                return DataError(f"{self.where(row)}: {problem}; convert the file, e.g. iconv -f cp949 -t utf-8")
        return DataError(f"{self.path}: column {name} is not UTF-8; convert the file, e.g. iconv -f cp949 -t utf-8")


def read_table(
    path: Path, role: str, required: Iterable[str], *, may_lack: str = "", remedy: str = "correct the row"
) -> TsvTable:
    """Read a file whose header has the ``required`` columns and whose rows have as many cells as the header.

    ``role`` names the file in messages, ``remedy`` says what to do about a row that was cut off. A row may end before
    the column ``may_lack`` if that is the last one.
    """
    if path == STANDARD_INPUT:
        raise DataError(f"the {role} file: KoBBQ's steps cannot read standard input; give a file")
    require_file(path, role)
    try:
        # Compressed files are decompressed here, as pandas does.
        with open_bytes(path) as stream:
            data = stream.read()
    except OSError as error:
        raise DataError(f"the {role} file {path} cannot be read: {error.strerror or error}") from error
    data = data.removeprefix(_BOM)
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(0)) + 1
        raise DataError(f"{path}, line {line}: a NUL byte; the {role} file is damaged or not UTF-8 text")
    if not data or data.isspace():
        raise DataError(f"the {role} file {path} is empty; it needs a header and rows")
    complete = data.endswith((b"\n", b"\r"))
    header, start = _header(path, data)
    _check_header(path, role, header, required)
    smallest_width = len(header) - (header[-1] == may_lack)
    body: RegularBody | ScannedBody | None = _regular_body(data, start, len(header))
    if body is None:
        body = _scanned_body(path, data, start, len(header), smallest_width, remedy)
    count = len(body.lines) if isinstance(body, ScannedBody) else len(body.starts)
    if not count:
        raise DataError(f"the {role} file {path} has a header but no rows")
    return TsvTable(path, header, count, complete, body)


def _header(path: Path, data: bytes) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns, and the position at which the body starts."""
    names, start = _quoted_record(path, data, 0, 1, "add the quote to the header")
    try:
        return tuple(name.decode() for name in names), start
    except UnicodeDecodeError:
        raise DataError(f"{path}, line 1: the header is not UTF-8; convert the file") from None


def _check_header(path: Path, role: str, header: Sequence[str], required: Iterable[str]) -> None:
    for name in required:
        if name not in header:
            hint = did_you_mean(name, header) if len(header) > 1 else "; are its columns separated by tabs?"
            raise DataError(f"{path}, line 1: the {role} file has no column '{name}'{hint}")
    for index, name in enumerate(header):
        if name in header[:index]:
            raise DataError(f"{path}, line 1: column '{name}' appears twice in the header; rename or remove one")


def _regular_body(data: bytes, start: int, width: int) -> RegularBody | None:
    """Find all cells at once with numpy; return None unless every row from ``start`` on has ``width`` cells."""
    import numpy as np

    if not data.endswith(b"\n"):
        data += b"\n"
    codes = np.frombuffer(data, np.uint8)
    spans = _quoted_spans(data, start)
    if spans is None:
        return None
    separators = _separator_positions(codes, start, spans)
    kinds = codes[separators]
    returns = separators[kinds == _RETURN]
    if len(returns):
        # A carriage return before a line feed is part of the line end. Alone, it would end a row by itself.
        if (codes[returns + 1] != _FEED).any():
            return None
        separators = separators[kinds != _RETURN]
        kinds = codes[separators]
    if not len(kinds) or len(kinds) % width:
        return None
    # A regular row has tabs between its cells and a line feed after the last one.
    kinds = kinds.reshape(-1, width)
    if (kinds[:, :-1] != _TAB).any() or (kinds[:, -1] != _FEED).any():
        return None
    ends = separators.reshape(-1, width)
    starts = np.empty_like(ends)
    starts.ravel()[1:] = separators[:-1] + 1
    starts[0, 0] = start
    if len(returns):
        ends[:, -1] -= codes[ends[:, -1] - 1] == _RETURN
    missing = _missing_cells(data, codes, starts, ends)
    if not spans:
        return RegularBody(data, starts, ends, missing, quoted=None)
    # As in pandas, a quoted "NA" is missing, too.
    quoted = codes[starts] == _QUOTE
    for row, index in np.argwhere(quoted).tolist():
        cell = data[starts[row, index] : ends[row, index]]
        missing[row, index] = _unquoted(cell) in _MISSING_BYTES
    return RegularBody(data, starts, ends, missing, quoted)


def _quoted_spans(data: bytes, start: int) -> list[tuple[int, int]] | None:
    """Return where the quoted cells begin and end; None if one of them has no end."""
    spans = []
    position = data.find(b'"', start)
    while position >= 0:
        end = position + 1
        # A quote inside a cell is an ordinary character.
        if position == start or data[position - 1] in b"\t\n\r":
            cell = _QUOTED.match(data, position)
            if cell is None:
                return None
            end = cell.end()
            spans.append((position, end))
        position = data.find(b'"', end)
    return spans


def _unquoted(cell: bytes) -> bytes:
    match = _QUOTED.match(cell)
    assert match is not None
    # As in pandas, text after the closing quotation mark belongs to the cell.
    return match[1].replace(b'""', b'"') + cell[match.end() :]


def _separator_positions(codes: NDArray[np.uint8], start: int, spans: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the positions of tabs, line feeds and carriage returns, except those in quoted cells."""
    import numpy as np

    blocks = []
    # Searched block by block, because allocating memory for the whole file would take longer than the search.
    for begin in range(start, len(codes), _BLOCK):
        # One comparison instead of three: the separators are the codes 9, 10 and 13.
        block_positions = np.flatnonzero(codes[begin : begin + _BLOCK] <= _RETURN)
        block_positions += begin
        blocks.append(block_positions)
    positions = np.concatenate(blocks) if blocks else np.empty(0, np.int64)
    # Other control characters are rare, but KoBBQ's data contain U+0008.
    kinds = codes[positions]
    is_separator = (kinds == _TAB) | (kinds == _FEED) | (kinds == _RETURN)
    if spans:
        for first, last in np.searchsorted(positions, spans).tolist():
            is_separator[first:last] = False
    # Indexing makes a copy, so it is avoided if all positions are kept.
    return positions if is_separator.all() else positions[is_separator]


def _missing_cells(
    data: bytes, codes: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which cells are empty or a word for a missing value, such as NA."""
    import numpy as np

    lengths = ends - starts
    missing: NDArray[np.bool_] = lengths == 0
    # To save time, only short cells that begin with the first two bytes of such a word are compared in Python.
    beginnings = np.zeros(1 << 16, dtype=bool)
    for word in _MISSING_BYTES:
        if word:
            beginnings[word[0] << 8 | word[1]] = True
    short = np.flatnonzero((lengths > 1) & (lengths <= _MAX_MISSING_WORD_LENGTH))
    begin = starts.ravel()[short]
    first_two_bytes = codes[begin].astype(np.uint16) << 8 | codes[begin + 1]
    candidates = short[beginnings[first_two_bytes]]
    for index in candidates.tolist():
        cell = data[starts.flat[index] : ends.flat[index]]
        if cell in _MISSING_BYTES:
            missing.flat[index] = True
    return missing


def _scanned_body(path: Path, data: bytes, start: int, width: int, smallest_width: int, remedy: str) -> ScannedBody:
    """Read the body row by row; raise a DataError for the first row that does not fit the header."""
    rows: list[list[bytes]] = []
    lines: list[int] = []
    for line, row in _read_records(path, data, start, remedy):
        rows.append(row)
        lines.append(line)
    if set(map(len, rows)) - {width}:
        _check_widths(path, rows, lines, width, smallest_width, remedy)
    return ScannedBody(list(zip(*rows, strict=True)), lines)


def _check_widths(
    path: Path, rows: Sequence[list[bytes]], lines: Sequence[int], width: int, smallest_width: int, remedy: str
) -> None:
    """Raise a DataError for the first row that is too short or too long; add empty cells that a row may lack.

    Rows may lack cells from ``smallest_width`` on; the lists in ``rows`` are changed in place.
    """
    for index, row in enumerate(rows):
        if smallest_width <= len(row) < width:
            row += [b""] * (width - len(row))
        if len(row) == width:
            continue
        problem = f"{path}, line {lines[index]}: the row has {len(row)} cells, the header {width}"
        if len(row) > width:
            raise DataError(f"{problem}; correct it: cells are separated by single tabs")
        if index == len(rows) - 1:
            problem += ": it was cut off"
        raise DataError(f"{problem}; {remedy}")


def _read_records(path: Path, data: bytes, start: int, remedy: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (line, cells) of each row; empty lines are left out."""
    position = start
    line = 1 + data.count(b"\n", 0, start)
    while position < len(data):
        stop = data.find(b"\n", position)
        if stop < 0:
            stop = len(data)
        text = data[position:stop]
        if b'"' in text and (text[:1] == b'"' or b'\t"' in text or b'\r"' in text):
            cells, end = _quoted_record(path, data, position, line, remedy)
            yield line, cells
            line += data.count(b"\n", position, end)
            position = end
            continue
        if text[-1:] == b"\r":
            text = text[:-1]
        # A lone carriage return ends a row, too.
        for part in text.split(b"\r"):
            row = part.split(b"\t")
            if len(row) > 1 or part.strip(b" "):
                yield line, row
        position = stop + 1
        line = line + 1


def _quoted_record(path: Path, data: bytes, position: int, line: int, remedy: str) -> tuple[list[bytes], int]:
    """Return the cells of a row that may contain quotes, and the position after it."""
    cells = []
    while True:
        match = _CELL.match(data, position)
        if match is None:
            raise DataError(f"{path}, line {line}: a quoted cell begins in this row and has no end; {remedy}")
        quoted, tail, simple, separator = match.groups()
        cells.append(simple if quoted is None else quoted.replace(b'""', b'"') + tail)
        position = match.end()
        if separator != b"\t":
            return cells, position


def first_few(texts: Sequence[str], limit: int = 3) -> str:
    """Return the first few of many texts for a message.

    >>> first_few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    listed = ", ".join(texts[:limit])
    remaining = len(texts) - limit
    return f"{listed} and {remaining} more" if remaining > 0 else listed
