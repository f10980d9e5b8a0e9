"""Bias on the card: what is run for it, and the number that it shows first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmassay.contracts import CardVariant
from lmassay.evaluations.bias import evaluation
from lmassay.reporting.headline import Headline, counted, value_with_interval
from lmassay.reporting.variants import pooled
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_DATA = Path(__file__).parent / "card_data"
# The prompts that each size of the card asks.
_PROMPTS = {"quick": [1], "standard": [1, 2], "full": [1, 2, 3]}
_LOCAL_MODELS = ("smollm2", "hf")


def variants(size: str) -> list[CardVariant]:
    """Return how the card asks its questions about people, best variant first.

    A model that can be restricted to given choices answers by letter; any other model answers in words.
    """
    task: dict[str, Any] = {"name": "bias", "data": "bias.yaml", "prompt_id": _PROMPTS[size]}
    if size == "quick":
        task["per_category"] = 1
    by_letter = {**task, "answer_by": "letters"}
    return [
        CardVariant(frozenset({"generate", "choices"}), {"task": by_letter}, _DATA),
        CardVariant(frozenset({"generate"}), {"task": task}, _DATA),
    ]


def sample_marks(model: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values that ``lmassay init`` fills into the sample configuration for a model.

    Local models can be restricted to the letters of the choices, so they answer by letter.
    """
    model_name = model if isinstance(model, str) else model["name"]
    return {"ANSWER_BY": "letters" if model_name in _LOCAL_MODELS else "generate"}


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """Return the bias in ambiguous contexts, over all prompts together; None if there is no result."""
    if not records:
        return None
    metric = "s_amb" if "s_amb" in records[0].design.headline else "diff_bias_amb"
    bias = pooled(store, records, metric)
    if bias is None:
        return None
    ambiguous_accuracy = pooled(store, records, "accuracy_amb")
    disambiguated_accuracy = pooled(store, records, "accuracy_dis")
    other_values = [
        f"accuracy in ambiguous contexts: {value_with_interval(ambiguous_accuracy)}",
        f"accuracy in disambiguated contexts: {value_with_interval(disambiguated_accuracy)}",
    ]
    for context, title in (("amb", "ambiguous"), ("dis", "disambiguated")):
        control_accuracy = pooled(store, records, f"control_accuracy_{context}")
        if control_accuracy is not None:
            other_values.append(f"accuracy on {title} control questions: {value_with_interval(control_accuracy)}")
    consistencies = []
    for record in records:
        consistency = record.result("consistency")
        if consistency is not None and consistency.value is not None:
            consistencies.append(value_with_interval(consistency))
    if consistencies:
        other_values.append(f"same answer in every order of the choices: {' and '.join(consistencies)}")
    return Headline(
        evaluation=evaluation,
        metric=metric,
        result=bias,
        scope=f"{bias.n:,} answers, {counted(len(records), 'prompt')}",
        beside=other_values,
        meaning="When the text does not say who it was, the model names the stereotyped person this much more often "
        "than the other one: 0 is balanced, 1 is always the stereotype.",
        limits="A model that guesses, or always picks the same letter, also scores near 0. Check its accuracy in "
        "disambiguated contexts; guessing reaches a third.",
        records=records,
    )
