"""Evaluations of other packages: whatever is wrong with one is reported, and breaks nothing else."""

from __future__ import annotations

import json
import shutil

import pytest

from lmassay.contracts import Finding
from lmassay.plugins.evaluations import installed_evaluations, package_of
from tests.helpers import lmassay, write_config
from tests.plugins.packages import IMPORTS, evaluation_called, politeness, write_package


def broken_rows(*arguments: object) -> list[tuple[str, str]]:
    """What ``lmassay doctor`` calls broken, each with what it found."""
    done = lmassay("doctor", "--json", *arguments)
    assert "Traceback" not in done.stderr, done.stderr
    rows = [(row["what"], row["found"]) for row in json.loads(done.stdout)["findings"] if row["state"] == "broken"]
    assert done.returncode == (1 if rows else 0)
    return rows


# --- declarations -----------------------------------------------------------------------------------------------------

TASKS = "tasks={'x': TaskEntry(path='m:T', summary='s')}"
WRONG = {
    "one-command": (
        f"evaluation = Evaluation(name='x', question='Q', {TASKS}, commands=Command('x', 'y', 'z:z'))",
        "write commands=(Command(…),) with a comma",
    ),
    "one-metric": (
        f"evaluation = Evaluation(name='x', question='Q', {TASKS}, metrics=Metric('m'))",
        "write metrics=(Metric(…),) with a comma",
    ),
    "metric-names": (
        f"evaluation = Evaluation(name='x', question='Q', {TASKS}, metrics=['m'])",
        "metrics[0] must be a Metric, not 'm' (str)",
    ),
    "order": (
        f"evaluation = Evaluation(name='x', question='Q', {TASKS}, order='first')",
        "order must be a whole number, not 'first' (str)",
    ),
    "task-list": ("evaluation = Evaluation(name='x', question='Q', tasks=['a', 'b'])", "tasks must be a mapping"),
    "task-path": (
        "evaluation = Evaluation(name='x', question='Q', tasks={'a': 'm:T'})",
        "tasks['a'] must be a TaskEntry, not 'm:T' (str)",
    ),
    "hook": (
        f"evaluation = Evaluation(name='x', question='Q', {TASKS}, section='nowhere')",
        "section must be an import path: 'package.module:name'",
    ),
    "exits": ("import sys\nsys.exit(3)", "SystemExit(3)"),
    "raises": ("import nothing_like_this", "No module named 'nothing_like_this'"),
    "number": ("evaluation = 7", "must be an Evaluation, not 7 (int)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_package_that_cannot_be_loaded_is_named_with_the_reason_and_all_else_works(tmp_path, monkeypatch, case):
    code, reason = WRONG[case]
    monkeypatch.syspath_prepend(str(write_package(tmp_path, f"lmassay-wrong-{case}", code)))
    [(what, message)] = broken_rows()
    assert what == f"the package lmassay-wrong-{case}"
    assert reason in message
    assert lmassay("--help").returncode == 0
    listed = lmassay("tasks")
    assert "robustness" in listed.stdout
    assert f"warning: the package lmassay-wrong-{case} could not be loaded" in listed.stderr


def test_an_unknown_task_or_command_mentions_packages_that_could_not_be_loaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(write_package(tmp_path, "lmassay-unloaded", "import nothing_like_this")))
    config = write_config(tmp_path / "c.yaml", {"task": "rude", "model": "echo"})
    for done in (lmassay("check", config), lmassay("rude"), lmassay("tasks", "rude"), lmassay("init", "rude")):
        assert done.returncode == 2
        assert "the package lmassay-unloaded could not be loaded: ModuleNotFoundError" in done.stderr
        assert "see lmassay doctor" in done.stderr


# --- names ------------------------------------------------------------------------------------------------------------


def test_the_own_evaluations_win_over_those_of_other_packages(tmp_path, monkeypatch):
    code = politeness("aaa_first", "order=-5,", name="bias", task="bias2")
    monkeypatch.syspath_prepend(str(write_package(tmp_path, "aaa-first", code)))
    assert package_of(evaluation_called("bias")) == "lmassay"
    [(what, message)] = broken_rows()
    assert (what, "'bias'" in message, "lmassay" in message) == ("the package aaa-first", True, True)


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_between_two_packages_the_search_path_decides_nothing(tmp_path, monkeypatch, order):
    for package in order:
        module = f"twice_{package}"
        folder = tmp_path / package
        write_package(folder, f"twice-{package}", politeness(module, name="twice", task=f"polite_{package}"))
        monkeypatch.syspath_prepend(str(folder))
    assert package_of(evaluation_called("twice")) == "twice-one"
    messages = {problem.package: problem.what for problem in installed_evaluations().problems}
    assert "twice-two" in messages["twice-one"]
    assert "twice-one" in messages["twice-two"]
    assert {what for what, _ in broken_rows()} == {"the package twice-one", "the package twice-two"}


def test_a_package_with_two_evaluations_of_one_name_is_reported_once(tmp_path, monkeypatch):
    write_package(tmp_path, "two-alike", politeness("two_alike", name="alike"))
    (tmp_path / "second_alike.py").write_text(
        IMPORTS + politeness("second_alike", name="alike", task="polite2"), encoding="utf-8"
    )
    points = tmp_path / "two_alike-1.0.dist-info" / "entry_points.txt"
    points.write_text(
        "[lmassay.evaluations]\nfirst = two_alike:evaluation\nsecond = second_alike:evaluation\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    reason = "has two entry points for the evaluation 'alike'; remove one or rename its evaluation"
    assert broken_rows() == [("the package two-alike", reason)]


def test_a_command_whose_name_is_taken_or_impossible_is_reported(tmp_path, monkeypatch):
    commands = "commands=(Command('run', 'h', 'm:c'), Command('tse', 'h', 'm:c'), Command('my cmd', 'h', 'm:c')),"
    monkeypatch.syspath_prepend(str(write_package(tmp_path, "takes-names", politeness("takes_names", commands))))
    messages = [text for what, text in broken_rows() if what == "the package takes-names"]
    assert [("'run'" in text, "'tse'" in text, "'my cmd'" in text) for text in messages] == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
    ]
    assert "my cmd" not in lmassay("--help").stdout


def test_a_task_whose_name_is_taken_is_reported_and_the_card_goes_on(tmp_path, monkeypatch):
    code = politeness("second_bias", "order=-5,", task="bias")
    monkeypatch.syspath_prepend(str(write_package(tmp_path, "second-bias", code)))
    assert broken_rows() == [("the task bias", "from lmassay: also provided by second-bias; remove or rename one")]
    done = lmassay("card", "echo", "--quick", "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert "warning: bias is left out" in done.stderr
    assert {run["task"] for run in json.loads(done.stdout)["runs"]} == {"robustness", "fewshot"}


# --- hooks ------------------------------------------------------------------------------------------------------------

HOOKS = ("section", "texts", "headline", "export", "card", "checks", "after_run")


@pytest.fixture
def run_of_broken_hooks(tmp_path, monkeypatch):
    """Two runs of a task whose evaluation has hooks that all raise."""
    hooks = " ".join(f"{name}=boom," for name in HOOKS)
    code = "def boom(*_):\n    raise RuntimeError('boom')\n\n" + politeness("broken_hooks", hooks)
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "broken-hooks", code)))
    config = write_config(tmp_path / "c.yaml", {"task": "polite", "model": "echo", "seed": [0, 1]})
    return lmassay("run", config, "--results", tmp_path / "results")


