"""Many requests at once: how often each is tried, how many are out at a time, who goes next, and when to stop.

:class:`RequestPolicy` says how long a request may take and how often it is tried; the SDKs' own retries are off.
:class:`Limiter` lowers the number of requests that are out when the server refuses some. The executor sends them.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from lmassay.budget import Budget
from lmassay.errors import BudgetReached, ConfigError, FatalModelError, LmassayError
from lmassay.models.api.background import ResultQueue, in_background
from lmassay.models.api.failures import Failure, failure_of
from lmassay.types import Generate, Response

Answered = tuple[int, Response]
Ask = Callable[[Generate], Awaitable[Response]]
# Turns of the event loop until a request that was begun is on its way, headers and body.
_TURNS_TO_GO_OUT = 3
# Key and address are known to be good once there was an answer: then these are about one request.
_ABOUT_ONE_REQUEST = (403, 404)
_LONGEST_BACKOFF = 60.0
# A server that answers nobody is not asked thousands of questions, each several times.
MOST_FAILURES_IN_A_ROW = 50
# Limits are counted by the minute: who is told to come later is not given up before more than one has passed, however
# often it came, but in any case after the longer time.
BUSY_PATIENCE = 90.0
LONGEST_BUSY_PATIENCE = 300.0
_FIRST_LIMIT = 4
# So many answers make up for one refusal: where fewer than one request in twenty is refused, the limit rises.
_ANSWERS_FOR_ONE_MORE = 19
_FORGIVEN = 2.0


# --- how often a request is tried -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The one policy for all requests of a model."""

    concurrency: int
    timeout: float
    tries: int
    wait: float

    def check(self) -> None:
        finite = math.isfinite(self.timeout) and math.isfinite(self.wait)
        if self.concurrency < 1 or self.tries < 1 or not finite or self.timeout <= 0 or self.wait < 0:
            told = "concurrency and tries must be at least 1, timeout above 0, wait at least 0, and all of them finite"
            raise ConfigError(f"model: {told}")

    def pause(self, failure: Failure, tries: int, *, uncounted: int = 0, busy_for: float | None = None) -> float | None:
        """Seconds until a request that was tried so often is tried again; None to give it up.

        ``uncounted`` tries are no reason to give up; ``busy_for`` is the time since the server was first too busy.
        """
        enough = tries - uncounted >= self.tries
        if failure.busy and busy_for is not None:
            enough = busy_for >= LONGEST_BUSY_PATIENCE or (enough and busy_for >= BUSY_PATIENCE)
        if enough or not failure.passing:
            return None
        backoff = min(self.wait * 2.0 ** min(tries - 1, 30), _LONGEST_BACKOFF) + random.uniform(0, self.wait)
        if failure.wait is None:
            return backoff
        # Who did as the server asked and was refused again was told too short a time.
        return failure.wait if tries == 1 else max(failure.wait, backoff / 2)


def in_words(failure: Failure, tries: int) -> str:
    """The reason why a request was given up."""
    return f"{failure.told} (tried {tries} times)" if tries > 1 else failure.told


# --- how many requests are out ----------------------------------------------------------------------------------------


class Limiter:
    """A limit that adapts, as congestion control does. It knows no clock: the time is told.

    Each refusal says "one too many" and lowers the limit by one; answers raise it again slowly, but quickly up to half
    of what it was before. One refusal now and then thus changes nothing, a server that takes three at a time is soon
    asked three at a time. When as many refusals come in a row as requests may be out, the server refuses everybody:
    nothing is sent until the latest time that it asked for, and then one request alone, to see.
    """

    def __init__(self, concurrency: int) -> None:
        self._most = concurrency
        # May be more than the concurrency: after a long time of peace, the first refusals are forgiven.
        self._limit = float(min(concurrency, _FIRST_LIMIT))
        self._known_good = float(concurrency)
        self._in_flight = 0
        self._sent = 0
        self._lowered_at = 0
        self._refused_in_a_row = 0
        self._asked_to_wait = -math.inf
        self._held_until = -math.inf
        self._trying = False

    @property
    def limit(self) -> int:
        return 1 if self._trying else min(self._most, int(self._limit))

    @property
    def trying(self) -> bool:
        """Everybody was refused; one request goes alone, to see."""
        return self._trying

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def wait(self, now: float) -> float:
        """Seconds until a request may go out: 0 for at once, infinity for when another one has come back."""
        if self._in_flight >= self.limit:
            return math.inf
        return max(0.0, self._held_until - now)

    def sent(self) -> int:
        """A request goes out; the ticket is to be given back if it is refused."""
        self._in_flight += 1
        self._sent += 1
        return self._sent

    def answered(self) -> None:
        self._in_flight -= 1
        self._refused_in_a_row = 0
        self._asked_to_wait = -math.inf
        self._trying = False
        step = 1.0 if self._limit < self._known_good else 1 / _ANSWERS_FOR_ONE_MORE
        self._limit = min(self._most + _FORGIVEN, self._limit + step)

    def failed(self) -> None:
        """A request came to nothing for a reason that has nothing to do with how many are out."""
        self._in_flight -= 1

    def refused(self, ticket: int, now: float, wait: float) -> None:
        """The server said that it is too much, and that this request should come again after ``wait`` seconds."""
        self._refused_in_a_row += 1
        self._asked_to_wait = max(self._asked_to_wait, now + wait)
        if self._refused_in_a_row >= self.limit:
            self._held_until = max(self._held_until, self._asked_to_wait)
            self._trying = True
        self._in_flight -= 1
        if ticket > self._lowered_at:
            # The first refusal among the requests that are out now; the others speak of the same moment.
            self._known_good = self._limit / 2
            self._lowered_at = self._sent
        self._limit = max(1.0, self._limit - 1)


