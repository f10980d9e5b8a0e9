"""Scored examples as columns: what a task and a store exchange when there are millions of them."""

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

    It has the same content as a list of :class:`Row`, without several objects for each example. All columns have one
    entry for each example.
    """

    first: int
    """The position of the first example, counted from 0 in the order of ``Task.examples``."""
    ids: Sequence[str]
    """The ids of the examples."""
    values: Mapping[str, NDArray[np.float64]]
    """Metric → scores; NaN for an example without a score of this metric. Each example has at least one score."""
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Group → label of each example."""
    inputs: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Name → input of each example."""
    references: Sequence[Any] | None = None
    """The expected answers; None if the data has none."""
    details: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Name → further value for the report of each example."""

    def __len__(self) -> int:
        return len(self.ids)

    def columns(self) -> Iterator[tuple[str, int]]:
        """Yield the name and the length of each column, for checks."""
        for kind, columns in (("values", self.values), ("groups", self.groups), ("inputs", self.inputs)):
            for name, column in columns.items():
                yield f"{kind} {name}", len(column)
        if self.references is not None:
            yield "references", len(self.references)
        for name, column in self.details.items():
            yield f"details {name}", len(column)

    def selected(self, numbers: Sequence[int]) -> RowBatch:
        """Return a batch with some of the examples, given by their numbers in this batch, counted from 0."""

        def entries(column: Sequence[Any]) -> list[Any]:
            # A column of texts is decoded once, not entry by entry.
            values = list(column)
            return [values[number] for number in numbers]

        return RowBatch(
            first=self.first,
            ids=entries(self.ids),
            values={name: column[list(numbers)] for name, column in self.values.items()},
            groups={name: entries(column) for name, column in self.groups.items()},
            inputs={name: entries(column) for name, column in self.inputs.items()},
            references=None if self.references is None else entries(self.references),
            details={name: entries(column) for name, column in self.details.items()},
        )

    def rows(self) -> Iterator[Row]:
        """Yield the examples one by one."""
        values_of_rows = _dicts({name: column.tolist() for name, column in self.values.items()}, len(self))
        groups_of_rows = _dicts(self.groups, len(self))
        inputs_of_rows = _dicts(self.inputs, len(self))
        details_of_rows = _dicts(self.details, len(self))
        references = self.references or [None] * len(self)
        columns = (self.ids, inputs_of_rows, references, groups_of_rows, values_of_rows, details_of_rows)
        for example_id, inputs, reference, groups, values, details in zip(*columns, strict=True):
            # NaN is the only number that is not equal to itself.
            present = {name: value for name, value in values.items() if value == value}
            yield Row(Example(example_id, inputs, reference, groups), "scored", Score(present, details=details))


def _dicts(columns: Mapping[str, Sequence[Any]], length: int) -> Iterator[dict[str, Any]]:
    """Yield a mapping from name to value for each row."""
    if not columns:
        for _ in range(length):
            yield {}
        return
    names = list(columns)
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(names, values, strict=True))
