"""Which runs are variants of one question (attacks, prompts, methods), and what they show together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lmassay.plugins.evaluations import variation_of
from lmassay.statistics.combination import combination_result
from lmassay.statistics.comparison import Side
from lmassay.statistics.intervals import mean_result
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import OVERALL, Example, Result, Row, RunRecord, canonical

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

SAME_EXAMPLE = "example"
"""The group that holds an example's variants together: they are not independent of each other."""
# Parts of a signature that do not change what is asked.
_NOT_ASKED = frozenset({"lmassay", "model", "limit", "ci"})


def questions(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    """Runs of one task and model that are alike but for what they vary.

    Of a run done twice it is the later one, unless only the earlier one has results.
    """
    groups: dict[str, dict[str, RunRecord]] = {}
    for record in records:
        signature = record.depends_on
        question = canonical([record.model, signature.get("model"), signature.get("limit"), asked(record)])
        members = groups.setdefault(question, {})
        earlier = members.get(variant_of(record))
        if earlier is None or record.results or not earlier.results:
            members[variant_of(record)] = record
    return [list(members.values()) for members in groups.values()]


def asked(record: RunRecord) -> str:
    """The question, whoever answers it and however many of its examples were taken: all that two models must share."""
    variation = variation_of(record)
    left_out = _NOT_ASKED | {*variation.named, *variation.free}
    parts = {name: value for name, value in record.depends_on.items() if name not in left_out}
    return canonical([record.task, parts])


def variant_of(record: RunRecord) -> str:
    """What tells a run from the other variants of its question.

    Two strengths of an attack may share a label, and one strength may have two labels, so the part of the signature
    counts where there is one.
    """
    variation = variation_of(record)
    varied = record.depends_on.get(variation.pooled)
    if varied is not None:
        return str(varied)
    # A label names only the options that its sweep varies; two methods of different sweeps may have the same one.
    task = record.config.get("task")
    options = {name: task[name] for name in variation.named if name in task} if isinstance(task, Mapping) else {}
    return canonical([record.base_label, options]) if options else record.base_label


def pooled(
    store: Store, records: Sequence[RunRecord], metric: str, where: Callable[[ScoreTable], Mask] | None = None
) -> Result | None:
    """The metric over all variants; of a single run the result that it has.

    ``where`` says which rows a combined metric is about, so that only those are counted.
    """
    if len(records) == 1:
        return records[0].result(metric)
    import numpy as np

    side = pool(store, records)
    design, settings = side.record.design, side.record.settings
    combination = design.combinations.get(metric)
    if combination is None:
        return mean_result(side.table, metric, settings, cluster=design.cluster)
    rows = np.ones(len(side.table), dtype=bool) if where is None else where(side.table)
    return combination_result(
        side.table, metric, combination, settings, group=OVERALL, where=rows, cluster=design.cluster
    )


def pool(store: Store, records: Sequence[RunRecord], keep: Callable[[Row], bool] | None = None) -> Side:
    """One side of a comparison out of the variants of a question: runs of one task and model.

    ``keep`` says which rows count; all of them if it is left out.
    """
    first = records[0]
    cluster = first.design.cluster or SAME_EXAMPLE
    unfinished = [record.status for record in records if record.status != "done"]
    together = replace(
        first,
        id=first.id if len(records) == 1 else f"{first.id} and {len(records) - 1} more",
        label=", ".join(record.label for record in records),
        status=unfinished[0] if unfinished else "done",
        provenance=replace(first.provenance, design=replace(first.design, clusters=(cluster,))),
    )
    rows = _rows(store, records)
    return Side(together, ScoreTable(rows if keep is None else filter(keep, rows)))


def _rows(store: Store, records: Sequence[RunRecord]) -> Iterator[Row]:
    for record in records:
        variant = variant_of(record)
        for row in store.score_rows(record.id, with_test_scores=record.design.replicates is not None):
            example = row.example
            groups = {**example.groups, SAME_EXAMPLE: example.id}
            yield replace(row, example=Example(f"{variant}/{example.id}", {}, None, groups))
