"""Runs a job in a worker process without disturbance by other jobs or by Dask's monitoring."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_WORK_LOCK = threading.Lock()
# Parameters of the C function mallopt(3), which controls how memory is allocated.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# The largest value that glibc accepts; blocks above it are always returned to the system.
_MAX_MMAP_THRESHOLD = 32 * 1024 * 1024
# How much freed memory is kept, in bytes.
_KEPT_BYTES = 512 * 1024 * 1024
# Dask's names for its statistical profiler and its clock among the periodic callbacks of a worker.
_PROFILER = "profile"
_CLOCK = "tick"
# Dask warns if the clock is three seconds late.
_CLOCK_MILLISECONDS = 500.0
# Dask's name for the state of a running job whose result nobody needs any more.
_CANCELLED = "cancelled"


class JobCancelled(Exception):  # noqa: N818 - not an error: somebody stopped the run
    """Nobody waits for the result of this job any more."""


@contextmanager
def undisturbed_job() -> Iterator[Callable[[], None]]:
    """Run a job alone in this process, without Dask's monitoring and its way of saving memory.

    Models, and the state of random number generators, belong to the whole process, so two jobs in threads of one
    process would influence each other.

    Yields a function that a job calls from time to time. On a Dask worker, it raises :class:`JobCancelled` if the run
    was stopped or the process of the run died. Dask cannot interrupt a job, so without this check, others who share the
    cluster would wait until the job ends by itself.
    """
    _keep_freed_memory()
    worker = _dask_worker()
    with _WORK_LOCK, _less_observed(worker):
        yield _cancellation_check(worker)


def _cancellation_check(worker: Any) -> Callable[[], None]:
    """Return a function that raises JobCancelled if the Dask worker's current job has been cancelled."""
    if worker is None:
        # Processes that lmassay started itself are stopped as a whole.
        return lambda: None
    tasks = worker.state.tasks
    key = worker.get_current_task()

    def raise_if_cancelled() -> None:
        task = tasks.get(key)
        if task is None or task.state == _CANCELLED:
            raise JobCancelled

    return raise_if_cancelled


@contextmanager
def _less_observed(worker: Any) -> Iterator[None]:
    """Pause the profiler of a Dask worker and slow down its clock; ``worker`` is None if this process is not a worker.

    The profiler examines the whole call stack every 10 milliseconds, and Python code cannot run meanwhile. The deep
    stacks of neural networks took about a tenth of a worker's time. The clock measures every 20 milliseconds whether
    the event loop is on time; this took about a hundredth.
    """
    if worker is None:
        yield
        return
    profiler = worker.periodic_callbacks.get(_PROFILER)
    clock = worker.periodic_callbacks[_CLOCK]
    usual_interval = clock.callback_time

    def begin() -> None:
        nonlocal usual_interval
        usual_interval = clock.callback_time
        clock.callback_time = max(usual_interval, _CLOCK_MILLISECONDS)
        if profiler is not None:
            profiler.stop()

    def end() -> None:
        clock.callback_time = usual_interval
        if profiler is not None:
            profiler.start()

    # Callbacks may only be changed in the thread of the event loop.
    worker.loop.add_callback(begin)
    try:
        yield
    finally:
        worker.loop.add_callback(end)


def _dask_worker() -> Any:
    """Return the Dask worker that runs the current job; None if there is none."""
    if "distributed.worker" not in sys.modules:
        return None
    from distributed import get_worker

    try:
        return get_worker()
    except ValueError:
        return None


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep freed memory for later allocations.

    Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, which returns every large block to the system at once.
    That suits data frames. A network allocates the same tensors in every step, and the system would have to provide
    and clear the same pages again and again.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ or not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        # musl, for example, has no such function and ignores the variable, too.
        return
    mallopt(_M_MMAP_THRESHOLD, _MAX_MMAP_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
