"""Records the runs of one command before the first one starts, and does the trainings that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lmassay.running.jobs import Executor
from lmassay.running.planning import Plan
from lmassay.running.runner import Progress, Worker, begin, record_waiting_runs
from lmassay.running.trainings import TrainingJob, run_trainings
from lmassay.storage.progress import ProgressFile, trainings_of
from lmassay.storage.store import Store
from lmassay.types import CardPart, Request, Response, RunRecord, Train, TrainingOutcome


@dataclass(frozen=True, slots=True)
class SweepRun:
    """A run of a sweep, planned and recorded."""

    plan: Plan
    record: RunRecord


@dataclass(slots=True)
class PrefetchedTrainings:
    """What :func:`prefetch_trainings` did before the runs are processed one by one."""

    done: int = 0
    """The number of trainings that ended in this command, successfully or not."""
    failed: dict[str, Response] = field(default_factory=dict)
    """The trainings that failed, by key; they are not tried again in this command."""
    begun: set[str] = field(default_factory=set)
    """The ids of the runs that were carried out already, because all their trainings were available."""


def record_runs(plans: Sequence[Plan], store: Store, sweep: str, card: CardPart | None = None) -> list[SweepRun]:
    """Record every run of a command, so that a command that is killed can be finished from the store alone.

    ``sweep`` and ``card`` are those of :func:`lmassay.running.runner.record_waiting_runs`.
    """
    records = record_waiting_runs(plans, store, sweep, card)
    return [SweepRun(plan, record) for plan, record in zip(plans, records, strict=True)]


def prefetch_trainings(
    runs: Sequence[SweepRun],
    store: Store,
    executor: Executor,
    progress: Progress | None = None,
    *,
    retry_failed: bool = True,
) -> PrefetchedTrainings:
    """Run all open trainings of all runs, as many at a time as the executor can.

    A training that several runs need is done once. Outcomes are stored as they arrive, and a run is scored as soon as
    all its trainings are there. Without ``retry_failed``, trainings that an earlier command recorded as failed are not
    run: they count as failed with the same message, because a training gives the same result each time.
    """
    training_workers: dict[str, Worker] = {}
    for run in runs:
        if run.plan.task.trains:
            training_workers[run.record.id] = Worker(run.plan, store, run.record.id)
    prefetched = PrefetchedTrainings()
    if not retry_failed:
        # The failures of all runs are collected first: another run may need the same training without having recorded
        # its failure.
        for worker in training_workers.values():
            prefetched.failed |= _failed_trainings(worker)
    jobs: dict[str, TrainingJob] = {}
    # The worker of the first run that needs a training stores its outcome.
    workers: dict[str, Worker] = {}
    # The id of a run → the trainings that it waits for.
    open_keys: dict[str, set[str]] = {}
    for run_id, worker in training_workers.items():
        open_trainings = _open_trainings(worker)
        for key in prefetched.failed:
            open_trainings.pop(key, None)
        jobs_of_run = worker.training_jobs(open_trainings)
        open_keys[run_id] = set(jobs_of_run)
        for key, job in jobs_of_run.items():
            # Several runs may share a training. If one of them keeps the trained model, its job is used.
            if key not in jobs or jobs[key].kept_in is None:
                jobs[key] = job
            workers.setdefault(key, worker)
    outcomes = _stored_outcomes(store, jobs)
    # A failed training can still be among the jobs if an open one depends on it.
    for key in jobs.keys() & prefetched.failed.keys():
        outcomes[key] = prefetched.failed[key]
    total = len(jobs) - len(outcomes)
    by_id = {run.record.id: run for run in runs}

    def begin_complete_runs(finished_keys: set[str]) -> None:
        for run_id, keys in list(open_keys.items()):
            keys -= finished_keys
            if not keys:
                del open_keys[run_id]
                prefetched.begun.add(run_id)
                begin(by_id[run_id].plan, by_id[run_id].record, store, failed=prefetched.failed)

    begin_complete_runs(set(outcomes))
    # The runs wait for these trainings, so their progress is shown as that of the sweep.
    names = {trainings_of(run.record.sweep) for run in runs}
    progress_files = [ProgressFile(store.folder, name) for name in names]
    try:
        for key, response in run_trainings(jobs, outcomes, executor):
            prefetched.done += 1
            if response.usable:
                workers[key].store_response(key, jobs[key].request, response)
            else:
                prefetched.failed[key] = response
            begin_complete_runs({key})
            for file in progress_files:
                file.update(prefetched.done, total)
            if progress is not None:
                progress(prefetched.done, total)
    finally:
        for file in progress_files:
            file.remove()
    return prefetched


def _stored_outcomes(store: Store, jobs: Mapping[str, TrainingJob]) -> dict[str, Response]:
    """Return the outcomes that are already stored.

    Outcomes can be large, so only those that an open job needs are read; the others are replaced by empty outcomes.
    """
    stored_keys = {key for key in store.cached_keys(jobs) if not jobs[key].lacks_kept_model}
    needed_keys: set[str] = set()
    for job in jobs.values():
        if job.key not in stored_keys:
            needed_keys.update(job.earlier_keys)
    outcomes = {key: Response(TrainingOutcome({})) for key in stored_keys}
    outcomes.update(store.cached(stored_keys & needed_keys))
    return outcomes


def _failed_trainings(worker: Worker) -> dict[str, Response]:
    """Return the trainings of a run that an earlier command recorded as failed, by key, with the error.

    Errors are recorded by example. If an example has several trainings, those without a stored outcome count as failed.
    """
    errors: dict[str, str] = {}
    for row in worker.store.rows(worker.run):
        if row.error is not None:
            errors[row.example.id] = row.error
    failed: dict[str, Response] = {}
    for chunk in worker.chunks():
        for _, example in chunk:
            if example.id not in errors:
                continue
            for number, request in enumerate(worker.task.requests(example)):
                if isinstance(request, Train):
                    failed[worker.key(request, example, number)] = Response(error=errors[example.id])
    # Another run of the sweep may have repeated a training successfully in the meantime.
    for key in worker.store.cached_keys(failed):
        del failed[key]
    return failed


def _open_trainings(worker: Worker) -> dict[str, Request]:
    """Return the trainings that the unfinished examples of a run request, by key."""
    finished = worker.store.finished_ids(worker.run)
    trainings: dict[str, Request] = {}
    for chunk in worker.chunks():
        for _, example in chunk:
            for number, request in enumerate(worker.task.requests(example)):
                if not isinstance(request, Train):
                    continue
                key = worker.key(request, example, number)
                # A finished example is trained again only if its model is to be kept and was deleted.
                if example.id not in finished or worker.lacks_kept_model(key, request):
                    trainings[key] = request
    return trainings
