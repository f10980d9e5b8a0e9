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


def test_the_result_without_matters_of_convention_follows_from_the_table():
    only_parser, convention = 17, 7
    assert f"Seven of the {only_parser} depend on what counts as an answer" in " ".join(PAGE.split())
    answers = answer_parser.read_answers()
    right = {}
    for rule in ("robust", "simple"):
        right[rule] = sum(answer_parser.RULES[rule](answer) == answer.judged for answer in answers)
    stated = f"{right['robust'] - convention} to {right['simple']} of {len(answers) - convention}"
    assert f"without these the result is {stated}" in PAGE
    for rule, sentence in (("simple", "the simple rule is right in {} %"), ("robust", "the parser in {} %")):
        assert sentence.format(round(100 * right[rule] / len(answers))) in PAGE


def test_the_parser_is_about_as_long_as_stated():
    lines = 0
    for file in (ROOT / "src" / "lmassay" / "answers").glob("*.py"):
        lines += len(file.read_text(encoding="utf-8").splitlines())
    assert lines > 1000
    assert "with more than a thousand lines" in PAGE


def test_the_cost_of_a_stored_example_is_what_the_benchmark_printed():
    printed = (ROOT / "benchmarks" / "measured" / "core_100k.txt").read_text(encoding="utf-8")
    microseconds = re.search(r"^lmassay run +([\d.]+) µs per example", printed, re.MULTILINE)[1]
    size = re.search(r"^store beyond the texts, per example +([\d.]+) bytes", printed, re.MULTILINE)[1]
    cost = f"{float(microseconds):.0f} µs of CPU time per example and {float(size):.0f} bytes beyond the texts"
    assert cost in PAGE
    assert f"`{printed.splitlines()[0].removeprefix('# ')}`" in PAGE
