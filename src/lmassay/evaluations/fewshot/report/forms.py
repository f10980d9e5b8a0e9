"""The protocol's tables as Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lmassay.evaluations.fewshot.protocol.correlation import Correlation
from lmassay.evaluations.fewshot.protocol.judging import Spread, Standing, Verdict
from lmassay.evaluations.fewshot.protocol.stability import StabilityPoint
from lmassay.evaluations.fewshot.protocol.table import ProtocolTable
from lmassay.evaluations.fewshot.report.judged import JudgedArm, JudgedStudy
from lmassay.evaluations.fewshot.report.tables import (
    WHAT_IT_IS,
    Line,
    cells,
    comparisons,
    criteria,
    notes,
    selected,
    spread_text,
    stability_note,
)
from lmassay.reporting.formats.latex_text import escape_signs
from lmassay.reporting.formats.spreadsheet import cell

_SELECTED = ("task", "selected configuration", "dev mean", "splits", "configurations", "train/dev/test examples")


def what_it_is(judged: JudgedStudy) -> str:
    return WHAT_IT_IS.format(confidence=100 * judged.settings.confidence)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(studies: Sequence[JudgedStudy]) -> str:
    """One section a study, one table a strategy."""
    parts: list[str] = []
    for judged in studies:
        parts += [f"## {_md(judged.title)}", _md(what_it_is(judged))]
        for arm in judged.families:
            table = criteria(arm)
            parts += [f"### {_md(table.title)}", _md_table(table)]
            parts += [_md(stability_note(arm))] if arm.curves else []
            parts += [_md_rows(_SELECTED, _selected_rows(arm))]
            parts += ["\n".join(f"- {_md(note)}" for note in told)] if (told := notes(arm)) else []
        if len(judged.arms) > 1:
            parts += ["### Strategies compared"]
            for table in comparisons(judged):
                parts += [f"**{_md(table.title)}**", _md_table(table)]
    return "\n\n".join(parts) + "\n"


def _md_table(table: ProtocolTable) -> str:
    rows = []
    for row in table.rows:
        shared, found = cells(row)
        texts = ["<br>".join(_md(_told(line)) for line in cell) for cell in found]
        rows.append([_md(f"{row.name} ({shared})" if shared else row.name), *texts])
    return _md_rows(["", *table.columns], rows, escaped=True)


def _told(line: Line) -> str:
    return " ".join([line.text, line.interval, f"({line.n})" if line.n else ""]).strip()


def _md_rows(heads: Sequence[str], rows: Iterable[Sequence[str]], *, escaped: bool = False) -> str:
    lines = [f"| {' | '.join(map(_md, heads))} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {' | '.join(row if escaped else map(_md, row))} |" for row in rows]
    return "\n".join(lines)


def _selected_rows(arm: JudgedArm) -> list[list[str]]:
    return [
        [s.task, s.configuration, spread_text(s.dev), s.splits, str(s.configurations), s.examples]
        for s in selected(arm)
    ]


def _md(text: str) -> str:
    """Text that Markdown leaves as it is."""
    for sign in "\\`*_[]<>|#":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


# --- LaTeX ------------------------------------------------------------------------------------------------------------


def latex(studies: Sequence[JudgedStudy]) -> str:
    """One tabular a strategy, and one a criterion where there are several; intervals below their numbers."""
    parts = ["% Needs \\usepackage{booktabs}. Below each number its interval and n."]
    for judged in studies:
        parts.append(f"% {_one_line(judged.title)}: {_one_line(what_it_is(judged))}")
        for arm in judged.families:
            table = criteria(arm)
            parts += [f"% {_one_line(table.title)}. {stability_note(arm)}".rstrip()]
            parts += [f"% {' | '.join(map(_one_line, row))}" for row in [list(_SELECTED), *_selected_rows(arm)]]
            parts += [f"% {_one_line(note)}" for note in notes(arm)]
            parts.append(_tabular(table, 2))
        if len(judged.arms) > 1:
            for table in comparisons(judged):
                parts += [f"% {_one_line(table.title)}", _tabular(table)]
    return "\n".join(parts) + "\n"


def _tabular(table: ProtocolTable, rule_after: int | None = None) -> str:
    columns = ["", *table.columns]
    lines = [
        rf"\begin{{tabular}}{{l{'c' * len(table.columns)}}}",
        r"\toprule",
        _tex_row(map(escape_signs, columns)),
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        if place == rule_after:
            lines.append(r"\midrule")
        shared, found = cells(row)
        lines.append(_tex_row([_tex(row.name), *("/".join(_tex(line.text) for line in cell) for cell in found)]))
        small = ["/".join(", ".join(line.small) for line in cell if line.small) for cell in found]
        lines.append(_tex_row(rf"{{\scriptsize {escape_signs(text)}}}" if text else "" for text in [shared, *small]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _tex(text: str) -> str:
    return escape_signs(text).replace("±", r"$\pm$").replace("–", "--")


def _tex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- CSV --------------------------------------------------------------------------------------------------------------

_COLUMNS = (
    *("model", "method", "strategy", "k", "ratio", "task", "criterion", "at_k", "metric", "value", "std", "low"),
    *("high", "n", "configuration", "note"),
)


def csv_text(studies: Sequence[JudgedStudy]) -> str:
    """One number a line: shares as shares, with the configuration that was selected."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for judged in studies:
        for arm in judged.arms:
            for task, verdict in arm.verdicts.items():
                head = [
                    judged.study.model,
                    judged.study.method,
                    arm.arm.strategy,
                    arm.arm.k,
                    arm.arm.options.ratio,
                    task,
                ]
                for row in [*_numbers(verdict), *_numbers_over_k(arm.curves.get(task, ()))]:
                    writer.writerow([cell(value) for value in [*head, *row]])
    return stream.getvalue()


