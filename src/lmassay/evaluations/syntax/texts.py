"""What a reader wants to see of an example: what was asked, what came back, how it was read, what was right."""

from __future__ import annotations

from lmassay.reporting.example_texts import Asked, Parts
from lmassay.types import Row


def blank_texts(row: Row, _: Asked) -> Parts:
    """A context with its blank, and the verbs that were compared there."""
    inputs, details = row.example.inputs, row.score.details
    if "left" not in inputs:
        return [("right", inputs.get("good")), ("wrong", inputs.get("bad")), ("where", inputs.get("where"))]
    hits = dict(details.get("tse", ()))
    verdicts = {None: "not judged", 0: "wrong", 1: "right"}
    pairs = [
        f"{good} / {bad}: {verdicts.get(hits.get(number), 'judged')}" for number, good, bad in inputs.get("rows", ())
    ]
    return [
        ("context", f"{inputs['left']}___{inputs.get('right', '')}"),
        ("right / wrong verb", "\n".join(dict.fromkeys(pairs))),
        ("lemmas scored", details.get("lemmas")),
        ("not one token", ", ".join(map(str, details.get("not_single_token", ())))),
        ("reference", row.example.reference),
    ]


def sentence_texts(row: Row, _: Asked) -> Parts:
    """The two sentences of a pair with their log-probabilities."""
    inputs, details = row.example.inputs, row.score.details
    compared = [f"{context} [{word.strip()}]" for context, word in inputs.get("asked", ()) if context]
    judged = [
        f"{side} {details[f'logprob_{side}']:.3f} over {details.get(f'tokens_{side}', '?')} tokens"
        for side in ("good", "bad")
        if f"logprob_{side}" in details
    ]
    return [
        ("good", inputs.get("good")),
        ("bad", inputs.get("bad")),
        ("compared", "\n".join(compared)),
        ("log-probability", "\n".join(judged)),
    ]
