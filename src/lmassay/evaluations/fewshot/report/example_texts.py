"""The texts that the example browser shows for a training: configuration, examples, dev scores and prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmassay.reporting.example_texts import Exchanges, NamedValues, prompts_and_answers
from lmassay.types import Row


def texts(row: Row, exchanges: Exchanges) -> NamedValues:
    """(name, text) of everything that is shown for a row: what was trained on, dev scores, prompts and answers."""
    inputs = row.example.inputs
    details = row.score.details
    configuration = [f"{name} {value}" for name, value in row.example.groups.items()]
    configuration.append(f"seed {inputs.get('seed')}")
    curve = []
    for step, scores in details.get("curve") or ():
        metrics = [f"{metric} {value:.3f}" for metric, value in scores.items()]
        curve.append(f"step {step}: {', '.join(metrics)}")
    # The request for the training itself is left out, because it repeats the configuration.
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
    """A text such as ``16 train, 16 dev, 277 test``. Before the training, these are the planned numbers."""
    counts = []
    for part in ("train", "dev", "test"):
        if f"n_{part}" in details:
            counts.append(f"{details[f'n_{part}']} {part}")
        elif part != "test" and part in inputs:
            counts.append(f"{len(inputs[part])} {part}")
    return ", ".join(counts)
