"""The table of all runs against the best one, for the page of a comparison and for reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmassay.reporting.blocks import Block, Body, Cell, Line, Table, name
from lmassay.reporting.compared import interval_text
from lmassay.reporting.numbers import number_text, p_text
from lmassay.statistics.ranking import Standing


def ranking_table(standings: Sequence[Standing], title: Callable[[str], str], alpha: float) -> list[Block]:
    """All runs against the best one; nothing for two runs."""
    if not standings:
        return []
    lines = []
    for standing in standings:
        row = standing.row
        numbers = [Cell(""), Cell("")]
        if row is not None:
            numbers = [Cell(f"{row.difference:+z.4f}", [interval_text(row, "+")]), Cell(p_text(row.p_adjusted))]
        lines.append(
            Line(
                [
                    name(standing.metric),
                    Cell(title(standing.run), kind="text"),
                    Cell(number_text(standing.mean)),
                    *numbers,
                    Cell(standing.mark, kind="text"),
                ]
            )
        )
    heads = ("mean", "difference to the best, interval", "p (Holm)")
    head = [Cell("metric", kind="text"), Cell("run", kind="text"), *map(Cell, heads), Cell("", kind="text")]
    tests = max(standing.tests for standing in standings)
    caption = (
        f"All runs against the best by each metric. p: two-sided, adjusted by Holm's method for the {tests} pairs of "
        f"runs by each metric. Tie: not significantly different from the best at {alpha:g}."
    )
    return [Table(caption, [head], [Body(lines)])]
