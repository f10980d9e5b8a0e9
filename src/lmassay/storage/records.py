"""The record of a run: its columns, its digest, and what is shown of a damaged one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lmassay.types import Result, digest, provenance_from_dict

RECORD_COLUMNS = (
    "id, sweep, name, task, model, label, status, config, signature, "
    "provenance, results, note, planned, created, finished"
)
DAMAGED = "damaged"
"""The status of a run whose record or results are not what was written."""
# The columns of a run that never change, which its digest covers; status, note and times change.
DIGESTED_COLUMNS = ("id", "sweep", "name", "task", "model", "label", "config", "signature", "provenance", "planned")


def record_digest(fields: Mapping[str, Any]) -> str:
    """Return the digest of the columns that never change."""
    return digest(*(fields[name] for name in DIGESTED_COLUMNS))


def parsed_columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parsed values of the columns that contain JSON."""
    return {
        "config": json.loads(fields["config"]),
        "provenance": provenance_from_dict(json.loads(fields["provenance"])),
        "results": [Result(**stored) for stored in json.loads(fields["results"])],
    }
