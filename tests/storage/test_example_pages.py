"""Pages of examples: only those of the page are read whole, wherever and however they are stored."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.errors import DamageError
from lmassay.storage.example_pages import ExampleFilter, example_page, examples_at
from lmassay.storage.single_rows import StoredRow
from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Provenance, Response, Row, RowBatch, Score


def single(position: int, **changes: object) -> Row:
    inputs = {"src": changes.get("text", f"text {position}")}
    if changes.get("error"):
        return Row(Example(f"id {position}", inputs), "error", error=str(changes["error"]))
    return Row(Example(f"id {position}", inputs), "scored", Score({"m": position / 10}))


@pytest.fixture
def store(tmp_path):
    """A run whose first examples are in a batch, and whose others are stored one by one."""
    with Store(tmp_path, create=True) as store:
        store.add_run(NewRun("r", "s", "n", "t", "m", "l", {}, "sig", Provenance(), 8))
        ids = [f"id {number}" for number in range(3)]
        texts = [f"TEXT {number}" for number in range(3)]
        store.add_batch("r", RowBatch(0, ids, {"m": np.array([0.0, 0.1, np.nan])}, inputs={"src": texts}))
        rows = [(3, single(3)), (4, single(4, text='say "ÄRGER"\nagain')), (5, single(5, error="HTTP 500 src"))]
        rows += [(7, single(7)), (6, single(6))]
        store.add_response("key", "r", "m", {"verb": "generate", "prompt": "?"}, Response("an answer in Ürdü"))
        store.add_rows("r", rows, {"id 3": ["key"]})
        yield store


def positions(store: Store, **wanted: object) -> list[int]:
    page = example_page(store, "r", ExampleFilter(**wanted), 0, 100)
    assert page.total == len(page.rows)
    return [position for position, _ in page.rows]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"state": "error"}, [5]),
        ({"state": "scored"}, [0, 1, 2, 3, 4, 6, 7]),
        ({"metric": "m"}, [0, 1, 3, 4, 6, 7]),
        ({"metric": "m", "low": 0.1, "high": 0.4}, [1, 3, 4]),
        ({"metric": "other"}, []),
        ({"text": "text"}, [0, 1, 2, 3, 5, 6, 7]),
        ({"text": "ärger"}, [4]),
        ({"text": '"ÄRGER"\nagain'}, [4]),
        ({"text": "ID 6"}, [6]),
        ({"text": "ürdü"}, [3]),
        ({"text": "http 500"}, [5]),
        # The names of inputs are not searched: only an error has this text.
        ({"text": "src"}, [5]),
        ({"text": "text", "metric": "m", "low": 0.3}, [3, 6, 7]),
        ({"text": "%"}, []),
    ],
    ids=str,
)
def test_filters_and_search(store, wanted, expected):
    assert positions(store, **wanted) == expected


def test_a_page_has_as_many_examples_as_it_should_in_the_order_of_the_data(store):
    page = example_page(store, "r", ExampleFilter(), 2, 3)
    assert [(position, row.example.id) for position, row in page.rows] == [(2, "id 2"), (3, "id 3"), (4, "id 4")]
    assert page.total == 8
    assert example_page(store, "r", ExampleFilter(), 100, 3).rows == []


def test_only_the_examples_of_the_page_are_parsed(store, monkeypatch):
    parsed: list[str] = []
    original = StoredRow.parsed
    monkeypatch.setattr(StoredRow, "parsed", lambda row: parsed.append(row.id) or original(row))
    example_page(store, "r", ExampleFilter(state="scored"), 5, 1)
    assert parsed == ["id 6"]


def test_positions_without_an_example_are_left_out(store):
    assert [position for position, _ in examples_at(store, "r", [1, 5, 99])] == [1, 5]
    assert examples_at(store, "other", [1]) == []


def test_a_damaged_example_is_an_error_and_not_shown(store):
    store.database.execute('UPDATE rows SET inputs = \'{"src": "changed"}\' WHERE position = 6')
    with pytest.raises(DamageError, match="id 6"):
        example_page(store, "r", ExampleFilter(), 0, 100)
    assert positions(store, state="error") == [5]
    store.database.execute("UPDATE rows SET scores = 'rubbish' WHERE position = 6")
    with pytest.raises(DamageError, match="id 6"):
        example_page(store, "r", ExampleFilter(metric="m", low=0.7), 0, 100)
