"""Export minimal pairs to the formats of other tools: lm-evaluation-harness (its BLiMP tasks) and Every Eval Ever."""

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
    """Return how whole-sentence pairs are exported: one log per paradigm."""
    return Export(log_document=_document, log_sample=_sample, instance=_instance)


def blanks_export() -> Export:
    """Return that blanks have no logs: the formats cannot hold hundreds of words at a blank."""
    return Export(has_logs=False)


def _document(row: Row) -> LogDocument:
    """Return the log, the document and the target of a minimal pair, as BLiMP's tasks have them."""
    inputs, groups = row.example.inputs, row.example.groups
    paradigm = groups.get("paradigm", "pairs")
    task = f"blimp_{paradigm}" if paradigm in paradigms() else f"minimal_pairs_{paradigm}"
    doc = {"sentence_good": inputs["good"], "sentence_bad": inputs["bad"]}
    labels = {"field": groups.get("field"), "linguistics_term": groups.get("phenomenon"), "UID": paradigm}
    doc |= {name: label for name, label in labels.items() if label}
    # The target "0" says that the first choice, the good sentence, is right.
    return task, doc, "0"


def _sample(row: Row) -> dict[str, Any] | None:
    """Return the log-probabilities that the verdict on a minimal pair is based on."""
    inputs, groups, details = row.example.inputs, row.example.groups, row.score.details
    if "logprob_good" not in details or "asked" not in inputs:
        return None
    ours: dict[str, Any] = {"id": row.example.id, "groups": dict(groups)}
    if "tokens_good" in details:
        ours["tokens"] = [details["tokens_good"], details["tokens_bad"]]
    answers = []
    for side in ("good", "bad"):
        answers.append([repr(float(details[f"logprob_{side}"])), GREEDY])
    metrics = {_THEIR_NAMES[name]: value for name, value in row.score.values.items() if name in _THEIR_NAMES}
    return {
        "asked": [list(request) for request in inputs["asked"]],
        "answers": answers,
        "metrics": metrics,
        KEY: ours,
    }


def _instance(row: Row) -> dict[str, Any] | None:
    """Return a comparison of two sentences; nothing was generated, so the output is the two log-probabilities."""
    if "logprob_good" not in row.score.details:
        return None
    good, bad = str(row.example.inputs["good"]), str(row.example.inputs["bad"])
    good_logprob, bad_logprob = row.score.details["logprob_good"], row.score.details["logprob_bad"]
    preferred = ""
    if good_logprob > bad_logprob:
        preferred = good
    elif bad_logprob > good_logprob:
        preferred = bad
    return {
        "input": {"raw": "Which sentence is more probable?", "reference": [good], "choices": [good, bad]},
        "output": {"raw": [repr(float(good_logprob)), repr(float(bad_logprob))]},
        "answer_attribution": [attribution(preferred, "the sentence of the higher log-probability")],
    }
