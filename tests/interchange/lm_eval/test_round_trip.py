"""A run that was exported as a log and imported again: as sure as it was, as complete as it was, as comparable."""

from __future__ import annotations

import json

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.imported.reading import configuration, grouped
from lmassay.interchange.lm_eval.log_export import write_logs
from lmassay.running import runner
from lmassay.statistics.caveats import caveats
from lmassay.statistics.sides import load_side
from lmassay.storage.store import Store
from tests.interchange.kit import PARADIGM, bias_run, generated_run, pairs_run


def exported(run, folder):
    """The files that an export makes: logs, then totals."""
    with Store(run.folder) as store:
        return write_logs(store, store.run(run.id), folder).files


def taken_in(files, folder, **options):
    """The record of an import and its rows by id."""
    with Store(folder, create=True) as store:
        (paths,) = grouped([path for path in files if path.suffix == ".jsonl"])
        record = runner.start(runner.plan(configuration(paths, **options)), store)
        return record, {row.example.id: row for row in store.rows(record.id)}


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def overall(record):
    return {r.metric: (r.value, r.low, r.high, r.n) for r in record.results if r.group == "overall"}


def rows_of(run):
    with Store(run.folder) as store:
        return {row.example.id: row for row in store.rows(run.id)}


@pytest.mark.parametrize("averaging", ["test", "all"])
def test_metrics_come_back_with_the_intervals_of_their_clusters_however_they_are_put_together(tmp_path, averaging):
    run = bias_run(tmp_path, averaging)
    record, back = taken_in(exported(run, tmp_path / "out"), tmp_path / "back")
    before, after = overall(run.record), overall(record)
    assert {"accuracy_amb", "accuracy_dis", "diff_bias_amb", "diff_bias_dis", "s_dis", "ooc"} <= set(after)
    assert after == {metric: before[metric] for metric in after}
    assert record.design.cluster == "template"
    assert record.design.headline == run.record.design.headline
    assert record.design.combinations == run.record.design.combinations
    assert {i: row.score.values for i, row in back.items()} == {i: r.score.values for i, r in rows_of(run).items()}


def test_codes_of_an_answer_are_no_metrics_of_a_log_and_all_metrics_have_a_direction(tmp_path):
    log, results = exported(bias_run(tmp_path), tmp_path / "out")
    for sample in lines(log):
        assert not {"choice", "letter", "correct_biased"} & set(sample["metrics"])
        assert "choice" in sample["lmassay"]["scores"]
    totals = json.loads(results.read_text(encoding="utf-8"))
    (means,) = totals["results"].values()
    (better,) = totals["higher_is_better"].values()
    assert {name for name in better if f"{name},none" in means} == set(better) >= {"accuracy_dis", "diff_bias_dis"}
    assert better["accuracy_dis"] is True


def test_standard_errors_and_numbers_of_the_totals_are_those_of_the_run(tmp_path):
    # With gaps, the mean over templates is another than that over answers.
    by_template = bias_run(tmp_path, "all", failing=0.3)
    totals = json.loads(exported(by_template, tmp_path / "out")[-1].read_text(encoding="utf-8"))
    (means,) = totals["results"].values()
    for metric in ("accuracy_amb", "diff_bias_dis"):
        assert means[f"{metric},none"] == by_template[metric].value
        assert means[f"{metric}_stderr,none"] == "N/A"
    run = bias_run(tmp_path)
    totals = json.loads(exported(run, tmp_path / "other")[-1].read_text(encoding="utf-8"))
    (means,) = totals["results"].values()
    rows = [row for row in rows_of(run).values() if "accuracy_amb" in row.score.values]
    values = [row.score.values["accuracy_amb"] for row in rows]
    templates = [row.example.groups["template"] for row in rows]
    mean = sum(values) / len(values)
    adds = [
        sum(v - mean for v, t in zip(values, templates, strict=True) if t == one) / len(values)
        for one in sorted(set(templates))
    ]
    wanted = sum(a * a for a in adds) * len(adds) / (len(adds) - 1)
    assert means["accuracy_amb_stderr,none"] == pytest.approx(wanted**0.5)


