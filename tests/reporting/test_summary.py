"""The first table of the page: a row per run, its main numbers, and what a reader should look at."""

from __future__ import annotations

import pytest

from lmassay.reporting.page import render
from lmassay.reporting.run_labels import label_runs, run_titles
from lmassay.reporting.summary import examples_link, main_metrics, summary_tables
from lmassay.storage.store import Store
from lmassay.types import Example, Row, Score
from tests.compare_kit import add, rates

GOOD = [1] * 38 + [0] * 2
NEARLY = [1] * 37 + [0] * 3
BAD = [1] * 10 + [0] * 30


def add_run(folder, run, values, model, rows=(), metrics=("accuracy",), **more):
    results = []
    for metric in metrics:
        mean = sum(values) / len(values)
        results.append({"metric": metric, "group": "overall", "value": mean, "low": 0.1, "high": 0.9, "n": len(values)})
    add(folder, run, [*rates(values), *rows], model=model, results=results, metrics=[{"name": "accuracy"}], **more)


def tables(folder):
    with Store(folder) as store:
        records = label_runs(store.runs()).records
        return summary_tables(store, records, run_titles(records))


def row_texts(table):
    return [[cell.text for cell in row.cells] for body in table.bodies for row in body.rows]


def test_the_best_run_is_bold_and_ties_are_marked(tmp_path):
    for run, values in (("a", GOOD), ("b", NEARLY), ("c", BAD)):
        add_run(tmp_path, run, values, model=run)
    (table,) = tables(tmp_path)
    assert row_texts(table) == [["a", "0.950†", "40"], ["b", "0.925†", "40"], ["c", "0.250", "40"]]
    assert "Holm-adjusted" in table.caption
    add_run(tmp_path / "two", "a", GOOD, model="a")
    add_run(tmp_path / "two", "c", BAD, model="c")
    (table,) = tables(tmp_path / "two")
    bold = [[cell.text for cell in row.cells if cell.bold] for row in table.bodies[0].rows]
    assert bold == [["0.950"], []]


def test_runs_that_do_not_differ_have_no_marks_and_the_caption_says_so(tmp_path):
    for run in ("a", "b"):
        add_run(tmp_path, run, GOOD, model=run)
    (table,) = tables(tmp_path)
    assert [row[1] for row in row_texts(table)] == ["0.950", "0.950"]
    assert "No run is significantly better than all others in accuracy" in table.caption


def test_errors_and_unscored_examples_are_counted_and_lead_to_these_examples(tmp_path):
    failed = Row(Example("x", {}), "error", Score(), "the server is on fire")
    without_score = Row(Example("y", {}), "unscored", Score(unscored={"accuracy": "no answer"}))
    add_run(tmp_path, "a", GOOD, model="m & n", rows=[failed, without_score], status="incomplete")
    (table,) = tables(tmp_path)
    assert [cell.text for cell in table.headers[0]][-4:] == ["n", "errors", "unscored", "status and notes"]
    *_, errors, unscored, status = table.bodies[0].rows[0].cells
    assert (errors.text, unscored.text, status.text) == ("1", "1", "incomplete")
    assert errors.warns
    assert status.warns
    assert errors.link.startswith("#examples?run=")
    assert errors.link.endswith("+on+m+%26+n&state=error")
    assert "All examples were scored" not in table.caption


def test_only_finished_runs_have_scored_all_examples(tmp_path):
    add_run(tmp_path / "done", "a", GOOD, model="m")
    add_run(tmp_path / "stopped", "a", GOOD, model="m", status="stopped")
    (finished,), (stopped,) = tables(tmp_path / "done"), tables(tmp_path / "stopped")
    assert "All examples were scored" in finished.caption
    assert "All examples were scored" not in stopped.caption


def test_a_run_without_results_has_a_row(tmp_path):
    add_run(tmp_path, "a", GOOD, model="m")
    add(tmp_path, "b", [], model="dead", results=[], status="failed")
    (table,) = tables(tmp_path)
    assert [row[0] for row in row_texts(table)] == ["m", "dead"]
    assert row_texts(table)[1][-1] == "failed"


def test_at_most_three_metrics_are_shown(tmp_path):
    add_run(tmp_path, "a", GOOD, model="m", metrics=("accuracy", "f1", "accuracy.std", "ece", "loss"), headline=())
    with Store(tmp_path) as store:
        assert main_metrics(store.runs()) == ["accuracy", "f1", "ece"]


def test_a_link_names_the_run_and_the_state():
    assert examples_link("a on b", "error") == "#examples?run=a+on+b&state=error"


@pytest.mark.parametrize("runs", [1, 20])
def test_a_page_without_examples_is_small(tmp_path, runs):
    for number in range(runs):
        add_run(tmp_path, f"run-{number:02}", GOOD, model=f"model {number}")
    with Store(tmp_path) as store:
        page = render(store, store.runs())
    data = page.partition('<script type="application/gzip">')[2].partition("</script>")[0]
    assert data
    assert len(page.encode()) - len(data) < 3_000_000


def test_examples_that_only_one_metric_could_not_score_are_counted_in_the_caption(tmp_path):
    results = [
        {"metric": "accuracy", "group": "overall", "value": 0.5, "low": 0.1, "high": 0.9, "n": 30, "n_unscored": 10},
        {"metric": "mass", "group": "overall", "value": 0.5, "low": 0.1, "high": 0.9, "n": 40},
    ]
    add(tmp_path, "a", rates(GOOD), model="m", results=results, metrics=[{"name": "accuracy"}])
    (table,) = tables(tmp_path)
    assert "Some metrics could not score every example (accuracy: 10); the task's section says why." in table.caption
    assert "All examples were scored" not in table.caption


def test_a_run_without_a_model_does_not_show_one(tmp_path):
    add_run(tmp_path, "a", GOOD, model="none")
    (table,) = tables(tmp_path)
    assert table.bodies[0].rows[0].cells[0].small == ()
    with Store(tmp_path) as store:
        page = render(store, store.runs())
    assert "of none" not in page
