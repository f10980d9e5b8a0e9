"""What a report says, in blocks, for every format that is not the page: sections by task, and how the numbers came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lmassay.errors import UserError
from lmassay.reporting.blocks import (
    Block,
    Figure,
    Figures,
    Folded,
    Heading,
    Note,
    Section,
)
from lmassay.reporting.comparison_tables import differences_table, ranking_table
from lmassay.reporting.run_labels import label_runs
from lmassay.reporting.sections import section_of
from lmassay.reporting.tiles import overview_table
from lmassay.statistics.comparison import compare_runs, load_side, share_examples
from lmassay.statistics.gate import ALPHA
from lmassay.statistics.ranking import rankings
from lmassay.storage.provenance import command_line
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord


@dataclass(frozen=True, slots=True)
class Chapter:
    """A title and what stands under it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Picture:
    """The file of a figure, named as the report would name it, and what it shows."""

    path: str
    title: str


Pictures = Mapping[str, Picture]
"""The drawing of a figure → its picture."""


def chapters(store: Store, records: Sequence[RunRecord]) -> list[Chapter]:
    """What stands on top, a chapter for each task, and the runs with what their numbers were computed with."""
    if not records:
        raise UserError("there is nothing to report; see `lmassay ls`")
    overview = overview_table(store, records)
    found = [Chapter("Overview", overview)] if overview else []
    shown = label_runs(records)
    for task in dict.fromkeys(record.task for record in records):
        members = [record for record in shown.records if record.task == task]
        blocks = task_blocks(store, members, section_of(store, members), shown.notes_on(task))
        found.append(Chapter(task, list(blocks)))
    return [*found, Chapter("Runs", list(_runs(shown.records)))]


def figures_in(blocks: Sequence[Block]) -> Iterator[Figure]:
    """All figures, also those that the page folds."""
    for block in blocks:
        if isinstance(block, Figures):
            yield from block.figures
        elif isinstance(block, Folded):
            yield from figures_in(block.blocks)


def task_blocks(
    store: Store, records: Sequence[RunRecord], section: Section, notes: Sequence[str] = ()
) -> Iterator[Block]:
    """The section of a task, what went wrong, and its runs against the first; ``notes`` explain marks in labels."""
    yield from map(Note, notes)
    yield from section.blocks
    for record in records:
        if record.status == DAMAGED:
            yield Note(f"{record.label} on {record.model} is damaged: {record.note}.")
        elif not record.results:
            yield Note(f"{record.label} on {record.model} is {record.status} and has no results yet.")
    for record in () if section.tells_errors else records:
        if errors := store.errors(record.id):
            yield Heading(f"Errors of {record.label} on {record.model}")
            yield from (Note(f"{number} × {text}") for text, number in errors)
    yield from _compared(store, records, section)


def _compared(store: Store, records: Sequence[RunRecord], section: Section) -> Iterator[Block]:
    """Each run against the first, where they have scores of the same examples; and those that share no example."""
    if len(records) == 1 or (section.compared is not None and not section.compared):
        # An empty list: the section compares by itself what is worth it.
        return
    base, *others = [load_side(store, record) for record in records]
    shared = {other.record.id for other in others if share_examples(base, other)}
    wanted = section.compared or base.record.design.headline or base.table.metrics
    scored = {metric: set(base.table.by_id(metric)) for metric in wanted}
    both = [
        other
        for other in others
        if other.record.id in shared and any(not ids.isdisjoint(other.table.by_id(m)) for m, ids in scored.items())
    ]
    rows = compare_runs(base, both, wanted) if both else []
    if rows:
        yield Heading(f"Against {rows[0].base_label}")
        yield differences_table(rows, section.comparison_note)
        names = {side.record.id: side.name for side in (base, *both)}
        ranking = ranking_table(rankings([base, *both], rows, ALPHA), names.__getitem__, ALPHA)
        if ranking:
            yield Heading("Against the best")
            yield from ranking
    apart = [other.name for other in others if other.record.id not in shared and other.table.ids]
    if apart:
        yield Note(f"Not compared with {base.name}, for they share no example with it: {', '.join(apart)}.")


def _runs(records: Sequence[RunRecord]) -> Iterator[Note]:
    yield Note("Each run with the signature of what its numbers depend on, and the command that was given.")
    for record in records:
        command = command_line(*record.provenance.command)
        what = f"{record.id} ({record.status}): {record.task}, {record.label} on {record.model}"
        yield Note(f"{what}. Created {record.created}. Signature: {record.signature} Command: {command}")
