"""The report page: one self-contained HTML file about one or more runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

import lmassay
from lmassay.errors import UserError
from lmassay.plugins.evaluations import evaluation_of
from lmassay.reporting.browser import BrowserRow, browser, browser_rows
from lmassay.reporting.example_choice import ChosenExamples, choose_examples
from lmassay.reporting.formats.content import DAMAGED_RUNS, damage_notes, task_blocks
from lmassay.reporting.headline import card_data_text
from lmassay.reporting.html_document import document, environment
from lmassay.reporting.run_labels import label_runs, run_titles
from lmassay.reporting.sections import section_of
from lmassay.reporting.tiles import anchor, overview_blocks
from lmassay.storage.provenance import rerun_command, started_by
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord

_CARD = "lmassay card"


def render(store: Store, records: Sequence[RunRecord]) -> str:
    """Render the page as an HTML document."""
    if not records:
        raise UserError("there are no runs to report; see `lmassay ls`")
    damaged = [record for record in records if record.status == DAMAGED]
    records = [record for record in records if record.status != DAMAGED]
    labelled = label_runs(records)
    records_by_task: dict[str, list[RunRecord]] = {}
    for record in labelled.records:
        records_by_task.setdefault(record.task, []).append(record)
    sections = []
    for task, members in records_by_task.items():
        sections.append(_section(store, members, labelled.notes_on(task)))
    if damaged:
        about_damage = {"task": DAMAGED_RUNS, "question": "", "anchor": "damaged", "blocks": damage_notes(damaged)}
        sections.append(about_damage)
    titles = run_titles(labelled.records)
    provenance = []
    for record, title in zip(labelled.records, titles, strict=True):
        provenance.append(_provenance(store, record, title))
    chosen = choose_examples(store, labelled.records)
    examples = browser(_chosen_rows(store, labelled.records, titles, chosen), total=chosen.total)
    models = list(dict.fromkeys(record.model for record in labelled.records))
    is_card = bool(records) and all(record.provenance.card is not None for record in labelled.records)
    heading = "lmassay report"
    about_data = ""
    subjects = list(records_by_task)
    if is_card:
        heading = _CARD
        about_data = card_data_text(labelled.records)
        # A card always has the same tasks, so its title names the models.
        subjects = models
    body = (
        environment()
        .get_template("page.html")
        .render(
            version=lmassay.__version__,
            heading=heading,
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            models=models,
            about_data=about_data,
            # The overview pools runs by their original labels; only the sections show runs next to each other.
            overview=overview_blocks(store, records) if records else [],
            sections=sections,
            browser=examples,
            records=labelled.records,
            provenance=provenance,
            json=_indented_json,
        )
    )
    subject = ", ".join(subjects)
    return document(f"{heading}: {subject}", Markup(body), browser=bool(examples))  # noqa: S704 - the template escaped it


def _chosen_rows(
    store: Store, records: Sequence[RunRecord], titles: Sequence[str], chosen: ChosenExamples
) -> Iterator[BrowserRow]:
    for record, title in zip(records, titles, strict=True):
        yield from browser_rows(store, record, title, chosen.by_run.get(record.id))


def _indented_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _provenance(store: Store, record: RunRecord, title: str) -> dict[str, Any]:
    counts = store.count(record.id)
    return {
        "record": record,
        "title": title,
        "counted": ", ".join(f"{number:,} {state}" for state, number in counts.items()),
        "command": started_by(record),
        "again": rerun_command(record, store.folder),
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
