"""A budget: what is counted, when no more requests are allowed, how a run stops and continues."""

from __future__ import annotations

import pytest

from lmassay.budget import Budget, Prices
from lmassay.errors import BudgetReached, ConfigError, FatalModelError
from lmassay.running import runner
from lmassay.running.config import RunConfig
from lmassay.storage.store import Store
from lmassay.types import Example, Generate, Response, Result, Score
from tests.storage.old_schemas import downgrade

ANSWER = Response("x", tokens_in=80, tokens_out=20)


def test_no_limit_allows_everything():
    budget = Budget()
    budget.spend(ANSWER, None)
    assert budget.allows(1000)


def test_tokens_and_money_are_counted():
    budget = Budget(usd=1.0, tokens=1000)
    budget.spend(ANSWER, Prices(1000.0, 5000.0))
    assert budget.spent_tokens == 100
    assert budget.spent_usd == pytest.approx(0.18)
    assert budget.describe() == "0.1800 of 1 USD and 100 of 1,000 tokens"


def test_requests_in_flight_are_expected_to_cost_as_much_as_the_average_answer():
    budget = Budget(tokens=1000)
    for _ in range(5):
        budget.spend(ANSWER, None)
    assert budget.allows(4)
    assert not budget.allows(5)


def test_a_limit_needs_responses_that_report_their_tokens():
    silent = Response("x")
    Budget().require_usage(silent)
    limited = Budget(tokens=1000)
    limited.require_usage(ANSWER)
    limited.require_usage(Response(error="down"))
    with pytest.raises(FatalModelError, match="remove the budget"):
        limited.require_usage(silent)


def test_nothing_is_allowed_at_the_limit():
    budget = Budget(tokens=100)
    assert budget.allows(0)
    budget.spend(ANSWER, None)
    assert not budget.allows(0)


class Paid:
    """A model that keeps to a budget and sends one request at a time."""

    name = "paid"
    can = frozenset({"generate"})
    prompts: list[str] = []

    def __init__(self, priced: bool = True) -> None:
        self.prices = Prices(1000.0, 1000.0) if priced else None
        self._budget = Budget()

    def identity(self):
        return {"name": self.name}

    def use_budget(self, budget):
        self._budget = budget

    def generate(self, requests):
        for place, request in enumerate(requests):
            if not self._budget.allows(0):
                raise BudgetReached(f"the budget is used up: {self._budget.describe()}")
            self.prompts.append(request.prompt)
            yield place, ANSWER


class Questions:
    name = "questions"
    version = 1
    needs = frozenset({"generate"})

    def examples(self):
        yield from (Example(f"q{i}", {"text": f"question {i}"}) for i in range(10))

    def requests(self, example):
        return [Generate(example.inputs["text"])]

    def score(self, examples, responses):
        return [Score({"good": 1.0}) for _ in examples]

    def aggregate(self, table, settings):
        return [Result("good", "overall", 1.0, None, None, len(table.values("good")))]

    def signature(self):
        return {}


@pytest.fixture
def plug_ins(tmp_path):
    Paid.prompts = []
    file = tmp_path / "mine.py"
    file.write_text("from tests.test_budget import Paid, Questions\n", encoding="utf-8")
    return f"{file}:Questions", f"{file}:Paid"


def config(plug_ins, **more) -> RunConfig:
    task, model = plug_ins
    return RunConfig.model_validate({"task": task, "model": model, **more})


@pytest.mark.fault(18)
def test_a_run_stops_at_its_budget_and_scores_what_was_answered(plug_ins, tmp_path):
    with Store(tmp_path / "r", create=True) as store:
        record = runner.start(runner.plan(config(plug_ins, budget={"tokens": 450})), store)
        assert record.status == "stopped"
        assert "450 tokens" in record.note
        assert record.results[0].n == 4
        assert len(Paid.prompts) == 4
        assert store.spending(run=record.id).describe() == "4 answers, 320 tokens in, 80 out, 0.4000 USD"


def test_a_stopped_run_goes_on_with_a_larger_budget_and_asks_nothing_twice(plug_ins, tmp_path):
    with Store(tmp_path / "r", create=True) as store:
        record = runner.start(runner.plan(config(plug_ins, budget={"usd": 0.45})), store)
        again = runner.resume(record, store)
        assert again.status == "stopped", "what was spent before counts"
        assert len(Paid.prompts) == 4
        from dataclasses import replace

        raised = replace(record, config={**record.config, "budget": {"usd": 5.0}})
        assert runner.resume(raised, store).status == "done"
        assert sorted(Paid.prompts) == sorted({f"question {i}" for i in range(10)})


