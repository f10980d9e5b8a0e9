"""Runs against each other: paired by example id, on what both have scored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.errors import UserError, did_you_mean
from lmassay.plugins.evaluations import metric_of, variation_of
from lmassay.statistics.changes import Moves, moves_of_combination, moves_of_values
from lmassay.statistics.combination import paired
from lmassay.statistics.intervals import LEAST_P_OF_DRAWS, Difference, Settings, paired_difference
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Better, RunRecord


@dataclass(frozen=True, slots=True)
class Comparison:
    """One metric of one run against the base run; ``p_adjusted`` holds the false discovery rate over all rows."""

    metric: str
    base: str
    new: str
    base_label: str
    new_label: str
    base_mean: float
    new_mean: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_adjusted: float | None
    n: int
    units: int = 0
    """What the test takes for independent: the pairs, or the clusters they belong to."""
    changed: int = 0
    """Those of the units that are not the same in both runs; the others tell nothing of which run is better."""
    can_fall: int = 0
    """Those of the units that could be lower than in the base run: a score of 0 that lies between 0 and 1 could not."""
    can_rise: int = 0
    better: Better = "higher"
    """Which direction is better, as the metric declares."""

    @property
    def relative(self) -> float | None:
        """The difference as a share of the base: what "falls by 43 %" means, unlike "falls by 43 points"."""
        return self.difference / abs(self.base_mean) if self.base_mean else None


@dataclass(frozen=True, slots=True)
class Side:
    """A run with its scores."""

    record: RunRecord
    table: ScoreTable

    @property
    def name(self) -> str:
        return f"{self.record.label} on {self.record.model}"

    @property
    def depends_on(self) -> Mapping[str, str]:
        """The parts of the signature, by name."""
        return self.record.depends_on


def load_side(store: Store, record: RunRecord, groups: Mapping[str, str] | None = None) -> Side:
    """A run with its scores, or with those of the examples that have the labels named, such as ``category: Age``."""
    wanted = groups or {}
    rows = (
        row
        for row in store.score_rows(record.id)
        if all(row.example.groups.get(kind) == label for kind, label in wanted.items())
    )
    return Side(record, ScoreTable(rows))


def compare_runs(
    base: Side,
    others: Sequence[Side],
    metrics: Sequence[str] | None = None,
    *,
    smallest_p: float = LEAST_P_OF_DRAWS,
) -> list[Comparison]:
    """Each other run against the base: the headline metrics of its task, or those named, in their order.

    Where a p below ``smallest_p`` matters, tests that cannot reach it by drawing at random are t-tests instead.
    """
    metrics = metrics or headline(base)
    known = set(comparable(base))
    wanted = [metric for metric in metrics if metric in known]
    return with_false_discovery_rate(
        [row for other in others for row in _compare_pair(base, other, wanted, smallest_p)]
    )


def headline(side: Side) -> Sequence[str]:
    """The metrics that a run's task puts first; all of a task that does not say, those it reports first."""
    found: Sequence[str] = side.record.design.headline
    reported = [r.metric for r in side.record.results if side.table.has(r.metric)]
    return found or list(dict.fromkeys([*reported, *side.table.metrics]))


def comparable(side: Side) -> list[str]:
    """The metrics that a run can be compared by: those an example has, and those put together from them."""
    return list(dict.fromkeys([*side.record.design.combinations, *side.table.metrics]))


