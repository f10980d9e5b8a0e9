"""All runs of one command: recorded before the first begins, their trainings done side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lmassay.executors import Crew, Order, perform
from lmassay.runner import Plan, Progress, Worker, register
from lmassay.store import RunRecord, Store
from lmassay.types import Request, Response, Train


@dataclass(frozen=True, slots=True)
class Entry:
    """A run of the sweep, planned and recorded."""

    plan: Plan
    record: RunRecord


@dataclass(slots=True)
class Ahead:
    """What came of the trainings that were done before the runs were taken up one by one."""

    done: int = 0
    failed: dict[str, Response] = field(default_factory=dict)


def register_all(plans: Sequence[Plan], store: Store, sweep: str) -> list[Entry]:
    """Record every run, so that a sweep that is killed can be finished from the store alone."""
    return [Entry(plan, register(plan, store, sweep)) for plan in plans]


def wants_training(entries: Sequence[Entry]) -> bool:
    return any(getattr(entry.plan.task, "trains", False) for entry in entries)


def train_ahead(entries: Sequence[Entry], store: Store, crew: Crew, progress: Progress | None = None) -> Ahead:
    """Do all open trainings of all runs at once, as many side by side as the crew has room for.

    A training that several runs ask for is done once. Outcomes are kept as they come; the runs then find them.
    """
    orders: dict[str, Order] = {}
    workers: dict[str, Worker] = {}
    for entry in entries:
        if getattr(entry.plan.task, "trains", False):
            worker = Worker(entry.plan, store, entry.record.id)
            for key, order in worker.orders(_open_trainings(worker)).items():
                orders.setdefault(key, order)
                workers.setdefault(key, worker)
    known = store.cached(orders)
    ahead, total = Ahead(), len(orders) - len(known)
    for key, response in perform(orders, known, crew):
        ahead.done += 1
        if response.usable:
            workers[key].keep(key, orders[key].request, response)
        else:
            ahead.failed[key] = response
        if progress is not None:
            progress(ahead.done, total)
    return ahead


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
