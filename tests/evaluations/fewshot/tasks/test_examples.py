"""Examples as a classifier reads them."""

from __future__ import annotations

from typing import Any

from lmassay.evaluations.fewshot.tasks.examples import InputExample, input_key


def copa(**meta: Any) -> InputExample:
    choices = {"choice1": "It rained.", "choice2": "It was dry.", "question": "cause"}
    return InputExample("train-1", "The grass was wet.", label="0", meta=choices | meta)


def test_examples_are_equal_if_a_classifier_reads_the_same() -> None:
    assert input_key(copa()) == input_key(copa(group="7"))


def test_a_field_that_is_part_of_the_input_tells_examples_apart() -> None:
    assert input_key(copa()) != input_key(copa(question="effect"))
    assert input_key(InputExample("a", "x", "y", meta={"fields": {"third": "one"}})) != input_key(
        InputExample("b", "x", "y", meta={"fields": {"third": "two"}})
    )
