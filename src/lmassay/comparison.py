"""Runs against each other: paired by example id, on what both have scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmassay.errors import UserError
from lmassay.stats import Settings, paired_difference
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
    wanted = [m for m in metrics if base.table.has(m)]
    return _with_false_discovery_rate([row for other in others for row in _compare_pair(base, other, wanted)])


def share_examples(base: Side, other: Side) -> bool:
    """True if two runs of one task have an example in common."""
    return base.record.task == other.record.task and not set(base.table.ids).isdisjoint(other.table.ids)


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
_MAY_DIFFER = frozenset({"attack", "model", "limit", "seed"})


def _compare_pair(base: Side, other: Side, metrics: Sequence[str]) -> list[Comparison]:
    import numpy as np

    if other.record.task != base.record.task:
        raise UserError(
            f"{other.record.id} is a {other.record.task} run, {base.record.id} a {base.record.task} run; "
            "compare runs of one task"
        )
    config = base.record.config
    settings = Settings(config.get("confidence", 0.95), config.get("resamples", 2000), config.get("seed", 0))
    cluster = base.record.provenance.get("cluster")
    found_labels = base.table.groups.get(cluster, []) if cluster else []
    labels = dict(zip(base.table.ids, found_labels, strict=bool(found_labels)))
    rows = []
    for metric in metrics:
        before, after = base.table.by_id(metric), other.table.by_id(metric)
        shared = [i for i in before if i in after]
        if not shared:
            continue
        a, b = np.array([before[i] for i in shared]), np.array([after[i] for i in shared])
        found = paired_difference(a, b, settings, [labels[i] for i in shared] if labels else None)
        rows.append(
            Comparison(
                metric=metric,
                base=base.record.id,
                new=other.record.id,
                base_label=base.name,
                new_label=other.name,
                base_mean=float(a.mean()),
                new_mean=float(b.mean()),
                difference=found.value,
                low=found.low,
                high=found.high,
                p=found.p,
                p_adjusted=None,
                n=found.n,
            )
        )
    if not rows:
        raise UserError(
            f"{base.record.id} and {other.record.id} share no example with a score; were they run on the same data?"
        )
    return rows


def _with_false_discovery_rate(rows: Sequence[Comparison]) -> list[Comparison]:
    from scipy.stats import false_discovery_control

    tested = [row for row in rows if row.p is not None]
    if not tested:
        return list(rows)
    adjusted = dict(zip(map(id, tested), false_discovery_control([row.p for row in tested]), strict=True))
    return [replace(row, p_adjusted=float(adjusted[id(row)])) if id(row) in adjusted else row for row in rows]
