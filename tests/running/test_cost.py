"""What a run costs at most, before it starts."""

from __future__ import annotations

import json

import pytest

from lmassay.budget import Prices
from lmassay.running.cost import BYTES_PER_TOKEN, TOKENS_OF_CHAT_FORMAT
from tests.helpers import lmassay, write_config, write_lines
from tests.servers import completion, openai_server

LINES = ["the cat sat on the mat", "a dog ran home", "birds sing in spring"]
PRICES = {"input": 1.0, "output": 10.0}


def configuration(folder, **model):
    write_lines(folder / "src.txt", LINES)
    options = {"name": "openai", "base_url": "http://127.0.0.1:1/v1", **model}
    task = {
        "name": "robustness",
        "src": "src.txt",
        "attack": {"name": "charswap", "rate": 1},
        "max_tokens": 50,
        "prompt": "{x}",
    }
    return write_config(folder / "c.yaml", {"task": task, "model": options})


def check(folder, *options):
    done = lmassay("check", "c.yaml", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_cost_is_that_of_all_requests_with_the_longest_answers(tmp_path):
    configuration(tmp_path, model="m", prices=PRICES)
    (run,) = json.loads(check(tmp_path, "--json"))["runs"]
    cost = run["cost"]
    assert cost["requests"] == run["requests"] == 2 * len(LINES)
    assert cost["tokens_out"] == 50 * cost["requests"]
    # The attack swaps characters, so the attacked lines are as long as the original ones; the role is "user".
    texts = 2 * sum(-(-len(f"user{line}") // BYTES_PER_TOKEN) for line in LINES)
    assert cost["tokens_in"] == pytest.approx(
        texts + TOKENS_OF_CHAT_FORMAT * cost["requests"], abs=cost["requests"] * 2
    )
    assert cost["usd"] == Prices(**PRICES).of(cost["tokens_in"], cost["tokens_out"])


def test_check_prints_the_cost_and_what_it_assumes(tmp_path):
    configuration(tmp_path, model="m", prices=PRICES)
    shown = check(tmp_path)
    assert "0.003" in shown
    assert "costs are upper bounds: they assume that no answer is cached" in shown


def test_a_model_without_prices_has_an_unknown_cost(tmp_path):
    configuration(tmp_path, model="m")
    shown = check(tmp_path)
    assert "cost unknown: no price for m; give model.prices" in shown
    assert "upper bounds: they assume" not in shown


def test_the_costs_of_a_sweep_are_added_up(tmp_path):
    configuration(tmp_path, model=["m", "n"], prices=PRICES)
    runs = json.loads(check(tmp_path, "--json"))["runs"]
    total = sum(run["cost"]["usd"] for run in runs)
    assert f"at most {total:.4f} USD for 2 runs" in check(tmp_path)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ("usd: 0.003", "warning: the cost may be up to 0.0032 USD, more than the budget of 0.0030 USD"),
        ("tokens: 100", " tokens may be used, more than the budget of 100: the run stops when it is used up"),
        ("usd: 1", ""),
        ("tokens: 100000", ""),
    ],
)
def test_an_estimate_above_the_budget_is_reported(tmp_path, budget, message):
    configuration(tmp_path, model="m", prices=PRICES)
    done = lmassay("check", "c.yaml", "--set", f"budget={{{budget}}}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert message in done.stderr
    assert ("budget" in done.stderr) == bool(message)


def test_a_limit_lowers_the_cost(tmp_path):
    configuration(tmp_path, model="m", prices=PRICES)
    (run,) = json.loads(check(tmp_path, "--set", "limit=2", "--json"))["runs"]
    assert run["cost"]["requests"] == 4


def test_a_model_that_costs_nothing_has_no_cost_column(tmp_path):
    write_lines(tmp_path / "src.txt", LINES)
    write_config(
        tmp_path / "c.yaml",
        {"task": {"name": "robustness", "src": "src.txt", "attack": {"name": "charswap", "rate": 1}}, "model": "echo"},
    )
    shown = check(tmp_path)
    assert "cost" not in shown


def test_a_budget_without_effect_is_reported(tmp_path):
    write_lines(tmp_path / "src.txt", LINES)
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": "charswap", "rate": 1}}
    write_config(tmp_path / "c.yaml", {"task": task, "model": "echo"})
    warning = "warning: the budget has no effect on echo: it only limits models behind an API"
    for command in (["check", "c.yaml", "--set", "budget.usd=5"], ["run", "c.yaml", "--budget-tokens", "5"]):
        assert lmassay(*command, cwd=tmp_path).stderr.count(warning) == 1
    assert "budget" not in lmassay("check", "c.yaml", cwd=tmp_path).stderr


def test_a_budget_that_is_no_mapping_is_reported_by_its_key(tmp_path):
    write_config(tmp_path / "c.yaml", {"task": "robustness", "model": "echo", "budget": 5})
    failed = lmassay("run", "c.yaml", "--budget-usd", "3", cwd=tmp_path)
    assert "budget: must be a mapping, name: value, so that budget.usd can be set" in failed.stderr
    assert "--set" not in failed.stderr


def test_a_sweep_prints_what_its_runs_spent_together(tmp_path):
    with openai_server(lambda *_: completion("a b c")) as server:
        configuration(tmp_path, base_url=server.url, model=["m", "n"], prices=PRICES)
        shown = lmassay("run", "c.yaml", cwd=tmp_path)
        runs = json.loads(lmassay("run", "c.yaml", "--json", "--results", "other", cwd=tmp_path).stdout)["runs"]
    assert shown.returncode == 0, shown.stderr
    # The server counts 3 tokens in and 2 out for each answer. The attack leaves one line unchanged: it is sent once.
    assert "spent by 2 runs: 10 answers, 30 tokens in, 20 out, 0.0002 USD" in shown.stdout
    assert [run["spending"]["tokens_out"] for run in runs] == [10, 10]
