"""The warnings that ``lmassay run`` prints about the outputs of robustness runs."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.cli.console import warn
from lmassay.evaluations.robustness.run_notes import run_notes
from lmassay.storage.store import Store
from lmassay.types import RunRecord


def warn_about_outputs(store: Store, records: Sequence[RunRecord]) -> None:
    """Warn about each run whose outputs were cut off, or whose output files do not seem to fit together."""
    for record in records:
        for note in run_notes(store, record):
            warn(note)
