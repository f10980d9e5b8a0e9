"""Accepts data that a Python program has in memory: texts, rows and data frames.

Tasks read files, so data from memory are written to a file in the results folder, ``inputs/DIGEST/NAME``, and the run's
configuration names this file. This way, the data of every run are kept, their digest is a part of the signature, and
the run can be resumed and distributed like any other. Equal data of the same name are stored only once.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import DataError
from lmassay.storage.files import atomic_write
from lmassay.types.wording import counted

INPUTS_FOLDER = "inputs"
"""The folder inside a results folder with the data that Python programs passed to runs."""
DEFAULT_NAME = "in_memory"
_DIGEST_LENGTH = 12
_INPUT_PATH = re.compile(rf"[/\\]{INPUTS_FOLDER}[/\\](?P<digest>[0-9a-f]{{{_DIGEST_LENGTH}}})[/\\](?P<name>[^/\\]+)$")
_LINE_BREAK = re.compile(r"[\r\n]")
_FRAME_LIBRARIES = ("pandas", "polars", "pyarrow", "datasets", "numpy")
_SHOWN_COLUMNS = 8


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """Texts or rows in memory, which can be given instead of a file. :func:`lmassay.rows` creates it."""

    texts: tuple[str, ...] = ()
    """The texts; empty if there are rows."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """The rows, each a mapping from columns to values; empty if there are texts."""
    name: str = DEFAULT_NAME
    """The name of the data in the labels of runs, and that of their file without its suffix."""

    def __len__(self) -> int:
        return len(self.texts) or len(self.rows)

    def __repr__(self) -> str:
        if self.texts:
            return f"<{counted(len(self), 'text')} in memory>"
        columns = self.columns[:_SHOWN_COLUMNS]
        more = ", …" if len(self.columns) > len(columns) else ""
        return f"<{counted(len(self), 'row')} in memory: {', '.join(columns)}{more}>"

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order in which they first appear."""
        names: dict[str, None] = {}
        for row in self.rows:
            names |= dict.fromkeys(row)
        return list(names)

    @property
    def content(self) -> str:
        """The text of the file: one text per line, or one JSON object per line."""
        lines = list(self.texts)
        for row in self.rows:
            lines.append(json.dumps(row, ensure_ascii=False))
        return "".join(f"{line}\n" for line in lines)

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the file's contents."""
        return hashlib.sha256(self.content.encode("utf-8")).hexdigest()

    def write(self, results: Path) -> Path:
        """Write the data into a results folder, unless it already has them, and return the path of the file."""
        suffix = ".txt" if self.texts else ".jsonl"
        path = results.resolve() / INPUTS_FOLDER / self.digest[:_DIGEST_LENGTH] / f"{self.name}{suffix}"
        write_once(path, self.content)
        return path


def write_once(path: Path, content: str) -> None:
    """Write a file whose path contains a digest of its content, unless it already exists with this content."""
    # The content is compared, because the file may be damaged, and the path has only the beginning of the digest. Bytes
    # are compared, because a damaged file may not be UTF-8.
    if path.is_file() and path.read_bytes() == content.encode("utf-8"):
        return
    with atomic_write(path) as stream:
        stream.write(content)


def write_description(description: Mapping[str, Any], name: str, results: Path) -> Path:
    """Write a description of data into a results folder as a YAML file, and return its path.

    A description is a mapping that a Python program passes to an option for which a configuration would name a YAML
    file.
    """
    try:
        # The file is JSON, which every YAML reader accepts.
        content = json.dumps(description, ensure_ascii=False, indent=1) + "\n"
        digest = hashlib.sha256(content.encode("utf-8")).hexdigest()
    except (TypeError, ValueError) as error:
        raise DataError(f"a description of data must consist of texts, numbers, lists and mappings: {error}") from None
    path = results.resolve() / INPUTS_FOLDER / digest[:_DIGEST_LENGTH] / f"{file_name(name)}.yaml"
    write_once(path, content)
    return path


def with_found_inputs(value: Any, results: Path) -> Any:
    """Return a configuration in which the paths of data from memory are up to date.

    A results folder may have been moved, copied from another machine or merged with others. If a path does not exist
    but this results folder has the file, the path is replaced.
    """
    if isinstance(value, Mapping):
        return {name: with_found_inputs(inner, results) for name, inner in value.items()}
    if isinstance(value, list):
        return [with_found_inputs(inner, results) for inner in value]
    if not isinstance(value, str):
        return value
    input_path = _INPUT_PATH.search(value)
    if input_path is None or Path(value).exists():
        return value
    # Two data sets of one results folder with the same first characters of the digest are so unlikely that a file with
    # the same path below the folder is taken to have the same data.
    moved = results.resolve() / INPUTS_FOLDER / input_path["digest"] / input_path["name"]
    return str(moved) if moved.is_file() else value


def rows(data: Any, name: str = "") -> Rows:
    """Return texts or rows in memory as data for an option that names a data file.

    An option takes texts, rows or both; the wrong kind is an error when the option is checked.

    ``data`` is a list of texts, a list of mappings (rows), a numpy array of texts, or a column or table of pandas,
    polars, pyarrow or datasets. ``name`` is the name of the data in the labels of runs. A missing value (NaN; in
    a table also None) is left out of its row.

    >>> rows(["Hello world.", "Good morning."])
    <2 texts in memory>
    >>> rows([{"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps."}])
    <1 row in memory: sentence_good, sentence_bad>
    """
    return rows_of(data, "rows", name)


