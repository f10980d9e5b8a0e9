"""Where trainings are done: in this process, in several processes here, or on a Dask cluster elsewhere.

A training is plain data, so any process that has lmassay can take it up; its outcome is plain data, too. Whoever asks
for it keeps the outcome: the store has one writer.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import lmassay
from lmassay.errors import ConfigError, LmassayError, MissingExtra, PluginError, StoreError, error_with_location
from lmassay.plugins.options import Spec, build, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.types import Response, Train, TrainingOutcome, canonical, response_as_dict, response_from_dict

MAX_WORKER_DEATHS = 2
_ONE_AT_A_TIME = threading.Lock()
_LOOK_FOR_PARENT_EVERY = 1.0
_LOOK_AFTER_CREW_EVERY = 2.0
_PATIENCE = 5.0
_SECONDS_TO_REACH_SCHEDULER = 10.0


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training that is wanted, with the keys of those that come before it."""

    key: str
    request: Train
    model: Spec | None
    base_dir: Path
    after: tuple[str, ...] = ()
    model_source: str = ""
    """The digest of the model's file and of what it imports, if it is a user's own."""

    def payload(self, known: Mapping[str, Response]) -> dict[str, Any]:
        """What the process that does it needs, as plain data."""
        return {
            "model": self.model if isinstance(self.model, str | None) else dict(self.model),
            "model_source": self.model_source,
            "base_dir": str(self.base_dir),
            "trainer": self.request.trainer,
            "spec": dict(self.request.spec),
            "data_paths": dict(self.request.data_paths),
            "earlier": [dict(_outcome(known[key])) for key in self.after],
        }


class Executor(Protocol):
    """Those who do the work."""

    @property
    def capacity(self) -> int:
        """How many trainings are taken at a time."""

    def submit(self, job: dict[str, Any]) -> Future[dict[str, Any]]: ...

    def restart(self) -> None:
        """Start afresh after a process died."""

    def check_workers(self) -> None:
        """Called now and then while trainings are under way: is anybody there to do them?"""

    def close(self) -> None: ...


def run_training(job: Mapping[str, Any], told: Callable[[float], None] | None = None) -> dict[str, Any]:
    """Do one training; what goes wrong with it is its answer, so that the others go on."""
    # The state of random numbers belongs to the whole process: two trainings in one would disturb each other.
    with _ONE_AT_A_TIME:
        started = time.monotonic()
        try:
            outcome = _trained(job, told or (lambda share: None))
        except LmassayError as error:
            return response_as_dict(Response(error=str(error)))
        except OSError as error:
            return response_as_dict(Response(error=f"{error.strerror or error}: {error.filename or 'a file'}"))
        except SystemExit:
            return response_as_dict(Response(error="the method asked to end the program (sys.exit)"))
        except KeyboardInterrupt:
            # Ctrl-C reaches the main thread of the parent only; elsewhere somebody's code has raised it.
            if not _in_worker():
                raise
            return response_as_dict(Response(error="the method raised KeyboardInterrupt"))
        except Exception as error:
            # Whatever it is, it costs this training and not the sweep.
            return response_as_dict(Response(error=f"the training failed: {error_with_location(error)}"))
        return response_as_dict(Response(TrainingOutcome(outcome), seconds=round(time.monotonic() - started, 3)))


def _trained(job: Mapping[str, Any], told: Callable[[float], None]) -> Mapping[str, Any]:
    base = Path(job["base_dir"])
    train = current_registry().get("trainer", job["trainer"], base)
    model = None if job["model"] is None else _current_model(job, base)
    outcome: Mapping[str, Any] = train(
        model, job["spec"], data_paths=job["data_paths"], earlier=job["earlier"], on_progress=told
    )
    canonical(outcome)
    return outcome


def _in_worker() -> bool:
    return multiprocessing.parent_process() is not None or threading.current_thread() is not threading.main_thread()


