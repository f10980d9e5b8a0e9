"""The protocol's tables as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from lmassay.evaluations.fewshot.protocol.estimates import NO_ESTIMATE, Estimate
from lmassay.evaluations.fewshot.protocol.judging import Configuration, Verdict
from lmassay.evaluations.fewshot.protocol.studies import Strategy, Study
from lmassay.evaluations.fewshot.report.tables import (
    PrintedNumber,
    ProtocolTable,
    comparison_tables,
    criteria_table,
    estimate_text,
    examples_text,
    explanation,
    notes,
    printed_cells,
    selected_name,
    splits_text,
    stability_note,
)
from lmassay.reporting.formats.latex import escape_signs
from lmassay.reporting.formats.spreadsheet import cell as spreadsheet_cell

_SELECTED = ("task", "selected configuration", "dev mean", "splits", "configurations", "train/dev/test examples")


def _selected_rows(strategy: Strategy) -> list[list[str]]:
    """What was selected on each task, under the heads of ``_SELECTED``."""
    rows = []
    for task, verdict in strategy.verdicts.items():
        rows.append(
            [
                task,
                selected_name(verdict),
                estimate_text(verdict.dev),
                splits_text(verdict),
                str(len(verdict.configurations)),
                examples_text(verdict),
            ]
        )
    return rows


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(studies: Sequence[Study]) -> str:
    """One section a study, one table a strategy."""
    parts: list[str] = []
    for study in studies:
        parts += [f"## {_md(study.title)}", _md(explanation(study))]
        for strategy in study.main_strategies:
            table = criteria_table(strategy)
            parts += [f"### {_md(table.title)}", _md_table(table)]
            if strategy.curves:
                parts.append(_md(stability_note(strategy)))
            selected = [[_md(text) for text in row] for row in _selected_rows(strategy)]
            parts.append(_md_rows(_SELECTED, selected))
            strategy_notes = [f"- {_md(note)}" for note in notes(strategy)]
            if strategy_notes:
                parts.append("\n".join(strategy_notes))
        if len(study.strategies) > 1:
            parts.append("### Strategies compared")
            for table in comparison_tables(study):
                parts += [f"**{_md(table.title)}**", _md_table(table)]
    return "\n\n".join(parts) + "\n"


def _md_table(table: ProtocolTable) -> str:
    rows = []
    for row in table.rows:
        shared_n, cells = printed_cells(row)
        name = f"{row.name} ({shared_n})" if shared_n else row.name
        texts = ["<br>".join(_md(_md_number(number)) for number in cell) for cell in cells]
        rows.append([_md(name), *texts])
    return _md_rows(["", *table.columns], rows)


def _md_number(number: PrintedNumber) -> str:
    n = f"({number.n})" if number.n else ""
    return f"{number.text} {number.interval} {n}".strip()


def _md_rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are escaped already; the heads are not."""
    lines = [f"| {' | '.join(map(_md, heads))} |", f"|{' --- |' * len(heads)}"]
    for row in rows:
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _md(text: str) -> str:
    """Text that Markdown leaves as it is."""
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


# --- LaTeX ------------------------------------------------------------------------------------------------------------


def latex(studies: Sequence[Study]) -> str:
    """One tabular a strategy, and one a criterion where there are several; intervals below their numbers."""
    parts = ["% Needs \\usepackage{booktabs}. Below each number its interval and n."]
    for study in studies:
        parts.append(_tex_comment(f"{study.title}: {explanation(study)}"))
        for strategy in study.main_strategies:
            table = criteria_table(strategy)
            parts.append(_tex_comment(f"{table.title}. {stability_note(strategy)}"))
            for row in [_SELECTED, *_selected_rows(strategy)]:
                parts.append(_tex_comment(" | ".join(row)))
            parts += [_tex_comment(note) for note in notes(strategy)]
            # The rows below the rule are those of other K.
            parts.append(_tabular(table, rule_after=2))
        if len(study.strategies) > 1:
            for table in comparison_tables(study):
                parts += [_tex_comment(table.title), _tabular(table)]
    return "\n".join(parts) + "\n"


