"""Few-shot runs in the formats of other tools."""

from __future__ import annotations

from lmassay.interchange.exports import Export


def trainings_export() -> Export:
    """Trainings cannot be written as a log of lm-evaluation-harness."""
    return Export(has_logs=False)
