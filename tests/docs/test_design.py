"""Numbers of the design page that a benchmark can compute again."""

from __future__ import annotations

import re

import pytest
from benchmarks import answer_parser

from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
ROWS = {
    "robust": "the parser",
    "reference": "KoBBQ's rule",
    "simple": "first letter, else the only choice named",
    "first": "first letter, else the choice named first",
}


@pytest.mark.parametrize("rule", ROWS)
def test_the_table_of_answer_parsers_is_what_the_benchmark_counts(rule):
    answers = answer_parser.read_answers()
    letters = [answer_parser.RULES[rule](answer) for answer in answers]
    right, missed, wrong = answer_parser.judged_letters(answers, letters)
    share = f"{right / len(answers):.0%}".replace("%", " %")
    assert f"| {ROWS[rule]} | {right} ({share}) | {missed} | {wrong} |" in PAGE


def test_the_sentence_below_the_table_counts_where_only_one_of_two_rules_is_right():
    only_parser = only_simple = 0
    for answer in answer_parser.read_answers():
        parser_is_right = answer_parser.robust(answer) == answer.judged
        simple_is_right = answer_parser.simple(answer) == answer.judged
        only_parser += parser_is_right and not simple_is_right
        only_simple += simple_is_right and not parser_is_right
    assert only_simple == 1
    stated = re.search(
        r"by (\d+) answers of 144 \(in (\d+) answers only the parser is right, in one only the rule\)", PAGE
    )
    assert [int(number) for number in stated.groups()] == [only_parser - only_simple, only_parser]
