"""The content of a report as blocks, for all formats except the HTML page: a chapter per task, and a list of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.errors import UserError
from lmassay.plugins.evaluations import variation_of
from lmassay.reporting.blocks import Block, Figure, Figures, Folded, Heading, Note, Section
from lmassay.reporting.comparison_tables import differences_table, ranking_table
from lmassay.reporting.numbers import unscored_text
from lmassay.reporting.run_labels import label_runs
from lmassay.reporting.run_table import TableLayout, run_table
from lmassay.reporting.sections import section_of
from lmassay.reporting.tiles import overview_table
from lmassay.reporting.variants import group_variants
from lmassay.statistics import ALPHA
from lmassay.statistics.comparison import Comparison, compare_runs, pairing_of
from lmassay.statistics.pairing import share_examples
from lmassay.statistics.ranking import rankings
from lmassay.statistics.sides import Side, comparable_sides, load_side
from lmassay.storage.provenance import started_by
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

DAMAGED_RUNS = "Damaged runs"
"""The title above the runs that are damaged."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A title and the blocks under it."""

    title: str
    blocks: Sequence[Block]
    is_overview: bool = False
    """Whether it answers the question of each evaluation in one line."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The file of a figure: its path as the report refers to it, and the title of the figure."""

    path: str
    title: str


Pictures = Mapping[str, Picture]
"""The drawing of a figure → its picture."""


def chapters(store: Store, records: Sequence[RunRecord], layout: TableLayout | None = None) -> list[Chapter]:
    """Return the report as chapters: the overview, one chapter for each task, and the runs with their signatures.

    ``layout`` adds a table that the user configured, before all others.
    """
    if not records:
        raise UserError("there are no runs to report; see `lmassay ls`")
    report = []
    damaged = [record for record in records if record.status == DAMAGED]
    records = [record for record in records if record.status != DAMAGED]
    # Labels depend on which runs are shown together, so damaged runs must not influence them.
    labelled = label_runs(records)
    if layout is not None:
        report.append(Chapter("Table", [run_table(store, labelled.records, layout).block()]))
    overview = overview_table(store, records) if records else []
    if overview:
        report.append(Chapter("Overview", overview, is_overview=True))
    for task in dict.fromkeys(record.task for record in records):
        members = [record for record in labelled.records if record.task == task]
        blocks = task_blocks(store, members, section_of(store, members), labelled.notes_on(task))
        report.append(Chapter(task, list(blocks)))
    if damaged:
        report.append(Chapter(DAMAGED_RUNS, damage_notes(damaged)))
    if records:
        report.append(Chapter("Runs", list(_run_notes(labelled.records))))
    return report


def damage_notes(records: Sequence[RunRecord]) -> list[Block]:
    """Return a sentence about each damaged run. These are in no table, because their stored data are unreliable."""
    return [Note(f"{record.id} is damaged: {record.note}.") for record in records]


def figures_in(blocks: Sequence[Block]) -> Iterator[Figure]:
    """Yield all figures among the blocks, including those inside folded blocks."""
    for block in blocks:
        if isinstance(block, Figures):
            yield from block.figures
        elif isinstance(block, Folded):
            yield from figures_in(block.blocks)


def without_missing_figures(blocks: Sequence[Block], pictures: Pictures) -> list[Block]:
    """Return the blocks without figures that have no file, and without headings and notes that are only about these."""
    kept: list[Block] = []
    lacks_figures = False
    for block in blocks:
        if isinstance(block, Heading):
            _drop_empty_heading(kept, lacks_figures)
            lacks_figures = False
        shown: Block | None = block
        if isinstance(block, Figures):
            drawn = [figure for figure in block.figures if figure.drawing in pictures]
            shown = replace(block, figures=drawn) if drawn else None
        elif isinstance(block, Folded):
            inner = without_missing_figures(block.blocks, pictures)
            shown = replace(block, blocks=inner) if inner else None
        if shown is not None:
            kept.append(shown)
            continue
        lacks_figures = True
        if kept and isinstance(kept[-1], Note) and kept[-1].explains_figures:
            kept.pop()
    _drop_empty_heading(kept, lacks_figures)
    return kept


def _drop_empty_heading(blocks: list[Block], lacks_figures: bool) -> None:
    """Remove the last block if it is a heading below which all figures are missing."""
    if lacks_figures and blocks and isinstance(blocks[-1], Heading):
        blocks.pop()


def task_blocks(
    store: Store, records: Sequence[RunRecord], section: Section, notes: Sequence[str] = ()
) -> Iterator[Block]:
    """Yield the notes, the section of a task, the errors of its runs, and the comparison of its runs."""
    for note in notes:
        yield Note(note)
    yield from section.blocks
    yield from problem_blocks(store, records, section)
    yield from comparison_blocks(store, records, section)


