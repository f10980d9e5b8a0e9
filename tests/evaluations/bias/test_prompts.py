"""Prompts: parts of a prompt in a file's columns."""

from __future__ import annotations

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.bias.prompts import PromptTemplate, choose_prompt, read_prompts, shipped_prompts
from tests.published_data import published_set

HEADER = "prompt_id\tprompt\tinstruction\tcontext\tquestion\ta\tb\tc\tanswer\tunknown"
ROW = "1\tunused {b}\t고르시오.\t맥락: \t질문: \tA: \tB: \tC: \t정답:\t알 수 없음"


def write(folder, *rows, header=HEADER, end="\r\n"):
    path = folder / "prompts.tsv"
    path.write_bytes(end.join([header, *rows, ""]).encode())
    return path


def test_a_prompt_is_put_together(tmp_path):
    prompt = read_prompts(write(tmp_path, ROW))[1]
    assert prompt == PromptTemplate(1, "고르시오.", "맥락: ", "질문: ", ("A: ", "B: ", "C: "), "정답:", "알 수 없음")
    prefix, query = prompt.text("둘이 있다.", "누구?", ["하나", "둘", "알 수 없음"])
    assert prefix == prompt.prefix == "고르시오.\n\n"
    assert query == "맥락: 둘이 있다.\n질문: 누구?\nA: 하나\nB: 둘\nC: 알 수 없음\n정답:"


def test_an_instruction_may_have_several_lines(tmp_path):
    row = ROW.replace("고르시오.", '"첫째 ""줄""\n둘째 줄"')
    assert read_prompts(write(tmp_path, row, end="\n"))[1].instruction == '첫째 "줄"\n둘째 줄'


def test_labels_may_be_empty_and_columns_may_be_in_any_order(tmp_path):
    header = "\t".join(reversed(HEADER.split("\t")))
    row = "\t".join(reversed(ROW.replace("맥락: ", "").split("\t")))
    assert read_prompts(write(tmp_path, row, header=header))[1].context == ""


def test_a_choice_too_many_is_a_mistake_in_the_program(tmp_path):
    with pytest.raises(ValueError, match="4 choices, but only 3 labels"):
        read_prompts(write(tmp_path, ROW))[1].text("c", "q", ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([ROW], HEADER.replace("unknown", "unk"), "line 1: the prompts file has no column 'unknown'"),
        ([ROW, ROW], HEADER, "line 3: prompt_id 1 appears twice"),
        ([ROW, "2" + ROW[1:].rsplit("\t", 1)[0]], HEADER, "line 3: the row has 9 cells, the header 10"),
        (["one" + ROW[1:]], HEADER, "line 2: prompt_id is 'one'; it must be a whole number"),
        (["1.5" + ROW[1:]], HEADER, "line 2: prompt_id is '1.5'"),
        ([ROW[1:]], HEADER, "line 2: prompt_id is ''"),
        ([], HEADER, "has a header but no rows"),
    ],
)
def test_broken_prompts_are_refused_with_the_line(tmp_path, rows, header, message):
    with pytest.raises(DataError) as error:
        read_prompts(write(tmp_path, *rows, header=header))
    assert message in str(error.value)
    assert "prompts.tsv" in str(error.value)


def test_undecodable_prompts_are_refused(tmp_path):
    path = tmp_path / "prompts.tsv"
    path.write_bytes(f"{HEADER}\n{ROW}\n".encode("cp949"))
    with pytest.raises(DataError, match=r"line 2: byte .* is not UTF-8"):
        read_prompts(path)


def test_an_absent_prompt_names_those_that_exist(tmp_path):
    path = write(tmp_path, ROW, "3" + ROW[1:])
    prompts = read_prompts(path)
    assert choose_prompt(prompts, 3, path).id == 3
    with pytest.raises(DataError, match=r"there is no prompt 2 in .*prompts\.tsv; it has 1, 3"):
        choose_prompt(prompts, 2, path)


def test_the_words_for_unknown_are_needed_unless_the_datas_own_may_stay(tmp_path):
    path = write(tmp_path, ROW.replace("알 수 없음", ""))
    prompts = read_prompts(path)
    assert choose_prompt(prompts, 1, path, may_keep_unknown=True).unknown == ""
    with pytest.raises(DataError, match="prompt 1 has no text in the column 'unknown'"):
        choose_prompt(prompts, 1, path)


def test_a_language_without_prompts_is_said():
    with pytest.raises(DataError, match="no prompts for the language 'xx'"):
        shipped_prompts("xx")


def test_the_originals_prompts():
    prompts = read_prompts(published_set("kobbq") / "0_evaluation_prompts.tsv")
    assert sorted(prompts) == [1, 2, 3, 4, 5]
    assert prompts[5].choices == ("보기:(A) ", "(B) ", "(C) ")
    assert prompts[3].answer == "답:"
