"""Which task is shown how. A task without a section of its own gets its results as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lmassay.report import bias, fewshot, minimal_pairs, robustness, syntax
from lmassay.report.generic import section as results_as_they_are
from lmassay.report.parts import Section
from lmassay.store import RunRecord, Store

MakeSection = Callable[[Store, Sequence[RunRecord]], Section]

SECTIONS: Mapping[str, MakeSection] = {
    "robustness": robustness.section,
    "syntax": syntax.section,
    "refining_tse": syntax.section,
    "minimal_pairs": minimal_pairs.section,
    "bias": bias.section,
    "fewshot": fewshot.section,
}


def section_of(store: Store, records: Sequence[RunRecord]) -> Section:
    """The section of runs that share a task."""
    return SECTIONS.get(records[0].task, results_as_they_are)(store, records)
