"""The warning that ``lmassay run`` prints if answers were cut off before they named a choice."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.cli.console import warn
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

# A few long answers do not matter.
_MIN_SHARE = 0.05


def warn_about_cut_off_answers(store: Store, records: Sequence[RunRecord]) -> None:
    """Warn about each run with many answers that reached the token limit without naming a choice."""
    for record in records:
        note = cut_off_note(store, record)
        if note:
            warn(note)


def cut_off_note(store: Store, record: RunRecord) -> str:
    """Return a warning if many answers of a run were cut off before they named a choice, else an empty text."""
    out_of_choice = record.result("ooc")
    if out_of_choice is None or not out_of_choice.value or out_of_choice.value < _MIN_SHARE:
        return ""
    answers = cut_off = 0
    for row in store.rows(record.id):
        if row.score is None:
            continue
        answers += 1
        if row.score.values.get("ooc") == 1 and row.score.details.get("finish") == "length":
            cut_off += 1
    if cut_off < _MIN_SHARE * answers:
        return ""
    return (
        f"{record.label} on {record.model}: {cut_off:,} of {counted(answers, 'answer')} were cut off at max_tokens "
        "before they named a choice; set a higher task.max_tokens"
    )
