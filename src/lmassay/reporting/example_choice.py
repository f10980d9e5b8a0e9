"""Which examples a page shows if it cannot show all: errors first, then flips, then a random sample of the others.

An error is an example whose request or scoring failed. A flip is an example that is right in one run and wrong in
another.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lmassay.statistics.table import ScoreTable, score_table
from lmassay.storage.store import Store
from lmassay.types import RunRecord

MAX_ROWS = 50_000
"""How many examples a page can show."""
_ERROR, _FLIP, _OTHER = range(3)


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """The examples of one run that were chosen for a page."""

    numbers: Sequence[int]
    """The numbers of the examples among the stored rows of their run, counted from 0, in ascending order."""
    come_first: Sequence[bool]
    """For each of these examples, whether it is an error or a flip; these are preferred to other examples."""


@dataclass(frozen=True, slots=True)
class ChosenExamples:
    """The examples of all runs that were chosen for a page."""

    total: int
    """The number of all examples."""
    by_run: Mapping[str, ChosenRows] = field(default_factory=dict)
    """Id of a run → its chosen examples; empty if all examples are shown."""


def choose_examples(store: Store, records: Sequence[RunRecord], limit: int = MAX_ROWS) -> ChosenExamples:
    """Choose at most ``limit`` examples of the runs, always the same ones."""
    total = sum(sum(store.count(record.id).values()) for record in records)
    if total <= limit:
        return ChosenExamples(total)
    ranks_by_run = _ranks(store, records)
    # Rows are numbered across all runs: those of the second run continue the numbers of the first.
    rows_by_rank: dict[int, list[int]] = {rank: [] for rank in (_ERROR, _FLIP, _OTHER)}
    start = 0
    for ranks in ranks_by_run.values():
        for number, rank in enumerate(ranks, start=start):
            rows_by_rank[rank].append(number)
        start += len(ranks)
    chosen = set(_fill_by_rank(rows_by_rank.values(), limit))
    by_run: dict[str, ChosenRows] = {}
    start = 0
    for run, ranks in ranks_by_run.items():
        numbers = [number for number in range(len(ranks)) if start + number in chosen]
        by_run[run] = ChosenRows(numbers, [ranks[number] != _OTHER for number in numbers])
        start += len(ranks)
    return ChosenExamples(total, by_run)


def _fill_by_rank(rows_by_rank: Iterable[list[int]], limit: int) -> list[int]:
    """Choose at most ``limit`` rows, rank by rank: all rows of a rank if they fit, else a random sample of them."""
    # A fixed seed: the same rows give the same page.
    rng = random.Random(0)
    chosen: list[int] = []
    for rows in rows_by_rank:
        room = limit - len(chosen)
        chosen += rows if len(rows) <= room else rng.sample(rows, room)
    return chosen


def _ranks(store: Store, records: Sequence[RunRecord]) -> dict[str, bytearray]:
    """Return, by the id of each run, the rank of each of its rows: _ERROR, _FLIP or _OTHER."""
    records_by_task: dict[str, list[RunRecord]] = {}
    for record in records:
        records_by_task.setdefault(record.task, []).append(record)
    flipped_by_task = {task: _flipped_ids(store, members) for task, members in records_by_task.items()}
    ranks_by_run: dict[str, bytearray] = {}
    for record in records:
        table = score_table(store, record.id)
        flipped = flipped_by_task[record.task]
        ranks = bytearray([_OTHER]) * len(table)
        if flipped:
            for number, example_id in enumerate(table.ids):
                if example_id in flipped:
                    ranks[number] = _FLIP
        for number in table.has_error().nonzero()[0].tolist():
            ranks[number] = _ERROR
        ranks_by_run[record.id] = ranks
    return ranks_by_run


def _flipped_ids(store: Store, records: Sequence[RunRecord]) -> set[str]:
    """Return the ids of the examples that are right in one run of a task and wrong in another.

    One metric decides this for all runs.
    """
    if len(records) == 1:
        return set()
    tables = [score_table(store, record.id) for record in records]
    metric = _binary_metric(records[0], tables)
    if metric is None:
        return set()
    flipped: set[str] = set()
    first_scores: dict[str, float] = {}
    for table in tables:
        for example_id, value in table.by_id(metric).items():
            if first_scores.setdefault(example_id, value) != value:
                flipped.add(example_id)
    return flipped


def _binary_metric(record: RunRecord, tables: Sequence[ScoreTable]) -> str | None:
    """Return the first metric whose scores are all 0 or 1, in all runs; only headline metrics if the task has any."""
    for metric in record.design.headline or tables[0].metrics:
        if all(_is_binary(table, metric) for table in tables):
            return metric
    return None


def _is_binary(table: ScoreTable, metric: str) -> bool:
    if metric not in table.metrics:
        return False
    values = table.values(metric)
    return len(values) > 0 and bool(((values == 0) | (values == 1)).all())
