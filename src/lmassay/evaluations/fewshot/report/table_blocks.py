"""The protocol's tables as blocks, from which pages, Markdown and LaTeX are written."""

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

# A table with more columns than this gets a dense layout.
_MAX_COLUMNS = 5


def protocol_block(table: ProtocolTable, caption: str, rule_after: int | None = None) -> Table:
    """A table of the protocol as a block. In LaTeX there is a horizontal rule after ``rule_after`` rows."""
    table_rows = []
    for row in table.rows:
        shared_n, cells = printed_cells(row)
        table_cells = [name(row.name, shared_n) if shared_n else name(row.name)]
        for cell in cells:
            text = " / ".join(number.text for number in cell)
            below: list[str] = []
            for number in cell:
                below += number.small
            table_cells.append(Cell(text, below))
        table_rows.append(TableRow(table_cells))
    header = [Cell("", kind="text"), *map(Cell, table.columns)]
    bodies = [Body(table_rows)]
    if rule_after is not None and rule_after < len(table_rows):
        bodies = [Body(table_rows[:rule_after]), Body(table_rows[rule_after:], apart=True)]
    return Table(caption, [header], bodies, dense=len(table.columns) > _MAX_COLUMNS)


def selected_table(strategy: Strategy) -> Table:
    """The table of the configuration that was selected on each task, with its scores and numbers of examples."""
    table_rows = []
    for task, verdict in strategy.verdicts.items():
        shared = _shared_options(verdict.selected)
        below_name = [shared] if shared else []
        cells = [
            name(task),
            Cell(selected_name(verdict), below_name, kind="text"),
            estimate_cell(verdict.dev),
            estimate_cell(verdict.test),
            Cell(splits_text(verdict)),
            count(len(verdict.configurations)),
            Cell(examples_text(verdict)),
        ]
        table_rows.append(TableRow(cells))
    header = [
        Cell("task", kind="text"),
        Cell("selected configuration", kind="text"),
        Cell("dev"),
        Cell("test"),
        Cell("splits"),
        Cell("configurations"),
        Cell("train/dev/test examples"),
    ]
    caption = "The configuration with the best mean dev score. Options that are not shown have the method's defaults."
    return Table(caption, [header], [Body(table_rows)])


def _shared_options(selected: Configuration | None) -> str:
    """The options that are the same in all configurations, which their names therefore leave out."""
    if selected is None:
        return ""
    # Whole keys are compared, because "learning_rate=" is also the end of "embedding_learning_rate=".
    varied_keys = {part.partition("=")[0] for part in selected.name.split(", ")}
    shared = []
    for key, value in selected.params.items():
        if key not in varied_keys:
            shared.append(f"{key}={value}")
    if not shared:
        return ""
    return f"for all: {', '.join(shared)}"


def estimate_cell(estimate: ProtocolEstimate) -> Cell:
    """A cell with the number, and its interval below it."""
    number, _, interval = estimate_text(estimate).partition(" [")
    if not interval:
        return Cell(number, [])
    return Cell(number, [f"[{interval}"])
