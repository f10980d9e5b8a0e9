"""The robustness section: attack table, success rates, scatter of source against target, examples."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    DisplayedExample,
    Examples,
    Figure,
    Figures,
    Note,
    Section,
    Table,
    TableRow,
    count,
    measured,
    name,
)
from lmassay.reporting.chart import (
    Category,
    CategoryAxis,
    Chart,
    Dot,
    HalfPlane,
    Interval,
    LinearAxis,
    Mark,
    Panel,
)
from lmassay.reporting.example_texts import Exchanges, NamedValues, answer_at, prompt_text
from lmassay.reporting.numbers import number_text, short_text, value_text
from lmassay.reporting.sections import results_section as results_as_they_are
from lmassay.storage.store import Store
from lmassay.types import Result, Row, RunRecord

MOST_SCATTERS = 12
MOST_POINTS = 1500
MOST_EXAMPLES = 8
_METRICS = ("success", "s_src", "d_tgt", "s_tgt", "signed_drop", "turned_wrong", "unchanged")
_TITLES = {
    "success": "success",
    "s_src": "s_src (source kept)",
    "d_tgt": "d_tgt (target destroyed)",
    "s_tgt": "s_tgt (target kept)",
    "signed_drop": "signed drop",
    "turned_wrong": "right to wrong",
    "unchanged": "unchanged",
}
_CAPTION = (
    "Each cell: value, and its interval below. Errors and unscored examples are left out of n, never counted as "
    "failures."
)
_EXPLAINED = {
    "turned_wrong": "Right to wrong: the share of right answers that turn wrong; unchanged inputs are not counted.",
    "unchanged": "Unchanged: the share of inputs that the attack left unchanged.",
}


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """Attacks by system, where they hit, and the sentences hit hardest; the first dozen runs with scatter and texts."""
    metrics = columns(records)
    if not metrics:
        return results_as_they_are(store, records)
    shown = [(record, glance(store.rows(record.id))) for record in records[:MOST_SCATTERS]]
    rates = success_figure(records)
    scatters = [figure for record, seen in shown if (figure := scatter_figure(record, seen))]
    blocks: list[Block] = [_table(store, records, metrics)]
    blocks += [Figures([rates], "middle")] if rates else []
    blocks += [Figures(scatters)] if scatters else []
    if left_out := len(records) - len(shown):
        blocks.append(Note(f"{left_out} further runs have no scatter here; report them by themselves."))
    found = [(record, examples(seen)) for record, seen in shown]
    texts = [
        Examples(f"Where {record.label} on {record.model} did most ({len(some)} sentences)", some)
        for record, some in found
        if some
    ]
    return Section(blocks, texts, compared=[metric for metric, _ in metrics])


def _table(store: Store, records: Sequence[RunRecord], metrics: Sequence[tuple[str, str]]) -> Table:
    head = [Cell("attack", kind="text"), Cell("system", kind="text"), *(Cell(title) for _, title in metrics)]
    lines = []
    for record in records:
        counts = store.count(record.id)
        cells = [name(record.label), Cell(record.model, kind="text")]
        cells += [_cell(metric, record.result(metric)) for metric, _ in metrics]
        lines.append(TableRow([*cells, *(count(counts[state]) for state in ("scored", "error", "unscored"))]))
    caption = " ".join([_CAPTION, *(_EXPLAINED[metric] for metric, _ in metrics if metric in _EXPLAINED)])
    return Table(caption, [[*head, Cell("n"), Cell("errors"), Cell("unscored")]], [Body(lines)])


def _cell(metric: str, result: Result | None) -> Cell:
    """A value with its interval; of the inputs that were unchanged only the share, which describes the data."""
    if metric == "unchanged" and result is not None:
        return Cell(value_text(result, 3))
    return measured(result)


def columns(records: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """The metrics that at least one run has, with their titles."""
    present = {result.metric for record in records for result in record.results}
    if "turned_wrong" in present:
        # Of answers that are right or wrong, the signed drop says little more, and the table is wide enough.
        present.discard("signed_drop")
    return [(metric, _TITLES[metric]) for metric in _METRICS if metric in present]


def success_figure(records: Sequence[RunRecord]) -> Figure | None:
    """Success rates with intervals, one row a run."""
    rates: list[tuple[str, Result]] = []
    for record in records:
        result = record.result("success")
        if result is not None:
            rates.append((f"{record.label} · {record.model}", result))
    if not rates:
        return None
    drawing = success_chart(rates).svg()
    return Figure(drawing, "Share of sentences on which the attack succeeds, with its interval (the line).")


def success_chart(rates: Sequence[tuple[str, Result]]) -> Chart:
    """A row for each label with its result."""
    rows: list[Category] = []
    marks: list[Mark] = []
    for row, (label, result) in enumerate(rates):
        rows.append(Category(label, note=short_text(result)))
        if result.low is not None and result.high is not None:
            marks.append(Interval(result.low, result.high, row, style="whisker"))
        if result.value is not None:
            marks.append(Dot(result.value, row, style="value", radius=4.5))
    panel = Panel(y=CategoryAxis(rows), x=LinearAxis("success rate"), marks=marks)
    return Chart("Success rate of each attack with its interval", [panel])


@dataclass(frozen=True, slots=True)
class Glance:
    """What the page shows of a run's rows: a fair sample for the scatter, and the sentences hit hardest."""

    scored: int
    sample: Sequence[Row]
    hardest: Sequence[Row]


