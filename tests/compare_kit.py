"""Runs to compare, in a moment: rows as a task leaves them, without a task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lmassay.statistics.paired_scores import ChangeCounts, count_changes
from lmassay.statistics.pairing import pairs_of
from lmassay.statistics.sides import Side, load_side
from lmassay.statistics.table import ScoreTable
from lmassay.storage.digests import STATE, state_digest
from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Result, Row, RunRecord, Score, provenance_from_dict

_NO_INTERVAL = {"low": None, "high": None, "n": 0}


def scored(i: object, groups: Mapping[str, str] | None = None, /, **scores: float) -> Row:
    """An example with scores, and an answer that tells them."""
    said = " ".join(f"{name} {value:g}" for name, value in scores.items())
    return Row(
        Example(str(i), {"question": f"question {i}"}, None, groups or {}),
        "scored",
        Score(scores, {}, {"answer": said}),
    )


def failed(i: object) -> Row:
    return Row(Example(str(i), {}), "error", error="HTTP 500")


def unscored(i: object, metric: str = "accuracy", groups: Mapping[str, str] | None = None) -> Row:
    return Row(Example(str(i), {}, None, groups or {}), "unscored", Score(unscored={metric: "refused"}))


def rates(values: Iterable[int], metric: str = "accuracy", groups: Sequence[Mapping[str, str]] = ()) -> list[Row]:
    """One example for each value, numbered from 0."""
    return [scored(i, groups[i] if groups else {}, **{metric: float(value)}) for i, value in enumerate(values)]


def set_created(folder: Path, run: str, time: str) -> None:
    """Record another time of creation, as if the clock had shown it."""
    with Store(folder, create=True) as store:
        database = store.database
        database.execute("UPDATE runs SET created = ? WHERE id = ?", (time, run))
        names = ("id", "status", "note", "created", "finished")
        (state,) = database.execute("SELECT id, status, note, created, finished FROM runs WHERE id = ?", (run,))
        database.set_digest(run, STATE, state_digest(dict(zip(names, state, strict=True))))


def add(folder: Path, run: str, rows: Iterable[Row], **more: Any) -> str:
    """Put a run into a results folder; ``more``: status, task, model, label, sweep …, and parts of the provenance."""
    status, note, task = more.pop("status", "done"), more.pop("note", ""), more.pop("task", "quiz")
    model, results = more.pop("model", f"model {run}"), more.pop("results", [])
    sweep, label = more.pop("sweep", run), more.pop("label", "label")
    config = {"confidence": 0.95, "resamples": 200, "seed": 0, **more.pop("config", {})}
    provenance = {"signature": {"data": "one"}, "command": ["run", "x.yaml"], **more}
    with Store(folder, create=True) as store:
        store.add_run(
            NewRun(run, sweep, "", task, model, label, config, "signature", provenance_from_dict(provenance), None)
        )
        store.add_rows(run, list(enumerate(rows)))
        store.set_results(run, [Result(**_NO_INTERVAL | result) for result in results])
        store.set_status(run, status, note)
    return run


def sides(folder: Path, *runs: str) -> list[Side]:
    with Store(folder) as store:
        return [load_side(store, store.run(run)) for run in runs]


def side(run: str, rows: Iterable[Row], **more: Any) -> Side:
    """A run that is in no folder."""
    status, note, task = more.pop("status", "done"), more.pop("note", ""), more.pop("task", "quiz")
    results = [Result(**_NO_INTERVAL | result) for result in more.pop("results", [])]
    config = {"confidence": 0.95, "resamples": 200, "seed": 0, **more.pop("config", {})}
    provenance = {"signature": {"data": "one"}, **more}
    names = (run, run, "", task, f"model {run}", "label", status)
    return Side(
        RunRecord(*names, config, "s", provenance_from_dict(provenance), results, note, None, "", None),
        ScoreTable(rows),
    )


def two(before: Iterable[Row], after: Iterable[Row], **more: Any) -> list[Side]:
    """A base run and a new one."""
    return [side("base", before, **more), side("new", after, **more)]


def counted_changes(before: Sequence[Any], after: Sequence[Any], **design: Any) -> ChangeCounts:
    """How many units changed in the metric "m"; rows are (template, scores), or None for an example with errors."""
    runs = []
    for rows in (before, after):
        made = [failed(i) if row is None else scored(i, {"template": row[0]}, **row[1]) for i, row in enumerate(rows)]
        runs.append(made)
    base, new = two(*runs, **design)
    pairs = pairs_of(base, new, "m")
    assert pairs is not None
    return count_changes(pairs)


def combined(
    terms: Mapping[str, float],
    *,
    constant: float = 0.0,
    each: str | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
) -> dict[str, Any]:
    """The combination of columns that the metric "m" is, as a design declares it."""
    return {"m": {"terms": terms, "constant": constant, "each": each, "bounds": list(bounds)}}
