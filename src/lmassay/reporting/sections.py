"""Which task is shown how. A task without a section of its own gets its results as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lmassay.evaluations.bias.report import section as bias
from lmassay.evaluations.fewshot.report import section as fewshot
from lmassay.evaluations.robustness import report as robustness
from lmassay.evaluations.syntax.report import minimal_pairs
from lmassay.evaluations.syntax.report import section as syntax
from lmassay.reporting.blocks import Section
from lmassay.reporting.generic import section as results_as_they_are
from lmassay.storage.store import RunRecord, Store

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