def assert_warned(done, hook):
    assert done.returncode == 0, done.stderr
    warning = f"warning: {hook} of the evaluation politeness (package broken-hooks) failed: RuntimeError('boom')"
    assert done.stderr.count(warning) == 1, done.stderr


def test_a_hook_that_raises_is_one_warning_and_the_command_goes_on(run_of_broken_hooks, tmp_path):
    assert_warned(run_of_broken_hooks, "after_run")
    page = tmp_path / "page.html"
    report = lmassay("report", "-o", page, "--results", tmp_path / "results")
    for hook in ("section", "texts", "headline"):
        assert_warned(report, hook)
    text = page.read_text(encoding="utf-8")
    assert "Is it polite?" in text
    assert "slurs" in text
    exported = lmassay(
        "export", "latest", "--format", "lm-eval", "-o", tmp_path / "logs", "--results", tmp_path / "results"
    )
    assert_warned(exported, "export")
    card = lmassay("card", "echo", "--quick", "--dry-run", "--json")
    assert_warned(card, "card")
    assert "robustness" in card.stdout
    messages = " ".join(text for _, text in broken_rows())
    for hook in ("checks", "card", "export"):
        assert f"{hook} of the evaluation politeness (package broken-hooks) failed" in messages


def test_a_wrong_import_path_is_reported_wherever_it_stands(tmp_path, monkeypatch):
    code = """
    evaluation = Evaluation(
        name="lost",
        question="Q?",
        tasks={
            "lost": TaskEntry(path="lost_paths.nowhere:T", summary="a"),
            "lost2": TaskEntry(path="lost_paths:Nope", summary="b"),
        },
        section="lost_paths.nowhere:section",
        commands=(Command("lostcommand", "h", "lost_paths.nowhere:command"),),
        checks="lost_paths.nowhere:checks",
        card="lost_paths:nope",
        published_card=PublishedCard(("en",), "lost_paths.nowhere:variants"),
    )
    """
    monkeypatch.syspath_prepend(str(write_package(tmp_path, "lost-paths", code)))
    listed = lmassay("tasks")
    assert listed.returncode == 0, listed.stderr
    assert "lost_paths.nowhere:T cannot be imported: there is no module lost_paths.nowhere" in listed.stdout
    assert "the module lost_paths has no 'Nope'" in listed.stdout
    messages = " ".join(text for _, text in broken_rows())
    for part in ("section", "commands['lostcommand']", "checks", "card", "published_card.variants"):
        assert f"{part} of the evaluation lost" in messages
    assert "lost_paths:Nope cannot be imported" in messages
    config = write_config(tmp_path / "c.yaml", {"task": "lost", "model": "echo"})
    for done in (lmassay("check", config), lmassay("lostcommand")):
        assert done.returncode == 2
        assert "cannot be imported: there is no module lost_paths.nowhere" in done.stderr
    card = lmassay("card", "echo", "--quick", "--dry-run")
    assert card.returncode == 0, card.stderr
    assert "the module lost_paths has no 'nope'" in card.stderr


