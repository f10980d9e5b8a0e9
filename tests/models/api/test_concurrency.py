"""Many requests at once: retries, a limit that adapts, budgets and early ends."""

from __future__ import annotations

import heapq
import itertools
import math
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

from lmassay.budget import Budget, Prices
from lmassay.contracts import ask
from lmassay.errors import BudgetReached, ConfigError, FatalModelError
from lmassay.models.api import concurrency
from lmassay.models.api.concurrency import MAX_CONSECUTIVE_FAILURES, Limiter, RequestPolicy, with_tries
from lmassay.models.api.failures import Failure
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.types import Generate
from tests.servers import completion, failure, openai_server, prompt_of

# --- how often a request is tried -------------------------------------------------------------------------------------


def test_waits_grow_and_end():
    policy = RequestPolicy(8, 60.0, tries=4, wait=1.0)
    failure = Failure("HTTP 500", retryable=True)
    waits = [policy.pause(failure, tries) for tries in (1, 2, 3, 4)]
    assert waits[3] is None
    assert 1 <= waits[0] <= 2 <= waits[1] <= 3
    assert 4 <= waits[2] <= 5
    assert policy.pause(Failure("HTTP 400"), 1) is None
    assert with_tries(failure, 4) == "HTTP 500 (tried 4 times)"
    assert with_tries(failure, 1) == "HTTP 500"


@pytest.mark.fault(9)
def test_a_servers_own_wait_is_kept_but_not_believed_twice():
    policy = RequestPolicy(8, 60.0, tries=6, wait=1.0)
    failure = Failure("HTTP 429", retryable=True, wait=0.1)
    assert policy.pause(failure, 1) == 0.1
    assert policy.pause(failure, 5) > 7
    assert policy.pause(Failure("HTTP 429", retryable=True, wait=100.0), 3) == 100.0


def test_a_busy_server_is_not_given_up_by_number_of_tries_alone(monkeypatch):
    monkeypatch.setattr(concurrency, "BUSY_PATIENCE", 180.0)
    monkeypatch.setattr(concurrency, "MAX_BUSY_PATIENCE", 600.0)
    policy = RequestPolicy(8, 60.0, tries=4, wait=1.0)
    busy = Failure("HTTP 429", retryable=True, busy=True)
    assert policy.pause(busy, 4, busy_for=179.0) is not None
    assert policy.pause(busy, 4, busy_for=180.0) is None
    assert policy.pause(busy, 9, uncounted=6, busy_for=599.0) is not None
    assert policy.pause(busy, 9, uncounted=6, busy_for=600.0) is None
    assert policy.pause(busy, 5000, busy_for=1.0) <= 61.0


@pytest.mark.parametrize("bad", [{"timeout": float("inf")}, {"wait": float("inf")}, {"wait": float("nan")}])
def test_waits_without_end_are_refused(bad):
    with pytest.raises(ConfigError, match="finite"):
        RequestPolicy(**{"concurrency": 8, "timeout": 60.0, "tries": 4, "wait": 1.0, **bad}).check()


# --- the limit, against servers that exist as arithmetic only: no clock ticks, no socket is opened --------------------


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
    """A server that accepts ``most`` calls at a time."""

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
    """A server that accepts ``most`` calls per second."""

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
    limiter, policy = Limiter(concurrency), RequestPolicy(concurrency, 60.0, tries=6, wait=0.5)
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
            pause = policy.pause(Failure("no", retryable=True, wait=server.retry_after), tries[request])
            limiter.rejected(ticket, now, pause or 0.0)
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


@pytest.mark.fault(9)
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
        limiter.rejected(ticket, 0.0, wait)
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
        limiter.rejected(limiter.sent(), 0.0, 0.0)
    assert limiter.limit == 1


def test_a_fault_that_is_no_refusal_changes_nothing():
    limiter = Limiter(4)
    for _ in range(30):
        limiter.sent()
        limiter.failed()
    assert (limiter.limit, limiter.in_flight) == (4, 0)


# --- the executor, over a live server ---------------------------------------------------------------------------------


def model_of(url, **options) -> OpenAICompatible:
    return OpenAICompatible("m", base_url=url, **{"wait": 0.01, "tries": 4, "timeout": 5.0, **options})


def requests(count) -> list[Generate]:
    return [Generate(f"p{i}") for i in range(count)]


