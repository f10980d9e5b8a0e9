"""The report page: one self-contained HTML file about one or more runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

import lmassay
from lmassay.errors import UserError
from lmassay.plugins.evaluations import evaluation_of
from lmassay.reporting.blocks import Block, Folded, Heading, Note, Tile, Tiles
from lmassay.reporting.browser import BrowserRow, browser, browser_rows
from lmassay.reporting.example_choice import ChosenExamples, choose_examples
from lmassay.reporting.formats.content import DAMAGED_RUNS, comparison_blocks, damage_notes, problem_blocks
from lmassay.reporting.headline import card_data_text
from lmassay.reporting.html_document import document, environment
from lmassay.reporting.numbers import minus
from lmassay.reporting.run_labels import LabelledRuns, label_runs, run_titles
from lmassay.reporting.run_table import TableLayout, run_table
from lmassay.reporting.sections import section_of
from lmassay.reporting.summary import summary_tables
from lmassay.reporting.tiles import anchor, overview_tiles
from lmassay.reporting.units import counted_units, shared_unit
from lmassay.storage.provenance import rerun_command, started_by
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord
from lmassay.types.wording import NO_MODEL, counted, enumerated

_CARD = "lmassay card"
_REPORT = "lmassay report"
_MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class PagePart:
    """Blocks of a section that are shown together.

    A part with a title is closed until readers open it, unless ``is_open``; a part without a title is always visible. A
    title without blocks is a heading for the parts that follow.
    """

    blocks: list[Block]
    title: str = ""
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of the page. It is closed until readers open it, unless ``is_open``.

    ``gist`` is the line of main numbers that a closed section shows below its title.
    """

    title: str
    question: str
    anchor: str
    parts: Sequence[PagePart]
    gist: str = ""
    is_open: bool = False


def render(store: Store, records: Sequence[RunRecord], layout: TableLayout | None = None) -> str:
    """Render the page as an HTML document; ``layout`` adds a table that the user configured."""
    if not records:
        raise UserError("there are no runs to report; see `lmassay ls`")
    damaged = [record for record in records if record.status == DAMAGED]
    records = [record for record in records if record.status != DAMAGED]
    labelled = label_runs(records)
    titles = run_titles(labelled.records)
    is_card = bool(records) and all(record.provenance.card is not None for record in labelled.records)
    tiles: list[Tile] = []
    below_tiles: list[Block] = []
    if records:
        # Tiles get the records with the labels that the store has. The longer labels of `label_runs`, which distinguish
        # runs that are shown next to each other, are only for the tables and sections.
        # A card has no open table with a status column, so a note below its tiles names the incomplete runs.
        tiles, below_tiles = overview_tiles(store, records, names_unfinished=is_card)
    records_by_task: dict[str, list[RunRecord]] = {}
    for record in labelled.records:
        records_by_task.setdefault(record.task, []).append(record)
    sections = []
    for task, members in records_by_task.items():
        sections.append(_section(store, members, labelled.notes_on(task), tiles, with_tiles=not is_card))
    if damaged:
        sections.append(PageSection(DAMAGED_RUNS, "", "damaged", [PagePart(damage_notes(damaged))], is_open=True))
    provenance = []
    for record, title in zip(labelled.records, titles, strict=True):
        provenance.append(_provenance(store, record, title))
    chosen = choose_examples(store, labelled.records)
    unit = shared_unit(labelled.records)
    examples = browser(_chosen_rows(store, labelled.records, titles, chosen), unit=unit, total=chosen.total)
    models = list(dict.fromkeys(record.model for record in labelled.records))
    heading = _CARD if is_card else _REPORT
    # A card always has the same tasks, so its title names the models.
    subjects = models if is_card else list(records_by_task)
    body = (
        environment()
        .get_template("page.html")
        .render(
            version=lmassay.__version__,
            heading=heading,
            subject=_subject(subjects, models, is_card=is_card),
            written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            about=_counts_and_days(store, labelled.records),
            about_data=card_data_text(labelled.records) if is_card else "",
            summary=_summary(store, labelled, titles, tiles, below_tiles, layout, is_card=is_card),
            links=_links(sections, unit if examples else ""),
            sections=sections,
            browser=examples,
            provenance=provenance,
            json=_indented_json,
        )
    )
    title = f"{heading}: {', '.join(subjects)}"
    return document(title, Markup(body), sections=True, browser=bool(examples))  # noqa: S704 - the template escaped it


def _links(sections: Sequence[PageSection], unit: str) -> list[tuple[str, str]]:
    """Return the table of contents: (anchor, title) of each section; ``unit`` is empty if there are no examples."""
    links = [("overview", "Summary")]
    links += [(section.anchor, section.title) for section in sections]
    if unit:
        links.append(("examples", f"{unit.capitalize()}s"))
    links.append(("provenance", "Provenance"))
    return links


def _subject(subjects: Sequence[str], models: Sequence[str], *, is_card: bool) -> str:
    """Return the text of the page's main heading: the tasks and models that it is about."""
    if not models:
        return ""
    if is_card:
        return enumerated(models, _MAX_NAMES)
    named_models = [model for model in models if model != NO_MODEL]
    if not named_models:
        return enumerated(subjects, _MAX_NAMES)
    return f"{enumerated(subjects, _MAX_NAMES)} of {enumerated(named_models, _MAX_NAMES)}"


