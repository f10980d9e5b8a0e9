"""From per-context scores to the numbers of a table: overall, by construction, by number, along the cut-offs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmassay.statistics import intervals
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Result

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
CLUSTER = "noun"


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of the table under a name."""

    group: str
    where: Mask
    is_construction: bool = False
    has_curves: bool = True


def results(table: ScoreTable, ew_names: Sequence[str], settings: Settings) -> list[Result]:
    """TSE, EW, MW and mass for every part of the data; curves overall and by construction."""
    parts = list(_parts(table))
    found: list[Result] = []
    for part in parts:
        found.append(_tse(table, settings, part))
        found += [_mean(table, metric, settings, part) for metric in ("ew", "mw", "mass")]
    constructions = [part for part in parts if part.is_construction]
    if constructions:
        found += [_macro(table, metric, constructions, found, settings) for metric in ("tse", "ew", "mw", "mass")]
    for part in parts:
        for ew in ew_names if part.has_curves else ():
            at = ew.partition("@")[2]
            found += [_mean(table, f"{metric}@{at}", settings, part) for metric in ("ew", "mw", "mass")]
            found.append(_invalid(table, at, settings, part))
    return found


def _parts(table: ScoreTable) -> Iterator[Part]:
    yield Part("overall", np.ones(len(table), dtype=bool))
    numbers = [(label, where) for label, where in table.parts("number") if label in ("singular", "plural")]
    yield from (Part(f"number={label}", where, has_curves=False) for label, where in numbers)
    constructions = dict(table.parts("construction"))
    if len(constructions) < 2:
        return
    for name in dict.fromkeys(table.groups["construction"]):
        inside = constructions[name]
        yield Part(f"construction={name}", inside, is_construction=True)
        for label, where in numbers:
            if (inside & where).any():
                yield Part(f"construction={name},number={label}", inside & where, has_curves=False)


def _mean(table: ScoreTable, metric: str, settings: Settings, part: Part) -> Result:
    return intervals.mean_result(table, metric, settings, group=part.group, where=part.where, cluster=CLUSTER)


def _tse(table: ScoreTable, settings: Settings, part: Part) -> Result:
    """Over rows, as published: a context counts as often as the data try a pair of verbs in it."""
    rows = np.array([float(count) for count in table.groups["rows"]])
    in_error = table.in_error()
    n_error = int(rows[part.where & in_error].sum())
    values, weights, labels = _weighted(table, "tse", part.where)
    n = int(weights.sum())
    n_unscored = int(rows[part.where & ~in_error].sum()) - n
    if n == 0:
        return Result("tse", part.group, None, None, None, 0, n_error, n_unscored)
    low, high = intervals.weighted_mean_interval(values, weights, labels, settings)
    return Result("tse", part.group, float((values * weights).sum() / n), low, high, n, n_error, n_unscored)


def _weighted(table: ScoreTable, metric: str, where: Mask) -> tuple[Floats, Floats, list[str]]:
    """The values of a metric, how many rows each stands for, and its noun."""
    has = where & ~np.isnan(table.column(metric))
    values = table.column(metric)[has]
    weights = table.column("tse_rows")[has] if metric == "tse" else np.ones(len(values))
    return values, weights, [label for label, kept in zip(table.groups[CLUSTER], has, strict=True) if kept]


def _invalid(table: ScoreTable, at: str, settings: Settings, part: Part) -> Result:
    """The share of contexts in which no lemma is within the cut-off; only a model that ranks its words can tell."""
    whole = part.where & ~np.isnan(table.column(f"mass@{at}"))
    n = int(whole.sum())
    n_error = table.counts("ew", part.where)[1]
    n_unscored = int(part.where.sum()) - n - n_error
    if n == 0:
        return Result(f"invalid@{at}", part.group, None, None, None, 0, n_error, n_unscored)
    without = np.isnan(table.column(f"ew@{at}"))[whole]
    labels = [label for label, kept in zip(table.groups[CLUSTER], whole, strict=True) if kept]
    low, high = intervals.mean_interval(without.astype(float), settings, labels)
    return Result(f"invalid@{at}", part.group, float(without.mean()), low, high, n, n_error, n_unscored)


def _macro(
    table: ScoreTable, metric: str, parts: Sequence[Part], found: Sequence[Result], settings: Settings
) -> Result:
    """The mean over constructions, each counting alike; large templates would drown the others.

    Constructions share their nouns, so what a noun adds to each of them is added up before its spread is looked at.
    """
    groups = {part.group for part in parts}
    rows = [r for r in found if r.metric == metric and r.group in groups]
    counts = [sum(getattr(r, name) for r in rows) for name in ("n", "n_error", "n_unscored")]
    means: list[float] = []
    by_noun: dict[str, float] = {}
    scored = [weighted for weighted in (_weighted(table, metric, part.where) for part in parts) if len(weighted[0])]
    for values, weights, labels in scored:
        mean = float((values * weights).sum() / weights.sum())
        means.append(mean)
        for noun, share in zip(labels, weights * (values - mean) / weights.sum() / len(scored), strict=True):
            by_noun[noun] = by_noun.get(noun, 0.0) + float(share)
    if not means:
        return Result(metric, "mean of constructions", None, None, None, *counts)
    value = float(np.mean(means))
    low, high = intervals.linear_interval(value, np.array(list(by_noun.values())), settings)
    return Result(metric, "mean of constructions", value, low, high, *counts)
