"""Published questions under attack: one of each template, the choices untouched."""

from __future__ import annotations

import pytest

from lmassay.datasets.questions import PublishedQuestion
from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.attack import Attack
from lmassay.evaluations.robustness.questions import drawn_questions
from lmassay.evaluations.robustness.task import Robustness

QUESTIONS = [
    PublishedQuestion(f"Text {number}.", "Who?", ("Ann", "Bob"), "Ann", f"{category}-{template}", category)
    for category in ("age", "name")
    for template in range(4)
    for number in range(3)
]


def test_one_question_of_each_template_is_drawn():
    drawn = drawn_questions(QUESTIONS, None, seed=0)
    assert len({question.template for question in drawn}) == len(drawn) == 8


def test_categories_are_equally_frequent_in_a_sample_that_the_seed_decides():
    drawn = drawn_questions(QUESTIONS, 4, seed=0)
    assert sorted(question.category for question in drawn) == ["age", "age", "name", "name"]
    assert drawn == drawn_questions(list(reversed(QUESTIONS)), 4, seed=0)
    assert drawn != drawn_questions(QUESTIONS, 4, seed=1)


def test_the_choices_are_in_the_prompt_and_not_attacked(fetched):
    fetched("kobbq")
    task = Robustness(
        questions="kobbq",
        sample=5,
        attack=Attack(name="charswap", redraws=20),
        prompt="{x}\n{choices}",
        answer_by="choices",
    )
    task.check()
    for example in task.examples():
        clean, attacked = task.requests(example)
        assert clean.choices == attacked.choices == tuple(example.inputs["choices"])
        assert example.reference in clean.choices
        assert clean.prompt.endswith(", ".join(clean.choices))
        assert attacked.prompt.endswith(", ".join(clean.choices))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"questions": "kobbq", "prompt": "{x}"}, "'{choices}' is missing"),
        ({"questions": "kobbq", "prompt": "{x} {choices}", "ref": __file__}, "either questions or files"),
        ({"src": __file__, "sample": 3}, "belong to task.questions"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        Robustness(attack=Attack(name="charswap"), **options)
