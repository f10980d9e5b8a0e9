"""What KoBBQ's steps refuse or report; the files stay as they were."""

from __future__ import annotations

import csv
import math
import unicodedata

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.steps.collect import collect
from lmassay.evaluations.bias.kobbq.steps.compare import compare
from lmassay.evaluations.bias.kobbq.steps.evaluate import HEADER, evaluate_file
from lmassay.evaluations.bias.kobbq.steps.preprocess import preprocess
from tests.evaluations.bias.kobbq.steps.kit import PROMPTS, UNKNOWN, Work, read, write


@pytest.fixture
def work(tmp_path):
    return Work(tmp_path)


def test_an_absent_prompt_is_refused_before_anything_is_written(work):
    with pytest.raises(DataError, match=r"there is no prompt 9 in .*; it has 1"):
        preprocess(work.samples, work.prompts, 9, tsv_path=work.questions)
    assert not work.questions.exists()


def test_a_preprocessed_file_is_no_samples_file(work):
    work.preprocess()
    with pytest.raises(DataError, match="already has a column 'A'"):
        preprocess(work.questions, work.prompts, 1, tsv_path=work.samples)


def test_an_unknown_guid_is_named(work):
    work.preprocess()
    work.answer("A")
    before = work.predictions.read_bytes().replace(b"001b-001-dis-cnt-1", b"001b-009-dis-cnt-1")
    work.predictions.write_bytes(before)
    with pytest.raises(DataError, match=r"line 24: guid 'age-001b-009-dis-cnt-1' is not in .*\(1 of 24 are not\)"):
        work.postprocess()
    assert work.predictions.read_bytes() == before


def test_a_question_without_a_choice_is_refused(work):
    work.preprocess()
    work.answer("")
    rows = work.read_questions()
    rows[2]["B"] = ""
    write(work.questions, list(rows[0]), [list(row.values()) for row in rows])
    with pytest.raises(DataError, match=r"topic_1\.tsv, line 4: a choice is empty"):
        work.postprocess()


def test_double_guids_are_reported_and_then_refused(work):
    work.preprocess()
    work.answer("A")
    lines = work.predictions.read_bytes().splitlines(keepends=True)
    work.predictions.write_bytes(b"".join([*lines, lines[3]]))
    done = work.postprocess()
    assert "1 guids have several answers (age-001a-001-amb-bsd-2)" in done.warnings[0]
    with pytest.raises(DataError, match="guid age-001a-001-amb-bsd-2 appears twice, on lines 4 and 26"):
        work.collect()


def test_missing_answers_are_counted_and_the_remedy_is_named(work):
    work.preprocess()
    work.answer("A")
    lines = work.predictions.read_bytes().splitlines(keepends=True)
    work.predictions.write_bytes(b"".join(lines[:-2]))
    work.postprocess()
    with pytest.raises(DataError, match=r"2 of 24 questions have no answer.*dis-cnt-1.*`lmassay kobbq infer` again"):
        work.collect()
    assert not work.collected.exists()


def test_collecting_needs_postprocessing(work):
    work.preprocess()
    work.answer("A")
    with pytest.raises(DataError, match="no column 'prediction'; run `lmassay kobbq postprocess` first"):
        work.collect()


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (5, "line 25: the row has 4 cells, the header 5: it was cut off; run `lmassay kobbq infer` again"),
        (30, "line 25: the row has 2 cells"),
    ],
)
def test_a_file_that_was_cut_off_in_a_row_is_refused_and_kept(work, cut, message):
    work.preprocess()
    work.answer("AA")
    data = work.predictions.read_bytes()[:-cut]
    work.predictions.write_bytes(data)
    with pytest.raises(DataError) as error:
        work.postprocess()
    assert message in str(error.value)
    assert work.predictions.read_bytes() == data


def test_a_file_that_was_cut_off_in_a_quoted_answer_is_refused(work):
    work.preprocess()
    work.answer("A\nB")
    work.predictions.write_bytes(work.predictions.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"line 48: a quoted cell begins.*`lmassay kobbq infer` again"):
        work.postprocess()


def test_a_file_that_was_cut_off_behind_an_answer_is_reported(work):
    work.preprocess()
    work.answer("AA")
    work.predictions.write_bytes(work.predictions.read_bytes()[:-3])
    done = work.postprocess()
    assert "line 25: the last row has no line end, so its answer may be cut off" in done.warnings[0]


def test_undecodable_bytes_leave_the_file_as_it_was(work):
    work.preprocess()
    work.answer("A")
    data = work.predictions.read_bytes().replace(b"2024-01-01", b"2024\xff01-01", 1)
    work.predictions.write_bytes(data)
    with pytest.raises(DataError, match="line 2: byte 0xff in column time"):
        work.postprocess()
    assert work.predictions.read_bytes() == data
    assert [path.name for path in work.folder.iterdir() if path.name.startswith(".")] == []


def test_the_list_out_of_choice_may_not_overwrite_the_answers(work):
    work.preprocess()
    work.answer("A")
    with pytest.raises(DataError, match="would overwrite"):
        work.postprocess(ooc_path=work.predictions)


def test_a_place_that_cannot_be_written_leaves_everything_as_it_was(work):
    work.preprocess()
    work.answer("( B )")
    data = work.predictions.read_bytes()
    with pytest.raises(DataError, match="cannot write"):
        work.postprocess(ooc_path=work.samples / "ooc.tsv")
    assert work.predictions.read_bytes() == data
    with pytest.raises(DataError, match="cannot write"):
        preprocess(work.samples, work.prompts, 1, json_path=work.samples / "x.json")
    with pytest.raises(DataError, match="is a folder"):
        preprocess(work.samples, work.prompts, 1, tsv_path=work.folder)


