"""Warnings about outputs that were cut off, or whose files do not fit together."""

from __future__ import annotations

from dataclasses import replace

import lmassay
from lmassay.evaluations.robustness.run_notes import cut_off_note, run_notes
from lmassay.storage.store import Store
from lmassay.types import Provenance, Result, RunRecord
from tests.helpers import write_lines

SOURCES = ["le chat", "le chien", "la vache"]
ATTACKED = ["le caht", "le chien", "la vache"]
OUTPUTS = ["the cat", "the dog", "the cow"]


def record_with(cut_off: float) -> RunRecord:
    results = [Result("cut_off", "overall", cut_off, None, None, 2)]
    return RunRecord("r", "s", "", "robustness", "m", "l", "done", {}, "", Provenance(), results, "", None, "", None)


def notes_on(tmp_path, outputs_under_attack):
    # The order of the roles does not matter.
    files = {"adv_out": outputs_under_attack, "out": OUTPUTS}
    paths = {role: str(write_lines(tmp_path / role, lines)) for role, lines in files.items()}
    attack = {"name": "swap", "file": str(write_lines(tmp_path / "adv", ATTACKED))}
    task = {"name": "robustness", "src": str(write_lines(tmp_path / "src", SOURCES)), "attack": attack}
    task["ref"] = str(write_lines(tmp_path / "ref", OUTPUTS))
    model = {"name": "outputs", "files": paths, "label": "mine"}
    lmassay.evaluate({"task": task, "model": model}, tmp_path / "results")
    with Store(tmp_path / "results") as store:
        (record,) = store.runs()
        return run_notes(store, record)


def test_the_note_on_cut_off_outputs_says_what_to_set():
    note = cut_off_note(record_with(0.5))
    assert "1 of 2 inputs have an output" in note
    assert "task.max_tokens" in note


def test_there_is_no_note_if_no_output_was_cut_off():
    record = record_with(0.0)
    assert cut_off_note(record) == cut_off_note(replace(record, results=[])) == ""


def test_files_that_fit_together_get_no_note(tmp_path):
    assert notes_on(tmp_path, ["the caht", *OUTPUTS[1:]]) == []


def test_lines_that_are_shifted_are_noticed_by_the_unchanged_inputs(tmp_path):
    (note,) = notes_on(tmp_path, [*OUTPUTS[1:], OUTPUTS[0]])
    assert note.startswith("outputs of swap on mine: 2 of 2 unchanged inputs got a worse output under attack")


def test_equal_files_are_noticed(tmp_path):
    (note,) = notes_on(tmp_path, OUTPUTS)
    assert "out and adv_out have the same contents" in note
