"""Where trainings run: in this process, in several processes on this machine, or on a Dask cluster.

A training job is plain data, so any process that has lmassay installed can run it, and its outcome is plain data, too.
The process that requested the training stores the outcome, because only one process may write to a results folder.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import lmassay
from lmassay.errors import ClusterError, ConfigError, LmassayError, MissingExtra, PluginError, error_with_location
from lmassay.plugins.options import Spec, build, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.types import Response, Train, TrainingOutcome, canonical, response_as_dict, response_from_dict

MAX_WORKER_DEATHS = 2
"""A training is given up after its worker process died this many times while the process ran nothing else."""
_TRAINING_LOCK = threading.Lock()
_SECONDS_BETWEEN_PARENT_CHECKS = 1.0
_SECONDS_BETWEEN_WORKER_CHECKS = 2.0
_SECONDS_UNTIL_NO_WORKERS_WARNING = 5.0
_SECONDS_TO_REACH_SCHEDULER = 10.0
# Replaces an outcome that is stored and that no other training needs, to save memory; see run_jobs.
_DROPPED_OUTCOME = Response(TrainingOutcome({}))

OnProgress = Callable[[float], None]
"""Called with the share of a training that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training to run, with the keys of the trainings that must be done before it."""

    key: str
    """The key under which the response of the training is cached in the store."""
    request: Train
    model: Spec | None
    base_dir: Path
    earlier_keys: tuple[str, ...] = ()
    """The keys of the trainings whose outcomes this one needs."""
    model_source: str = ""
    """The digest of the model's Python file and the modules it imports, if the model is a user's own class."""
    kept_in: Path | None = None
    """The folder in which the trained model is kept; None if it is not kept."""

    @property
    def lacks_kept_model(self) -> bool:
        """Whether the trained model is to be kept and is not there."""
        return self.kept_in is not None and not self.kept_in.is_dir()

    def payload(self, responses: Mapping[str, Response]) -> dict[str, Any]:
        """Return what a worker process needs to run the job, as plain data.

        ``responses`` must contain the responses of all jobs that come before it.
        """
        earlier_outcomes: list[dict[str, Any]] = []
        for earlier_key in self.earlier_keys:
            answer = responses[earlier_key].answer
            assert isinstance(answer, TrainingOutcome)
            earlier_outcomes.append(dict(answer.outcome))
        data_paths = dict(self.request.data_paths)
        if self.kept_in is not None:
            data_paths["keep"] = str(self.kept_in)
        return {
            "model": self.model if isinstance(self.model, str | None) else dict(self.model),
            "model_source": self.model_source,
            "base_dir": str(self.base_dir),
            "trainer": self.request.trainer,
            "spec": dict(self.request.spec),
            "data_paths": data_paths,
            "earlier": earlier_outcomes,
        }


class Executor(Protocol):
    """Runs training jobs, possibly several at a time."""

    @property
    def capacity(self) -> int:
        """The number of jobs that run at the same time."""

    def submit(self, payload: dict[str, Any]) -> Future[dict[str, Any]]:
        """Start a job, given as the payload of its :class:`TrainingJob`."""

    def restart(self) -> None:
        """Replace all worker processes after one of them has died."""

    def check_workers(self) -> None:
        """Warn the user if there is nobody to run the jobs; called every few seconds while jobs are running."""

    def close(self) -> None:
        """Stop all workers."""


# --- one training -----------------------------------------------------------------------------------------------------


def run_training(payload: Mapping[str, Any], on_progress: OnProgress | None = None) -> dict[str, Any]:
    """Run one training, given as the payload of its job, and return the response as plain JSON.

    A training that fails returns a response with an error, so that other trainings can continue.
    """
    # The state of random number generators is global, so two trainings in one process would influence each other.
    with _TRAINING_LOCK:
        started = time.monotonic()
        try:
            outcome = _outcome_of(payload, on_progress or (lambda share: None))
        except LmassayError as error:
            return _failure(str(error))
        except OSError as error:
            reason = error.strerror or str(error)
            return _failure(f"{reason}: {error.filename}" if error.filename else reason)
        except SystemExit:
            return _failure("the training code tried to exit the program (sys.exit)")
        except KeyboardInterrupt:
            # Worker processes ignore Ctrl-C (see _prepare_worker), so in a worker only the training code can have
            # raised this. Dask's workers train in a thread, and Ctrl-C only reaches the main thread.
            if not _is_worker():
                raise
            return _failure("the training code raised KeyboardInterrupt")
        except Exception as error:
            return _failure(f"the training failed: {error_with_location(error)}")
        seconds = round(time.monotonic() - started, 3)
        return response_as_dict(Response(TrainingOutcome(outcome), seconds=seconds))


def _failure(message: str) -> dict[str, Any]:
    return response_as_dict(Response(error=message))


def _outcome_of(payload: Mapping[str, Any], on_progress: OnProgress) -> Mapping[str, Any]:
    base_dir = Path(payload["base_dir"])
    train = current_registry().get("trainer", payload["trainer"], base_dir)
    model = None if payload["model"] is None else _model_of(payload, base_dir)
    outcome: Mapping[str, Any] = train(
        model,
        payload["spec"],
        data_paths=payload["data_paths"],
        earlier=payload["earlier"],
        on_progress=on_progress,
    )
    # Raises an error here, and not when it is stored, if the outcome is not plain JSON.
    canonical(outcome)
    return outcome


def _is_worker() -> bool:
    """Return whether this is a worker process, or a worker thread of Dask."""
    return multiprocessing.parent_process() is not None or threading.current_thread() is not threading.main_thread()


def _model_of(payload: Mapping[str, Any], base_dir: Path) -> Any:
    """Return the model of a job, after checking that its code is the code that the run was planned with.

    A worker of a cluster may have loaded an older version of a file, or the file may have changed since.
    """
    name, _ = split_spec(payload["model"], "model")
    # Loads the model's file, so that source_of returns the digest of the code that will run.
    current_registry().get("model", name, base_dir)
    source = current_registry().source_of(name, base_dir)
    if source != payload["model_source"]:
        raise PluginError(f"{name}, or a module that it imports, has changed since the run began; start a new run")
    return _build_model(canonical(payload["model"]), base_dir, source)


# Loading a model takes long and most jobs of a sweep use the same one. The source is an argument only so that a changed
# file is loaded again.
@lru_cache(maxsize=1)
def _build_model(spec_json: str, base_dir: Path, source: str) -> Any:
    return build("model", json.loads(spec_json), base_dir)


# --- all trainings ----------------------------------------------------------------------------------------------------


def run_jobs(
    jobs: Mapping[str, TrainingJob], responses: dict[str, Response], executor: Executor
) -> Iterator[tuple[str, Response]]:
    """Run all jobs that have no response yet, in the order of their dependencies; yield each response as it arrives.

    Responses are also added to ``responses``. If a worker process dies, the jobs that were running are repeated one by
    one, so that only the job that kills its process is given up.
    """
    waiting = {key: job for key, job in jobs.items() if key not in responses}
    for job in waiting.values():
        if job.kept_in is not None:
            # Workers do not create it: a worker that does not see it has another file system.
            job.kept_in.parent.mkdir(parents=True, exist_ok=True)
    needed_later: set[str] = set()
    for job in waiting.values():
        needed_later.update(job.earlier_keys)
    running: dict[Future[dict[str, Any]], TrainingJob] = {}
    # Key of a job that was running when a worker died → how many workers died while the job ran alone (0: it has not
    # been alone yet).
    suspects: dict[str, int] = {}
    while waiting or running:
        for job, response in _submit_ready_jobs(waiting, running, responses, executor, suspects):
            responses[job.key] = response
            yield job.key, response
        if not running:
            # All ready jobs failed without being submitted; jobs that depend on them are ready now.
            continue
        finished = _wait_for_any(running, executor)
        if any(future.cancelled() for future in finished):
            raise ClusterError(
                "the Dask scheduler stopped, and its running trainings are lost; start it again, then run "
                "lmassay resume"
            )
        worker_died = False
        for future in finished:
            if isinstance(future.exception(), BrokenExecutor):
                # Stays in ``running``; its job is queued again below, with all others of the broken pool.
                worker_died = True
                continue
            job = running.pop(future)
            response = _response(future)
            if response.usable and job.lacks_kept_model:
                response = Response(
                    error=f"the worker kept the trained model in {job.kept_in}, which this machine does not see; "
                    "workers must share the file system of the results folder"
                )
            # Outcomes can be large. Keep only those in memory that later jobs need; failures are needed for messages.
            is_needed = job.key in needed_later or not response.usable
            responses[job.key] = response if is_needed else _DROPPED_OUTCOME
            yield job.key, response
        if worker_died:
            # A pool that breaks loses all its jobs. Only a job that was alone is known to be the cause.
            was_alone = len(running) == 1
            for job in running.values():
                suspects.setdefault(job.key, 0)
                if was_alone:
                    suspects[job.key] += 1
                waiting[job.key] = job
            running.clear()
            executor.restart()


def _wait_for_any(
    running: Mapping[Future[dict[str, Any]], TrainingJob], executor: Executor
) -> set[Future[dict[str, Any]]]:
    """Wait until at least one job is finished."""
    while True:
        finished, _ = wait(running, timeout=_SECONDS_BETWEEN_WORKER_CHECKS, return_when=FIRST_COMPLETED)
        if finished:
            return finished
        executor.check_workers()


def _submit_ready_jobs(
    waiting: dict[str, TrainingJob],
    running: dict[Future[dict[str, Any]], TrainingJob],
    responses: Mapping[str, Response],
    executor: Executor,
    suspects: Mapping[str, int],
) -> Iterator[tuple[TrainingJob, Response]]:
    """Submit the jobs that can start now; yield those that cannot be run at all, with the reason."""
    ready = [key for key, job in waiting.items() if responses.keys() >= set(job.earlier_keys)]
    for key in ready:
        job = waiting[key]
        # A job that was in a process that died runs alone, to find out whether it is the cause.
        suspect_is_running = any(other.key in suspects for other in running.values())
        must_be_alone = key in suspects or suspect_is_running
        capacity = 1 if must_be_alone else executor.capacity
        if len(running) >= capacity:
            continue
        del waiting[key]
        if suspects.get(key, 0) >= MAX_WORKER_DEATHS:
            message = (
                f"the process that ran this training died {MAX_WORKER_DEATHS} times while it ran nothing else; was it "
                f"out of memory?"
            )
            yield job, Response(error=message)
            continue
        earlier_failure = _first_failure(job.earlier_keys, responses)
        if earlier_failure is not None:
            yield job, Response(error=f"a training that this one needs failed: {earlier_failure.error}")
            continue
        try:
            running[executor.submit(job.payload(responses))] = job
        except BrokenExecutor:
            # A process has just died. The jobs that are running will report it; this one is submitted again later.
            waiting[key] = job
            if not running:
                executor.restart()
            return


def _first_failure(keys: Sequence[str], responses: Mapping[str, Response]) -> Response | None:
    for key in keys:
        if not responses[key].usable:
            return responses[key]
    return None


def _response(future: Future[dict[str, Any]]) -> Response:
    error = future.exception()
    # Dask's exception is recognised by its name, because Dask is optional.
    if error is not None and type(error).__name__ == "KilledWorker":
        return Response(error="several workers that ran this training died: out of memory?")
    return response_from_dict(future.result())


# --- executors --------------------------------------------------------------------------------------------------------


class InProcessExecutor:
    """Runs trainings in this process, one after the other."""

    capacity = 1

    def __init__(self, on_progress: OnProgress | None = None) -> None:
        self._on_progress = on_progress

    def submit(self, payload: dict[str, Any]) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = Future()
        future.set_result(run_training(payload, self._on_progress))
        return future

    def restart(self) -> None:
        """Nothing to do: there are no workers."""

    def check_workers(self) -> None:
        """Nothing to do: there are no workers."""

    def close(self) -> None:
        """Nothing to do: there are no workers."""


class ProcessExecutor:
    """Runs trainings in several processes on this machine."""

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, payload: dict[str, Any]) -> Future[dict[str, Any]]:
        if self._pool is None:
            # A forked process would inherit the threads of torch and SQLite in an undefined state.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(
                self.capacity, context, initializer=_prepare_worker, initargs=(os.getpid(),)
            )
        return self._pool.submit(run_training, payload)

    def restart(self) -> None:
        # The next call of submit starts new processes.
        self.close()

    def check_workers(self) -> None:
        """Nothing to do: if a worker dies, the pool reports it for every job that is running."""

    def close(self) -> None:
        if self._pool is None:
            return
        # shutdown() would wait for trainings that may take hours, and the pool has no public way to stop them.
        processes = getattr(self._pool, "_processes", None) or {}
        for process in list(processes.values()):
            with suppress(OSError, ValueError):
                process.terminate()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None


def _prepare_worker(parent_pid: int) -> None:
    """Prepare a new worker process."""
    # Ctrl-C is sent to all processes of the terminal; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The parent prints results to standard output, so everything that a worker prints goes to standard error.
    os.dup2(2, 1)

    def exit_with_parent() -> None:
        # If the parent was killed, nobody would store the outcome.
        while os.getppid() == parent_pid:
            time.sleep(_SECONDS_BETWEEN_PARENT_CHECKS)
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


class DaskExecutor:
    """Runs trainings on the workers of a Dask scheduler, which repeats a training whose worker died."""

    def __init__(self, scheduler: str, on_warning: Callable[[str], None] | None = None) -> None:
        """Connect to the scheduler. ``on_warning`` is called with messages for the user while trainings wait."""
        self._scheduler = scheduler
        self._on_warning = on_warning or (lambda text: None)
        self._without_workers_since: float | None = None
        self._has_warned = False
        try:
            from distributed import Client
        except ImportError as error:
            raise MissingExtra("a Dask cluster", "dask") from error
        try:
            self._client = Client(scheduler, timeout=_SECONDS_TO_REACH_SCHEDULER)
        except (OSError, ValueError, TimeoutError) as error:
            raise ConfigError(f"--scheduler: there is no Dask scheduler at {scheduler}") from error
        try:
            self._check_versions()
            # pure=False: every submitted training is run. Otherwise Dask would return the result of an earlier one with
            # the same payload.
            self._executor = self._client.get_executor(pure=False)
        except BaseException:
            self._client.close()
            raise

    @property
    def capacity(self) -> int:
        """The present number of workers, each of which runs one training at a time.

        If more jobs were submitted, one might wait for a busy worker while another worker is idle.
        """
        # nthreads() returns the number of threads of each worker, by the worker's address.
        return max(1, len(self._client.nthreads()))

    def submit(self, payload: dict[str, Any]) -> Future[dict[str, Any]]:
        future: Future[dict[str, Any]] = self._executor.submit(run_training, payload)
        return future

    def restart(self) -> None:
        """Nothing to do: the scheduler repeats the trainings of a worker that died on other workers."""

    def check_workers(self) -> None:
        """Warn once if all workers are gone. Trainings wait for new workers, however long that takes."""
        try:
            workers = self._client.nthreads()
        except OSError:
            # The scheduler is gone, too; the running trainings report that.
            return
        if workers:
            self._without_workers_since = None
            self._has_warned = False
            return
        now = time.monotonic()
        if self._without_workers_since is None:
            self._without_workers_since = now
        if now - self._without_workers_since >= _SECONDS_UNTIL_NO_WORKERS_WARNING and not self._has_warned:
            self._has_warned = True
            self._on_warning(
                f"the cluster at {self._scheduler} has no workers left, so trainings are waiting; start some: "
                f"dask worker {self._scheduler} --nthreads 1 (or stop with Ctrl-C and resume later)"
            )

    def close(self) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()

    def _check_versions(self) -> None:
        """Refuse workers with another version of lmassay, which might train differently."""
        versions = self._client.run(version)
        if not versions:
            raise ConfigError(
                f"--scheduler: the cluster has no workers; start some: dask worker {self._scheduler} --nthreads 1"
            )
        for address, worker_version in versions.items():
            if worker_version != lmassay.__version__:
                raise ConfigError(
                    f"--scheduler: the worker {address} has lmassay {worker_version}, this is {lmassay.__version__}"
                )


def version() -> str:
    """Return the version of lmassay in this process; Dask calls it on every worker."""
    return lmassay.__version__
