"""Batches that a task gives are checked, and are used only if they describe what the task does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from lmassay.contracts import Model, Task
from lmassay.errors import PluginError
from lmassay.running.bulk import gaps, scored_batches
from lmassay.types import Example, RowBatch, Score


class Squares(Task):
    """Example n has the score n², computed three at a time."""

    name = "squares"
    chunk = 3

    def examples(self) -> Iterator[Example]:
        for number in range(10):
            yield Example(str(number), {})

    def requests(self, example: Example) -> list[Any]:
        return []

    def score(self, examples: Sequence[Example], responses: Sequence[Any]) -> list[Score]:
        return [Score({"square": float(example.id) ** 2}) for example in examples]

    def scored_batches(self, model: Model | None, positions: range) -> Iterator[RowBatch] | None:
        return self.batches(positions)

    def batches(self, positions: range) -> Iterator[RowBatch]:
        for start in range(positions.start, positions.stop, self.chunk):
            part = range(start, min(start + self.chunk, positions.stop))
            yield RowBatch(start, [str(number) for number in part], {"square": np.array(part, dtype=float) ** 2})


def positions_of(batches: Iterator[RowBatch] | None) -> list[str]:
    assert batches is not None
    return [example_id for batch in batches for example_id in batch.ids]


def test_every_open_position_is_scored():
    assert positions_of(scored_batches(Squares(), None, [range(2), range(5, 10)])) == list("0156789")


def test_the_default_is_example_by_example():
    assert scored_batches(Task(), None, [range(2)]) is None


@pytest.mark.parametrize("method", ["examples", "requests", "follow_up", "score"])
def test_a_subclass_that_overrides_only_a_method_by_example_is_not_run_in_batches(method):
    subclass = type("Other", (Squares,), {method: getattr(Squares, method)})
    assert scored_batches(subclass(), None, [range(2)]) is None


def test_a_subclass_that_overrides_both_is_run_in_batches():
    members = {"score": Squares.score, "scored_batches": Squares.scored_batches}
    subclass = type("Other", (Squares,), members)
    assert positions_of(scored_batches(subclass(), None, [range(2)])) == ["0", "1"]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (RowBatch(1, ["a"], {"s": np.ones(1)}), "begins at position 1 instead of 0"),
        (RowBatch(0, ["a", "b"], {"s": np.ones(1)}), "gave 1 values s for 2 examples"),
        (RowBatch(0, ["a", "b"], {"s": np.ones(2)}, details={"out": ["x"]}), "gave 1 details out for 2 examples"),
        (RowBatch(0, ["a", "a"], {"s": np.ones(2)}), "two examples the same id"),
        (RowBatch(0, ["a", "b"], {"s": np.array([1, np.inf])}), "infinite score of s"),
        (RowBatch(0, ["a", "b"], {"s": np.array([1, np.nan])}), "no score for the example b"),
        (RowBatch(0, ["a"], {"s": np.ones(1)}), "ended at position 1 instead of 2"),
        (RowBatch(0, [], {}), "at least one example"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_batch_that_could_not_be_stored_is_reported(batch, message):
    class Wrong(Squares):
        def scored_batches(self, model: Model | None, positions: range) -> Iterator[RowBatch]:
            return iter([batch])

    batches = scored_batches(Wrong(), None, [range(2)])
    assert batches is not None
    with pytest.raises(PluginError, match=message):
        list(batches)


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        ([], [range(10)]),
        ([range(10)], []),
        ([range(4)], [range(4, 10)]),
        ([range(4), range(4, 6), range(8, 9)], [range(6, 8), range(9, 10)]),
        ([range(3, 12)], [range(3)]),
    ],
)
def test_gaps_are_the_positions_that_are_not_finished(finished, expected):
    assert gaps(finished, 10) == expected
