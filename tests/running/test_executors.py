"""Executors: a process that dies takes no other job with it, and a cluster that cannot do the work says so."""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import BrokenExecutor
from typing import Any

import pytest

from lmassay.errors import ClusterError, ConfigError
from lmassay.running import executors
from lmassay.running.executors import DaskExecutor, ProcessExecutor


def double(payload: dict[str, Any]) -> dict[str, Any]:
    if payload.get("die"):
        os._exit(9)
    time.sleep(payload.get("seconds", 0))
    return {"number": 2 * payload["number"], "pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}


def test_a_process_that_dies_takes_no_other_job_with_it_and_is_replaced(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    executor = ProcessExecutor(2)
    try:
        slow = executor.submit(double, {"number": 1, "seconds": 2}, {})
        deadly = executor.submit(double, {"number": 2, "die": True}, {})
        with pytest.raises(BrokenExecutor):
            deadly.result()
        third = executor.submit(double, {"number": 3}, {}).result()
        assert slow.result()["number"] == 2
        assert third["number"] == 6
        assert third["pid"] != slow.result()["pid"]
        # Two processes share the cores.
        assert third["threads"] == str(max(1, (os.cpu_count() or 1) // 2))
    finally:
        executor.close()


def test_an_idle_process_is_used_before_a_new_one_is_started():
    executor = ProcessExecutor(3)
    try:
        first = executor.submit(double, {"number": 1}, {}).result()
        second = executor.submit(double, {"number": 2}, {}).result()
        assert first["pid"] == second["pid"]
    finally:
        executor.close()


@pytest.mark.parametrize(
    "address", ["HOST:8786", "tcp://[::1]:8786", "tls://HOST:8786", "ucx://HOST:8786", "inproc://a/1"]
)
def test_every_protocol_of_dask_is_an_address(address):
    assert executors._SCHEDULER_ADDRESS.fullmatch(address)


@pytest.mark.parametrize("address", ["HOST", "http://127.0.0.1:8786", "tcp://", "tcp://127.0.0.1", "a/b:8786"])
def test_an_address_that_is_none_is_refused_at_once(address):
    pytest.importorskip("distributed", reason="distributed is not installed")
    with pytest.raises(ConfigError, match="is not an address of a Dask scheduler, like tcp://HOST:8786"):
        DaskExecutor(address)


def test_an_encrypted_address_without_certificates_is_refused_with_the_reason():
    pytest.importorskip("distributed", reason="distributed is not installed")
    with pytest.raises(ConfigError, match=r"needs certificates; Dask's configuration names none: see docs/"):
        DaskExecutor("tls://127.0.0.1:8786")


@pytest.mark.parametrize("module", ["client", "batched", "core", "utils"])
def test_no_module_of_dask_logs_the_traceback_of_a_lost_connection(module):
    pytest.importorskip("distributed", reason="distributed is not installed")
    with pytest.raises(ConfigError, match="needs certificates"):
        DaskExecutor("tls://127.0.0.1:8786")
    assert not logging.getLogger(f"distributed.{module}").isEnabledFor(logging.ERROR)


def test_a_cluster_whose_workers_are_all_gone_says_so_once(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.setattr(executors, "_SECONDS_UNTIL_NO_WORKERS_WARNING", 0.0)
    monkeypatch.setattr(executors, "_SECONDS_TO_REMEMBER_WORKERS", 0.0)
    monkeypatch.setattr(executors, "_SECONDS_TO_WAIT_FOR_WORKERS", 0.2)
    warnings: list[str] = []
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0", "protocol": "tcp://"}
    with distributed.LocalCluster(n_workers=1, **options) as cluster:
        executor = DaskExecutor(cluster.scheduler_address, warnings.append)
        try:
            assert executor.capacity({}) == 1
            executor.check_workers({})
            assert warnings == []
            with pytest.raises(ConfigError, match=r"no worker with the resources .* \(GPU=1\); start some: .*GPU=1"):
                executor.submit(double, {"number": 1}, {"GPU": 1})
            cluster.scale(0)
            deadline = time.monotonic() + 60
            while executor._workers_with({}) and time.monotonic() < deadline:
                time.sleep(0.05)
            executor.check_workers({})
            executor.check_workers({})
            # A worker that is being restarted is no reason to stop: the job waits.
            assert not executor.submit(double, {"number": 1}, {}).done()
        finally:
            executor.close()
        with pytest.raises(ClusterError, match="the Dask scheduler stopped"):
            executor.submit(double, {"number": 1}, {})
        assert len(warnings) == 1
        assert f"dask worker {cluster.scheduler_address} --nthreads 1" in warnings[0]
        with pytest.raises(ConfigError, match="the cluster has no workers; start some: dask worker"):
            DaskExecutor(cluster.scheduler_address)


def test_workers_that_dask_pauses_for_their_memory_are_reported_with_a_remedy(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    monkeypatch.setattr(executors, "_SECONDS_TO_WAIT_FOR_WORKERS", 0.2)
    options = {"processes": False, "threads_per_worker": 1, "dashboard_address": ":0", "protocol": "tcp://"}
    # This process needs more memory than that.
    with distributed.LocalCluster(n_workers=1, memory_limit="10MB", **options) as cluster:
        (worker,) = cluster.scheduler.workers.values()
        deadline = time.monotonic() + 60
        while worker.status.name != "paused" and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(ConfigError, match=r"only workers to which Dask gives no work.* --memory-limit 0"):
            DaskExecutor(cluster.scheduler_address)
