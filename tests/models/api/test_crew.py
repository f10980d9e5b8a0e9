"""Many questions at once over a live server: limits, budgets and early ends."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter

import pytest

from lmassay.budget import Budget, Prices
from lmassay.contracts import ask
from lmassay.errors import BudgetReached, FatalModelError
from lmassay.models.api import policy
from lmassay.models.api.openai_models import OpenAICompatible
from lmassay.models.api.policy import MOST_FAILURES_IN_A_ROW, Policy
from lmassay.types import Generate
from tests.servers import completion, failure, openai_server, prompt_of


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


def test_who_is_told_to_wait_does_not_keep_others_from_asking():
    def reply(body, before):
        return failure(429, Retry_After="3") if prompt_of(body) == "p1" and before == 0 else completion("ok")

    with openai_server(reply) as server:
        order = [place for place, _ in ask(model_of(server.url, concurrency=2), "generate", requests(9))]
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
        model.heed(budget)
        with pytest.raises(BudgetReached, match=r"1\.0000 of 1\.01 USD and 125 of 126 tokens"):
            take(model, requests(100), got, budget)
        assert len(got) == len(server.bodies) == 25, "nothing was asked that is not yielded"


def test_a_budget_that_is_gone_asks_nothing():
    budget = Budget(tokens=10, spent_tokens=10, answers=2)
    with openai_server() as server:
        model = model_of(server.url)
        model.heed(budget)
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
        assert sorted(place for place, _ in got) == [0, 1, 2]
        assert len(server.bodies) == 4


def test_a_server_that_fails_everybody_is_given_up():
    with openai_server(lambda body, _: completion("ok") if prompt_of(body) == "p0" else failure(500)) as server:
        got = []
        with pytest.raises(FatalModelError, match=f"{MOST_FAILURES_IN_A_ROW} requests in a row failed.*HTTP 500"):
            take(model_of(server.url, tries=2, wait=0.001), requests(500), got)
    assert MOST_FAILURES_IN_A_ROW <= len(got) <= MOST_FAILURES_IN_A_ROW + 8


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
    monkeypatch.setattr(Policy, "pause", lambda *_, **__: 1 / 0)
    with openai_server(lambda *_: failure(500)) as server, pytest.raises(ZeroDivisionError):
        list(ask(model_of(server.url), "generate", requests(3)))


def test_a_busy_spell_longer_than_all_tries_is_sat_out(monkeypatch):
    monkeypatch.setattr(policy, "BUSY_PATIENCE", 30.0)
    start = time.monotonic()

    def reply(*_):
        return completion("ok") if time.monotonic() - start > 0.8 else failure(429, Retry_After="0.01")

    with openai_server(reply) as server:
        model = model_of(server.url, tries=2, concurrency=2)
        assert [a.error for _, a in ask(model, "generate", requests(6))] == [None] * 6


def test_a_server_that_is_busy_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr(policy, "LONGEST_BUSY_PATIENCE", 0.3)
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
    told = r"asks to wait 1 h \(HTTP 429.*resume"
    with openai_server(reply) as server, pytest.raises(FatalModelError, match=told):
        take(model_of(server.url, concurrency=3), requests(50), got)
    assert sorted(place for place, _ in got) == [0, 1, 2]


@pytest.mark.parametrize("status", [403, 404])
def test_what_is_denied_after_the_first_success_is_that_questions_own_error(status):
    with openai_server(lambda body, _: failure(status) if prompt_of(body) == "p2" else completion("ok")) as server:
        answers = dict(ask(model_of(server.url), "generate", requests(6)))
    assert [place for place, a in answers.items() if a.error] == [2]


def test_a_server_that_denies_everything_after_the_first_success_is_given_up():
    told = f"{MOST_FAILURES_IN_A_ROW} requests in a row"
    reply = failure(403)
    with (
        openai_server(lambda body, _: completion("ok") if prompt_of(body) == "p0" else reply) as server,
        pytest.raises(FatalModelError, match=told),
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
