"""What ``lmassay note`` and ``lmassay tag`` do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from lmassay.cli.console import print_json, say, without_controls
from lmassay.errors import UserError, did_you_mean
from lmassay.storage.annotations import with_note, with_tags
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import Annotation, RunRecord


def note(run: str, text: str | None, results: Path, as_json: bool) -> None:
    """Write or print the note on a run."""
    record = _record(results, run)
    if text is not None:
        _change(results, record, with_note(record.annotation, text))
    record = _shown_record(results, record)
    if as_json:
        print_json(_as_json(record))
    elif text is None:
        if record.annotation.note:
            click.echo(without_controls(record.annotation.note))
        else:
            say(f"{record.id} has no note")
    else:
        say(f"note {'written on' if record.annotation.note else 'removed from'} {record.id}")


def tag(run: str, names: Sequence[str], remove: bool, results: Path, as_json: bool) -> None:
    """Add, remove or print the tags of a run."""
    if remove and not names:
        raise UserError("--remove: name the tags to remove")
    record = _record(results, run)
    if names:
        if remove:
            annotation = _without(record, names)
        else:
            annotation = with_tags(record.annotation, names)
        _change(results, record, annotation)
    record = _shown_record(results, record)
    if as_json:
        print_json(_as_json(record))
    elif record.annotation.tags:
        click.echo(without_controls(" ".join(record.annotation.tags)))
    else:
        say(f"{record.id} has no tags")


def _record(results: Path, run: str) -> RunRecord:
    """Return a run exactly as it is stored, so that it can be changed and written back.

    In a run for display, secrets are blanked out, and writing it back would overwrite the stored text.
    """
    with Store(results) as store:
        record = store.run(run)
    if record.status == DAMAGED:
        raise UserError(f"the run {record.id} is damaged: {record.note}")
    return record


def _change(results: Path, record: RunRecord, annotation: Annotation) -> None:
    """Store the note and the tags of a run."""
    # With create=True, the schema of an older store is updated.
    with Store(results, create=True) as store:
        store.annotate(record.id, annotation)


def _shown_record(results: Path, record: RunRecord) -> RunRecord:
    """Return a run as it is stored now, for display: secrets that an old version may have stored are blanked out."""
    with Store(results, for_display=True) as store:
        return store.run(record.id)


def _without(record: RunRecord, names: Sequence[str]) -> Annotation:
    for name in names:
        if name not in record.annotation.tags:
            raise UserError(f"{record.id} has no tag '{name}'{did_you_mean(name, record.annotation.tags)}")
    return replace(record.annotation, tags=tuple(name for name in record.annotation.tags if name not in names))


def _as_json(record: RunRecord) -> dict[str, object]:
    return {"run": record.id, "note": record.annotation.note, "tags": list(record.annotation.tags)}
