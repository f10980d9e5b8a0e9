"""Send many requests at once: how often each is tried, how many are in flight, which one is next, and when to stop.

:class:`RequestPolicy` says how long a request may take and how often it is tried. :class:`Limiter` lowers the number of
requests in flight when the server rejects some because it is too busy. The executor sends them.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from lmassay.budget import Budget
from lmassay.errors import BudgetReached, ConfigError, FatalModelError, LmassayError
from lmassay.models.api.background import ResultQueue, in_background
from lmassay.models.api.failures import Failure, failure_of, no_connection_message
from lmassay.types import Request, Response

IndexedResponse = tuple[int, Response]
"""The index of a request, and the response to it."""

SendRequest = Callable[[Any], Awaitable[Response]]
"""Sends one request, of the type that the executor was given, and returns the response."""

# How many turns of the event loop it takes until the headers and the body of a started request are sent.
_TURNS_TO_SEND = 3
# After the first answer, key and address are known to be right: from then on, these statuses concern one request only.
# A gateway may redirect single requests, e.g. to a login page; redirects are not followed.
_ABOUT_ONE_REQUEST = frozenset({403, 404, *range(300, 400)})
# Maximum number of seconds between two attempts, before the jitter is added.
_MAX_BACKOFF = 60.0
# After this many failed requests in a row, the run stops: a server that answers nothing is not sent thousands of
# requests, each several times.
MAX_CONSECUTIVE_FAILURES = 50
# Seconds. Rate limits are counted per minute, so a request that the server is too busy for is not given up before more
# than a minute has passed, however often it was tried; after the longer time it is given up in any case.
BUSY_PATIENCE = 90.0
MAX_BUSY_PATIENCE = 300.0
# Seconds. A server that refuses all connections for this long is not restarting, but has stopped.
REFUSED_PATIENCE = 8.0
# The limit on requests in flight at the start, unless the user's concurrency is lower.
_FIRST_LIMIT = 4
# This many answers make up for one rejection: the limit rises while fewer than one request in twenty is rejected.
_ANSWERS_FOR_ONE_MORE = 19
# How far above the concurrency the limit may rise, so that after many answers the first rejections change nothing.
_SPARE_LIMIT = 2.0


# --- how often a request is tried -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The user's settings for all requests to a model."""

    concurrency: int
    """The maximum number of requests in flight."""
    timeout: float
    """Seconds until a response must be complete."""
    tries: int
    """The maximum number of attempts at a request; if the server is too busy, there may be more."""
    wait: float
    """Seconds before the second attempt; the pause doubles with each further attempt."""

    def check(self) -> None:
        """Raise a ConfigError for settings that cannot work."""
        finite = math.isfinite(self.timeout) and math.isfinite(self.wait)
        if self.concurrency < 1 or self.tries < 1 or not finite or self.timeout <= 0 or self.wait < 0:
            raise ConfigError(
                "model: concurrency and tries must be at least 1, timeout above 0 and wait at least 0; all of them "
                "must be finite"
            )

    def pause(self, failure: Failure, tries: int, *, uncounted: int = 0, busy_for: float | None = None) -> float | None:
        """Seconds to wait before a request that failed ``tries`` times is tried again; None to give it up.

        ``uncounted`` of the attempts do not count towards the limit. ``busy_for`` is the time in seconds since the
        server first said that it is too busy.
        """
        used_up = tries - uncounted >= self.tries
        if failure.busy and busy_for is not None:
            used_up = busy_for >= MAX_BUSY_PATIENCE or (used_up and busy_for >= BUSY_PATIENCE)
        if used_up or not failure.retryable:
            return None
        # Exponential backoff with jitter. The exponent is bounded, because 2.0 ** 1024 is an error.
        backoff = min(self.wait * 2.0 ** min(tries - 1, 30), _MAX_BACKOFF)
        backoff += random.uniform(0, self.wait)
        if failure.wait is None:
            return backoff
        if tries == 1:
            return failure.wait
        # The request waited as long as the server asked and was rejected again: that wait was too short.
        return max(failure.wait, backoff / 2)


def with_tries(failure: Failure, tries: int) -> str:
    """The message for a request that was given up."""
    if tries > 1:
        return f"{failure.message} (tried {tries} times)"
    return failure.message


# --- how many requests are in flight ----------------------------------------------------------------------------------


