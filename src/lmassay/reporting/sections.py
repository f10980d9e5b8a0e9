"""The section of a report for runs that share a task: the evaluation's own, or the results as they are."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.contracts import resolve
from lmassay.plugins.evaluations import view_of
from lmassay.reporting.blocks import Section
from lmassay.reporting.generic import section as generic_section
from lmassay.storage.store import Store
from lmassay.types import RunRecord


def section_of(store: Store, records: Sequence[RunRecord]) -> Section:
    """The section of runs that share a task."""
    make = view_of(records[0]).section
    if make is None:
        return generic_section(store, records)
    section: Section = resolve(make)(store, records)
    return section
