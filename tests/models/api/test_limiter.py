"""The limit that adapts, against servers that exist as arithmetic only: no clock ticks, no socket is opened."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field

import pytest

from lmassay.models.api.failures import Failure
from lmassay.models.api.limiter import Limiter
from lmassay.models.api.policy import Policy

LATENCY = 0.02


@dataclass
class Sometimes:
    """Refuses a share of the calls, whatever their number."""

    share: float
    retry_after: float | None = 0.2
    rng: random.Random = field(default_factory=lambda: random.Random(1))

    def takes(self, now: float) -> bool:
        return self.rng.random() >= self.share

    def done(self) -> None:
        pass


@dataclass
class AtATime:
    """Takes so many calls at a time."""

    most: int
    retry_after: float | None = 0.2
    out: int = 0

    def takes(self, now: float) -> bool:
        if self.out >= self.most:
            return False
        self.out += 1
        return True

    def done(self) -> None:
        self.out -= 1


@dataclass
class PerSecond:
    """Takes so many calls in each second."""

    most: int
    retry_after: float | None = 1.0
    second: int = -1
    count: int = 0

    def takes(self, now: float) -> bool:
        if int(now) != self.second:
            self.second, self.count = int(now), 0
        self.count += 1
        return self.count <= self.most

    def done(self) -> None:
        pass


@dataclass
class Outcome:
    seconds: float
    tries: list[int]
    refusals: int
    failed: int


def simulate(server, requests: int, concurrency: int) -> Outcome:
    """The crew's rules with time as a number: refused ones wait without a slot and go first when they are due."""
    limiter, policy = Limiter(concurrency), Policy(concurrency, 60.0, tries=6, wait=0.5)
    now, fresh, tries, refusals, failed, answered = 0.0, 0, [0] * requests, 0, 0, 0
    waiting: list[tuple[float, int]] = []
    events: list[tuple[float, int, int, bool]] = []
    while answered + failed < requests:
        while limiter.wait(now) == 0:
            due = [item for item in waiting if item[0] <= now]
            if due:
                item = max(due, key=lambda item: tries[item[1]])
                waiting.remove(item)
                request = item[1]
            elif fresh < requests:
                request, fresh = fresh, fresh + 1
            else:
                break
            tries[request] += 1
            taken = server.takes(now)
            heapq.heappush(events, (now + LATENCY * (1 if taken else 0.2), request, limiter.sent(), taken))
            assert limiter.in_flight <= concurrency
        moments = [event[0] for event in events[:1]] + [item[0] for item in waiting if item[0] > now]
        moments += [now + wait for wait in [limiter.wait(now)] if 0 < wait < math.inf]
        now = min(moments)
        while events and events[0][0] <= now:
            _, request, ticket, taken = heapq.heappop(events)
            if taken:
                server.done()
                limiter.answered()
                answered += 1
                continue
            refusals += 1
            pause = policy.pause(Failure("no", passing=True, wait=server.retry_after), tries[request])
            limiter.refused(ticket, now, pause or 0.0)
            if pause is None:
                failed += 1
            else:
                waiting.append((now + pause, request))
    return Outcome(now, tries, refusals, failed)


@pytest.mark.parametrize("concurrency", [4, 8, 16, 64])
def test_two_refusals_in_a_hundred_cost_little(concurrency):
    outcome = simulate(Sometimes(0.02), 6840, concurrency)
    # A refusal at the very beginning makes the way up to many at a time a slow one.
    beginning = 0.4 if concurrency <= 16 else 140 * LATENCY
    assert outcome.seconds < 1.12 * 6840 * LATENCY / concurrency + beginning
    assert outcome.failed == 0


@pytest.mark.parametrize("concurrency", [4, 8, 64])
@pytest.mark.parametrize("retry_after", [0.2, 1.0, None])
def test_a_server_that_takes_three_at_a_time_is_asked_three_at_a_time(concurrency, retry_after):
    outcome = simulate(AtATime(3, retry_after), 3000, concurrency)
    assert outcome.failed == 0
    assert max(outcome.tries) <= 3
    assert outcome.refusals < 0.06 * 3000
    assert outcome.seconds < 1.1 * 3000 * LATENCY / 3 + 1


@pytest.mark.parametrize("most", [1, 3, 10, 50])
@pytest.mark.parametrize("retry_after", [1.0, 0.2, None])
def test_a_limit_a_second_is_met_without_giving_up_on_anybody(most, retry_after):
    outcome = simulate(PerSecond(most, retry_after), 300, 8)
    assert outcome.failed == 0
    assert max(outcome.tries) <= 5
    assert outcome.seconds < 1.5 * 300 / most + 2


def test_a_server_that_refuses_everybody_is_left_in_peace_until_the_time_it_asked_for():
    limiter = Limiter(4)
    tickets = [limiter.sent() for _ in range(4)]
    assert limiter.wait(0.0) == math.inf
    for wait, ticket in zip([5.0, 9.0, 2.0, 1.0], tickets, strict=True):
        limiter.refused(ticket, 0.0, wait)
    assert limiter.wait(0.0) == 9.0
    assert limiter.wait(9.0) == 0.0
    limiter.sent()
    assert limiter.wait(9.0) == math.inf, "one request alone goes out to see"
    limiter.answered()
    assert limiter.wait(9.0) == 0.0


def test_the_limit_rises_to_the_concurrency_and_falls_to_one_at_the_least():
    limiter = Limiter(20)
    for _ in range(40):
        limiter.sent()
        limiter.answered()
    assert limiter.limit == 20
    for _ in range(50):
        limiter.refused(limiter.sent(), 0.0, 0.0)
    assert limiter.limit == 1


def test_a_fault_that_is_no_refusal_changes_nothing():
    limiter = Limiter(4)
    for _ in range(30):
        limiter.sent()
        limiter.failed()
    assert (limiter.limit, limiter.in_flight) == (4, 0)