def rows_of(data: Any, where: str, name: str = "", columns: Sequence[str] = ()) -> Rows:
    """Return data as :class:`Rows`.

    Error messages begin with ``where``, the place of the data in the program's call. If ``columns`` are given, a tuple
    or list of values is a row with these columns.
    """
    if isinstance(data, Rows):
        return data
    if isinstance(data, str | bytes | Path | Mapping) or not isinstance(data, Iterable):
        raise DataError(f"{where}: give a list of texts, a list of mappings or a data frame, not {_kind(data)}")
    is_table = is_frame(data)
    items = _items(data, where)
    if not items:
        raise DataError(f"{where}: the data are empty; give at least one text or row")
    file = file_name(name or DEFAULT_NAME)
    # The first item decides whether the data are rows or texts. If a later item is of another kind, an error says so.
    has_rows = isinstance(items[0], Mapping) or (columns and isinstance(items[0], tuple | list))
    if has_rows:
        checked_rows = []
        for number, item in enumerate(items):
            # In a table, None marks a missing value. In a list of mappings, None is a value that the user wrote.
            checked_rows.append(_checked_row(item, f"{where}[{number}]", columns, drops_none=is_table))
        return Rows(rows=tuple(checked_rows), name=file)
    checked_texts = []
    for number, item in enumerate(items):
        checked_texts.append(_checked_text(item, f"{where}[{number}]"))
    return Rows(texts=tuple(checked_texts), name=file)


def is_frame(value: Any) -> bool:
    """Whether a value is a table or column of a library for data frames."""
    # The name of the module is compared, so that none of these libraries has to be imported or installed.
    library = type(value).__module__.partition(".")[0]
    # numpy's numbers are in the same module as its arrays.
    is_scalar = hasattr(value, "ndim") and value.ndim == 0
    return library in _FRAME_LIBRARIES and isinstance(value, Iterable) and not is_scalar


def file_name(name: str) -> str:
    """Return a name without characters that a file system may refuse.

    >>> file_name("my data/v2")
    'my-data-v2'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80] or DEFAULT_NAME


def _items(data: Any, where: str) -> list[Any]:
    """Return the texts or rows of any kind of data as a list."""
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and type(data).__name__ == "DataFrame":
        if not data.columns.is_unique:
            raise DataError(f"{where}: two columns of the data frame have the same name; rename one")
        return [dict(zip(data.columns, row, strict=True)) for row in _pandas_rows(data)]
    if library == "polars" and type(data).__name__ == "DataFrame":
        return list(data.to_dicts())
    if library == "pyarrow":
        return list(data.to_pylist())
    if library in ("pandas", "numpy"):
        return list(data.tolist())
    if library == "polars":
        return list(data.to_list())
    return list(data)


def _pandas_rows(data: Any) -> Iterable[Sequence[Any]]:
    """Yield the rows of a pandas data frame.

    pandas stores a column of integers with a missing value as floats. They are converted back to integers, because
    a label 1 would otherwise become 1.0.
    """
    columns = []
    for position in range(data.shape[1]):
        columns.append(_with_integers(data.iloc[:, position].tolist()))
    return zip(*columns, strict=True)


def _with_integers(values: list[Any]) -> list[Any]:
    """Convert a column of whole numbers and missing values to integers; return any other column unchanged."""
    has_missing = False
    restored: list[Any] = []
    for value in values:
        if not isinstance(value, float):
            return values
        if math.isnan(value):
            has_missing = True
            restored.append(value)
        elif value.is_integer():
            restored.append(int(value))
        else:
            return values
    # pandas keeps integers if no value is missing. So without a missing value, these were floats from the beginning.
    return restored if has_missing else values


def _checked_text(text: Any, where: str) -> str:
    if not isinstance(text, str):
        what = "missing" if _is_missing(text) else _kind(text)
        raise DataError(f"{where}: it is {what}; every item must be a text")
    if _LINE_BREAK.search(text):
        raise DataError(f"{where}: the text contains a line break; replace it, because texts are stored one per line")
    _require_unicode(text, where)
    return text


def _checked_row(row: Any, where: str, columns: Sequence[str], *, drops_none: bool) -> dict[str, Any]:
    """Return a row with only values that JSON can represent, and without missing values.

    None counts as a missing value only if ``drops_none`` is set. ``columns`` are the names for a row that is a tuple.
    """
    if columns and isinstance(row, tuple | list):
        if len(row) != len(columns):
            raise DataError(f"{where}: it has {len(row)} values; give {len(columns)}: {', '.join(columns)}")
        row = dict(zip(columns, row, strict=True))
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: it is {_kind(row)}; every item must be a mapping from columns to values")
    checked: dict[str, Any] = {}
    for column, value in row.items():
        if not isinstance(column, str):
            raise DataError(f"{where}: the column {column!r} is not a text; rename it")
        if value is None and not drops_none:
            checked[column] = None
        elif not _is_missing(value):
            checked[column] = _checked_value(value, f"{where}, column '{column}'")
    return checked


def _checked_value(value: Any, where: str) -> Any:
    if isinstance(value, str):
        _require_unicode(value, where)
        return value
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where}: {value} cannot be stored; give a finite number")
    if value is None or isinstance(value, bool | int | float):
        return value
    if type(value).__module__ == "numpy":
        return _checked_value(value.tolist(), where)
    if isinstance(value, Mapping):
        return {str(name): _checked_value(inner, where) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_checked_value(inner, where) for inner in value]
    raise DataError(f"{where}: it is {_kind(value)}, which cannot be stored; convert it to a text or a number")


def _require_unicode(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{where}: the text contains half of a surrogate pair; decode it correctly") from None


def _is_missing(value: Any) -> bool:
    """Whether a cell of a table is empty: None, NaN, or the NA and NaT of pandas."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    return type(value).__name__ in ("NAType", "NaTType")


def _kind(value: Any) -> str:
    if isinstance(value, Path):
        return "a path"
    return f"a value of type {type(value).__name__}"