def take(model, asked, got, budget=None) -> None:
    """Read answers as the runner does: what they cost is counted before the next one is asked for."""
    for answered in ask(model, "generate", asked):
        if budget is not None:
            budget.spend(answered[1], model.prices)
        got.append(answered)


def after(event: threading.Event) -> None:
    """Wait for another answer to be given, and to arrive."""
    event.wait(60)
    time.sleep(0.5)


def test_a_server_that_takes_two_at_a_time_is_not_pressed_and_everything_is_answered():
    lock = threading.Lock()
    out, most = 0, 2

    def two_at_a_time(body, _):
        nonlocal out
        with lock:
            if out >= most:
                return failure(429, Retry_After="0.05")
            out += 1
        time.sleep(0.01)
        with lock:
            out -= 1
        return completion("ok")

    with openai_server(two_at_a_time) as server:
        answers = dict(ask(model_of(server.url, concurrency=8), "generate", requests(120)))
    assert [a.error for a in answers.values()] == [None] * 120
    assert max(Counter(server.prompts).values()) <= 4


def test_a_request_that_has_to_wait_does_not_keep_others_from_asking():
    def reply(body, before):
        return failure(429, Retry_After="3") if prompt_of(body) == "p1" and before == 0 else completion("ok")

    with openai_server(reply) as server:
        order = [index for index, _ in ask(model_of(server.url, concurrency=2), "generate", requests(9))]
    assert order[-1] == 1, "all others were answered meanwhile"
    assert len(order) == 9


def test_while_everybody_is_refused_nobody_is_asked():
    times = []

    def reply(body, _):
        times.append(time.monotonic())
        return failure(429, Retry_After="0.4") if 1 < len(times) <= 8 else completion("ok")

    with openai_server(reply) as server:
        answers = dict(ask(model_of(server.url, concurrency=4, tries=6), "generate", requests(30)))
    assert all(a.error is None for a in answers.values())
    assert sum(later - earlier > 0.3 for earlier, later in itertools.pairwise(times)) >= 1


def test_a_budget_is_used_up_to_its_last_answer_and_then_the_work_ends():
    budget = Budget(tokens=126, usd=1.01)
    prices = Prices(0.0, 20_000.0)  # an answer costs five tokens, and 0.04
    got = []
    with openai_server(latency=0.005) as server:
        model = model_of(server.url, concurrency=8, prices=prices)
        model.use_budget(budget)
        with pytest.raises(BudgetReached, match=r"1\.0000 of 1\.01 USD and 125 of 126 tokens"):
            take(model, requests(100), got, budget)
        assert len(got) == len(server.bodies) == 25, "nothing was asked that is not yielded"


def test_a_budget_that_is_gone_asks_nothing():
    budget = Budget(tokens=10, spent_tokens=10, answers=2)
    with openai_server() as server:
        model = model_of(server.url)
        model.use_budget(budget)
        with pytest.raises(BudgetReached):
            list(ask(model, "generate", requests(3)))
        assert server.bodies == []


def test_what_is_in_flight_is_yielded_before_a_fatal_error_ends_the_work():
    refused = threading.Event()

    def reply(body, _):
        if prompt_of(body) == "p3":
            refused.set()
            return failure(401)
        if prompt_of(body) in ("p1", "p2"):
            after(refused)
        return completion("paid for")

    got = []
    with openai_server(reply) as server:
        with pytest.raises(FatalModelError, match="the key was refused"):
            take(model_of(server.url, concurrency=3), requests(50), got)
        assert sorted(index for index, _ in got) == [0, 1, 2]
        assert len(server.bodies) == 4


def test_a_server_that_fails_everybody_is_given_up():
    with openai_server(lambda body, _: completion("ok") if prompt_of(body) == "p0" else failure(500)) as server:
        got = []
        with pytest.raises(FatalModelError, match=f"{MAX_CONSECUTIVE_FAILURES} requests in a row failed.*HTTP 500"):
            take(model_of(server.url, tries=2, wait=0.001), requests(500), got)
    assert MAX_CONSECUTIVE_FAILURES <= len(got) <= MAX_CONSECUTIVE_FAILURES + 8


def test_the_account_is_out_of_credit():
    body = b'{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}'
    with openai_server(lambda *_: (429, {"Retry-After": "60"}, body)) as server:
        with pytest.raises(FatalModelError, match="out of credit"):
            list(ask(model_of(server.url), "generate", requests(9)))
        assert len(server.bodies) == 1


