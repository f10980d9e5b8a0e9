"""``lmassay compare``"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from lmassay.cli.common import interval_title, json_option, results_option
from lmassay.cli.console import print_json, print_table, warn
from lmassay.comparison import Comparison, caveats, compare_runs, load_side
from lmassay.errors import UserError
from lmassay.report.numbers import number_text, p_text
from lmassay.store import RunRecord, Store


@click.command(epilog="Example: lmassay compare BASE NEW", short_help="Compare runs.")
@click.argument("runs", metavar="RUN RUN...", nargs=-1, required=True)
@results_option
@json_option
def compare(runs: Sequence[str], results: Path, as_json: bool) -> None:
    """Compare each further run with the first, on the examples both have: difference, its interval, paired test."""
    if len(runs) < 2:
        raise UserError("give at least two runs: the first is what the others are compared with; see `lmassay ls`")
    with Store(results) as store:
        sides = [load_side(store, store.run(name)) for name in runs]
    found = compare_runs(sides[0], sides[1:])
    told = caveats(sides[0], sides[1:])
    base, others = sides[0].record, sides[1:]
    for caveat in told:
        warn(caveat)
    if as_json:
        print_json(
            {
                "base": base.id,
                "caveats": told,
                "comparisons": [asdict(row) | {"relative": row.relative} for row in found],
            }
        )
        return
    several = len(others) > 1
    # One run has its name in the title; several need a column for it, and their tests are many.
    new = "" if several else f"{others[0].name} "
    columns = ("base mean", "new mean", "difference", interval_title(base), "relative", "p", "n")
    print_table(
        f"{new}against {base.id} ({sides[0].name}); paired by example, tested by swaps within {_unit(base)}",
        ("metric", "new", *columns, "p (FDR)") if several else ("metric", *columns),
        [_row(row, several) for row in found],
        right=range(2 if several else 1, 10),
    )


def _unit(base: RunRecord) -> str:
    """What is not torn apart."""
    cluster = base.provenance.get("cluster")
    return f"each {cluster}" if cluster else "pairs"


def _row(row: Comparison, several: bool) -> list[object]:
    interval = "n/a" if row.low is None else f"[{number_text(row.low)}, {number_text(row.high)}]"
    cells: list[object] = [
        number_text(row.base_mean),
        number_text(row.new_mean),
        f"{row.difference:+.4f}",
        interval,
        "n/a" if row.relative is None else f"{row.relative:+.1%}",
        p_text(row.p),
        row.n,
    ]
    return [row.metric, row.new_label, *cells, p_text(row.p_adjusted)] if several else [row.metric, *cells]
