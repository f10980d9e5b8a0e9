"""Merges results folders of several machines into one.

Every run is copied with its examples, answers, costs and digests. A run that is in several folders is copied once. If
two copies of a run differ, or the copy in the target is damaged, that is a conflict, and one copy is kept: the one that
is complete (a damaged copy never counts as complete); otherwise, the one with more finished examples; otherwise, the
undamaged one; otherwise, the first one. Notes and tags of both copies are kept.

Two folders may have different answers to the same request, because answers are sampled or a server has changed. Then
the target keeps the first answer under the usual cache key, and the answer of the other folder under another key for
that folder's runs. So every run still shows the answers from which its scores were computed.
"""

from __future__ import annotations

import heapq
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lmassay.errors import StoreError
from lmassay.storage.annotations import annotation_text, combined
from lmassay.storage.batches import BATCH_COLUMNS
from lmassay.storage.database import (
    KEPT_MODELS,
    OWN_ANSWER_MARK,
    SCHEMA,
    STORE_FILE,
    TABLES_OF_RUN,
    connect,
    is_damage,
    plain_errors,
)
from lmassay.storage.digests import ANNOTATION, decoded_cell, keys_digest
from lmassay.storage.files import atomic_write
from lmassay.storage.in_memory import INPUTS_FOLDER
from lmassay.storage.kept_models import is_own, list_file, listed_models
from lmassay.storage.records import DAMAGED
from lmassay.storage.responses import RESPONSE_COLUMNS, StoredResponse, response_digest
from lmassay.storage.single_rows import UNREADABLE
from lmassay.storage.store import Store
from lmassay.types import Annotation, RunRecord

T = TypeVar("T")
_RESPONSE_CELLS = len(StoredResponse._fields) + 1


@dataclass(slots=True)
class MergedFolder:
    """What was copied from one folder, and what was not."""

    folder: Path
    copied: list[str] = field(default_factory=list)
    """The ids of the runs that were copied."""
    duplicates: list[str] = field(default_factory=list)
    """The ids of the runs that the target already had, with the same record, results and examples."""
    conflicts: list[str] = field(default_factory=list)
    """One sentence for each run that differs from the copy that the target already had."""
    damaged: list[str] = field(default_factory=list)
    """The ids of the runs that are damaged; they are not copied."""
    answers: int = 0
    """The number of answers that were copied."""
    damaged_answers: bool = False
    """Whether the answers could not be copied, because the file is damaged."""
    different_answers: int = 0
    """The number of answers that differ from another folder's answer to the same request."""
    foreign: list[str] = field(default_factory=list)
    """The files and folders that lmassay did not write, such as links; they are not copied."""


def merge(folders: Sequence[Path], target: Path) -> list[MergedFolder]:
    """Merge results folders into ``target``, which may be new or have runs already.

    Each folder is merged in one transaction. If the command is interrupted, it can be started again.
    """
    _check_folders(folders, target)
    with Store(target, create=True) as store:
        orders = [_creation_order(store)]
    for folder in folders:
        with Store(folder) as store:
            orders.append(_creation_order(store))
    merged = []
    for folder in folders:
        with (
            _current_schema(folder) as file,
            plain_errors(target / STORE_FILE),
            closing(connect(target / STORE_FILE)) as database,
        ):
            merged.append(_Merge(database, folder, file, target).run())
    _sort_runs(target, orders)
    return merged


def _check_folders(folders: Sequence[Path], target: Path) -> None:
    """Raise StoreError if a folder is given twice, has no results, or has a run in progress."""
    resolved_paths = {target.resolve()}
    for folder in folders:
        if folder.resolve() in resolved_paths:
            raise StoreError(f"{folder} is given twice; give each folder once, and another one for -o")
        resolved_paths.add(folder.resolve())
        if not os.path.lexists(folder / STORE_FILE):
            raise StoreError(f"there are no results in {folder}; give folders that contain {STORE_FILE}")
        with Store(folder) as store:
            running = [record.id for record in store.runs() if record.status == "running"]
        if running:
            raise StoreError(f"{folder}: the run {running[0]} is in progress; merge when it has finished")


