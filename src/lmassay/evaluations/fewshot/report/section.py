"""The few-shot section of a report: the protocol's criteria for each method and strategy, and all configurations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from lmassay.evaluations.fewshot.protocol.estimates import NO_ESTIMATE
from lmassay.evaluations.fewshot.protocol.judging import Configuration, ProtocolVerdict
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study, read_studies
from lmassay.evaluations.fewshot.report import figures
from lmassay.evaluations.fewshot.report.costs import TITLE as COST_TITLE
from lmassay.evaluations.fewshot.report.costs import cost_table
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
from lmassay.running import trained_models
from lmassay.storage.commands import command_line
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import NO_MODEL, counted

# The table of trainings without a result has at most this many rows.
_MAX_MISSING = 200
# More notes than this are folded.
_FEW_NOTES = 2
# A table with more tasks than this gets a dense layout.
_MANY_TASKS = 4


def section(store: Store, records: Sequence[RunRecord]) -> Section:
    """The section for these runs, with one part per method and model.

    Its tables compare configurations. The general comparison of runs example by example is left out.
    """
    studies = read_studies(store, records)
    if not studies:
        return generic_section(store, records)
    blocks: list[Block] = [Note(explanation(studies[0]))]
    about_all_studies: list[Block] = [Heading(COST_TITLE), cost_table(studies), *_kept_models(store, records)]
    if len(studies) == 1:
        blocks += [*_study_blocks(studies[0]), *about_all_studies]
    else:
        # Blocks about all methods come before the first method; at the end they would be under the heading of the last.
        blocks += [_methods_table(studies), *about_all_studies]
        for study in studies:
            blocks += [Heading(study.title), *_study_blocks(study)]
    return Section(blocks, compared=(), lists_errors=True)


def _kept_models(store: Store, records: Sequence[RunRecord]) -> list[Block]:
    """A note that says how many trained models the runs kept, and how to label new texts with one of them."""
    models: set[Path] = set()
    runs: list[str] = []
    for record in records:
        existing: list[Path] = []
        for folders in trained_models.read_list(store.folder, record.id).values():
            # The user may have deleted some of them.
            existing += [folder for folder in folders if folder.is_dir()]
        if existing:
            models.update(existing)
            runs.append(record.id)
    if not runs:
        return []
    command = command_line("predict", runs[0], "--results", store.folder, "--in", "new.jsonl")
    text = f"{counted(len(models), 'trained model')} kept. Label new texts: {command}"
    if len(runs) > 1:
        text += f" ({len(runs)} runs kept models; their names are under Provenance)"
    return [Heading("Kept models"), Note(text)]


def _study_blocks(study: Study) -> list[Block]:
    """The blocks of a study: comparison of strategies, each strategy, figures, configurations, missing trainings."""
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
    notes: list[Block] = [Note(text if text.endswith(".") else f"{text}.") for text in texts]
    if len(notes) <= _FEW_NOTES:
        return notes
    return [Folded(f"{len(texts)} notes: {texts[0]} …", notes)]


# --- the protocol's tables --------------------------------------------------------------------------------------------


def _methods_table(studies: Sequence[Study]) -> Table:
    """One row per method and strategy, with test score and dev-test correlation."""
    pairs: list[tuple[Study, Strategy]] = []
    all_tasks: list[str] = []
    for study in studies:
        all_tasks += study.tasks
        for strategy in study.strategies:
            pairs.append((study, strategy))
    tasks = in_papers_order(all_tasks)
    # ``performance_table`` sorts strategies by the names that it knows. With numbers as names, they keep their order.
    verdicts = {}
    for number, (_, strategy) in enumerate(pairs):
        verdicts[str(number)] = strategy.verdicts
    table = performance_table(verdicts)

    rows = []
    for (study, strategy), row in zip(pairs, table.rows, strict=True):
        *task_cells, average = row.cells
        method_cell = name(study.method) if study.model == NO_MODEL else name(study.method, study.model)
        cells = [method_cell, Cell(short_name(strategy), [f"K = {strategy.k}"], kind="text")]
        for task, cell in zip(tasks, task_cells, strict=True):
            cells.append(_method_cell(strategy.verdicts.get(task), cell))
        below_average = [counted(len(tasks), "task")] if average.parts else []
        cells.append(Cell(average.text(), below_average))
        rows.append(TableRow(cells))
    header = [Cell("method", kind="text"), Cell("strategy", kind="text"), *map(Cell, table.columns)]
    caption = (
        "Test mean ± std over splits, in percent, of the configuration with the best dev score, with interval and n. "
        "With in-context learning, that may be a configuration without examples in the prompt; the overview takes the "
        "best one with examples. ρ: rank correlation of dev and test over configurations."
    )
    return Table(caption, [header], [Body(rows)], dense=len(tasks) > _MANY_TASKS)


def _method_cell(verdict: ProtocolVerdict | None, cell: ProtocolCell) -> Cell:
    """The cell of a test score, with interval, n and correlation below the score."""
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
    """A table of all configurations of a task by mean dev score, those that have all their splits first."""
    metrics: dict[str, None] = {}
    for configuration in verdict.configurations:
        metrics.update(dict.fromkeys(configuration.test_metrics))
    # If there is only one metric, the test score is that metric.
    further_metrics = list(metrics) if len(metrics) > 1 else []
    table_rows = []
    for configuration in sorted(verdict.configurations, key=_complete_and_best_first):
        cells = [
            _configuration_name(configuration, verdict),
            estimate_cell(configuration.dev),
            estimate_cell(configuration.test),
        ]
        for metric in further_metrics:
            cells.append(estimate_cell(configuration.test_metrics.get(metric, NO_ESTIMATE)))
        cells.append(Cell(f"{len(configuration.splits)} of {verdict.k}"))
        is_selected = configuration is verdict.selected
        table_rows.append(TableRow(cells, "total" if is_selected else "plain"))
    header = [
        Cell("configuration", kind="text"),
        Cell("dev"),
        Cell("test"),
        *map(Cell, further_metrics),
        Cell("splits"),
    ]
    caption = "Mean ± std over splits and interval, in percent. Configurations with all their splits come first."
    summary = f"{task} under {short_name(strategy)}: {counted(len(verdict.configurations), 'configuration')}"
    return Folded(summary, [Table(caption, [header], [Body(table_rows)])])


def _complete_and_best_first(configuration: Configuration) -> tuple[bool, float]:
    """A sort key: configurations that have all their splits come first, and among them those with high dev scores."""
    dev = configuration.dev.value
    if dev is None:
        dev = -1.0
    return bool(configuration.missing), -dev


def _configuration_name(configuration: Configuration, verdict: ProtocolVerdict) -> Cell:
    if configuration is verdict.selected:
        return name(configuration.name, "selected")
    if configuration.name in verdict.tied:
        return name(configuration.name, "tied")
    return name(configuration.name)


def _missing_trainings(study: Study) -> list[Block]:
    """A table of the trainings without a result. Trainings of one run with the same reason are in the same row."""
    splits_by_row: dict[tuple[str, ...], set[int]] = {}
    failed = 0
    not_done = 0
    for strategy in study.strategies:
        for task, verdict in strategy.verdicts.items():
            for _, has_failed, number in verdict.reasons():
                if has_failed:
                    failed += number
                else:
                    not_done += number
            for trial in verdict.trials_without_result:
                run = trial.run.rpartition("-")[2]
                row_key = (trial.configuration, task, short_name(strategy), trial.state, trial.reason, run)
                splits_by_row.setdefault(row_key, set()).add(trial.split)
    if not splits_by_row:
        return []

    rows = []
    for texts, splits in itertools.islice(splits_by_row.items(), _MAX_MISSING):
        configuration, task, strategy_name, state, reason, run = texts
        cells = [
            name(configuration),
            Cell(task, kind="text"),
            Cell(strategy_name, kind="text"),
            Cell(", ".join(map(str, sorted(splits)))),
            Cell(state, [reason], kind="text"),
            Cell(run, kind="text"),
        ]
        rows.append(TableRow(cells))
    header = [
        Cell("configuration", kind="text"),
        Cell("task", kind="text"),
        Cell("strategy", kind="text"),
        Cell("splits"),
        Cell("why", kind="text"),
        Cell("run", kind="text"),
    ]
    caption = "These trainings are left out of all means and never counted as scores."
    if len(splits_by_row) > _MAX_MISSING:
        caption += f" The first {_MAX_MISSING} of {len(splits_by_row)}."
    caption += " To continue: lmassay resume RUN; with --retry-failed, failed trainings are repeated."
    summary = f"Trainings without a result: {failed} failed, {not_done} not done"
    return [Folded(summary, [Table(caption, [header], [Body(rows)])])]
