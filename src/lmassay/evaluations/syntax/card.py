"""Syntax on the card: what is run for it, and the number that it shows first."""

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
    """Return how the card tests agreement in seven constructions, best variant first.

    A model that can rank words is tested at the verb, any other model by whole sentences.
    """
    shared: dict[str, Any] = {"data": _CONSTRUCTIONS, "max_per_file": _MOST_PAIRS[size]}
    blanks = {"name": "syntax", **shared}
    sentences = {"name": "minimal_pairs", **shared, "clusters": "noun"}
    folder = Path(__file__).parent
    return [
        CardVariant(frozenset({"slot"}), {"task": blanks}, folder),
        CardVariant(frozenset({"logprobs"}), {"task": sentences}, folder),
    ]


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """Return MW of the latest run: the mean over its constructions, or that of the only one."""
    if not records:
        return None
    record = records[-1]
    # In the overall result a construction counts by its contexts, so one that comes from two files would count twice.
    group = MEAN_OF_CONSTRUCTIONS if record.result("mw", MEAN_OF_CONSTRUCTIONS) else OVERALL
    result = record.result("mw", group)
    if result is None:
        return None
    if result.value is None:
        # Without a verb list, as for data in other languages, there is TSE only.
        return _tse_headline(record, group)
    constructions = _constructions(record, "mw")
    tse = record.result("tse", group)
    verb_pairs = ""
    if tse is not None and VERB_PAIR in tse.clusters:
        verb_pairs = f", {counted_labels(tse.clusters[VERB_PAIR], VERB_PAIR)}"
    return Headline(
        evaluation=evaluation,
        metric="mw",
        result=result,
        scope=f"{result.n:,} contexts, {_constructions_in_words(len(constructions))}",
        beside=[
            *_range_note(constructions),
            f"all verbs weighted equally (EW): {value_with_interval(record.result('ew', group))}",
            f"on the given pairs of verbs (TSE{verb_pairs}): {value_with_interval(tse)}",
        ],
        meaning="A verb sampled from the model's predictions agrees with its subject this often; chance is one half.",
        limits="This tests one rule of grammar, agreement in number, in sentences made from templates.",
        comparison_note=_COMPARED_OVER_CONTEXTS if group == MEAN_OF_CONSTRUCTIONS else "",
        records=[record],
    )


def _tse_headline(record: RunRecord, group: str) -> Headline | None:
    """Return TSE of a run that has no MW; None if it has neither."""
    tse = record.result("tse", group)
    if tse is None or tse.value is None:
        return None
    constructions = [result for result in _constructions(record, "tse") if result.value is not None]
    verb_pairs = ""
    if VERB_PAIR in tse.clusters:
        verb_pairs = f", {counted_labels(tse.clusters[VERB_PAIR], VERB_PAIR)}"
    return Headline(
        evaluation=evaluation,
        metric="tse",
        result=tse,
        scope=f"{counted(tse.n, 'pair')}{verb_pairs}, {_constructions_in_words(len(constructions))}",
        beside=_range_note(constructions),
        meaning="Of two given forms of a verb, the one that agrees is more probable this often; chance is one half.",
        limits="There is no verb list for these data, so nothing is known about other verbs than those of the pairs.",
        records=[record],
    )


def _constructions(record: RunRecord, metric: str) -> list[Result]:
    """Return the results of a metric by construction."""
    constructions = []
    for result in record.results:
        # A group with a comma is a construction split by number.
        if result.metric == metric and result.group.startswith("construction=") and "," not in result.group:
            constructions.append(result)
    return constructions


def _constructions_in_words(count: int) -> str:
    return f"mean of {count} constructions" if count > 1 else "1 construction"


def _range_note(constructions: Sequence[Result]) -> list[str]:
    """Say how much constructions differ, which the interval does not show."""
    values = [result.value for result in constructions if result.value is not None]
    if len(values) < 2:
        return []
    return [
        f"constructions range from {min(values):.2f} to {max(values):.2f}; the interval is for other nouns in these "
        "constructions, not for other constructions"
    ]


def sentences_headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """Return the accuracy of the latest run on whole sentences."""
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
        meaning="Of two sentences that differ in one word, the grammatical one is more probable this often; chance is "
        "one half.",
        limits="Which of two sentences is more probable says little about what the model would write.",
        records=[record],
    )
