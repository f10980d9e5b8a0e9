"""``lmassay protocol``: the three criteria on a terminal, in Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from click.testing import CliRunner, Result

from lmassay.cli import app
from lmassay.errors import LmassayError
from lmassay.storage.store import Store
from tests.evaluations.fewshot.report.small_fewshot import GRID, NAN, failed, fewshot_run, fill, row, sweep, task
from tests.helpers import lmassay, write_config, write_lines
from tests.published_data import published_set

TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"}
STRATEGIES = ("multi_splits", "cross_validation")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two strategies on two tasks; one configuration with a failed training."""
    place = tmp_path_factory.mktemp("user")
    runs = []
    for strategy in STRATEGIES:
        splits = {"strategy": strategy, "k": 2}
        runs += sweep(GRID, splits=splits) + sweep(GRID, "superglue/wic", splits=splits)
        broken = task(method={"name": "pet", "learning_rate": 1e-3}, splits=splits)
        runs.append(fewshot_run(f"broken-{strategy}", broken, [row(0, 0.1, 0.9), failed(1)], status="incomplete"))
    fill(place / "results", runs, notes=["split 1: no example of 'yes' to train on"])
    return place


def printed(folder, *arguments: object) -> str:
    return invoked("protocol", *arguments, "--results", folder / "results").stdout


