"""A store that an earlier version wrote: every command works on it, and its numbers are the same."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from lmassay.plugins.evaluations import evaluation_of, metric_of
from lmassay.storage.store import STORE_FILE, Store
from tests.helpers import lmassay

FIXTURE = Path(__file__).parent / "old_store"
MADE_IN = "/tmp/lmassay-old-store"
DIED = "0dead0"
EVALUATION_OF_TASK = {
    "robustness": "robustness",
    "syntax": "syntax",
    "minimal_pairs": "syntax",
    "bias": "bias",
    "fewshot": "fewshot",
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / STORE_FILE).write_bytes(gzip.decompress((FIXTURE / f"{STORE_FILE}.gz").read_bytes()))
    shutil.copytree(FIXTURE / "pairs", tmp_path / "pairs")
    with sqlite3.connect(folder / STORE_FILE) as database:
        moved = json.dumps(str(tmp_path))[1:-1]
        database.execute("UPDATE runs SET config = replace(config, ?, ?)", (MADE_IN, moved))
    return folder


def stored_results(results: Path) -> dict[str, list[dict[str, object]]]:
    """As they stand in the file, whatever lmassay makes of them."""
    with sqlite3.connect(results / STORE_FILE) as database:
        return {run: json.loads(text) for run, text in database.execute("SELECT id, results FROM runs")}


def test_results_are_read_as_they_were_written(results):
    with Store(results) as store:
        read = {record.id: [result.as_dict() for result in record.results] for record in store.runs()}
    assert read == stored_results(results)
    assert sum(map(len, read.values())) > 500


def test_every_run_has_its_design_and_its_evaluation(results):
    with Store(results) as store:
        records = store.runs()
    for record in records:
        evaluation = evaluation_of(record)
        assert (evaluation.name if evaluation else None) == EVALUATION_OF_TASK.get(record.task), record.id
    by_task = {record.task: record for record in records}
    assert by_task["bias"].design.clusters == ("template",)
    assert by_task["bias"].design.combinations["diff_bias_dis"].bounds == (-1.0, 1.0)
    assert by_task["syntax"].design.pair_by == ("left",)
    assert by_task["syntax"].design.weights == {"tse": "tse_rows"}
    assert metric_of(by_task["robustness"], "success").better == "lower"
    assert metric_of(by_task["bias"], "diff_bias_amb").better == "zero"


def test_listing_and_showing(results):
    listed = lmassay("ls", "--results", results)
    assert listed.returncode == 0, listed.stderr
    assert "interrupted" in listed.stdout
    for run, expected in stored_results(results).items():
        for options in ((), ("--all",), ("--yaml",), ("--provenance",)):
            shown = lmassay("show", run, *options, "--results", results)
            assert shown.returncode == 0, shown.stderr
        shown = lmassay("show", run, "--json", "--results", results)
        assert json.loads(shown.stdout)["runs"][0]["results"] == expected


@pytest.mark.parametrize("suffix", ["html", "md", "tex", "csv"])
def test_a_report_of_all_runs(results, tmp_path, suffix):
    done = lmassay("report", "--all", "-o", tmp_path / f"report.{suffix}", "--results", results)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / f"report.{suffix}").read_text(encoding="utf-8")
    assert "0.375" in text or "0\\.375" in text


def test_the_page_has_the_tiles_sections_and_examples_of_all_evaluations(results, tmp_path):
    assert lmassay("report", "--all", "-o", tmp_path / "report.html", "--results", results).returncode == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for question in ("Does it break", "Does it know grammar", "Is it biased", "Does it learn"):
        assert question in page
    for task in (*EVALUATION_OF_TASK, "sums"):
        assert f'id="evaluation-{task}"' in page
    assert page.count("<svg") > 10


@pytest.mark.parametrize(
    ("base", "new"), [("83837a", "4300c1"), ("a1658a", "55f00e"), ("5bbb65", "882860"), ("58ce0b", "aa6d8b")]
)
def test_runs_are_compared_and_gated(results, tmp_path, base, new):
    page = tmp_path / "compared.html"
    done = lmassay("compare", base, new, "--flips", "-o", page, "--results", results)
    assert done.returncode == 0, done.stderr
    assert page.stat().st_size > 10_000
    metric = json.loads(lmassay("compare", base, new, "--json", "--results", results).stdout)["comparisons"][0][
        "metric"
    ]
    gated = lmassay("compare", base, new, "--fail-if", f"{metric}<-0.5", "--allow-incomplete", "--results", results)
    assert gated.returncode in (0, 1, 2), gated.stderr
    assert "Traceback" not in gated.stderr


@pytest.mark.parametrize("form", ["jsonl", "csv", "lm-eval", "every-eval-ever"])
def test_every_run_is_exported_or_refused_with_the_reason(results, tmp_path, form):
    for run in stored_results(results):
        done = lmassay("export", run, "--format", form, "-o", tmp_path / "out" / run, "--results", results)
        assert done.returncode == 0 or done.stderr.startswith("error: "), done.stderr
        assert "Traceback" not in done.stderr


def test_the_protocol_judges_the_few_shot_runs(results):
    done = lmassay("protocol", "--all", "--results", results)
    assert done.returncode == 0, done.stderr
    assert "multi-splits" in done.stdout.lower() or "multi_splits" in done.stdout.lower()


def test_a_run_whose_process_died_is_finished(results):
    with Store(results) as store:
        whole = next(record for record in store.runs() if record.id.endswith("58ce0b"))
    done = lmassay("resume", DIED, "--results", results)
    assert done.returncode == 0, done.stderr
    with Store(results) as store:
        finished = store.run(DIED)
    assert finished.status == "done"
    assert [result.value for result in finished.results] == [result.value for result in whole.results]
    # Intervals are computed at the end, by the rule of that time, and the signature says so.
    assert {result.method for result in finished.results} == {"wilson"}
    assert "ci:0.95,cr2.3" in finished.signature


def test_new_runs_stand_beside_the_old_ones(results, tmp_path):
    config = tmp_path / "new.yaml"
    config.write_text(
        json.dumps(
            {
                "task": {"name": "minimal_pairs", "data": str(tmp_path / "pairs" / "agreement.jsonl")},
                "model": {"name": f"{tmp_path / 'pairs' / 'made.py'}:Made", "label": "first"},
                "resamples": 100,
            }
        ),
        encoding="utf-8",
    )
    before = len(stored_results(results))
    done = lmassay("run", config, "--results", results)
    assert done.returncode == 0, done.stderr
    assert len(stored_results(results)) == before + 1
    compared = lmassay("compare", "58ce0b", "latest", "--results", results)
    assert compared.returncode == 0, compared.stderr
    assert "same in all 6" in compared.stdout