class Limiter:
    """A limit on the requests in flight that adapts to the server, like TCP congestion control.

    The limiter has no clock; callers pass the time.

    Each rejection means "one too many" and lowers the limit by one. Answers raise it again: quickly up to half of what
    it was before the rejection, then slowly. So an occasional rejection changes nothing, and a server that takes three
    requests at a time soon gets three at a time. When as many rejections in a row arrive as requests may be in flight,
    the server rejects everything. Then nothing is sent until the latest time that the server asked for. After that, one
    request is sent alone, as a probe.
    """

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        # May be above the concurrency, see _SPARE_LIMIT.
        self._limit = float(min(concurrency, _FIRST_LIMIT))
        # Below this, each answer raises the limit by one: TCP's slow-start threshold.
        self._fast_growth_until = float(concurrency)
        self._in_flight = 0
        self._sent = 0
        # The latest ticket at the time when `_fast_growth_until` was last lowered.
        self._threshold_ticket = 0
        self._rejected_in_a_row = 0
        self._asked_to_wait_until = -math.inf
        self._held_until = -math.inf
        self._probing = False

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        if self._probing:
            return 1
        return min(self._concurrency, int(self._limit))

    @property
    def probing(self) -> bool:
        """Whether the server rejected everything, so that one request is sent alone as a probe."""
        return self._probing

    @property
    def in_flight(self) -> int:
        """How many requests are in flight now."""
        return self._in_flight

    def wait(self, now: float) -> float:
        """Seconds until a request may be sent: 0 for at once, infinity if another request must come back first."""
        if self._in_flight >= self.limit:
            return math.inf
        return max(0.0, self._held_until - now)

    def sent(self) -> int:
        """Count a request that is sent, and return its ticket: its number in the order of sending.

        If the server rejects the request, the ticket is passed to :meth:`rejected`.
        """
        self._in_flight += 1
        self._sent += 1
        return self._sent

    def answered(self) -> None:
        """Count a request that the server handled."""
        self._in_flight -= 1
        self._rejected_in_a_row = 0
        self._asked_to_wait_until = -math.inf
        self._probing = False
        step = 1.0 if self._limit < self._fast_growth_until else 1 / _ANSWERS_FOR_ONE_MORE
        self._limit = min(self._concurrency + _SPARE_LIMIT, self._limit + step)

    def failed(self) -> None:
        """Count a request that failed for a reason that has nothing to do with how many are in flight."""
        self._in_flight -= 1

    def rejected(self, ticket: int, now: float, wait: float) -> None:
        """Count a request that the server was too busy for and that should be sent again after ``wait`` seconds."""
        self._rejected_in_a_row += 1
        self._asked_to_wait_until = max(self._asked_to_wait_until, now + wait)
        if self._rejected_in_a_row >= self.limit:
            self._held_until = max(self._held_until, self._asked_to_wait_until)
            self._probing = True
        self._in_flight -= 1
        if ticket > self._threshold_ticket:
            # This request was sent after `_fast_growth_until` was last lowered. Requests that were already in flight at
            # that time may be rejected for the same reason, so they do not lower it again.
            self._fast_growth_until = self._limit / 2
            self._threshold_ticket = self._sent
        self._limit = max(1.0, self._limit - 1)


# --- which request is next, and when to stop --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestExecutorOptions:
    """How the executor sends requests."""

    policy: RequestPolicy
    budget: Budget | None = None
    server_has_answered: bool = False
    """Whether the server has answered before; if not, the first request is sent alone."""
    server: str = "the server"
    """The address, for messages."""


def answers_as_they_arrive(
    open_sender: Callable[[], AbstractAsyncContextManager[SendRequest]],
    requests: Sequence[Request],
    options: RequestExecutorOptions,
) -> Iterator[IndexedResponse]:
    """Send all requests, several at a time; yield (index, response) in the order of arrival.

    One request is sent first, so that a wrong key or address fails at the first call. At most ``concurrency`` requests
    are in flight, or answered but not yet taken by the consumer: a crash can lose only the answers to these. A request
    that has to wait does not keep others from being sent. If the budget or a fatal error ends the work early, the
    answers to requests in flight are still yielded before the error is raised.
    """

    async def work(results: ResultQueue[IndexedResponse]) -> None:
        async with open_sender() as send:
            await _Executor(send, requests, options, results).work()

    return in_background(work)


@dataclass(order=True, slots=True)
class _Job:
    """A request that is not answered yet. Jobs that wait are sorted by the time at which they are due."""

    due: float
    """When it may be sent, by the clock of the event loop; 0 for a request that was not tried yet."""
    index: int
    request: Request = field(compare=False)
    tries: int = field(default=0, compare=False)
    busy_tries: int = field(default=0, compare=False)
    """Attempts for which the server was too busy."""
    probe_tries: int = field(default=0, compare=False)
    """How many of ``busy_tries`` were sent alone, as a probe."""
    busy_since: float = field(default=math.inf, compare=False)
    """When the server first was too busy for it, by the clock of the event loop."""


