"""The robustness section of a report: table of attacks, success rates, scatter plots and example sentences."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmassay.evaluations.robustness.run_notes import run_notes
from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    DisplayedExample,
    Examples,
    Figure,
    Folded,
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
from lmassay.reporting.figure_rules import MIN_POINTS, are_equal, distinct_points, figures_and_notes
from lmassay.reporting.numbers import number_text, short_text, value_text
from lmassay.reporting.sections import results_section as plain_results
from lmassay.statistics.table import ScoreTable, score_table
from lmassay.storage.store import Store
from lmassay.types import Result, Row, RunRecord
from lmassay.types.wording import counted

# The first runs have a scatter plot and examples. With more plots than MAX_OPEN_SCATTERS, all of them are folded.
MAX_SCATTERS = 12
MAX_OPEN_SCATTERS = 3
# Points of a scatter plot: more would make the page slow and hide each other.
MAX_POINTS = 1500
# Examples per run.
MAX_EXAMPLES = 8
# The columns of the table, in this order, if a run has them.
_METRICS = ("success", "s_src", "d_tgt", "s_tgt", "signed_drop", "turned_wrong", "unchanged", "cut_off")
_TITLES = {
    "success": "success",
    "s_src": "s_src (source kept)",
    "d_tgt": "d_tgt (target destroyed)",
    "s_tgt": "s_tgt (target kept)",
    "signed_drop": "signed drop",
    "turned_wrong": "right to wrong",
    "unchanged": "unchanged",
    "cut_off": "cut off",
}
_CAPTION = (
    "Each cell shows a value and its interval below. Errors and unscored examples are not part of n and do not count "
    "as failures."
)
_EXPLANATIONS = {
    "turned_wrong": "Right to wrong: the share of right answers that turn wrong; unchanged inputs are not counted.",
    "unchanged": "Unchanged: the share of inputs that the attack left unchanged. Success and the "
    "similarities include them; the headline leaves them out.",
    "cut_off": "Cut off: the share of inputs with an output that ended at the token limit.",
}


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """The table of attacks and success rates; for the first dozen runs, scatter plots and the sentences hit hardest."""
    metrics = columns(records)
    if not metrics:
        return plain_results(store, records)
    scatters: list[Figure | Note] = []
    example_blocks: list[Examples] = []
    for record in records[:MAX_SCATTERS]:
        summary = summarise_run(store, record)
        scatter = scatter_figure(record, summary)
        if scatter is not None:
            scatters.append(scatter)
        hardest = examples(summary)
        if hardest:
            title = f"Sentences that {record.label} hit hardest on {record.model} ({len(hardest)})"
            example_blocks.append(Examples(title, hardest))

    blocks: list[Block] = [_table(store, records, metrics)]
    for record in records:
        blocks += [Note(note) for note in run_notes(store, record)]
    rates = success_figure(records)
    if rates is not None:
        blocks += figures_and_notes([rates], "middle")
    scatter_blocks = figures_and_notes(scatters, "small")
    if len(scatters) > MAX_OPEN_SCATTERS:
        scatter_blocks = [Folded(f"Scatter plots: all sentences of {len(scatters)} runs", scatter_blocks)]
    blocks += scatter_blocks
    left_out = len(records) - MAX_SCATTERS
    if left_out > 0:
        runs = counted(left_out, "more run")
        blocks.append(Note(f"{runs} without a scatter plot here; make a report of fewer runs to see all."))
    return Section(blocks, example_blocks, compared=[metric for metric, _ in metrics])


def _table(store: Store, records: Sequence[RunRecord], metrics: Sequence[tuple[str, str]]) -> Table:
    header = [Cell("attack", kind="text"), Cell("system", kind="text")]
    header += [Cell(title) for _, title in metrics]
    header += [Cell("n"), Cell("errors"), Cell("unscored")]
    rows = []
    for record in records:
        counts = store.count(record.id)
        cells = [name(record.label), Cell(record.model_cell, kind="text")]
        cells += [measured(record.result(metric)) for metric, _ in metrics]
        cells += [count(counts["scored"]), count(counts["error"]), count(counts["unscored"])]
        rows.append(TableRow(cells))
    caption = [_CAPTION]
    caption += [_EXPLANATIONS[metric] for metric, _ in metrics if metric in _EXPLANATIONS]
    return Table(" ".join(caption), [header], [Body(rows)])


def columns(records: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """The metrics that at least one run shows in the table, with their titles."""
    present: set[str] = set()
    for record in records:
        metrics = {result.metric for result in record.results}
        if "turned_wrong" in metrics:
            # For answers that are right or wrong, the signed drop adds little, and the table is wide enough. It stays
            # if another run needs it.
            metrics.discard("signed_drop")
        present |= metrics
    return [(metric, _TITLES[metric]) for metric in _METRICS if metric in present]


def success_figure(records: Sequence[RunRecord]) -> Figure | Note | None:
    """Success rates with intervals, one row per run; a note if they are all equal.

    None for fewer than two rates: a single number is in the table already.
    """
    rates: list[tuple[str, Result]] = []
    for record in records:
        result = record.result("success")
        if result is not None:
            title = f"{record.label} · {record.model}" if record.has_model else record.label
            rates.append((title, result))
    if len(rates) < 2:
        return None
    if are_equal(result.value for _, result in rates):
        return Note(f"All {len(rates)} runs have the same success rate: {value_text(rates[0][1], 3)}.")
    chart = success_chart(rates)
    return Figure.of(chart, "Share of sentences on which the attack succeeds. The line is its interval.")


def success_chart(rates: Sequence[tuple[str, Result]]) -> Chart:
    """A row for each (label, success rate)."""
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
class RowSummary:
    """What the page shows of a run's rows: a random sample for the scatter plot, and the sentences hit hardest."""

    scored: int
    """The number of all rows with a score."""
    sample: Sequence[Row]
    hardest: Sequence[Row]


