"""The protocol's tables as blocks, which page, Markdown and LaTeX print alike."""

from __future__ import annotations

from lmassay.evaluations.fewshot.protocol.estimates import ProtocolEstimate
from lmassay.evaluations.fewshot.protocol.judging import Configuration
from lmassay.evaluations.fewshot.protocol.studies import Strategy
from lmassay.evaluations.fewshot.report.tables import (
    ProtocolTable,
    estimate_text,
    examples_text,
    printed_cells,
    selected_name,
    splits_text,
)
from lmassay.reporting.blocks import Body, Cell, Table, TableRow, count, name

# A table with more columns is set densely.
_MOST_COLUMNS = 5


def shown_table(table: ProtocolTable, caption: str, rule_after: int | None = None) -> Table:
    """A table of the protocol; ``rule_after`` so many rows LaTeX draws a rule."""
    lines = []
    for row in table.rows:
        shared_n, cells = printed_cells(row)
        line = [name(row.name, shared_n) if shared_n else name(row.name)]
        for cell in cells:
            below = [text for number in cell for text in number.small]
            line.append(Cell(" / ".join(number.text for number in cell), below))
        lines.append(TableRow(line))
    head = [Cell("", kind="text"), *map(Cell, table.columns)]
    bodies = [Body(lines)]
    if rule_after is not None and rule_after < len(lines):
        bodies = [Body(lines[:rule_after]), Body(lines[rule_after:], apart=True)]
    return Table(caption, [head], bodies, dense=len(table.columns) > _MOST_COLUMNS)


def selected_table(strategy: Strategy) -> Table:
    """What was selected on each task, and what that rests on."""
    lines = []
    for task, verdict in strategy.verdicts.items():
        shared = _shared_options(verdict.selected)
        lines.append(
            TableRow(
                [
                    name(task),
                    Cell(selected_name(verdict), [shared] if shared else [], kind="text"),
                    estimate_cell(verdict.dev),
                    estimate_cell(verdict.test),
                    Cell(splits_text(verdict)),
                    count(len(verdict.configurations)),
                    Cell(examples_text(verdict)),
                ]
            )
        )
    texts = ("task", "selected configuration")
    numbers = ("dev", "test", "splits", "configurations", "train/dev/test examples")
    head = [*(Cell(title, kind="text") for title in texts), *map(Cell, numbers)]
    caption = "The configuration with the best mean dev score. Options that are not named are the method's defaults."
    return Table(caption, [head], [Body(lines)])


def _shared_options(selected: Configuration | None) -> str:
    """The options that all configurations share, which the name of the selected one leaves out."""
    if selected is None:
        return ""
    shared = [f"{key}={value}" for key, value in selected.params.items() if f"{key}=" not in selected.name]
    return f"for all: {', '.join(shared)}" if shared else ""


def estimate_cell(estimate: ProtocolEstimate) -> Cell:
    """The number, its interval below."""
    number, has_interval, interval = estimate_text(estimate).partition(" [")
    return Cell(number, [f"[{interval}"] if has_interval else [])
