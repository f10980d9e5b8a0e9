"""Turns a store of the current schema into one of an earlier schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def downgrade(file: Path, version: int) -> None:
    """Remove what a later schema added, and set the version back."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        if version < 7:
            database.execute("ALTER TABLE asked DROP COLUMN digest")
            database.execute("UPDATE responses SET digest = substr(digest, 1, 8)")
            database.execute("DELETE FROM digests WHERE run = '' OR part IN ('state', 'spending')")
            database.execute(
                "UPDATE digests SET value = (SELECT COUNT(*) FROM rows WHERE rows.run = digests.run)"
                " WHERE part = 'rows'"
            )
        if version < 6:
            database.execute("DROP TABLE batches")
        if version < 5:
            database.execute("ALTER TABLE rows DROP COLUMN outcomes")
        if version < 4:
            database.execute("DROP TABLE digests")
            for table in ("rows", "responses"):
                database.execute(f"ALTER TABLE {table} DROP COLUMN digest")
        if version < 3:
            database.execute("DROP TABLE asked")
        if version < 2:
            database.execute("DROP TABLE spending")
        database.execute(f"PRAGMA user_version = {version}")
