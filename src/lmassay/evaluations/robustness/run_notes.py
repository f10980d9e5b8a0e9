"""Warnings about the outputs of a run, for the terminal and the report."""

from __future__ import annotations

import re

import numpy as np

from lmassay.evaluations.robustness.coverage import GROUP, UNCHANGED
from lmassay.statistics.table import score_table
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

# The part of a signature that says which output files a run was computed from.
_OUTPUT_FILES = re.compile(r"outputs\(out=(\w+),adv_out=(\w+)\)")


def run_notes(store: Store, record: RunRecord) -> list[str]:
    """Return what a reader should know about the outputs of a run before using its numbers."""
    notes = [cut_off_note(record), same_files_note(record), alignment_note(store, record)]
    return [f"outputs of {record.label} on {record.model}: {note}" for note in notes if note]


def cut_off_note(record: RunRecord) -> str:
    """Return a warning if outputs were cut off at the token limit, else an empty text."""
    share = record.result("cut_off")
    if share is None or not share.value:
        return ""
    cut_off = round(share.value * share.n)
    return (
        f"{cut_off:,} of {counted(share.n, 'input')} have an output, with or without attack, that was cut off at "
        "max_tokens; the missing text counts as damage. Set a higher task.max_tokens."
    )


def same_files_note(record: RunRecord) -> str:
    """Return a warning if the outputs with and without attack were read from equal files, else an empty text."""
    digests = _OUTPUT_FILES.fullmatch(str(record.depends_on.get("model")))
    if digests is None or digests[1] != digests[2]:
        return ""
    return "out and adv_out have the same contents, so no output changed under attack; check model.files."


def alignment_note(store: Store, record: RunRecord) -> str:
    """Return a warning if stored outputs differ for inputs that the attack left unchanged, else an empty text."""
    if _OUTPUT_FILES.fullmatch(str(record.depends_on.get("model"))) is None:
        return ""
    table = score_table(store, record.id)
    is_unchanged = np.array([label == UNCHANGED for label in table.groups.get(GROUP, [])], dtype=bool)
    if not table.has("d_tgt") or not is_unchanged.any():
        return ""
    damaged = int((table.column("d_tgt")[is_unchanged] > 0).sum())
    if not damaged:
        return ""
    unchanged = int(is_unchanged.sum())
    return (
        f"{damaged} of {counted(unchanged, 'unchanged input')} got a worse output under attack; check that the lines "
        "of out and adv_out belong to the same inputs."
    )