# --- who goes next, and when to stop ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """How requests are sent at once."""

    policy: RequestPolicy
    budget: Budget | None = None
    proved: bool = False
    """The server is known to answer: no request needs to go first alone."""
    place: str = "the server"


def answers_as_they_arrive(
    conversation: Callable[[], AbstractAsyncContextManager[Ask]], requests: Sequence[Generate], options: ExecutorOptions
) -> Iterator[Answered]:
    """Ask all requests, several at a time; yield (position, response) in the order of arrival.

    One request goes first, so that a wrong key or address fails at the first call. At most ``concurrency`` requests
    are out or answered and not yet taken: what a sudden end can cost at the most. Who is told to come again later
    waits without keeping others from asking. Whatever ends the work early, what is in flight is still yielded.
    """

    async def work(outbox: ResultQueue[Answered]) -> None:
        async with conversation() as ask:
            await _Executor(ask, requests, options, outbox).work()

    return in_background(work)


@dataclass(order=True, slots=True)
class _Job:
    """A request on its way; those that wait are sorted by when they are due."""

    due: float
    place: int
    request: Generate = field(compare=False)
    tries: int = field(default=0, compare=False)
    busy_tries: int = field(default=0, compare=False)
    """Those to which the server said that it is too busy."""
    lone_tries: int = field(default=0, compare=False)
    """Of these, the ones sent alone to see whether it still is."""
    busy_since: float = field(default=math.inf, compare=False)


