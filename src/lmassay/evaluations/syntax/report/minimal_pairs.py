"""The section of whole-sentence pairs: field, phenomenon, paradigm beside what people do, and confident mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from lmassay.evaluations.syntax.blimp import Paradigm, paradigms
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
    Section,
    Table,
    TableRow,
    count,
    in_short,
    measured,
    name,
    overlapping,
)
from lmassay.reporting.chart import MOST_SERIES
from lmassay.reporting.example_texts import Exchanges, NamedValues
from lmassay.reporting.headline import counted
from lmassay.reporting.numbers import interval_text, number_text
from lmassay.reporting.run_labels import short_run_titles
from lmassay.reporting.sections import results_section as results_as_they_are
from lmassay.storage.store import Store
from lmassay.types import Result, Row, RunRecord

MOST_EXAMPLES = 8
MOST_RUNS = 12
"""More than these have their numbers in the tables, but no examples."""

_DIGITS = 3
_METRICS = (("accuracy", "accuracy"), ("accuracy_token", "by token mean"), ("accuracy_char", "by character mean"))
_COUNTS = ("pairs", "errors", "unscored")
_WHAT_IT_IS = "accuracy: share of the pairs whose grammatical sentence is the more probable one."
_BLIMP = "human, GPT-2: published accuracies on BLiMP, means over the same paradigms."


@dataclass(frozen=True, slots=True)
class MinimalPairsRun:
    """A run with its results by metric and group; ``places`` tells field and phenomenon of every paradigm."""

    record: RunRecord
    title: str
    results: Mapping[tuple[str, str], Result]
    places: Mapping[str, tuple[str, str]]
    worst: Sequence[Row]

    def result(self, metric: str, kind: str = "", label: str = "") -> Result | None:
        """Of a group or of all; what all pairs have in common is not reported by itself."""
        if not kind or (metric, f"{kind}={label}") in self.results:
            return self.results.get((metric, f"{kind}={label}" if kind else "overall"))
        labels = {_of(kind, paradigm, place) for paradigm, place in self.places.items()}
        return self.results.get((metric, "overall")) if labels == {label} else None


@dataclass(frozen=True, slots=True)
class ParadigmGroup:
    """A row of the table: what it is called, and the paradigms in it."""

    kind: str
    label: str
    members: Sequence[str]

    @property
    def title(self) -> str:
        """As people would write it; a paradigm's own name is also that of its file."""
        return self.label if self.kind == "paradigm" else self.label.replace("_", " ")


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    runs = [_read(store, record, title) for record, title in zip(records, short_run_titles(records), strict=True)]
    shown = [run for run in runs if run.result("accuracy") is not None]
    examples = [block for run in runs[:MOST_RUNS] if (block := _examples(run))]
    if not shown:
        return Section(results_as_they_are(store, records).blocks, examples)
    blocks: list[Block] = []
    grouped = overlapping(shown, lambda run: list(run.places))
    for names, members in grouped:
        blocks += [Heading(in_short(names))] if len(grouped) > 1 else []
        places = {paradigm: place for run in reversed(members) for paradigm, place in run.places.items()}
        tree = _tree({paradigm: places[paradigm] for paradigm in names})
        blocks += _tables(tree, members)
        blocks += [_figures(tree, members)]
    return Section(blocks, examples)


def _read(store: Store, record: RunRecord, title: str) -> MinimalPairsRun:
    """Read the rows once; keep where the paradigms belong, and each one's most confident mistake."""
    seen: dict[str, Counter[tuple[str, str]]] = {}
    worst: dict[str, Row] = {}
    for row in store.rows(record.id):
        groups = row.example.groups
        paradigm = groups.get("paradigm", "")
        seen.setdefault(paradigm, Counter())[groups.get("field", ""), groups.get("phenomenon", "")] += 1
        if _margin(row) < min(0.0, _margin(worst[paradigm]) if paradigm in worst else 0.0):
            worst[paradigm] = row
    results = {(r.metric, r.group): r for r in record.results}
    places = {paradigm: found.most_common(1)[0][0] for paradigm, found in seen.items()}
    return MinimalPairsRun(record, title, results, places, sorted(worst.values(), key=_margin)[:MOST_EXAMPLES])