@pytest.mark.parametrize(
    ("name", "cell", "message"),
    [
        ("sample_id", "age-001a-001", "sample_id 'age-001a-001' is not of the form"),
        ("sample_id", "age-001x-001-amb-bsd-0", "is not of the form"),
        ("sample_id", "age-001a-001-xyz-bsd-0", "is not of the form"),
        ("sample_id", "", "sample_id '' is not of the form"),
        ("choices", "__import__('os').system('touch ran')", "choices is not a list of strings but __import__"),
    ],
)
def test_bad_rows_of_an_evaluation_file_are_named(work, monkeypatch, name, cell, message):
    monkeypatch.chdir(work.folder)
    work.through("A")
    rows = read(work.collected)
    rows[4][name] = cell
    write(work.collected, list(rows[0]), [list(row.values()) for row in rows])
    with pytest.raises(DataError) as error:
        evaluate_file("model", work.collected, UNKNOWN, "test")
    assert message in str(error.value)
    assert "line 6: " in str(error.value)
    assert not (work.folder / "ran").exists()


@pytest.mark.parametrize("name", ["sample_id", "label_annotation", "choices", "biased_answer", "answer", "prediction"])
def test_undecodable_bytes_in_an_evaluation_file_are_named(work, name):
    work.through("?")
    rows = read(work.collected)
    rows[4][name] = rows[4][name][:-1] + "\udcff" + rows[4][name][-1:]
    with work.collected.open("w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(DataError, match=r"line 6: .*(not UTF-8)"):
        evaluate_file("model", work.collected, UNKNOWN, "test")


def test_the_same_question_twice_is_refused(work):
    work.through("B")
    lines = work.collected.read_text(encoding="utf-8").splitlines(keepends=True)
    work.collected.write_text("".join([*lines, lines[1]]), encoding="utf-8")
    with pytest.raises(DataError, match="sample_id age-001a-001-amb-bsd-0 appears twice, on lines 2 and 26"):
        work.evaluate()


def test_answers_that_are_no_choice_are_reported_though_the_numbers_are_as_published(work):
    work.through("B")
    header, *rows = (row.split("\t") for row in work.collected.read_text(encoding="utf-8").splitlines())
    rows[3][header.index("biased_answer")] = "아무도"
    write(work.collected, header, rows)
    (evaluated,) = work.evaluate()
    assert evaluated.warnings == (
        f"{work.collected}, line 5: biased_answer or answer is not one of the choices; affected rows: 1",
    )


def test_another_prompt_than_that_of_the_first_step_is_reported(work):
    work.through("B")
    work.prompts.write_bytes(PROMPTS.replace("모름", "알 수가 없음").encode())
    (evaluated,) = work.evaluate()
    assert "no row has the choice '알 수가 없음'" in evaluated.warnings[0]


def test_no_step_overwrites_what_it_reads_or_has_just_written(work):
    before = work.samples.read_bytes()
    with pytest.raises(DataError, match=r"--evaluation-tsv-path .* would overwrite the file of --samples-tsv-path"):
        preprocess(work.samples, work.prompts, 1, tsv_path=work.samples)
    with pytest.raises(DataError, match="would overwrite the file of --evaluation-json-path"):
        preprocess(work.samples, work.prompts, 1, tsv_path=work.json, json_path=work.json)
    assert work.samples.read_bytes() == before
    work.through("B")
    with pytest.raises(DataError, match="would overwrite the file of --preprocessed-tsv-path"):
        collect(work.predictions, work.questions, work.questions)


def test_decomposed_samples_are_distinguished_from_those_that_look_alike(work):
    text = unicodedata.normalize("NFD", work.samples.read_text(encoding="utf-8"))
    work.samples.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"line 2: the Hangul is decomposed \(NFD\) .* convert the file to NFC"):
        work.preprocess()


def test_a_result_that_is_no_number_is_named(tmp_path):
    write(tmp_path / "a_1.tsv", HEADER, [["m", "overall", 0, 0, 0, 0, 0], ["m", "NC", 0, "x", 0, 0, 0]])
    with pytest.raises(DataError, match=r"a_1\.tsv, line 3: could not convert string to float: 'x'"):
        compare(str(tmp_path / "a"), str(tmp_path / "a"), ["1"], ["m"])


def test_empty_cells_are_left_out_of_a_mean(tmp_path):
    write(tmp_path / "a_1.tsv", HEADER, [["m", "overall", 0, 0.5, 0.5, "nan", 0], ["m", "NC", 0, 0.25, 0.5, 0.5, 0]])
    (comparison,) = compare(str(tmp_path / "a"), str(tmp_path / "a"), ["1"], ["m"])
    assert list(comparison.default.metrics.values()) == [0, 0.375, 0.5, 0.5, 0]
    assert comparison.default_overall.rows == 1
    assert math.isnan(comparison.default_overall.diff_bias)
    assert comparison.text().endswith("diff_bias_diff: 0.0%, accuracy_diff: 0.0%")
    assert (
        "diff-bias, overall rows (1 rows): no data to no data, no data points, no relative change"
        in comparison.details()
    )


def test_an_absent_model_has_no_numbers(tmp_path):
    write(tmp_path / "a_1.tsv", HEADER, [["m", "overall", 0, 0, 0, 0, 0]])
    (comparison,) = compare(str(tmp_path / "a"), str(tmp_path / "a"), ["1"], ["other"])
    assert comparison.default.rows == 0
    assert comparison.text().endswith("contexts   NaN\ndtype: float64\ndiff_bias_diff: nan%, accuracy_diff: nan%")
