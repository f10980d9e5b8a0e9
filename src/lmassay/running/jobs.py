"""Runs jobs on an executor, as many at a time as there are workers; repeats a job whose worker died."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from lmassay.errors import ClusterError
from lmassay.redaction import redact

MAX_WORKER_DEATHS = 2
"""A job is given up after this many of its workers died."""
SCHEDULER_STOPPED = (
    "the Dask scheduler stopped, and what its workers were computing is lost; start it again, then run lmassay resume"
)
"""The message of a run that cannot go on because the scheduler is gone."""
_SECONDS_BETWEEN_WORKER_CHECKS = 2.0

JobFunction = Callable[[dict[str, Any]], Any]
"""What a worker calls with the payload of a job. It must be a function of a module, which a worker can import."""
Resources = Mapping[str, float]
"""What a job needs from its worker, as Dask's workers advertise it: ``{"GPU": 1}``."""
JobType = TypeVar("JobType")


class Executor(Protocol):
    """Runs jobs, possibly several at a time."""

    in_process: bool
    """Whether jobs run in this process, one after the other."""

    def capacity(self, resources: Resources) -> int:
        """Return how many jobs that need these resources can run at the same time; at least 1."""

    def submit(self, function: JobFunction, payload: dict[str, Any], resources: Resources) -> Future[Any]:
        """Start a job. The future raises BrokenExecutor if the worker died while it ran this job."""

    def check_workers(self, resources: Resources) -> None:
        """Warn the user if there is no worker for the jobs; called every few seconds while jobs are running."""

    def close(self) -> None:
        """Stop all workers."""


@dataclass(slots=True)
class _Submission(Generic[JobType]):
    """A job that an executor has received."""

    job: JobType
    payload: dict[str, Any]
    resources: Resources
    worker_deaths: int = 0


@dataclass(frozen=True, slots=True)
class FinishedJob(Generic[JobType]):
    """A job with what its function returned."""

    job: JobType
    """What the caller passed to :meth:`RunningJobs.submit` to recognise the job."""
    result: Any = None
    gave_up: bool = False
    """Whether the job has no result, because :data:`MAX_WORKER_DEATHS` workers died while they ran it."""


@dataclass(slots=True)
class RunningJobs(Generic[JobType]):
    """The jobs of one kind that an executor is running."""

    executor: Executor
    function: JobFunction
    _submissions: dict[Future[Any], _Submission[JobType]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._submissions)

    def has_room(self, resources: Resources) -> bool:
        """Whether another job with these needs would start at once."""
        return len(self) < self.executor.capacity(resources)

    def submit(self, job: JobType, payload: dict[str, Any], resources: Resources) -> None:
        """Start a job: the executor calls ``function`` with the payload. ``job`` is returned with the result."""
        self._submit(_Submission(job, payload, resources))

    def _submit(self, submission: _Submission[JobType]) -> None:
        future = self.executor.submit(self.function, submission.payload, submission.resources)
        self._submissions[future] = submission

    def wait(self) -> Iterator[FinishedJob[JobType]]:
        """Wait until at least one job is finished, and yield all finished jobs; repeat jobs whose worker died.

        Raises ClusterError if the scheduler has stopped, if a job could not be started, or if its result could not be
        sent.
        """
        # Cancelled jobs come last: they raise an error, and the results of the others would be lost.
        for future in sorted(self._wait_for_any(), key=Future.cancelled):
            if future.cancelled():
                raise ClusterError(SCHEDULER_STOPPED)
            submission = self._submissions.pop(future)
            error = future.exception()
            if error is None:
                yield FinishedJob(submission.job, future.result())
                continue
            if not _is_worker_death(error):
                # A job that fails returns a description of its failure. So an exception means that the job did not
                # start, or that its result could not be sent.
                raise ClusterError(f"a worker could not do its work: {redact(repr(error))}") from error
            submission.worker_deaths += 1
            if submission.worker_deaths < MAX_WORKER_DEATHS:
                self._submit(submission)
            else:
                yield FinishedJob(submission.job, gave_up=True)

    def _wait_for_any(self) -> set[Future[Any]]:
        while self._submissions:
            finished, _ = wait(self._submissions, timeout=_SECONDS_BETWEEN_WORKER_CHECKS, return_when=FIRST_COMPLETED)
            if finished:
                return finished
            for submission in self._submissions.values():
                self.executor.check_workers(submission.resources)
        return set()

    def cancel(self) -> None:
        """Give up all jobs that are running, because their results are no longer needed."""
        for future in self._submissions:
            future.cancel()
        self._submissions.clear()


def _is_worker_death(error: BaseException) -> bool:
    # Dask's exception is recognised by its name, because Dask is optional.
    return isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker"
