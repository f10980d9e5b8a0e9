"""The numbers on the page about capacity: those that were measured, and the simulation of the first bottleneck."""

from __future__ import annotations

import pytest
from benchmarks import capacity, writer

from lmassay.running import runner
from lmassay.running.batches import cut_into_batches
from lmassay.storage.store import Store
from lmassay.types import Generate
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "capacity.md").read_text(encoding="utf-8")
COSTS = writer.Costs(storing=0.0001, around=0.0004, batch=0.002)


def cluster(workers: int, seconds: float) -> writer.Cluster:
    return writer.Cluster(workers, seconds, chunk=8192, smallest=8, largest=256)


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_tables_of_the_page_follow_from_the_measured_numbers():
    tables = capacity.tables()
    assert len(tables) == 8
    for name, lines in tables.items():
        assert "\n".join(lines) in PAGE, name


def test_the_sentences_of_the_page_have_the_measured_numbers():
    text = " ".join(PAGE.split())
    missing = [statement for statement in capacity.statements() if statement not in text]
    assert missing == []


def test_the_page_states_the_assumptions_of_its_tables():
    text = " ".join(PAGE.split())
    assert f"Assumed: {capacity.REQUESTS_PER_MINUTE:,} requests per minute" in text
    assert f"{capacity.TOKENS_IN} tokens in and {capacity.TOKENS_OUT} out" in text
    prices = f"{capacity.USD_PER_MILLION_IN:g} USD per million tokens in and {capacity.USD_PER_MILLION_OUT:g} USD"
    assert prices in text
    assert f"a model of {capacity.MODEL_GB} GB, {capacity.WORKERS:,} workers" in text
    assert f"delivers {capacity.FILE_SYSTEM_GB_PER_SECOND} GB per second" in text


def test_the_simulation_cuts_chunks_as_the_runner_does():
    assert runner._MAX_CHUNK_FACTOR == writer.MAX_CHUNK_FACTOR
    factor = writer.MAX_CHUNK_FACTOR
    sentence = f"up to {factor} times the task's `chunk` at a time: {factor} · {writer.CHUNK:,} examples"
    assert sentence in " ".join(PAGE.split())


# --- the simulation ---------------------------------------------------------------------------------------------------


def test_too_many_workers_get_no_more_answers_stored_than_the_process_can_handle():
    many = cluster(workers=500, seconds=0.0004)
    # The chunk is cut into the smallest batches, up to its end.
    assert set(writer.batch_sizes(many)) == {8}
    simulated = writer.simulate(many, COSTS, chunks=2, seed=1)
    assert simulated.requests_per_second == pytest.approx(1 / (0.0001 + 0.0004 + 0.002 / 8), rel=0.02)
    assert simulated.process_busy == pytest.approx(1, rel=0.02)
    assert simulated.waiting > 100


def test_few_workers_wait_only_before_and_after_a_chunk():
    simulated = writer.simulate(cluster(workers=4, seconds=0.1), COSTS, chunks=4, seed=1)
    assert simulated.workers_busy == pytest.approx(1 / (1 + 4 * COSTS.around / 0.1), rel=0.03)
    assert simulated.requests_per_second == pytest.approx(simulated.workers_busy * 4 / 0.1, rel=0.03)


def test_the_simulation_depends_on_nothing_but_the_seed():
    first = writer.simulate(cluster(10, 0.01), COSTS, chunks=1, seed=3)
    assert writer.simulate(cluster(10, 0.01), COSTS, chunks=1, seed=3) == first
    assert writer.simulate(cluster(10, 0.01), COSTS, chunks=1, seed=4) != first


def test_a_simulation_that_contradicts_the_limits_is_reported(monkeypatch):
    assert writer.contradictions(COSTS, seed=1) == []
    simulate = writer.simulate

    def with_free_storing(simulated_cluster, costs, chunks, seed):
        return simulate(simulated_cluster, writer.Costs(0.0, costs.around, costs.batch), chunks, seed)

    monkeypatch.setattr(writer, "simulate", with_free_storing)
    (problem,) = writer.contradictions(COSTS, seed=1)
    assert problem.startswith("too many workers")


def test_simulated_batches_are_about_as_large_as_those_of_lmassay():
    requests = [Generate(f"{number:0120}", max_tokens=32) for number in range(4096)]
    real = [len(batch) for batch in cut_into_batches(requests, workers=8)]
    simulated = writer.batch_sizes(writer.Cluster(8, 0.1, chunk=4096, smallest=8, largest=256))
    assert sum(simulated) == sum(real) == 4096
    assert len(simulated) == pytest.approx(len(real), rel=0.3)


# --- what is measured -------------------------------------------------------------------------------------------------


def test_the_measured_store_has_what_was_written(tmp_path):
    values = writer.measure_answers(tmp_path / "answers", 100)
    values |= writer.measure_rows(tmp_path / "rows", 100)
    values |= writer.measure_batches(tmp_path / "batches", 100)
    with Store(tmp_path / "rows") as rows, Store(tmp_path / "batches") as batches:
        assert [row.example for row in rows.rows("run")] == [row.example for row in batches.rows("run")]
        assert rows.count("run")["scored"] == 100
    assert min(values.values()) >= 0
    assert values["answer_bytes"] > 0


def test_measured_values_are_read_as_they_were_written(tmp_path):
    writer.write_values(tmp_path / "values.tsv", {"answer_us": 103.25, "answers": 5000}, ["--quick"])
    assert writer.read_values(tmp_path / "values.tsv") == {"answer_us": 103.2, "answers": 5000.0}
