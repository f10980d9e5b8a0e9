"""Runs that ask one question in several variants (attacks, prompts), taken together as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from lmassay.statistics.comparison import Side
from lmassay.statistics.table import ScoreTable
from lmassay.storage.store import Store
from lmassay.types import Example, Row, RunRecord

SAME_EXAMPLE = "example"
"""The group that holds an example's variants together: they are not independent of each other."""


def pool(store: Store, records: Sequence[RunRecord], variant_of: Callable[[RunRecord], str]) -> Side:
    """One side of a comparison out of runs of one task and model, and what tells these variants apart."""
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
    return Side(together, ScoreTable(_rows(store, records, variant_of)))


def _rows(store: Store, records: Sequence[RunRecord], variant_of: Callable[[RunRecord], str]) -> Iterator[Row]:
    for record in records:
        variant = variant_of(record)
        for row in store.score_rows(record.id):
            example = row.example
            groups = {**example.groups, SAME_EXAMPLE: example.id}
            yield replace(row, example=Example(f"{variant}/{example.id}", {}, None, groups))
