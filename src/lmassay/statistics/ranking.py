"""Ranks more than two runs: which is best, and which do not differ significantly from it.

Every run is compared with the best one, on the examples that both scored. The same data decide which run is best, so
any pair of runs could have become one of these comparisons. That is why p-values are two-sided and adjusted (by Holm's
method) for the number of all pairs. If they were adjusted only for the comparisons with the best run, one of ten
equally good runs would be called worse in 14 % of cases. Runs that do not differ significantly from the best are tied
with it.
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
    """One run in a ranking."""

    metric: str
    run: str
    """The id of the run."""
    mean: float
    """The mean over the examples that this run and the best run have in common; for the best run itself, over those
    that it has in common with one of the others."""
    mark: Mark
    """``best``, ``tie`` if the run does not differ significantly from the best one, or empty if it is worse."""
    tests: int
    """The number of pairs of runs for which ``row.p_adjusted`` is adjusted."""
    row: Comparison | None = None
    """The comparison with the best run; None for the best run itself."""


def rankings(sides: Sequence[Side], rows: Sequence[Comparison], alpha: float) -> list[Standing]:
    """The ranking by each metric; ``rows`` compare the first run with each of the others.

    Empty for fewer than three runs, which need no ranking, and for runs that were measured differently: with different
    scorers or thresholds, no run can be called the best.
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
    """The standings by one metric, the best first; ``rows`` compare the first run with each of the others."""
    by_id = {side.record.id: side for side in sides}
    best_id, best_mean = _best(rows)
    best = by_id[best_id]
    metric = rows[0].metric
    run_ids = [rows[0].base]
    for row in rows:
        run_ids.append(row.new)
    compared: list[Comparison] = []
    for run_id in run_ids:
        if run_id != best_id:
            compared += _against(best, by_id[run_id], metric)

    # Holm (1979) for all pairs of runs, not only those with the best: see the top of this module.
    n_runs = len(compared) + 1
    tests = n_runs * (n_runs - 1) // 2
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
        # Without a p-value, a run cannot be distinguished from the best one, so it is a tie, too.
        mark: Mark = "" if is_worse else "tie"
        standing = Standing(
            metric=metric,
            run=row.new,
            mean=row.new_mean,
            mark=mark,
            tests=tests,
            row=replace(row, p_adjusted=p),
        )
        standings.append(standing)
    standings.sort(key=lambda standing: _badness(standing.mean, rows[0].better))
    return [Standing(metric, best_id, best_mean, "best", tests), *standings]


def _best(rows: Sequence[Comparison]) -> tuple[str, float]:
    """The id and the mean of the best run: the one that is best relative to the first run on their common examples.

    A comparison of the runs' own means would favour a run that happens to have scored easier examples. If several runs
    are equally good, the first of them is returned.
    """
    better = rows[0].better
    best_run = rows[0].base
    best_mean = rows[0].base_mean
    # The loss says how much worse a run is than the first one; it is negative for a better run.
    least_loss = 0.0
    for row in rows:
        loss = _badness(row.new_mean, better) - _badness(row.base_mean, better)
        if loss < least_loss:
            best_run = row.new
            best_mean = row.new_mean
            least_loss = loss
    return best_run, best_mean


def _badness(value: float, better: Better) -> float:
    """The value converted to a scale on which smaller is better for every metric."""
    if better == "zero":
        return abs(value)
    return value if better == "lower" else -value


def _against(best: Side, other: Side, metric: str) -> list[Comparison]:
    """The comparison with the best run; empty if the two have no example in common."""
    try:
        return compare_runs(best, [other], [metric])
    except UserError:
        # Both runs have examples in common with the first run, but not with each other.
        return []
