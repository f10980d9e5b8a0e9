"""What ``lmassay ls`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from lmassay.cli.console import print_json, say
from lmassay.cli.damage import damage_messages, warn_about_damage
from lmassay.cli.run_tables import print_total_spending
from lmassay.cli.table_output import fits, print_sentence, print_table
from lmassay.errors import DamageError
from lmassay.reporting.numbers import short_text
from lmassay.reporting.run_labels import label_runs
from lmassay.reporting.run_order import SORT_KEYS, main_result, sorted_runs
from lmassay.storage.run_filter import RunFilter
from lmassay.storage.store import DAMAGED, Spending, Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

_MAX_NOTE_WIDTH = 40


def ls(selected: RunFilter, order: str, results: Path, as_json: bool) -> None:
    """List the runs in a results folder with their main result."""
    with Store(results, for_display=True) as store:
        all_runs = store.runs()
        runs = sorted_runs(selected.select(all_runs), order)
        messages = damage_messages(runs)
        spending = {record.id: _spending(store, record, messages) for record in runs}
    warn_about_damage(messages, results)
    if as_json:
        documents = []
        for record in runs:
            document = record.as_json()
            spent = spending[record.id]
            if spent is not None:
                document["spending"] = asdict(spent)
            documents.append(document)
        print_json({"runs": documents})
        return
    if all_runs and not runs:
        say(f"none of {counted(len(all_runs), 'run')} matches")
        for hint in selected.unmatched(all_runs):
            say(f"{hint} (* stands for any text)")
        return
    print_list(runs, None if order in SORT_KEYS else order)
    print_total_spending([spent for spent in spending.values() if spent is not None])


def _spending(store: Store, record: RunRecord, messages: list[str]) -> Spending | None:
    """Return what a run spent; None if nothing. If this cannot be read, add a message about the damage."""
    if record.status == DAMAGED:
        return None
    try:
        return store.spending(run=record.id)
    except DamageError as error:
        messages.append(str(error))
        return None


# --- the table --------------------------------------------------------------------------------------------------------


def print_list(runs: Sequence[RunRecord], metric: str | None = None) -> None:
    """Print runs, one per row, with their result for a metric; without a metric, with the main result of each run."""
    labelled = label_runs(runs)
    headers, rows = _table(labelled.records, metric, narrow=False)
    if not fits(headers, rows):
        headers, rows = _table(labelled.records, metric, narrow=True)
    print_table("", headers, rows, right=(headers.index("n"),), whole=(0,))
    for note in labelled.notes:
        print_sentence(note)


def _table(runs: Sequence[RunRecord], metric: str | None, *, narrow: bool) -> tuple[list[str], list[list[object]]]:
    """Return the headers and rows of the table, in the form for a wide or a narrow terminal."""
    has_tags = any(record.annotation.tags for record in runs)
    has_notes = any(record.annotation.note for record in runs)
    headers = ["run", "label", "status", "result", "n"]
    if not narrow:
        headers.insert(2, "model")
    if has_tags:
        headers.append("tags")
    if has_notes:
        headers.append("note")
    rows = []
    for record in runs:
        row = _row(record, narrow, metric)
        if has_tags:
            row.append(" ".join(record.annotation.tags))
        if has_notes:
            row.append(_shortened(record.annotation.note))
        rows.append(row)
    return headers, rows


def _row(record: RunRecord, narrow: bool, metric: str | None) -> list[object]:
    """Return the cells of a run, up to the column n."""
    label = f"{record.task}: {record.label}"
    if narrow:
        # The end of an id is enough to name a run. The model is printed below the label.
        name = f"{label}\n{record.model}" if record.has_model else label
        row: list[object] = [record.id.rpartition("-")[2], name]
    else:
        row = [record.id, label, record.model_cell]
    row.append(record.status)
    result = main_result(record) if metric is None else record.result(metric)
    if result is None:
        return [*row, "", ""]
    text = short_text(result, "\n" if narrow else " ")
    return [*row, f"{result.metric} {text}", result.n]


def _shortened(note: str) -> str:
    """Return the beginning of a note in one line; `lmassay show` prints all of it."""
    line = " ".join(note.split())
    if len(line) <= _MAX_NOTE_WIDTH:
        return line
    return f"{line[: _MAX_NOTE_WIDTH - 1].rstrip()}…"
