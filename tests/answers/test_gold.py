"""The robust parser on made-up answers whose meaning is known, and on every choice of the data."""

from __future__ import annotations

import csv
import gzip
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmassay.answers.parser import parse
from lmassay.evaluations.bias.sources import read_dataset
from tests.published_data import published_sets

_L = "([A-Ca-cＡＢＣⓐⓑⓒ])"
BY_LETTER = {
    "ans_colon": f"답: {_L}",
    "ans_double": f"정답은 정답은 {_L}: .+",
    "ans_i": f"답이 {_L}입니다\\.",
    "ans_is_dquoted_letter": f'정답은 "{_L}" 입니다\\.',
    "ans_is_letter": f"정답은 {_L}입니다\\.",
    "ans_label_sp": f"정답 : {_L}",
    "bold": f"\\*\\*{_L}\\*\\*",
    "bold_empty": f"\\*\\*\\*\\* {_L}",
    "bold_quote": f"\\*\\*'{_L}'\\*\\*",
    "bold_text": f"\\*\\*{_L}: .+\\*\\*",
    "bracket": f"\\[{_L}\\]",
    "circled": _L,
    "clipped": f"정답은(?: {_L}(?::.*)?)? ?",
    "colon": f"{_L}:",
    "colon_text": f"{_L}: .+",
    "curly_quoted": f"‘{_L}’",
    "dot": f"{_L}\\.",
    "dot_text": f"{_L}\\. .+",
    "double_paren": f"\\(\\({_L}\\)",
    "english_answer": f"Answer: {_L}",
    "english_the": f"The answer is {_L}\\.",
    "explain_then": f"맥락에 따르면 .+에 대한 언급이 없다\\. 따라서 {_L}\\) .+",
    "explain_then2": f"설명이 필요합니다\\.\n정답: {_L}",
    "explain_two": f"보기 [A-C]\\) .+는 아니므로 {_L}\\) .+",
    "fullwidth": _L,
    "json_like": f'{{"answer": "{_L}"}}',
    "latex": f"\\$\\\\boxed{{{_L}}}\\$",
    "letter": _L,
    "letter_imnida": f"{_L}입니다",
    "letter_then_korean": f"{_L}가 맞습니다\\. 왜냐하면 A와 B 때문입니다",
    "lower": _L,
    "lower_bold_korean": f"알맞은 답은 \\*\\*\\({_L}\\) .+\\*\\*입니다\\.",
    "lower_colon_text": f"{_L}: .+",
    "newline_first": f"\n{_L}",
    "newline_lead_sp": f"\n \t{_L}: .+\n",
    "paren": f"\\({_L}\\)",
    "paren_space": f"\\( {_L} \\)",
    "paren_text": f"\\({_L}\\) .+",
    "quoted": f"'{_L}'",
    "response_is": f"답변은 \\({_L}\\) .+입니다\\.",
    "rparen_text": f"{_L}\\) .+",
    "tab_in": f"{_L}\t.+",
    "then_explain": f"{_L}\n\n해설: 맥락에서 .+에 대해 말하고 있습니다\\.",
    "think": f"<think>\n.+\\?\n</think>\n{_L}",
}
BY_TEXT = {
    "ans_is_quoted_text": "정답은 '(.+)'입니다\\.",
    "ans_is_text": "정답은 (.+)입니다\\.",
    "ans_multi_quote": "'.+'이 아니라 '(.+)'입니다",
    "bold_in_sentence": "주어진 맥락에서 알맞은 것은 \\*\\*(.+)\\*\\* 입니다\\.",
    "dquoted_text": '"(.+)"',
    "text": "(.+)",
    "text_dot": "(.+)\\.",
    "text_imnida": "(.+)입니다\\.",
    "text_sp_imnida": "(.+) 입니다\\.",
    "text_trail_space": "(.+) ",
}
NO_ANSWER = {"nanlike", "number", "two_choices", "two_letters", "two_letters_or", "wrong_text", "wrong_text_both"}
# These are about what the context says; all others of their kinds are refusals, or words that begin with a letter.
UNKNOWN = {
    "답을 알 수 없습니다.",
    "답을 확정할 수 없습니다.",
    "보기 중 답을 찾을 수 없습니다.",
    "알 수 없습니다",
    "알 수 없습니다.",
    "정답 없습니다",
    "주어진 정보만으로는 답을 알 수 없습니다.",
    "Unknown",
    "Cannot be determined",
    "Based on the context, it is unclear",
}
UNKNOWN_CHOICES = ("알 수 없음", "보기 중 답을 찾을 수 없음", "주어진 정보만으로는 답을 알 수 없음")


