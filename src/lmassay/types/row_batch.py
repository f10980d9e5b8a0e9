"""Scored examples as columns, in which a task passes millions of them to the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lmassay.types.requests import Example
from lmassay.types.scores import Row, Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Consecutive examples of a run, all of them scored, as columns.

    It has the same content as a list of :class:`Row`, but does not need several objects for each example. All columns
    have one element for each example.
    """

    first: int
    """The position of the first example, counted from 0 in the order of ``Task.examples``."""
    ids: Sequence[str]
    """The ids of the examples."""
    values: Mapping[str, NDArray[np.float64]]
    """A dict from metric to the score of each example; NaN for an example without a score of this metric. Each example
    has at least one score."""
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """A dict from group to the label of each example."""
    inputs: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """A dict from the name of an input to its value for each example."""
    references: Sequence[Any] | None = None
    """The expected answers; None if the data has none."""
    details: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """A dict from the name of a further value for the report to its value for each example."""

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self) -> Iterator[tuple[str, int]]:
        """Yield the name and the length of each column, so that a caller can check that they have the same length."""
        for kind, columns in (("values", self.values), ("groups", self.groups), ("inputs", self.inputs)):
            for name, column in columns.items():
                yield f"{kind} {name}", len(column)
        if self.references is not None:
            yield "references", len(self.references)
        for name, column in self.details.items():
            yield f"details {name}", len(column)

    def selected(self, indices: Sequence[int]) -> RowBatch:
        """Return a batch with only the examples that have these indices in this batch."""
        # numpy needs a list, because it interprets a tuple as an index into several dimensions.
        index_list = list(indices)
        references = None
        if self.references is not None:
            references = _entries(self.references, index_list)
        return RowBatch(
            first=self.first,
            ids=_entries(self.ids, index_list),
            values={name: column[index_list] for name, column in self.values.items()},
            groups=_entries_of_columns(self.groups, index_list),
            inputs=_entries_of_columns(self.inputs, index_list),
            references=references,
            details=_entries_of_columns(self.details, index_list),
        )

    def rows(self) -> Iterator[Row]:
        """Yield the examples one by one."""
        # Convert to Python's floats: numpy's cannot be written as JSON and look different in messages.
        value_columns = {name: column.tolist() for name, column in self.values.items()}
        references: Sequence[Any] = [None] * len(self)
        if self.references is not None:
            references = self.references
        fields = zip(
            self.ids,
            _dicts(self.inputs, len(self)),
            references,
            _dicts(self.groups, len(self)),
            _dicts(value_columns, len(self)),
            _dicts(self.details, len(self)),
            strict=True,
        )
        for example_id, inputs, reference, groups, values, details in fields:
            example = Example(example_id, inputs, reference, groups)
            # NaN marks a missing score. It is the only number that is not equal to itself.
            present = {name: value for name, value in values.items() if value == value}
            yield Row(example, "scored", Score(present, details=details))


def _entries_of_columns(columns: Mapping[str, Sequence[Any]], indices: Sequence[int]) -> dict[str, list[Any]]:
    return {name: _entries(column, indices) for name, column in columns.items()}


def _entries(column: Sequence[Any], indices: Sequence[int]) -> list[Any]:
    # Every access to a stored column of texts decodes the whole column, so access it only once.
    values = list(column)
    return [values[index] for index in indices]


def _dicts(columns: Mapping[str, Sequence[Any]], length: int) -> Iterator[dict[str, Any]]:
    """Yield one dict from name to value for each row of the columns."""
    if not columns:
        for _ in range(length):
            yield {}
        return
    names = list(columns)
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(names, values, strict=True))
