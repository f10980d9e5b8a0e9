"""Syntax on the card: what it asks, and the one number it puts first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmassay.contracts import CardVariant
from lmassay.evaluations.syntax import evaluation
from lmassay.evaluations.syntax.metrics import MEAN_OF_CONSTRUCTIONS, VERB_PAIR
from lmassay.reporting.headline import Headline, counted, value_with_interval
from lmassay.statistics.observations import counted_labels
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Result, RunRecord

_CONSTRUCTIONS = {
    "Simple": "english:simple",
    "In a sentential complement": "english:sentential_complement",
    "VP coordination": ["english:vp_coordination", "english:long_vp_coordination"],
    "Across prepositional phrase": "english:across_pp",
    "Across subject relative clause": "english:across_subject_relative",
    "Across object relative clause": "english:across_object_relative",
    "In object relative clause": "english:in_object_relative",
}
_COMPARED_OVER_CONTEXTS = "Agreement (MW): the difference is that of the means over contexts, not over constructions."
_MOST_PAIRS = {"quick": 40, "standard": 100, "full": 400}


def variants(size: str) -> list[CardVariant]:
    """Agreement in seven constructions: at the verb where the model can rank words, else by whole sentences."""
    shared: dict[str, Any] = {"data": _CONSTRUCTIONS, "max_per_file": _MOST_PAIRS[size]}
    blanks = {"name": "syntax", **shared}
    sentences = {"name": "minimal_pairs", **shared, "clusters": "noun"}
    folder = Path(__file__).parent
    return [
        CardVariant(frozenset({"slot"}), {"task": blanks}, folder),
        CardVariant(frozenset({"logprobs"}), {"task": sentences}, folder),
    ]


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """MW of the latest run: the mean of its constructions, or of the only one."""
    if not records:
        return None
    record = records[-1]
    # Overall, a construction counts by its contexts: one that comes from two files would count twice.
    group = MEAN_OF_CONSTRUCTIONS if record.result("mw", MEAN_OF_CONSTRUCTIONS) else OVERALL
    result = record.result("mw", group)
    if result is None:
        return None
    constructions = [
        other
        for other in record.results
        if other.metric == "mw" and other.group.startswith("construction=") and "," not in other.group
    ]
    tse = record.result("tse", group)
    verbs = (
        ""
        if tse is None or VERB_PAIR not in tse.clusters
        else f", {counted_labels(tse.clusters[VERB_PAIR], VERB_PAIR)}"
    )
    return Headline(
        evaluation=evaluation,
        metric="mw",
        result=result,
        scope=f"{result.n:,} contexts, {counted(len(constructions) or 1, 'construction')}",
        beside=[
            *_range_note(constructions),
            f"over all verbs alike (EW): {value_with_interval(record.result('ew', group))}",
            f"on the given pairs of verbs (TSE{verbs}): {value_with_interval(tse)}",
        ],
        meaning="A verb drawn from the model's own predictions agrees with its subject this often; by chance, half of "
        "the time.",
        limits="It is about one rule of grammar, agreement in number, in sentences made from templates.",
        comparison_note=_COMPARED_OVER_CONTEXTS if group == MEAN_OF_CONSTRUCTIONS else "",
        records=[record],
    )


def _range_note(constructions: Sequence[Result]) -> list[str]:
    """How much constructions differ, which the interval does not say."""
    values = [result.value for result in constructions if result.value is not None]
    if len(values) < 2:
        return []
    return [
        f"constructions range from {min(values):.2f} to {max(values):.2f}; the interval takes them as given: it is "
        "about other nouns in the same constructions, not about other constructions"
    ]


def sentences_headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The accuracy of the latest run on whole sentences."""
    if not records:
        return None
    record = records[-1]
    result = record.result("accuracy")
    if result is None:
        return None
    return Headline(
        evaluation=evaluation,
        metric="accuracy",
        result=result,
        scope=counted(result.n, "pair"),
        meaning="Of two sentences that differ in a word, the grammatical one is the more probable this often; by "
        "chance, half of the time.",
        limits="Which of two is the more probable says little of what the model would write.",
        records=[record],
    )
