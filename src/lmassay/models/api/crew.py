"""Many questions at once: who goes next, who waits and asks again, and when to stop."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from lmassay.budget import Budget
from lmassay.errors import BudgetReached, FatalModelError, LmassayError
from lmassay.models.api.background import Outbox, in_background
from lmassay.models.api.failures import Failure, failure_of
from lmassay.models.api.limiter import Limiter
from lmassay.models.api.policy import MOST_FAILURES_IN_A_ROW, Policy, in_words
from lmassay.types import Generate, Response

Answered = tuple[int, Response]
Ask = Callable[[Generate], Awaitable[Response]]
# Turns of the event loop until a request that was begun is on its way, headers and body.
_TURNS_TO_GO_OUT = 3
# Key and address are known to be good once there was an answer: then these are about one question.
_ABOUT_ONE_QUESTION = (403, 404)


@dataclass(frozen=True, slots=True)
class Orders:
    """How a crew works."""

    policy: Policy
    budget: Budget | None = None
    proved: bool = False
    """The server is known to answer: no question needs to go first."""
    place: str = "the server"


def answers_as_they_arrive(
    conversation: Callable[[], AbstractAsyncContextManager[Ask]], requests: Sequence[Generate], orders: Orders
) -> Iterator[Answered]:
    """Ask all requests, several at a time; yield (position, response) in the order of arrival.

    One question goes first, so that a wrong key or address fails at the first call. At most ``concurrency`` questions
    are out or answered and not yet taken: what a sudden end can cost at the most. Who is told to come again later
    waits without keeping others from asking. Whatever ends the work early, what is in flight is still yielded.
    """

    async def work(outbox: Outbox[Answered]) -> None:
        async with conversation() as ask:
            await _Crew(ask, requests, orders, outbox).work()

    return in_background(work)


@dataclass(order=True, slots=True)
class _Question:
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


class _Crew:
    def __init__(self, ask: Ask, requests: Sequence[Generate], orders: Orders, outbox: Outbox[Answered]) -> None:
        self._ask, self._outbox = ask, outbox
        self._policy, self._budget, self._place = orders.policy, orders.budget, orders.place
        self._proved = self._reached = self._succeeded = orders.proved
        self._limiter = Limiter(orders.policy.concurrency)
        self._fresh = iter(_Question(0.0, place, request) for place, request in enumerate(requests))
        self._next: _Question | None = next(self._fresh, None)
        self._waiting: list[_Question] = []
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
        question = self._due(now)
        if question is None:
            return self._waiting[0].due - now if self._waiting else math.inf
        if self._budget is not None and not self._budget.allows(self._unsaved):
            self._put_back(question)
            if self._unsaved == 0:
                self._ending = BudgetReached(f"the budget is used up: {self._budget.told()}")
            return math.inf
        self._send(question)
        return 0.0

    def _due(self, now: float) -> _Question | None:
        """Those that were refused before come first, the most often tried at the head."""
        due = []
        while self._waiting and self._waiting[0].due <= now:
            due.append(heapq.heappop(self._waiting))
        if due:
            chosen = max(due, key=lambda question: question.tries)
            for question in due:
                if question is not chosen:
                    heapq.heappush(self._waiting, question)
            return chosen
        # Until one question was answered, it goes alone, also when it has to wait.
        # Nor is a server that fails everybody asked new questions while old ones wait.
        crowd = len(self._waiting) + len(self._tasks)
        if self._waiting and (not self._proved or crowd >= self._policy.concurrency <= self._broken_in_a_row):
            return None
        fresh, self._next = self._next, next(self._fresh, None)
        return fresh

    def _put_back(self, question: _Question) -> None:
        heapq.heappush(self._waiting, question)

    def _send(self, question: _Question) -> None:
        self._unsaved += 1
        question.tries += 1
        lone = self._limiter.trying
        task = self._loop.create_task(self._try(question, self._limiter.sent(), lone))
        self._tasks.add(task)
        task.add_done_callback(self._returned)

    async def _try(self, question: _Question, ticket: int, lone: bool) -> None:
        try:
            failure = await self._attempt(question)
            if failure is not None:
                self._fail(question, ticket, failure, lone)
        except Exception as bug:
            # No matter of the network: shown whole. A question must never be lost in silence.
            self._bug = self._bug or bug

    async def _attempt(self, question: _Question) -> Failure | None:
        try:
            # The clients' own time-outs start anew with every byte, so a server that drips would never be given up.
            async with asyncio.timeout(self._policy.timeout):
                response = await self._ask(question.request)
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
            return failure
        self._broken_in_a_row = 0
        self._limiter.answered()
        self._answer(question, response)
        return None

    def _fail(self, question: _Question, ticket: int, failure: Failure, lone: bool) -> None:
        if failure.unreached and not self._reached:
            # Nothing ever answered there: every further request would fail the same way, slowly.
            told = f"no server answers at {self._place}: {failure.told}; is it running?"
            failure = Failure(told, fatal=True)
        self._reached = self._reached or not failure.unreached
        if self._succeeded and failure.status in _ABOUT_ONE_QUESTION:
            failure = replace(failure, fatal=False)
        pause = self._pause(question, failure, lone)
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
            self._answer(question, Response(finish=failure.finish))
        elif pause is None:
            self._answer(question, Response(error=in_words(failure, question.tries)))
        else:
            self._unsaved -= 1
            question.due = self._loop.time() + pause
            self._put_back(question)

    def _pause(self, question: _Question, failure: Failure, lone: bool) -> float | None:
        if not failure.busy:
            return self._policy.pause(failure, question.tries, uncounted=question.busy_tries)
        now = self._loop.time()
        question.busy_tries += 1
        question.lone_tries += lone
        question.busy_since = min(question.busy_since, now)
        busy_for = now - question.busy_since
        return self._policy.pause(failure, question.tries, uncounted=question.lone_tries, busy_for=busy_for)

    def _answer(self, question: _Question, response: Response) -> None:
        self._proved = self._reached = True
        self._succeeded = self._succeeded or response.error is None
        self._outbox.put((question.place, response))
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
