"""`lmassay import`, `lmassay export` and `lmassay view` as a user meets them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from lmassay.cli import main
from tests.interchange.kit import PARADIGM, copied_log, log, pairs_run, samples, write_log

PAIRS = f"blimp_{PARADIGM}"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def lmassay(capfd):
    """The command in this process, which spares a test the start of another."""

    def call(*arguments: object) -> Done:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        return Done(int(stop.value.code or 0), *capfd.readouterr())

    return call


def test_an_imported_log_can_be_shown_compared_and_reported(lmassay, tmp_path):
    ours = pairs_run(tmp_path)
    done = lmassay("import", log(PAIRS), "--results", ours.folder, "--json")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["runs"][0]["run"]
    assert "imported from" in done.stderr
    shown = lmassay("show", run, "--results", ours.folder)
    assert "0.375" in shown.stdout
    compared = lmassay("compare", ours.id, run, "--results", ours.folder, "--json")
    assert compared.returncode == 0, compared.stderr
    assert '"accuracy"' in compared.stdout
    report = lmassay("report", run, "--results", ours.folder, "-o", tmp_path / "report.html")
    assert report.returncode == 0, report.stderr
    assert "tiny" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_logs_of_several_tasks_become_several_runs(lmassay, tmp_path):
    done = lmassay("import", log(PAIRS), log("my_bbq"), log("my_bbq_generate"), "--results", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert [run["task"] for run in json.loads(done.stdout)["runs"]] == ["minimal_pairs", "bias", "bias"]


def test_one_bad_log_among_several_leaves_the_folder_as_it_was(lmassay, tmp_path):
    bad = write_log(tmp_path, [*samples(PAIRS)[:3], '{"doc_id": 3, "doc":'])
    done = lmassay("import", log(PAIRS), bad, "--results", tmp_path / "results")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "line 4" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_filter_is_asked_for_by_name(lmassay, tmp_path):
    done = lmassay("import", log("sums"), "--results", tmp_path)
    assert done.returncode == 2
    assert "choose one with --filter" in done.stderr
    assert lmassay("import", log("sums"), "--filter", "strict-match", "--results", tmp_path).returncode == 0


def test_totals_and_model_can_be_given(lmassay, tmp_path):
    path = copied_log(tmp_path / "logs", PAIRS)
    (totals,) = path.parent.glob("results_*.json")
    moved = totals.rename(tmp_path / "totals.json")
    assert lmassay("import", path, "--results", tmp_path / "r").returncode == 2
    done = lmassay("import", path, "--totals", moved, "--model", "acme/x", "--results", tmp_path / "r", "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["model"] == "acme/x"
    assert "imported:lm_eval-0.4.13" in run["signature"]


def test_an_export_goes_round_by_the_command_line(lmassay, tmp_path):
    ours = pairs_run(tmp_path)
    done = lmassay("export", ours.id, "--results", ours.folder, "--format", "lm-eval", "-o", tmp_path / "logs")
    assert done.returncode == 0, done.stderr
    assert "6 samples" in done.stderr
    assert "2 examples without a score left out" in done.stderr
    written = done.stdout.splitlines()
    back = lmassay("import", written[0], "--results", tmp_path / "back", "--json")
    value_of = {r["metric"]: r["value"] for r in json.loads(back.stdout)["runs"][0]["results"]}
    assert value_of == {r.metric: r.value for r in ours.results}


def test_a_run_with_errors_comes_back_as_such_and_a_gate_refuses_it(lmassay, tmp_path):
    ours = pairs_run(tmp_path)
    logs = lmassay("export", ours.id, "--results", ours.folder, "--format", "lm-eval", "-o", tmp_path / "logs")
    back = lmassay("import", logs.stdout.splitlines()[0], "--results", tmp_path / "back")
    assert back.returncode == 1
    assert "2 of 8 examples are not in the log: 2 with errors" in back.stderr
    assert "2 examples with errors; the log does not contain the whole run" in back.stderr
    assert "2 × the server is down" in back.stderr
    theirs = json.loads(lmassay("import", log(PAIRS), "--results", tmp_path / "theirs", "--json").stdout)["runs"][0][
        "run"
    ]
    folders = ("--results", tmp_path / "back", "--base-results", tmp_path / "theirs")
    gate = lmassay("compare", theirs, "latest", *folders, "--fail-if", "accuracy<-0.1")
    assert gate.returncode == 2
    assert "incomplete" in gate.stdout + gate.stderr


def test_nobody_is_told_to_resume_what_a_log_does_not_hold(lmassay, tmp_path):
    ours = pairs_run(tmp_path)
    logs = lmassay("export", ours.id, "--results", ours.folder, "--format", "lm-eval", "-o", tmp_path / "logs")
    lmassay("import", logs.stdout.splitlines()[0], "--results", tmp_path / "back")
    again = lmassay("resume", "--results", tmp_path / "back")
    assert again.returncode == 1
    assert "2 examples with errors; the log does not contain the whole run" in again.stderr
    assert "try again with" not in again.stderr
    assert "try again with: lmassay resume" in lmassay("resume", "--results", ours.folder).stderr


@pytest.mark.parametrize("form", ["lm-eval", "every-eval-ever"])
def test_names_of_files_move_no_terminal(lmassay, tmp_path, form):
    ours = pairs_run(tmp_path)
    done = lmassay("export", ours.id, "--results", ours.folder, "--format", form, "-o", tmp_path / "m\x9b31mX\u202eY")
    assert done.returncode == 0, done.stderr
    assert "m\ufffd31mX\ufffdY" in done.stdout
    assert not set(done.stdout + done.stderr) & {"\x9b", "\u202e"}


def test_every_eval_ever_is_written_with_its_companion(lmassay, tmp_path):
    ours = pairs_run(tmp_path)
    done = lmassay(
        "export", ours.id, "--results", ours.folder, "--format", "every-eval-ever", "-o", tmp_path / "e.json",
        "--organization", "Acme",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "e_samples.jsonl").is_file()
    document = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))
    assert document["source_metadata"]["source_organization_name"] == "Acme"


@pytest.mark.parametrize("form", ["lm-eval", "every-eval-ever"])
@pytest.mark.parametrize("place", [[], ["-o", "-"]])
def test_formats_of_several_files_need_a_place(lmassay, tmp_path, form, place):
    ours = pairs_run(tmp_path)
    done = lmassay("export", ours.id, "--results", ours.folder, "--format", form, *place)
    assert done.returncode == 2
    assert "say where with -o" in done.stderr


def test_the_latest_run_is_exported_without_an_argument(lmassay, tmp_path):
    ours = pairs_run(tmp_path)
    assert lmassay("export", "--results", ours.folder) == lmassay("export", ours.id, "--results", ours.folder)


def test_rows_go_to_standard_output_without_a_word(lmassay, tmp_path, monkeypatch):
    ours = pairs_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    plain = lmassay("export", ours.id, "--results", ours.folder)
    assert len(plain.stdout.splitlines()) == 8
    assert lmassay("export", ours.id, "--results", ours.folder, "-o", "-") == plain
    assert plain.stderr == ""
    assert not (tmp_path / "-").exists()


def test_one_is_not_reported_as_many(lmassay, tmp_path):
    file = write_log(tmp_path / "log", samples(PAIRS)[:1], PAIRS)
    assert lmassay("import", file, "--model", "m", "--results", tmp_path / "r").returncode == 0
    rows = lmassay("export", "latest", "--results", tmp_path / "r", "-o", tmp_path / "rows.jsonl")
    assert rows.stderr.startswith("1 row of ")
    logs = lmassay("export", "latest", "--results", tmp_path / "r", "--format", "lm-eval", "-o", tmp_path / "logs")
    assert logs.stderr.startswith("1 sample of ")


def test_a_view_beyond_this_machine_is_refused(lmassay, tmp_path):
    done = lmassay("view", "--host", "0.0.0.0", "--results", tmp_path)
    assert done.returncode == 2
    assert "on this machine only" in done.stderr


def test_a_folder_is_answered_with_the_command_for_its_logs(lmassay, tmp_path):
    folder = tmp_path / "of the harness" / "model"
    folder.mkdir(parents=True)
    done = lmassay("import", tmp_path, "--results", tmp_path / "results")
    assert done.returncode == 2
    assert "is a folder without sample logs; lm_eval writes samples_*.jsonl with --log_samples" in done.stderr
    (folder / "samples_sums.jsonl").write_text("", encoding="utf-8")
    done = lmassay("import", tmp_path, "--results", tmp_path / "results")
    assert not (tmp_path / "results").exists()
    assert f"is a folder; give its sample logs: lmassay import '{folder}'/samples_*.jsonl" in done.stderr
