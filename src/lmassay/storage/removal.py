"""Removes runs from a results folder.

Cached answers are kept unless the caller asks to delete them, because they may have been paid for, and a repeated run
uses them again. An answer is deleted only if no remaining run uses it or was the first to receive it.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from lmassay.errors import DamageError, StoreError
from lmassay.storage.blanking import altered_response_key
from lmassay.storage.database import KEPT_MODELS, TABLES_OF_RUN, plain_errors
from lmassay.storage.kept_models import list_file, listed_models
from lmassay.storage.progress import forget_progress
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted


@dataclass(frozen=True, slots=True)
class Removal:
    """Numbers and ids of everything that was removed."""

    runs: list[str]
    """The ids of the runs."""
    answers: int
    """The number of cached answers that were deleted."""
    kept_answers: int
    """The number of cached answers that were kept although only the removed runs used them; 0 if damage prevented
    counting them."""
    models: int
    """The number of trained models that were deleted."""
    models_are_elsewhere: bool = False
    """Whether the folder of trained models is a link. In this case, the models are kept."""

    def describe(self) -> str:
        """Return what was removed, and what was kept, in one sentence."""
        parts = [f"removed {counted(len(self.runs), 'run')}"]
        if self.models:
            parts.append(counted(self.models, "trained model"))
        if self.answers:
            parts.append(counted(self.answers, "cached answer"))
        text = ", ".join(parts)
        if self.kept_answers:
            are_kept = "is kept" if self.kept_answers == 1 else "are kept"
            text += f"; {counted(self.kept_answers, 'cached answer')} that no other run uses {are_kept} for later runs"
        if self.models_are_elsewhere:
            text += f"; trained models are kept, because {KEPT_MODELS} is a link"
        return text


def remove_runs(store: Store, records: Sequence[RunRecord], *, with_answers: bool = False) -> Removal:
    """Remove runs with their examples, costs, notes and trained models; with ``with_answers`` also their answers.

    Trained models and answers that another run uses are kept. Raises StoreError if one of the runs is in progress.
    """
    for record in records:
        if store.is_in_progress(record):
            raise StoreError(f"the run {record.id} is in progress; stop it first, or wait until it has finished")
    removed = [record.id for record in records]
    with ExitStack() as locks:
        for run in removed:
            locks.enter_context(store.lock(run))
        unused_answers: set[str] = set()
        # If answers are not deleted, this only counts them. Then damage is ignored, because a damaged run can be
        # removed without the count.
        with nullcontext() if with_answers else suppress(DamageError):
            unused_answers = _answers_of_no_other_run(store, removed)
        with plain_errors(store.file), store.database.transaction():
            for run in removed:
                # The id of a damaged run may be stored as bytes.
                store.database.execute("DELETE FROM runs WHERE CAST(id AS TEXT) = ?", (run,))
                for table in TABLES_OF_RUN:
                    store.database.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608
            if with_answers:
                keys = [(key,) for key in unused_answers]
                store.database.executemany("DELETE FROM responses WHERE key = ?", keys)
        # lmassay creates no links. A link may lead to files of somebody else, which must not be deleted.
        models_are_elsewhere = (store.folder / KEPT_MODELS).is_symlink()
        models = 0 if models_are_elsewhere else _remove_kept_models(store.folder, removed)
        for run in removed:
            store.forget_lock(run)
            forget_progress(store.folder, run)
    # VACUUM writes the file again, because SQLite does not make it smaller otherwise. This fails if another process is
    # using the file; then the free space in the file is used for later runs.
    with suppress(sqlite3.OperationalError):
        store.database.execute("VACUUM")
    n_unused = len(unused_answers)
    if with_answers:
        return Removal(removed, n_unused, 0, models, models_are_elsewhere)
    return Removal(removed, 0, n_unused, models, models_are_elsewhere)


def _answers_of_no_other_run(store: Store, removed: Sequence[str]) -> set[str]:
    """Return the cache keys of the answers that only the removed runs use or were the first to receive."""
    other_runs = [record.id for record in store.runs() if record.id not in removed]
    candidates = set(_used_keys(store, removed))
    with plain_errors(store.file):
        # Also the answers that a run received but did not yet use, because their example was not finished.
        for run in removed:
            candidates.update(_received_keys(store, run))
        candidates.difference_update(_used_keys(store, other_runs))
        for run in other_runs:
            candidates.difference_update(_received_keys(store, run))
        query = "SELECT 1 FROM responses WHERE key = ?"
        return {key for key in candidates if store.database.execute(query, (key,)).fetchone() is not None}


def _received_keys(store: Store, run: str) -> list[str]:
    """Return the cache keys of the answers that a run was the first to receive."""
    rows = store.database.execute("SELECT key FROM responses WHERE run = ?", (run,))
    return [key for (key,) in rows]


def _used_keys(store: Store, runs: Iterable[str]) -> Iterator[str]:
    """Yield the cache keys under which the answers to the requests of these runs may be stored."""
    for run in runs:
        with store.reading(run):
            for _, stored_keys, is_damaged in store.stored_keys(run):
                if is_damaged:
                    continue
                for key in json.loads(stored_keys):
                    yield key
                    yield altered_response_key(key)


def _remove_kept_models(results: Path, removed: Sequence[str]) -> int:
    """Delete the trained models that only the removed runs kept; return their number.

    If the list of a removed run cannot be read, its models are not deleted. If that of another run cannot be read,
    nothing is deleted, because any model may belong to that run.
    """
    folder = results / KEPT_MODELS
    candidates: set[str] = set()
    for run in removed:
        listing = list_file(results, run)
        if listing.is_file():
            candidates |= _names_in(listing) or set()
            listing.unlink()
    if not candidates:
        return 0
    for listing in folder.glob("*.json"):
        kept_by_others = _names_in(listing)
        if kept_by_others is None:
            return 0
        candidates -= kept_by_others
    for name in candidates:
        shutil.rmtree(folder / name, ignore_errors=True)
    return len(candidates)


def _names_in(listing: Path) -> set[str] | None:
    """Return the names of the models in a list; None if the list cannot be read."""
    names: set[str] = set()
    try:
        for models in listed_models(listing).values():
            names.update(models)
    except (OSError, ValueError):
        return None
    return names