def _tabular(table: ProtocolTable, rule_after: int | None = None) -> str:
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        _tex_row(escape_signs(column) for column in ["", *table.columns]),
        r"\midrule",
    ]
    for number_of_row, row in enumerate(table.rows):
        if number_of_row == rule_after:
            lines.append(r"\midrule")
        shared_n, cells = printed_cells(row)
        texts = [_tex(row.name)]
        below = [_tex_small(shared_n)]
        for cell in cells:
            texts.append("/".join(_tex(number.text) for number in cell))
            below.append(_tex_small("/".join(", ".join(number.small) for number in cell if number.small)))
        lines += [_tex_row(texts), _tex_row(below)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _tex(text: str) -> str:
    return escape_signs(text).replace("±", r"$\pm$").replace("–", "--")


def _tex_small(text: str) -> str:
    return rf"{{\scriptsize {escape_signs(text)}}}" if text else ""


def _tex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _tex_comment(text: str) -> str:
    """On one line, whatever the text holds: what follows a line break would be typeset."""
    return f"% {' '.join(text.split())}"


# --- CSV --------------------------------------------------------------------------------------------------------------

_COLUMNS = (
    *("model", "method", "strategy", "k", "ratio", "task"),
    *("criterion", "at_k", "metric", "value", "std", "low", "high", "n", "configuration", "note"),
)


def csv_text(studies: Sequence[Study]) -> str:
    """One number a line: shares as shares, with the configuration that was selected."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for study in studies:
        for strategy in study.strategies:
            for task, verdict in strategy.verdicts.items():
                head = [study.model, study.method, strategy.name, strategy.k, strategy.options.ratio, task]
                rows = _csv_rows(verdict)
                for other in strategy.curves.get(task, ()):
                    rows += _csv_rows_over_k(other)
                for row in rows:
                    writer.writerow([spreadsheet_cell(value) for value in [*head, *row]])
    return stream.getvalue()


def _csv_rows(verdict: Verdict) -> list[list[Any]]:
    """The numbers of a verdict, from the column ``criterion`` on."""
    if verdict.selected is None:
        rows = [["test", verdict.k, "mean", *_csv_estimate(NO_ESTIMATE), "", "nothing was selected"]]
    else:
        rows = _csv_test_rows(verdict)
        rows.append(["dev", verdict.k, "mean", *_csv_estimate(verdict.dev), verdict.selected.name, ""])
    return [*rows, _csv_correlation_row(verdict)]


def _csv_rows_over_k(verdict: Verdict) -> list[list[Any]]:
    """The numbers of one point of a stability curve."""
    rows = [*_csv_test_rows(verdict), _csv_correlation_row(verdict)]
    return [[f"stability of {criterion}", *rest] for criterion, *rest in rows]


def _csv_test_rows(verdict: Verdict) -> list[list[Any]]:
    """One row for each metric; with several, one for their mean as well."""
    estimates = dict(verdict.test_metrics)
    if len(estimates) != 1:
        estimates = {"mean": verdict.test, **estimates}
    name = "" if verdict.selected is None else verdict.selected.name
    rows: list[list[Any]] = []
    for metric, estimate in estimates.items():
        rows.append(["test", verdict.k, metric, *_csv_estimate(estimate), name, ""])
    return rows


def _csv_correlation_row(verdict: Verdict) -> list[Any]:
    correlation = verdict.correlation
    return ["correlation", verdict.k, "spearman", *_csv_estimate(correlation), "", correlation.reason]


def _csv_estimate(estimate: Estimate) -> list[Any]:
    return [estimate.value, estimate.std, estimate.low, estimate.high, estimate.n]


# --- JSON -------------------------------------------------------------------------------------------------------------


def document(studies: Sequence[Study]) -> dict[str, Any]:
    """Everything, for programs."""
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
    return {
        "name": strategy.label,
        **strategy.options.model_dump(mode="json"),
        "strategy": strategy.name,
        "k": strategy.k,
        "tasks": {task: _json_verdict(strategy, task, verdict) for task, verdict in strategy.verdicts.items()},
    }


def _json_verdict(strategy: Strategy, task: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "selected": None if verdict.selected is None else _json_configuration(verdict.selected),
        "tied": list(verdict.tied),
        "correlation": _json_correlation(verdict.correlation),
        "stability": {
            "by": "runs of every K" if strategy.ran_every_k else "the first splits",
            "points": [_json_point(other) for other in strategy.curves.get(task, ())],
        },
        "splits": list(verdict.splits),
        "examples": {part: list(verdict.sizes(f"n_{part}")) for part in ("train", "dev", "test")},
        "configurations": [_json_configuration(configuration) for configuration in verdict.configurations],
        "wanting": [
            {
                "configuration": trial.configuration,
                "split": trial.split,
                "run": trial.run,
                "failed": trial.state == "failed",
                "reason": trial.reason,
            }
            for trial in verdict.trials_without_result
        ],
        "notes": [*verdict.notes, *verdict.warnings],
    }


def _json_point(verdict: Verdict) -> dict[str, Any]:
    """One point of a stability curve."""
    return {
        "k": verdict.k,
        "configuration": None if verdict.selected is None else verdict.selected.name,
        "test": _json_mean(verdict.test),
        "metrics": {metric: _json_mean(estimate) for metric, estimate in verdict.test_metrics.items()},
        "correlation": _json_correlation(verdict.correlation),
    }


def _json_configuration(configuration: Configuration) -> dict[str, Any]:
    return {
        "configuration": configuration.name,
        "params": dict(configuration.params),
        "dev": _json_mean(configuration.dev),
        "test": _json_mean(configuration.test),
        "metrics": {metric: _json_mean(estimate) for metric, estimate in configuration.test_metrics.items()},
        "splits": list(configuration.splits),
        "missing": list(configuration.missing),
    }


def _json_mean(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "std": estimate.std,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
    }


def _json_correlation(estimate: Estimate) -> dict[str, Any]:
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "n": estimate.n,
        "reason": estimate.reason,
    }
