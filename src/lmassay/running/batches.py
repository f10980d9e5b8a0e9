"""Requests to local models as jobs: cut into batches, answered by workers, returned to the process that stores them.

Requests that begin with the same text are cheaper together, because a model reads the common beginning once. Batches
are therefore cut from the sorted requests, where neighbours have little in common.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lmassay
from lmassay.contracts import Model, ask
from lmassay.errors import ClusterError, LmassayError
from lmassay.redaction import redact
from lmassay.running.jobs import MAX_WORKER_DEATHS, Executor, Resources, RunningJobs
from lmassay.running.worker_model import WORK_LOCK, ModelDescription, answering_model, keep_freed_memory
from lmassay.types import Generate, LogProbs, Request, Response, Slot, Substitute, canonical

# Batches get smaller towards the end, so that all workers end at about the same time. The smallest ones are this part
# of a worker's share; fewer and larger ones are made if too much text would have to be read again because of the cuts.
_SMALLEST_PARTS = (16, 4, 1)
_MAX_REPEATED_SHARE = 0.05
# Characters. Smaller batches would leave a model's own batches half empty; larger ones would take long to repeat.
_MIN_BATCH_COST = 2048
_MAX_BATCH_COST = 65536
_CHARACTERS_PER_TOKEN = 4
# The fixed cost of a request, in characters.
_COST_OF_REQUEST = 8
# A batch may end within this part of its target size.
_EARLIEST_CUT, _LATEST_CUT = 0.75, 1.25


# --- on a worker ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a worker returns for a batch of requests."""

    responses: list[tuple[int, Response]]
    """The responses with the positions of their requests in the batch; not all of them if there was an error."""
    error: str = ""
    """Why the worker could not answer the rest; it concerns all requests, so the run stops."""


def answer_batch(payload: Mapping[str, Any]) -> BatchOutcome:
    """Answer a batch of requests with the model of this worker process."""
    keep_freed_memory()
    responses: list[tuple[int, Response]] = []
    with WORK_LOCK:
        try:
            _check_version(payload["version"])
            model = answering_model(payload["model"], payload["identity"])
            for number, response in ask(model, payload["verb"], payload["requests"]):
                if response.error is not None:
                    response = replace(response, error=redact(response.error))
                responses.append((number, response))
        except LmassayError as error:
            # As text: an exception with its own parameters cannot be sent to another process.
            return BatchOutcome(responses, f"worker {worker_name()}: {error}")
    return BatchOutcome(responses)


def _check_version(of_client: str) -> None:
    """Refuse a job of another version. Workers are compared at the beginning, but others may join later."""
    if of_client != lmassay.__version__:
        raise ClusterError(f"this worker has lmassay {lmassay.__version__}, the run uses {of_client}; install the same")


def worker_name() -> str:
    """Return how messages name this process."""
    return f"{socket.gethostname()}, process {os.getpid()}"


