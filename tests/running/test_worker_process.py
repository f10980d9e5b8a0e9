"""The process of a worker while a job runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lmassay.running.worker_process import JobCancelled, undisturbed_job


def setup_module() -> None:
    """Import distributed when the first test runs: collecting the tests does not wait for it."""
    global distributed
    distributed = pytest.importorskip("distributed")


@pytest.fixture
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as connected,
    ):
        yield connected


def samples_taken() -> int:
    """How often Dask's profiler has looked at the jobs of this worker."""
    return int(distributed.get_worker().digests_total["profile-duration"] * 1e9)


def stays_the_same_while_busy() -> bool:
    # The event loop stops the profiler a moment after the job has asked for it.
    time.sleep(0.1)
    before = samples_taken()
    time.sleep(0.2)
    return samples_taken() == before


def in_undisturbed_job() -> bool:
    with undisturbed_job():
        return stays_the_same_while_busy()


def test_the_profiler_of_dask_pauses_while_a_job_runs(client):
    assert not client.submit(stays_the_same_while_busy, pure=False).result()
    # Twice: the profiler may not have been started again yet when the second job begins.
    first, second = (client.submit(in_undisturbed_job, pure=False) for _ in range(2))
    assert first.result()
    assert second.result()


def test_the_profiler_of_dask_goes_on_after_a_job(client):
    client.submit(in_undisturbed_job, pure=False).result()
    assert not client.submit(stays_the_same_while_busy, pure=False).result()


def clock_interval() -> float:
    # The event loop changes it a moment after a job has asked for it.
    time.sleep(0.1)
    return float(distributed.get_worker().periodic_callbacks["tick"].callback_time)


def clock_interval_in_job() -> float:
    with undisturbed_job():
        return clock_interval()


def test_the_clock_of_dask_is_slower_while_a_job_runs_and_as_before_afterwards(client):
    before = client.submit(clock_interval, pure=False).result()
    for _ in range(2):
        assert client.submit(clock_interval_in_job, pure=False).result() > before
    assert client.submit(clock_interval, pure=False).result() == before


def test_without_dask_a_job_runs_as_it_is():
    with undisturbed_job() as raise_if_cancelled:
        raise_if_cancelled()


def work_until_cancelled(folder: str) -> None:
    with undisturbed_job() as raise_if_cancelled:
        raise_if_cancelled()
        Path(folder, "begun").touch()
        try:
            while not Path(folder, "end").exists():
                raise_if_cancelled()
                time.sleep(0.01)
        except JobCancelled:
            Path(folder, "cancelled").touch()


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline, f"{file.name} does not appear"
        time.sleep(0.01)


def cancel(other: Any, job: Any) -> None:
    job.cancel()


def disappear(other: Any, job: Any) -> None:
    """As a process that is killed: the connection ends without a word about its jobs."""
    other.scheduler_comm.comm.abort()


@pytest.mark.parametrize("stop", [cancel, disappear])
def test_a_job_ends_if_nobody_waits_for_it_any_more(client, tmp_path, stop: Callable[[Any, Any], None]):
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        job = other.submit(work_until_cancelled, str(tmp_path), pure=False)
        wait_for(tmp_path / "begun")
        assert not (tmp_path / "cancelled").exists()
        stop(other, job)
        try:
            wait_for(tmp_path / "cancelled")
        finally:
            (tmp_path / "end").touch()