def _counts_and_days(store: Store, records: Sequence[RunRecord]) -> str:
    """Return how many runs and examples the page covers, and the days on which the runs were started."""
    counts: dict[str, int] = {}
    for record in records:
        counts[record.unit] = counts.get(record.unit, 0) + sum(store.count(record.id).values())
    days = sorted({record.created[:10] for record in records})
    parts = [counted(len(records), "run"), counted_units(counts)]
    if days:
        parts.append(days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}")
    return ", ".join(parts)


def _summary(
    store: Store,
    labelled: LabelledRuns,
    titles: Sequence[str],
    tiles: Sequence[Tile],
    below_tiles: Sequence[Block],
    layout: TableLayout | None,
    *,
    is_card: bool,
) -> list[Block]:
    """Return what readers see first: the table of all runs or, on a card, a tile with the answer to each question."""
    blocks: list[Block] = []
    if layout is not None:
        blocks.append(run_table(store, labelled.records, layout).block())
    tables = summary_tables(store, labelled.records, titles)
    notes = [block for block in below_tiles if isinstance(block, Note)]
    differences = [block for block in below_tiles if not isinstance(block, Note)]
    if is_card:
        if tiles:
            blocks.append(Tiles(tiles))
        blocks += below_tiles
        blocks.append(Folded(f"All runs ({len(labelled.records)})", tables))
        return blocks
    blocks += tables
    # All other tiles are shown in their sections.
    without_section = [tile for tile in tiles if not tile.anchor]
    if without_section:
        blocks.append(Tiles(without_section))
    blocks += notes
    if differences:
        blocks.append(Folded("Differences between models", differences))
    return blocks


def _chosen_rows(
    store: Store, records: Sequence[RunRecord], titles: Sequence[str], chosen: ChosenExamples
) -> Iterator[BrowserRow]:
    for record, title in zip(records, titles, strict=True):
        yield from browser_rows(store, record, title, chosen.by_run.get(record.id))


def _indented_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _state_text(state: str, number: int) -> str:
    """Return how many examples are in a state, such as ``3 scored`` or ``2 errors``."""
    return counted(number, "error") if state == "error" else f"{number:,} {state}"


def _provenance(store: Store, record: RunRecord, title: str) -> dict[str, Any]:
    counts = store.count(record.id)
    return {
        "record": record,
        "title": title,
        "counted": ", ".join(_state_text(state, number) for state, number in counts.items()),
        "command": started_by(record),
        "again": rerun_command(record, store.folder),
    }


def _section(
    store: Store, records: Sequence[RunRecord], notes: Sequence[str], tiles: Sequence[Tile], *, with_tiles: bool
) -> PageSection:
    """Return the section of a task; ``with_tiles`` shows its tiles at the beginning (on a card, they are above)."""
    section = section_of(store, records)
    evaluation = evaluation_of(records[0])
    section_anchor = anchor(records[0].task)
    own_tiles = [tile for tile in tiles if tile.anchor == section_anchor]
    beginning: list[Block] = [Note(note) for note in notes]
    if own_tiles and with_tiles:
        # Inside its section, a tile needs no link to the section.
        beginning.insert(0, Tiles([replace(tile, anchor="") for tile in own_tiles]))
    # Problems come first. If they came after the tables, they would belong to the last part of the tables, which is
    # usually closed.
    parts = parts_of(beginning)
    for blocks in (problem_blocks(store, records, section), section.blocks, comparison_blocks(store, records, section)):
        parts += parts_of(blocks)
    parts.append(PagePart(list(section.examples)))
    question = "" if evaluation is None else evaluation.question
    gist = _gist(_tiles_of_section(tiles, section_anchor))
    return PageSection(records[0].task, question, section_anchor, parts, gist=gist)


def _tiles_of_section(tiles: Sequence[Tile], section_anchor: str) -> list[Tile]:
    """Return the tiles that link to a section. On a card, ``further`` tiles of a tile may link to other sections."""
    own = []
    for tile in tiles:
        own += [candidate for candidate in (tile, *tile.further) if candidate.anchor == section_anchor]
    return own


def _gist(tiles: Sequence[Tile]) -> str:
    """Return the main numbers of a section in one line, which is shown while the section is closed."""
    if not tiles:
        return ""
    tile = tiles[0]
    texts = []
    for entry in tile.entries[:_MAX_NAMES]:
        text = f"{entry.model} {minus(entry.value)} {minus(entry.interval)}".strip()
        # The number may cover fewer examples than the run's row in the summary, such as only those that an attack
        # changed.
        about = entry.scope or entry.reason
        texts.append(f"{text} ({about})" if about else text)
    if len(tile.entries) > _MAX_NAMES:
        texts.append(f"{len(tile.entries) - _MAX_NAMES} more")
    return f"{tile.title.partition(';')[0]}: {', '.join(filter(None, texts))}"


def parts_of(blocks: Iterable[Block]) -> list[PagePart]:
    """Divide blocks into parts; each heading begins a new part, which readers can open separately."""
    parts = [PagePart([])]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(PagePart([], block.text, is_open=block.is_open))
        else:
            parts[-1].blocks.append(block)
    return [part for part in parts if part.blocks or part.title]
