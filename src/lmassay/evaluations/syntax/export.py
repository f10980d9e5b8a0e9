"""Export minimal pairs to the formats of other tools: lm-evaluation-harness (its BLiMP tasks) and Every Eval Ever."""

from __future__ import annotations

from typing import Any

from lmassay.evaluations.syntax.blimp import paradigms
from lmassay.interchange.every_eval_ever import attribution
from lmassay.interchange.exports import Export, LogDocument
from lmassay.interchange.lm_eval.log_export import GREEDY
from lmassay.interchange.lm_eval.run_metadata import METADATA_KEY
from lmassay.types import Row

# What lm-evaluation-harness calls our metrics.
_THEIR_NAMES = {"accuracy": "acc", "accuracy_char": "acc_norm"}


def pairs_export() -> Export:
    """Create the export of whole-sentence pairs: one log per paradigm."""
    return Export(log_document=_document, log_sample=_sample, instance=_instance)


def blanks_export() -> Export:
    """Create the export of blanks. Logs of lm-evaluation-harness have no room for hundreds of words per blank."""
    return Export(has_logs=False)


def _document(row: Row) -> LogDocument:
    """Return the name of the log, the document and the target of a minimal pair, in the form of BLiMP's tasks."""
    inputs = row.example.inputs
    groups = row.example.groups
    paradigm = groups.get("paradigm", "pairs")
    if paradigm in paradigms():
        task = f"blimp_{paradigm}"
    else:
        task = f"minimal_pairs_{paradigm}"
    doc = {"sentence_good": inputs["good"], "sentence_bad": inputs["bad"]}
    labels = {"field": groups.get("field"), "linguistics_term": groups.get("phenomenon"), "UID": paradigm}
    for name, label in labels.items():
        if label:
            doc[name] = label
    # The target "0" says that the first choice, the good sentence, is right.
    return task, doc, "0"


def _sample(row: Row) -> dict[str, Any] | None:
    """Return the log-probabilities that the verdict on a minimal pair is based on; None for a pair without a score."""
    inputs = row.example.inputs
    details = row.score.details
    if "logprob_good" not in details or "asked" not in inputs:
        return None
    # What the harness has no place for; `lmassay import` reads it back.
    lmassay_fields: dict[str, Any] = {"id": row.example.id, "groups": dict(row.example.groups)}
    if "tokens_good" in details:
        lmassay_fields["tokens"] = [details["tokens_good"], details["tokens_bad"]]
    answers = []
    for side in ("good", "bad"):
        answers.append([repr(float(details[f"logprob_{side}"])), GREEDY])
    metrics = {}
    for name, value in row.score.values.items():
        if name in _THEIR_NAMES:
            metrics[_THEIR_NAMES[name]] = value
    return {
        "asked": [list(request) for request in inputs["asked"]],
        "answers": answers,
        "metrics": metrics,
        METADATA_KEY: lmassay_fields,
    }


def _instance(row: Row) -> dict[str, Any] | None:
    """Return a comparison of two sentences; None for a pair without a score.

    Nothing was generated, so the output is the two log-probabilities.
    """
    if "logprob_good" not in row.score.details:
        return None
    good = str(row.example.inputs["good"])
    bad = str(row.example.inputs["bad"])
    good_logprob = row.score.details["logprob_good"]
    bad_logprob = row.score.details["logprob_bad"]
    preferred = ""
    if good_logprob > bad_logprob:
        preferred = good
    elif bad_logprob > good_logprob:
        preferred = bad
    return {
        "input": {"raw": "Which sentence is more probable?", "reference": [good], "choices": [good, bad]},
        "output": {"raw": [repr(float(good_logprob)), repr(float(bad_logprob))]},
        "answer_attribution": [attribution(preferred, "the sentence with the higher log-probability")],
    }