def invoked(*arguments: object, env: dict[str, str] | None = None) -> Result:
    """The command in this process, which is quicker by far."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], env=env, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def test_each_strategy_has_one_table_with_three_criteria(folder):
    shown = printed(folder)
    assert "MS: Multi-Splits, K = 2, ratio 0.5" in shown
    assert "CV: cross-validation, K = 2" in shown
    part = shown.partition("MS: ")[2]
    assert re.search(r"^test +71\.00±1\.41 +71\.00±1\.41 +71\.00$", part, flags=re.MULTILINE)
    assert re.search(r"^dev–test correlation +0\.900 +0\.900 +0\.900$", part, flags=re.MULTILINE)
    assert re.search(r"^test, K=1 +70\.00 +70\.00 +70\.00$", part, flags=re.MULTILINE)
    assert re.search(r"^superglue/rte +learning_rate=4e-05 +75\.00±1\.41 +2 of 2 +32/32/277$", part, flags=re.MULTILINE)


def test_every_number_has_n_and_its_interval(folder):
    lines = printed(folder).partition("MS: ")[2].splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("test "))
    assert lines[place + 1].split() == ["n=2", "[49.0,", "93.0]", "[49.0,", "93.0]", "2", "tasks"]
    place = next(n for n, line in enumerate(lines) if line.startswith("dev–test"))
    assert lines[place + 1].split()[0] == "n=5"


def test_strategies_are_compared(folder):
    shown = printed(folder).partition("Test performance of the selected configuration")[2]
    assert re.search(r"^CV +71\.00±1\.41", shown, flags=re.MULTILINE)
    assert "Dev–test rank correlation" in shown
    assert "Stability (lmassay's definition): highest minus lowest test mean over K" in shown
    assert re.search(r"^MS, by chance +1\.55", shown, flags=re.MULTILINE)


def test_a_failed_training_is_reported_and_its_configuration_is_not_selected(folder):
    shown = printed(folder)
    assert f"superglue/rte: 1 training failed: {NAN}" in shown
    assert "'learning_rate=0.001' has 1 of 2 splits (missing: 1)" in shown
    assert "90.00" not in shown
    assert "no example of 'yes' to train on" in shown


def test_it_fits_a_terminal_of_80_columns(folder):
    done = invoked("protocol", "--results", folder / "results", env=TERMINAL)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    assert max(len(line) for line in lines if not line.startswith("Stability")) <= 80
    assert any("71.00±1.41" in line for line in lines)


def test_eight_tasks_are_parted_to_fit(tmp_path):
    names = ("boolq", "rte", "wic", "cb", "multirc", "wsc", "copa", "record")
    fill(tmp_path / "results", [run for name in names for run in sweep(GRID, f"superglue/{name}", splits={"k": 2})])
    lines = invoked("protocol", "--results", tmp_path / "results", env=TERMINAL).stdout.splitlines()
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert sum(line.startswith("test   ") for line in plain) == 3, "the table in three parts"
    assert max(map(len, plain)) <= 80
    assert re.search(r"BoolQ +RTE +WiC", "\n".join(plain))


def test_it_is_a_command_that_ends_well(folder):
    done = lmassay("protocol", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "MS: Multi-Splits" in done.stdout


def test_named_runs_are_judged_alone(folder):
    with Store(folder / "results") as store:
        ids = [r.id for r in store.runs() if r.config["task"]["data"] == "superglue/wic"][:5]
    output = json.loads(printed(folder, *ids, "--json"))
    (study,) = output["studies"]
    (strategy,) = study["strategies"]
    assert list(strategy["tasks"]) == ["superglue/wic"]


def test_json_has_everything(folder):
    (study,) = json.loads(printed(folder, "--json"))["studies"]
    assert (study["model"], study["method"], len(study["runs"])) == ("tiny", "pet", 22)
    arm = next(s for s in study["strategies"] if s["strategy"] == "multi_splits")
    task_results = arm["tasks"]["superglue/rte"]
    assert task_results["selected"]["params"] == {"learning_rate": 4e-5, "pattern": 0}
    assert task_results["selected"]["test"]["value"] == pytest.approx(0.71)
    assert task_results["correlation"]["n"] == 5
    assert [point["k"] for point in task_results["stability"]["points"]] == [1, 2]
    assert len(task_results["configurations"]) == 6
    (lost,) = task_results["wanting"]
    assert (lost["split"], lost["failed"], lost["reason"]) == (1, True, NAN)
    assert task_results["examples"] == {"train": [32], "dev": [32], "test": [277]}


def test_csv_is_one_number_a_line(folder):
    rows = list(csv.DictReader(io.StringIO(printed(folder, "--format", "csv"))))
    (test,) = [
        r for r in rows if (r["strategy"], r["task"], r["criterion"]) == ("multi_splits", "superglue/rte", "test")
    ]
    assert float(test["value"]) == pytest.approx(0.71)
    assert (test["n"], test["configuration"]) == ("2", "learning_rate=4e-05")
    assert {"correlation", "stability of test", "stability of correlation"} <= {r["criterion"] for r in rows}


def test_latex_is_one_tabular_a_table_with_nothing_unescaped(folder):
    text = printed(folder, "--format", "tex")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 6
    assert r"test & 71.00\ensuremath{\pm}1.41 & 71.00\ensuremath{\pm}1.41 & 71.00 \\" in text
    assert r"{\scriptsize n=2} & {\scriptsize [58.3, 83.7]}" in text
    inside = [line for line in text.splitlines() if not line.startswith(("%", "\\"))]
    assert not any("_" in line or "–" in line for line in inside)
    columns = text.partition(r"\begin{tabular}{")[2].partition("}")[0]
    rows = [line for line in text.partition(r"\end{tabular}")[0].splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in rows} == {len(columns.split()) - 1}
    first = text.partition(r"\bottomrule")[0].splitlines()
    assert first[first.index(r"\midrule", first.index(r"\midrule") + 1) + 1].startswith("test, K=1"), "a rule above"


def test_markdown_is_written_to_a_file(folder, tmp_path):
    assert printed(folder, "--format", "md", "-o", tmp_path / "table.md") == ""
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "| test<br>n=2 | 71.00±1.41<br>[58.3, 83.7] |" in text
    assert "| superglue/rte | learning_rate=4e-05<br>for all: pattern=0 |" in text


def test_sweeps_of_several_k_are_one_curve(tmp_path):
    four = {rate: [*split_scores, *split_scores] for rate, split_scores in GRID.items()}
    fill(tmp_path / "results", [*sweep(GRID, splits={"k": 2}), *sweep(four, splits={"k": 4})])
    shown = printed(tmp_path)
    assert shown.count("MS: Multi-Splits") == 1
    assert "MS: Multi-Splits, K = 4" in shown
    assert "Each K was run separately." in shown
    assert re.search(r"^test, K=2 +71\.00±1\.41", shown, flags=re.MULTILINE)
    assert re.search(r"^MS, K=2 +71\.00", shown, flags=re.MULTILINE)


def test_the_latest_command_alone_is_judged_unless_all_are_asked_for(tmp_path):
    first, last = sweep(GRID, splits={"k": 2}), sweep(GRID, "superglue/wic", splits={"k": 2})
    fill(tmp_path / "results", first, "one")
    fill(tmp_path / "results", last, "two")
    assert "RTE" not in printed(tmp_path)
    assert "RTE" in printed(tmp_path, "--all")


def test_a_sweep_that_was_killed_is_reported_with_the_way_on(tmp_path):
    runs = [
        fewshot_run(str(rate), task(method={"name": "pet", "learning_rate": rate}), [], status="waiting")
        for rate in (1, 2)
    ]
    fill(tmp_path / "results", runs)
    shown = printed(tmp_path)
    assert "8 trainings not done: the run is waiting; continue with lmassay resume" in shown
    assert "nothing to select" in shown


@pytest.mark.parametrize(
    ("name", "beginning"), [("t.md", "#"), ("t.csv", "model,method,"), ("t.json", "{"), ("t.tex", "% Needs")]
)
def test_the_ending_of_the_file_decides_what_is_written(folder, tmp_path, name, beginning):
    printed(folder, "-o", str(tmp_path / name))
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(beginning)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all", "latest"], "give either --all or names"),
        (["--json", "--format", "md"], "give only one of them"),
        (["-o", "table.txt"], "the name must end in .md, .markdown, .tex, .csv or .json"),
        (["-o", "table.md", "--format", "text"], "-o needs --format md, tex or csv"),
        (["nothing"], "there is no run 'nothing'"),
    ],
)
def test_a_mistake_is_reported(folder, arguments, message):
    with pytest.raises(LmassayError, match=re.escape(message)):
        printed(folder, *arguments)


def test_runs_of_another_evaluation_are_refused(tmp_path):
    src = write_lines(tmp_path / "src.txt", ["one", "two"])
    config = {
        "task": {"name": "robustness", "src": str(src), "attack": {"name": "delete", "rate": 1.0}},
        "model": "echo",
    }
    write_config(tmp_path / "run.yaml", config)
    invoked("run", tmp_path / "run.yaml", "--results", tmp_path / "results")
    with pytest.raises(LmassayError, match="no few-shot run"):
        printed(tmp_path)


METHOD = """
import numpy as np

