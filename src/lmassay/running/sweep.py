"""All runs of one command: recorded before the first begins, their trainings done side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmassay.running.executors import Executor, TrainingJob, run_jobs
from lmassay.running.runner import Plan, Progress, Worker, begin, record_waiting_runs
from lmassay.storage.store import Store
from lmassay.types import CardPart, Request, Response, RunRecord, Train, TrainingOutcome


@dataclass(frozen=True, slots=True)
class SweepRun:
    """A run of the sweep, planned and recorded."""

    plan: Plan
    record: RunRecord


@dataclass(slots=True)
class PrefetchedTrainings:
    """What came of the trainings that were done before the runs were taken up one by one."""

    done: int = 0
    failed: dict[str, Response] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    """The runs that are done or failed by now: all their trainings were known."""


def record_runs(plans: Sequence[Plan], store: Store, sweep: str, card: CardPart | None = None) -> list[SweepRun]:
    """Record every run, so that a sweep that is killed can be finished from the store alone."""
    return [
        SweepRun(plan, record)
        for plan, record in zip(plans, record_waiting_runs(plans, store, sweep, card), strict=True)
    ]


def trains(plan: Plan) -> bool:
    """Whether a run asks for trainings."""
    return plan.task.trains


def prefetch_trainings(
    entries: Sequence[SweepRun], store: Store, executor: Executor, progress: Progress | None = None
) -> PrefetchedTrainings:
    """Do all open trainings of all runs, as many side by side as the executor has room for.

    A training that several runs ask for is done once. Outcomes are kept as they come, and a run is judged as soon as
    all of its trainings are there.
    """
    orders: dict[str, TrainingJob] = {}
    workers: dict[str, Worker] = {}
    open_keys: dict[str, set[str]] = {}
    for entry in entries:
        if trains(entry.plan):
            worker = Worker(entry.plan, store, entry.record.id)
            found = worker.training_jobs(_open_trainings(worker))
            open_keys[entry.record.id] = set(found)
            for key, order in found.items():
                orders.setdefault(key, order)
                workers.setdefault(key, worker)
    known = _known(store, orders)
    ahead, total = PrefetchedTrainings(), len(orders) - len(known)
    by_run = {entry.record.id: entry for entry in entries}

    def judge(settled: set[str]) -> None:
        for run, keys in list(open_keys.items()):
            keys -= settled
            if not keys:
                del open_keys[run]
                ahead.begun.add(run)
                begin(by_run[run].plan, by_run[run].record, store, failed=ahead.failed)

    judge(set(known))
    for key, response in run_jobs(orders, known, executor):
        ahead.done += 1
        if response.usable:
            workers[key].keep(key, orders[key].request, response)
        else:
            ahead.failed[key] = response
        judge({key})
        if progress is not None:
            progress(ahead.done, total)
    return ahead


def _known(store: Store, orders: Mapping[str, TrainingJob]) -> dict[str, Response]:
    """The outcomes that are there; of those that nothing is built upon, only that they are."""
    there = store.cached_keys(orders)
    handed_on = {key for order in orders.values() if order.key not in there for key in order.after}
    nothing: dict[str, Any] = {}
    return {key: Response(TrainingOutcome(nothing)) for key in there} | store.cached(there & handed_on)


def _open_trainings(worker: Worker) -> Mapping[str, Request]:
    finished = worker.store.finished_ids(worker.run)
    return {
        worker.key(request, example, place): request
        for chunk in worker.chunks()
        for _, example in chunk
        if example.id not in finished
        for place, request in enumerate(worker.task.requests(example))
        if isinstance(request, Train)
    }
