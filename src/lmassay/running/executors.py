"""Where jobs run: in this process, in several processes on this machine, or on a Dask cluster."""

from __future__ import annotations

import importlib.metadata
import logging
import math
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lmassay.errors import ClusterError, ConfigError, MissingExtra
from lmassay.running.jobs import SCHEDULER_STOPPED, JobFunction, Resources

_SECONDS_BETWEEN_PARENT_CHECKS = 1.0
# How long there may be no workers before the user is warned: they may just be restarting, or be in a cluster's queue.
_SECONDS_UNTIL_NO_WORKERS_WARNING = 5.0
_SECONDS_TO_WAIT_FOR_WORKERS = 5.0
_SECONDS_TO_REACH_SCHEDULER = 10.0
_SECONDS_BETWEEN_POLLS = 0.1
# How long the list of workers is reused. Each update is a request to the scheduler, which has other work to do.
_SECONDS_TO_REMEMBER_WORKERS = 1.0
_ONLY_PAUSED_WORKERS = "only workers to which Dask gives no work, because they use most of their memory limit"
_SCHEDULER_ADDRESS = re.compile(r"((?!https?:)[a-z]+://)?[^/]+:\d+|inproc://.+")
# The libraries with which torch and numpy compute read these variables when they are loaded.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class InProcessExecutor:
    """Runs jobs in this process, one after the other."""

    in_process = True

    def capacity(self, resources: Resources) -> int:
        return 1

    def submit(self, function: JobFunction, payload: dict[str, Any], resources: Resources) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(payload))
        return future

    def check_workers(self, resources: Resources) -> None:
        """Nothing to do: there are no workers."""

    def close(self) -> None:
        """Nothing to do: there are no workers."""


# --- several processes ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _WorkerProcess:
    """A pool of one process, so that a process that dies takes no other job with it."""

    pool: ProcessPoolExecutor
    last_job: Future[Any] | None = None

    @property
    def is_idle(self) -> bool:
        return self.last_job is None or self.last_job.done()

    @property
    def is_broken(self) -> bool:
        if self.last_job is None or not self.last_job.done() or self.last_job.cancelled():
            return False
        return isinstance(self.last_job.exception(), BrokenExecutor)

    def stop(self) -> None:
        # shutdown() would wait for jobs that may take hours, and the pool has no public way to stop them.
        processes = getattr(self.pool, "_processes", None) or {}
        for process in list(processes.values()):
            with suppress(OSError, ValueError):
                process.terminate()
        self.pool.shutdown(wait=True, cancel_futures=True)


