"""The robustness section of a report."""

from __future__ import annotations

from dataclasses import replace

from lmassay.evaluations.robustness.cut_off import cut_off_note
from lmassay.evaluations.robustness.report import columns
from lmassay.types import Provenance, Result, RunRecord


def run_with(*metrics: str) -> RunRecord:
    results = [Result(metric, "overall", 0.5, None, None, 2) for metric in metrics]
    return RunRecord("r", "s", "", "robustness", "m", "l", "done", {}, "", Provenance(), results, "", None, "", None)


def shown(*records: RunRecord) -> list[str]:
    return [metric for metric, _ in columns(records)]


def test_the_signed_drop_is_left_out_for_answers_that_are_right_or_wrong():
    assert shown(run_with("success", "signed_drop", "turned_wrong")) == ["success", "turned_wrong"]


def test_the_signed_drop_of_graded_outputs_stays_next_to_a_run_of_right_and_wrong_answers():
    graded = run_with("success", "signed_drop")
    right_or_wrong = run_with("success", "signed_drop", "turned_wrong")
    assert shown(graded, right_or_wrong) == ["success", "signed_drop", "turned_wrong"]


def test_outputs_that_were_cut_off_have_a_column():
    assert shown(run_with("success"), run_with("success", "cut_off")) == ["success", "cut_off"]


def test_the_note_on_cut_off_outputs_says_what_to_set():
    note = cut_off_note(run_with("success", "cut_off"))
    assert "in 0.500 of 2 inputs" in note
    assert "task.max_tokens" in note


def test_there_is_no_note_without_cut_off_outputs():
    record = run_with("success")
    none_cut_off = [*record.results, Result("cut_off", "overall", 0.0, None, None, 2)]
    assert cut_off_note(record) == cut_off_note(replace(record, results=none_cut_off)) == ""