def known_metrics(base: Side, others: Sequence[Side], names: Iterable[str]) -> list[str]:
    """The names, each once, if all runs have such a metric; the first that a run does not have is told."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        for side in (base, *others):
            known = comparable(side)
            if name in known:
                continue
            if any(result.metric == name for result in side.record.results):
                shown = ", ".join(comparable(base))
                raise UserError(f"'{name}' is no mean over examples, so runs cannot be paired by it; known: {shown}")
            _require_scores(side)
            raise UserError(f"{side.record.id} has no metric '{name}'{did_you_mean(name, known)}")
    return wanted


def _require_scores(side: Side) -> None:
    table = side.table
    if table.metrics:
        return
    if not len(table):
        raise UserError(f"{side.record.id} has no examples, so the runs share no example with a score")
    counts = f"{len(table):,} unscored" if not table.n_error else f"{len(table):,} unscored or in error"
    raise UserError(
        f"no example of {side.record.id} has a score ({counts}), so there is nothing to compare; "
        f"`lmassay show {side.record.id}` tells why"
    )


def require_one_task(base: Side, other: Side) -> None:
    """Runs of different tasks have no scores in common, even where they are called alike."""
    if other.record.task != base.record.task:
        raise UserError(
            f"{other.record.id} is a {other.record.task} run, {base.record.id} a {base.record.task} run; "
            "compare runs of one task"
        )


def share_examples(base: Side, other: Side) -> bool:
    """True if two runs of one task have an example in common, or what their task pairs by."""
    if base.record.task != other.record.task:
        return False
    key = pairing_key(base, other)
    return not set(_keys(base, key)).isdisjoint(_keys(other, key))


def caveats(base: Side, others: Sequence[Side]) -> list[str]:
    """What a reader should know before trusting a comparison: other scorers or thresholds, unfinished runs."""
    told = [f"{side.record.id} is {side.record.status}" for side in (base, *others) if side.record.status != "done"]
    for other in others:
        told += _coverage(base, other)
        ours, theirs = base.depends_on, other.depends_on
        may_differ = {*variation_of(base.record).asked, *_MAY_DIFFER}
        names = [n for n in dict.fromkeys([*ours, *theirs]) if n not in may_differ and ours.get(n) != theirs.get(n)]
        if names:
            told.append(f"{other.record.id} and {base.record.id} also differ in {', '.join(names)}; compare with care")
    return told


# What runs are usually compared over, besides what their evaluation varies.
_MAY_DIFFER = frozenset({"prompt", "model", "limit", "seed"})


def _coverage(base: Side, other: Side) -> list[str]:
    """How much of the two runs a comparison leaves out."""
    key = pairing_key(base, other)
    ours, theirs = set(_keys(base, key)), set(_keys(other, key))
    shared = len(ours & theirs)
    if not shared or (shared == len(ours) and shared == len(theirs)):
        return []
    what = "examples" if key is None else f"values of '{key}', by which they are paired,"
    names = f"{base.record.id} ({len(ours):,}) and {other.record.id} ({len(theirs):,})"
    return [f"of the {what} of {names}, {shared:,} are in both; the others are left out"]


def _compare_pair(base: Side, other: Side, metrics: Sequence[str], smallest_p: float) -> list[Comparison]:
    require_one_task(base, other)
    settings = replace(base.record.settings, smallest_p=smallest_p)
    key = pairing_key(base, other)
    rows = []
    for metric in metrics:
        found = _combined(base, other, metric, settings) if key is None else None
        found = found or _mean_difference(base, other, metric, key, settings)
        if found is not None:
            rows.append(_row(base, other, metric, found))
    if not rows:
        _require_scores(base)
        _require_scores(other)
        raise UserError(
            f"{base.record.id} and {other.record.id} share no example with a score; were they run on the same data?"
        )
    return rows


@dataclass(frozen=True, slots=True)
class _Found:
    """Both means, their difference, and on what it was tested."""

    base_mean: float
    new_mean: float
    difference: Difference
    moves: Moves


def _row(base: Side, other: Side, metric: str, found: _Found) -> Comparison:
    difference, moves = found.difference, found.moves
    # Where nothing changed there is no spread, and an interval of no width would be a pretence.
    low, high = (difference.low, difference.high) if moves.changed else (None, None)
    return Comparison(
        metric=metric,
        base=base.record.id,
        new=other.record.id,
        base_label=base.name,
        new_label=other.name,
        base_mean=found.base_mean,
        new_mean=found.new_mean,
        difference=difference.value,
        low=low,
        high=high,
        p=difference.p,
        p_adjusted=None,
        n=difference.n,
        units=moves.units,
        changed=moves.changed,
        can_fall=moves.can_fall,
        can_rise=moves.can_rise,
        better=metric_of(base.record, metric).better,
    )


def _combined(base: Side, other: Side, metric: str, settings: Settings) -> _Found | None:
    """A metric that is put together from columns in the same way by both runs."""
    ours, theirs = (side.record.design.combinations.get(metric) for side in (base, other))
    if ours is None or ours != theirs:
        return None
    cluster = base.record.design.cluster
    found = paired(base.table, other.table, ours, cluster, settings)
    if found is None:
        return None
    return _Found(*found, moves_of_combination(base.table, other.table, ours, cluster))


def _mean_difference(base: Side, other: Side, metric: str, key: str | None, settings: Settings) -> _Found | None:
    """A metric that is a mean over examples, or over what stands for them."""
    import numpy as np

    before, after = (units_of(side, metric, key) for side in (base, other))
    # Units that stand for another number of rows in the two runs would compare different rows.
    shared = [unit for unit in before if unit in after and before[unit].weight == after[unit].weight]
    if not shared:
        return None
    a, b = (np.array([units[unit].value for unit in shared]) for units in (before, after))
    weights = np.array([before[unit].weight for unit in shared])
    # Weights whose mean is 1 turn a weighted mean into a plain one.
    weights = weights / weights.mean()
    clusters = [before[unit].cluster for unit in shared]
    found = paired_difference(a * weights, b * weights, settings, clusters if any(clusters) else None)
    names = clusters if any(clusters) else shared
    return _Found(float((a * weights).mean()), float((b * weights).mean()), found, moves_of_values(names, a, b))


@dataclass(frozen=True, slots=True)
class Unit:
    """What is paired: an example, or the examples that share a label; ``weight`` rows."""

    value: float
    weight: float
    cluster: str


def pairing_key(base: Side, other: Side) -> str | None:
    """None if the runs share examples; else the group that their task pairs by."""
    pair_by = base.record.design.pair_by
    group = pair_by[0] if pair_by else None
    shares = not set(base.table.ids).isdisjoint(other.table.ids)
    return group if not shares and group in base.table.groups and group in other.table.groups else None


def unit_names(side: Side, key: str | None) -> dict[str, str]:
    """All that a run could be paired by, with the state of it: scored, unscored or error; any score makes it scored."""
    import numpy as np

    table = side.table
    has = np.zeros(len(table), dtype=bool)
    for metric in table.metrics:
        has |= ~np.isnan(table.column(metric))
    states: dict[str, str] = {}
    for unit, scored, failed in zip(_keys(side, key), has, table.in_error(), strict=True):
        if scored or states.get(unit) != "scored":
            states[unit] = "scored" if scored else "error" if failed else states.get(unit, "unscored")
    return states


def _keys(side: Side, key: str | None) -> Sequence[str]:
    return side.table.ids if key is None else side.table.groups[key]


def units_of(side: Side, metric: str, key: str | None) -> dict[str, Unit]:
    """What a run is paired by, with its scores; without those that have none."""
    import numpy as np

    table = side.table
    column = table.column(metric)
    weight_column = side.record.design.weights.get(metric)
    weights = np.ones(len(table)) if weight_column is None else table.column(weight_column)
    cluster = side.record.design.cluster
    labels = table.groups.get(cluster, [""] * len(table)) if cluster else [""] * len(table)
    sums: dict[str, tuple[float, float, str]] = {}
    for unit, value, weight, label in zip(_keys(side, key), column, weights, labels, strict=True):
        if not np.isnan(value):
            total, count, first = sums.get(unit, (0.0, 0.0, label))
            sums[unit] = (total + float(value * weight), count + float(weight), first)
    # Without weights, averages over examples that share a label count alike, however many a run has of it.
    return {
        unit: Unit(total / count, 1.0 if weight_column is None else count, label)
        for unit, (total, count, label) in sums.items()
        if count
    }


def with_false_discovery_rate(rows: Sequence[Comparison]) -> list[Comparison]:
    """The rows with their p-values adjusted for how many there are (Benjamini and Hochberg)."""
    from scipy.stats import false_discovery_control

    tested = [row for row in rows if row.p is not None]
    if not tested:
        return list(rows)
    adjusted = dict(zip(map(id, tested), false_discovery_control([row.p for row in tested]), strict=True))
    return [replace(row, p_adjusted=float(adjusted[id(row)])) if id(row) in adjusted else row for row in rows]