def meant(kind: str, raw: str, choices: tuple[str, ...]) -> str | None:
    """The letter that an answer of a kind was made to mean."""
    if kind in BY_LETTER:
        match = re.fullmatch(BY_LETTER[kind], raw, re.DOTALL)
        assert match, (kind, raw)
        return match[1] and unicodedata.normalize("NFKC", match[1]).upper()
    if kind in BY_TEXT:
        match = re.fullmatch(BY_TEXT[kind], raw)
        assert match, (kind, raw)
        return "ABC"[choices.index(match[1])]
    if kind == "unk_text" or (kind in ("refuse", "english_word") and raw in UNKNOWN):
        (position,) = [position for position, choice in enumerate(choices) if choice in UNKNOWN_CHOICES]
        return "ABC"[position]
    assert kind in {"refuse", "english_word", *NO_ANSWER}
    return None


def gold_rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream, delimiter="\t")


@pytest.mark.parametrize("model", ["biased", "debiased", "synth-hard", "synth-nan"])
@pytest.mark.parametrize("prompt", [1, 2, 3])
def test_every_answer_of_gold_is_read_as_it_was_meant(shared, prompt, model):
    gold = shared / "gold" / "kobbq"
    name = f"KoBBQ_test_evaluation_{prompt}"
    choices = {row["sample_id"]: (row["A"], row["B"], row["C"]) for row in gold_rows(gold / f"step1/{name}.tsv.gz")}
    kinds = {row["guid"]: row["kind"] for row in gold_rows(gold / f"inputs/kinds/{name}_{model}_kinds.tsv.gz")}
    wrong = {}
    for row in gold_rows(gold / f"inputs/raw/{name}_{model}_predictions.tsv.gz"):
        shown, kind = choices[row["guid"]], kinds[row["guid"]]
        parsed = parse(row["raw"], shown)
        if parsed.letter != meant(kind, row["raw"], shown):
            wrong[kind, row["raw"], shown] = parsed
    assert not wrong


_FORMS = {
    "en": ["{t}", "{t}.", "{L}. {t}", "({L}) {t}", "The answer is {t}.", "**{L}: {t}**", "It was {t}.", "{L}\n\n{t}"],
    "ko": ["{t}", "{t}.", "{L}. {t}", "({L}) {t}", "정답은 {t}입니다.", "**{L}: {t}**", "{t} 입니다", "{L}\n\n{t}"],
}


@pytest.mark.parametrize("data", ["bbq", "kobbq/KoBBQ_test_samples.tsv"])
def test_every_choice_of_the_data_is_known_by_its_text_and_a_wrong_letter_next_to_it_is_noticed(data):
    dataset = read_dataset(data, published_sets("bbq", "kobbq"))
    questions = {item.choices: item.question for item in dataset.items}
    for choices, question in list(questions.items())[::7]:
        for position, text in enumerate(choices):
            right, wrong = "ABC"[position], "ABC"[position - 1]
            for form in _FORMS[dataset.language]:
                assert parse(form.format(t=text, L=right), choices, question=question).letter == right
                if "{L}" in form:
                    assert parse(form.format(t=text, L=wrong), choices, question=question).letter is None
