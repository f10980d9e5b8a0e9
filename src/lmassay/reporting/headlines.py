"""The headline of every evaluation and model among runs, and models against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.errors import UserError
from lmassay.reporting import card_sayings
from lmassay.reporting.card_ways import EVALUATIONS
from lmassay.reporting.headline import Headline
from lmassay.reporting.variants import VARIED, asked, questions, variant_of
from lmassay.statistics.comparison import Comparison, Side, compare_runs, load_side, with_false_discovery_rate
from lmassay.statistics.pooling import pool
from lmassay.storage.store import RunRecord, Store

_SAY: Mapping[str, Callable[[Store, Sequence[RunRecord]], Headline | None]] = {
    "robustness": card_sayings.robustness,
    "syntax": card_sayings.syntax,
    "refining_tse": card_sayings.syntax,
    "minimal_pairs": card_sayings.minimal_pairs,
    "bias": card_sayings.bias,
    "fewshot": card_sayings.fewshot,
}
EVALUATION_OF = {task: "syntax" if task in ("refining_tse", "minimal_pairs") else task for task in _SAY}
ONLY_SPLITS = "Few-shot: the difference is over what was shown, not over other tests."
Reasons = Mapping[str, Mapping[str, str]]
"""Model → evaluation → why there is no number."""


@dataclass(frozen=True, slots=True)
class Against:
    """A model's number against that of the first model."""

    base: Headline
    new: Headline
    row: Comparison


def headlines(store: Store, records: Sequence[RunRecord]) -> list[Headline]:
    """What runs that have results say, in the order of the evaluations."""
    found = []
    for task, members in questions([record for record in records if record.task in _SAY]):
        headline = _SAY[task](store, [record for record in members if record.results])
        if headline is not None and headline.result.value is not None:
            found.append(replace(headline, wanting=[record for record in members if not record.results]))
    return sorted(found, key=lambda headline: EVALUATIONS.index(headline.evaluation))


def absent(records: Sequence[RunRecord]) -> Reasons:
    """Which evaluations of a card do not apply to which models, and why."""
    found: dict[str, dict[str, str]] = {}
    for record in records:
        for model, reasons in record.provenance.get("card", {}).get("absent", {}).items():
            found.setdefault(model, {}).update(reasons)
    return found


def without_result(records: Sequence[RunRecord], found: Sequence[Headline]) -> Reasons:
    """Which evaluations were asked of which models to no result, and why."""
    told = {(headline.evaluation, headline.model) for headline in found}
    reasons: dict[str, dict[str, str]] = {}
    # The run that failed is the reason, not one beside it that did not.
    for record in sorted(records, key=lambda record: record.status == "done"):
        evaluation = EVALUATION_OF.get(record.task, "")
        if evaluation and (evaluation, record.model) not in told:
            reasons.setdefault(record.model, {}).setdefault(evaluation, _why(record))
    return reasons


def _why(record: RunRecord) -> str:
    if record.status == "done":
        return f"{record.label} is done, but none of the answers could be counted"
    return f"{record.label} is {record.status}" + (f": {record.note}" if record.note else "")


def against_first(store: Store, found: Sequence[Headline]) -> list[Against]:
    """Each further model against the first of its evaluation, where both were asked the same; paired, p adjusted."""
    pairs: list[tuple[Headline, Headline, Comparison]] = []
    for evaluation in EVALUATIONS:
        first: dict[tuple[str, str], Headline] = {}
        for headline in (h for h in found if h.evaluation == evaluation):
            base = first.setdefault((headline.metric, asked(headline.records[0])), headline)
            if base is not headline and _identity(base) != _identity(headline):
                rows = _compared(_side(store, base), _side(store, headline), headline.metric)
                pairs += [(base, headline, row) for row in rows]
    adjusted = with_false_discovery_rate([row for *_, row in pairs])
    return [Against(base, new, row) for (base, new, _), row in zip(pairs, adjusted, strict=True)]


def _identity(headline: Headline) -> object:
    return headline.records[0].provenance.get("signature", {}).get("model")


def _side(store: Store, headline: Headline) -> Side:
    """All variants of a question; examples of a single one must go by the same names."""
    variants = headline.evaluation in VARIED
    return pool(store, headline.records, variant_of) if variants else load_side(store, headline.records[0])


def _compared(base: Side, other: Side, metric: str) -> list[Comparison]:
    try:
        return compare_runs(base, [other], [metric])
    except UserError:
        # Nothing in common: there is no difference to tell.
        return []
