"""The section of whole-sentence pairs: accuracy by field, phenomenon and paradigm next to people's, and mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from lmassay.evaluations.syntax.blimp import paradigms
from lmassay.evaluations.syntax.report.accuracy_chart import Accuracy, AccuracyRow, accuracy_chart
from lmassay.reporting.blocks import (
    Block,
    Body,
    Cell,
    DisplayedExample,
    Examples,
    Figure,
    Figures,
    Folded,
    Heading,
    Note,
    Section,
    Table,
    TableRow,
    count,
    in_short,
    measured,
    name,
    overlapping,
)
from lmassay.reporting.chart import MAX_SERIES
from lmassay.reporting.example_texts import Exchanges, NamedValues
from lmassay.reporting.numbers import interval_text, number_text, short_text
from lmassay.reporting.run_labels import short_run_titles
from lmassay.reporting.sections import results_section
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, Row, RunRecord
from lmassay.types.wording import counted

MAX_EXAMPLES = 8
MAX_RUNS = 12
"""Only the first runs have examples, at most this many; the tables have all runs."""

_DIGITS = 3
_METRICS = (("accuracy", "accuracy"), ("accuracy_token", "by token mean"), ("accuracy_char", "by character mean"))
_COUNTS = ("pairs", "errors", "unscored")
_ACCURACY_CAPTION = "accuracy: share of the pairs whose grammatical sentence is more probable."
_BLIMP_CAPTION = "human, GPT-2: published accuracies on BLiMP (Warstadt et al. 2020), means over the same paradigms."

GroupKind = Literal["", "field", "phenomenon", "paradigm"]


@dataclass(frozen=True, slots=True)
class MinimalPairsRun:
    """A run with its results by metric and group.

    ``locations`` has the field and phenomenon of every paradigm; ``worst`` are the rows of the most confident mistakes.
    """

    record: RunRecord
    title: str
    results: Mapping[tuple[str, str], Result]
    locations: Mapping[str, tuple[str, str]]
    worst: Sequence[Row]

    def result(self, metric: str, kind: GroupKind = "", label: str = "") -> Result | None:
        """Return the result of a group, or of all pairs if no kind is given."""
        overall = self.results.get((metric, OVERALL))
        if not kind:
            return overall
        result = self.results.get((metric, f"{kind}={label}"))
        if result is not None:
            return result
        # Runs do not store a result for a group that contains all pairs, because it equals the overall result.
        labels_of_kind = set()
        for paradigm, (field, phenomenon) in self.locations.items():
            labels = {"field": field, "phenomenon": phenomenon, "paradigm": paradigm}
            labels_of_kind.add(labels[kind])
        if labels_of_kind == {label}:
            return overall
        return None


@dataclass(frozen=True, slots=True)
class ParadigmGroup:
    """A row of the table: all pairs, a field, a phenomenon or a paradigm, with the paradigms in it."""

    kind: GroupKind
    label: str
    paradigms: Sequence[str]

    @property
    def title(self) -> str:
        """The label with spaces; a paradigm keeps its name, which is also that of its file."""
        if self.kind == "paradigm":
            return self.label
        return self.label.replace("_", " ")


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """Return the section of the report for runs of the task ``minimal_pairs``."""
    runs = []
    for record, title in zip(records, short_run_titles(records), strict=True):
        runs.append(_read(store, record, title))
    examples = []
    for run in runs[:MAX_RUNS]:
        if run.worst:
            examples.append(_examples(run))
    with_results = [run for run in runs if run.result("accuracy") is not None]
    if not with_results:
        return Section(results_section(store, records).blocks, examples)
    blocks: list[Block] = []
    # Runs are compared in one table only if they share paradigms.
    groups = overlapping(with_results, lambda run: list(run.locations))
    for names, members in groups:
        if len(groups) > 1:
            blocks.append(Heading(in_short(names)))
        locations: dict[str, tuple[str, str]] = {}
        # If runs disagree about where a paradigm belongs, the first run decides.
        for run in reversed(members):
            locations |= run.locations
        groups_in_order = _groups_in_order({paradigm: locations[paradigm] for paradigm in names})
        blocks += _tables(groups_in_order, members)
        blocks += _tie_notes(members)
        blocks.append(_figures(groups_in_order, members))
    return Section(blocks, examples)


def _tie_notes(runs: Sequence[MinimalPairsRun]) -> list[Block]:
    """Say for each run which share of its pairs counts as wrong because neither sentence is preferred."""
    notes: list[Block] = []
    for run in runs:
        ties = run.result("ties")
        if ties is not None:
            prefix = f"{run.title}: " if len(runs) > 1 else ""
            notes.append(
                Note(
                    f"{prefix}Pairs whose sentences are equally probable, which count as wrong: "
                    f"{short_text(ties)} of all pairs."
                )
            )
    return notes


def _read(store: Store, record: RunRecord, title: str) -> MinimalPairsRun:
    """Read the rows once; keep the field and phenomenon of each paradigm, and its most confident mistake."""
    location_counts: dict[str, Counter[tuple[str, str]]] = {}
    worst: dict[str, Row] = {}
    for row in store.rows(record.id):
        groups = row.example.groups
        paradigm = groups.get("paradigm", "")
        location = groups.get("field", ""), groups.get("phenomenon", "")
        location_counts.setdefault(paradigm, Counter())[location] += 1
        # A negative margin is a mistake: the ungrammatical sentence is more probable.
        worst_margin = 0.0
        if paradigm in worst:
            worst_margin = _margin(worst[paradigm])
        if _margin(row) < worst_margin:
            worst[paradigm] = row
    locations = {}
    for paradigm, counts in location_counts.items():
        # A data file may assign a paradigm to several places; the most frequent one counts.
        ((most_common_location, _),) = counts.most_common(1)
        locations[paradigm] = most_common_location
    return MinimalPairsRun(
        record,
        title,
        results={(result.metric, result.group): result for result in record.results},
        locations=locations,
        worst=sorted(worst.values(), key=_margin)[:MAX_EXAMPLES],
    )


def _margin(row: Row) -> float:
    return row.score.values.get("margin", 0.0)


def _groups_in_order(locations: Mapping[str, tuple[str, str]]) -> list[ParadigmGroup]:
    """Return fields, phenomena and paradigms, each before its members.

    A phenomenon that occurs in two fields is listed in the one where it has more paradigms.
    """
    fields_of_phenomenon: dict[str, Counter[str]] = {}
    for field, phenomenon in locations.values():
        fields_of_phenomenon.setdefault(phenomenon, Counter())[field] += 1
    phenomena_of_field: dict[str, list[str]] = {}
    for phenomenon, fields in sorted(fields_of_phenomenon.items()):
        ((main_field, _),) = fields.most_common(1)
        phenomena_of_field.setdefault(main_field, []).append(phenomenon)
    groups: list[ParadigmGroup] = []
    for field, phenomena in sorted(phenomena_of_field.items()):
        if field:
            in_field = [paradigm for paradigm, location in locations.items() if location[0] == field]
            groups.append(ParadigmGroup("field", field, in_field))
        for phenomenon in phenomena:
            in_phenomenon = [paradigm for paradigm, location in locations.items() if location[1] == phenomenon]
            # Data other than BLiMP may name neither fields nor phenomena; paradigms are then listed alone.
            if phenomenon:
                groups.append(ParadigmGroup("phenomenon", phenomenon, in_phenomenon))
            for paradigm in in_phenomenon:
                groups.append(ParadigmGroup("paradigm", paradigm, [paradigm]))
    return groups


# --- tables -----------------------------------------------------------------------------------------------------------

_ROW_KINDS: Mapping[GroupKind, Literal["plain", "total", "head", "part"]] = {
    "": "total",
    "field": "head",
    "phenomenon": "plain",
    "paradigm": "part",
}


def _tables(groups_in_order: Sequence[ParadigmGroup], runs: Sequence[MinimalPairsRun]) -> list[Block]:
    """Return one table with all numbers for one run; for several, accuracies side by side and the rest folded."""
    all_paradigms = [group.label for group in groups_in_order if group.kind == "paradigm"]
    groups = [ParadigmGroup("", "overall", all_paradigms), *groups_in_order]
    # The columns of published results are shown if at least one row has a value for them.
    has_published = any(_published(group) is not None for group in groups)
    if len(runs) == 1:
        return [_single_run_table(groups, runs[0], has_published)]
    blocks: list[Block] = [_side_by_side_table(groups, runs, has_published)]
    for run in runs:
        summary = f"{run.title}: token and character means, errors, unscored"
        blocks.append(Folded(summary, [_single_run_table(groups, run, has_published)]))
    return blocks


def _single_run_table(groups: Sequence[ParadigmGroup], run: MinimalPairsRun, has_published: bool) -> Table:
    """Return a table with all metrics and counts of a run."""
    header = [Cell("", kind="text")]
    header += [Cell(title) for _, title in _METRICS]
    header += _published_headers(has_published)
    header += [Cell(title) for title in _COUNTS]
    rows = []
    for group in groups:
        rows.append(_table_row(group, _single_run_cells(group, run, has_published)))
    return Table(_caption(has_published), [header], _bodies(rows))


def _side_by_side_table(groups: Sequence[ParadigmGroup], runs: Sequence[MinimalPairsRun], has_published: bool) -> Table:
    """Return a table with the accuracies of several runs, one column per run."""
    header = [Cell("", kind="text")]
    header += [Cell(run.title) for run in runs]
    header += _published_headers(has_published)
    header.append(Cell("pairs"))
    rows = []
    for group in groups:
        rows.append(_table_row(group, _side_by_side_cells(group, runs, has_published)))
    return Table(_caption(has_published), [header], _bodies(rows), dense=len(runs) > 3)


def _published_headers(has_published: bool) -> list[Cell]:
    if not has_published:
        return []
    return [Cell("human"), Cell("GPT-2")]


def _caption(has_published: bool) -> str:
    if not has_published:
        return _ACCURACY_CAPTION
    return f"{_ACCURACY_CAPTION} {_BLIMP_CAPTION}"


def _table_row(group: ParadigmGroup, cells: Sequence[Cell]) -> TableRow:
    return TableRow([name(group.title), *cells], _ROW_KINDS[group.kind])


def _bodies(rows: Sequence[TableRow]) -> list[Body]:
    """Fold paradigms under their phenomenon; a paradigm without a phenomenon gets a separate body."""
    bodies: list[list[TableRow]] = []
    for row in rows:
        if row.kind == "part" and bodies and bodies[-1][0].kind == "plain":
            bodies[-1].append(row)
        else:
            bodies.append([row])
    return [Body(members, folds=len(members) > 1) for members in bodies]


def _single_run_cells(group: ParadigmGroup, run: MinimalPairsRun, has_published: bool) -> list[Cell]:
    cells = [measured(run.result(metric, group.kind, group.label), _DIGITS) for metric, _ in _METRICS]
    if has_published:
        cells += _published_cells(group)
    accuracy = run.result("accuracy", group.kind, group.label)
    if accuracy is None:
        return [*cells, count(None), count(None), count(None)]
    return [*cells, count(accuracy.n), count(accuracy.n_error), count(accuracy.n_unscored)]


def _side_by_side_cells(group: ParadigmGroup, runs: Sequence[MinimalPairsRun], has_published: bool) -> list[Cell]:
    cells: list[Cell] = []
    pair_counts: list[int] = []
    for run in runs:
        result = run.result("accuracy", group.kind, group.label)
        cells.append(measured(result, _DIGITS))
        if result is not None:
            pair_counts.append(result.n)
    if has_published:
        cells += _published_cells(group)
    # Runs with errors have fewer scored pairs, so the column may show a range.
    if not pair_counts:
        cells.append(Cell(""))
    elif min(pair_counts) == max(pair_counts):
        cells.append(count(pair_counts[0]))
    else:
        cells.append(Cell(f"{min(pair_counts):,}–{max(pair_counts):,}"))
    return cells


def _published_cells(group: ParadigmGroup) -> list[Cell]:
    published = _published(group)
    if published is None:
        return [Cell(""), Cell("")]
    return [Cell(number_text(accuracy, _DIGITS)) for accuracy in published]


def _published(group: ParadigmGroup) -> tuple[float, float] | None:
    """Return the published accuracies of people and of GPT-2 on a group, if all of its paradigms are BLiMP's."""
    published = paradigms()
    human_accuracies: list[float] = []
    gpt2_accuracies: list[float] = []
    for paradigm_name in group.paradigms:
        paradigm = published.get(paradigm_name)
        if paradigm is None:
            return None
        human_accuracies.append(paradigm.human)
        gpt2_accuracies.append(paradigm.gpt2)
    if not human_accuracies:
        return None
    return fmean(human_accuracies), fmean(gpt2_accuracies)


