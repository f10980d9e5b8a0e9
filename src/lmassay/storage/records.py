"""Reads and verifies the record of a run. If it does not match its digests, the run is damaged and shows no numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.storage import digests
from lmassay.storage.annotations import annotation_from_text
from lmassay.storage.migration import RECORD_COLUMNS
from lmassay.storage.provenance import command_line
from lmassay.types import Annotation, Provenance, Result, RunRecord, provenance_from_dict

DAMAGED = "damaged"
"""The status of a run of which something is not what lmassay wrote: its record, status, results, note or tags.

Examples and answers are verified only where they are read, and by :meth:`Store.with_damage`.
"""
FIELDS = tuple(RECORD_COLUMNS.split(", "))
# The cells are read as bytes, because a single text that is not UTF-8 would abort the query for all runs.
_COLUMNS_READ = ", ".join(name if name == "planned" else f"CAST({name} AS BLOB)" for name in FIELDS)
RECORDS_QUERY = f"SELECT {_COLUMNS_READ} FROM runs ORDER BY rowid"  # noqa: S608
RECORD_QUERY = f"SELECT {_COLUMNS_READ} FROM runs WHERE id = ?"  # noqa: S608
# The columns that may be empty.
_OPTIONAL = ("planned", "finished")


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The record of a run as it is stored, with its digests."""

    fields: Mapping[str, Any]
    """A dict from column to value. Bytes that are not UTF-8 are replaced by escapes."""
    digests: Mapping[str, str]
    """A dict from part (such as ``results``) to digest. The user's note and tags are stored here, too."""
    is_readable: bool = True
    """Whether no required column is empty, and all texts are UTF-8."""

    @staticmethod
    def of(columns: Sequence[Any], stored_digests: Mapping[str, Mapping[str, str]]) -> StoredRecord:
        """Return the record of a run from the ``columns`` that :data:`RECORDS_QUERY` yields."""
        fields: dict[str, Any] = {}
        is_readable = True
        for name, value in zip(FIELDS, columns, strict=True):
            if value is None and name not in _OPTIONAL:
                is_readable = False
            if isinstance(value, bytes):
                try:
                    fields[name] = value.decode("utf-8")
                except UnicodeDecodeError:
                    is_readable = False
                    fields[name] = digests.decoded_cell(value)
            else:
                fields[name] = value if name in _OPTIONAL else digests.decoded_cell(value)
        return StoredRecord(fields, stored_digests.get(fields["id"], {}), is_readable)

    @property
    def id(self) -> str:
        """The id of the run."""
        return str(self.fields["id"])

    def has_damaged_record(self, *, needs_digest: bool) -> bool:
        """Return whether the part of the record that was written before the run started does not match its digest.

        ``needs_digest`` says whether a missing digest is damage.
        """
        expected = self.digests.get(digests.RECORD)
        if expected is None:
            return needs_digest or not self.is_readable
        return not self.is_readable or expected != digests.record_digest(self.fields)

    def has_damaged_state(self, *, needs_digest: bool) -> bool:
        """Return whether status, note and times do not match their digest."""
        expected = self.digests.get(digests.STATE)
        if expected is None:
            return needs_digest
        return expected != digests.state_digest(self.fields)

    def has_damaged_results(self) -> bool:
        """Return whether the results do not match their digest."""
        expected = self.digests.get(digests.RESULTS)
        if expected is None:
            # Without a digest, the results have not been computed, so they must be empty. A run without any digest was
            # recorded before schema 4, when there were none.
            return digests.RECORD in self.digests and self.fields["results"] != "[]"
        return expected != digests.results_digest(self.id, self.fields["results"])

    def has_damaged_annotation(self) -> bool:
        """Return whether the user's note and tags do not match their digest."""
        return annotation_from_text(self.id, self.digests.get(digests.ANNOTATION)) is None

    def parsed(self, **changes: Any) -> RunRecord:
        """Parse the record. ``changes`` replace the values of columns. Raises one of ``UNREADABLE`` if that fails."""
        fields = {**self.fields, **changes}
        parsed = {
            "config": json.loads(fields["config"]),
            "provenance": provenance_from_dict(json.loads(fields["provenance"])),
            "results": [Result(**stored) for stored in json.loads(fields["results"])],
            "annotation": annotation_from_text(self.id, self.digests.get(digests.ANNOTATION)) or Annotation(),
        }
        return RunRecord(**{**fields, **parsed})

    def damaged(self, file: Path, problem: str) -> RunRecord:
        """Return a record with the status ``damaged``, without configuration and numbers, which cannot be trusted."""
        return _damaged_record(self.fields, file, problem)


def lost_record(run: str, file: Path) -> RunRecord:
    """Return a record with the status ``damaged`` for a run of which only the id is left."""
    fields = {**dict.fromkeys(FIELDS, ""), "id": run, "planned": None, "finished": None}
    return _damaged_record(fields, file, "cannot be read")


def _damaged_record(fields: Mapping[str, Any], file: Path, problem: str) -> RunRecord:
    repair = command_line("doctor", "--results", file.parent, "--fix")
    note = f"its record {problem}; restore {file} from a backup, or remove the run (`{repair}`) and start a new run"
    empty = {"config": {}, "provenance": Provenance(), "results": [], "planned": None}
    return RunRecord(**{**fields, **empty, "status": DAMAGED, "note": note})
