"""One self-contained HTML page of one or more runs: no network, no script but our own, everything escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

import lmassay
from lmassay.errors import UserError
from lmassay.plugins.evaluations import evaluation_of
from lmassay.reporting.browser import browser, browser_rows
from lmassay.reporting.formats.content import task_blocks
from lmassay.reporting.html_document import document, environment
from lmassay.reporting.run_labels import label_runs, run_titles
from lmassay.reporting.sections import section_of
from lmassay.reporting.tiles import anchor, overview_blocks
from lmassay.storage.provenance import command_line, rerun_command
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_CARD = "lmassay card"


def render(store: Store, records: Sequence[RunRecord]) -> str:
    """The page as text."""
    if not records:
        raise UserError("there is nothing to report; see `lmassay ls`")
    found = label_runs(records)
    # The overview pools runs, for which they must have their own labels; all else shows them beside each other.
    originals, records = records, found.records
    tasks = list(dict.fromkeys(record.task for record in records))
    titles = run_titles(records)
    examples = browser(
        row for record, title in zip(records, titles, strict=True) for row in browser_rows(store, record, title)
    )
    heading = _CARD if all(record.provenance.card is not None for record in records) else "lmassay report"
    models = list(dict.fromkeys(record.model for record in records))
    body = (
        environment()
        .get_template("page.html")
        .render(
            version=lmassay.__version__,
            heading=heading,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            models=models,
            overview=overview_blocks(store, originals),
            sections=[_section(store, [r for r in records if r.task == task], found.notes_on(task)) for task in tasks],
            browser=examples,
            records=records,
            provenance=[_provenance(store, *run) for run in zip(records, titles, strict=True)],
            json=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
        )
    )
    about = models if heading == _CARD else tasks
    return document(f"{heading}: {', '.join(about)}", Markup(body), browser=bool(examples))  # noqa: S704 - the template escaped it


def _provenance(store: Store, record: RunRecord, title: str) -> dict[str, Any]:
    counts = store.count(record.id)
    return {
        "record": record,
        "title": title,
        "counted": ", ".join(f"{number:,} {state}" for state, number in counts.items()),
        "command": command_line(*record.provenance.command),
        "again": rerun_command(record.id, store.folder),
    }


def _section(store: Store, records: Sequence[RunRecord], notes: Sequence[str]) -> dict[str, Any]:
    section = section_of(store, records)
    evaluation = evaluation_of(records[0])
    return {
        "task": records[0].task,
        "question": "" if evaluation is None else evaluation.question,
        "anchor": anchor(records[0].task),
        "blocks": [*task_blocks(store, records, section, notes), *section.examples],
    }
