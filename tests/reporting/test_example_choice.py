"""A page with more examples than it can show: errors and flips first, then a random sample that is always the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lmassay.reporting.example_choice import ChosenRows, choose_examples
from lmassay.storage.store import Store
from lmassay.types import Design, Example, NewRun, Provenance, Row, RunRecord, Score


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results", create=True) as store:
        yield store


def add(store: Store, run: str, scores: Sequence[float | None]) -> RunRecord:
    """A run with these scores of 0 or 1; None is an error."""
    provenance = Provenance(design=Design(headline=("right",)))
    store.add_run(NewRun(run, "s", "n", "t", "m", run, {}, "sig", provenance, len(scores)))
    rows = []
    for position, score in enumerate(scores):
        example = Example(str(position), {})
        if score is None:
            rows.append((position, Row(example, "error", error="no answer")))
        else:
            rows.append((position, Row(example, "scored", Score({"right": score, "length": 7.5}))))
    store.add_rows(run, rows)
    return store.run(run)


def test_a_page_that_can_show_all_examples_chooses_none(store):
    chosen = choose_examples(store, [add(store, "a", [0, 1, None])], limit=3)
    assert (chosen.total, chosen.by_run) == (3, {})


def test_errors_come_first_and_the_rest_is_a_sample(store):
    scores: list[float | None] = [1.0] * 100
    scores[10] = scores[70] = None
    record = add(store, "a", scores)
    chosen = choose_examples(store, [record], limit=12)
    rows = chosen.by_run["a"]
    assert chosen.total == 100
    assert len(set(rows.numbers)) == 12
    assert rows.numbers == sorted(rows.numbers)
    assert [number for number, first in zip(rows.numbers, rows.come_first, strict=True) if first] == [10, 70]
    assert choose_examples(store, [record], limit=12) == chosen


def test_examples_that_runs_judge_differently_come_before_the_sample(store):
    before = [1.0] * 50
    after = [0.0 if number in (3, 40) else 1.0 for number in range(50)]
    records = [add(store, "a", before), add(store, "b", after)]
    chosen = choose_examples(store, records, limit=4)
    assert chosen.by_run == {
        "a": ChosenRows([3, 40], [True, True]),
        "b": ChosenRows([3, 40], [True, True]),
    }


def test_more_errors_than_a_page_can_show_are_sampled(store):
    chosen = choose_examples(store, [add(store, "a", [None] * 30)], limit=5)
    assert len(chosen.by_run["a"].numbers) == 5
    assert chosen.by_run["a"].numbers != list(range(5))


def test_runs_are_compared_by_a_metric_that_is_0_or_1_in_all_of_them(store):
    def add_with(run: str, first: float, second_of_6: float) -> RunRecord:
        provenance = Provenance(design=Design(headline=("first", "second")))
        store.add_run(NewRun(run, "s", "n", "t", "m", run, {}, "sig", provenance, 10))
        rows = []
        for number in range(10):
            score = Score({"first": first, "second": second_of_6 if number == 6 else 1.0})
            rows.append((number, Row(Example(str(number), {}), "scored", score)))
        store.add_rows(run, rows)
        return store.run(run)

    # `first` is 0 in one run and 0.5 in the other, so it says of no example that it was right or wrong.
    records = [add_with("a", first=0.0, second_of_6=1.0), add_with("b", first=0.5, second_of_6=0.0)]
    chosen = choose_examples(store, records, limit=2)
    assert chosen.by_run == {"a": ChosenRows([6], [True]), "b": ChosenRows([6], [True])}
