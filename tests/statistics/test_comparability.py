"""Runs that were measured differently are marked, and a note says what differs."""

from __future__ import annotations

import pytest

from lmassay.statistics.comparability import differing_settings, marks
from lmassay.storage.store import Store
from tests.compare_kit import add, rates

SAME = {"src": "1a", "ref": "2b", "attack": "charswap", "s_src": "chrF2", "threshold": "1", "task": "robustness.1"}


@pytest.fixture
def runs(tmp_path):
    """Runs with these signatures, which have all else in common."""

    def make(*signatures, task="robustness"):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for number, signature in enumerate(signatures):
            add(folder, f"run-{number}", rates([1]), task=task, label="a", model="m", signature=signature)
        with Store(folder) as store:
            return store.runs()

    return make


def test_runs_with_the_same_settings_have_no_mark(runs):
    assert marks(runs(SAME, {**SAME, "attack": "worddrop", "prompt": "x", "model": "other", "limit": "3"})).of_run == {}


def test_runs_with_another_scorer_or_threshold_are_marked(runs):
    run_marks = marks(runs(SAME, {**SAME, "s_src": "BLEU"}, {**SAME, "threshold": "0.9"}, {**SAME, "attack": "b"}))
    assert run_marks.of_run == {"run-0": "[a]", "run-1": "[b]", "run-2": "[c]", "run-3": "[a]"}
    (note,) = run_marks.notes
    assert "s_src ([a] [c] chrF2; [b] BLEU), threshold ([a] [b] 1; [c] 0.9)" in note
    assert run_marks.notes[note] == ["[a]", "[b]", "[c]"]


def test_runs_on_other_data_are_marked_among_themselves_only(runs):
    other = {**SAME, "src": "3c"}
    assert marks(runs(SAME, {**other, "s_src": "BLEU"})).of_run == {}
    run_marks = marks(runs(SAME, {**SAME, "s_src": "BLEU"}, other, {**other, "threshold": "2"}))
    assert run_marks.of_run == {"run-0": "[a]", "run-1": "[b]", "run-2": "[c]", "run-3": "[d]"}
    assert len(run_marks.notes) == 2


def test_another_release_or_a_run_that_says_nothing_is_not_marked(runs):
    assert marks(runs({**SAME, "lmassay": "1"}, {**SAME, "lmassay": "2"}, {})).of_run == {}


def test_a_setting_that_only_one_run_has_differs(runs):
    two_runs = runs(SAME, {**SAME, "temperature": "0.7"})
    assert differing_settings(two_runs) == ["temperature"]
    assert "temperature ([a] unset; [b] 0.7)" in next(iter(marks(two_runs).notes))


def test_there_are_marks_for_as_many_settings_as_there_may_be(runs):
    run_marks = marks(runs(*({**SAME, "threshold": str(number)} for number in range(30))))
    assert len(set(run_marks.of_run.values())) == 30
    assert run_marks.of_run["run-26"] == "[aa]"
    assert next(iter(run_marks.notes)).count(";") < 12
