"""What a reader wants to see of an example: what was asked, what came back, how it was read, what was right."""

from __future__ import annotations

from lmassay.reporting.example_texts import Exchanges, NamedValues, prompts_and_answers
from lmassay.types import Row


def texts(row: Row, asked: Exchanges) -> NamedValues:
    """A training: what it learned from, how it went, and what the model was asked."""
    inputs, details, groups = row.example.inputs, row.score.details, row.example.groups
    sizes = [("train", "n_train", "train"), ("dev", "n_dev", "dev"), ("test", "n_test", None)]
    counts = [
        f"{details.get(key, len(inputs.get(listed or '', ())))} {name}"
        for name, key, listed in sizes
        if key in details or listed in inputs
    ]
    course = [
        f"step {step}: {', '.join(f'{metric} {value:.3f}' for metric, value in scores.items())}"
        for step, scores in details.get("curve") or ()
    ]
    return [
        ("configuration", ", ".join([*(f"{k} {v}" for k, v in groups.items()), f"seed {inputs.get('seed')}"])),
        ("examples", ", ".join(counts)),
        ("trained on rows", ", ".join(map(str, inputs.get("train", ())))),
        ("chosen on rows", ", ".join(map(str, inputs.get("dev", ())))),
        ("on the dev set", "\n".join(course)),
        ("notes", details.get("notes")),
        *prompts_and_answers([pair for pair in asked if pair[0].get("verb") != "train"]),
    ]
