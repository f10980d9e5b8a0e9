"""The warning that ``lmassay run`` prints if outputs ended at the token limit."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.cli.console import warn
from lmassay.evaluations.robustness.cut_off import cut_off_note
from lmassay.storage.store import Store
from lmassay.types import RunRecord


def warn_about_cut_off_outputs(store: Store, records: Sequence[RunRecord]) -> None:
    """Warn about each run with outputs that were cut off."""
    for record in records:
        note = cut_off_note(record)
        if note:
            warn(note)
