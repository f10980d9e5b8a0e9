"""Tab-separated files as KoBBQ's programs read them: strict about form, quick on large files.

The originals read with pandas, for which words such as ``NA`` mean that there is no value. The same is done here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lmassay.errors import DataError, did_you_mean
from lmassay.storage.files import require_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MISSING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""Cells that pandas reads as "no value"."""
_MISSING_BYTES = frozenset(word.encode() for word in MISSING)
_LONGEST_WORD = max(map(len, _MISSING_BYTES))
_BOM = b"\xef\xbb\xbf"
# A cell and what ends it; a quote counts only at its beginning, as with csv and pandas.
_CELL = re.compile(rb'(?:"([^"]*(?:""[^"]*)*)"([^\t\n\r]*)|((?!")[^\t\n\r]*))(\t|\r\n|\n|\r|\Z)')
_QUOTED = re.compile(rb'"([^"]*(?:""[^"]*)*)"')
_TAB, _FEED, _RETURN, _QUOTE = b'\t\n\r"'
_BLOCK = 1 << 18


@dataclass(frozen=True, slots=True)
class RegularBody:
    """The body of a file whose rows all have as many cells as the header: cells are cut out when asked for."""

    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    missing: NDArray[np.bool_]
    quoted: NDArray[np.bool_] | None
    """Which cells are quoted; None if there are none."""

    def columns(self, places: Sequence[int]) -> list[list[bytes]]:
        # Row by row, so that the data are gone through once.
        spans = map(slice, self.starts[:, places].ravel().tolist(), self.ends[:, places].ravel().tolist())
        cells = list(map(self.data.__getitem__, spans))
        found = [cells[number :: len(places)] for number in range(len(places))]
        for place, column in zip(places, found, strict=True):
            if self.quoted is not None:
                for row in self.quoted[:, place].nonzero()[0].tolist():
                    column[row] = _unquoted(column[row])
            for row in self.words(place):
                column[row] = b""
        return found

    def words(self, place: int) -> list[int]:
        """The rows in which a column holds a word that means "missing"."""
        words = self.missing[:, place] & (self.starts[:, place] < self.ends[:, place])
        if self.quoted is not None:
            # Two quotes and nothing between them are no word.
            words &= ~self.quoted[:, place] | (self.ends[:, place] - self.starts[:, place] > 2)
        found: list[int] = words.nonzero()[0].tolist()
        return found

    def line(self, row: int) -> int:
        return 1 + self.data.count(b"\n", 0, self.starts[row, 0])


@dataclass(frozen=True, slots=True)
class ScannedBody:
    """The body of any other file: its columns, and the line that each row begins on."""

    texts: Sequence[Sequence[bytes]]
    lines: Sequence[int]

    def columns(self, places: Sequence[int]) -> list[list[bytes]]:
        return [[b"" if cell in _MISSING_BYTES else cell for cell in self.texts[place]] for place in places]

    def words(self, place: int) -> list[int]:
        return [row for row, cell in enumerate(self.texts[place]) if cell and cell in _MISSING_BYTES]

    def line(self, row: int) -> int:
        return self.lines[row]


@dataclass(frozen=True, slots=True)
class TsvTable:
    """A file with a header; a cell that means "missing" is empty."""

    path: Path
    header: tuple[str, ...]
    count: int
    complete: bool
    """Whether the last line has its line end; if not, the file may have been cut off."""
    body: RegularBody | ScannedBody = field(repr=False)

    def __contains__(self, name: str) -> bool:
        return name in self.header

    def line(self, row: int) -> int:
        """The line on which a row begins."""
        return self.body.line(row)

    def where(self, row: int) -> str:
        """For messages: the file and the line of a row."""
        return f"{self.path}, line {self.line(row)}"

    def cells(self, name: str) -> list[bytes]:
        """A column as it stands in the file."""
        return self.columns(name)[0]

    def columns(self, *names: str) -> list[list[bytes]]:
        """Several columns as they stand in the file."""
        return self.body.columns([self.header.index(name) for name in names])

    def column(self, name: str) -> list[str]:
        """A column as text."""
        cells = self.cells(name)
        try:
            # All at once, unless a cell holds a line end itself.
            texts = b"\n".join(cells).decode().split("\n")
            return texts if len(texts) == len(cells) else [cell.decode() for cell in cells]
        except UnicodeDecodeError:
            raise self._undecodable(name, cells) from None

    def missing(self) -> list[int]:
        """How many cells of each column are missing."""
        if isinstance(self.body, RegularBody):
            return [int(number) for number in self.body.missing.sum(axis=0)]
        return [self.cells(name).count(b"") for name in self.header]

    def words(self, name: str) -> int:
        """How many cells of a column hold a word that means "missing"."""
        return len(self.body.words(self.header.index(name)))

    def require_unique(self, name: str, texts: Sequence[str] | None = None) -> dict[str, int]:
        """Value → row of a column; raise if a value is missing or stands twice."""
        texts = self.column(name) if texts is None else texts
        places = {text: row for row, text in enumerate(texts)}
        if "" in places:
            raise DataError(f"{self.where(places[''])}: {name} is empty; every row needs one")
        if len(places) < len(texts):
            second = next(row for row, text in enumerate(texts) if places[text] != row)
            first, last = self.line(second), self.line(places[texts[second]])
            raise DataError(f"{self.path}: {name} {texts[second]} stands twice, on lines {first} and {last}; keep one")
        return places

    def _undecodable(self, name: str, cells: Sequence[bytes]) -> DataError:
        for row, cell in enumerate(cells):
            try:
                cell.decode()
            except UnicodeDecodeError as error:
                found = f"byte 0x{cell[error.start]:02x} in column {name} is not UTF-8"
                return DataError(f"{self.where(row)}: {found}; convert the file, e.g. iconv -f cp949 -t utf-8")
        return DataError(f"{self.path}: column {name} is not UTF-8; convert the file, e.g. iconv -f cp949 -t utf-8")