class ProcessExecutor:
    """Runs jobs in several processes on this machine. A process is started when there is a job for it."""

    in_process = False

    def __init__(self, workers: int) -> None:
        self._max_workers = workers
        self._workers: list[_WorkerProcess] = []

    def capacity(self, resources: Resources) -> int:
        # Resources are not checked: whoever chooses the number of processes knows what this machine has.
        return self._max_workers

    def submit(self, function: JobFunction, payload: dict[str, Any], resources: Resources) -> Future[Any]:
        worker = self._idle_worker()
        try:
            worker.last_job = worker.pool.submit(function, payload)
        except BrokenExecutor as error:
            # The process died while it was idle. The job is treated as if it had died with it: it is submitted again.
            worker.last_job = Future()
            worker.last_job.set_exception(error)
        return worker.last_job

    def _idle_worker(self) -> _WorkerProcess:
        """Return a worker for the next job: an idle one, a new one, or a busy one if there are enough."""
        for worker in list(self._workers):
            if worker.is_broken:
                worker.stop()
                self._workers.remove(worker)
        for worker in self._workers:
            # A process that has worked before has its model in memory.
            if worker.is_idle:
                return worker
        if len(self._workers) >= self._max_workers:
            # More jobs than workers; the job waits until the first process is free.
            return self._workers[0]
        worker = _WorkerProcess(self._new_pool())
        self._workers.append(worker)
        return worker

    def _new_pool(self) -> ProcessPoolExecutor:
        # A forked process would inherit the threads of torch and SQLite in an undefined state.
        context = multiprocessing.get_context("spawn")
        threads = max(1, (os.cpu_count() or 1) // self._max_workers)
        return ProcessPoolExecutor(1, context, initializer=_prepare_worker, initargs=(os.getpid(), threads))

    def check_workers(self, resources: Resources) -> None:
        """Nothing to do: if a worker dies, the future of its job reports it."""

    def close(self) -> None:
        for worker in self._workers:
            worker.stop()
        self._workers.clear()


def _prepare_worker(parent_pid: int, threads: int) -> None:
    """Prepare a new worker process."""
    # Ctrl-C is sent to all processes of the terminal; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent prints results to standard output, so everything that a worker prints goes to standard error.
    os.dup2(2, 1)
    for variable in _THREAD_VARIABLES:
        # Otherwise every process would use all cores.
        os.environ.setdefault(variable, str(threads))

    def exit_with_parent() -> None:
        # If the parent was killed, nobody would store the results.
        while os.getppid() == parent_pid:
            time.sleep(_SECONDS_BETWEEN_PARENT_CHECKS)
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


# --- a Dask cluster ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DaskWorker:
    """What the scheduler knows about a worker."""

    resources: Resources
    is_paused: bool
    """Whether Dask gives the worker no new work, because it uses most of its memory limit."""


class DaskExecutor:
    """Runs jobs on the workers of a Dask scheduler. If a worker dies, Dask repeats its job on another worker."""

    in_process = False

    def __init__(self, scheduler: str, on_warning: Callable[[str], None] | None = None) -> None:
        """Connect to the scheduler. ``on_warning`` is called with messages for the user while jobs wait."""
        self._scheduler = scheduler
        self._on_warning = on_warning or (lambda text: None)
        self._without_workers_since: float | None = None
        self._has_warned = False
        self._workers: dict[str, _DaskWorker] = {}
        # The resources (as text) for which at least one worker has been seen.
        self._had_workers: set[str] = set()
        self._workers_known_until = 0.0
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtra("a Dask cluster", "dask") from error
        if not _SCHEDULER_ADDRESS.fullmatch(scheduler):
            raise ConfigError(f"--scheduler: {scheduler!r} is not an address of a Dask scheduler, like tcp://HOST:8786")
        # Dask logs the tracebacks of a lost connection, depending on the moment in one of several modules; we report it
        # in one line. The client's level has to be set too, because Dask gives that logger a level of its own.
        for logger in ("distributed", "distributed.client"):
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        try:
            self._client = Client(scheduler, timeout=_SECONDS_TO_REACH_SCHEDULER)
        except (OSError, ValueError, TimeoutError) as error:
            reason = _first_cause(error)
            raise ConfigError(f"--scheduler: there is no Dask scheduler at {scheduler} ({reason})") from error
        except TypeError as error:
            # Dask's way of saying that a tls:// address needs a certificate.
            raise ConfigError(
                f"--scheduler: {scheduler} needs certificates; Dask's configuration names none: see docs/clusters.md"
            ) from error
        try:
            self._wait_for_workers({})
            self._had_workers.add(_resources_text({}))
            self._check_versions()
        except BaseException:
            self._client.close()
            raise

    def capacity(self, resources: Resources) -> int:
        """Return the current number of workers with these resources, each of which runs one job at a time.

        If more jobs were submitted, one might wait for a busy worker while another worker is idle.
        """
        return max(1, len(self._workers_with(resources)))

    def submit(self, function: JobFunction, payload: dict[str, Any], resources: Resources) -> Future[Any]:
        if _resources_text(resources) not in self._had_workers:
            # Dask itself would wait forever, without a message. Later, a worker may be missing because it is being
            # restarted; then the job waits for it, see check_workers.
            self._wait_for_workers(resources)
            self._had_workers.add(_resources_text(resources))
        # pure=False: every submitted job is run. Otherwise Dask would return the result of an earlier one with the same
        # payload.
        executor = self._client.get_executor(pure=False, resources=dict(resources) or None)
        try:
            future: Future[Any] = executor.submit(function, payload)
        except Exception as error:
            if self._client.status == "running":
                raise
            # Dask has given up connecting again.
            raise ClusterError(SCHEDULER_STOPPED) from error
        return future

    def check_workers(self, resources: Resources) -> None:
        """Warn once if all workers are gone. Jobs wait for new workers, however long that takes."""
        if self._workers_with(resources):
            self._without_workers_since = None
            self._has_warned = False
            return
        if self._client.status != "running":
            # The scheduler is gone, too; the jobs that are running report that.
            return
        now = time.monotonic()
        if self._without_workers_since is None:
            self._without_workers_since = now
        if now - self._without_workers_since >= _SECONDS_UNTIL_NO_WORKERS_WARNING and not self._has_warned:
            self._has_warned = True
            problem = "no workers left"
            if any(worker.is_paused for worker in self._workers.values()):
                problem = _ONLY_PAUSED_WORKERS
            self._on_warning(
                f"the cluster at {self._scheduler} has {problem}, so the work is waiting; start some: "
                f"{self._worker_command(resources)} (or stop with Ctrl-C and resume later)"
            )

    def close(self) -> None:
        self._client.close(timeout=_SECONDS_TO_REACH_SCHEDULER)

    def _workers_with(self, resources: Resources) -> list[str]:
        """Return the addresses of the workers that have these resources and accept work."""
        addresses = []
        for address, worker in self._current_workers().items():
            has_resources = all(worker.resources.get(name, 0) >= amount for name, amount in resources.items())
            if has_resources and not worker.is_paused:
                addresses.append(address)
        return addresses

    def _current_workers(self) -> Mapping[str, _DaskWorker]:
        """Return the workers by address, as they were at most a second ago."""
        if time.monotonic() < self._workers_known_until or self._client.status != "running":
            return self._workers
        try:
            # -1: all workers. Not Client.scheduler_info, whose result a thread of Dask overwrites from time to time.
            information = self._client.sync(self._client.scheduler.identity, n_workers=-1)
        except OSError:
            # The scheduler is gone; the jobs that are running report that.
            return {}
        workers: dict[str, _DaskWorker] = {}
        for address, worker in information["workers"].items():
            workers[address] = _DaskWorker(worker["resources"], is_paused=worker["status"] == "paused")
        self._workers = workers
        self._workers_known_until = time.monotonic() + _SECONDS_TO_REMEMBER_WORKERS
        return self._workers

    def _wait_for_workers(self, resources: Resources) -> None:
        """Wait a few seconds for a worker with these resources. Raises ConfigError if there is none."""
        deadline = time.monotonic() + _SECONDS_TO_WAIT_FOR_WORKERS
        while not self._workers_with(resources):
            if time.monotonic() > deadline:
                problem = "no workers"
                if any(worker.is_paused for worker in self._workers.values()):
                    problem = _ONLY_PAUSED_WORKERS
                elif resources:
                    problem = f"no worker with the resources that the model needs ({_resources_text(resources)})"
                raise ConfigError(
                    f"--scheduler: the cluster has {problem}; start some: {self._worker_command(resources)}"
                )
            time.sleep(_SECONDS_BETWEEN_POLLS)
            self._workers_known_until = 0.0

    def _worker_command(self, resources: Resources) -> str:
        # Without --memory-limit, Dask gives a worker with one thread the memory of one core.
        command = f"dask worker {self._scheduler} --nthreads 1 --memory-limit 0"
        if resources:
            command += f' --resources "{_resources_text(resources)}"'
        return command

    def _check_versions(self) -> None:
        """Refuse workers with another version of lmassay, because they might compute differently."""
        own_version = importlib.metadata.version("lmassay")
        # A function of Python's library, because an earlier lmassay may not have one of ours.
        versions: Mapping[str, Any] = self._client.run(importlib.metadata.version, "lmassay", on_error="return")
        for address, version in versions.items():
            if isinstance(version, importlib.metadata.PackageNotFoundError):
                raise ConfigError(
                    f"--scheduler: the worker {address} has no lmassay: pip install lmassay=={own_version} there"
                )
            if isinstance(version, BaseException):
                raise ClusterError(f"the worker {address} cannot be used: {version!r}")
            if version != own_version:
                raise ConfigError(
                    f"--scheduler: the worker {address} has lmassay {version}, this is {own_version}; install the same "
                    "version on both"
                )


def _first_cause(error: BaseException) -> str:
    """Return why a connection failed.

    The real reason, such as a host that does not exist, is the last in the chain of exceptions; the first one only says
    that Dask gave up.
    """
    reason = "no answer"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            reason = cause.strerror
        cause = cause.__cause__ or cause.__context__
    return reason


def _resources_text(resources: Resources) -> str:
    """Write resources as the command ``dask worker`` expects them: ``GPU=1 MEMORY=64e9``."""
    parts = []
    for name, amount in resources.items():
        is_whole = math.isfinite(amount) and float(amount).is_integer()
        parts.append(f"{name}={int(amount) if is_whole else amount}")
    return " ".join(parts)
