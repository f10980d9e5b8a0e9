"""The section of a task that the page knows nothing about: one table a run, one row a result."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.reporting.blocks import Body, Cell, Line, Section, Table, count, name
from lmassay.reporting.numbers import interval_text, value_text
from lmassay.storage.store import Store
from lmassay.types import Result, RunRecord


def section(_: Store, records: Sequence[RunRecord]) -> Section:
    return Section([results_table(record, record.results) for record in records if record.results])


def results_table(record: RunRecord, results: Sequence[Result]) -> Table:
    lines = [
        Line(
            [
                name(r.metric),
                Cell(r.group, kind="text"),
                Cell(value_text(r)),
                Cell(interval_text(r)),
                count(r.n),
                count(r.n_error),
                count(r.n_unscored),
            ]
        )
        for r in results
    ]
    texts, numbers = ("metric", "group"), ("value", "interval", "n", "errors", "unscored")
    head = [*(Cell(title, kind="text") for title in texts), *map(Cell, numbers)]
    return Table(f"{record.label} on {record.model}", [head], [Body(lines)])
