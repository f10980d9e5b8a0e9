"""Robustness on the card: what it asks, and the one number it puts first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmassay.contracts import CardVariant
from lmassay.evaluations.robustness import evaluation
from lmassay.reporting.headline import Headline, counted, value_with_interval
from lmassay.reporting.variants import pooled
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Result, Row, RunRecord

_DATA = Path(__file__).parent / "card_data"
# A model without a chat template must be shown what is wanted; one with it needs no more.
_COMPLETE = """Complete each sentence with one word.

Sentence: A young horse is called a
Word: foal

Sentence: The opposite of fast is
Word: slow

Sentence: The capital of Norway is the city of
Word: Oslo

Sentence: {x}
Word:"""
# Short words cannot have letters swapped: at the usual rate a third of these sentences would stay as they are.
_CHARSWAP = {"name": "charswap", "rate": 0.5}
_ATTACKS: Mapping[str, Sequence[Any]] = {
    "quick": [_CHARSWAP, "keyboard", "worddrop"],
    "standard": [_CHARSWAP, "keyboard", "homoglyph", "worddrop"],
    "full": [_CHARSWAP, "keyboard", "delete", "insert", "homoglyph", "case", "wordswap", "worddrop"],
}
_QUICK_LIMIT = 40
_TRANSLATE = "Translate this sentence into English.\n\n{x}\n"


def variants(size: str) -> list[CardVariant]:
    """Sentences to complete, attacked in several ways."""
    task = {
        "name": "robustness",
        "src": "facts.src",
        "ref": "facts.ref",
        "attack": list(_ATTACKS[size]),
        "s_src": "chrf",
        "s_tgt": "chrf",
        "prompt": _COMPLETE,
        "max_tokens": 6,
        "stop": ["\n"],
    }
    config: dict[str, Any] = {"task": task}
    if size == "quick":
        config["limit"] = _QUICK_LIMIT
    return [CardVariant(frozenset({"generate"}), config, _DATA)]


def sample_marks(model: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """What ``lmassay init`` asks a model for: a class of one's own is given the sentence itself."""
    is_own_class = isinstance(model, str) and ".py:" in model
    return {"PROMPT": "{x}" if is_own_class else _TRANSLATE}


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """The share of attacks that succeed, all attacks taken together."""
    result = pooled(store, records, "success") if records else None
    if result is None:
        return None
    clean = _clean_score(store, records[0])
    unchanged = sum(_is_unchanged(row) for record in records for row in store.rows(record.id))
    beside = []
    if clean.value is not None:
        beside.append(f"score of its answers unattacked: {value_with_interval(clean)}")
    if unchanged:
        beside.append(f"inputs that an attack left unchanged: {unchanged}")
    return Headline(
        evaluation=evaluation,
        metric="success",
        result=result,
        scope=f"{result.n:,} attacked inputs, {counted(len(records), 'attack')}",
        beside=beside,
        meaning="The share of attacked inputs whose answer lost more than the input did: small changes, large harm.",
        limits=f"It speaks of {_strength(records)}; and an answer that is wrong anyway cannot break.",
        records=records,
    )


def _strength(records: Sequence[RunRecord]) -> str:
    """Which kinds of attack these are."""
    searched = sum("search(" in str(record.depends_on.get("attack")) for record in records)
    if searched == len(records):
        return "attacks that look for a weak spot among a few draws, not of all there are"
    if searched:
        return "attacks drawn at random and of some that look for a weak spot, taken together"
    return "these attacks, not of one that looks for the weakest spot"


def _clean_score(store: Store, record: RunRecord) -> Result:
    """How well it does without attack, which is the same under all of them."""
    return mean_result(ScoreTable(store.score_rows(record.id)), "s_out", record.settings)


def _is_unchanged(row: Row) -> bool:
    """Where a perturbation found nothing to change, there was no attack."""
    source, attacked = row.example.inputs.get("src"), row.example.inputs.get("adv_src", ())
    return source is not None and bool(attacked) and all(text == source for text in attacked)
