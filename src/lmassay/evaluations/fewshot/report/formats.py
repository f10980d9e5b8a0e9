"""The protocol's tables as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lmassay.evaluations.fewshot.protocol.estimates import NO_ESTIMATE, ProtocolEstimate
from lmassay.evaluations.fewshot.protocol.judging import Configuration, ProtocolVerdict
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study
from lmassay.evaluations.fewshot.report.costs import EXPLANATION, TITLE, cost_table
from lmassay.evaluations.fewshot.report.table_blocks import protocol_block, selected_table
from lmassay.evaluations.fewshot.report.tables import (
    comparison_tables,
    criteria_table,
    explanation,
    notes,
    stability_note,
)
from lmassay.reporting.blocks import Block, Heading, Note
from lmassay.reporting.formats import latex as latex_format
from lmassay.reporting.formats import markdown as markdown_format
from lmassay.reporting.formats import spreadsheet
from lmassay.reporting.formats.content import Chapter

# --- Markdown and LaTeX -----------------------------------------------------------------------------------------------


def markdown(studies: Sequence[Study]) -> str:
    """One chapter per study, with one table per strategy, then a comparison of strategies."""
    chapters = []
    for study in studies:
        blocks: list[Block] = [Note(explanation(study))]
        for strategy in study.main_strategies:
            table = criteria_table(strategy)
            blocks.append(Heading(table.title))
            blocks.append(protocol_block(table, stability_note(strategy)))
            blocks.append(selected_table(strategy))
            for note in notes(strategy):
                blocks.append(Note(note))
        if len(study.strategies) > 1:
            blocks.append(Heading("Strategies compared"))
            for table in comparison_tables(study):
                blocks.append(protocol_block(table, table.title))
        chapters.append(Chapter(study.title, blocks))
    chapters.append(Chapter(TITLE, [cost_table(studies)]))
    return markdown_format.body(chapters)


def latex(studies: Sequence[Study]) -> str:
    """One tabular per strategy and, if there are several, one per criterion. Everything else is in comments."""
    parts: list[str] = []
    for study in studies:
        parts.append(latex_format.comment(f"{study.title}: {explanation(study)}"))
        for strategy in study.main_strategies:
            table = criteria_table(strategy)
            remarks = [f"{table.title}. {stability_note(strategy)}", *_selected_texts(strategy), *notes(strategy)]
            parts += [latex_format.comment(remark) for remark in remarks]
            # The rows below the rule are those of other values of K.
            parts.append(latex_format.tabular(protocol_block(table, "", rule_after=2)))
        if len(study.strategies) > 1:
            for table in comparison_tables(study):
                parts.append(latex_format.comment(table.title))
                parts.append(latex_format.tabular(protocol_block(table, "")))
    parts.append(latex_format.comment(f"{TITLE}. {EXPLANATION}"))
    parts.append(latex_format.tabular(cost_table(studies)))
    return latex_format.fragment_of(parts)


def _selected_texts(strategy: Strategy) -> list[str]:
    """The table of selected configurations, one line of text per row."""
    table = selected_table(strategy)
    rows = list(table.headers)
    for body in table.bodies:
        for table_row in body.rows:
            rows.append(table_row.cells)
    texts = []
    for row in rows:
        cell_texts = [" ".join([cell.text, *cell.small]) for cell in row]
        texts.append(" | ".join(cell_texts))
    return texts


# --- CSV --------------------------------------------------------------------------------------------------------------

_COLUMNS = (
    "model",
    "method",
    "strategy",
    "k",
    "ratio",
    "task",
    "criterion",
    "at_k",
    "metric",
    "value",
    "std",
    "low",
    "high",
    "n",
    "configuration",
    "note",
)


def csv_text(studies: Sequence[Study]) -> str:
    """One line per number, with the selected configuration. Scores are shares, not percentages."""
    rows: list[list[Any]] = []
    for study in studies:
        for strategy in study.strategies:
            for task, verdict in strategy.verdicts.items():
                first_columns = [study.model, study.method, strategy.name, strategy.k, strategy.options.ratio, task]
                other_columns = _csv_rows(verdict)
                for other in strategy.curves.get(task, ()):
                    other_columns += _csv_rows_over_k(other)
                for columns in other_columns:
                    rows.append([*first_columns, *columns])
    return spreadsheet.csv_text(_COLUMNS, rows)


def _csv_rows(verdict: ProtocolVerdict) -> list[list[Any]]:
    """The columns from ``criterion`` on, for all numbers of a verdict."""
    if verdict.selected is None:
        rows = [["test", verdict.k, "mean", *_csv_estimate(NO_ESTIMATE), "", "nothing was selected"]]
    else:
        rows = _csv_test_rows(verdict)
        rows.append(["dev", verdict.k, "mean", *_csv_estimate(verdict.dev), verdict.selected.name, ""])
        if verdict.out_of_choice.value is not None:
            estimate = _csv_estimate(verdict.out_of_choice)
            rows.append(["out of choice", verdict.k, "ooc", *estimate, verdict.selected.name, ""])
        for quantity, value in verdict.cost.as_dict().items():
            if value is not None:
                no_interval = ["", "", "", len(verdict.selected.splits)]
                rows.append(
                    ["cost of a split", verdict.k, quantity, value, *no_interval, verdict.selected.name, "mean"]
                )
    return [*rows, _csv_correlation_row(verdict)]


def _csv_rows_over_k(verdict: ProtocolVerdict) -> list[list[Any]]:
    """The columns from ``criterion`` on, for one point of a stability curve."""
    rows = []
    for criterion, *other_columns in [*_csv_test_rows(verdict), _csv_correlation_row(verdict)]:
        rows.append([f"stability of {criterion}", *other_columns])
    return rows


def _csv_test_rows(verdict: ProtocolVerdict) -> list[list[Any]]:
    """One row for each metric and, if there are several, one for their mean."""
    estimates = dict(verdict.test_metrics)
    if len(estimates) != 1:
        estimates = {"mean": verdict.test, **estimates}
    name = "" if verdict.selected is None else verdict.selected.name
    rows: list[list[Any]] = []
    for metric, estimate in estimates.items():
        rows.append(["test", verdict.k, metric, *_csv_estimate(estimate), name, ""])
    return rows


def _csv_correlation_row(verdict: ProtocolVerdict) -> list[Any]:
    correlation = verdict.correlation
    return ["correlation", verdict.k, "spearman", *_csv_estimate(correlation), "", correlation.reason]


def _csv_estimate(estimate: ProtocolEstimate) -> list[Any]:
    return [estimate.value, estimate.std, estimate.low, estimate.high, estimate.n]


# --- JSON -------------------------------------------------------------------------------------------------------------


def document(studies: Sequence[Study]) -> dict[str, Any]:
    """All studies with all their numbers as JSON, for programs."""
    return {
        "confidence": studies[0].settings.confidence if studies else None,
        "studies": [_json_study(study) for study in studies],
    }


def _json_study(study: Study) -> dict[str, Any]:
    return {
        "title": study.title,
        "model": study.model,
        "method": study.method,
        "options": dict(study.fixed),
        "runs": list(study.runs),
        "strategies": [_json_strategy(strategy) for strategy in study.strategies],
    }


def _json_strategy(strategy: Strategy) -> dict[str, Any]:
    tasks = {}
    for task, verdict in strategy.verdicts.items():
        tasks[task] = _json_verdict(strategy, task, verdict)
    return {
        "name": strategy.label,
        **strategy.options.model_dump(mode="json"),
        # The options may have another name of the strategy, and a K that is not used; these replace both.
        "strategy": strategy.name,
        "k": strategy.k,
        "tasks": tasks,
    }


def _json_verdict(strategy: Strategy, task: str, verdict: ProtocolVerdict) -> dict[str, Any]:
    examples = {part: list(verdict.sizes(f"n_{part}")) for part in ("train", "dev", "test")}
    stability = {
        "by": "runs of every K" if strategy.ran_every_k else "the first splits",
        "points": [_json_point(other) for other in strategy.curves.get(task, ())],
    }
    missing_results = []
    for trial in verdict.trials_without_result:
        missing_results.append(
            {
                "configuration": trial.configuration,
                "split": trial.split,
                "run": trial.run,
                "failed": trial.state == "failed",
                "reason": trial.reason,
            }
        )
    return {
        "selected": None if verdict.selected is None else _json_configuration(verdict.selected),
        "tied": list(verdict.tied),
        "correlation": _json_correlation(verdict.correlation),
        "stability": stability,
        "splits": list(verdict.splits),
        "examples": examples,
        "configurations": [_json_configuration(configuration) for configuration in verdict.configurations],
        # The key is an odd word for missing results, but programs that read it exist.
        "wanting": missing_results,
        "notes": [*verdict.notes, *verdict.warnings],
    }


def _json_point(verdict: ProtocolVerdict) -> dict[str, Any]:
    """One point of a stability curve."""
    return {
        "k": verdict.k,
        "configuration": None if verdict.selected is None else verdict.selected.name,
        "test": _json_mean(verdict.test),
        "metrics": _json_means(verdict.test_metrics),
        "correlation": _json_correlation(verdict.correlation),
    }


def _json_configuration(configuration: Configuration) -> dict[str, Any]:
    return {
        "configuration": configuration.name,
        "params": dict(configuration.params),
        "dev": _json_mean(configuration.dev),
        "test": _json_mean(configuration.test),
        "metrics": _json_means(configuration.test_metrics),
        "ooc": _json_mean(configuration.out_of_choice),
        "cost": configuration.cost.as_dict(),
        "splits": list(configuration.splits),
        "missing": list(configuration.missing),
    }


def _json_means(estimates: Mapping[str, ProtocolEstimate]) -> dict[str, Any]:
    return {metric: _json_mean(estimate) for metric, estimate in estimates.items()}


def _json_mean(estimate: ProtocolEstimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "std": estimate.std,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
    }


def _json_correlation(estimate: ProtocolEstimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "reason": estimate.reason,
    }