def read_table(
    path: Path, role: str, required: Iterable[str], *, may_lack: str = "", remedy: str = "correct the row"
) -> TsvTable:
    """Read a file whose header has the ``required`` columns and whose rows have as many cells as the header.

    ``role`` names the file in messages, ``remedy`` says what to do about a row that was cut off. A row may end before
    the column ``may_lack`` if that is the last one.
    """
    require_file(path, role)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"the {role} file {path} cannot be read: {error.strerror or error}") from error
    data = data.removeprefix(_BOM)
    if b"\0" in data:
        raise DataError(
            f"{path}, line {data.count(10, 0, data.index(0)) + 1}: a NUL byte; the {role} file is damaged, or is no "
            "UTF-8 text"
        )
    if not data or data.isspace():
        raise DataError(f"the {role} file {path} is empty; it needs a header and rows")
    complete = data.endswith((b"\n", b"\r"))
    header, start = _header(path, data)
    _check_header(path, role, header, required)
    least = len(header) - (header[-1] == may_lack)
    body = _regular(data, start, len(header)) or _scanned(path, data, start, len(header), least, remedy)
    count = len(body.lines) if isinstance(body, ScannedBody) else len(body.starts)
    if not count:
        raise DataError(f"the {role} file {path} has a header but no rows")
    return TsvTable(path, header, count, complete, body)


def _header(path: Path, data: bytes) -> tuple[tuple[str, ...], int]:
    """The names of the columns, and where the body starts."""
    names, start = _quoted_record(path, data, 0, 1, "add the quote to the header")
    try:
        return tuple(name.decode() for name in names), start
    except UnicodeDecodeError:
        raise DataError(f"{path}, line 1: the header is not UTF-8; convert the file") from None


def _check_header(path: Path, role: str, header: Sequence[str], required: Iterable[str]) -> None:
    for name in required:
        if name not in header:
            have = did_you_mean(name, header) if len(header) > 1 else "; are its columns separated by tabs?"
            raise DataError(f"{path}, line 1: the {role} file has no column '{name}'{have}")
    double = next((name for place, name in enumerate(header) if name in header[:place]), None)
    if double is not None:
        raise DataError(f"{path}, line 1: column '{double}' stands twice in the header; rename or remove one")


def _regular(data: bytes, start: int, width: int) -> RegularBody | None:
    """None unless every line from ``start`` has ``width`` cells."""
    import numpy as np

    if not data.endswith(b"\n"):
        data += b"\n"
    codes = np.frombuffer(data, np.uint8)
    spans = _quoted_spans(data, start)
    if spans is None:
        return None
    separators = _positions(codes, start, spans)
    found = codes[separators]
    returns = separators[found == _RETURN]
    if len(returns):
        # A carriage return belongs to the line feed behind it; alone it would end a row.
        if (codes[returns + 1] != _FEED).any():
            return None
        separators = separators[found != _RETURN]
        found = codes[separators]
    if not len(found) or len(found) % width:
        return None
    found = found.reshape(-1, width)
    if (found[:, :-1] != _TAB).any() or (found[:, -1] != _FEED).any():
        return None
    ends = separators.reshape(-1, width)
    starts = np.empty_like(ends)
    starts.ravel()[1:] = separators[:-1] + 1
    starts[0, 0] = start
    if len(returns):
        ends[:, -1] -= codes[ends[:, -1] - 1] == _RETURN
    missing = _missing(data, codes, starts, ends)
    quoted = codes[starts] == _QUOTE if spans else None
    if quoted is not None:
        for row, place in zip(*(axis.tolist() for axis in quoted.nonzero()), strict=True):
            missing[row, place] = _unquoted(data[starts[row, place] : ends[row, place]]) in _MISSING_BYTES
    return RegularBody(data, starts, ends, missing, quoted)


