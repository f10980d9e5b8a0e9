"""Runs of ours as logs of lm-evaluation-harness, and back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmassay.api import evaluate
from lmassay.errors import UserError
from lmassay.evaluations.imported.reading import configuration, grouped
from lmassay.interchange.lm_eval.log_export import TaskNames, stamp, write_logs
from lmassay.interchange.lm_eval.sample_logs import task_of
from lmassay.running import runner
from lmassay.storage.digests import ROWS
from lmassay.storage.file_names import safe_name
from lmassay.storage.store import Store
from tests.helpers import EVALUATIONS
from tests.interchange.kit import PARADIGM, bias_run, generated_run, pairs_run, samples


def exported(run, folder):
    with Store(run.folder) as store:
        return write_logs(store, run.record, folder)


def taken_back(files, folder):
    """Rows and results of a log, imported."""
    logs = [path for path in files if path.suffix == ".jsonl"]
    with Store(folder, create=True) as store:
        (paths,) = grouped(logs)
        record = runner.start(runner.plan(configuration(paths)), store)
        return record, {row.example.id: row for row in store.rows(record.id)}


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_log_has_the_keys_and_hashes_of_the_harness_in_its_order(tmp_path):
    written = exported(pairs_run(tmp_path), tmp_path / "out")
    assert [path.relative_to(tmp_path / "out").parts[0] for path in written.files] == ["acme__lengths-1b"] * 2
    assert written.files[0].name.startswith(f"samples_blimp_{PARADIGM}_20")
    real, ours = samples(f"blimp_{PARADIGM}")[0], lines(written.files[0])[0]
    assert [k for k in ours if k not in ("acc_norm", "lmassay")] == list(real)
    assert ours["doc"]["sentence_good"] == real["doc"]["sentence_good"]
    assert ours["target_hash"] == real["target_hash"]
    assert ours["prompt_hash"] == real["prompt_hash"]
    assert ours["doc_hash"] == hashlib.sha256(json.dumps(ours["doc"], indent=2).encode()).hexdigest()
    assert list(ours["arguments"]) == list(real["arguments"])
    assert [len(answer) for answer in ours["filtered_resps"]] == [2, 2]


def test_totals_have_what_the_harness_prints_its_table_from(tmp_path):
    run = pairs_run(tmp_path)
    written = exported(run, tmp_path / "out")
    totals = json.loads(written.files[-1].read_text(encoding="utf-8"))
    task = f"blimp_{PARADIGM}"
    assert totals["results"][task]["acc,none"] == run["accuracy"].value
    assert totals["results"][task]["acc_stderr,none"] > 0
    assert totals["n-samples"][task] == {"original": 8, "effective": 6}
    for key in ("versions", "n-shot", "higher_is_better", "group_subtasks", "config", "model_name", "lm_eval_version"):
        assert key in totals


def test_examples_in_error_are_no_samples_and_are_counted(tmp_path):
    written = exported(pairs_run(tmp_path), tmp_path / "out")
    assert (written.samples, written.left_out) == (6, 2)
    assert "pilot" not in written.files[0].read_text(encoding="utf-8")


def test_a_round_trip_gives_equal_scores_and_results(tmp_path):
    run = pairs_run(tmp_path)
    record, back = taken_back(exported(run, tmp_path / "out").files, tmp_path / "back")
    with Store(run.folder) as store:
        ours = {row.example.id: row for row in store.rows(run.id)}
    assert {name: row.score.values for name, row in back.items()} == {n: r.score.values for n, r in ours.items()}
    assert {n: r.score.details for n, r in back.items()} == {n: r.score.details for n, r in ours.items()}
    wanted = {(r.metric, r.group): (r.value, r.low, r.high, r.n) for r in run.results}
    assert {(r.metric, r.group): (r.value, r.low, r.high, r.n) for r in record.results} == wanted
    assert record.depends_on["imported"].startswith("lmassay-")


@pytest.mark.parametrize("clusters", ["noun", "paradigm"])
def test_many_constructions_with_clusters_come_back_as_one_run_with_the_same_intervals(tmp_path, clusters):
    run = pairs_run(tmp_path, {"a": "english:simple", "b c": "english:across_pp"}, clusters=clusters, max_per_file=12)
    written = exported(run, tmp_path / "out")
    assert len(written.files) == 3
    assert all("samples_minimal_pairs_" in path.name for path in written.files[:-1])
    record, _ = taken_back(written.files, tmp_path / "back")
    assert record.design.clusters == run.record.design.clusters
    value_of = {(r.metric, r.group): (r.value, r.low, r.high) for r in record.results}
    assert value_of == {(r.metric, r.group): (r.value, r.low, r.high) for r in run.results}


def test_generated_texts_have_the_general_form_and_come_back_with_equal_scores(tmp_path):
    run = generated_run(tmp_path)
    written = exported(run, tmp_path / "out")
    first = lines(written.files[0])[0]
    prompt, how = first["arguments"]["gen_args_0"].values()
    assert "chat" in prompt
    assert how["do_sample"] is False
    assert first["filtered_resps"][0] == first["resps"][0][0]
    record, back = taken_back(written.files, tmp_path / "back")
    assert record.task == "lm_eval"
    rows = {row["id"]: row["scores"] for row in run.rows()}
    assert {name: dict(row.score.values) for name, row in back.items()} == rows
    success = next(r for r in record.results if r.metric == "success")
    assert (success.value, success.low) == (run["success"].value, run["success"].low)


def test_a_run_whose_answers_such_logs_have_no_place_for_is_refused(tmp_path):
    task = {"name": "syntax", "data": "english:simple", "max_per_file": 2}
    model = {
        "name": f"{EVALUATIONS / 'syntax/sample/my_language_model.py'}:Bigrams",
        "text": str(EVALUATIONS / "robustness/sample/ref.en"),
    }
    (run,) = evaluate({"task": task, "model": model}, tmp_path / "ours")
    with pytest.raises(UserError, match=r"cannot be written as a log .* --format jsonl"):
        exported(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_of_an_earlier_version_that_kept_no_questions_is_reported_as_such(tmp_path):
    run = generated_run(tmp_path)
    with Store(run.folder, create=True) as store:
        store.database.execute("DELETE FROM asked")
        # Without the new count, the run would be damaged.
        store.database.set_digest(run.id, ROWS, store.counts_text(run.id))
    with pytest.raises(UserError, match="or an earlier version of lmassay made the run; then run it again"):
        exported(run, tmp_path / "out")


def test_a_run_without_any_score_is_reported_as_such(tmp_path):
    with pytest.raises(UserError, match="none of its examples has a score; it is incomplete"):
        exported(bias_run(tmp_path, failing=1.0), tmp_path / "out")


# --- names of files: no run's files are those of another, whatever things are named -----------------------------------


def named_run(folder: Path, *names: str):
    """The pairs of the real log, under each of these names."""
    data = {}
    for number, name in enumerate(names):
        file = folder / f"{number}.jsonl"
        pairs = [{k: s["doc"][k] for k in ("sentence_good", "sentence_bad")} for s in samples(f"blimp_{PARADIGM}")]
        file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), "utf-8")
        data[name] = str(file)
    return pairs_run(folder, data)


def test_runs_that_end_in_the_same_second_have_files_of_their_own_that_stay_theirs(tmp_path):
    runs = [generated_run(tmp_path) for _ in range(2)]
    with Store(runs[0].folder) as store:
        first, second = (replace(store.run(run.id), finished="2026-01-31T09:30:00+00:00") for run in runs)
        mine, others, again = (write_logs(store, r, tmp_path / "logs").files for r in (first, second, first))
    assert not set(mine) & set(others)
    assert again == mine
    assert len(list(mine[0].parent.iterdir())) == 4


def test_a_stamp_has_the_second_of_the_run_and_microseconds_of_its_own():
    moment = datetime(2026, 1, 31, 9, 30, 5, tzinfo=UTC)
    stamps = {stamp(moment, f"run-{number}") for number in range(20)}
    assert len(stamps) == 20
    assert all(text.startswith("2026-01-31T09-30-05.") and len(text) == 26 for text in stamps)
    assert stamp(moment, "run-1") == stamp(moment, "run-1")


@pytest.mark.parametrize(
    "names",
    [("a/b", "a:b"), ("Agreement: simple",), ("가" * 100, "가" * 101), ("A", "a"), ("m\x9b31mX\u202eY",), ("x.", "x")],
    ids=["alike", "special", "long", "case", "controls", "dot"],
)
def test_constructions_come_back_whatever_they_are_called(tmp_path, names):
    run = named_run(tmp_path, *names)
    written = exported(run, tmp_path / "out")
    logs = [path for path in written.files if path.suffix == ".jsonl"]
    assert [len(path.read_text(encoding="utf-8").splitlines()) for path in logs] == [6] * len(names)
    totals = json.loads(written.files[-1].read_text(encoding="utf-8"))
    assert list(totals["results"]) == [task_of(path) for path in logs]
    with Store(tmp_path / "back", create=True) as store:
        (paths,) = grouped(logs)
        record = runner.start(runner.plan(configuration(paths)), store)
        imported_rows = {row.example.id: row for row in store.rows(record.id)}
    with Store(run.folder) as store:
        ours = {row.example.id: row for row in store.rows(run.id)}
    assert {i: row.example.groups for i, row in imported_rows.items()} == {
        i: row.example.groups for i, row in ours.items()
    }
    assert {i: row.score.values for i, row in imported_rows.items()} == {i: row.score.values for i, row in ours.items()}


def test_equal_names_are_numbered_once_and_stay_the_same():
    names = TaskNames()
    assert [names.of(task) for task in ("a:b", "a/b", "a__b_2", "a:b", "A/B")] == [
        "a__b",
        "a__b_2",
        "a__b_2_2",
        "a__b",
        "A__B_3",
    ]
    # One letter in two spellings.
    assert names.of("\u00e9") != names.of("e\u0301") == "e\u0301_2"


@pytest.mark.parametrize(
    "name",
    ["../../etc", "CON", "a:b\\c", "x" * 400, "가" * 100, "x" * 119 + ".y", "..", "", "<script>", "\ud800", "a\u2028b"],
)
def test_a_name_never_leads_out_of_the_folder_and_can_be_written(tmp_path, name):
    safe = safe_name(name)
    assert (tmp_path / safe).resolve().parent == tmp_path.resolve()
    assert safe.upper() != "CON"
    assert not set(safe) & set('<>:"/\\|?*')
    assert safe.isprintable()
    assert len(safe.encode()) <= 120
    assert not safe.endswith((".", " "))
    (tmp_path / safe).write_text("", "utf-8")
