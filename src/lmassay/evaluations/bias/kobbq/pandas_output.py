"""Write text exactly as pandas does, because KoBBQ's programs write their files and print their results with it.

Two habits of pandas matter: it turns whole numbers into floats if their column has an empty cell, and it quotes only
the cells that need it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from lmassay.evaluations.bias.kobbq.tsv import RegularBody, TsvTable

_NEEDS_QUOTES = re.compile('[\t"\n\r]')
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*", re.ASCII)
_DECIMAL = re.compile(r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)\s*", re.ASCII | re.I)
_BOOLEAN = {"true": "True", "false": "False"}
# Lines are joined in blocks of this many rows, which is fast and needs less memory than the whole file.
_BLOCK = 20_000


def as_pandas_rewrites(column: Sequence[str]) -> Sequence[str]:
    """Return a column as pandas writes it after reading it: with its own spelling of numbers and booleans.

    Missing cells are empty.

    >>> as_pandas_rewrites(["1", "", "3"]), as_pandas_rewrites(["01", "2"]), as_pandas_rewrites(["1", "x"])
    (['1.0', '', '3.0'], ['1', '2'], ['1', 'x'])
    """
    # The first cell that is not empty shows whether the column can be numeric. Most columns are text, and end here.
    first = next(filter(None, column), "")
    if _DECIMAL.fullmatch(first):
        return _numbers(column)
    if first.lower() in _BOOLEAN:
        return _booleans(column)
    return column


def _booleans(column: Sequence[str]) -> Sequence[str]:
    """Spell booleans as pandas does; return the column unchanged if a cell is anything else."""
    spelled = []
    for cell in column:
        if cell and cell.lower() not in _BOOLEAN:
            return column
        spelled.append(_BOOLEAN.get(cell.lower(), ""))
    return spelled


def _numbers(column: Sequence[str]) -> Sequence[str]:
    """Spell whole numbers or floats as pandas does; return the column unchanged if a cell is anything else."""
    has_gaps = "" in column
    if not has_gaps and all(map(_INTEGER.fullmatch, column)):
        integers = [int(cell) for cell in column]
        # pandas keeps numbers beyond 64 bits as text.
        if min(integers) < -(1 << 63) or max(integers) >= 1 << 63:
            return column
        return [str(number) for number in integers]
    # With an empty cell, whole numbers become floats, because pandas has no missing value among whole numbers.
    spelled = []
    for cell in column:
        if not cell:
            spelled.append("")
        elif _DECIMAL.fullmatch(cell):
            spelled.append(repr(float(cell)))
        else:
            return column
    return spelled


def quoted_cell(cell: str) -> str:
    """Quote a cell that contains a tab, a quotation mark or a line end (a lone carriage return is one, too)."""
    if not _NEEDS_QUOTES.search(cell):
        return cell
    return '"' + cell.replace('"', '""') + '"'


def quoted(column: Sequence[str]) -> Sequence[str]:
    """Quote the cells of a column that need it."""
    # One search in the text of all cells is much faster than a search in each, and most columns need no quotes.
    joined = "".join(column)
    if not any(map(joined.__contains__, '\t"\n\r')):
        return column
    return [quoted_cell(cell) for cell in column]


def lines(header: Sequence[str], columns: Sequence[Sequence[str]], end: str = "\n") -> Iterator[str]:
    """Yield the text of a file with this header and these columns, many lines at a time."""
    yield "\t".join(quoted(header)) + end
    n_rows = len(columns[0]) if columns else 0
    for start in range(0, n_rows, _BLOCK):
        block = [quoted(column[start : start + _BLOCK]) for column in columns]
        rows = map("\t".join, zip(*block, strict=True))
        yield end.join(rows) + end


def rewritten(table: TsvTable, name: str, column: Sequence[str], *, as_is: str = "") -> Iterator[str]:
    """Yield the text of a table's file with one column replaced, or added as the last one, many lines at a time.

    All other columns are written as pandas would write them, except the column ``as_is``, which keeps its spelling.
    """
    body = table.body
    header = table.header if name in table else (*table.header, name)
    if name in table and isinstance(body, RegularBody) and b'"' not in body.data:
        others = [other for other in header if other != name]
        if all(_is_unchanged(table, other, other == as_is) for other in others):
            # Nothing else changes, so the bytes around the column are copied, which is much faster.
            yield from _spliced(table, body, header.index(name), column)
            return
    columns: list[Sequence[str]] = []
    for other in header:
        if other == name:
            columns.append(column)
        elif other == as_is:
            columns.append(table.column(other))
        else:
            columns.append(as_pandas_rewrites(table.column(other)))
    yield from lines(header, columns)


def _is_unchanged(table: TsvTable, name: str, as_is: bool) -> bool:
    """Return True if pandas would write a column exactly as it is in the file."""
    # A word such as NA is read as missing and written as an empty cell.
    if table.missing_word_count(name):
        return False
    if as_is:
        return True
    assert isinstance(table.body, RegularBody)
    column_index = table.header.index(name)
    # The first cell that is not empty shows whether the column can be numeric.
    row = int(table.body.missing[:, column_index].argmin())
    start = table.body.starts[row, column_index]
    end = table.body.ends[row, column_index]
    first = table.body.data[start:end].decode(errors="replace")
    if not _DECIMAL.fullmatch(first) and first.lower() not in _BOOLEAN:
        return True
    column = table.column(name)
    return list(as_pandas_rewrites(column)) == column


def _spliced(table: TsvTable, body: RegularBody, column_index: int, column: Sequence[str]) -> Iterator[str]:
    """Yield the text of the file with one column replaced; the bytes before and after the column are copied."""
    yield "\t".join(quoted(table.header)) + "\n"
    data = body.data
    row_starts = body.starts[:, 0].tolist()
    starts = body.starts[:, column_index].tolist()
    ends = body.ends[:, column_index].tolist()
    row_ends = body.ends[:, -1].tolist()
    for first in range(0, table.count, _BLOCK):
        block = slice(first, first + _BLOCK)
        cells = [cell.encode(errors="backslashreplace") for cell in quoted(column[block])]
        rows = []
        spans = zip(row_starts[block], starts[block], cells, ends[block], row_ends[block], strict=True)
        for row_start, start, cell, end, row_end in spans:
            rows.append(data[row_start:start] + cell + data[end:row_end])
        try:
            yield b"\n".join([*rows, b""]).decode()
        except UnicodeDecodeError:
            # Decode each column, because that raises a DataError with the line of the bytes that are not UTF-8.
            for name in table.header:
                table.column(name)
            raise


# --- a Series as pandas prints it -------------------------------------------------------------------------------------

# The limits at which pandas' FloatArrayFormatter changes to scientific notation: numbers that are 0 with _DIGITS
# decimals, and numbers above _LARGE whose texts have more than _DIGITS + 6 characters.
_DIGITS = 6
_LARGE = 1e6
_FIXED_POINT = re.compile(r"\s*[+-]?[0-9]+\.[0-9]*")
# Spaces between the names and the numbers. With the place for a sign, pandas prints four.
_GAP = 3


def count_series(counts: Mapping[str, int]) -> str:
    """Return whole numbers as pandas prints a Series of them.

    >>> count_series({"sample_id": 0, "bbq_id": 2856}).splitlines()
    ['sample_id       0', 'bbq_id       2856', 'dtype: int64']
    """
    # As in pandas, a space takes the place of the missing minus sign.
    texts = [f"{count: d}" for count in counts.values()]
    return _series(list(counts), texts, "int64")


def float_series(values: Mapping[str, float]) -> str:
    """Return numbers as pandas prints a Series of them.

    Numbers have six decimals, or fewer if all of them end in zeros. All are in scientific notation if one of them would
    otherwise be shown as zero, or if one is above a million and the longest text has more than twelve characters.

    >>> float_series({"accuracy": 0.5, "diff-bias": -0.25}).splitlines()
    ['accuracy     0.50', 'diff-bias   -0.25', 'dtype: float64']
    """
    numbers = list(values.values())
    texts = _without_common_zeros([f"{number: .{_DIGITS}f}" for number in numbers])
    has_small = False
    has_large = False
    for number in numbers:
        has_small = has_small or 0 < abs(number) < 10**-_DIGITS
        has_large = has_large or abs(number) > _LARGE
    longest = max(map(len, texts), default=0)
    is_too_long = has_large and longest > _DIGITS + 6
    if has_small or is_too_long:
        texts = [f"{number: .{_DIGITS}e}" for number in numbers]
    for index, number in enumerate(numbers):
        if math.isnan(number):
            texts[index] = "NaN"
    return _series(list(values), texts, "float64")


def _without_common_zeros(texts: Sequence[str]) -> list[str]:
    """Remove the trailing zeros that all fixed-point numbers have, but keep at least one decimal."""
    trailing_zeros = [len(text) - len(text.rstrip("0")) for text in texts if _FIXED_POINT.fullmatch(text)]
    removable = min(min(trailing_zeros, default=0), _DIGITS - 1)
    shortened = []
    for text in texts:
        if _FIXED_POINT.fullmatch(text):
            text = text[: len(text) - removable]
        shortened.append(text)
    return shortened


def _series(names: Sequence[str], texts: Sequence[str], dtype: str) -> str:
    name_width = max(map(len, names))
    text_width = max(map(len, texts))
    rows = []
    for name, text in zip(names, texts, strict=True):
        rows.append(f"{name:<{name_width}}{'':{_GAP}}{text:>{text_width}}")
    return "\n".join([*rows, f"dtype: {dtype}"])
