"""``lmassay kobbq`` writes and prints what KoBBQ's programs wrote and printed on the samples of ``reference/kobbq``."""

from __future__ import annotations

import json

import pytest

from tests.published import kobbq_reference as kobbq
from tests.published.digits import with_one_digit_changed
from tests.published.reference_files import content

RUNS = kobbq.read_runs()
OUTPUTS = kobbq.recorded_outputs()


@pytest.fixture(scope="session")
def chain(tmp_path_factory):
    """All runs, done once."""
    return kobbq.run_all(tmp_path_factory.mktemp("kobbq"))


def test_all_runs_and_files_were_found():
    assert len(RUNS) == 65
    assert len(OUTPUTS) == 56
    assert {run.program for run in RUNS} == set(kobbq.STEPS)


@pytest.mark.parametrize("position", range(len(RUNS)), ids=[f"{n}-{run.name}" for n, run in enumerate(RUNS)])
def test_a_run_prints_what_the_original_printed(chain, position):
    assert list(kobbq.differences(RUNS[position], chain, position)) == []


@pytest.mark.fault(39)
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_file_is_the_original_s_byte_for_byte(chain, name):
    # Written out, for pytest shows where two texts differ.
    assert chain.files[name].decode() == content(OUTPUTS[name]).decode()
    assert kobbq.is_same_file(name, content(OUTPUTS[name]), chain)


def test_files_that_only_lmassay_writes_are_those_of_the_original_s_crashes(chain):
    written = set(chain.files) - {"step4/Own_test_evaluation_1_five.tsv"}
    assert written - set(OUTPUTS) == set(kobbq.ONLY_HERE)
    for name, equal in kobbq.ONLY_HERE.items():
        if equal is not None:
            assert chain.files[name] == content(OUTPUTS[equal]), name


@pytest.mark.parametrize("prompt", [1, 2, 3])
def test_missing_answers_give_the_file_of_the_adapted_original(chain, prompt):
    name = f"step3/Own_test_evaluation_{prompt}_silent_predictions.tsv"
    rewritten = [x.rewritten for x in chain.outcomes if x.run.name.startswith(f"step3_{prompt}_silent")]
    assert rewritten == [content(OUTPUTS[name])] * 2


def test_answers_of_digits_stay_as_they_are_and_are_out_of_choice(chain):
    rows = chain.files["step3/Own_test_evaluation_1_digits_predictions.tsv"].decode().splitlines()
    assert len(rows) == 505
    for row in rows[1:]:
        *_, raw, prediction = row.split("\t")
        assert raw.isdigit()
        assert prediction == raw


def test_ids_of_five_parts_can_be_averaged_over_templates(chain):
    lines = chain.files["step5_all/Own_test_1_five_all.tsv"].decode().split("\r\n")
    by_rows = chain.files["step5_test/Own_test_1_five.tsv"].decode().split("\r\n")
    assert [line.split("\t")[:2] for line in lines] == [line.split("\t")[:2] for line in by_rows]


def test_every_answer_is_read_as_the_original_read_it():
    answers = kobbq.read_answers()
    assert len(answers) == 2000
    different = [(*given, expected) for *given, expected in answers if kobbq.parsed(*given) != expected]
    assert different == []


# --- a changed digit is noticed ---------------------------------------------------------------------------------------


def test_each_changed_digit_of_a_recorded_run_is_noticed(chain):
    for position, run in enumerate(RUNS):
        line = json.dumps(vars(run), ensure_ascii=False)
        for changed in with_one_digit_changed(line):
            assert list(kobbq.differences(kobbq.Run(**json.loads(changed)), chain, position)), changed


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_changed_digit_of_a_recorded_file_is_noticed(chain, name):
    for changed in with_one_digit_changed(content(OUTPUTS[name]).decode(), most=50):
        assert not kobbq.is_same_file(name, changed.encode(), chain)


def test_each_changed_digit_of_a_parsed_answer_is_noticed():
    digits = 0
    for *given, expected in kobbq.read_answers():
        here = kobbq.parsed(*given)
        for changed in with_one_digit_changed(expected):
            digits += 1
            assert here != changed
    assert digits == 75
