"""``lmassay teapot`` prints what TEAPOT printed on the sentences of ``reference/teapot``, and so do its scorers."""

from __future__ import annotations

import json

import pytest

from tests.published import teapot_reference as teapot
from tests.published.digits import with_one_digit_changed

RECORDED = [(release, case) for release in teapot.CASES for case in teapot.read_cases(release)]
WITHOUT_METEOR = [(release, case) for release, case in RECORDED if not case.needs_meteor]
WITH_METEOR = [(release, case) for release, case in RECORDED if case.needs_meteor]


def ids(recorded):
    return [f"{case.name}-sacrebleu-{release}" for release, case in recorded]


def test_all_command_lines_were_found():
    assert len(teapot.read_cases("2.x")) == 183
    assert len(teapot.read_cases("1.x")) == 32
    assert len({(release, case.name) for release, case in RECORDED}) == len(RECORDED)


@pytest.mark.parametrize(("release", "case"), WITHOUT_METEOR, ids=ids(WITHOUT_METEOR))
def test_a_command_prints_what_the_original_printed(release, case):
    assert list(teapot.differences(release, case)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("release", "case"), WITH_METEOR, ids=ids(WITH_METEOR))
def test_a_command_with_meteor_prints_what_the_original_printed(release, case):
    missing = teapot.why_meteor_is_missing()
    if missing:
        pytest.skip(missing)
    assert list(teapot.differences(release, case)) == []


def test_every_intended_difference_belongs_to_a_recorded_command():
    known = {(release, case.name) for release, case in RECORDED}
    assert {*teapot.CAPPED, *teapot.DIVISIONS} <= known
    assert {*teapot.ERRORS, *teapot.WARNINGS, *teapot.HELP} <= set(teapot.cases("2.x"))
    failing = {case.name for release, case in RECORDED if case.returncode == 1 and release == "2.x"}
    assert failing == {*teapot.ERRORS, *(name for release, name in teapot.DIVISIONS if release == "2.x")}


@pytest.mark.fault(39)
def test_every_sentence_has_the_original_s_score_to_the_last_digit():
    recorded, here = teapot.recorded_score_lines(), teapot.score_lines()
    assert len(recorded) == len(here)
    different = [pair for pair in zip(recorded, here, strict=True) if not teapot.is_same_score(*pair)]
    assert different == []


def test_capped_scores_are_those_of_identical_text():
    recorded, here = teapot.recorded_score_lines(), teapot.score_lines()
    capped = [old for old, new in zip(recorded, here, strict=True) if old != new]
    assert {line.rstrip(",") for line in capped} == {"1.0000000000000004"}


# --- a changed digit is noticed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", list(teapot.CASES))
def test_each_changed_digit_of_a_recorded_command_is_noticed(release):
    for case in teapot.read_cases(release):
        # The help text is not the original's; a change in it is noticed by test_reference_files.py.
        if case.needs_meteor or case.name in teapot.HELP:
            continue
        line = json.dumps(vars(case), ensure_ascii=False)
        for changed in with_one_digit_changed(line):
            assert list(teapot.differences(release, teapot.Case(**json.loads(changed)))), changed


def test_each_changed_digit_of_a_score_is_noticed():
    recorded, here = teapot.recorded_score_lines(), teapot.score_lines()
    for old, new in zip(recorded, here, strict=True):
        for changed in with_one_digit_changed(old):
            assert not teapot.is_same_score(changed, new), changed
