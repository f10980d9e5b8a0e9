"""One self-contained HTML page of one or more runs: no network, no script but our own, everything escaped."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

import lmassay
from lmassay.comparison import Comparison, compare_runs, load_side, share_examples
from lmassay.errors import UserError
from lmassay.report.browser import browser, shown_rows
from lmassay.report.parts import Block
from lmassay.report.sections import section_of
from lmassay.report.shell import document, environment
from lmassay.store import RunRecord, Store


def render(store: Store, records: Sequence[RunRecord], *, overview: Sequence[Block] = ()) -> str:
    """The page as text; ``overview`` is what stands on top."""
    if not records:
        raise UserError("there is nothing to report; see `lmassay ls`")
    tasks = list(dict.fromkeys(record.task for record in records))
    titles = run_titles(records)
    examples = browser(
        row for record, title in zip(records, titles, strict=True) for row in shown_rows(store, record, title)
    )
    body = (
        environment()
        .get_template("page.html")
        .render(
            version=lmassay.__version__,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            models=list(dict.fromkeys(record.model for record in records)),
            overview=overview,
            sections=[_section(store, [r for r in records if r.task == task]) for task in tasks],
            browser=examples,
            records=records,
            provenance=[_provenance(store, *run) for run in zip(records, titles, strict=True)],
            json=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
        )
    )
    title = f"lmassay report: {', '.join(tasks)}"
    return document(title, Markup(body), browser=bool(examples))  # noqa: S704 - the template escaped it


def run_titles(records: Sequence[RunRecord]) -> list[str]:
    """What a run is called wherever runs of several tasks stand together."""
    names = [f"{record.label} on {record.model}" for record in records]
    return [
        name if names.count(name) == 1 else f"{name} ({record.id.rpartition('-')[2]})"
        for name, record in zip(names, records, strict=True)
    ]


def _provenance(store: Store, record: RunRecord, title: str) -> dict[str, Any]:
    counts = store.count(record.id)
    folder = shlex.quote(str(store.folder))
    return {
        "record": record,
        "title": title,
        "counted": ", ".join(f"{number:,} {state}" for state, number in counts.items()),
        "command": shlex.join(["lmassay", *record.provenance.get("command", ())]),
        "again": f"lmassay show {record.id} --results {folder} --yaml > run.yaml && lmassay run run.yaml",
    }


def _section(store: Store, records: Sequence[RunRecord]) -> dict[str, Any]:
    section = section_of(store, records)
    comparisons, apart = _compared(store, records, section.compared)
    return {
        "task": records[0].task,
        "anchor": "evaluation-" + re.sub(r"\W+", "-", records[0].task),
        "records": records,
        "errors": {record.id: [] if section.tells_errors else store.errors(record.id) for record in records},
        "blocks": section.blocks,
        "examples": section.examples,
        "comparisons": comparisons,
        "comparison_note": section.comparison_note,
        "apart": apart,
    }


def _compared(
    store: Store, records: Sequence[RunRecord], metrics: Sequence[str] | None
) -> tuple[list[Comparison], list[str]]:
    """Each run against the first, where they have scores of the same examples; and those that share no example."""
    if len(records) == 1 or (metrics is not None and not metrics):
        # An empty list: the section compares by itself what is worth it.
        return [], []
    base, *others = [load_side(store, record) for record in records]
    shared = {other.record.id for other in others if share_examples(base, other)}
    apart = [other.name for other in others if other.record.id not in shared and other.table.ids]
    wanted = metrics or base.record.provenance.get("headline") or base.table.metrics
    scored = {metric: set(base.table.by_id(metric)) for metric in wanted}
    both = [
        other
        for other in others
        if other.record.id in shared and any(not ids.isdisjoint(other.table.by_id(m)) for m, ids in scored.items())
    ]
    return (compare_runs(base, both, wanted) if both else []), apart