def _current_model(job: Mapping[str, Any], base: Path) -> Any:
    """The model, if its code is that of the run: a worker may live longer than a file stays as it is."""
    name, _ = split_spec(job["model"], "model")
    current_registry().get("model", name, base)
    source = current_registry().source_of(name, base)
    if source != job["model_source"]:
        raise PluginError(f"{name}, or a module that it imports, has changed since the run began; start a new run")
    return _model(canonical(job["model"]), base, source)


@lru_cache(maxsize=1)
def _model(spec: str, base: Path, source: str) -> Any:
    return build("model", json.loads(spec), base)


def run_jobs(
    orders: Mapping[str, TrainingJob], known: dict[str, Response], executor: Executor
) -> Iterator[tuple[str, Response]]:
    """Do what is wanted and not known, earlier trainings first; each answer as it comes. It is also put in ``known``.

    If a process dies, those that it may have died of are done again one by one, so that only the one that kills its
    process is given up.
    """
    waiting = {key: order for key, order in orders.items() if key not in known}
    handed_on = {earlier for order in waiting.values() for earlier in order.after}
    running: dict[Future[dict[str, Any]], TrainingJob] = {}
    deaths: dict[str, int] = {}
    while waiting or running:
        for order, response in _hand_out(waiting, running, known, executor, deaths):
            known[order.key] = response
            yield order.key, response
        if not running:
            continue
        while not (done := wait(running, timeout=_LOOK_AFTER_CREW_EVERY, return_when=FIRST_COMPLETED).done):
            executor.check_workers()
        if any(future.cancelled() for future in done):
            raise StoreError("the scheduler is gone, and with it the trainings it had; start it again, then resume")
        for future in [future for future in done if not isinstance(future.exception(), BrokenExecutor)]:
            order = running.pop(future)
            response = _response(future)
            # Outcomes may be large: only what others build upon stays in memory.
            known[order.key] = response if order.key in handed_on or not response.usable else _DONE
            yield order.key, response
            done.discard(future)
        if done:
            guilty = 1 if len(running) == 1 else 0
            for order in running.values():
                deaths[order.key] = deaths.get(order.key, 0) + guilty
                waiting[order.key] = order
            running.clear()
            executor.restart()


def _hand_out(
    waiting: dict[str, TrainingJob],
    running: dict[Future[dict[str, Any]], TrainingJob],
    known: Mapping[str, Response],
    executor: Executor,
    deaths: Mapping[str, int],
) -> Iterator[tuple[TrainingJob, Response]]:
    """Submit what can start; yield those that cannot be done at all."""
    for key in [key for key, order in waiting.items() if all(earlier in known for earlier in order.after)]:
        order = waiting[key]
        # Whoever was in a process that died is watched alone.
        alone = key in deaths or any(other.key in deaths for other in running.values())
        if len(running) >= (1 if alone else executor.capacity):
            continue
        del waiting[key]
        if deaths.get(key, 0) >= MAX_WORKER_DEATHS:
            many = f"{MAX_WORKER_DEATHS} times"
            yield order, Response(error=f"the process that did this training died {many}: was it out of memory?")
            continue
        failed = next((known[earlier] for earlier in order.after if not known[earlier].usable), None)
        if failed is not None:
            yield order, Response(error=f"a training that this one builds upon failed: {failed.error}")
            continue
        try:
            running[executor.submit(order.payload(known))] = order
        except BrokenExecutor:
            # A process died just now: those that run in the others will say so, and this one has its turn later.
            waiting[key] = order
            if not running:
                executor.restart()
            return


def _response(future: Future[dict[str, Any]]) -> Response:
    error = future.exception()
    if error is not None and type(error).__name__ == "KilledWorker":
        return Response(error="the workers that did this training died, one after the other: out of memory?")
    return response_from_dict(future.result())


_DONE = Response(TrainingOutcome({}))


