"""The warning that ``lmassay run`` prints if EW and MW are based on few verbs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from lmassay.cli.console import warn
from lmassay.evaluations.syntax.few_verbs import few_verbs_note, lemma_counts
from lmassay.storage.store import Store
from lmassay.types import RunRecord

# A part of the rows is enough: all contexts have the same verbs as single tokens, except contexts that begin with the
# verb, whose forms have a capital letter.
_ROWS_TO_READ = 200


def warn_about_few_verbs(store: Store, records: Sequence[RunRecord]) -> None:
    """Warn if EW and MW of any of these runs are based on few verbs."""
    notes: dict[str, None] = {}
    for record in records:
        note = few_verbs_note(lemma_counts(islice(store.rows(record.id), _ROWS_TO_READ)))
        if note:
            notes[note] = None
    for note in notes:
        warn(note)
