"""Runs can be listed by what they are, sorted, and with what they cost."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from lmassay.storage.store import Store
from lmassay.types import Annotation, Response
from tests.compare_kit import add, rates
from tests.helpers import lmassay

METRICS = [{"name": "accuracy"}, {"name": "loss", "better": "lower"}, {"name": "bias", "better": "zero"}]


def results(**values):
    return [{"metric": metric, "group": "overall", "value": value, "n": 2} for metric, value in values.items()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("user") / "results"
    add(
        place,
        "a",
        rates([1, 0]),
        model="gpt-x",
        label="zebra",
        results=results(accuracy=0.5, loss=2, bias=-0.1),
        metrics=METRICS,
    )
    add(
        place,
        "b",
        rates([1, 1]),
        model="Llama",
        label="ant",
        results=results(accuracy=1.0, loss=1, bias=0.5),
        metrics=METRICS,
    )
    add(place, "c", rates([]), model="gpt-y", label="bee", task="spell", status="failed", note="no server")
    with Store(place, create=True) as store:
        store.annotate("b", Annotation("a long note that does not fit into the column of a table", ("best", "paper")))
        for run, cost in (("a", 0.25), ("b", 0.5)):
            store.add_spending(run, Response("x", tokens_in=100, tokens_out=10), cost)
    return place


def listed(folder, *options):
    done = lmassay("ls", "--results", folder, "--json", *options)
    assert done.returncode == 0, done.stderr
    return [run["run"] for run in json.loads(done.stdout)["runs"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--task", "quiz"], ["a", "b"]),
        (["--model", "GPT*"], ["a", "c"]),
        (["--model", "llama", "--model", "gpt-y"], ["b", "c"]),
        (["--status", "failed"], ["c"]),
        (["--tag", "paper"], ["b"]),
        (["--task", "quiz", "--model", "gpt*"], ["a"]),
        (["--since", "1h"], ["a", "b", "c"]),
        (["--since", (datetime.now(UTC) + timedelta(days=2)).date().isoformat()], []),
    ],
)
def test_options_select_runs(folder, options, expected):
    assert listed(folder, *options) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("created", ["a", "b", "c"]),
        ("label", ["b", "c", "a"]),
        ("model", ["a", "c", "b"]),
        ("task", ["a", "b", "c"]),
        ("accuracy", ["b", "a", "c"]),
        ("loss", ["b", "a", "c"]),
        ("bias", ["a", "b", "c"]),
    ],
)
def test_runs_are_sorted_the_best_first(folder, order, expected):
    assert listed(folder, "--sort", order) == expected


def test_the_list_shows_the_metric_it_is_sorted_by(folder):
    shown = lmassay("ls", "--results", folder, "--sort", "loss").stdout
    assert "loss 1.000" in shown
    assert "accuracy" not in shown


def test_a_metric_that_no_run_has_is_an_error_with_a_hint(folder):
    done = lmassay("ls", "--results", folder, "--sort", "acuracy")
    assert done.returncode == 2
    assert "no listed run has the metric 'acuracy'; did you mean 'accuracy'?" in done.stderr


def test_a_time_that_cannot_be_read_is_an_error(folder):
    done = lmassay("ls", "--results", folder, "--since", "yesterday")
    assert done.returncode == 2
    assert "neither an age (30m, 12h, 7d, 2w) nor a date" in done.stderr


def test_a_filter_that_no_run_meets_says_so(folder):
    done = lmassay("ls", "--results", folder, "--task", "nothing")
    assert (done.returncode, done.stdout) == (0, "")
    assert "none of 3 runs matches\n--task 'nothing' matches no run; available: " in done.stderr


def test_the_list_shows_tags_and_the_beginning_of_a_note(folder):
    shown = lmassay("ls", "--results", folder).stdout
    assert "best paper" in shown
    assert "a long note that does not fit into the…" in shown


def test_without_tags_and_notes_there_are_no_columns_for_them(folder):
    header = lmassay("ls", "--results", folder, "--status", "failed").stdout.splitlines()[0].split()
    assert header == ["run", "label", "model", "status", "result", "n"]


def test_the_total_cost_of_the_listed_runs_is_shown(folder):
    shown = lmassay("ls", "--results", folder).stdout
    assert "spent by 2 runs: 2 answers, 200 tokens in, 20 out, 0.7500 USD" in shown
    assert "spent by" not in lmassay("ls", "--results", folder, "--model", "llama").stdout


def test_the_cost_of_each_run_is_in_the_json_document(folder):
    runs = json.loads(lmassay("ls", "--results", folder, "--json").stdout)["runs"]
    assert [run.get("spending", {}).get("usd") for run in runs] == [0.25, 0.5, None]


def test_the_example_in_the_help_screen_uses_filters_and_order():
    help_text = lmassay("ls", "--help").stdout
    assert re.search(r"Example: lmassay ls --task \w+ --status done --since 7d --sort \w+", " ".join(help_text.split()))