class _Executor:
    def __init__(
        self, ask: Ask, requests: Sequence[Generate], options: ExecutorOptions, outbox: ResultQueue[Answered]
    ) -> None:
        self._ask, self._outbox = ask, outbox
        self._policy, self._budget, self._place = options.policy, options.budget, options.place
        self._proved = self._reached = self._succeeded = options.proved
        self._limiter = Limiter(options.policy.concurrency)
        self._fresh = iter(_Job(0.0, place, request) for place, request in enumerate(requests))
        self._next: _Job | None = next(self._fresh, None)
        self._waiting: list[_Job] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # In flight, or answered and not yet taken.
        self._unsaved = 0
        self._failed_in_a_row = 0
        self._broken_in_a_row = 0
        self._ending: LmassayError | None = None
        self._bug: Exception | None = None
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        outbox.taken = self._taken

    async def work(self) -> None:
        try:
            while not self._finished():
                self._changed.clear()
                wait = self._send_next()
                if wait == 0:
                    # Several requests that are made in turns all go out as late as the last of them. This one is let
                    # go first; its answer then comes first, too, and finds the others out of its way.
                    for _ in range(_TURNS_TO_GO_OUT):
                        await asyncio.sleep(0)
                elif not self._finished():
                    await self._until_changed(wait)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ending is not None:
            raise self._ending

    def _finished(self) -> bool:
        if self._bug is not None:
            raise self._bug
        if self._tasks:
            return False
        return self._ending is not None or (self._next is None and not self._waiting)

    def _send_next(self) -> float:
        """Send a request, or tell in how many seconds to look again: infinity for when something has changed."""
        now = self._loop.time()
        if self._ending is not None or self._unsaved >= self._policy.concurrency:
            return math.inf
        if self._tasks and not self._proved:
            return math.inf
        if wait := self._limiter.wait(now):
            return wait
        job = self._due(now)
        if job is None:
            return self._waiting[0].due - now if self._waiting else math.inf
        if self._budget is not None and not self._budget.allows(self._unsaved):
            self._put_back(job)
            if self._unsaved == 0:
                self._ending = BudgetReached(f"the budget is used up: {self._budget.describe()}")
            return math.inf
        self._send(job)
        return 0.0

    def _due(self, now: float) -> _Job | None:
        """Those that were refused before come first, the most often tried at the head."""
        due = []
        while self._waiting and self._waiting[0].due <= now:
            due.append(heapq.heappop(self._waiting))
        if due:
            chosen = max(due, key=lambda job: job.tries)
            for job in due:
                if job is not chosen:
                    heapq.heappush(self._waiting, job)
            return chosen
        # Until one request was answered, it goes alone, also when it has to wait.
        # Nor is a server that fails everybody sent new requests while old ones wait.
        crowd = len(self._waiting) + len(self._tasks)
        if self._waiting and (not self._proved or crowd >= self._policy.concurrency <= self._broken_in_a_row):
            return None
        fresh, self._next = self._next, next(self._fresh, None)
        return fresh

    def _put_back(self, job: _Job) -> None:
        heapq.heappush(self._waiting, job)

    def _send(self, job: _Job) -> None:
        self._unsaved += 1
        job.tries += 1
        lone = self._limiter.trying
        task = self._loop.create_task(self._try(job, self._limiter.sent(), lone))
        self._tasks.add(task)
        task.add_done_callback(self._returned)

    async def _try(self, job: _Job, ticket: int, lone: bool) -> None:
        try:
            failure = await self._attempt(job)
            if failure is not None:
                self._fail(job, ticket, failure, lone)
        except Exception as bug:
            # No matter of the network: shown whole. A request must never be lost in silence.
            self._bug = self._bug or bug

    async def _attempt(self, job: _Job) -> Failure | None:
        try:
            # The clients' own time-outs start anew with every byte, so a server that drips would never be given up.
            async with asyncio.timeout(self._policy.timeout):
                response = await self._ask(job.request)
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
            return failure
        self._broken_in_a_row = 0
        self._limiter.answered()
        self._answer(job, response)
        return None

    def _fail(self, job: _Job, ticket: int, failure: Failure, lone: bool) -> None:
        if failure.unreached and not self._reached:
            # Nothing ever answered there: every further request would fail the same way, slowly.
            told = f"no server answers at {self._place}: {failure.told}; is it running?"
            failure = Failure(told, fatal=True)
        self._reached = self._reached or not failure.unreached
        if self._succeeded and failure.status in _ABOUT_ONE_REQUEST:
            failure = replace(failure, fatal=False)
        pause = self._pause(job, failure, lone)
        if failure.busy:
            self._limiter.refused(ticket, self._loop.time(), pause or failure.wait or 0.0)
        elif failure.finish is not None:
            self._limiter.answered()
        else:
            self._broken_in_a_row += failure.passing
            self._limiter.failed()
        if failure.fatal:
            self._unsaved -= 1
            self._ending = self._ending or FatalModelError(failure.told)
        elif failure.finish is not None:
            self._answer(job, Response(finish=failure.finish))
        elif pause is None:
            self._answer(job, Response(error=in_words(failure, job.tries)))
        else:
            self._unsaved -= 1
            job.due = self._loop.time() + pause
            self._put_back(job)

    def _pause(self, job: _Job, failure: Failure, lone: bool) -> float | None:
        if not failure.busy:
            return self._policy.pause(failure, job.tries, uncounted=job.busy_tries)
        now = self._loop.time()
        job.busy_tries += 1
        job.lone_tries += lone
        job.busy_since = min(job.busy_since, now)
        busy_for = now - job.busy_since
        return self._policy.pause(failure, job.tries, uncounted=job.lone_tries, busy_for=busy_for)

    def _answer(self, job: _Job, response: Response) -> None:
        self._proved = self._reached = True
        self._succeeded = self._succeeded or response.error is None
        self._outbox.put((job.place, response))
        self._failed_in_a_row = 0 if response.error is None else self._failed_in_a_row + 1
        if self._failed_in_a_row >= MOST_FAILURES_IN_A_ROW and self._ending is None:
            told = f"{self._failed_in_a_row} requests in a row failed, the last one with: {response.error}"
            self._ending = FatalModelError(told)

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._changed.set()

    def _taken(self, _: Answered) -> None:
        self._unsaved -= 1
        self._changed.set()

    async def _until_changed(self, seconds: float) -> None:
        alarm = None if seconds == math.inf else self._loop.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
