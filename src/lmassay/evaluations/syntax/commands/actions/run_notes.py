"""The warnings that ``lmassay run`` prints about syntax runs: few verbs, and pairs that are ties."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from lmassay.cli.console import warn
from lmassay.evaluations.syntax.few_verbs import few_verbs_note, lemma_counts
from lmassay.evaluations.syntax.sentences import TIES
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted

# A part of the rows is enough: all contexts have the same verbs as single tokens, except contexts that begin with the
# verb, whose forms have a capital letter.
_ROWS_TO_READ = 200


def warn_about_results(store: Store, records: Sequence[RunRecord]) -> None:
    """Warn if EW and MW of any of these runs are based on few verbs, or if pairs are ties, which count as wrong."""
    notes: dict[str, None] = {}
    for record in records:
        few_verbs = few_verbs_note(lemma_counts(islice(store.rows(record.id), _ROWS_TO_READ)))
        for note in (few_verbs, ties_note(record)):
            if note:
                notes[note] = None
    for note in notes:
        warn(note)


def ties_note(record: RunRecord) -> str:
    """Return a warning if the two sentences of some pairs are equally probable, else an empty text."""
    ties = record.result(TIES)
    if ties is None or not ties.value:
        return ""
    return (
        f"{record.label} on {record.model}: in {round(ties.value * ties.n):,} of {counted(ties.n, 'pair')}, both "
        "sentences are equally probable; such ties count as wrong, so accuracy may be below one half"
    )
