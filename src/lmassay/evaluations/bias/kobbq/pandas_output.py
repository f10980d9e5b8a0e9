"""Text as pandas writes it, for KoBBQ's programs leave their files and show their results so.

A column of whole numbers with a gap comes out as floats, and cells are quoted only where they must be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from lmassay.evaluations.bias.kobbq.tsv import RegularBody, TsvTable

_SPECIAL = re.compile('[\t"\n\r]')
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_DECIMAL = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)\s*", re.ASCII | re.I)
_BOOLEAN = {"true": "True", "false": "False"}
_BLOCK = 20_000


def retold(column: Sequence[str]) -> Sequence[str]:
    """A column (missing cells empty) as pandas writes it after reading: numbers and truth values in its own spelling.

    >>> retold(["1", "", "3"]), retold(["01", "2"]), retold(["1", "x"])
    (['1.0', '', '3.0'], ['1', '2'], ['1', 'x'])
    """
    first = next(filter(None, column), "")
    if _DECIMAL.fullmatch(first):
        return _numbers(column)
    if first.lower() in _BOOLEAN and all(not cell or cell.lower() in _BOOLEAN for cell in column):
        return [_BOOLEAN[cell.lower()] if cell else "" for cell in column]
    return column


def _numbers(column: Sequence[str]) -> Sequence[str]:
    present = [cell for cell in column if cell]
    if len(present) == len(column) and all(map(_INTEGER.fullmatch, column)):
        whole = [int(cell) for cell in column]
        # Numbers beyond 64 bits stay text.
        return [str(number) for number in whole] if all(-(1 << 63) <= n < 1 << 63 for n in whole) else column
    if all(map(_DECIMAL.fullmatch, present)):
        return [repr(float(cell)) if cell else "" for cell in column]
    return column


def quoted_cell(cell: str) -> str:
    """A cell in quotes if it holds a tab, a quote or a line end; a lone carriage return would end the row too."""
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def quoted(column: Sequence[str]) -> Sequence[str]:
    """Cells in quotes where they need them."""
    together = "".join(column)
    return column if not any(map(together.__contains__, '\t"\n\r')) else [quoted_cell(cell) for cell in column]


def lines(header: Sequence[str], columns: Sequence[Sequence[str]], end: str = "\n") -> Iterator[str]:
    """The text of a file, many lines at a time."""
    yield "\t".join(quoted(header)) + end
    for start in range(0, len(columns[0]) if columns else 0, _BLOCK):
        part = [quoted(column[start : start + _BLOCK]) for column in columns]
        yield end.join(map("\t".join, zip(*part, strict=True))) + end


def rewritten(table: TsvTable, name: str, column: Sequence[str], *, as_is: str = "") -> Iterator[str]:
    """The text of a table's file with one column new, in its place or behind the others, many lines at a time.

    The column ``as_is`` keeps its spelling even if it holds numbers.
    """
    body = table.body
    header = table.header if name in table else (*table.header, name)
    if (
        name in table
        and isinstance(body, RegularBody)
        and b'"' not in body.data
        and all(other == name or _stays(table, other, other == as_is) for other in header)
    ):
        yield from _spliced(table, body, header.index(name), column)
        return
    columns = [
        column if other == name else table.column(other) if other == as_is else retold(table.column(other))
        for other in header
    ]
    yield from lines(header, columns)


def _stays(table: TsvTable, name: str, as_is: bool) -> bool:
    """Whether a column is written as it was read."""
    if as_is or table.words(name):
        return not table.words(name)
    assert isinstance(table.body, RegularBody)
    place = table.header.index(name)
    row = int(table.body.missing[:, place].argmin())
    first = table.body.data[table.body.starts[row, place] : table.body.ends[row, place]].decode(errors="replace")
    if not (_DECIMAL.fullmatch(first) or first.lower() in _BOOLEAN):
        return True
    column = table.column(name)
    return list(retold(column)) == column


def _spliced(table: TsvTable, body: RegularBody, place: int, column: Sequence[str]) -> Iterator[str]:
    """What stands before and behind the column is taken over in one piece."""
    yield "\t".join(quoted(table.header)) + "\n"
    data = body.data
    begins, starts = body.starts[:, 0].tolist(), body.starts[:, place].tolist()
    ends, stops = body.ends[:, place].tolist(), body.ends[:, -1].tolist()
    for first in range(0, table.count, _BLOCK):
        part = slice(first, first + _BLOCK)
        cells = [cell.encode(errors="backslashreplace") for cell in quoted(column[part])]
        pieces = [
            data[begin:start] + cell + data[end:stop]
            for begin, start, cell, end, stop in zip(
                begins[part], starts[part], cells, ends[part], stops[part], strict=True
            )
        ]
        try:
            yield b"\n".join([*pieces, b""]).decode()
        except UnicodeDecodeError:
            for name in table.header:
                table.column(name)  # finds the line and says so
            raise


# --- a Series as pandas prints it -------------------------------------------------------------------------------------

_DIGITS = 6
_LARGE = 1e6
_FIXED = re.compile(r"\s*[+-]?[0-9]+\.[0-9]*")
_GAP = 3


def count_series(counts: Mapping[str, int]) -> str:
    """Whole numbers.

    >>> count_series({"sample_id": 0, "bbq_id": 2856}).splitlines()
    ['sample_id       0', 'bbq_id       2856', 'dtype: int64']
    """
    return _series(list(counts), [f"{count: d}" for count in counts.values()], "int64")


def float_series(values: Mapping[str, float]) -> str:
    """Numbers with six decimals, fewer if all end in zeros, in powers of ten if one would come out as nought.

    >>> float_series({"accuracy": 0.5, "diff-bias": -0.25}).splitlines()
    ['accuracy     0.50', 'diff-bias   -0.25', 'dtype: float64']
    """
    numbers = list(values.values())
    texts = _without_common_zeros([f"{number: .{_DIGITS}f}" for number in numbers])
    small = any(0 < abs(number) < 10**-_DIGITS for number in numbers)
    too_long = max(map(len, texts), default=0) > _DIGITS + 6 and any(abs(number) > _LARGE for number in numbers)
    if small or too_long:
        texts = [f"{number: .{_DIGITS}e}" for number in numbers]
    shown = ["NaN" if math.isnan(number) else text for number, text in zip(numbers, texts, strict=True)]
    return _series(list(values), shown, "float64")


def _without_common_zeros(texts: Sequence[str]) -> Sequence[str]:
    fixed = [text for text in texts if _FIXED.fullmatch(text)]
    spare = min((len(text) - len(text.rstrip("0")) for text in fixed), default=0)
    # One decimal stays in any case.
    spare = min(spare, _DIGITS - 1)
    return [text[: len(text) - spare] if _FIXED.fullmatch(text) else text for text in texts]


def _series(names: Sequence[str], texts: Sequence[str], kind: str) -> str:
    left, right = max(map(len, names)), max(map(len, texts))
    rows = [f"{name:<{left}}{'':{_GAP}}{text:>{right}}" for name, text in zip(names, texts, strict=True)]
    return "\n".join([*rows, f"dtype: {kind}"])