def _outcome(response: Response) -> Mapping[str, Any]:
    assert isinstance(response.answer, TrainingOutcome)
    return response.answer.outcome


class InProcessExecutor:
    """This process, one training after the other."""

    capacity = 1

    def __init__(self, told: Callable[[float], None] | None = None) -> None:
        self._told = told

    def submit(self, job: dict[str, Any]) -> Future[dict[str, Any]]:
        done: Future[dict[str, Any]] = Future()
        done.set_result(run_training(job, self._told))
        return done

    def restart(self) -> None: ...

    def check_workers(self) -> None: ...

    def close(self) -> None: ...


class ProcessExecutor:
    """Several processes on this machine; one that dies is replaced."""

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, job: dict[str, Any]) -> Future[dict[str, Any]]:
        if self._pool is None:
            # A forked process would inherit the threads of torch and SQLite half alive.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.capacity, context, initializer=_settle, initargs=(os.getpid(),))
        return self._pool.submit(run_training, job)

    def restart(self) -> None:
        self.close()

    def check_workers(self) -> None: ...

    def close(self) -> None:
        if self._pool is not None:
            for process in list((getattr(self._pool, "_processes", None) or {}).values()):
                with suppress(OSError, ValueError):
                    process.terminate()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _settle(parent: int) -> None:
    """Ctrl-C is the parent's to heed, standard output its own; a worker whose parent is gone would train for nobody."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_FOR_PARENT_EVERY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class DaskExecutor:
    """The workers of a Dask scheduler. The scheduler does a training again whose worker died."""

    def __init__(self, scheduler: str, tell: Callable[[str], None] | None = None) -> None:
        """``tell`` is called with what the user should know while trainings wait."""
        self._scheduler, self._tell = scheduler, tell or (lambda text: None)
        self._deserted_since: float | None = None
        self._told_deserted = False
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtra("a Dask cluster", "dask") from error
        try:
            self._client = Client(scheduler, timeout=_SECONDS_TO_REACH_SCHEDULER)
        except (OSError, ValueError, TimeoutError) as error:
            raise ConfigError(f"--scheduler: there is no Dask scheduler at {scheduler}") from error
        try:
            self._check()
            self._executor = self._client.get_executor(pure=False)
        except BaseException:
            self._client.close()
            raise

    @property
    def capacity(self) -> int:
        """As many as there are workers, each of which does one training at a time: a training that is handed out early
        might wait for a busy worker while another is idle. New workers are taken on."""
        return max(1, len(self._client.nthreads()))

    def submit(self, job: dict[str, Any]) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = self._executor.submit(run_training, job)
        return future

    def restart(self) -> None: ...

    def check_workers(self) -> None:
        """Say once when all workers are gone: trainings wait for new ones, however long that takes."""
        try:
            workers = self._client.nthreads()
        except OSError:  # the scheduler is gone, which the trainings themselves will say
            return
        if workers:
            self._deserted_since, self._told_deserted = None, False
            return
        now = time.monotonic()
        self._deserted_since = self._deserted_since or now
        if now - self._deserted_since >= _PATIENCE and not self._told_deserted:
            self._told_deserted = True
            self._tell(
                f"the cluster at {self._scheduler} has no workers any more, so that trainings wait; start some: "
                f"dask worker {self._scheduler} --nthreads 1 (or stop with Ctrl-C and resume later)"
            )

    def close(self) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()

    def _check(self) -> None:
        versions = self._client.run(version)
        if not versions:
            raise ConfigError("--scheduler: the cluster has no workers; start some: dask worker SCHEDULER --nthreads 1")
        other = {address: found for address, found in versions.items() if found != lmassay.__version__}
        if other:
            address, found = next(iter(other.items()))
            raise ConfigError(f"--scheduler: the worker {address} has lmassay {found}, this is {lmassay.__version__}")


def version() -> str:
    """The lmassay of the process that is asked."""
    return lmassay.__version__
