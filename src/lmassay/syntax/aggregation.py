"""From per-context scores to the numbers of a table: overall, by construction, by number, along the cut-offs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lmassay import stats
from lmassay.stats import Settings
from lmassay.table import ScoreTable
from lmassay.types import Result

Mask = NDArray[np.bool_]
CLUSTER = "noun"


def results(table: ScoreTable, ew_names: Sequence[str], settings: Settings) -> list[Result]:
    """TSE, EW, MW and mass for every part of the data; curves overall and by construction."""
    found: list[Result] = []
    for group, where in _parts(table):
        found.append(_tse(table, settings, group, where))
        found += [_mean(table, metric, settings, group, where) for metric in ("ew", "mw", "mass")]
    found += _macro(table, found)
    for group, where in _parts(table):
        if "number=" in group:
            continue
        for ew in ew_names:
            at = ew.partition("@")[2]
            found += [_mean(table, f"{metric}@{at}", settings, group, where) for metric in ("ew", "mw", "mass")]
            found.append(_invalid(table, at, settings, group, where))
    return found


def _parts(table: ScoreTable) -> Iterator[tuple[str, Mask]]:
    everything = np.ones(len(table), dtype=bool)
    yield "overall", everything
    numbers = [(label, where) for label, where in table.parts("number") if label in ("singular", "plural")]
    yield from ((f"number={label}", where) for label, where in numbers)
    constructions = list(table.parts("construction"))
    if len(constructions) < 2:
        return
    order = {name: place for place, name in reversed(list(enumerate(table.groups["construction"])))}
    for name, inside in sorted(constructions, key=lambda part: order[part[0]]):
        yield f"construction={name}", inside
        for label, where in numbers:
            if (inside & where).any():
                yield f"construction={name},number={label}", inside & where


def _mean(table: ScoreTable, metric: str, settings: Settings, group: str, where: Mask) -> Result:
    return stats.mean_result(table, metric, settings, group=group, where=where, cluster=CLUSTER)


def _tse(table: ScoreTable, settings: Settings, group: str, where: Mask) -> Result:
    """Over rows, as published: a context counts as often as the data try a pair of verbs in it."""
    has = where & ~np.isnan(table.column("tse"))
    rows, rates = table.column("tse_rows")[has], table.column("tse")[has]
    dropped = np.nansum(table.column("tse_dropped")[where])
    n_error = table.counts("tse", where)[1]
    n = int(rows.sum())
    if n == 0:
        return Result("tse", group, None, None, None, 0, n_error, int(dropped))
    labels = [label for label, kept in zip(table.groups[CLUSTER], has, strict=True) if kept]
    low, high = stats.weighted_mean_interval(rates, rows, labels, settings)
    return Result("tse", group, float((rates * rows).sum() / n), low, high, n, n_error, int(dropped))


def _invalid(table: ScoreTable, at: str, settings: Settings, group: str, where: Mask) -> Result:
    """The share of contexts in which no lemma is within the cut-off."""
    whole = where & ~np.isnan(table.column("ew"))
    n = int(whole.sum())
    n_error = table.counts("ew", where)[1]
    if n == 0:
        return Result(f"invalid@{at}", group, None, None, None, 0, n_error, int(where.sum()) - n_error)
    without = np.isnan(table.column(f"ew@{at}"))[whole]
    labels = [label for label, kept in zip(table.groups[CLUSTER], whole, strict=True) if kept]
    low, high = stats.mean_interval(without.astype(float), settings, labels)
    n_unscored = int(where.sum()) - n - n_error
    return Result(f"invalid@{at}", group, float(without.mean()), low, high, n, n_error, n_unscored)


def _macro(table: ScoreTable, found: Sequence[Result]) -> list[Result]:
    """The mean over constructions, each counting alike; large templates would drown the others."""
    rows = []
    for metric in ("tse", "ew", "mw", "mass"):
        parts = [r for r in found if r.metric == metric and r.group.startswith("construction=") and "," not in r.group]
        values = [r.value for r in parts if r.value is not None]
        if len(parts) > 1 and values:
            n, n_error, n_unscored = (sum(getattr(r, k) for r in parts) for k in ("n", "n_error", "n_unscored"))
            half = _half_width(parts)
            mean = float(np.mean(values))
            low, high = (None, None) if half is None else (max(mean - half, 0.0), min(mean + half, 1.0))
            rows.append(Result(metric, "mean of constructions", mean, low, high, n, n_error, n_unscored))
    return rows


def _half_width(parts: Sequence[Result]) -> float | None:
    """Of a mean of independent estimates, from the intervals of each."""
    halves = [(r.high - r.low) / 2 for r in parts if r.low is not None and r.high is not None]
    return float(np.sqrt(np.sum(np.square(halves))) / len(parts)) if len(halves) == len(parts) else None
