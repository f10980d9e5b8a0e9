"""Converts the columns of a batch of examples to bytes and back.

Arrays become 64-bit floats, lists of texts become UTF-8 with the length of each text in characters, and all other lists
become JSON.
Columns that the caller names as labels become a JSON list of the distinct labels, with a number for each row.

The bytes begin with the length of a header (8 digits) and the header, which is JSON: a list of
``[name, kind, number of bytes]``. The columns follow in this order. Numbers are little-endian on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from lmassay.types import compact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Quoted, because importing numpy is slow, so it is imported only by the functions that need it.
Column: TypeAlias = "Sequence[Any] | NDArray[np.float64]"
"""The values of one column, one for each example."""
_Kind = Literal["floats", "texts", "labels", "json"]
# The length of the header is written with a fixed number of digits, so that `unpack` knows where the header begins.
_HEADER_DIGITS = 8
# The number of bytes of a text's length, or of a label's number.
_NUMBER_SIZE = 4


class PackedTexts(Sequence[str]):
    """A column of texts that is decoded when the first of them is read: statistics rarely read the ids of examples."""

    def __init__(self, packed: bytes) -> None:
        self._packed = packed
        self._text: str | None = None
        self._ends: NDArray[np.int64]

    def __len__(self) -> int:
        return int.from_bytes(self._packed[:_NUMBER_SIZE], "little")

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return list(self)[index]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        text = self._decoded()
        number = index % len(self)
        start = self._ends[number - 1] if number else 0
        return text[start : self._ends[number]]

    def __iter__(self) -> Iterator[str]:
        text = self._decoded()
        start = 0
        for end in self._ends.tolist():
            yield text[start:end]
            start = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    def _decoded(self) -> str:
        """Return all texts joined together, and compute the position at which each of them ends."""
        import numpy as np

        if self._text is None:
            lengths, encoded = _without_numbers(self._packed)
            self._ends = lengths.cumsum(dtype=np.int64)
            self._text = encoded.decode("utf-8", "surrogatepass")
        return self._text


def pack(columns: Mapping[str, Column], labels: Collection[str] = ()) -> bytes:
    """Return columns as bytes. ``labels`` names columns with few different texts, each of which is stored only once.

    >>> unpack(pack({"id": ["1", "2"], "line": [1, 2], "input": ["changed", "changed"]}, labels=["input"]))
    {'id': ['1', '2'], 'line': [1, 2], 'input': ['changed', 'changed']}
    """
    header: list[tuple[str, _Kind, int]] = []
    packed_columns: list[bytes] = []
    for name, column in columns.items():
        kind = "labels" if name in labels else _kind_of(column)
        packed = _packed(kind, column)
        header.append((name, kind, len(packed)))
        packed_columns.append(packed)
    packed_header = json.dumps(header, separators=(",", ":")).encode("ascii")
    header_length = f"{len(packed_header):0{_HEADER_DIGITS}d}".encode("ascii")
    return b"".join([header_length, packed_header, *packed_columns])


def unpack(data: bytes) -> dict[str, Column]:
    """Read what :func:`pack` wrote."""
    start = _HEADER_DIGITS + int(data[:_HEADER_DIGITS])
    header = json.loads(data[_HEADER_DIGITS:start])
    columns: dict[str, Column] = {}
    for name, kind, size in header:
        columns[name] = _unpacked(kind, data[start : start + size])
        start += size
    return columns


def _kind_of(column: Column) -> _Kind:
    import numpy as np

    if isinstance(column, np.ndarray):
        return "floats"
    if set(map(type, column)) == {str}:
        return "texts"
    return "json"


def _packed(kind: _Kind, column: Column) -> bytes:
    import numpy as np

    if kind == "floats":
        return np.asarray(column, dtype="<f8").tobytes()
    if kind == "json":
        return compact(list(column)).encode("utf-8")
    if kind == "labels":
        # The number of a label is its position in the list of distinct labels.
        number_of_label: dict[str, int] = {}
        numbers = [number_of_label.setdefault(label, len(number_of_label)) for label in column]
        return _with_numbers(numbers, compact(list(number_of_label)).encode("utf-8"))
    # A Python string may contain a lone surrogate, which only this variant of UTF-8 can represent.
    return _with_numbers(list(map(len, column)), "".join(column).encode("utf-8", "surrogatepass"))


def _unpacked(kind: _Kind, data: bytes) -> Column:
    import numpy as np

    if kind == "floats":
        return np.frombuffer(data, dtype="<f8")
    if kind == "json":
        return list(json.loads(data))
    if kind == "texts":
        return PackedTexts(data)
    numbers, encoded_labels = _without_numbers(data)
    labels = json.loads(encoded_labels)
    return [labels[number] for number in numbers.tolist()]


def _with_numbers(numbers: Sequence[int], rest: bytes) -> bytes:
    """Return bytes with the count of the numbers, the numbers and ``rest``."""
    import numpy as np

    return np.array([len(numbers), *numbers], dtype="<u4").tobytes() + rest


def _without_numbers(data: bytes) -> tuple[NDArray[np.uint32], bytes]:
    """Return the numbers and the rest of what :func:`_with_numbers` wrote."""
    import numpy as np

    (count,) = np.frombuffer(data, dtype="<u4", count=1)
    end = _NUMBER_SIZE * (int(count) + 1)
    return np.frombuffer(data[_NUMBER_SIZE:end], dtype="<u4"), data[end:]
