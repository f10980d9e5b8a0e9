"""Reads records directly from the pages of a damaged SQLite file that SQLite itself can no longer read.

The header of the file, the schema table and the interior pages of a table are not needed: every page that looks like a
leaf page is read, whatever table it belongs to. Interior pages of indexes are read as well, because they contain
records, too, and SQLite stores a table WITHOUT ROWID as an index. The caller recognises by its values to which table a
record belongs, and verifies its digest. The file format is described at https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

# Sizes in bytes and codes of SQLite's file format (https://www.sqlite.org/fileformat2.html).
DEFAULT_PAGE_SIZE = 4096
_HEADER_SIZE = 100
_INDEX_INTERIOR, _INDEX_LEAF, _TABLE_LEAF = 0x02, 0x0A, 0x0D
_MAX_VARINT = 9
# For each serial type of an integer, its size in bytes.
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_FLOAT_TYPE, _ZERO_TYPE, _ONE_TYPE, _FIRST_BLOB_TYPE = 7, 8, 9, 12


class Record(NamedTuple):
    """A record of a table or index."""

    number: int
    """The rowid; 0 in an index and in a table WITHOUT ROWID."""
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Page:
    data: bytes
    start: int
    """The position at which the header of the b-tree page begins. The first page begins with the header of the file."""


class _DamagedCellError(ValueError):
    """A cell could not be parsed as a record."""


def read_records(file: Path) -> Iterator[Record]:
    """Yield all records that can be read, in no particular order. Pages that are no longer in use are read, too."""
    if not file.stat().st_size:
        return
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        size = _page_size(content)
        for start in range(0, len(content), size):
            # On the first page, the header of the file precedes that of the page.
            header_size = _HEADER_SIZE if start == 0 else 0
            page = _Page(content[start : start + size], header_size)
            yield from _records_on(page, content, size)


def _page_size(content: mmap.mmap) -> int:
    """Return the page size from the header of the file; the default size if the header cannot be right."""
    stored = int.from_bytes(content[16:18], "big")
    # 65536 does not fit into the two bytes of the header, so SQLite stores 1 instead.
    size = 65536 if stored == 1 else stored
    is_power_of_two = size & (size - 1) == 0
    if size < 512 or not is_power_of_two:
        return DEFAULT_PAGE_SIZE
    # A file consists of whole pages, and lmassay always uses the default size.
    if len(content) % size and len(content) % DEFAULT_PAGE_SIZE == 0:
        return DEFAULT_PAGE_SIZE
    return size


def _records_on(page: _Page, content: mmap.mmap, size: int) -> Iterator[Record]:
    """Yield the records on a page; none if the page does not look like a page with records."""
    data, start = page.data, page.start
    if len(data) < start + 12 or data[start] not in (_INDEX_INTERIOR, _INDEX_LEAF, _TABLE_LEAF):
        return
    kind = data[start]
    header_size = 12 if kind == _INDEX_INTERIOR else 8
    cells = int.from_bytes(data[start + 3 : start + 5], "big")
    # A cell takes at least four bytes, two of them for its pointer. If the count is larger, it is damaged.
    for number in range(min(cells, size // 4)):
        pointer_start = start + header_size + 2 * number
        pointer = int.from_bytes(data[pointer_start : pointer_start + 2], "big")
        try:
            yield _cell(kind, data, pointer, content, size)
        except (_DamagedCellError, IndexError, UnicodeDecodeError, struct.error):
            # The other cells of the page may be intact.
            continue


def _cell(kind: int, data: bytes, position: int, content: mmap.mmap, size: int) -> Record:
    """Parse the cell at a position of a page. Raises an error if it is not a record."""
    if position < 8:
        # The pointer leads into the header of the page.
        raise _DamagedCellError
    if kind == _INDEX_INTERIOR:
        # The cell begins with the four bytes of the child page's number.
        position += 4
    length, position = _varint(data, position)
    number = 0
    if kind == _TABLE_LEAF:
        number, position = _varint(data, position)
    if length > len(content):
        raise _DamagedCellError
    payload = _payload(kind, data, position, length, content, size)
    return Record(number, _values(payload))


def _payload(kind: int, data: bytes, position: int, length: int, content: mmap.mmap, size: int) -> bytes:
    """Return the bytes of a record. A long record continues on a chain of overflow pages."""
    # ``most`` and ``least`` limit the bytes that are on the page itself: X and M in the section "Cell Payload Overflow
    # Pages" of the description of the format.
    most = size - 35 if kind == _TABLE_LEAF else (size - 12) * 64 // 255 - 23
    if length <= most:
        payload = data[position : position + length]
        if len(payload) < length:
            raise _DamagedCellError
        return payload
    least = (size - 12) * 32 // 255 - 23
    local = least + (length - least) % (size - 4)
    if local > most:
        local = least
    parts = [data[position : position + local]]
    missing = length - local
    next_page = int.from_bytes(data[position + local : position + local + 4], "big")
    while missing > 0:
        start = (next_page - 1) * size
        if next_page < 1 or start + 4 > len(content):
            raise _DamagedCellError
        part = content[start + 4 : start + min(size, missing + 4)]
        if not part:
            raise _DamagedCellError
        parts.append(part)
        missing -= len(part)
        next_page = int.from_bytes(content[start : start + 4], "big")
    return b"".join(parts)


def _values(payload: bytes) -> tuple[Any, ...]:
    """Parse a record: a header with the types of all values, followed by the values."""
    header_end, position = _varint(payload, 0)
    if header_end > len(payload):
        raise _DamagedCellError
    types = []
    while position < header_end:
        serial_type, position = _varint(payload, position)
        types.append(serial_type)
    values = []
    position = header_end
    for serial_type in types:
        value, position = _value(payload, position, serial_type)
        values.append(value)
    return tuple(values)


def _value(payload: bytes, position: int, serial_type: int) -> tuple[Any, int]:
    """Return a value and the position of the next one."""
    if serial_type == 0:
        return None, position
    if serial_type in (_ZERO_TYPE, _ONE_TYPE):
        return serial_type - _ZERO_TYPE, position
    if serial_type in _INTEGER_SIZES:
        end = position + _INTEGER_SIZES[serial_type]
        if end > len(payload):
            # from_bytes would silently read a number from fewer bytes.
            raise _DamagedCellError
        return int.from_bytes(payload[position:end], "big", signed=True), end
    if serial_type == _FLOAT_TYPE:
        (number,) = struct.unpack(">d", payload[position : position + 8])
        return number, position + 8
    if serial_type < _FIRST_BLOB_TYPE:
        raise _DamagedCellError
    end = position + (serial_type - _FIRST_BLOB_TYPE) // 2
    if end > len(payload):
        raise _DamagedCellError
    data = payload[position:end]
    is_text = serial_type % 2 == 1
    return (data.decode("utf-8") if is_text else data), end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an integer of variable length and the position after it."""
    number = 0
    for count in range(1, _MAX_VARINT + 1):
        byte = data[position]
        position += 1
        if count == _MAX_VARINT:
            return (number << 8) | byte, position
        number = (number << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return number, position
    raise _DamagedCellError
