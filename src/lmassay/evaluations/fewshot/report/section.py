"""The few-shot section: methods and strategies by the protocol's three criteria, and what the numbers rest on."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.evaluations.fewshot.protocol.judging import Standing
from lmassay.evaluations.fewshot.protocol.table import Cell as ProtocolCell
from lmassay.evaluations.fewshot.protocol.table import ProtocolTable, performance_table
from lmassay.evaluations.fewshot.report import figures
from lmassay.evaluations.fewshot.report.figures import short_name
from lmassay.evaluations.fewshot.report.forms import what_it_is
from lmassay.evaluations.fewshot.report.judged import JudgedArm, JudgedStudy, judged_studies
from lmassay.evaluations.fewshot.report.tables import (
    cells,
    comparisons,
    criteria,
    notes,
    selected,
    spread_text,
    stability_note,
    tasks_in_order,
)
from lmassay.reporting.blocks import Block, Body, Cell, Folded, Heading, Line, Note, Section, Table, count, name
from lmassay.reporting.generic import section as results_as_they_are
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_MOST_WANTING = 200
_FEW_NOTES = 2
_MANY_TASKS = 4


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """One part a method and model; trainings are compared by configuration here, not example by example."""
    found = judged_studies(store, records)
    if not found:
        return results_as_they_are(store, records)
    blocks: list[Block] = [Note(what_it_is(found[0]))]
    if len(found) > 1:
        blocks.append(_methods(found))
    for judged in found:
        blocks += [Heading(judged.title)] if len(found) > 1 else []
        blocks += _study(judged)
    return Section(blocks, compared=(), tells_errors=True)


def _study(judged: JudgedStudy) -> list[Block]:
    blocks: list[Block] = []
    if len(judged.arms) > 1:
        blocks.append(Heading("Strategies compared"))
        blocks += [_protocol_table(table, f"{table.title}.") for table in comparisons(judged)]
    for arm in judged.families:
        table = criteria(arm)
        blocks += [Heading(table.title), _protocol_table(table, f"The three criteria. {stability_note(arm)}".strip())]
        blocks.append(_selected(arm))
        blocks += _notes(notes(arm))
    blocks += figures.blocks(judged)
    blocks.append(Heading("All configurations"))
    blocks += [_configurations(arm, task) for arm in judged.arms for task in arm.verdicts]
    return blocks + _wanting(judged)


def _notes(told: Sequence[str]) -> list[Block]:
    if len(told) <= _FEW_NOTES:
        return [Note(note) for note in told]
    return [Folded(f"{len(told)} notes: {told[0]} …", [Note(note) for note in told])]


# --- tables -----------------------------------------------------------------------------------------------------------


def _methods(found: Sequence[JudgedStudy]) -> Table:
    """Every method and strategy in a row, with both numbers that one looks for first."""
    rows = [(judged.study, arm) for judged in found for arm in judged.arms]
    table = performance_table({str(place): arm.verdicts for place, (_, arm) in enumerate(rows)})
    tasks = tasks_in_order(found)
    lines = []
    for (study, arm), row in zip(rows, table.rows, strict=True):
        mean = row.cells[-1]
        lines.append(
            Line(
                [
                    name(study.method, *([study.model] if study.model != "none" else [])),
                    Cell(short_name(arm), [f"K = {arm.arm.k}"], kind="text"),
                    *(_method_cell(arm, task, part) for task, part in zip(tasks, row.cells[:-1], strict=True)),
                    Cell(mean.text(), [f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"] if mean.parts else []),
                ]
            )
        )
    head = [Cell("method", kind="text"), Cell("strategy", kind="text"), *map(Cell, table.columns)]
    caption = (
        "Test mean ± std over splits of the configuration that dev selects, also one that shows nothing (the overview "
        "takes the best that teaches), in percent, with its interval over splits, if they differ, and n; ρ: rank "
        "correlation of dev and test over configurations."
    )
    return Table(caption, [head], [Body(lines)], dense=len(tasks) > _MANY_TASKS)


def _method_cell(arm: JudgedArm, task: str, cell: ProtocolCell) -> Cell:
    if task not in arm.verdicts:
        return Cell("", ("not run",))
    found = arm.verdicts[task].correlation
    small = [text for part in cell.parts for text in [_interval(part.low, part.high, part.n)] if text]
    small += [] if found.value is None else [f"ρ {found.value:.2f} (n = {found.n})"]
    return Cell(cell.text(), list(dict.fromkeys(small)))


def _interval(low: float | None, high: float | None, n: int) -> str:
    return f"n = {n}" if low is None or high is None else f"[{100 * low:.1f}, {100 * high:.1f}], n = {n}"


def _protocol_table(table: ProtocolTable, caption: str) -> Table:
    lines = []
    for row in table.rows:
        shared, found = cells(row)
        told = [
            Cell(" / ".join(line.text for line in cell), [text for line in cell for text in line.small])
            for cell in found
        ]
        lines.append(Line([name(row.name, *([shared] if shared else [])), *told]))
    head = [Cell("", kind="text"), *map(Cell, table.columns)]
    return Table(caption, [head], [Body(lines)], dense=len(table.columns) > _MANY_TASKS + 1)


def _selected(arm: JudgedArm) -> Table:
    lines = [
        Line(
            [
                name(s.task),
                Cell(s.configuration, [text for text in [_others(s.configuration, s.params)] if text], kind="text"),
                _spread_cell(spread_text(s.dev)),
                _spread_cell(spread_text(s.test)),
                Cell(s.splits),
                count(s.configurations),
                Cell(s.examples),
            ]
        )
        for s in selected(arm)
    ]
    texts, numbers = (
        ("task", "selected configuration"),
        ("dev", "test", "splits", "configurations", "train/dev/test examples"),
    )
    head = [*(Cell(title, kind="text") for title in texts), *map(Cell, numbers)]
    caption = "The configuration with the best mean dev score. Options that are not named are the method's defaults."
    return Table(caption, [head], [Body(lines)])


def _others(configuration: str, params: object) -> str:
    """The options that all configurations share."""
    if not isinstance(params, dict):
        return ""
    told = [f"{key}={value}" for key, value in params.items() if f"{key}=" not in configuration]
    return f"for all: {', '.join(told)}" if told else ""


def _spread_cell(text: str) -> Cell:
    value, sign, bounds = text.partition(" [")
    return Cell(value, [f"[{bounds}"] if sign else [])


def _configurations(arm: JudgedArm, task: str) -> Folded:
    """All of them, the best mean dev score first."""
    verdict = arm.verdicts[task]

    def order(standing: Standing) -> tuple[bool, float]:
        return bool(standing.missing), -(standing.dev.value if standing.dev.value is not None else -1.0)

    metrics = list(dict.fromkeys(m for s in verdict.standings for m in s.test_metrics))
    shown = metrics if len(metrics) > 1 else []
    lines = []
    for standing in sorted(verdict.standings, key=order):
        small = (
            ["selected"] if standing is verdict.chosen else ["tied"] if standing.configuration in verdict.tied else []
        )
        row = [name(standing.configuration, *small), _spread_cell(spread_text(standing.dev))]
        row.append(_spread_cell(spread_text(standing.test)))
        row += [
            _spread_cell(spread_text(standing.test_metrics[m]) if m in standing.test_metrics else "–") for m in shown
        ]
        row.append(Cell(f"{len(standing.splits)} of {len(verdict.splits)}"))
        lines.append(Line(row, "total" if standing is verdict.chosen else "plain"))
    head = [Cell("configuration", kind="text"), Cell("dev"), Cell("test"), *map(Cell, shown), Cell("splits")]
    caption = "Mean ± std over splits and interval, in percent; those with all their splits first, by dev."
    number = len(verdict.standings)
    what = f"{task} under {short_name(arm)}: {number} configuration{'' if number == 1 else 's'}"
    return Folded(what, [Table(caption, [head], [Body(lines)])])


def _wanting(judged: JudgedStudy) -> list[Block]:
    """Trainings without a result: those of a run that failed alike share a line."""
    splits: dict[tuple[str, ...], list[int]] = {}
    counts = {True: 0, False: 0}
    for arm in judged.arms:
        for task, found in arm.arm.tasks.items():
            for _, failed, number in found.reasons():
                counts[failed] += number
            for t in found.wanting:
                state = "failed" if t.failed else "not done"
                key = (t.trial.configuration, task, short_name(arm), state, t.wanting, t.run.rpartition("-")[2])
                splits.setdefault(key, []).append(t.trial.split)
    if not splits:
        return []
    lines = []
    for (configuration, task, strategy, state, why, run), which in list(splits.items())[:_MOST_WANTING]:
        told = Cell(", ".join(map(str, sorted(set(which)))))
        texts = [Cell(task, kind="text"), Cell(strategy, kind="text"), told, Cell(state, [why], kind="text")]
        lines.append(Line([name(configuration), *texts, Cell(run, kind="text")]))
    titles = ("configuration", "task", "strategy", "splits", "why", "run")
    head = [Cell(title, kind="num" if title == "splits" else "text") for title in titles]
    more = f" The first {_MOST_WANTING} of {len(splits)}." if len(splits) > _MOST_WANTING else ""
    caption = f"They are left out of every mean, never counted as scores.{more} Try again: lmassay resume RUN."
    what = f"Trainings without a result: {counts[True]} failed, {counts[False]} not done"
    return [Folded(what, [Table(caption, [head], [Body(lines)])])]
