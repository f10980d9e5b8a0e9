"""Few-shot runs in the formats of other tools."""

from __future__ import annotations

from lmassay.interchange.exports import Export


def trainings_export() -> Export:
    """Few-shot runs have no logs of lm-evaluation-harness: its samples are examples, and these runs score splits."""
    return Export(has_logs=False)