class _Executor:
    """Sends the requests of one call; all of its methods run in the event loop."""

    def __init__(
        self,
        send: SendRequest,
        requests: Sequence[Request],
        options: RequestExecutorOptions,
        results: ResultQueue[IndexedResponse],
    ) -> None:
        self._send_request = send
        self._results = results
        self._policy = options.policy
        self._budget = options.budget
        self._server = options.server
        # Whether any request has its final response, an answer or an error. Until then, one is sent at a time.
        self._has_response = options.server_has_answered
        # Whether a connection to the server could be made.
        self._has_connected = options.server_has_answered
        # Whether there was a response without an error.
        self._has_succeeded = options.server_has_answered
        self._limiter = Limiter(options.policy.concurrency)
        self._new_jobs = iter(_Job(0.0, index, request) for index, request in enumerate(requests))
        self._next: _Job | None = next(self._new_jobs, None)
        self._waiting: list[_Job] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # Requests in flight, or answered and not yet taken by the consumer.
        self._unsaved = 0
        # How many requests in a row were given up.
        self._failed_in_a_row = 0
        # How many attempts in a row failed temporarily for another reason than a busy server.
        self._broken_in_a_row = 0
        # Since when all connections have been refused, by the clock of the event loop.
        self._refused_since = math.inf
        self._ending: LmassayError | None = None
        self._bug: Exception | None = None
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        results.taken = self._on_taken

    async def work(self) -> None:
        """Send requests until all are answered or something ends the work."""
        try:
            while not self._finished():
                self._changed.clear()
                wait = self._send_next()
                if wait == 0:
                    # Let this request go out before the next one is prepared. If the event loop prepared several of
                    # them in turns, all would be sent only when the last one is ready.
                    for _ in range(_TURNS_TO_SEND):
                        await asyncio.sleep(0)
                elif not self._finished():
                    await self._wait_for_change(wait)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ending is not None:
            raise self._ending

    def _finished(self) -> bool:
        """Whether there is nothing left to do. Raises the exception of a request if it was a bug."""
        if self._bug is not None:
            raise self._bug
        if self._tasks:
            return False
        return self._ending is not None or (self._next is None and not self._waiting)

    def _send_next(self) -> float:
        """Send a request and return 0. If none can be sent now, return the seconds until one can.

        Infinity means that another request has to come back first.
        """
        now = self._loop.time()
        if self._ending is not None or self._unsaved >= self._policy.concurrency:
            return math.inf
        if self._tasks and not self._has_response:
            return math.inf
        wait = self._limiter.wait(now)
        if wait:
            return wait
        job = self._take_due(now)
        if job is None:
            return self._waiting[0].due - now if self._waiting else math.inf
        # What the unsaved requests cost is not known yet, so `allows` assumes the average cost for each of them.
        if self._budget is not None and not self._budget.allows(self._unsaved):
            self._put_back(job)
            if self._unsaved == 0:
                self._ending = BudgetReached(f"the budget is used up: {self._budget.describe()}")
            return math.inf
        self._send(job)
        return 0.0

    def _take_due(self, now: float) -> _Job | None:
        """The job to send now; None if there is none.

        Jobs that failed before come first, and among them the one that was tried most often.
        """
        due = []
        while self._waiting and self._waiting[0].due <= now:
            due.append(heapq.heappop(self._waiting))
        if due:
            chosen = max(due, key=lambda job: job.tries)
            for job in due:
                if job is not chosen:
                    heapq.heappush(self._waiting, job)
            return chosen
        if self._waiting:
            # Until there is a response to the first request, no other is sent, even if the first one has to wait.
            if not self._has_response:
                return None
            # If the server fails all requests, no new ones are started while ``concurrency`` of them are unanswered.
            concurrency = self._policy.concurrency
            unanswered = len(self._waiting) + len(self._tasks)
            if unanswered >= concurrency and self._broken_in_a_row >= concurrency:
                return None
        new_job = self._next
        self._next = next(self._new_jobs, None)
        return new_job

    def _put_back(self, job: _Job) -> None:
        heapq.heappush(self._waiting, job)

    def _send(self, job: _Job) -> None:
        self._unsaved += 1
        job.tries += 1
        is_probe = self._limiter.probing
        task = self._loop.create_task(self._try(job, self._limiter.sent(), is_probe))
        self._tasks.add(task)
        task.add_done_callback(self._on_returned)

    async def _try(self, job: _Job, ticket: int, is_probe: bool) -> None:
        """Send a request once, and decide what follows if that fails."""
        try:
            failure = await self._attempt(job)
            if failure is not None:
                self._on_failure(job, ticket, failure, is_probe)
        except Exception as bug:
            # Not a failure of the network, so it is shown with its traceback. No request may be lost silently.
            self._bug = self._bug or bug

    async def _attempt(self, job: _Job) -> Failure | None:
        """Send a request once and pass the response on. Returns the failure if there is no response."""
        try:
            # The client's own timeouts start again with every byte, so a server that sends a byte now and then would
            # never time out.
            async with asyncio.timeout(self._policy.timeout):
                response = await self._send_request(job.request)
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
            return failure
        self._broken_in_a_row = 0
        self._refused_since = math.inf
        self._limiter.answered()
        self._answer(job, response)
        return None

    def _on_failure(self, job: _Job, ticket: int, failure: Failure, is_probe: bool) -> None:
        """Decide what follows from a failed attempt: another attempt, an error as the response, or the end of all."""
        if failure.unreachable and not self._has_connected:
            # Nothing ever answered at this address: every further request would fail in the same way, slowly.
            failure = Failure(no_connection_message(self._server, failure), fatal=True)
        failure = self._fatal_if_refused_for_long(failure)
        self._has_connected = self._has_connected or not failure.unreachable
        if self._has_succeeded and failure.status in _ABOUT_ONE_REQUEST:
            failure = replace(failure, fatal=False)
        pause = self._pause(job, failure, is_probe)
        if failure.busy:
            self._limiter.rejected(ticket, self._loop.time(), pause or failure.wait or 0.0)
        elif failure.finish is not None:
            self._limiter.answered()
        else:
            if failure.retryable:
                self._broken_in_a_row += 1
            self._limiter.failed()
        if failure.fatal:
            self._unsaved -= 1
            self._ending = self._ending or FatalModelError(failure.message)
        elif failure.finish is not None:
            self._answer(job, Response(finish=failure.finish))
        elif pause is None:
            self._answer(job, Response(error=with_tries(failure, job.tries)))
        else:
            self._unsaved -= 1
            job.due = self._loop.time() + pause
            self._put_back(job)

    def _fatal_if_refused_for_long(self, failure: Failure) -> Failure:
        """Make a refused connection fatal if all connections have been refused for too long.

        A restart of the server takes seconds. If it takes longer, the server has stopped, and retries are useless.
        """
        if not failure.refused:
            self._refused_since = math.inf
            return failure
        self._refused_since = min(self._refused_since, self._loop.time())
        if self._loop.time() - self._refused_since < REFUSED_PATIENCE:
            return failure
        message = f"the server at {self._server} has stopped: {failure.message} for {REFUSED_PATIENCE:.0f} seconds"
        return Failure(f"{message}; start it again", fatal=True)

    def _pause(self, job: _Job, failure: Failure, is_probe: bool) -> float | None:
        """Seconds until the next attempt; None to give the request up."""
        if not failure.busy:
            # Attempts for which the server was too busy say nothing about this request.
            return self._policy.pause(failure, job.tries, uncounted=job.busy_tries)
        now = self._loop.time()
        job.busy_tries += 1
        if is_probe:
            job.probe_tries += 1
        job.busy_since = min(job.busy_since, now)
        busy_for = now - job.busy_since
        # A probe tests the server, not this request, so it does not count towards the request's limit.
        return self._policy.pause(failure, job.tries, uncounted=job.probe_tries, busy_for=busy_for)

    def _answer(self, job: _Job, response: Response) -> None:
        """Pass the final response to a request, an answer or an error, to the consumer."""
        self._has_response = True
        self._has_connected = True
        self._results.put((job.index, response))
        if response.error is None:
            self._has_succeeded = True
            self._failed_in_a_row = 0
            return
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= MAX_CONSECUTIVE_FAILURES and self._ending is None:
            self._ending = FatalModelError(
                f"{self._failed_in_a_row} requests in a row failed, the last one with: {response.error}"
            )

    def _on_returned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()

    def _on_taken(self, _: IndexedResponse) -> None:
        self._unsaved -= 1
        self._changed.set()

    async def _wait_for_change(self, seconds: float) -> None:
        """Wait until a request came back or its answer was taken, but at most this long."""
        alarm = None
        if seconds != math.inf:
            alarm = self._loop.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
