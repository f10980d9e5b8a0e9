"""Runs against each other: paired by example id, on what both have scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmassay.combination import combination_of, paired
from lmassay.errors import UserError
from lmassay.stats import Difference, Settings, paired_difference
from lmassay.store import RunRecord, Store
from lmassay.table import ScoreTable


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
    def depends_on(self) -> Mapping[str, Any]:
        """The parts of the signature, by name."""
        parts: Mapping[str, Any] = self.record.provenance.get("signature", {})
        return parts


def load_side(store: Store, record: RunRecord) -> Side:
    return Side(record, ScoreTable(store.score_rows(record.id)))


def compare_runs(base: Side, others: Sequence[Side], metrics: Sequence[str] | None = None) -> list[Comparison]:
    """Each other run against the base: the headline metrics of its task, or those named, in their order."""
    metrics = metrics or base.record.provenance.get("headline") or base.table.metrics
    combined = base.record.provenance.get("combinations", {})
    wanted = [m for m in metrics if m in combined or base.table.has(m)]
    return _with_false_discovery_rate([row for other in others for row in _compare_pair(base, other, wanted)])


def share_examples(base: Side, other: Side) -> bool:
    """True if two runs of one task have an example in common, or what their task pairs by."""
    if base.record.task != other.record.task:
        return False
    key = _key(base, other)
    return not set(_keys(base, key)).isdisjoint(_keys(other, key))


def caveats(base: Side, others: Sequence[Side]) -> list[str]:
    """What a reader should know before trusting a comparison: other scorers or thresholds, unfinished runs."""
    told = [f"{side.record.id} is {side.record.status}" for side in (base, *others) if side.record.status != "done"]
    for other in others:
        ours, theirs = base.depends_on, other.depends_on
        names = [n for n in dict.fromkeys([*ours, *theirs]) if n not in _MAY_DIFFER and ours.get(n) != theirs.get(n)]
        if names:
            told.append(f"{other.record.id} and {base.record.id} also differ in {', '.join(names)}; compare with care")
    return told


# What runs are usually compared over.
_MAY_DIFFER = frozenset({"attack", "prompt", "model", "limit", "seed"})


def _compare_pair(base: Side, other: Side, metrics: Sequence[str]) -> list[Comparison]:
    if other.record.task != base.record.task:
        raise UserError(
            f"{other.record.id} is a {other.record.task} run, {base.record.id} a {base.record.task} run; "
            "compare runs of one task"
        )
    config = base.record.config
    settings = Settings(config.get("confidence", 0.95), config.get("resamples", 2000), config.get("seed", 0))
    key = _key(base, other)
    rows = []
    for metric in metrics:
        found = _combined(base, other, metric, settings) if key is None else None
        found = found or _mean_difference(base, other, metric, key, settings)
        if found is not None:
            rows.append(_row(base, other, metric, *found))
    if not rows:
        raise UserError(
            f"{base.record.id} and {other.record.id} share no example with a score; were they run on the same data?"
        )
    return rows


def _row(base: Side, other: Side, metric: str, base_mean: float, new_mean: float, difference: Difference) -> Comparison:
    return Comparison(
        metric=metric,
        base=base.record.id,
        new=other.record.id,
        base_label=base.name,
        new_label=other.name,
        base_mean=base_mean,
        new_mean=new_mean,
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        p_adjusted=None,
        n=difference.n,
    )


def _combined(base: Side, other: Side, metric: str, settings: Settings) -> tuple[float, float, Difference] | None:
    """A metric that is put together from columns in the same way by both runs."""
    ours, theirs = (side.record.provenance.get("combinations", {}).get(metric) for side in (base, other))
    if ours is None or ours != theirs:
        return None
    cluster = base.record.provenance.get("cluster")
    return paired(base.table, other.table, combination_of(ours), cluster, settings)


def _mean_difference(
    base: Side, other: Side, metric: str, key: str | None, settings: Settings
) -> tuple[float, float, Difference] | None:
    """A metric that is a mean over examples, or over what stands for them."""
    import numpy as np

    before, after = (_units(side, metric, key) for side in (base, other))
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
    return float((a * weights).mean()), float((b * weights).mean()), found


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is paired: an example, or the examples that share a label; ``weight`` rows."""

    value: float
    weight: float
    cluster: str


def _key(base: Side, other: Side) -> str | None:
    """None if the runs share examples; else the group that their task pairs by."""
    group: str | None = base.record.provenance.get("pair_by")
    shares = not set(base.table.ids).isdisjoint(other.table.ids)
    return group if not shares and group in base.table.groups and group in other.table.groups else None


def _keys(side: Side, key: str | None) -> Sequence[str]:
    return side.table.ids if key is None else side.table.groups[key]


def _units(side: Side, metric: str, key: str | None) -> dict[str, _Unit]:
    import numpy as np

    table = side.table
    column = table.column(metric)
    weight_column = side.record.provenance.get("weights", {}).get(metric)
    weights = np.ones(len(table)) if weight_column is None else table.column(weight_column)
    cluster = side.record.provenance.get("cluster")
    labels = table.groups.get(cluster, [""] * len(table)) if cluster else [""] * len(table)
    sums: dict[str, tuple[float, float, str]] = {}
    for unit, value, weight, label in zip(_keys(side, key), column, weights, labels, strict=True):
        if not np.isnan(value):
            total, count, first = sums.get(unit, (0.0, 0.0, label))
            sums[unit] = (total + float(value * weight), count + float(weight), first)
    # Without weights, averages over examples that share a label count alike, however many a run has of it.
    return {
        unit: _Unit(total / count, 1.0 if weight_column is None else count, label)
        for unit, (total, count, label) in sums.items()
        if count
    }


def _with_false_discovery_rate(rows: Sequence[Comparison]) -> list[Comparison]:
    from scipy.stats import false_discovery_control

    tested = [row for row in rows if row.p is not None]
    if not tested:
        return list(rows)
    adjusted = dict(zip(map(id, tested), false_discovery_control([row.p for row in tested]), strict=True))
    return [replace(row, p_adjusted=float(adjusted[id(row)])) if id(row) in adjusted else row for row in rows]