@contextmanager
def _current_schema(folder: Path) -> Iterator[Path]:
    """Yield the path of a file with the current schema: the store's own file, or an updated copy of it.

    The store itself is not changed.
    """
    file = folder / STORE_FILE
    can_write = os.access(folder, os.W_OK)
    # Even for reading, SQLite writes files next to the store, unless ``immutable=1`` says that no process writes to it.
    mode = "mode=ro" if can_write else "mode=ro&immutable=1"
    with plain_errors(file), closing(connect(f"{file.resolve().as_uri()}?{mode}", uri=True)) as source:
        (version,) = source.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA and can_write:
            yield file
            return
        with tempfile.TemporaryDirectory(prefix="lmassay-merge-") as temporary:
            copy = Path(temporary) / STORE_FILE
            with closing(connect(copy)) as database:
                source.backup(database)
            with Store(Path(temporary), create=True):
                pass
            yield copy


def _creation_order(store: Store) -> list[tuple[str, str]]:
    """Return pairs of time and id of the runs of a store, in the order in which they were recorded.

    The order is reliable, but the recorded times are not, because a clock may have been set back. So a run with an
    earlier time than the run before it gets the time of that run.
    """
    order: list[tuple[str, str]] = []
    latest = ""
    for record in store.runs():
        latest = max(latest, record.created)
        order.append((latest, record.id))
    return order


