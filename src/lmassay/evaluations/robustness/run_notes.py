"""Warnings about the outputs of a run, for the terminal and the report."""

from __future__ import annotations

import re

import numpy as np

from lmassay.evaluations.robustness.coverage import GROUP, UNCHANGED
from lmassay.statistics.table import score_table
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

# A role of the model `outputs` in a signature, with the digest of its file.
_OUTPUT_FILE = re.compile(r"(\w+)=(\w+)")
# Scores of neural scorers differ a little with the other texts of their batch.
_ROUNDING = 1e-6


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
    digests = _output_digests(record)
    if not digests or digests.get("out") != digests.get("adv_out"):
        return ""
    return "out and adv_out have the same contents, so no output changed under attack; check model.files."


def alignment_note(store: Store, record: RunRecord) -> str:
    """Return a warning if stored outputs differ for inputs that the attack left unchanged, else an empty text."""
    if not _output_digests(record):
        return ""
    table = score_table(store, record.id)
    is_unchanged = np.array([label == UNCHANGED for label in table.groups.get(GROUP, [])], dtype=bool)
    if not table.has("d_tgt") or not is_unchanged.any():
        return ""
    damaged = int((table.column("d_tgt")[is_unchanged] > _ROUNDING).sum())
    if not damaged:
        return ""
    unchanged = int(is_unchanged.sum())
    return (
        f"{damaged} of {counted(unchanged, 'unchanged input')} got a worse output under attack; check that the lines "
        "of out and adv_out belong to the same inputs."
    )


def _output_digests(record: RunRecord) -> dict[str, str]:
    """Return the digests of the output files by role; empty if the outputs were not read from files."""
    model = str(record.depends_on.get("model"))
    if not model.startswith("outputs("):
        return {}
    return dict(_OUTPUT_FILE.findall(model))