# --- in the process that runs the evaluation --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerModel:
    """A model whose requests are answered by the workers of an executor."""

    model: Model
    description: ModelDescription
    executor: Executor

    @property
    def workers(self) -> int:
        """The present number of workers that can have this model."""
        return self.executor.capacity(self.resources)

    @property
    def resources(self) -> Resources:
        """What the model needs from a worker."""
        return self.model.resources

    def ask(self, verb: str, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Yield (request number, response) for each request, in batches as they are answered."""
        payload = {
            "version": lmassay.__version__,
            "model": self.description.as_dict(),
            "identity": canonical(dict(self.model.identity())),
            "verb": verb,
        }
        waiting = deque(cut_into_batches(requests, self.workers))
        running: RunningJobs[list[int]] = RunningJobs(self.executor, answer_batch)

        def submit_as_many_as_possible() -> None:
            while waiting and running.has_room(self.resources):
                batch = waiting.popleft()
                batch_payload = {**payload, "requests": [requests[number] for number in batch]}
                running.submit(batch, batch_payload, self.resources)

        try:
            submit_as_many_as_possible()
            while len(running):
                for finished in running.wait():
                    # First, so that no worker is idle while the responses are stored.
                    submit_as_many_as_possible()
                    batch = finished.job
                    if finished.gave_up:
                        yield from _give_up(batch)
                        continue
                    outcome: BatchOutcome = finished.result
                    for position, response in outcome.responses:
                        yield batch[position], response
                    if outcome.error:
                        raise ClusterError(outcome.error)
        finally:
            running.cancel()


def _give_up(batch: Sequence[int]) -> Iterator[tuple[int, Response]]:
    message = (
        f"the worker that answered this request and {len(batch) - 1} others died {MAX_WORKER_DEATHS} times; "
        "was it out of memory?"
    )
    for number in batch:
        yield number, Response(error=message)


# --- batches that follow shared prefixes ------------------------------------------------------------------------------


def cut_into_batches(requests: Sequence[Request], workers: int) -> list[list[int]]:
    """Return the numbers of the requests in each batch, large batches first.

    Requests with a common beginning stay together.
    """
    order = sorted(range(len(requests)), key=lambda number: _sort_key(requests[number]))
    # For each request in order: how many characters it shares with the one before, and what it costs after that one.
    shared: list[int] = []
    costs: list[int] = []
    previous = ""
    for number in order:
        text = _text(requests[number])
        common = _common_prefix(previous, text)
        shared.append(common)
        costs.append(len(text) - common + _cost_of_answer(requests[number]))
        previous = text
    total = sum(costs)
    ends: list[int] = []
    for part in _SMALLEST_PARTS:
        smallest = max(_MIN_BATCH_COST, total / (workers * part))
        ends = _ends(costs, shared, workers, smallest)
        repeated = sum(shared[end] for end in ends[:-1])
        if repeated <= _MAX_REPEATED_SHARE * total:
            break
    batches = []
    start = 0
    for end in ends:
        batches.append(order[start:end])
        start = end
    return batches


def _ends(costs: Sequence[int], shared: Sequence[int], workers: int, smallest: float) -> list[int]:
    """Return where each batch ends: each is half of a worker's share of what remains, but not below ``smallest``."""
    ends: list[int] = []
    start = 0
    remaining = sum(costs)
    while start < len(costs):
        target = min(max(smallest, remaining / (2 * workers)), _MAX_BATCH_COST)
        end = _best_end(costs, shared, start, target)
        ends.append(end)
        remaining -= sum(costs[start:end])
        start = end
    return ends


def _best_end(costs: Sequence[int], shared: Sequence[int], start: int, target: float) -> int:
    """Return where a batch of about the target cost ends: where two neighbours share least."""
    cost = 0
    best_end = 0
    for end in range(start + 1, len(costs)):
        cost += costs[end - 1]
        if best_end and cost > _LATEST_CUT * target:
            return best_end
        if cost >= _EARLIEST_CUT * target and (not best_end or shared[end] < shared[best_end]):
            best_end = end
    is_small_rest = cost <= _LATEST_CUT * target
    return len(costs) if is_small_rest or not best_end else best_end


def _sort_key(request: Request) -> tuple[Any, ...]:
    if isinstance(request, Generate):
        # A model generates answers with the same settings together.
        return (bool(request.choices), request.temperature, request.max_tokens, request.stop, _text(request))
    return (_text(request),)


def _text(request: Request) -> str:
    """Return what a model reads, from the left."""
    if isinstance(request, Slot):
        return f"{request.left} {request.right}"
    if isinstance(request, Substitute):
        return f"{request.left}{request.text}{request.right}"
    assert isinstance(request, Generate | LogProbs)
    parts = [f"{role}: {content}\n" for role, content in request.messages]
    if isinstance(request, Generate):
        parts.append(request.prompt)
    else:
        parts += [request.context, request.continuation]
    return "".join(parts)


def _cost_of_answer(request: Request) -> int:
    cost = _COST_OF_REQUEST
    if isinstance(request, Generate):
        if request.choices:
            cost += sum(map(len, request.choices))
        else:
            cost += _CHARACTERS_PER_TOKEN * request.max_tokens
    return cost


def _common_prefix(first: str, second: str) -> int:
    """Return how many characters two texts share at the beginning, by bisection: comparing slices is fast."""
    shared = 0
    limit = min(len(first), len(second))
    while shared < limit:
        middle = (shared + limit + 1) // 2
        if first[shared:middle] == second[shared:middle]:
            shared = middle
        else:
            limit = middle - 1
    return shared