from lmassay.evaluations.fewshot.methods.contract import Method, TrainedClassifier

class Oracle(TrainedClassifier):
    def __init__(self, labels, right):
        self.labels, self.right = labels, right

    def logits(self, examples):
        rows = np.zeros((len(examples), len(self.labels)))
        for place, example in enumerate(examples):
            known = int(example.guid.rpartition("-")[2]) % 10 < self.right
            rows[place, self.labels.index(example.label) if known else 0] = 1.0
        return rows

class Knows(Method):
    needs = frozenset()

    def __init__(self, right: int = 5):
        self.right = right

    def fit(self, inputs):
        return Oracle(inputs.task.labels, self.right)
"""


def test_a_sweep_prints_the_criteria_after_its_runs(tmp_path):
    write_lines(tmp_path / "knows.py", METHOD.splitlines())
    config = {
        "name": "fewshot",
        "data": "superglue/rte",
        "data_dir": str(published_set("fewglue")),
        "method": {"name": "knows.py:Knows", "right": [2, 5, 7, 9]},
        "splits": {"k": 2},
    }
    write_config(tmp_path / "run.yaml", {"task": config})
    done = invoked("run", tmp_path / "run.yaml", "--results", tmp_path / "results")
    assert "4 runs; full results" in done.stdout
    assert re.search(r"^dev–test correlation +1\.000", done.stdout, flags=re.MULTILINE)
    assert re.search(r"^superglue/rte +right=9", done.stdout, flags=re.MULTILINE)
    as_json = invoked("run", tmp_path / "run.yaml", "--json", "--results", tmp_path / "results")
    assert len(json.loads(as_json.stdout)["runs"]) == 4