def _margin(row: Row) -> float:
    return row.score.values.get("margin", 0.0)


def _of(kind: str, paradigm: str, place: tuple[str, str]) -> str:
    return {"field": place[0], "phenomenon": place[1], "paradigm": paradigm}[kind]


def _tree(places: Mapping[str, tuple[str, str]]) -> list[ParadigmGroup]:
    """Fields, phenomena, paradigms, each before what is in it; a phenomenon of two fields stands in the larger one."""
    of_phenomenon: dict[str, Counter[str]] = {}
    for field, phenomenon in places.values():
        of_phenomenon.setdefault(phenomenon, Counter())[field] += 1
    homes = {phenomenon: fields.most_common(1)[0][0] for phenomenon, fields in of_phenomenon.items()}
    groups: list[ParadigmGroup] = []
    for field in sorted(set(homes.values())):
        inside = [paradigm for paradigm, (own, _) in places.items() if own == field]
        groups += [ParadigmGroup("field", field, inside)] if field else []
        for phenomenon in sorted(p for p, home in homes.items() if home == field):
            members = [paradigm for paradigm, (_, own) in places.items() if own == phenomenon]
            groups += [ParadigmGroup("phenomenon", phenomenon, members)] if phenomenon else []
            groups += [ParadigmGroup("paradigm", paradigm, [paradigm]) for paradigm in members]
    return groups


# --- tables -----------------------------------------------------------------------------------------------------------


def _tables(tree: Sequence[ParadigmGroup], members: Sequence[MinimalPairsRun]) -> list[Block]:
    everything = ParadigmGroup("", "overall", [group.label for group in tree if group.kind == "paradigm"])
    known = _published(everything) is not None or any(_published(group) for group in tree)
    caption = f"{_WHAT_IT_IS} {_BLIMP}" if known else _WHAT_IT_IS
    beside = [Cell("human"), Cell("GPT-2")] if known else []
    whole = [*(Cell(title) for _, title in _METRICS), *beside, *(Cell(title) for title in _COUNTS)]

    def table(runs: Sequence[MinimalPairsRun], head: Sequence[Cell]) -> Table:
        cells = _one_run if len(runs) == 1 else _side_by_side
        lines = [TableRow([name(g.title), *cells(g, runs, known)], _KINDS[g.kind]) for g in [everything, *tree]]
        return Table(caption, [[Cell("", kind="text"), *head]], _bodies(lines), dense=len(runs) > 3)

    if len(members) == 1:
        return [table(members, whole)]
    return [
        table(members, [*(Cell(run.title) for run in members), *beside, Cell("pairs")]),
        *(
            Folded(f"{run.title}: token and character means, errors, unscored", [table([run], whole)])
            for run in members
        ),
    ]


_KINDS: Mapping[str, Any] = {"": "total", "field": "head", "phenomenon": "plain", "paradigm": "part"}


def _bodies(lines: Sequence[TableRow]) -> list[Body]:
    """Paradigms fold under their phenomenon; without one they stand for themselves."""
    bodies: list[list[TableRow]] = []
    for line in lines:
        if line.kind == "part" and bodies and bodies[-1][0].kind == "plain":
            bodies[-1].append(line)
        else:
            bodies.append([line])
    return [Body(found, folds=len(found) > 1) for found in bodies]


def _one_run(group: ParadigmGroup, runs: Sequence[MinimalPairsRun], known: bool) -> list[Cell]:
    (run,) = runs
    first = run.result("accuracy", group.kind, group.label)
    counts = [None, None, None] if first is None else [first.n, first.n_error, first.n_unscored]
    scores = [measured(run.result(metric, group.kind, group.label), _DIGITS) for metric, _ in _METRICS]
    return [*scores, *(_beside(group) if known else []), *map(count, counts)]


def _side_by_side(group: ParadigmGroup, runs: Sequence[MinimalPairsRun], known: bool) -> list[Cell]:
    cells: list[Cell] = []
    numbers: list[int] = []
    for run in runs:
        result = run.result("accuracy", group.kind, group.label)
        cells.append(measured(result, _DIGITS))
        if result is not None:
            numbers.append(result.n)
    if known:
        cells += _beside(group)
    if not numbers:
        cells.append(Cell(""))
    elif min(numbers) == max(numbers):
        cells.append(count(numbers[0]))
    else:
        cells.append(Cell(f"{min(numbers):,}–{max(numbers):,}"))
    return cells


