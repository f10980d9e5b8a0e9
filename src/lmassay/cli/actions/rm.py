"""What ``lmassay rm`` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from lmassay.cli.actions.ls import print_list
from lmassay.cli.console import print_json, say
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.options import chosen_runs
from lmassay.errors import UserError
from lmassay.storage.removal import remove_runs
from lmassay.storage.run_filter import RunFilter
from lmassay.storage.store import Store
from lmassay.types import RunRecord
from lmassay.types.wording import counted


def rm(runs: Sequence[str], selected: RunFilter, answers: bool, yes: bool, results: Path, as_json: bool) -> int:
    """Remove runs; return the exit code."""
    if not runs and not selected:
        raise UserError("name the runs to remove, or select them, for example with --status failed")
    # The store is opened for reading: a folder is neither created nor updated before the user has confirmed.
    # It is opened for display, as in `lmassay ls`, because the runs are listed, and an old version may have stored
    # secret keys in their labels.
    with Store(results, for_display=True) as store:
        records = selected.select(chosen_runs(store, runs) if runs else store.runs())
    if not records:
        raise UserError(f"no run in {results} matches; `lmassay ls` with the same options lists what would be removed")
    if not yes and not _is_confirmed(records, as_json):
        say("nothing was removed")
        return INCOMPLETE
    with Store(results, create=True) as store:
        removal = remove_runs(store, records, with_answers=answers)
    if as_json:
        print_json(asdict(removal))
    else:
        say(removal.describe())
    return 0


def _is_confirmed(records: Sequence[RunRecord], as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise UserError(f"{counted(len(records), 'run')} would be removed; add --yes to remove without being asked")
    print_list(records)
    return click.confirm(f"Remove {counted(len(records), 'run')}?", err=True)
