"""Runs in which a task scores many examples at once, as columns of values.

This is faster than creating a request, a response and a row object for each example, see ``Task.scored_batches``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lmassay.contracts import Model, Task
from lmassay.errors import PluginError
from lmassay.types import RowBatch

# The methods that are not called if Task.scored_batches is used.
_METHODS_BY_EXAMPLE = ("examples", "requests", "follow_up", "score")


def scored_batches(task: Task, model: Model | None, open_positions: Sequence[range]) -> Iterator[RowBatch] | None:
    """Return the scores of the examples at these positions as columns; None if the task must go example by example."""
    if _is_overridden(task):
        return None
    parts: list[tuple[range, Iterator[RowBatch]]] = []
    for positions in open_positions:
        batches = task.scored_batches(model, positions)
        if batches is None:
            return None
        parts.append((positions, batches))
    return _checked_batches(task, parts)


def gaps(finished: Sequence[range], total: int) -> list[range]:
    """Return the positions below ``total`` that are not finished; ``finished`` is sorted.

    >>> gaps([range(0, 4), range(6, 8)], 10)
    [range(4, 6), range(8, 10)]
    """
    open_positions = []
    start = 0
    for positions in finished:
        if start < positions.start:
            open_positions.append(range(start, positions.start))
        start = positions.stop
    if start < total:
        open_positions.append(range(start, total))
    return open_positions


def _is_overridden(task: Task) -> bool:
    """Return whether a subclass overrides a method that works example by example, but not ``scored_batches``.

    The inherited ``scored_batches`` would then ignore what the subclass has changed.
    """
    classes = type(task).__mro__

    def defining_class(method: str) -> int:
        """Return how far up in the class hierarchy a method is defined; 0 is the task's own class."""
        for distance, cls in enumerate(classes):
            if method in vars(cls):
                return distance
        return len(classes)

    in_batches = defining_class("scored_batches")
    return any(defining_class(method) < in_batches for method in _METHODS_BY_EXAMPLE)


def _checked_batches(task: Task, parts: Sequence[tuple[range, Iterator[RowBatch]]]) -> Iterator[RowBatch]:
    for positions, batches in parts:
        position = positions.start
        for batch in batches:
            _check(task, batch, position)
            position += len(batch)
            yield batch
        if position != positions.stop:
            raise PluginError(
                f"the task {task.name}: scored_batches ended at position {position} instead of {positions.stop}"
            )


def _check(task: Task, batch: RowBatch, position: int) -> None:
    """Raise a PluginError if a batch could not be stored or averaged."""
    import numpy as np

    source = f"the task {task.name}: scored_batches"
    if not isinstance(batch, RowBatch) or not len(batch):
        raise PluginError(f"{source} must yield RowBatch objects with at least one example, not {batch!r:.60}")
    if batch.first != position:
        raise PluginError(f"{source} gave a batch that begins at position {batch.first} instead of {position}")
    for name, length in batch.columns():
        if length != len(batch):
            raise PluginError(f"{source} gave {length} {name} for {len(batch)} examples")
    if len(set(batch.ids)) < len(batch):
        raise PluginError(f"{source} gave two examples the same id; ids must be unique")
    has_score = np.zeros(len(batch), dtype=bool)
    for name, column in batch.values.items():
        if np.isinf(column).any():
            raise PluginError(f"{source} gave an infinite score of {name}; a score must be a finite number")
        has_score |= ~np.isnan(column)
    if not has_score.all():
        example_id = batch.ids[int(np.flatnonzero(~has_score)[0])]
        raise PluginError(f"{source} gave no score for the example {example_id}; every example must have one")
