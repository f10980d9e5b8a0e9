"""Find out from its header alone whether a GGUF file was cut off; the reader of the ``gguf`` package takes seconds.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from lmassay.errors import DataError

_MAGIC = b"GGUF"
# The alignment of tensors in bytes, if a file does not name another one.
_DEFAULT_ALIGNMENT = 32
# The number of bytes of each type of value. Texts and arrays store their own length.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_TEXT = 8
_ARRAY = 9


def check_gguf(file: Path) -> None:
    """Raise a DataError if a file does not begin like a GGUF file, or ends before the beginning of its last tensor."""
    try:
        with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            last_tensor = _start_of_last_tensor(content)
            size = len(content)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, ArithmeticError, RecursionError, struct.error):
        # An empty file, an unknown type of value, or a header that goes on after the end of the file.
        raise DataError(f"{file} is not a complete GGUF file: its header cannot be read; download it again") from None
    if last_tensor >= size:
        raise DataError(
            f"{file} is not a complete GGUF file: it has {size} bytes, and its last tensor begins at {last_tensor}; "
            "download it again"
        )


def _start_of_last_tensor(content: mmap.mmap) -> int:
    """Where the last tensor begins in the file; 0 for a file that is not checked here."""
    if content[:4] != _MAGIC:
        raise ValueError("not a GGUF file")
    reader = _Reader(content, offset=4)
    version = reader.number("<I")
    if version % 0x10000 == 0:
        # The file is big-endian. Such files are not read here; the ``gguf`` package finds out later if one is cut off.
        return 0
    tensors = reader.number("<Q")
    keys = reader.number("<Q")
    alignment = _DEFAULT_ALIGNMENT
    for _ in range(keys):
        key = reader.text()
        value_type = reader.number("<I")
        if key == b"general.alignment":
            alignment = reader.number("<I")
        else:
            reader.skip_value(value_type)
    last_offset = 0
    for _ in range(tensors):
        reader.text()
        dimensions = reader.number("<I")
        # The sizes of the dimensions and the type of the numbers.
        reader.offset += 8 * dimensions + 4
        last_offset = max(last_offset, reader.number("<Q"))
    # The numbers begin at the next multiple of the alignment.
    data_start = -(-reader.offset // alignment) * alignment
    return data_start + last_offset


class _Reader:
    """Reads one value after the other. It raises struct.error at the end of the file."""

    def __init__(self, content: mmap.mmap, offset: int) -> None:
        self._content = content
        self.offset = offset

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._content, self.offset)
        self.offset += struct.calcsize(layout)
        return int(value)

    def text(self) -> bytes:
        length = self.number("<Q")
        self.offset += length
        return self._content[self.offset - length : self.offset]

    def skip_value(self, value_type: int) -> None:
        if value_type == _TEXT:
            self.text()
        elif value_type == _ARRAY:
            self._skip_array()
        else:
            self.offset += _SIZES[value_type]

    def _skip_array(self) -> None:
        item_type = self.number("<I")
        length = self.number("<Q")
        if item_type in _SIZES:
            self.offset += length * _SIZES[item_type]
            return
        for _ in range(length):
            self.skip_value(item_type)