def _numbers(verdict: Verdict) -> list[list[Any]]:
    chosen = verdict.chosen
    k = len(verdict.splits)
    rows = [] if chosen is None else _spreads(k, chosen.configuration, chosen.test, chosen.test_metrics)
    rows += [] if chosen is None else [["dev", k, "mean", *_parts(chosen.dev), chosen.configuration, ""]]
    rows += [["test", k, "mean", *_parts(Spread(None)), "", "nothing was selected"]] if chosen is None else []
    return [*rows, _correlation_row(k, verdict.correlation)]


def _numbers_over_k(points: Sequence[StabilityPoint]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for point in points:
        found = [*_spreads(point.k, point.configuration or "", point.test, point.test_metrics)]
        found.append(_correlation_row(point.k, point.correlation))
        rows += [[f"stability of {row[0]}", *row[1:]] for row in found]
    return rows


def _spreads(k: int, configuration: str, test: Spread, metrics: Mapping[str, Spread]) -> list[list[Any]]:
    found = {"mean": test, **metrics} if len(metrics) != 1 else dict(metrics)
    return [["test", k, metric, *_parts(value), configuration, ""] for metric, value in found.items()]


def _correlation_row(k: int, found: Correlation) -> list[Any]:
    return ["correlation", k, "spearman", found.value, None, found.low, found.high, found.n, "", found.reason]


def _parts(found: Spread) -> list[Any]:
    return [found.value, found.std, found.low, found.high, found.n]


# --- JSON -------------------------------------------------------------------------------------------------------------


def document(studies: Sequence[JudgedStudy]) -> dict[str, Any]:
    """Everything, for programs."""
    return {"confidence": studies[0].settings.confidence if studies else None, "studies": [_study(j) for j in studies]}


def _study(judged: JudgedStudy) -> dict[str, Any]:
    return {
        "title": judged.title,
        "model": judged.study.model,
        "method": judged.study.method,
        "options": dict(judged.study.fixed),
        "runs": list(judged.study.runs),
        "strategies": [
            {
                "name": arm.arm.name,
                **arm.arm.options.model_dump(mode="json"),
                "strategy": arm.arm.strategy,
                "k": arm.arm.k,
                "tasks": {task: _task(arm, task, verdict) for task, verdict in arm.verdicts.items()},
            }
            for arm in judged.arms
        ],
    }


def _task(arm: JudgedArm, task: str, verdict: Verdict) -> dict[str, Any]:
    found = arm.evidence(task)
    return {
        "selected": None if verdict.chosen is None else _standing(verdict.chosen),
        "tied": list(verdict.tied),
        "correlation": _correlation(verdict.correlation),
        "stability": {
            "by": "runs of every K" if arm.by_sweeps else "the first splits",
            "points": [
                {
                    "k": point.k,
                    "configuration": point.configuration,
                    "test": _spread(point.test),
                    "metrics": {metric: _spread(value) for metric, value in point.test_metrics.items()},
                    "correlation": _correlation(point.correlation),
                }
                for point in arm.curves.get(task, ())
            ],
        },
        "splits": list(verdict.splits),
        "examples": {part: list(found.sizes(f"n_{part}")) for part in ("train", "dev", "test")},
        "configurations": [_standing(standing) for standing in verdict.standings],
        "wanting": [
            {
                "configuration": t.trial.configuration,
                "split": t.trial.split,
                "run": t.run,
                "failed": t.failed,
                "reason": t.wanting,
            }
            for t in found.wanting
        ],
        "notes": [*verdict.notes, *found.notes],
    }


def _standing(standing: Standing) -> dict[str, Any]:
    return {
        "configuration": standing.configuration,
        "params": dict(standing.params),
        "dev": _spread(standing.dev),
        "test": _spread(standing.test),
        "metrics": {metric: _spread(value) for metric, value in standing.test_metrics.items()},
        "splits": list(standing.splits),
        "missing": list(standing.missing),
    }


def _spread(found: Spread) -> dict[str, Any]:
    return {"value": found.value, "std": found.std, "low": found.low, "high": found.high, "n": found.n}


def _correlation(found: Correlation) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n, "reason": found.reason}
