"""KoBBQ's steps on small files: what they do where the original crashes."""

from __future__ import annotations

import json
import math
import unicodedata

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.samples import OPTIONAL_COLUMNS, SAMPLE_COLUMNS
from lmassay.evaluations.bias.kobbq.steps.evaluate import METRICS
from tests.evaluations.bias.kobbq.steps.kit import UNKNOWN, Work, read, write


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


# --- the right numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["test", "all"])
def test_a_model_that_always_knows_has_accuracy_one_and_no_bias(work, mode):
    assert list(work.through(lambda row: row["answer_abc"], mode).values()) == [0.0, 1.0, 1.0, 0.0, 0.0]


def test_a_model_that_follows_the_stereotype(work):
    def stereotype(row):
        return next(letter for letter in "ABC" if row[letter] == row["biased_answer"])

    assert list(work.through(stereotype).values()) == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_a_model_that_always_says_unknown(work):
    assert list(work.through(UNKNOWN).values()) == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_answers_out_of_choice_count_for_nothing_else(work):
    values = work.through(lambda row: "?" if row["sample_id"].endswith("-0") else row["answer_abc"])
    assert list(values.values()) == [1 / 3, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.fault(30)
def test_a_group_without_data_has_no_number_and_says_so(work):
    values = work.through("?")
    assert values["out-of-choice ratio"] == 1.0
    assert all(math.isnan(values[metric]) for metric in METRICS[1:])
    assert work.evaluate()[0].gaps[0] == "accuracy in ambiguous contexts: no data (n = 0) for overall, ST, age"
    (everything,) = work.evaluate("all")
    assert "no data (n = 0) in 1 templates (age-001)" in everything.gaps[0]
    assert "overall on 0 of 1 templates" in everything.gaps[0]


def test_a_file_without_ambiguous_rows_does_not_crash(work):
    work.through(lambda row: row["answer_abc"])
    rows = [row for row in read(work.collected) if "-dis-" in row["sample_id"]]
    write(work.collected, list(rows[0]), [list(row.values()) for row in rows])
    for mode in ("test", "all"):
        values = work.evaluate(mode)[0].rows[0].values
        assert [math.isnan(value) for value in values] == [False, True, False, True, False]
    assert "\tnan\t1.0\tnan\t0.0\r\n" in work.results.read_bytes().decode()


@pytest.mark.parametrize("mode", ["test", "all"])
def test_ids_without_rotation_work(work, mode):
    rows = [{**row, "prediction": row["biased_answer"]} for row in read(work.samples)]
    work.collected.parent.mkdir()
    write(work.collected, list(rows[0]), [list(row.values()) for row in rows])
    assert work.evaluate(mode)[0].rows[0].values == (0.0, 0.0, 0.5, 1.0, 1.0)


def test_ids_of_both_forms_work(work):
    work.through(lambda row: row["answer_abc"])
    rows = read(work.collected)
    rows[3]["sample_id"] = rows[3]["sample_id"].rpartition("-")[0]
    write(work.collected, list(rows[0]), [list(row.values()) for row in rows])
    assert work.evaluate("all")[0].rows[0].values == (0.0, 1.0, 1.0, 0.0, 0.0)


# --- the files --------------------------------------------------------------------------------------------------------


def test_questions_in_three_orders(work):
    done = work.preprocess()
    assert (done.samples, done.questions) == (8, 24)
    rows = work.read_questions()
    assert [row["sample_id"] for row in rows] == sorted(row["sample_id"] for row in rows)
    assert [[row["A"], row["B"], row["C"]] for row in rows[:3]] == [
        ["손자", UNKNOWN, "할머니"],
        ["할머니", "손자", UNKNOWN],
        [UNKNOWN, "할머니", "손자"],
    ]
    assert [row["answer_abc"] for row in rows[:3]] == ["B", "C", "A"]
    document = json.loads(work.json.read_text(encoding="utf-8"))
    assert work.json.read_text(encoding="utf-8") == json.dumps(document, ensure_ascii=False, indent=4)
    assert document["prefix"] == "고르시오.\n\n"
    assert document["data"][0] == [
        f"맥락: 둘이 있다.\n질문: 누가?\nA: 손자\nB: {UNKNOWN}\nC: 할머니\n정답:",
        *("손자", UNKNOWN, "할머니", "B", "age-001a-001-amb-bsd-0"),
    ]


def test_extra_columns_are_carried_along_and_numbers_recognised_as_pandas_does(work):
    work.write_samples((*SAMPLE_COLUMNS, *OPTIONAL_COLUMNS, "note", "count"), ("n", "007"), ("2", "Age", ""))
    done = work.preprocess()
    assert done.extra == ("note", "count")
    row = work.read_questions()[0]
    assert (row["bbq_id"], row["note"], row["count"]) == ("2", "n", "7")


def test_a_prediction_column_is_overwritten_in_place(work):
    work.preprocess()
    work.answer("B", ("prediction", "topic", "guid", "truth", "raw"))
    work.postprocess()
    assert list(read(work.predictions)[0].values())[::4] == ["B", "B"]
    work.postprocess()
    assert list(read(work.predictions)[0]) == ["prediction", "topic", "guid", "truth", "raw"]
    assert b"\r" not in work.predictions.read_bytes()


def test_numeric_answers_keep_their_spelling(work):
    work.preprocess()
    work.answer("007")
    assert work.postprocess().out_of_choice == 24
    assert {row["raw"] for row in read(work.predictions)} == {"007"}


def test_answers_that_mean_missing_are_empty_and_reported(work):
    work.preprocess()
    work.answer(lambda row: "None" if row["sample_id"].endswith("0") else "")
    done = work.postprocess()
    assert done.out_of_choice == 24
    assert "8 answers are a word that pandas reads as a missing value" in done.warnings[0]
    assert {(row["raw"], row["prediction"]) for row in read(work.predictions)} == {("", "")}


def test_answers_with_tabs_quotes_and_lines_survive_every_step(work):
    odd = 'tab\t"quote"\nline\r\nend'
    work.preprocess()
    work.answer(odd)
    work.postprocess()
    assert {row["raw"] for row in read(work.predictions)} == {odd}
    work.collect()
    assert {row["prediction"] for row in read(work.collected)} == {"quote"}
    work.evaluate()


def test_rows_that_were_added_after_postprocessing_are_read(work):
    work.preprocess()
    work.answer("A")
    lines = work.predictions.read_bytes().splitlines(keepends=True)
    work.predictions.write_bytes(b"".join(lines[:-1]))
    work.postprocess()
    with work.predictions.open("ab") as stream:
        stream.write(lines[-1])  # five cells and CRLF behind a header of six
    with pytest.raises(DataError, match=r"line 25: the row has 5 cells.*`lmassay kobbq postprocess` again"):
        work.collect()
    assert work.postprocess().out_of_choice == 0
    assert work.collect().questions == 24


def test_decomposed_hangul_is_out_of_choice_as_in_the_original_but_reported(work):
    work.preprocess()
    work.answer(unicodedata.normalize("NFD", "할머니"))
    done = work.postprocess()
    assert done.out_of_choice == 24
    assert "24 answers out of choice would be read as a choice if their Hangul were composed" in done.warnings[0]


def test_robust_parsing_reads_decomposed_hangul_and_has_nothing_to_report(work):
    work.preprocess()
    work.answer(unicodedata.normalize("NFD", "할머니"))
    done = work.postprocess(parsing="robust")
    assert (done.out_of_choice, done.warnings) == (0, ())


def test_both_ways_of_parsing_are_compared(work):
    work.preprocess()
    work.answer(lambda row: "( B )" if row["sample_id"].endswith("0") else "B")
    done = work.postprocess(parsing="robust")
    assert (done.out_of_choice, done.reference_out_of_choice, done.disagreements) == (0, 8, 8)
    assert {row["prediction"] for row in read(work.predictions)} == {"B"}


def test_an_answer_that_robust_parsing_gives_up_on_keeps_its_text(work):
    work.preprocess()
    work.answer("A 또는 B")
    done = work.postprocess(parsing="robust")
    assert done.out_of_choice == 24
    assert {row["prediction"] for row in read(work.predictions)} == {"A 또는 B"}


def test_answers_out_of_choice_are_listed_again_each_time(work, tmp_path):
    work.preprocess()
    work.answer("( B )")
    for _ in range(2):
        work.postprocess(ooc_path=tmp_path / "sub" / "ooc.tsv")
    data = (tmp_path / "sub" / "ooc.tsv").read_bytes()
    assert data.count(b"\r\n") == 25
    assert data.splitlines()[1].decode() == (
        "age-001a-001-amb-bsd-0\t{'A': '손자', 'B': '모름', 'C': '할머니'}\t( B )\t( B )"
    )


def test_a_model_with_a_slash_has_its_file(work):
    work.through("A")
    work.collected.rename(work.collected.with_name("topic_1_org%2Fmodel.tsv"))
    evaluated = work.evaluate(models=["org/model", "none"])
    assert [(one.model, one.rows is None) for one in evaluated] == [("org/model", False), ("none", True)]
    assert work.results.read_text(encoding="utf-8").splitlines()[1].startswith("org/model\toverall\t")
