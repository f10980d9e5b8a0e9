"""More than two runs: which is best, and which do not differ significantly from it.

Every run is compared with the best one, on the examples that both scored. Which run is best is not known beforehand
but read off the same data, so p-values are two-sided and adjusted (by Holm's method) for all pairs of runs: any of them
could have been the one that is shown. Adjusted for the comparisons with the best only, one of ten equal runs would be
called worse in 14 % of cases. Runs that do not differ significantly from the best are tied with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lmassay.errors import UserError
from lmassay.statistics.comparability import measured_differently
from lmassay.statistics.comparison import Comparison, compare_runs
from lmassay.statistics.distributions import holm_adjusted
from lmassay.statistics.sides import Side
from lmassay.types import Better

Mark = Literal["best", "tie", ""]


@dataclass(frozen=True, slots=True)
class Standing:
    """One run in a ranking; ``row`` compares it with the best run, whose own standing has none."""

    metric: str
    run: str
    mean: float
    mark: Mark
    tests: int
    """How many pairs of runs ``row.p_adjusted`` is adjusted for."""
    row: Comparison | None = None


def rankings(sides: Sequence[Side], rows: Sequence[Comparison], alpha: float) -> list[Standing]:
    """The ranking by each metric; ``rows`` compare the first run with each other one.

    Empty for fewer than three runs, which need no ranking, and for runs that were measured differently: by another
    scorer or threshold, none of them is the best.
    """
    standings: list[Standing] = []
    if len(sides) < 3 or measured_differently([side.record for side in sides]):
        return standings
    for metric in dict.fromkeys(row.metric for row in rows):
        standings += _ranking(sides, [row for row in rows if row.metric == metric], alpha)
    return standings


def ranking_by(sides: Sequence[Side], metric: str, alpha: float) -> list[Standing]:
    """The ranking of two or more runs by one metric, the best first; runs without a common example have no standing.

    Raises UserError if the runs cannot be compared with the first one.
    """
    first, *others = sides
    rows = compare_runs(first, others, [metric])
    if not rows:
        return []
    return _ranking(sides, rows, alpha)


def _ranking(sides: Sequence[Side], rows: Sequence[Comparison], alpha: float) -> list[Standing]:
    by_id = {side.record.id: side for side in sides}
    best_id, best_mean = _best(rows)
    best = by_id[best_id]
    metric = rows[0].metric
    runs_in_order = [rows[0].base]
    for row in rows:
        runs_in_order.append(row.new)
    compared: list[Comparison] = []
    for run in runs_in_order:
        if run != best_id:
            compared += _against(best, by_id[run], metric)

    # Holm (1979) for all pairs of runs, not only those with the best: see above.
    runs = len(compared) + 1
    tests = runs * (runs - 1) // 2
    tested_runs: list[str] = []
    p_values: list[float] = []
    for row in compared:
        if row.p is not None:
            tested_runs.append(row.new)
            p_values.append(row.p)
    p_of_run = dict(zip(tested_runs, holm_adjusted(p_values, tests), strict=True))

    standings = []
    for row in compared:
        p = p_of_run.get(row.new)
        is_worse = p is not None and p < alpha
        # A run without a p-value cannot be distinguished from the best one either.
        mark: Mark = "" if is_worse else "tie"
        standings.append(Standing(metric, row.new, row.new_mean, mark, tests, replace(row, p_adjusted=p)))
    standings.sort(key=lambda standing: _badness(standing.mean, rows[0].better))
    return [Standing(metric, best_id, best_mean, "best", tests), *standings]


def _best(rows: Sequence[Comparison]) -> tuple[str, float]:
    """The run with the best mean, measured by its distance to the first run on the examples that both scored.

    Plain means would favour a run that happens to have scored easier examples. Of equal runs the first one counts.
    """
    better = rows[0].better
    best = rows[0].base
    mean = rows[0].base_mean
    least = 0.0
    for row in rows:
        lead = _badness(row.new_mean, better) - _badness(row.base_mean, better)
        if lead < least:
            best = row.new
            mean = row.new_mean
            least = lead
    return best, mean


def _badness(value: float, better: Better) -> float:
    """Smaller is better."""
    if better == "zero":
        return abs(value)
    return value if better == "lower" else -value


def _against(best: Side, other: Side, metric: str) -> list[Comparison]:
    try:
        return compare_runs(best, [other], [metric])
    except UserError:
        # Both share examples with the first run, but not with each other.
        return []