# --- figure and examples ----------------------------------------------------------------------------------------------


def _figures(groups_in_order: Sequence[ParadigmGroup], runs: Sequence[MinimalPairsRun]) -> Figures:
    """Return accuracies by phenomenon, or by paradigm if there are no phenomena; up to MAX_SERIES runs per figure."""
    groups = [group for group in groups_in_order if group.kind == "phenomenon"]
    if not groups:
        groups = [group for group in groups_in_order if group.kind == "paradigm"]
    figures = []
    for start in range(0, len(runs), MAX_SERIES):
        figures.append(_figure(groups, runs[start : start + MAX_SERIES]))
    return Figures(figures, "middle")


def _figure(groups: Sequence[ParadigmGroup], runs: Sequence[MinimalPairsRun]) -> Figure:
    rows = []
    shows_people = False
    for group in groups:
        human_accuracy = None
        published = _published(group)
        if published is not None:
            human_accuracy, _ = published
            shows_people = True
        accuracies = [_accuracy(run, group) for run in runs]
        rows.append(AccuracyRow(group.title, accuracies, human_accuracy))
    kind = groups[0].kind
    names = [run.title for run in runs]
    listed_names = ", ".join(names)
    chart = accuracy_chart(rows, names, "people", "accuracy", f"Accuracy by {kind}: {listed_names}")
    caption = f"Accuracy of {listed_names} by {kind}; lines are intervals."
    if shows_people:
        caption += " The upright mark is the accuracy of people."
    return Figure.of(chart, caption)


