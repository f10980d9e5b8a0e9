"""The note and tags that a user gives to a run.

They are stored as JSON with its own digest, in the table of digests of the store (the database in the results folder).
This way, they are copied, merged and repaired together with the run, and stores of earlier versions do not need a new
table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lmassay.errors import UserError
from lmassay.storage.database import Database
from lmassay.storage.digests import ANNOTATION
from lmassay.storage.single_rows import UNREADABLE
from lmassay.types import Annotation, canonical, digest

_MAX_NOTE_LENGTH = 10_000
# A tag can be typed in a shell without quotes, and has none of the characters that are special in patterns of --tag.
_TAG = re.compile(r"[\w][\w.:+-]{0,49}")


def with_note(annotation: Annotation, text: str) -> Annotation:
    """Return an annotation with another note; an empty text removes it. Raises UserError if the text is too long."""
    if len(text) > _MAX_NOTE_LENGTH:
        raise UserError(f"the note has {len(text):,} characters; write at most {_MAX_NOTE_LENGTH:,}")
    return replace(annotation, note=text.strip())


def with_tags(annotation: Annotation, names: Sequence[str]) -> Annotation:
    """Return an annotation with these tags added. Raises UserError if a name cannot be a tag."""
    for name in names:
        if _TAG.fullmatch(name) is None:
            raise UserError(
                f"'{name}' cannot be a tag; use up to 50 letters, digits and the characters _ . : + -, without spaces, "
                "and begin with a letter, a digit or _"
            )
    return replace(annotation, tags=tuple(dict.fromkeys([*annotation.tags, *names])))


def annotation_text(run: str, annotation: Annotation, changed: str = "") -> str:
    """Return the text that is stored for a note and tags. ``changed`` is the time of the change; empty means now."""
    changed = changed or datetime.now(UTC).isoformat(timespec="microseconds")
    content = {"note": annotation.note, "tags": list(annotation.tags), "changed": changed}
    return canonical({**content, "digest": digest(run, canonical(content))})


def annotation_from_text(run: str, stored: str | None) -> Annotation | None:
    """Read what :func:`annotation_text` wrote: an empty annotation if nothing is stored, None if it is damaged."""
    if stored is None:
        return Annotation()
    try:
        content = json.loads(stored)
        expected = content.pop("digest")
        if expected != digest(run, canonical(content)):
            return None
        return Annotation(content["note"], tuple(content["tags"]))
    except UNREADABLE:
        return None


def time_of_change(stored: str) -> str:
    """Return the time at which a stored note and tags were changed, so that the latest of several can be selected."""
    return str(json.loads(stored)["changed"])


def store_annotation(database: Database, run: str, annotation: Annotation) -> None:
    """Store a note and tags, or delete the stored ones if both are empty. The caller must have begun a transaction."""
    if annotation == Annotation():
        database.execute("DELETE FROM digests WHERE run = ? AND part = ?", (run, ANNOTATION))
    else:
        database.set_digest(run, ANNOTATION, annotation_text(run, annotation))


def combined(first: Annotation, second: Annotation) -> Annotation:
    """Return all tags of both, and both notes; if one note contains the other, only the longer one is kept."""
    notes = [first.note]
    if second.note not in first.note:
        notes = [second.note] if first.note in second.note else [first.note, second.note]
    return Annotation("\n".join(notes), tuple(dict.fromkeys([*first.tags, *second.tags])))