def _human(group: ParadigmGroup) -> float | None:
    facts = _published(group)
    return None if facts is None else facts[0]


def _beside(group: ParadigmGroup) -> list[Cell]:
    facts = _published(group)
    return [Cell("")] * 2 if facts is None else [Cell(number_text(fact, _DIGITS)) for fact in facts]


def _published(group: ParadigmGroup) -> tuple[float, float] | None:
    """What people and GPT-2 reach on the paradigms of a group, if all of them are BLiMP's."""
    known = paradigms()
    found: list[Paradigm] = [known[member] for member in group.members if member in known]
    if not found or len(found) < len(group.members):
        return None
    return fmean(p.human for p in found), fmean(p.gpt2 for p in found)


# --- figure and examples ----------------------------------------------------------------------------------------------


def _figures(tree: Sequence[ParadigmGroup], members: Sequence[MinimalPairsRun]) -> Figures:
    kind = "phenomenon" if any(group.kind == "phenomenon" for group in tree) else "paradigm"
    groups = [group for group in tree if group.kind == kind]
    figures = []
    for start in range(0, len(members), MOST_SERIES):
        panel = members[start : start + MOST_SERIES]
        rows = [AccuracyRow(g.title, [_accuracy(run, g) for run in panel], _human(g)) for g in groups]
        names = [run.title for run in panel]
        whose = ", ".join(names)
        chart = accuracy_chart(rows, names, "people", "accuracy", f"Accuracy by {kind}: {whose}")
        upright = " The upright mark is what people reach." if any(row.reference is not None for row in rows) else ""
        figures.append(Figure(chart.svg(), f"Accuracy of {whose} by {kind}, with its interval (the line).{upright}"))
    return Figures(figures, "middle")


def _accuracy(run: MinimalPairsRun, group: ParadigmGroup) -> Accuracy | None:
    result = run.result("accuracy", group.kind, group.label)
    if result is None or result.value is None:
        return None
    title = f"{run.title}, {group.title}: {number_text(result.value, 3)} {interval_text(result, 3)}"
    return Accuracy(title, result.value, result.low, result.high)


def _examples(run: MinimalPairsRun) -> Examples | None:
    if not run.worst:
        return None
    what = f"Where {run.record.label} on {run.record.model} errs most confidently ({counted(len(run.worst), 'pair')})"
    return Examples(what, [_shown(row) for row in run.worst])


def _shown(row: Row) -> DisplayedExample:
    inputs, details = row.example.inputs, row.score.details
    good, bad = (number_text(details.get(f"logprob_{side}"), 2) for side in ("good", "bad"))
    scores = f"log-probability {good} against {bad}, margin {_margin(row):.2f}"
    texts = [("right", inputs.get("good")), ("preferred", inputs.get("bad"))]
    compared = [f"{context} [{word.strip()}]" for context, word in inputs.get("asked", []) if context]
    texts += [("compared", " / ".join(compared))] if compared else []
    texts += [("paradigm", row.example.groups.get("paradigm"))]
    return DisplayedExample(row.example.id, scores, [(what, str(text)) for what, text in texts if text])


# --- an example in the browser ----------------------------------------------------------------------------------------


def sentence_texts(row: Row, _: Exchanges) -> NamedValues:
    """The two sentences of a pair with their log-probabilities."""
    inputs, details = row.example.inputs, row.score.details
    compared = [f"{context} [{word.strip()}]" for context, word in inputs.get("asked", ()) if context]
    judged = [
        f"{side} {details[f'logprob_{side}']:.3f} over {details.get(f'tokens_{side}', '?')} tokens"
        for side in ("good", "bad")
        if f"logprob_{side}" in details
    ]
    return [
        ("good", inputs.get("good")),
        ("bad", inputs.get("bad")),
        ("compared", "\n".join(compared)),
        ("log-probability", "\n".join(judged)),
    ]