def _quoted_spans(data: bytes, start: int) -> list[tuple[int, int]] | None:
    """Where the quoted cells are; None if one of them has no end."""
    spans = []
    place = data.find(b'"', start)
    while place >= 0:
        end = place + 1
        if place == start or data[place - 1] in b"\t\n\r":
            cell = _QUOTED.match(data, place)
            if cell is None:
                return None
            end = cell.end()
            spans.append((place, end))
        place = data.find(b'"', end)
    return spans


def _unquoted(cell: bytes) -> bytes:
    found = _QUOTED.match(cell)
    assert found is not None
    return found[1].replace(b'""', b'"') + cell[found.end() :]


def _positions(codes: NDArray[np.uint8], start: int, spans: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Where tabs, line feeds and carriage returns are, but for those in quoted cells."""
    import numpy as np

    found = []
    # Block by block, since fresh memory costs more than the search.
    for begin in range(start, len(codes), _BLOCK):
        places = np.flatnonzero(codes[begin : begin + _BLOCK] <= _RETURN)
        places += begin
        found.append(places)
    positions = np.concatenate(found) if found else np.empty(0, np.int64)
    # Other characters up to there are rare (U+0008 is in the data).
    at = codes[positions]
    wanted = (at == _TAB) | (at == _FEED) | (at == _RETURN)
    if spans:
        for first, last in np.searchsorted(positions, spans).tolist():
            wanted[first:last] = False
    return positions if wanted.all() else positions[wanted]


def _missing(
    data: bytes, codes: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    import numpy as np

    lengths = ends - starts
    missing: NDArray[np.bool_] = lengths == 0
    # Only what begins with the two bytes of such a word is looked at closely.
    beginnings = np.zeros(1 << 16, dtype=bool)
    beginnings[[word[0] << 8 | word[1] for word in _MISSING_BYTES if word]] = True
    short = np.flatnonzero((lengths > 1) & (lengths <= _LONGEST_WORD))
    begin = starts.ravel()[short]
    pairs = codes[begin].astype(np.uint16) << 8 | codes[begin + 1]
    for place in short[beginnings[pairs]].tolist():
        if data[starts.flat[place] : ends.flat[place]] in _MISSING_BYTES:
            missing.flat[place] = True
    return missing


def _scanned(path: Path, data: bytes, start: int, width: int, least: int, remedy: str) -> ScannedBody:
    rows: list[list[bytes]] = []
    lines: list[int] = []
    for line, row in _records(path, data, start, remedy):
        rows.append(row)
        lines.append(line)
    if set(map(len, rows)) - {width}:
        _check_widths(path, rows, lines, width, least, remedy)
    return ScannedBody(list(zip(*rows, strict=True)), lines)


def _check_widths(
    path: Path, rows: Sequence[list[bytes]], lines: Sequence[int], width: int, least: int, remedy: str
) -> None:
    """Raise for the first row that is too short or too long; what may be lacking is filled in."""
    for place, row in enumerate(rows):
        if least <= len(row) < width:
            row += [b""] * (width - len(row))
        if len(row) == width:
            continue
        counted = f"{path}, line {lines[place]}: the row has {len(row)} cells, the header {width}"
        if len(row) > width:
            raise DataError(f"{counted}; correct it: cells are separated by single tabs")
        raise DataError(f"{counted}{': it was cut off' if place == len(rows) - 1 else ''}; {remedy}")


def _records(path: Path, data: bytes, start: int, remedy: str) -> Iterator[tuple[int, list[bytes]]]:
    """(line, cells) of each row; empty lines are left out."""
    place, line = start, 1 + data.count(b"\n", 0, start)
    while place < len(data):
        stop = data.find(b"\n", place)
        stop = len(data) if stop < 0 else stop
        text = data[place:stop]
        if b'"' in text and (text[:1] == b'"' or b'\t"' in text or b'\r"' in text):
            cells, end = _quoted_record(path, data, place, line, remedy)
            yield line, cells
            line += data.count(b"\n", place, end)
            place = end
            continue
        if text[-1:] == b"\r":
            text = text[:-1]
        for part in text.split(b"\r") if b"\r" in text else (text,):
            row = part.split(b"\t")
            if len(row) > 1 or part.strip(b" "):
                yield line, row
        place, line = stop + 1, line + 1


def _quoted_record(path: Path, data: bytes, place: int, line: int, remedy: str) -> tuple[list[bytes], int]:
    cells = []
    while True:
        found = _CELL.match(data, place)
        if found is None:
            raise DataError(f"{path}, line {line}: a quoted cell begins in this row and has no end; {remedy}")
        quoted, tail, simple, separator = found.groups()
        cells.append(simple if quoted is None else quoted.replace(b'""', b'"') + tail)
        place = found.end()
        if separator != b"\t":
            return cells, place


def first_few(texts: Sequence[str], most: int = 3) -> str:
    """Some of many for a message.

    >>> first_few(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more" if more > 0 else "")