def problem_blocks(store: Store, records: Sequence[RunRecord], section: Section) -> Iterator[Block]:
    """Yield what the tables do not show: runs without results, errors, and why examples have no score."""
    # A run without results is in no table, but readers must learn that it exists.
    without_results = [record for record in records if not record.results]
    if len(without_results) == 1:
        (record,) = without_results
        yield Note(f"{record.title} has no results; its status is {record.status}.")
    elif without_results:
        titles_by_status: dict[str, list[str]] = {}
        for record in without_results:
            titles_by_status.setdefault(record.status, []).append(record.title)
        parts = [f"{status}: {', '.join(titles)}" for status, titles in titles_by_status.items()]
        yield Note(f"{counted(len(without_results), 'run')} have no results ({'; '.join(parts)}).")
    if not section.lists_errors:
        for record in records:
            yield from _error_blocks(store, record)
    for record in records:
        reasons = unscored_text(store.unscored_reasons(record))
        if reasons:
            yield Note(f"Unscored {record.unit}s of {record.title}: {reasons}.")


def _error_blocks(store: Store, record: RunRecord) -> Iterator[Block]:
    """Yield the error messages of a run, each with how often it occurred."""
    errors = store.errors(record.id)
    if errors:
        yield Heading(f"Errors of {record.title}", is_open=True)
    for message, times in errors:
        yield Note(f"{times} × {message}")


def comparison_blocks(store: Store, records: Sequence[RunRecord], section: Section) -> Iterator[Block]:
    """Yield tables that compare each run with the first and with the best, on the examples that they share.

    A note names the runs that share no example with the first one.
    """
    section_compares_runs = section.compared is not None and not section.compared
    if len(records) == 1 or section_compares_runs:
        return
    # The first run is the base, as in `lmassay compare`.
    base, *others = comparable_sides([load_side(store, record) for record in records])
    # A task that declares no headline is compared by all of its metrics.
    metrics = section.compared or base.record.design.headline or base.table.metrics
    scored_ids = {metric: set(base.table.by_id(metric)) for metric in metrics}
    comparable: list[Side] = []
    unrelated: list[str] = []
    for other in others:
        if not share_examples(base, other):
            # A run that has no examples yet has no results either; problem_blocks has reported it.
            if other.table.ids:
                unrelated.append(other.name)
            continue
        # Runs may share examples but no scores: in one of them, all of these examples may have errors.
        if _share_scores(scored_ids, other):
            comparable.append(other)
    rows: Sequence[Comparison] = []
    if comparable:
        rows = compare_runs(base, comparable, metrics)
    if rows:
        yield Heading(f"Against {rows[0].base_label}")
        pairing = pairing_of([(base, other) for other in comparable], rows)
        yield differences_table(rows, pairing, section.comparison_note)
        sides = [base, *comparable]
        names = {side.record.id: side.name for side in sides}
        ranking: list[Block] = []
        if not _has_pooled_variants([side.record for side in sides]):
            ranking = ranking_table(rankings(sides, rows, ALPHA), names.__getitem__, ALPHA)
        if ranking:
            yield Heading("Against the best")
            yield from ranking
    if unrelated:
        yield Note(f"Not compared with {base.name}, because they share no example with it: {', '.join(unrelated)}.")


def _has_pooled_variants(records: Sequence[RunRecord]) -> bool:
    """Return whether some of the runs are variants of one question whose results are pooled, such as several attacks.

    They are not rivals: the "best" of several attacks would be the weakest one.
    """
    if not variation_of(records[0]).pooled:
        return False
    return any(len(variants) > 1 for variants in group_variants(records))


def _share_scores(scored_ids: Mapping[str, set[str]], other: Side) -> bool:
    """Return whether another run has a score of the same metric for at least one of these examples."""
    for metric, ids in scored_ids.items():
        if not ids.isdisjoint(other.table.by_id(metric)):
            return True
    return False


def _run_notes(records: Sequence[RunRecord]) -> Iterator[Note]:
    """Yield a sentence about each run, with its signature and its command."""
    yield Note("Each run with its signature, which names everything its numbers depend on, and with its command.")
    for record in records:
        command = started_by(record)
        yield Note(
            f"{record.id} ({record.status}): {record.task}, {record.title}. "
            f"Created {record.created}. Signature: {record.signature} Command: {command}{_annotation_text(record)}"
        )


def _annotation_text(record: RunRecord) -> str:
    text = ""
    if record.annotation.tags:
        text += f" Tags: {', '.join(record.annotation.tags)}."
    if record.annotation.note:
        text += f" Note: {' '.join(record.annotation.note.split())}"
    return text
