"""Minimal pairs in the formats of other tools: BLiMP's tasks of lm-evaluation-harness, and Every Eval Ever."""

from __future__ import annotations

from typing import Any

from lmassay.evaluations.syntax.blimp import paradigms
from lmassay.interchange.every_eval_ever import attribution
from lmassay.interchange.exports import Export, LogDocument
from lmassay.interchange.lm_eval.log_export import GREEDY
from lmassay.interchange.lm_eval.run_metadata import KEY
from lmassay.types import Row

# What lm-evaluation-harness calls our metrics.
_THEIR_NAMES = {"accuracy": "acc", "accuracy_char": "acc_norm"}


def pairs_export() -> Export:
    """Whole sentences: one log a paradigm."""
    return Export(log_document=_document, log_sample=_sample, instance=_instance)


def blanks_export() -> Export:
    """Hundreds of words at a blank have no place in a log."""
    return Export(has_logs=False)


def _document(row: Row) -> LogDocument:
    """The log, the document and the target of a minimal pair, as BLiMP has them."""
    inputs, groups = row.example.inputs, row.example.groups
    paradigm = groups.get("paradigm", "pairs")
    task = f"blimp_{paradigm}" if paradigm in paradigms() else f"minimal_pairs_{paradigm}"
    named = {"field": groups.get("field"), "linguistics_term": groups.get("phenomenon"), "UID": paradigm}
    doc = {"sentence_good": inputs["good"], "sentence_bad": inputs["bad"]}
    return task, doc | {name: label for name, label in named.items() if label}, "0"


def _sample(row: Row) -> dict[str, Any] | None:
    """The log-probabilities that the verdict on a minimal pair rests on."""
    inputs, groups, details = row.example.inputs, row.example.groups, row.score.details
    if "logprob_good" not in details or "asked" not in inputs:
        return None
    ours: dict[str, Any] = {"id": row.example.id, "groups": dict(groups)}
    if "tokens_good" in details:
        ours["tokens"] = [details["tokens_good"], details["tokens_bad"]]
    answers = [[repr(float(details[f"logprob_{side}"])), GREEDY] for side in ("good", "bad")]
    return {
        "asked": [list(request) for request in inputs["asked"]],
        "answers": answers,
        "metrics": {_THEIR_NAMES[name]: value for name, value in row.score.values.items() if name in _THEIR_NAMES},
        KEY: ours,
    }


def _instance(row: Row) -> dict[str, Any] | None:
    """Two sentences compared; nothing was generated, so what came out is the two log-probabilities."""
    if "logprob_good" not in row.score.details:
        return None
    good, bad = str(row.example.inputs["good"]), str(row.example.inputs["bad"])
    numbers = {side: row.score.details[f"logprob_{side}"] for side in ("good", "bad")}
    preferred = good if numbers["good"] > numbers["bad"] else bad if numbers["bad"] > numbers["good"] else ""
    return {
        "input": {"raw": "Which sentence is more probable?", "reference": [good], "choices": [good, bad]},
        "output": {"raw": [repr(float(number)) for number in numbers.values()]},
        "answer_attribution": [attribution(preferred, "the sentence of the higher log-probability")],
    }
