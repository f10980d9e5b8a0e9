"""Damaged runs in a selection by age. What the options select is tested in tests/cli/test_ls.py."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lmassay.storage.records import lost_record
from lmassay.storage.run_filter import RunFilter


@pytest.mark.parametrize("created", ["", "20", "2026-11-18T19:31:43"])
def test_a_damaged_run_whose_time_cannot_be_compared_is_not_selected_by_age(tmp_path, created):
    damaged = replace(lost_record("run", tmp_path / "lmassay.sqlite"), created=created)
    intact = replace(damaged, created=datetime.now(UTC).isoformat(timespec="seconds"))
    assert RunFilter(since="7d").select([damaged, intact]) == [intact]
