"""The headline of every evaluation and model among runs, and models against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lmassay.card import sayings
from lmassay.card.headline import Headline
from lmassay.card.variants import questions
from lmassay.card.ways import EVALUATIONS
from lmassay.comparison import Comparison, Side, compare_runs, with_false_discovery_rate
from lmassay.errors import LmassayError
from lmassay.pooling import pool
from lmassay.store import RunRecord, Store

_SAY: Mapping[str, Callable[[Store, Sequence[RunRecord]], Headline | None]] = {
    "robustness": sayings.robustness,
    "syntax": sayings.syntax,
    "refining_tse": sayings.syntax,
    "minimal_pairs": sayings.minimal_pairs,
    "bias": sayings.bias,
    "fewshot": sayings.fewshot,
}
EVALUATION_OF = {task: "syntax" if task in ("refining_tse", "minimal_pairs") else task for task in _SAY}


def headlines(store: Store, records: Sequence[RunRecord]) -> list[Headline]:
    """What runs that have results say, in the order of the evaluations."""
    known = [record for record in records if record.task in _SAY and record.results]
    found = [_SAY[task](store, members) for task, members in questions(known)]
    told = [headline for headline in found if headline is not None and headline.result.value is not None]
    return sorted(told, key=lambda headline: EVALUATIONS.index(headline.evaluation))


def absent(records: Sequence[RunRecord]) -> dict[str, dict[str, str]]:
    """Which evaluations of a card do not apply to which models, and why: model → evaluation → reason."""
    found: dict[str, dict[str, str]] = {}
    for record in records:
        for model, reasons in record.provenance.get("card", {}).get("absent", {}).items():
            found.setdefault(model, {}).update(reasons)
    return found


def without_result(records: Sequence[RunRecord], found: Sequence[Headline]) -> dict[str, dict[str, str]]:
    """Which evaluations were asked of which models to no result, and why: model → evaluation → reason."""
    told = {(headline.evaluation, headline.model) for headline in found}
    reasons: dict[str, dict[str, str]] = {}
    for record in records:
        evaluation = EVALUATION_OF.get(record.task, "")
        if evaluation and (evaluation, record.model) not in told and record.status != "done":
            note = f": {record.note}" if record.note else ""
            reasons.setdefault(record.model, {}).setdefault(evaluation, f"{record.label} is {record.status}{note}")
    return reasons


def against_first(store: Store, found: Sequence[Headline]) -> list[Comparison]:
    """Each further model against the first of its evaluation, where both were asked the same; paired, p adjusted."""
    rows: list[Comparison] = []
    for evaluation in EVALUATIONS:
        of_all = [headline for headline in found if headline.evaluation == evaluation]
        for base, other in zip(of_all[:1] * len(of_all), of_all[1:], strict=False):
            if base.metric == other.metric:
                rows += _against(pool(store, base.records), pool(store, other.records), base.metric)
    return with_false_discovery_rate(rows)


def _against(base: Side, other: Side, metric: str) -> list[Comparison]:
    try:
        return compare_runs(base, [other], [metric])
    except LmassayError:
        # Nothing in common: there is no difference to tell.
        return []
