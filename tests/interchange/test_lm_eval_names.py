"""What the files of a log are called: no run's files are those of another, whatever things are named."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmassay.evaluations.imported.reading import configuration, grouped
from lmassay.interchange.lm_eval_export import write_logs
from lmassay.interchange.lm_eval_log import task_of
from lmassay.interchange.lm_eval_names import TaskNames, safe_name, stamp
from lmassay.running import runner
from lmassay.storage.store import Store
from tests.interchange.kit import PARADIGM, generated_run, pairs_run, samples


def named_run(folder: Path, *names: str):
    """The pairs of the real log, under each of these names."""
    data = {}
    for number, name in enumerate(names):
        file = folder / f"{number}.jsonl"
        pairs = [{k: s["doc"][k] for k in ("sentence_good", "sentence_bad")} for s in samples(f"blimp_{PARADIGM}")]
        file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), "utf-8")
        data[name] = str(file)
    return pairs_run(folder, data)


def exported(run, folder):
    with Store(run.folder) as store:
        return write_logs(store, store.run(run.id), folder)


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
        found = {row.example.id: row for row in store.rows(record.id)}
    with Store(run.folder) as store:
        ours = {row.example.id: row for row in store.rows(run.id)}
    assert {i: row.example.groups for i, row in found.items()} == {i: row.example.groups for i, row in ours.items()}
    assert {i: row.score.values for i, row in found.items()} == {i: row.score.values for i, row in ours.items()}


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