def test_what_a_log_cannot_hold_is_reported_by_name(tmp_path):
    record, _ = taken_in(exported(bias_run(tmp_path), tmp_path / "out"), tmp_path / "back")
    note = record.provenance.notes[0]
    assert "is the log of a bias run" in note
    assert "results by group, consistency, letter_A" in note


@pytest.mark.parametrize("make", [pairs_run, lambda folder: bias_run(folder, failing=0.3)], ids=["pairs", "bias"])
def test_totals_that_leave_out_an_example_of_the_log_are_refused(tmp_path, make):
    log, results = exported(make(tmp_path), tmp_path / "out")
    document = json.loads(results.read_text(encoding="utf-8"))
    document["lmassay"]["left_out"][0]["id"] = lines(log)[0]["lmassay"]["id"]
    results.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(DataError, match=r"is in a log, but results_.*json lists it among those that are not"):
        taken_in([log, results], tmp_path / "back")


def test_a_number_of_tokens_beyond_all_bounds_is_none(tmp_path):
    log, results = exported(pairs_run(tmp_path), tmp_path / "out")
    first, *others = lines(log)
    first["lmassay"]["tokens"][1] = 10**400
    log.write_text("".join(json.dumps(sample) + "\n" for sample in [first, *others]), encoding="utf-8")
    _, rows = taken_in([log, results], tmp_path / "back")
    assert "tokens" in rows[first["lmassay"]["id"]].score.unscored["accuracy_token"]


def test_a_sample_that_is_not_of_the_cluster_it_names_is_refused(tmp_path):
    log, results = exported(bias_run(tmp_path), tmp_path / "out")
    rows = lines(log)
    del rows[2]["lmassay"]["groups"]["template"]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(DataError, match="line 3: the cluster 'template' is not a group of this sample"):
        taken_in([log, results], tmp_path / "back")


@pytest.mark.parametrize("make", [lambda f: bias_run(f, failing=0.2), pairs_run], ids=["general", "pairs"])
def test_examples_in_error_come_back_in_error_so_that_nobody_takes_the_run_for_whole(tmp_path, make):
    run = make(tmp_path)
    before = rows_of(run)
    failed = {i for i, row in before.items() if row.state == "error"}
    *logs, results = exported(run, tmp_path / "out")
    (counts,) = json.loads(results.read_text(encoding="utf-8"))["n-samples"].values()
    assert counts == {"original": len(before), "effective": len(before) - len(failed)}
    record, back = taken_in([*logs, results], tmp_path / "back")
    assert (record.status, record.note) == ("incomplete", run.record.note)
    assert {i for i, row in back.items() if row.state == "error"} == failed
    assert {row.error for row in back.values() if row.error} == {before[i].error for i in failed}
    assert {i: dict(row.example.groups) for i, row in back.items()} == {
        i: dict(row.example.groups) for i, row in before.items()
    }
    expected_note = f"{len(failed)} of {len(before)} examples are not in the log: {len(failed)} with errors"
    assert expected_note in record.provenance.notes


def test_examples_without_a_score_come_back_with_the_reason(tmp_path):
    run = bias_run(tmp_path, refusing=0.2)
    before = {i: row for i, row in rows_of(run).items() if row.state == "unscored"}
    assert before
    record, back = taken_in(exported(run, tmp_path / "out"), tmp_path / "back")
    assert record.status == "done"
    assert {i: row.score.unscored for i, row in back.items() if row.state == "unscored"} == {
        i: row.score.unscored for i, row in before.items()
    }
    assert f"{len(before)} of {len(back)} examples are not in the log: {len(before)} without a score" in (
        record.provenance.notes
    )


