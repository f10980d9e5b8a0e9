"""Converts runs to pandas or polars data frames. Both libraries are optional, and the columns are the same in both.

A column contains only numbers, only truth values or only texts. Values of other types are converted to JSON texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from lmassay.errors import MissingExtra, UserError
from lmassay.storage.store import Store
from lmassay.types import Response, Row, RunRecord

Library = Literal["pandas", "polars"]
_FIRST_COLUMNS = ("id", "state")
_LAST_COLUMNS = ("reference", "answer", "unscored", "error")
_RUN_COLUMNS = ("run", "task", "label", "model", "status")
_RESULT_COLUMNS = ("metric", "group", "value", "low", "high", "n", "n_error", "n_unscored", "method", "clusters")
# The order of the other columns, which are between the first and the last ones, by the prefix of their names.
_PREFIXES = ("score", "group", "input", "detail")


def example_columns(store: Store, run: str) -> dict[str, list[Any]]:
    """Return columns with one row per example.

    The columns are ``id``, ``state``, scores, groups, inputs, details, ``reference``, ``answer``, ``unscored`` and
    ``error``.
    """
    return _columns(_example_rows(store, run), _FIRST_COLUMNS, _LAST_COLUMNS)


def result_columns(records: Iterable[RunRecord]) -> dict[str, list[Any]]:
    """Return columns with one row per result: run, task and model, then the value with its interval and counts."""
    return _columns(_result_rows(records), (*_RUN_COLUMNS, *_RESULT_COLUMNS), ())


def frame(columns: Mapping[str, Sequence[Any]], library: Library) -> Any:
    """Return the columns as a ``DataFrame``. Raises MissingExtra, with the pip command, if it is not installed."""
    if library == "pandas":
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("a pandas data frame", "tables") from error
        return pandas.DataFrame(dict(columns))
    if library != "polars":
        raise UserError(f"there is no library '{library}' for data frames; use pandas or polars")
    try:
        import polars
    except ModuleNotFoundError as error:
        raise MissingExtra("a polars data frame", "tables") from error
    return polars.DataFrame(dict(columns), strict=False, infer_schema_length=None)


def _result_rows(records: Iterable[RunRecord]) -> Iterator[dict[str, Any]]:
    for record in records:
        run = {
            "run": record.id,
            "task": record.task,
            "label": record.label,
            "model": record.model,
            "status": record.status,
        }
        for result in record.results:
            yield {**run, **result.as_dict()}


def _example_rows(store: Store, run: str) -> Iterator[dict[str, Any]]:
    for row, (_, exchanges) in zip(store.rows(run), store.requests_and_responses(run), strict=True):
        yield _flat(row, exchanges)


def _flat(row: Row, exchanges: Sequence[tuple[Mapping[str, Any], Response]]) -> dict[str, Any]:
    """Return an example as a dict from column to value."""
    example = row.example
    score = row.score
    flat: dict[str, Any] = {"id": example.id, "state": row.state}
    for name, value in score.values.items():
        flat[f"score.{name}"] = float(value)
    for name, label in example.groups.items():
        flat[f"group.{name}"] = str(label)
    for name, value in example.inputs.items():
        flat[f"input.{name}"] = value
    for name, value in score.details.items():
        # Lists and mappings, such as the probabilities of all words, are left out; `lmassay export` writes them.
        if isinstance(value, str | int | float):
            flat[f"detail.{name}"] = value
    flat["reference"] = example.reference
    flat["answer"] = _answer(row, exchanges)
    flat["unscored"] = dict(score.unscored) or None
    flat["error"] = row.error
    return flat


def _answer(row: Row, exchanges: Sequence[tuple[Mapping[str, Any], Response]]) -> Any:
    """The text that the model generated, or a list of several; if there is none, the answer in the score's details."""
    texts = [response.answer for _, response in exchanges if isinstance(response.answer, str)]
    if len(texts) == 1:
        return texts[0]
    if texts:
        return texts
    details = row.score.details
    return details.get("raw", details.get("answer"))


def _columns(rows: Iterable[Mapping[str, Any]], first: Sequence[str], last: Sequence[str]) -> dict[str, list[Any]]:
    """Convert rows to columns of equal length. ``first`` and ``last`` name the columns at the beginning and the end."""
    columns: dict[str, list[Any]] = {name: [] for name in (*first, *last)}
    count = 0
    for row in rows:
        for name, value in row.items():
            column = columns.setdefault(name, [])
            # Earlier rows without this value get None.
            column.extend([None] * (count - len(column)))
            column.append(value)
        count += 1
    for column in columns.values():
        column.extend([None] * (count - len(column)))
    middle = [name for name in columns if name not in first and name not in last]
    # Sort the columns by prefix. The sort is stable, so columns with the same prefix stay in the order in which they
    # first appear.
    middle.sort(key=lambda name: _PREFIXES.index(name.partition(".")[0]))
    ordered: dict[str, list[Any]] = {}
    for name in (*first, *middle, *last):
        ordered[name] = _uniform(columns[name])
    return ordered


def _uniform(values: Sequence[Any]) -> list[Any]:
    """Return a column of one type: numbers or truth values unchanged, everything else as texts."""
    present = [value for value in values if value is not None]
    types_present = {type(value) for value in present}
    # In Python, bool is a subclass of int; here, a column with both is not a column of numbers.
    are_bools = types_present <= {bool}
    are_numbers = all(issubclass(kind, int | float) and kind is not bool for kind in types_present)
    if are_bools or are_numbers:
        return list(values)
    column: list[Any] = []
    for value in values:
        if value is not None and not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False)
        column.append(value)
    return column