def test_a_component_that_raises_an_error_of_lmassay_when_imported_does_not_end_the_list(tmp_path, monkeypatch):
    (tmp_path / "picky_part.py").write_text("from lmassay import UserError\nraise UserError('set PICKY_HOME')\n")
    code = politeness("picky", "components={'scorer': {'picky': Component('picky_part:Scorer', 'picky')}},")
    code = f"from lmassay.contracts import Component\n{code}"
    monkeypatch.syspath_prepend(str(write_package(tmp_path, "picky", code)))
    listed = lmassay("scorers")
    assert listed.returncode == 0, listed.stderr
    assert "set PICKY_HOME" in listed.stdout
    assert "chrf" in listed.stdout


def test_a_hook_that_returns_something_else_is_a_warning(tmp_path, monkeypatch):
    code = politeness("odd_hooks", "section=lambda store, records: 7, texts=lambda row, asked: ['x'],")
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "odd-hooks", code)))
    config = write_config(tmp_path / "c.yaml", {"task": "polite", "model": "echo"})
    assert lmassay("run", config, "--results", tmp_path / "results").returncode == 0
    report = lmassay("report", "-o", tmp_path / "page.html", "--results", tmp_path / "results")
    assert report.returncode == 0, report.stderr
    assert "it returned 7 (int), not a Section" in report.stderr
    assert "it must return (name, text) pairs only, but its list contains 'x' (str)" in report.stderr


# --- runs -------------------------------------------------------------------------------------------------------------


def test_a_run_keeps_the_direction_and_bounds_of_all_metrics_without_the_package(tmp_path, monkeypatch):
    site = write_package(tmp_path / "site", "gone-later", politeness("gone_later"))
    config = write_config(tmp_path / "c.yaml", {"task": "polite", "model": "echo"})
    with monkeypatch.context() as patched:
        patched.syspath_prepend(str(site))
        assert lmassay("run", config, "--results", tmp_path / "results").returncode == 0
    shutil.rmtree(site)
    target = tmp_path / "out.json"
    done = lmassay("export", "latest", "--format", "every-eval-ever", "-o", target, "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    results = json.loads(target.read_text(encoding="utf-8"))["evaluation_results"]
    [slurs] = [result["metric_config"] for result in results if result["metric_config"]["metric_name"] == "slurs"]
    assert (slurs["lower_is_better"], slurs["max_score"]) == (True, 5.0)


def test_a_users_task_named_like_a_shipped_one_is_not_taken_for_it(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from tests.plugins.test_compatibility import Lengths\n\nclass Mine(Lengths):\n    name = 'bias'\n",
        encoding="utf-8",
    )
    config = write_config(tmp_path / "c.yaml", {"task": "mine.py:Mine", "model": "echo"})
    assert lmassay("run", config, "--results", tmp_path / "results").returncode == 0
    page = tmp_path / "page.html"
    done = lmassay("report", "-o", page, "--results", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert "Is it biased" not in page.read_text(encoding="utf-8")


def test_an_empty_results_folder_says_so(tmp_path):
    from lmassay.errors import StoreError
    from lmassay.storage.store import Store

    with Store(tmp_path / "results", create=True) as store, pytest.raises(StoreError, match="there are no runs in"):
        store.run("latest")


# --- findings ---------------------------------------------------------------------------------------------------------


def test_a_missing_package_is_suggested_with_the_extra_that_brings_it():
    def remedy(**options: str) -> str:
        return Finding.of_package("not-there", "a detector", **options).remedy

    assert remedy(extra="hf") == "pip install 'lmassay[hf]'"
    assert remedy(extra="detect", of="lmassay-toxicity") == "pip install 'lmassay-toxicity[detect]'"
    assert remedy(extra="") == "pip install not-there"


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            "log_document=lambda row: 1 / 0",
            "export.log_document of the evaluation politeness (package bad-export) failed: Zero",
        ),
        (
            "log_sample=lambda row: {'asked': []}",
            "it returned a dictionary without answers, metrics, lmassay; it must have",
        ),
    ],
)
def test_a_function_of_an_export_that_fails_ends_the_export_in_one_line(tmp_path, monkeypatch, member, message):
    code = "from lmassay.interchange.exports import Export\n\n" + politeness(
        "bad_export", f"export=lambda: Export({member}),"
    )
    monkeypatch.syspath_prepend(str(write_package(tmp_path / "site", "bad-export", code)))
    config = write_config(tmp_path / "c.yaml", {"task": "polite", "model": "echo"})
    assert lmassay("run", config, "--results", tmp_path / "results").returncode == 0
    done = lmassay(
        "export", "latest", "--format", "lm-eval", "-o", tmp_path / "logs", "--results", tmp_path / "results"
    )
    assert done.returncode == 2
    assert message in done.stderr
