"""Real Dask clusters for tests: scheduler and workers are processes, started as Dask's documentation says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_SECONDS_TO_START = 240


@dataclass(slots=True)
class DaskCluster:
    """A scheduler with its workers."""

    address: str
    log: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def add_worker(self, *options: str, nanny: bool = False, env: Mapping[str, str] | None = None) -> int:
        """Start a worker with one thread; return its process id. A nanny restarts a worker that dies."""
        expected = len(self.worker_addresses()) + 1
        command = [self.address, "--nthreads", "1", "--no-dashboard", *options]
        command.append("--nanny" if nanny else "--no-nanny")
        process = _start("worker", command, self.log, env)
        self.workers.append(process)
        self.wait_for_workers(expected, process)
        return process.pid

    def remove_worker(self, pid: int) -> None:
        """Stop a worker that was added, and wait until the scheduler has noticed."""
        expected = len(self.worker_addresses()) - 1
        for worker in self.workers:
            if worker.pid == pid:
                worker.kill()
                worker.wait()
        self.wait_for_workers(expected)

    def worker_addresses(self) -> list[str]:
        """The addresses of all workers that the scheduler knows."""
        from distributed import Client

        with Client(self.address, timeout=60, set_as_default=False) as client:
            return list(client.sync(client.scheduler.identity, n_workers=-1)["workers"])

    def wait_for_workers(self, workers: int, process: subprocess.Popen[bytes] | None = None) -> None:
        """Wait until the scheduler has this number of workers; fail if the process ends before that."""
        from distributed import Client

        process = process or self.scheduler
        deadline = time.monotonic() + _SECONDS_TO_START
        with Client(self.address, timeout=60, set_as_default=False) as client:
            while len(client.sync(client.scheduler.identity, n_workers=-1)["workers"]) != workers:
                assert process.poll() is None, self.log.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, self.log.read_text(encoding="utf-8")
                time.sleep(0.1)

    def stop(self) -> None:
        """Kill everything, with the workers that nannies have started: ending in an orderly way takes seconds."""
        for process in [*self.workers, self.scheduler]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def dask_cluster(folder: Path) -> Iterator[DaskCluster]:
    """A scheduler without workers, on this machine only."""
    log, file = folder / "dask.log", folder / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    # Dask itself does not repeat a job whose worker died; lmassay does, once. Tests need not wait for more deaths.
    scheduler = _start("scheduler", options, log, {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"})
    deadline = time.monotonic() + _SECONDS_TO_START
    while not file.exists():
        assert scheduler.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.1)
    cluster = DaskCluster(json.loads(file.read_text(encoding="utf-8"))["address"], log, scheduler)
    try:
        yield cluster
    finally:
        cluster.stop()


def _start(part: str, options: list[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", part, *options],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
