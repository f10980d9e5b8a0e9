"""Few-shot runs in the formats of other tools."""

from __future__ import annotations

from lmassay.interchange.exports import Export


def trainings_export() -> Export:
    """Few-shot runs cannot be exported as logs of lm-evaluation-harness.

    Such a log has one entry per test example, while the rows of a few-shot run are splits.
    """
    return Export(has_logs=False)