def summarise_run(store: Store, record: RunRecord) -> RowSummary:
    """Choose rows by the columns of scores, and read only the chosen ones: a run may have millions of rows."""
    table = score_table(store, record.id)
    scored_rows = np.flatnonzero(table.has_score())
    sampled = _sample(len(scored_rows))
    hardest = _hardest(table, scored_rows)
    sampled_rows = [int(scored_rows[number]) for number in sampled]
    wanted = sorted({*sampled_rows, *hardest})
    rows = dict(zip(wanted, store.selected_rows(record.id, wanted), strict=True))
    return RowSummary(
        scored=len(scored_rows),
        sample=[rows[number] for number in sampled_rows],
        hardest=[rows[number] for number in hardest],
    )


def _sample(count: int) -> list[int]:
    """Up to MAX_POINTS of the numbers below ``count``, chosen at random."""
    # A fixed seed, so that the same run gives the same page.
    rng = random.Random(0)
    sample = list(range(min(count, MAX_POINTS)))
    for number in range(len(sample), count):
        # Reservoir sampling: every number has the same chance to be in the sample.
        index = rng.randrange(number + 1)
        if index < MAX_POINTS:
            sample[index] = number
    return sample


def _hardest(table: ScoreTable, scored_rows: NDArray[np.int64]) -> list[int]:
    """The numbers of the rows with the highest s_src + d_tgt; of rows with the same value, the earlier ones."""
    s_src = table.column("s_src")[scored_rows]
    d_tgt = table.column("d_tgt")[scored_rows]
    # Without a reference, the output without attack takes its place, so d_tgt is 1 - s_tgt. A row with neither counts
    # as not damaged.
    s_tgt = table.column("s_tgt")[scored_rows]
    damage_without_reference = np.where(np.isnan(s_tgt), 0.0, 1 - s_tgt)
    damage = np.where(np.isnan(d_tgt), damage_without_reference, d_tgt)
    fitness = np.nan_to_num(s_src) + damage
    best_first = np.argsort(-fitness, kind="stable")[:MAX_EXAMPLES]
    return [int(row) for row in scored_rows[best_first]]


def scatter_figure(record: RunRecord, summary: RowSummary) -> Figure | Note | None:
    """s_src against d_tgt (or s_tgt), with the region of success shaded; None without scores for both.

    If there are too few different points for a plot, a note names them instead.
    """
    has_reference = any("d_tgt" in row.score.values for row in summary.sample)
    y_metric = "d_tgt" if has_reference else "s_tgt"
    points = []
    for row in summary.sample:
        if "s_src" in row.score.values and y_metric in row.score.values:
            points.append(row.score.values)
    if not points:
        return None
    title = record.title
    coordinates = [(values["s_src"], values[y_metric]) for values in points]
    distinct = distinct_points(coordinates)
    if len(distinct) < MIN_POINTS:
        # Dots on top of each other would look like one or two sentences, so the note says how many there are.
        locations = " or ".join(f"s_src {x:.3f} and {y_metric} {y:.3f}" for x, y in distinct)
        subject = "the only sentence has"
        if len(points) > 1:
            subject = f"all {len(points)} sentences have"
        return Note(f"No scatter plot of {title}: {subject} {locations}.")
    threshold = _threshold(record)
    chart = scatter_chart(points, y_metric, threshold, f"{title}: s_src against {y_metric}")
    # TEAPOT's two criteria (Michel et al. 2019), with and without references.
    criterion = "s_src + d_tgt" if has_reference else "s_src / s_tgt"
    # The summary keeps a sample of a long run, and the caption must not claim to show all of it.
    count = counted(len(points), "sentence")
    if len(points) < summary.scored:
        count = f"{len(points)} of {summary.scored} sentences"
    return Figure.of(chart, f"{title}: {count}. Shaded where the attack succeeds ({criterion} > {threshold:g}).")