def test_a_model_that_has_answered_once_needs_no_first_question_the_second_time():
    together = threading.Barrier(4, timeout=60)
    first = True

    def reply(body, _):
        if not first:
            together.wait()
        return completion("ok")

    with openai_server(reply) as server:
        model = model_of(server.url, concurrency=4, tries=1)
        list(ask(model, "generate", requests(2)))
        first = False
        assert all(a.error is None for _, a in ask(model, "generate", requests(4)))


def test_a_bug_of_ours_is_shown_whole(monkeypatch):
    with openai_server() as server:
        model = model_of(server.url)
        monkeypatch.setattr(type(model.dialect), "body", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            list(ask(model, "generate", requests(3)))


def test_no_request_at_all_is_no_answer_at_all():
    assert list(ask(model_of("http://127.0.0.1:1/v1"), "generate", [])) == []


def test_a_bug_in_dealing_with_a_failure_loses_no_question(monkeypatch):
    monkeypatch.setattr(RequestPolicy, "pause", lambda *_, **__: 1 / 0)
    with openai_server(lambda *_: failure(500)) as server, pytest.raises(ZeroDivisionError):
        list(ask(model_of(server.url), "generate", requests(3)))


def test_a_busy_spell_longer_than_all_tries_is_sat_out(monkeypatch):
    monkeypatch.setattr(concurrency, "BUSY_PATIENCE", 30.0)
    start = time.monotonic()

    def reply(*_):
        return completion("ok") if time.monotonic() - start > 0.8 else failure(429, Retry_After="0.01")

    with openai_server(reply) as server:
        model = model_of(server.url, tries=2, concurrency=2)
        assert [a.error for _, a in ask(model, "generate", requests(6))] == [None] * 6


def test_a_server_that_is_busy_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr(concurrency, "MAX_BUSY_PATIENCE", 0.3)
    with openai_server(lambda *_: failure(429)) as server:
        answers = dict(ask(model_of(server.url, concurrency=1, tries=2), "generate", requests(2)))
    assert all("HTTP 429" in a.error for a in answers.values())


def test_a_server_that_asks_to_come_in_an_hour_ends_the_work_with_what_is_in_flight():
    refused = threading.Event()

    def reply(body, _):
        if prompt_of(body) == "p3":
            refused.set()
            return failure(429, Retry_After="3600")
        if prompt_of(body) in ("p1", "p2"):
            after(refused)
        return completion("paid for")

    got = []
    message = r"asks to wait 1 h \(HTTP 429.*resume"
    with openai_server(reply) as server, pytest.raises(FatalModelError, match=message):
        take(model_of(server.url, concurrency=3), requests(50), got)
    assert sorted(index for index, _ in got) == [0, 1, 2]


@pytest.mark.parametrize("status", [302, 403, 404])
def test_what_is_denied_after_the_first_success_is_that_questions_own_error(status):
    with openai_server(lambda body, _: failure(status) if prompt_of(body) == "p2" else completion("ok")) as server:
        answers = dict(ask(model_of(server.url), "generate", requests(6)))
    assert [index for index, a in answers.items() if a.error] == [2]


def test_a_server_that_denies_everything_after_the_first_success_is_given_up():
    message = f"{MAX_CONSECUTIVE_FAILURES} requests in a row"
    reply = failure(403)
    with (
        openai_server(lambda body, _: completion("ok") if prompt_of(body) == "p0" else reply) as server,
        pytest.raises(FatalModelError, match=message),
    ):
        list(ask(model_of(server.url), "generate", requests(200)))


def test_a_moderated_question_is_a_filtered_one():
    reply = failure(403, "your input was flagged by moderation")
    with openai_server(lambda body, _: reply if prompt_of(body) == "p0" else completion("ok")) as server:
        answers = dict(ask(model_of(server.url), "generate", requests(3)))
    assert (answers[0].finish, answers[0].error) == ("content_filter", None)
    assert answers[1].text == answers[2].text == "ok"


def test_a_server_that_breaks_for_all_is_asked_nothing_new():
    with openai_server(lambda body, _: completion("ok") if prompt_of(body) == "p0" else failure(500)) as server:
        stream = ask(model_of(server.url, concurrency=4, tries=3, wait=0.4), "generate", requests(300))
        next(stream)
        next(stream)
        assert len(set(server.prompts)) <= 10
        stream.close()