@pytest.mark.parametrize("make", [bias_run, pairs_run], ids=["general", "pairs"])
def test_a_run_that_was_broken_off_does_not_come_back_as_done(tmp_path, make):
    run = make(tmp_path)
    scored = {i for i, row in rows_of(run).items() if row.state == "scored"}
    with Store(run.folder, create=True) as store:
        store.set_status(run.id, "stopped", "the budget is used up")
    record, back = taken_in(exported(run, tmp_path / "out"), tmp_path / "back")
    assert record.status == "stopped"
    assert "the logged run is stopped (the budget is used up)" in record.note
    assert {i for i, row in back.items() if row.state == "scored"} == scored
    assert len(back) == len(rows_of(run))


def test_a_construction_without_any_score_is_reported_by_the_logs_of_the_others(tmp_path):
    pairs = [("The pilot sings.", "The pilot sing."), ("The cat sleeps now.", "The cat sleep now.")]
    data = {}
    for name, (good, bad) in zip(("failed", "good"), pairs, strict=True):
        data[name] = str(tmp_path / f"{name}.jsonl")
        row = {"sentence_good": good, "sentence_bad": bad}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    files = exported(pairs_run(tmp_path, data), tmp_path / "out")
    assert len(files) == 2
    record, back = taken_in(files, tmp_path / "back")
    assert record.status == "incomplete"
    assert {row.example.groups["paradigm"]: row.state for row in back.values()} == {"failed": "error", "good": "scored"}


def test_a_log_of_ours_without_its_totals_says_that_more_is_not_known(tmp_path):
    log, results = exported(bias_run(tmp_path, failing=0.2), tmp_path / "out")
    results.unlink()
    record, _ = taken_in([log], tmp_path / "back", model="m")
    assert record.design.cluster == "template"
    assert any("it is unknown whether the run was complete" in note for note in record.provenance.notes)


def test_two_imported_runs_differ_in_what_the_runs_themselves_did(tmp_path):
    runs = [bias_run(tmp_path, label=name) for name in ("one", "two")] + [bias_run(tmp_path, "all", label="three")]
    records = [taken_in(exported(run, tmp_path / run.id), tmp_path / "back")[0] for run in runs]
    with Store(tmp_path / "back") as store:
        one, two, three = (load_side(store, record) for record in records)
    assert caveats(one, [two]) == []
    assert ["averaging" in warning for warning in caveats(one, [three])] == [True]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"left_out": [{"id": 3}]}, "lmassay.left_out.0"),
        ({"combinations": {"a": {"terms": {"b": "much"}}}}, "lmassay.combinations.a.terms.b"),
        ({"combinations": {"a": {"terms": {"b": float("nan")}}}}, "lmassay"),
        ({"combinations": {"a": {"terms": {}}}}, "lmassay: the combined metric a has no terms"),
        ({"headline": "accuracy"}, "lmassay.headline"),
        ({"note": "\ud800"}, "lmassay"),
    ],
)
def test_totals_whose_own_field_is_damaged_are_refused_with_the_place(tmp_path, change, where):
    *logs, results = exported(generated_run(tmp_path), tmp_path / "out")
    document = json.loads(results.read_text(encoding="utf-8"))
    document["lmassay"] |= change
    results.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(DataError, match=f"{results.name}: {where}.*export the run again"):
        taken_in([*logs, results], tmp_path / "back")


def test_logs_of_earlier_versions_with_less_in_that_field_are_read(tmp_path):
    run = pairs_run(tmp_path)
    *logs, results = exported(run, tmp_path / "out")
    document = json.loads(results.read_text(encoding="utf-8"))
    document["lmassay"] = {name: document["lmassay"][name] for name in ("run", "task", "signature")}
    results.write_text(json.dumps(document), encoding="utf-8")
    record, back = taken_in([*logs, results], tmp_path / "back")
    assert len(back) == 6
    assert record.label == f"blimp_{PARADIGM}"
