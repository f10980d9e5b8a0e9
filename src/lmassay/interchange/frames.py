"""Runs as data frames of pandas or polars, both optional: the same columns either way.

A column holds numbers, or truth values, or texts, never a mixture: what is neither is written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from lmassay.errors import MissingExtra, UserError
from lmassay.storage.store import Store
from lmassay.types import Response, Row, RunRecord

Library = Literal["pandas", "polars"]
_FIRST = ("id", "state")
_LAST = ("reference", "answer", "unscored", "error")
_RESULT = ("metric", "group", "value", "low", "high", "n", "n_error", "n_unscored", "method", "clusters")


def example_columns(store: Store, run: str) -> dict[str, list[Any]]:
    """One row an example: ``id``, ``state``, ``score.*``, ``group.*``, ``input.*``, reference, answer, error."""
    pairs = zip(store.rows(run), store.requests_and_responses(run), strict=True)
    return _columns((_flat(row, asked) for row, (_, asked) in pairs), _FIRST, _LAST)


def result_columns(records: Iterable[RunRecord]) -> dict[str, list[Any]]:
    """One row a result of each run: which run, task and model, then the number with what it rests on."""
    rows = (
        {"run": r.id, "task": r.task, "label": r.label, "model": r.model, "status": r.status, **result.as_dict()}
        for r in records
        for result in r.results
    )
    return _columns(rows, ("run", "task", "label", "model", "status", *_RESULT), ())


def frame(columns: Mapping[str, Sequence[Any]], library: Library) -> Any:
    """The columns as a ``DataFrame`` of the library; one that is not installed is named with the pip command."""
    if library == "pandas":
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("a pandas data frame", "tables") from error
        return pandas.DataFrame(dict(columns))
    if library != "polars":
        raise UserError(f"there is no library '{library}' for data frames; known: pandas, polars")
    try:
        import polars
    except ModuleNotFoundError as error:
        raise MissingExtra("a polars data frame", "tables") from error
    return polars.DataFrame(dict(columns), strict=False, infer_schema_length=None)


def _flat(row: Row, asked: Sequence[tuple[Mapping[str, Any], Response]]) -> dict[str, Any]:
    example, score = row.example, row.score
    texts = [response.answer for _, response in asked if isinstance(response.answer, str)]
    answer: Any = texts[0] if len(texts) == 1 else texts or score.details.get("raw", score.details.get("answer"))
    return {
        "id": example.id,
        "state": row.state,
        **{f"score.{name}": float(value) for name, value in score.values.items()},
        **{f"group.{name}": str(label) for name, label in example.groups.items()},
        **{f"input.{name}": value for name, value in example.inputs.items()},
        "reference": example.reference,
        "answer": answer,
        "unscored": dict(score.unscored) or None,
        "error": row.error,
    }


def _columns(rows: Iterable[Mapping[str, Any]], first: Sequence[str], last: Sequence[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in (*first, *last)}
    count = 0
    for count, row in enumerate(rows, 1):
        for name, value in row.items():
            found.setdefault(name, []).extend([None] * (count - 1 - len(found.get(name, ()))))
            found[name].append(value)
    for values in found.values():
        values.extend([None] * (count - len(values)))
    middle = sorted((name for name in found if name not in first and name not in last), key=_kind)
    return {name: _uniform(found[name]) for name in (*first, *middle, *last)}


def _kind(name: str) -> int:
    """Scores before groups before inputs, each in the order in which they came."""
    return ("score", "group", "input").index(name.partition(".")[0])


def _uniform(values: Sequence[Any]) -> list[Any]:
    """A column of one kind: numbers or truth values as they are, anything else as text."""
    present = [value for value in values if value is not None]
    are_bools = all(isinstance(value, bool) for value in present)
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in present)
    if are_bools or are_numbers:
        return list(values)
    column: list[Any] = []
    for value in values:
        is_text = value is None or isinstance(value, str)
        column.append(value if is_text else _json(value))
    return column


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
