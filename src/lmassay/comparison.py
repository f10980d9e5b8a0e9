"""Runs against each other: paired by example id, on what both have scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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


def compare_runs(store: Store, base: RunRecord, others: Sequence[RunRecord]) -> list[Comparison]:
    """Every metric that two runs share, each other run against the base."""
    base_table = ScoreTable(store.score_rows(base.id))
    rows: list[Comparison] = []
    for other in others:
        if other.task != base.task:
            raise UserError(f"{other.id} is a {other.task} run, {base.id} a {base.task} run; compare runs of one task")
        rows += _compare_pair(base, base_table, other, ScoreTable(store.score_rows(other.id)))
    return _with_false_discovery_rate(rows)


def _compare_pair(base: RunRecord, base_table: ScoreTable, other: RunRecord, table: ScoreTable) -> list[Comparison]:
    import numpy as np

    names = _names(base, other)
    config = base.config
    settings = Settings(config.get("confidence", 0.95), config.get("resamples", 2000), config.get("seed", 0))
    cluster = base.provenance.get("cluster")
    labels = dict(zip(base_table.ids, base_table.groups.get(cluster, []), strict=False)) if cluster else {}
    rows = []
    for metric in base_table.metrics:
        before, after = base_table.by_id(metric), table.by_id(metric)
        shared = [i for i in before if i in after]
        if not shared:
            continue
        a, b = np.array([before[i] for i in shared]), np.array([after[i] for i in shared])
        found = paired_difference(a, b, settings, [labels[i] for i in shared] if labels else None)
        means = (float(a.mean()), float(b.mean()))
        rows.append(
            Comparison(
                metric, base.id, other.id, *names, *means, found.value, found.low, found.high, found.p, None, found.n
            )
        )
    if not rows:
        raise UserError(f"{base.id} and {other.id} share no example with a score; were they run on the same data?")
    return rows


def _names(base: RunRecord, other: RunRecord) -> tuple[str, str]:
    if base.label != other.label:
        return base.label, other.label
    return (base.model, other.model) if base.model != other.model else (base.id, other.id)


def _with_false_discovery_rate(rows: Sequence[Comparison]) -> list[Comparison]:
    from scipy.stats import false_discovery_control

    tested = [row for row in rows if row.p is not None]
    if not tested:
        return list(rows)
    adjusted = dict(zip(map(id, tested), false_discovery_control([row.p for row in tested]), strict=True))
    return [replace(row, p_adjusted=float(adjusted[id(row)])) if id(row) in adjusted else row for row in rows]