def _accuracy(run: MinimalPairsRun, group: ParadigmGroup) -> Accuracy | None:
    result = run.result("accuracy", group.kind, group.label)
    if result is None or result.value is None:
        return None
    title = f"{run.title}, {group.title}: {number_text(result.value, 3)} {interval_text(result, 3)}"
    return Accuracy(title, result.value, result.low, result.high)


def _examples(run: MinimalPairsRun) -> Examples:
    pairs = counted(len(run.worst), "pair")
    summary = f"Most confident mistakes of {run.record.title} ({pairs})"
    return Examples(summary, [_displayed_example(row) for row in run.worst])


def _displayed_example(row: Row) -> DisplayedExample:
    inputs = row.example.inputs
    details = row.score.details
    good = number_text(details.get("logprob_good"), 2)
    bad = number_text(details.get("logprob_bad"), 2)
    scores = f"log-probability {good} against {bad}, margin {_margin(row):.2f}"
    named_texts = [
        ("right", inputs.get("good")),
        ("preferred", inputs.get("bad")),
        ("compared", " / ".join(_compared_words(row))),
        ("paradigm", row.example.groups.get("paradigm")),
    ]
    return DisplayedExample(row.example.id, scores, [(title, str(text)) for title, text in named_texts if text])


def _compared_words(row: Row) -> list[str]:
    """Return the words that were compared, with their contexts; whole sentences have no context."""
    return [f"{context} [{word.strip()}]" for context, word in row.example.inputs.get("asked", ()) if context]


# --- an example in the browser ----------------------------------------------------------------------------------------


def sentence_texts(row: Row, _: Exchanges) -> NamedValues:
    """Return the two sentences of a pair with their log-probabilities."""
    inputs = row.example.inputs
    details = row.score.details
    logprobs = []
    for side in ("good", "bad"):
        if f"logprob_{side}" in details:
            tokens: Any = details.get(f"tokens_{side}", "?")
            logprobs.append(f"{side} {details[f'logprob_{side}']:.3f} over {tokens} tokens")
    return [
        ("good", inputs.get("good")),
        ("bad", inputs.get("bad")),
        ("compared", "\n".join(_compared_words(row))),
        ("log-probability", "\n".join(logprobs)),
    ]
