"""Send requests to local models as jobs: batches of requests that workers answer.

The responses are returned to the process that runs the evaluation, which stores them.

Requests that begin with the same text are cheaper in one batch, because a model reads the common beginning once. The
requests are therefore sorted, and a batch ends where two consecutive requests have little in common.
"""

from __future__ import annotations

import math
import os
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lmassay
from lmassay.contracts import Model, ask
from lmassay.errors import ClusterError, LmassayError, PluginError, error_with_location
from lmassay.plugins.declarations import expected_message
from lmassay.redaction import redact
from lmassay.running.jobs import MAX_WORKER_DEATHS, Executor, Resources, RunningJobs
from lmassay.running.worker_model import ModelDescription, check_version, model_of_run
from lmassay.running.worker_process import JobCancelled, undisturbed_job
from lmassay.types import Generate, LogProbs, Request, Response, Slot, Substitute, canonical

# Batches get smaller towards the end, so that all workers end at about the same time. The smallest ones are a worker's
# share of all requests divided by 16. But cutting between two requests means that their common beginning is read twice.
# If this affects more than _MAX_REPEATED_SHARE of the text, the smallest batches are larger: a worker's share divided
# by 4, or the whole share.
_SMALLEST_PARTS = (16, 4, 1)
_MAX_REPEATED_SHARE = 0.05
# The cost of a batch is counted in characters. Smaller batches would leave the batches that a model itself forms half
# empty; larger ones would take long to repeat if a worker dies.
_MIN_BATCH_COST = 2048
_MAX_BATCH_COST = 65536
# When a model generates text, a batch that slightly exceeds what the model processes at once takes nearly twice as
# long. The number of tokens of a text is only an estimate, so only this part of what it processes at once is filled.
_FILLED_PART = 0.9
_CHARACTERS_PER_TOKEN = 4
# If this many batches are given up before any is answered, the requests are not the reason: the model does not fit into
# the memory of a worker.
_MAX_GIVEN_UP = 3
_NO_WORKER_SURVIVES = (
    "every worker died before it had answered a single batch; is there enough memory for the model? Dask also stops a "
    "worker that exceeds its memory limit: start workers with --memory-limit 0"
)
# The fixed cost of a request, in characters.
_COST_OF_REQUEST = 8
# A batch may end when its cost is between these multiples of its target cost.
_EARLIEST_CUT = 0.75
_LATEST_CUT = 1.25
# The same for batches that are meant to be equal: there are few of them, so unequal ones would leave workers idle.
_EARLIEST_EQUAL_CUT = 0.97
_LATEST_EQUAL_CUT = 1.03


# --- on a worker ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a worker returns for a batch of requests."""

    responses: list[tuple[int, Response]]
    """The responses, each with the position of its request in the batch; incomplete if there was an error."""
    error: str = ""
    """Why the worker could not answer all requests; empty if it could. The other requests would fail in the same way,
    so the run stops."""


def answer_batch(payload: Mapping[str, Any]) -> BatchOutcome:
    """Answer a batch of requests with the model of this worker process."""
    responses: list[tuple[int, Response]] = []
    try:
        with undisturbed_job() as raise_if_cancelled:
            check_version(payload["version"])
            model = model_of_run(payload["model"], payload["identity"])
            for number, response in ask(model, payload["verb"], payload["requests"]):
                raise_if_cancelled()
                if response.error is not None:
                    response = replace(response, error=redact(response.error))
                responses.append((number, response))
    except JobCancelled:
        return BatchOutcome([], "the batch was cancelled")
    except BaseException as error:
        return BatchOutcome(responses, f"worker {worker_name()}: {_reason(error)}")
    return BatchOutcome(responses)


def _reason(error: BaseException) -> str:
    """Describe in a text why a batch failed.

    The exception itself is not returned or raised, for three reasons: one whose class has its own parameters cannot be
    sent to another process, Dask would write the texts of the job to its log, and SystemExit would end the worker as if
    it had died.
    """
    if isinstance(error, LmassayError):
        return str(error)
    if isinstance(error, SystemExit | KeyboardInterrupt):
        return f"the model tried to exit the program ({type(error).__name__})"
    return redact(error_with_location(error))


