"""A note for models that have only few verbs of the list as single tokens.

EW and MW, the accuracies over a verb list (see :mod:`.metrics`), are then based on few verbs. How many verbs a model
has is known only after a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lmassay.statistics.observations import FEW_LABELS
from lmassay.types import Row
from lmassay.types.wording import counted


def few_verbs_note(lemma_counts: Collection[int]) -> str:
    """Return a note if EW and MW are based on few verbs, else an empty text.

    ``lemma_counts`` are the numbers of verbs with both forms as single tokens, one for each context.
    """
    most = max(lemma_counts, default=0)
    # Without any verb there is no EW, and the unscored examples state the reason.
    if not 0 < most < FEW_LABELS:
        return ""
    return (
        f"EW and MW rest on {counted(most, 'verb')} only: fewer than {FEW_LABELS} say little about other verbs. Both "
        "forms of a verb must be single tokens of the model"
    )


def lemma_counts(rows: Iterable[Row]) -> set[int]:
    """Return how many verbs EW and MW are based on in these contexts: all numbers that occur."""
    counts: set[int] = set()
    for row in rows:
        lemmas = row.score.details.get("lemmas")
        if isinstance(lemmas, int):
            counts.add(lemmas)
    return counts
