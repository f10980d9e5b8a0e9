"""Which runs are variants of one question (attacks, prompts, methods), and what they show together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lmassay.statistics.combination import combination_of, combination_result
from lmassay.statistics.comparison import Side
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.pooling import pool
from lmassay.storage.store import RunRecord, Store
from lmassay.types import Result, canonical

# What runs of one model may differ in and still be variants of one question.
VARIED = {"robustness": "attack", "bias": "prompt"}
_OVERALL = "overall"


def questions(records: Sequence[RunRecord]) -> list[tuple[str, list[RunRecord]]]:
    """Runs of one task and model that are alike but for what they vary; of a run done twice the later one."""
    groups: dict[str, dict[str, RunRecord]] = {}
    for record in records:
        signature = _signature(record)
        question = canonical([record.model, signature.get("model"), signature.get("limit"), asked(record)])
        groups.setdefault(question, {})[variant_of(record)] = record
    return [(next(iter(members.values())).task, list(members.values())) for members in groups.values()]


def asked(record: RunRecord) -> str:
    """The question, whoever answers it and however many of its examples were taken: all that two models must share."""
    # What stands before a blank follows from whether a model sees what stands behind it; intervals are no question.
    left_out = {VARIED.get(record.task), "lmassay", "model", "limit", "context", "ci"}
    # Methods are compared with each other; what they are taught and tested on must be the same.
    left_out |= {"method", "regime", "init"} if record.task == "fewshot" else set()
    return canonical([record.task, {key: value for key, value in _signature(record).items() if key not in left_out}])


def variant_of(record: RunRecord) -> str:
    """What tells a run from the other variants of its question: two strengths of an attack may go by one name, and one
    strength by two."""
    varied = _signature(record).get(VARIED.get(record.task, ""))
    return record.label if varied is None else str(varied)


def _signature(record: RunRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = record.provenance.get("signature", {})
    return found


def pooled(store: Store, records: Sequence[RunRecord], metric: str) -> Result | None:
    """The metric over all variants; of a single run the result that it has."""
    if len(records) == 1:
        return overall(records[0], metric)
    side = pool(store, records, variant_of)
    provenance, settings = side.record.provenance, side.record.settings
    combined = provenance.get("combinations", {}).get(metric)
    if combined is None:
        return mean_result(side.table, metric, settings, cluster=provenance["cluster"])
    return combination_result(
        side.table,
        metric,
        combination_of(combined),
        settings,
        group=_OVERALL,
        where=_in_context(side, metric),
        cluster=provenance["cluster"],
    )


def _in_context(side: Side, metric: str) -> Any:
    import numpy as np

    from lmassay.evaluations.bias.scores import CONTEXTS

    contexts = side.table.groups.get("context")
    if contexts is None or metric not in CONTEXTS:
        return np.ones(len(side.table), dtype=bool)
    return np.asarray(contexts) == CONTEXTS[metric]


def overall(record: RunRecord, metric: str) -> Result | None:
    found = next((r for r in record.results if r["metric"] == metric and r["group"] == _OVERALL), None)
    return None if found is None else Result(**found)