def glance(rows: Iterable[Row]) -> Glance:
    """Read the rows once and keep few of them, however many there are."""
    rng = random.Random(0)
    count = 0
    sample: list[Row] = []
    hardest: list[tuple[float, int, Row]] = []
    for row in rows:
        if row.state != "scored":
            continue
        count += 1
        if len(sample) < MOST_POINTS:
            sample.append(row)
        elif (place := rng.randrange(count)) < MOST_POINTS:
            sample[place] = row
        # The count breaks ties, so that rows are never compared and the earlier one wins.
        entry = (_fitness(row), -count, row)
        if len(hardest) < MOST_EXAMPLES:
            heapq.heappush(hardest, entry)
        else:
            heapq.heappushpop(hardest, entry)
    return Glance(count, sample, [row for _, _, row in sorted(hardest, reverse=True)])


def scatter_figure(record: RunRecord, seen: Glance) -> Figure | None:
    """s_src against d_tgt (or s_tgt) with the region of success shaded."""
    y_metric = "d_tgt" if any("d_tgt" in row.score.values for row in seen.sample) else "s_tgt"
    shown = [row.score.values for row in seen.sample if {"s_src", y_metric} <= set(row.score.values)]
    if not shown:
        return None
    threshold = _threshold(record)
    description = f"{record.label} on {record.model}: s_src against {y_metric}"
    drawing = scatter_chart(shown, y_metric, threshold, description).svg()
    law = "s_src + d_tgt" if y_metric == "d_tgt" else "s_src / s_tgt"
    condition = f"{law} > {threshold:g}"
    count = f"{len(shown)} of {seen.scored} sentences" if len(shown) < seen.scored else f"{len(shown)} sentences"
    return Figure(
        drawing, f"{record.label} on {record.model}: {count}; shaded where the attack succeeds ({condition})."
    )


def scatter_chart(scores: Sequence[Mapping[str, float]], y_metric: str, threshold: float, description: str) -> Chart:
    """A dot for the scores of each sentence, over the region in which the attack succeeds."""
    marks: list[Mark] = [success_region(y_metric, threshold)]
    for values in scores:
        style = "dot hit" if values.get("success") else "dot miss"
        title = f"s_src {values['s_src']:.3f}, {y_metric} {values[y_metric]:.3f}"
        marks.append(Dot(values["s_src"], values[y_metric], style=style, radius=2.6, title=title))
    panel = Panel(y=LinearAxis(y_metric), x=LinearAxis("s_src"), marks=marks, height=262)
    return Chart(description, [panel], width=330)


def success_region(y_metric: str, threshold: float) -> HalfPlane:
    """Where an attack succeeds: s_src + d_tgt > threshold; without references, s_src / s_tgt > threshold."""
    if y_metric == "d_tgt":
        return HalfPlane(1.0, 1.0, threshold)
    return HalfPlane(1.0, -threshold, 0.0)


def _threshold(record: RunRecord) -> float:
    task = record.config["task"]
    return float(task.get("success_threshold", 1.0)) if isinstance(task, Mapping) else 1.0


def examples(seen: Glance) -> list[DisplayedExample]:
    """The sentences on which the attack did most: highest s_src + d_tgt."""
    return [_shown(row) for row in seen.hardest]


def _fitness(row: Row) -> float:
    values = row.score.values
    return values.get("s_src", 0.0) + values.get("d_tgt", 1 - values.get("s_tgt", 1.0))


def _shown(row: Row) -> DisplayedExample:
    details = row.score.details
    texts = [
        ("x", row.example.inputs.get("src")),
        ("x′", details.get("adv_src")),
        ("y(x)", details.get("out")),
        ("y(x′)", details.get("adv_out")),
        ("y*", row.example.reference),
        ("made by", details.get("made_by")),
    ]
    scores = ", ".join(f"{name} {number_text(value, 3)}" for name, value in row.score.values.items())
    return DisplayedExample(row.example.id, scores, [(name, str(text)) for name, text in texts if text is not None])


def texts(row: Row, asked: Exchanges) -> NamedValues:
    """What the example browser shows: source, perturbed source, outputs and reference."""
    source, inputs, details = row.example.inputs.get("src"), row.example.inputs, row.score.details
    versions = list(inputs.get("adv_src", ()))
    perturbed = details.get("adv_src", versions[0] if len(versions) == 1 else None)
    place = 1 + versions.index(perturbed) if perturbed in versions else 1
    prompts = [prompt_text(request) for request, _ in asked]
    return [
        ("source", source),
        ("perturbed", perturbed),
        ("made by", details.get("made_by")),
        # What a translator is given is the sentence itself; a chat model is given instructions with it.
        ("prompt", prompts[0] if prompts and prompts[0] != source else None),
        ("output", details.get("out", answer_at(asked, 0))),
        ("perturbed prompt", prompts[place] if len(prompts) > place and prompts[place] != perturbed else None),
        ("output on perturbed", details.get("adv_out", answer_at(asked, place))),
        ("reference", row.example.reference),
    ]