def _sort_runs(target: Path, orders: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Sort the runs in the target by their creation, because ``latest`` means the run that was recorded last.

    ``orders`` has the runs of the target and of each folder, in the order in which they were recorded.
    """
    runs_by_creation = dict.fromkeys(run for _, run in heapq.merge(*orders))
    with plain_errors(target / STORE_FILE), closing(connect(target / STORE_FILE)) as database:
        present = [run for (run,) in database.execute("SELECT id FROM runs ORDER BY rowid")]
        # Runs with a damaged record were not copied.
        present_ids = set(present)
        in_order = [run for run in runs_by_creation if run in present_ids]
        if in_order == present:
            return
        (last,) = database.execute("SELECT MAX(rowid) FROM runs").fetchone()
        with database:
            for number, run in enumerate(in_order, start=1):
                database.execute("UPDATE runs SET rowid = ? WHERE id = ?", (last + number, run))


def _is_whole(*cells: Any) -> bool:
    """Return whether an answer matches its digest. This is called as an SQL function; all cells are bytes."""
    *columns, stored_digest = cells
    response = StoredResponse(*map(decoded_cell, columns))
    return not response.is_damaged(stored_digest, needs_digest=True)


class _Merge:
    """Copies one folder into the target."""

    def __init__(self, database: sqlite3.Connection, folder: Path, file: Path, target: Path) -> None:
        # ``database`` is the store of ``target``, ``file`` that of ``folder`` or a copy of it with the current schema.
        self._db = database
        self._target = target
        self._folder = folder
        self._file = file
        self._outcome = MergedFolder(folder)

    def run(self) -> MergedFolder:
        """Copy everything that the target lacks, and return what was done."""
        with Store(self._folder) as store:
            records = [store.with_damage(record) for record in store.runs()]
        with Store(self._target) as store:
            present = {record.id: record for record in store.runs()}
            # Runs that are only in the target are left as they are, so they need not be verified.
            for record in records:
                if record.id in present:
                    present[record.id] = store.with_damage(present[record.id])
        self._db.isolation_level = None
        self._db.execute("ATTACH ? AS source", (str(self._file),))
        self._db.execute("BEGIN IMMEDIATE")
        try:
            copied = self._copy_runs(records, present)
            if not self._try_to_copy(self._copy_answers, copied):
                self._outcome.damaged_answers = True
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        self._db.execute("DETACH source")
        # The files of duplicates are copied, too: an earlier merge may have been killed after its transaction, before
        # all files were copied.
        merged = [*copied, *self._outcome.duplicates]
        self._copy_kept_models(merged)
        if merged:
            self._copy_inputs()
        if any(record.id in merged and record.status != "done" for record in records):
            self._copy_models_of_unfinished_runs()
        return self._outcome

    def _copy_runs(self, records: Sequence[RunRecord], present: dict[str, RunRecord]) -> list[str]:
        """Copy runs with their rows, and return their ids. ``present`` are the runs of the target by id."""
        copied = []
        for record in records:
            if record.status == DAMAGED:
                self._outcome.damaged.append(record.id)
            elif record.id not in present:
                if self._try_to_copy(self._copy_run, record.id):
                    copied.append(record.id)
                else:
                    self._outcome.damaged.append(record.id)
            elif present[record.id].status != DAMAGED and self._is_same(record.id):
                self._outcome.duplicates.append(record.id)
                self._combine_annotations(present[record.id], record)
            elif self._takes_precedence(record, present[record.id]):
                self._delete_run(record.id)
                self._copy_run(record.id)
                copied.append(record.id)
                self._combine_annotations(present[record.id], record)
            else:
                self._combine_annotations(present[record.id], record)
        self._outcome.copied = copied
        return copied

    def _try_to_copy(self, copy: Callable[[T], None], argument: T) -> bool:
        """Call a function that copies from the source; undo it if the file is damaged. Return whether it succeeded."""
        self._db.execute("SAVEPOINT copying")
        try:
            copy(argument)
        except (sqlite3.DatabaseError, *UNREADABLE) as error:
            if isinstance(error, sqlite3.DatabaseError) and not is_damage(error):
                raise
            self._db.execute("ROLLBACK TO copying")
            self._db.execute("RELEASE copying")
            return False
        self._db.execute("RELEASE copying")
        return True

    def _is_same(self, run: str) -> bool:
        """Return whether both copies of a run have the same record, results and examples.

        Status and times may differ.
        """
        columns = {
            "runs": "sweep, name, task, model, label, config, signature, provenance, planned, results",
            "rows": "id, position, state, inputs, reference, groups, scores, unscored, details, error, outcomes",
            "batches": "first, examples, scores_digest, texts_digest",
        }
        for table, compared in columns.items():
            key = "id" if table == "runs" else "run"
            ours = f"SELECT {compared} FROM main.{table} WHERE {key} = :run"  # noqa: S608
            theirs = f"SELECT {compared} FROM source.{table} WHERE {key} = :run"  # noqa: S608
            for query in (f"{ours} EXCEPT {theirs}", f"{theirs} EXCEPT {ours}"):
                if self._db.execute(f"{query} LIMIT 1", {"run": run}).fetchone() is not None:
                    return False
        return True

    def _takes_precedence(self, record: RunRecord, present: RunRecord) -> bool:
        """Record a conflict, and return whether the copy in this folder replaces the one in the target."""
        run = record.id
        is_better = self._progress("source", run, record.status) > self._progress("main", run, present.status)
        kept = f"the copy in {self._folder}" if is_better else "the copy that was there before"
        self._outcome.conflicts.append(
            f"{record.id} ({record.status}) differs from the copy that was there before ({present.status}); "
            f"{kept} is kept"
        )
        return is_better

    def _progress(self, database: str, run: str, status: str) -> tuple[bool, int, bool]:
        """Return whether a copy of a run is complete, its number of finished examples, and whether it is undamaged.

        Of two copies, the one with the larger tuple is kept.
        """
        (single_rows,) = self._db.execute(
            f"SELECT COUNT(*) FROM {database}.rows WHERE run = ? AND state != 'error'",  # noqa: S608
            (run,),
        ).fetchone()
        (in_batches,) = self._db.execute(
            f"SELECT TOTAL(examples) FROM {database}.batches WHERE run = ?",  # noqa: S608
            (run,),
        ).fetchone()
        return status == "done", single_rows + int(in_batches), status != DAMAGED

    def _copy_run(self, run: str) -> None:
        self._copy_rows_of_table("runs", "id", run)
        for table in TABLES_OF_RUN:
            self._copy_rows_of_table(table, "run", run)

    def _copy_rows_of_table(self, table: str, key: str, run: str) -> None:
        columns = BATCH_COLUMNS
        if table != "batches":
            columns = ", ".join(name for _, name, *_ in self._db.execute(f"PRAGMA main.table_info({table})"))
        self._db.execute(
            f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM source.{table} WHERE {key} = ?",  # noqa: S608
            (run,),
        )

    def _combine_annotations(self, present: RunRecord, record: RunRecord) -> None:
        """Keep the notes and tags of both copies of a run, whichever copy is kept."""
        annotation = combined(present.annotation, record.annotation)
        if annotation == Annotation():
            return
        stored = annotation_text(record.id, annotation)
        self._db.execute("INSERT OR REPLACE INTO main.digests VALUES (?, ?, ?)", (record.id, ANNOTATION, stored))

    def _delete_run(self, run: str) -> None:
        self._db.execute("DELETE FROM main.runs WHERE id = ?", (run,))
        for table in TABLES_OF_RUN:
            self._db.execute(f"DELETE FROM main.{table} WHERE run = ?", (run,))  # noqa: S608

    def _copy_answers(self, copied: Sequence[str]) -> None:
        """Copy all answers that match their digests. ``copied`` are the ids of the runs that were copied."""
        self._db.create_function("is_whole", _RESPONSE_CELLS, _is_whole, deterministic=True)
        # The cells are passed as bytes, because a damaged text may not be UTF-8.
        cells = ", ".join(f"CAST(source.responses.{name} AS BLOB)" for name in (*StoredResponse._fields, "digest"))
        different = self._db.execute(
            "SELECT key FROM source.responses JOIN main.responses AS present USING (key)"  # noqa: S608
            f" WHERE source.responses.response != present.response AND is_whole({cells})"
        ).fetchall()
        # If the target has the same text with a damaged request or digest, this folder's intact answer replaces it.
        # If the text itself is damaged, the damaged answer stays: the original text may have been another one.
        present_cells = cells.replace("source.responses.", "present.")
        self._db.execute(
            "DELETE FROM main.responses WHERE key IN (SELECT present.key FROM source.responses"  # noqa: S608
            " JOIN main.responses AS present USING (key) WHERE source.responses.response = present.response"
            f" AND NOT is_whole({present_cells}) AND is_whole({cells}))"
        )
        columns = ", ".join(name for _, name, *_ in self._db.execute("PRAGMA main.table_info(responses)"))
        inserted = self._db.execute(
            f"INSERT OR IGNORE INTO main.responses ({columns})"  # noqa: S608
            f" SELECT {columns} FROM source.responses WHERE is_whole({cells})"
        )
        self._outcome.answers = inserted.rowcount
        if different:
            self._keep_different_answers({key for (key,) in different}, copied)

    def _keep_different_answers(self, different: set[str], copied: Sequence[str]) -> None:
        """Store the answers of this folder that differ from those in the target under keys that only its runs use.

        ``different`` are the usual cache keys of these answers, ``copied`` the ids of the runs that were copied.
        """
        used: set[str] = set()
        for run in copied:
            examples = self._db.execute("SELECT id, keys FROM main.asked WHERE run = ?", (run,)).fetchall()
            for example, stored_keys in examples:
                keys = json.loads(stored_keys)
                if not different.intersection(keys):
                    continue
                used.update(different.intersection(keys))
                own_keys = []
                for key in keys:
                    own_keys.append(self._own_key(key) if key in different else key)
                stored_own_keys = json.dumps(own_keys, separators=(",", ":"))
                self._db.execute(
                    "UPDATE main.asked SET keys = ?, digest = ? WHERE run = ? AND id = ?",
                    (stored_own_keys, keys_digest(run, example, stored_own_keys), run, example),
                )
        for key in used:
            query = f"SELECT {RESPONSE_COLUMNS} FROM source.responses WHERE key = ?"  # noqa: S608
            columns = self._db.execute(query, (key,)).fetchone()
            response = StoredResponse(*columns)._replace(key=self._own_key(key))
            self._db.execute(
                f"INSERT OR IGNORE INTO main.responses ({RESPONSE_COLUMNS}, digest)"  # noqa: S608
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                response.with_digest(),
            )
        self._outcome.different_answers = len(different)

    def _own_key(self, key: str) -> str:
        """Return the key for this folder's answer to a request to which the target has a different answer."""
        (response,) = self._db.execute("SELECT response FROM source.responses WHERE key = ?", (key,)).fetchone()
        return f"{key}{OWN_ANSWER_MARK}{response_digest(key, response).hex()}"

    # --- files next to the store ----------------------------------------------------------------------------------

    def _is_own(self, path: Path) -> bool:
        """Return whether a file or folder can be copied; report it if it cannot.

        lmassay creates no links. In a folder from somebody else, a link could lead to a private file on this machine.
        """
        if is_own(path):
            return True
        self._report_foreign(path)
        return False

    def _report_foreign(self, path: Path) -> None:
        name = path.relative_to(self._folder).as_posix()
        if name not in self._outcome.foreign:
            self._outcome.foreign.append(name)

    def _own_folder(self, name: str) -> Path | None:
        """Return a folder of the source; None if there is none, or if it is a link."""
        folder = self._folder / name
        if folder.is_symlink():
            self._report_foreign(folder)
            return None
        return folder if folder.is_dir() else None

    def _copy_inputs(self) -> None:
        """Copy the data that Python programs passed to runs. The folder of a file is named after its digest."""
        source = self._own_folder(INPUTS_FOLDER)
        if source is None:
            return
        for folder in sorted(source.iterdir()):
            if not self._is_own(folder) or not folder.is_dir():
                continue
            for file in sorted(folder.iterdir()):
                target = self._target / INPUTS_FOLDER / folder.name / file.name
                if file.is_file() and not target.exists():
                    # Copied as bytes: a file that is not text is not from lmassay, but must not stop the merge.
                    with atomic_write(target) as stream:
                        stream.buffer.write(file.read_bytes())

    def _copy_kept_models(self, runs: Sequence[str]) -> None:
        """Copy the trained models that the runs kept. A folder is named after the digest of its training."""
        source = self._own_folder(KEPT_MODELS)
        if source is None:
            return
        for run in runs:
            listing = list_file(self._folder, run)
            if not os.path.lexists(listing) or not self._is_own(listing):
                continue
            names_by_example = self._names_in(listing)
            if names_by_example is None:
                continue
            target = list_file(self._target, run)
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(listing, target)
            for names in names_by_example.values():
                for name in names:
                    self._copy_kept_model(source / name)

    def _names_in(self, listing: Path) -> dict[str, list[str]] | None:
        """Return the models in a list; if it cannot be read, report this and return None."""
        try:
            return listed_models(listing)
        except ValueError:
            self._report_foreign(listing)
            return None

    def _copy_models_of_unfinished_runs(self) -> None:
        """Copy the models that are in no list, because the list of a run is written only when the run is done."""
        source = self._own_folder(KEPT_MODELS)
        if source is None:
            return
        listed: set[str] = set()
        for listing in source.glob("*.json"):
            if self._is_own(listing):
                for names in (self._names_in(listing) or {}).values():
                    listed.update(names)
        for folder in sorted(source.glob("[!.]*")):
            if folder.name not in listed:
                self._copy_kept_model(folder)

    def _copy_kept_model(self, folder: Path) -> None:
        """Copy the folder of a trained model, unless it does not exist, has links, or is in the target already."""
        target = self._target / KEPT_MODELS / folder.name
        if not folder.is_dir() or target.exists() or not self._is_own(folder):
            return
        target.parent.mkdir(exist_ok=True)
        unfinished = target.with_name(f".{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            shutil.copytree(folder, unfinished)
        except shutil.Error as error:
            # The argument of the error is a list of all files that could not be copied; the message names the first.
            (name, _, reason), *_ = error.args[0]
            raise StoreError(f"cannot copy the trained model {name}: {reason}") from error
        unfinished.rename(target)