def worker_name() -> str:
    """Return the name of this process in messages: the host and the process id."""
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
        """The current number of workers that can hold this model."""
        return self.executor.capacity(self.resources)

    @property
    def resources(self) -> Resources:
        """What the model needs from a worker."""
        return self.model.resources

    def _decoding_tokens(self, verb: str) -> int:
        """Return how many tokens the model processes together; 0 if the requests do not generate text."""
        if verb != Generate.verb:
            return 0
        tokens = self.model.decoding_tokens
        if not isinstance(tokens, int) or tokens < 0:
            message = expected_message("decoding_tokens", "a whole number, 0 or more", tokens)
            raise PluginError(f"the model {self.model.name}: {message}")
        return tokens

    def ask(self, verb: str, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
        """Yield (request number, response) for each request, in batches as they are answered.

        If the workers of a batch died, its requests get an error as response. Raises ClusterError if a worker reports
        an error of the model, or if the workers died in all of the first batches.
        """
        payload = {
            "version": lmassay.__version__,
            "model": self.description.as_dict(),
            "identity": canonical(dict(self.model.identity())),
            "verb": verb,
        }
        waiting = deque(cut_into_batches(requests, self.workers, self._decoding_tokens(verb)))
        running: RunningJobs[list[int]] = RunningJobs(self.executor, answer_batch)

        def submit_as_many_as_possible() -> None:
            while waiting and running.has_room(self.resources):
                batch = waiting.popleft()
                batch_payload = {**payload, "requests": [requests[number] for number in batch]}
                running.submit(batch, batch_payload, self.resources)

        given_up = 0
        answered = 0
        try:
            submit_as_many_as_possible()
            while len(running):
                for finished in running.wait():
                    # This comes first, so that no worker is idle while the caller stores the responses.
                    submit_as_many_as_possible()
                    batch = finished.job
                    if finished.gave_up:
                        given_up += 1
                        if given_up == _MAX_GIVEN_UP and not answered:
                            raise ClusterError(_NO_WORKER_SURVIVES)
                        yield from _give_up(batch)
                        continue
                    answered += 1
                    outcome: BatchOutcome = finished.result
                    for position, response in outcome.responses:
                        yield batch[position], response
                    if outcome.error:
                        raise ClusterError(outcome.error)
        finally:
            running.cancel()


def _give_up(batch: Sequence[int]) -> Iterator[tuple[int, Response]]:
    """Yield an error as the response to each request of a batch whose workers died."""
    message = (
        f"the worker died {MAX_WORKER_DEATHS} times while answering this request (batch of {len(batch)}); "
        "was it out of memory?"
    )
    for number in batch:
        yield number, Response(error=message)


# --- batches that follow shared prefixes ------------------------------------------------------------------------------


def cut_into_batches(requests: Sequence[Request], workers: int, decoding_tokens: int = 0) -> list[list[int]]:
    """Return the numbers of the requests in each batch, large batches first.

    Requests with a common beginning stay together. ``decoding_tokens`` is how many tokens of prompts and answers the
    model processes together when it generates.
    """
    order = sorted(range(len(requests)), key=lambda number: _sort_key(requests[number]))
    # For each request in order: how many characters it shares with the previous one, and its cost in characters if the
    # shared ones have been read already.
    shared: list[int] = []
    costs: list[int] = []
    previous = ""
    for number in order:
        text = _text(requests[number])
        common = _common_prefix(previous, text)
        shared.append(common)
        costs.append(len(text) - common + _cost_of_answer(requests[number]))
        previous = text
    if decoding_tokens and any(_is_decoded(request) for request in requests):
        ends = _equal_ends(costs, shared, workers, decoding_tokens)
    else:
        ends = _decreasing_ends(costs, shared, workers)
    batches = []
    start = 0
    for end in ends:
        batches.append(order[start:end])
        start = end
    return batches


def _decreasing_ends(costs: Sequence[int], shared: Sequence[int], workers: int) -> list[int]:
    """Return where each batch ends if batches get smaller towards the end.

    Requests that share a beginning may end up in different batches, whose workers then read it again. The minimum size
    of a batch is increased until only little text is read again.
    """
    total = sum(costs)
    ends: list[int] = []
    for part in _SMALLEST_PARTS:
        smallest = max(_MIN_BATCH_COST, total / (workers * part))
        ends = _ends(costs, shared, workers, smallest)
        repeated = sum(shared[end] for end in ends[:-1])
        if repeated <= _MAX_REPEATED_SHARE * total:
            break
    return ends


def _ends(costs: Sequence[int], shared: Sequence[int], workers: int, smallest: float) -> list[int]:
    """Return where each batch ends: its cost is half of a worker's share of what remains, but at least ``smallest``."""
    ends: list[int] = []
    start = 0
    remaining = sum(costs)
    while start < len(costs):
        target = min(max(smallest, remaining / (2 * workers)), _MAX_BATCH_COST)
        end = _best_end(costs, shared, start, target, _EARLIEST_CUT, _LATEST_CUT)
        ends.append(end)
        remaining -= sum(costs[start:end])
        start = end
    return ends


def _equal_ends(costs: Sequence[int], shared: Sequence[int], workers: int, decoding_tokens: int) -> list[int]:
    """Return where each batch ends if all workers get the same number of batches of about the same cost.

    A batch is nearly as large as what the model processes at once (``decoding_tokens``). Each step of generation reads
    all weights of the model, whether for few requests or for many, so two half-full batches take nearly twice as long
    as a full one.
    """
    total = sum(costs)
    full_batch = _FILLED_PART * _CHARACTERS_PER_TOKEN * decoding_tokens
    batches_per_worker = math.ceil(total / workers / full_batch)
    most_batches = max(1, total // _MIN_BATCH_COST)
    batches_left = min(workers * batches_per_worker, most_batches)
    ends: list[int] = []
    start = 0
    remaining = total
    while start < len(costs):
        target = remaining / max(1, batches_left)
        end = _best_end(costs, shared, start, target, _EARLIEST_EQUAL_CUT, _LATEST_EQUAL_CUT)
        ends.append(end)
        remaining -= sum(costs[start:end])
        start = end
        batches_left -= 1
    return ends


def _best_end(
    costs: Sequence[int], shared: Sequence[int], start: int, target: float, earliest: float, latest: float
) -> int:
    """Return where a batch of about the target cost ends: between the two consecutive requests that share least.

    The cost of the batch is between ``earliest`` and ``latest`` times the target. If no request ends there, the batch
    ends after the first request beyond.
    """
    cost = 0
    best_end = 0
    for end in range(start + 1, len(costs)):
        cost += costs[end - 1]
        if best_end and cost > latest * target:
            return best_end
        if cost >= earliest * target and (not best_end or shared[end] < shared[best_end]):
            best_end = end
    # The loop has reached the last request.
    fits_in_one_batch = cost <= latest * target
    if fits_in_one_batch or not best_end:
        return len(costs)
    return best_end


def _sort_key(request: Request) -> tuple[Any, ...]:
    if isinstance(request, Generate):
        # A model generates answers with the same settings together.
        return (bool(request.choices), request.temperature, request.max_tokens, request.stop, _text(request))
    return (_text(request),)


def _text(request: Request) -> str:
    """Return the text that a model reads for a request, from its beginning."""
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
    """Return the cost of a request in characters, apart from reading its text."""
    cost = _COST_OF_REQUEST
    if isinstance(request, Generate):
        if _is_decoded(request):
            cost += _CHARACTERS_PER_TOKEN * request.max_tokens
        else:
            cost += sum(map(len, request.choices))
    return cost


def _is_decoded(request: Request) -> bool:
    """Whether the model writes the answer token by token; otherwise it chooses or scores."""
    return isinstance(request, Generate) and not request.choices


def _common_prefix(first: str, second: str) -> int:
    """Return how many characters two texts share at the beginning.

    It is found by bisection, because comparing slices is much faster than comparing characters one by one.
    """
    shared = 0
    limit = min(len(first), len(second))
    while shared < limit:
        middle = (shared + limit + 1) // 2
        if first[shared:middle] == second[shared:middle]:
            shared = middle
        else:
            limit = middle - 1
    return shared
