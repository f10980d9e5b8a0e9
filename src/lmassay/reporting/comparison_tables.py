"""Tables of differences between runs: each run against the first one, and all runs against the best one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmassay.reporting.blocks import Block, Body, Cell, Table, TableRow, header_row, name, text_cell
from lmassay.reporting.comparison_data import adjustment_text, interval_text
from lmassay.reporting.numbers import number_text, p_text
from lmassay.statistics.comparison import Comparison
from lmassay.statistics.ranking import Standing


def differences_table(rows: Sequence[Comparison], pairing: str, note: str = "") -> Table:
    """Return a table that compares each run with the first one, metric by metric.

    ``pairing`` says what is paired, such as "paired by example"; ``note`` is added to the caption.
    """
    adjustment = adjustment_text(rows)
    table_rows = []
    for row in rows:
        cells = [
            name(row.metric),
            Cell(row.new_label, kind="text"),
            Cell(number_text(row.new_mean)),
            Cell(number_text(row.base_mean)),
            Cell(f"{row.difference:+z.4f}"),
            Cell(interval_text(row)),
            Cell(p_text(row.p)),
        ]
        if adjustment:
            cells.append(Cell(p_text(row.p_adjusted)))
        cells.append(Cell(f"{row.n:,}"))
        table_rows.append(TableRow(cells))
    number_headers = ["mean", "base mean", "difference", "interval", "p"]
    caption = f"{pairing[:1].upper()}{pairing[1:]}. Interval and two-sided p from the same paired t-test."
    if adjustment:
        number_headers.append("p (FDR)")
        caption += f" FDR: {adjustment}."
    number_headers.append("pairs")
    header = header_row(["metric", "run"], number_headers)
    return Table(f"{caption} {note}".strip(), [header], [Body(table_rows)])


def ranking_table(standings: Sequence[Standing], title: Callable[[str], str], alpha: float) -> list[Block]:
    """Return a table that compares all runs with the best one, metric by metric.

    The list is empty if there are no standings, as for only two runs. ``title`` returns the title of a run by its id.
    """
    if not standings:
        return []
    table_rows = []
    for standing in standings:
        row = standing.row
        # The best run itself has no difference from the best.
        difference = Cell("")
        p = Cell("")
        if row is not None:
            difference = Cell(f"{row.difference:+z.4f}", [interval_text(row, "+")])
            p = Cell(p_text(row.p_adjusted))
        cells = [
            name(standing.metric),
            Cell(title(standing.run), kind="text"),
            Cell(number_text(standing.mean)),
            difference,
            p,
            Cell(standing.mark, kind="text"),
        ]
        table_rows.append(TableRow(cells))
    number_headers = ("mean", "difference from the best, interval", "p (Holm)")
    header = [
        Cell("metric", kind="text"),
        Cell("run", kind="text"),
        *map(Cell, number_headers),
        text_cell("best or tie"),
    ]
    caption = (
        "All runs against the best by each metric. p: two-sided, adjusted by Holm's method for all pairs of the runs "
        f"with this metric. The interval of each difference is not adjusted, so it may exclude 0 although p is above "
        f"{alpha:g}. Tie: not significantly different from the best at {alpha:g}."
    )
    return [Table(caption, [header], [Body(table_rows)])]