def scatter_chart(scores: Sequence[Mapping[str, float]], y_metric: str, threshold: float, description: str) -> Chart:
    """A dot per sentence, over the region in which the attack succeeds."""
    marks: list[Mark] = [success_region(y_metric, threshold)]
    for values in scores:
        x = values["s_src"]
        y = values[y_metric]
        style = "dot hit" if values.get("success") else "dot miss"
        tooltip = f"s_src {x:.3f}, {y_metric} {y:.3f}"
        marks.append(Dot(x, y, style=style, radius=2.6, title=tooltip))
    panel = Panel(y=LinearAxis(y_metric), x=LinearAxis("s_src"), marks=marks, height=262)
    return Chart(description, [panel], width=330)


def success_region(y_metric: str, threshold: float) -> HalfPlane:
    """Where an attack succeeds: s_src + d_tgt > threshold; without a reference, s_src / s_tgt > threshold."""
    if y_metric == "d_tgt":
        return HalfPlane(1.0, 1.0, threshold)
    return HalfPlane(1.0, -threshold, 0.0)


def _threshold(record: RunRecord) -> float:
    task = record.config["task"]
    if not isinstance(task, Mapping):
        return 1.0
    return float(task.get("success_threshold", 1.0))


def examples(summary: RowSummary) -> list[DisplayedExample]:
    """The sentences that the attack hit hardest: those with the highest s_src + d_tgt."""
    return [_displayed(row) for row in summary.hardest]


def _displayed(row: Row) -> DisplayedExample:
    details = row.score.details
    # These names are the notation of TEAPOT's paper.
    texts = [
        ("x", row.example.inputs.get("src")),
        ("x′", details.get("adv_src")),
        ("y(x)", details.get("out")),
        ("y(x′)", details.get("adv_out")),
        ("y*", row.example.reference),
        ("made by", details.get("made_by")),
    ]
    scores = ", ".join(f"{name} {number_text(value, 3)}" for name, value in row.score.values.items())
    known_texts = [(name, str(text)) for name, text in texts if text is not None]
    return DisplayedExample(row.example.id, scores, known_texts)


def texts(row: Row, exchanges: Exchanges) -> NamedValues:
    """What the example browser shows: source, perturbed source, outputs and reference."""
    inputs = row.example.inputs
    details = row.score.details
    source = inputs.get("src")
    # The answer to a gradient query is a list of recommended substitutions, not an output.
    exchanges = [exchange for exchange in exchanges if exchange[0].get("verb") != "gradients"]
    candidates = list(inputs.get("adv_src", ()))
    perturbed = details.get("adv_src")
    if perturbed is None and len(candidates) == 1:
        perturbed = candidates[0]
    # The number of the exchange about the perturbed text: the first one is about the source, then come the candidates.
    number = 1
    if perturbed in candidates:
        number = 1 + candidates.index(perturbed)
    # A translator gets the sentence itself, which is shown already; a chat model gets instructions with it.
    prompts = [prompt_text(request) for request, _ in exchanges]
    prompt = perturbed_prompt = None
    if prompts and prompts[0] != source:
        prompt = prompts[0]
    if len(prompts) > number and prompts[number] != perturbed:
        perturbed_prompt = prompts[number]
    return [
        ("source", source),
        ("perturbed", perturbed),
        ("made by", details.get("made_by")),
        ("prompt", prompt),
        ("output", details.get("out", answer_at(exchanges, 0))),
        ("perturbed prompt", perturbed_prompt),
        ("output on perturbed", details.get("adv_out", answer_at(exchanges, number))),
        ("reference", row.example.reference),
    ]
