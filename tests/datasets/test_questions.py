"""Questions whose answer is in the text, read by the columns that an entry names."""

from __future__ import annotations

import json

import pytest

from lmassay.datasets.questions import QuestionFormat, read_questions
from lmassay.errors import DataError

JSON_LINES = QuestionFormat(
    format="jsonl",
    context="text",
    question="ask",
    choices=("a", "b"),
    answer="label",
    template=("kind", "number"),
    where={"state": "said"},
)
TABLE = QuestionFormat(
    format="tsv",
    context="text",
    question="ask",
    choices="choices",
    answer="answer",
    template=("id",),
    template_pattern="^[a-z]+-[0-9]+",
    where={"id": "*-dis-*"},
)


def test_only_questions_whose_answer_is_in_the_text_are_read(tmp_path):
    row = {"text": "Ann sang. ", "ask": "Who sang?", "a": "Ann", "b": "Bob", "label": 0, "kind": "song", "number": 3}
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(row | {"state": "said"}) + "\n" + json.dumps(row | {"state": "open"}) + "\n")
    [question] = read_questions([path], JSON_LINES)
    assert (question.context, question.answer, question.choices) == ("Ann sang.", "Ann", ("Ann", "Bob"))
    assert (question.template, question.category) == ("song-3", "song")


def test_a_table_has_its_choices_as_a_list_in_one_column(tmp_path):
    path = tmp_path / "questions.tsv"
    path.write_text("id\ttext\task\tchoices\tanswer\nage-01a-dis-x\tT\tQ\t['it\u2019s', 'no']\tno\n", encoding="utf-8")
    [question] = read_questions([path], TABLE)
    assert question.choices == ("it\u2019s", "no")
    assert question.template == "age-01"


@pytest.mark.parametrize("change", [{"label": 5}, {"label": -1}, {"label": "nobody"}])
def test_an_answer_that_is_no_choice_is_an_error_with_its_line(tmp_path, change):
    row = {"text": "T", "ask": "Q", "a": "A", "b": "B", "label": 0, "kind": "k", "number": 1, "state": "said"}
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(row | change) + "\n")
    with pytest.raises(DataError, match="line 1: this row is not a question"):
        read_questions([path], JSON_LINES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "line 2: this is not JSON"),
        ("[1]", "line 2: the line must be an object with named fields"),
        ('{"state": "said"}', "line 2: there is no column 'a'"),
    ],
)
def test_a_line_that_is_not_a_row_is_an_error_with_its_number(tmp_path, line, message):
    path = tmp_path / "questions.jsonl"
    path.write_text(f"\n{line}\n")
    with pytest.raises(DataError, match=message):
        read_questions([path], JSON_LINES)
