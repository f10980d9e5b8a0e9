"""Batches of scored examples: they are read like rows, and a changed batch is never shown as a result."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lmassay.errors import StoreError
from lmassay.statistics.table import ScoreTable, score_table
from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import Example, NewRun, Provenance, Result, Row, RowBatch, Score
from tests.storage.old_schemas import downgrade


def batch(first: int, count: int = 3) -> RowBatch:
    positions = range(first, first + count)
    return RowBatch(
        first=first,
        ids=[f"line {position}" for position in positions],
        values={
            "s": np.array([position / 7 for position in positions]),
            "turned": np.array([np.nan if position % 2 else 1.0 for position in positions]),
        },
        groups={"input": ["changed" if position % 3 else "unchanged" for position in positions]},
        inputs={"line": list(positions), "src": [f"a dog {position}" for position in positions]},
        references=[f"un chien {position}" for position in positions],
        details={"out": [f"le chien {position}" for position in positions]},
    )


def error_row(position: int) -> tuple[int, Row]:
    return position, Row(Example(f"line {position}", {"line": position}), "error", error="no answer")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results", create=True) as store:
        store.add_run(NewRun("r", "s", "n", "t", "m", "l", {}, "sig", Provenance(), 6))
        yield store


def edit(store: Store, statement: str, *values: object) -> None:
    with sqlite3.connect(store.folder / STORE_FILE) as database:
        assert database.execute(statement, values).rowcount > 0
    database.close()


def test_a_batch_is_read_as_its_rows(store):
    store.add_batch("r", batch(3))
    store.add_batch("r", batch(0))
    expected = [*batch(0).rows(), *batch(3).rows()]
    assert list(store.rows("r")) == expected
    assert [row.score.values for row in store.score_rows("r")] == [row.score.values for row in expected]
    assert [row.example.groups for row in store.score_rows("r")] == [row.example.groups for row in expected]
    assert expected[1].score.values == {"s": 1 / 7}
    assert store.count("r") == {"scored": 6, "unscored": 0, "error": 0}


def test_rows_and_batches_come_in_the_order_of_the_data(store):
    store.add_batch("r", batch(4, 2))
    store.add_rows("r", [error_row(3), error_row(6)])
    store.add_batch("r", batch(0))
    assert [row.example.id for row in store.rows("r")] == [f"line {position}" for position in range(7)]
    assert [example_id for example_id, _ in store.requests_and_responses("r")] == [f"line {n}" for n in range(7)]
    assert store.count("r") == {"scored": 5, "unscored": 0, "error": 2}
    assert store.finished_ids("r") == {f"line {position}" for position in (0, 1, 2, 4, 5)}
    assert store.finished_positions("r") == [range(3), range(4, 6)]


def test_the_table_of_batches_equals_the_table_of_their_rows(store):
    store.add_batch("r", batch(1))
    store.add_batch("r", batch(4))
    by_columns = score_table(store, "r")
    by_rows = ScoreTable(store.score_rows("r"))
    assert by_columns.ids == by_rows.ids
    assert by_columns.groups == by_rows.groups
    assert by_columns.metrics == by_rows.metrics
    for metric in by_rows.metrics:
        np.testing.assert_array_equal(by_columns.column(metric), by_rows.column(metric))
        assert by_columns.counts(metric) == by_rows.counts(metric)


@pytest.mark.parametrize("numbers", [[], [0], [2, 3], [1, 4, 5], [0, 1, 2, 3, 4, 5]])
def test_selected_rows_are_the_rows_with_these_numbers(store, numbers):
    # The run has no examples at the positions 0 to 3, so numbers and positions differ.
    store.add_batch("r", batch(4))
    store.add_batch("r", batch(7))
    expected = [row for number, row in enumerate(store.rows("r")) if number in numbers]
    assert list(store.selected_rows("r", numbers)) == expected
    store.add_rows("r", [error_row(0)])
    expected = [row for number, row in enumerate(store.rows("r")) if number in numbers]
    assert list(store.selected_rows("r", numbers)) == expected


def test_a_metric_that_no_example_has_is_not_in_the_table(store):
    store.add_batch("r", RowBatch(0, ["a"], {"s": np.array([1.0]), "turned": np.array([np.nan])}))
    assert score_table(store, "r").metrics == ["s"]


@pytest.mark.parametrize("column", ["scores", "texts"])
def test_a_changed_batch_is_an_error_and_is_dropped(store, column):
    store.add_batch("r", batch(0))
    store.add_batch("r", batch(3))
    store.set_results("r", [Result("s", "overall", 0.5, None, None, 6)])
    assert store.rows_are_whole("r")
    edit(store, f"UPDATE batches SET {column} = replace({column}, ?, ?) WHERE first = 3", b"4", b"5")
    with pytest.raises(StoreError, match=r"the run r is damaged: examples 4 to 6 are not what .* lmassay resume r"):
        list(store.rows("r"))
    assert not store.rows_are_whole("r")
    assert store.drop_damaged_rows("r") == 3
    assert store.finished_positions("r") == [range(3)]


def test_a_changed_text_does_not_concern_statistics(store):
    store.add_batch("r", batch(0))
    edit(store, "UPDATE batches SET texts = replace(texts, ?, ?)", b"chien", b"chats")
    assert len(score_table(store, "r")) == 3
    with pytest.raises(StoreError, match="is damaged"):
        list(store.rows("r"))


@pytest.mark.parametrize("read", ["rows", "score_rows", "score_batches"])
def test_a_missing_batch_is_an_error(store, read):
    store.add_batch("r", batch(0))
    store.add_batch("r", batch(3))
    store.set_results("r", [Result("s", "overall", 0.5, None, None, 6)])
    edit(store, "DELETE FROM batches WHERE first = 0")
    with pytest.raises(StoreError, match="it has 3 examples instead of 6"):
        list(getattr(store, read)("r"))


def test_a_batch_of_another_run_does_not_match_its_digest(store):
    store.add_batch("r", batch(0))
    edit(store, "UPDATE batches SET run = 'other'")
    with pytest.raises(StoreError, match="is damaged"):
        list(store.rows("other"))


@pytest.mark.fault(8)
def test_an_old_store_is_copied_before_its_schema_is_updated(tmp_path):
    folder = tmp_path / "results"
    with Store(folder, create=True) as store:
        store.add_run(NewRun("r", "s", "n", "t", "m", "l", {}, "sig", Provenance(), 1))
        store.add_rows("r", [(0, Row(Example("1", {}), "scored", Score({"a": 1.0})))])
        edit(store, "INSERT INTO spending VALUES ('r', 1, 1, 1, 0.5)")
    assert [file.name for file in folder.iterdir() if file.is_file()] == [STORE_FILE]
    downgrade(folder / STORE_FILE, 5)
    with Store(folder) as store:
        assert len(list(store.rows("r"))) == len(list(store.score_rows("r"))) == 1
        assert store.count("r")["scored"] == 1
    assert not (folder / f"{STORE_FILE}.schema-5").exists(), "reading does not update a store"
    with Store(folder, create=True) as store:
        store.add_batch("r", batch(1))
        assert store.count("r")["scored"] == 4
    with sqlite3.connect(folder / f"{STORE_FILE}.schema-5") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (5,)
        assert database.execute("SELECT id FROM rows").fetchall() == [("1",)]
    database.close()
