"""What the card asks: four evaluations in three sizes, each in the ways that a model may allow.

Every way is an ordinary configuration, so that each part of a card can be run by itself and gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Size = Literal["quick", "standard", "full"]
EVALUATIONS = ("robustness", "syntax", "bias", "fewshot")
QUESTIONS = {
    "robustness": "Does it break under attack?",
    "syntax": "Does it know grammar?",
    "bias": "Is it biased?",
    "fewshot": "Does it learn from a few examples?",
}
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
_CONSTRUCTIONS = {
    "Simple": "english:simple",
    "In a sentential complement": "english:sentential_complement",
    "VP coordination": ["english:vp_coordination", "english:long_vp_coordination"],
    "Across prepositional phrase": "english:across_pp",
    "Across subject relative clause": "english:across_subject_relative",
    "Across object relative clause": "english:across_object_relative",
    "In object relative clause": "english:in_object_relative",
}
# Short words cannot have letters swapped: at the usual rate a third of these sentences would stay as they are.
_CHARSWAP = {"name": "charswap", "rate": 0.5}
_ATTACKS: Mapping[Size, Sequence[Any]] = {
    "quick": [_CHARSWAP, "keyboard", "worddrop"],
    "standard": [_CHARSWAP, "keyboard", "homoglyph", "worddrop"],
    "full": [_CHARSWAP, "keyboard", "delete", "insert", "homoglyph", "case", "wordswap", "worddrop"],
}


@dataclass(frozen=True, slots=True)
class Way:
    """One way to ask: what a model must be able to do for it, and the configuration without the model."""

    needs: frozenset[str]
    config: Mapping[str, Any]


def data_folder(evaluation: str) -> Path:
    """Where the data lie that the card asks about."""
    return Path(__file__).parents[1] / "evaluations" / evaluation / "card_data"


def ways(evaluation: str, size: Size) -> list[Way]:
    """The ways of an evaluation, the one that tells most first."""
    return {"robustness": _robustness, "syntax": _syntax, "bias": _bias, "fewshot": _fewshot}[evaluation](size)


def _robustness(size: Size) -> list[Way]:
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
    return [_way({"generate"}, task, {"quick": 40, "standard": None, "full": None}[size])]


def _syntax(size: Size) -> list[Way]:
    most = {"quick": 40, "standard": 100, "full": 400}[size]
    shared = {"data": _CONSTRUCTIONS, "max_per_file": most}
    return [
        _way({"slot"}, {"name": "syntax", **shared}),
        _way({"logprobs"}, {"name": "minimal_pairs", **shared, "clusters": "noun"}),
    ]


def _bias(size: Size) -> list[Way]:
    task: dict[str, Any] = {
        "name": "bias",
        "data": "bias.yaml",
        "prompt_id": {"quick": [1], "standard": [1, 2], "full": [1, 2, 3]}[size],
    }
    task |= {"per_category": 1} if size == "quick" else {}
    return [_way({"generate", "choices"}, {**task, "answer_by": "letters"}), _way({"generate"}, task)]


def _fewshot(size: Size) -> list[Way]:
    task = {
        "name": "fewshot",
        "data": "reviews.yaml",
        "labelled": ["train"],
        "test_examples": {"quick": 48, "standard": None, "full": None}[size],
        "splits": {"strategy": "multi_splits", "k": {"quick": 4, "standard": 4, "full": 8}[size]},
    }
    shots = {"quick": [0, 8], "standard": [0, 4, 8], "full": [0, 2, 4, 8, 16]}[size]
    patterns = [0, 1] if size == "full" else 0
    shown: dict[str, Any] = {"name": "icl", "shots": shots, "pattern": patterns}
    trained = {
        "name": "pet",
        "pattern": patterns,
        "learning_rate": [1e-5, 1e-4] if size == "full" else 1e-4,
        "max_steps": {"quick": 8, "standard": 16, "full": 32}[size],
        "batch_size": 8,
        "eval_ratios": [0.25],
        "max_seq_length": 64,
    }
    return [
        _way({"logprobs", "generate"}, {**task, "method": ["majority", {**shown, "answer_by": "logprobs"}]}),
        _way({"generate", "choices"}, {**task, "method": ["majority", {**shown, "answer_by": "choices"}]}),
        _way({"train"}, {**task, "method": ["majority", trained]}),
    ]


def _way(needs: set[str], task: Mapping[str, Any], limit: int | None = None) -> Way:
    config = {"task": {key: value for key, value in task.items() if value is not None}}
    return Way(frozenset(needs), {**config, **({"limit": limit} if limit else {})})
