"""Runs that are variants of one question, taken together."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.reporting.variants import SAME_EXAMPLE, group_variants, pool
from lmassay.statistics.intervals import mean_result
from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Provenance, Result, Row, RowBatch, Score


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path, create=True) as opened:
        yield opened


def add(store: Store, label: str, values: list[float]):
    run = store.new_id(label)
    store.add_run(NewRun(run, "s", "n", "t", "m", label, {}, "sig", Provenance(), len(values)))
    rows = [(n, Row(Example(str(n), {}), "scored", Score({"hit": value}))) for n, value in enumerate(values)]
    store.add_rows(run, rows)
    store.set_status(run, "done")
    return store.run(run)


def test_a_single_variant_pairs_with_the_same_one_among_several(store):
    one, two = add(store, "a", [1, 0]), add(store, "b", [1, 1])
    alone, both = pool(store, [one]), pool(store, [one, two])
    assert alone.table.ids == ["a/0", "a/1"]
    assert set(alone.table.ids) < set(both.table.ids)
    assert alone.record.id == one.id


def test_prompts_of_two_files_are_two_questions(store):
    def ask(prompt: str):
        run = store.new_id("q")
        store.add_run(NewRun(run, "s", "n", "bias", "m", "q", {}, prompt, Provenance(signature={"prompt": prompt}), 1))
        return store.run(run)

    runs = [ask("plain.12.1"), ask("plain.12.2"), ask("debiased.34.1")]
    assert [[run.depends_on["prompt"] for run in group] for group in group_variants(runs)] == [
        ["plain.12.1", "plain.12.2"],
        ["debiased.34.1"],
    ]


def test_the_mean_over_variants_of_one_size_is_the_mean_of_their_means(store):
    side = pool(store, [add(store, "a", [1, 1, 0, 0]), add(store, "b", [1, 0, 0, 0])])
    assert mean_result(side.table, "hit").value == pytest.approx(3 / 8)
    assert len(set(side.table.ids)) == 8


def test_variants_of_an_example_are_held_together(store):
    """Two attacks on one sentence are not independent, so the interval is wider than for attacks on two sentences."""
    records = [add(store, label, [1.0, 0.0] * 20) for label in "abcd"]
    side = pool(store, records)
    assert side.record.design.cluster == SAME_EXAMPLE
    apart = mean_result(side.table, "hit")
    together = mean_result(side.table, "hit", cluster=SAME_EXAMPLE)
    alone = mean_result(pool(store, records[:1]).table, "hit")
    assert apart.high - apart.low < 0.6 * (together.high - together.low)
    assert together.high - together.low == pytest.approx(alone.high - alone.low, rel=0.15)


def test_a_part_that_is_not_done_makes_the_whole_unfinished(store):
    done, other = add(store, "a", [1]), add(store, "b", [1])
    store.set_status(other.id, "incomplete", "1 example with errors")
    assert pool(store, [done, store.run(other.id)]).record.status == "incomplete"


def test_a_later_run_without_results_does_not_hide_one_that_has_them(store):
    earlier = add(store, "a", [1, 0])
    store.set_results(earlier.id, [Result("hit", "overall", 0.5, None, None, 2)])
    later = store.new_id("a")
    store.add_run(NewRun(later, "s", "n", "t", "m", "a", {}, "sig", Provenance(), 2))
    records = [store.run(earlier.id), store.run(later)]
    assert [[record.id for record in members] for members in group_variants(records)] == [[earlier.id]]


def test_rows_with_an_excluded_label_do_not_count_whether_in_rows_or_in_batches(store):
    labels = ["changed", "unchanged", "changed", "changed"]
    values = [1.0, 1.0, 0.0, 1.0]
    record = add(store, "a", [])
    store.add_batch(record.id, RowBatch(0, ["0", "1", "2", "3"], {"hit": np.array(values)}, groups={"input": labels}))
    single = add(store, "a", [])
    rows = []
    for number, (label, value) in enumerate(zip(labels, values, strict=True)):
        rows.append((number, Row(Example(str(number), {}, None, {"input": label}), "scored", Score({"hit": value}))))
    store.add_rows(single.id, rows)
    tables = [pool(store, [one], excluded={"input": "unchanged"}).table for one in (record, single)]
    for table in tables:
        assert table.ids == ["a/0", "a/2", "a/3"]
        assert table.groups == {"input": ["changed"] * 3, SAME_EXAMPLE: ["0", "2", "3"]}
        assert table.column("hit").tolist() == [1.0, 0.0, 1.0]
    assert len(pool(store, [record]).table) == len(pool(store, [single]).table) == 4
