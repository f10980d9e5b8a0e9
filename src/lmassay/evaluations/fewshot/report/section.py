"""The few-shot section: methods and strategies by the protocol's three criteria, and all their configurations."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.evaluations.fewshot.protocol.judging import Configuration, ProtocolVerdict
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study, read_studies
from lmassay.evaluations.fewshot.report import figures
from lmassay.evaluations.fewshot.report.figures import short_name
from lmassay.evaluations.fewshot.report.table_blocks import estimate_cell, protocol_block, selected_table
from lmassay.evaluations.fewshot.report.tables import (
    ProtocolCell,
    comparison_tables,
    criteria_table,
    explanation,
    in_papers_order,
    notes,
    performance_table,
    stability_note,
)
from lmassay.reporting.blocks import Block, Body, Cell, Folded, Heading, Note, Section, Table, TableRow, name
from lmassay.reporting.sections import results_section as generic_section
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_MOST_MISSING = 200
_FEW_NOTES = 2
_MANY_TASKS = 4


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """One part per method and model. Trainings are compared by configuration here, not example by example."""
    studies = read_studies(store, records)
    if not studies:
        return generic_section(store, records)
    blocks: list[Block] = [Note(explanation(studies[0]))]
    if len(studies) > 1:
        blocks.append(_methods_table(studies))
    for study in studies:
        if len(studies) > 1:
            blocks.append(Heading(study.title))
        blocks += _study_blocks(study)
    return Section(blocks, compared=(), tells_errors=True)


def _study_blocks(study: Study) -> list[Block]:
    blocks: list[Block] = []
    if len(study.strategies) > 1:
        blocks.append(Heading("Strategies compared"))
        for table in comparison_tables(study):
            blocks.append(protocol_block(table, f"{table.title}."))
    for strategy in study.main_strategies:
        table = criteria_table(strategy)
        blocks.append(Heading(table.title))
        blocks.append(protocol_block(table, f"The three criteria. {stability_note(strategy)}".strip()))
        blocks.append(selected_table(strategy))
        blocks += _note_blocks(notes(strategy))
    blocks += figures.blocks(study)
    blocks.append(Heading("All configurations"))
    for strategy in study.strategies:
        for task, verdict in strategy.verdicts.items():
            blocks.append(_configurations(strategy, task, verdict))
    blocks += _missing_trainings(study)
    return blocks


def _note_blocks(texts: Sequence[str]) -> list[Block]:
    shown: list[Block] = [Note(text) for text in texts]
    if len(shown) <= _FEW_NOTES:
        return shown
    return [Folded(f"{len(texts)} notes: {texts[0]} …", shown)]


# --- the protocol's tables --------------------------------------------------------------------------------------------


def _methods_table(studies: Sequence[Study]) -> Table:
    """One row per method and strategy, with test score and dev-test correlation."""
    pairs = []
    for study in studies:
        pairs += [(study, strategy) for strategy in study.strategies]
    # The names are numbers, because the table would sort strategies that it knows.
    table = performance_table({str(number): strategy.verdicts for number, (_, strategy) in enumerate(pairs)})
    tasks = in_papers_order(task for study in studies for task in study.tasks)
    number_of_tasks = f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    lines = []
    for (study, strategy), row in zip(pairs, table.rows, strict=True):
        *task_cells, average = row.cells
        cells = [
            name(study.method) if study.model == "none" else name(study.method, study.model),
            Cell(short_name(strategy), [f"K = {strategy.k}"], kind="text"),
        ]
        for task, cell in zip(tasks, task_cells, strict=True):
            cells.append(_method_cell(strategy.verdicts.get(task), cell))
        cells.append(Cell(average.text(), [number_of_tasks] if average.parts else []))
        lines.append(TableRow(cells))
    head = [Cell("method", kind="text"), Cell("strategy", kind="text"), *map(Cell, table.columns)]
    caption = (
        "Test mean ± std over splits, in percent, of the configuration with the best dev score, with interval and n. "
        "It may be one that shows no examples; the overview takes the best one that does. ρ: rank correlation of dev "
        "and test over configurations."
    )
    return Table(caption, [head], [Body(lines)], dense=len(tasks) > _MANY_TASKS)


def _method_cell(verdict: ProtocolVerdict | None, cell: ProtocolCell) -> Cell:
    if verdict is None:
        return Cell("", ("not run",))
    below = []
    for part in cell.parts:
        if part.low is None or part.high is None:
            below.append(f"n = {part.n}")
        else:
            below.append(f"[{100 * part.low:.1f}, {100 * part.high:.1f}], n = {part.n}")
    correlation = verdict.correlation
    if correlation.value is not None:
        below.append(f"ρ {correlation.value:.2f} (n = {correlation.n})")
    return Cell(cell.text(), list(dict.fromkeys(below)))


# --- all configurations and trainings ---------------------------------------------------------------------------------


def _configurations(strategy: Strategy, task: str, verdict: ProtocolVerdict) -> Folded:
    """All configurations of a task, those with all their splits first, by mean dev score."""
    metrics: list[str] = []
    for configuration in verdict.configurations:
        metrics += [metric for metric in configuration.test_metrics if metric not in metrics]
    # With a single metric, the test score is that metric.
    further_metrics = metrics if len(metrics) > 1 else []
    table_rows = []
    for configuration in sorted(verdict.configurations, key=_complete_and_best_first):
        is_selected = configuration is verdict.selected
        cells = [
            _configuration_name(configuration, verdict),
            estimate_cell(configuration.dev),
            estimate_cell(configuration.test),
        ]
        for metric in further_metrics:
            estimate = configuration.test_metrics.get(metric)
            cells.append(Cell("–", []) if estimate is None else estimate_cell(estimate))
        cells.append(Cell(f"{len(configuration.splits)} of {verdict.k}"))
        table_rows.append(TableRow(cells, "total" if is_selected else "plain"))
    header = [
        Cell("configuration", kind="text"),
        Cell("dev"),
        Cell("test"),
        *map(Cell, further_metrics),
        Cell("splits"),
    ]
    caption = "Mean ± std over splits and interval, in percent. Configurations with all their splits come first."
    number = len(verdict.configurations)
    summary = f"{task} under {short_name(strategy)}: {number} configuration{'' if number == 1 else 's'}"
    return Folded(summary, [Table(caption, [header], [Body(table_rows)])])


def _complete_and_best_first(configuration: Configuration) -> tuple[bool, float]:
    dev = -1.0 if configuration.dev.value is None else configuration.dev.value
    return bool(configuration.missing), -dev


def _configuration_name(configuration: Configuration, verdict: ProtocolVerdict) -> Cell:
    if configuration is verdict.selected:
        return name(configuration.name, "selected")
    if configuration.name in verdict.tied:
        return name(configuration.name, "tied")
    return name(configuration.name)


def _missing_trainings(study: Study) -> list[Block]:
    """Trainings without a result. Those of one run that failed for the same reason share a row."""
    splits: dict[tuple[str, ...], list[int]] = {}
    failed = not_done = 0
    for strategy in study.strategies:
        for task, verdict in strategy.verdicts.items():
            for _, has_failed, number in verdict.reasons():
                if has_failed:
                    failed += number
                else:
                    not_done += number
            for trial in verdict.trials_without_result:
                run = trial.run.rpartition("-")[2]
                key = (trial.configuration, task, short_name(strategy), trial.state, trial.reason, run)
                splits.setdefault(key, []).append(trial.split)
    if not splits:
        return []
    lines = []
    for (configuration, task, strategy_name, state, reason, run), of_line in list(splits.items())[:_MOST_MISSING]:
        cells = [
            name(configuration),
            Cell(task, kind="text"),
            Cell(strategy_name, kind="text"),
            Cell(", ".join(map(str, sorted(set(of_line))))),
            Cell(state, [reason], kind="text"),
            Cell(run, kind="text"),
        ]
        lines.append(TableRow(cells))
    titles = ("configuration", "task", "strategy", "splits", "why", "run")
    head = [Cell(title, kind="num" if title == "splits" else "text") for title in titles]
    more = f" The first {_MOST_MISSING} of {len(splits)}." if len(splits) > _MOST_MISSING else ""
    caption = f"They are left out of all means and never counted as scores.{more} Try again: lmassay resume RUN."
    summary = f"Trainings without a result: {failed} failed, {not_done} not done"
    return [Folded(summary, [Table(caption, [head], [Body(lines)])])]