def test_the_budget_is_shared_by_the_runs_of_a_command(plug_ins, tmp_path):
    with Store(tmp_path / "r", create=True) as store:
        for seed, status in ((1, "done"), (2, "stopped")):
            plan = runner.plan(config(plug_ins, seed=seed, budget={"tokens": 1200}))
            assert runner.start(plan, store, sweep="one").status == status
        assert store.spending(sweep="one").answers == 12


def test_money_without_prices_is_refused_before_anything_is_asked(plug_ins):
    task, model = plug_ins
    with pytest.raises(ConfigError, match=r"budget.usd: the prices of paid are unknown; give model.prices"):
        runner.plan(RunConfig(task=task, model={"name": model, "priced": False}, budget={"usd": 1.0}))


@pytest.mark.fault(17)
def test_an_unknown_price_makes_the_cost_unknown_not_zero(plug_ins, tmp_path):
    task, model = plug_ins
    with Store(tmp_path / "r", create=True) as store:
        plan = runner.plan(RunConfig(task=task, model={"name": model, "priced": False}))
        record = runner.start(plan, store)
        assert store.spending(run=record.id).usd is None
        assert "cost unknown" in store.spending(run=record.id).describe()


def test_failures_that_used_no_tokens_do_not_make_other_answers_look_cheap():
    budget = Budget(tokens=1000)
    for _ in range(40):
        budget.spend(Response(error="no"), None)
    budget.spend(Response("x", tokens_in=400, tokens_out=100), None)
    assert not budget.allows(1)


class Silent(Paid):
    """A model whose server reports no token counts."""

    name = "silent"

    def generate(self, requests):
        for place, request in enumerate(requests):
            self.prompts.append(request.prompt)
            yield place, Response("x")


class Refusing(Paid):
    """Refuses every question, and fails permanently after the fifth."""

    name = "refusing"
    left = 5

    def generate(self, requests):
        for place, request in enumerate(requests):
            if Refusing.left == 0:
                raise FatalModelError("the server went away")
            Refusing.left -= 1
            self.prompts.append(request.prompt)
            yield place, Response(None, finish="refusal", tokens_in=1, tokens_out=1)


def plug_in_file(tmp_path, name):
    file = tmp_path / "other.py"
    file.write_text(f"from tests.test_budget import {name}\n", encoding="utf-8")
    return f"{file}:{name}"


def test_a_server_that_reports_no_tokens_cannot_be_limited_and_its_cost_is_unknown(plug_ins, tmp_path):
    pair = (plug_ins[0], plug_in_file(tmp_path, "Silent"))
    with Store(tmp_path / "r", create=True) as store:
        with pytest.raises(FatalModelError, match="does not report how many tokens"):
            runner.start(runner.plan(config(pair, budget={"tokens": 100})), store)
        assert len(Paid.prompts) == 1
        record = runner.start(runner.plan(config(pair, seed=1)), store)
        assert store.spending(run=record.id).usd is None


def test_a_refusal_is_paid_for_once_even_if_the_run_is_interrupted(plug_ins, tmp_path):
    pair = (plug_ins[0], plug_in_file(tmp_path, "Refusing"))
    with Store(tmp_path / "r", create=True) as store:
        with pytest.raises(FatalModelError):
            runner.start(runner.plan(config(pair)), store)
        Refusing.left = 100
        runner.resume(store.run("latest"), store)
        assert len(Paid.prompts) == len(set(Paid.prompts)) == 10
        runner.start(runner.plan(config(pair)), store)
        assert len(Paid.prompts) == 20, "another run sends its own requests"


def test_a_store_of_the_first_schema_is_read_and_upgraded(tmp_path):
    with Store(tmp_path, create=True):
        pass
    downgrade(tmp_path / "lmassay.sqlite", 1)
    with Store(tmp_path) as store:
        assert store.spending(run="x") is None
    with Store(tmp_path, create=True) as store:
        store.add_spending("x", ANSWER, 0.1)
        assert store.spending(run="x").answers == 1


def test_a_failed_request_is_not_an_answer(tmp_path):
    with Store(tmp_path, create=True) as store:
        store.add_spending("x", Response(error="connection refused"), 0.0)
        assert store.spending(run="x") is None
        store.add_spending("x", ANSWER, 0.1)
        store.add_spending("x", Response(error="filtered", tokens_in=5), 0.0)
        spending = store.spending(run="x")
    assert (spending.answers, spending.tokens_in, spending.tokens_out) == (1, 85, 20)
