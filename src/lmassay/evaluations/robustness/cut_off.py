"""A warning about outputs that ended at the token limit, for the terminal and the report."""

from __future__ import annotations

from lmassay.reporting.numbers import value_text
from lmassay.types import RunRecord


def cut_off_note(record: RunRecord) -> str:
    """Return a warning if outputs of a run were cut off, else an empty text."""
    share = record.result("cut_off")
    if share is None or not share.value:
        return ""
    return (
        f"{record.label} on {record.model}: in {value_text(share, 3)} of {share.n} inputs, an output with or without "
        "attack was cut off at max_tokens; what is missing counts as damage. Set a higher task.max_tokens."
    )
