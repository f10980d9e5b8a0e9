"""What the example browser shows of a training: its configuration, its examples, its course and its prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmassay.reporting.example_texts import Exchanges, NamedValues, prompts_and_answers
from lmassay.types import Row


def texts(row: Row, exchanges: Exchanges) -> NamedValues:
    """What a training learned from, how it went, and the prompts with their answers."""
    inputs = row.example.inputs
    details = row.score.details
    configuration = [f"{name} {value}" for name, value in row.example.groups.items()]
    configuration.append(f"seed {inputs.get('seed')}")
    curve = []
    for step, scores in details.get("curve") or ():
        metrics = [f"{metric} {value:.3f}" for metric, value in scores.items()]
        curve.append(f"step {step}: {', '.join(metrics)}")
    # The request for the training itself repeats what is listed above.
    prompts = [exchange for exchange in exchanges if exchange[0].get("verb") != "train"]
    return [
        ("configuration", ", ".join(configuration)),
        ("examples", _example_counts(inputs, details)),
        ("trained on rows", ", ".join(map(str, inputs.get("train", ())))),
        ("selected on rows", ", ".join(map(str, inputs.get("dev", ())))),
        ("on the dev set", "\n".join(curve)),
        ("notes", details.get("notes")),
        *prompts_and_answers(prompts),
    ]


def _example_counts(inputs: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """Such as ``16 train, 16 dev, 277 test``; before the training, the planned numbers."""
    counts = []
    for part in ("train", "dev", "test"):
        if f"n_{part}" in details:
            counts.append(f"{details[f'n_{part}']} {part}")
        elif part != "test" and part in inputs:
            counts.append(f"{len(inputs[part])} {part}")
    return ", ".join(counts)
