"""The published patterns of SuperGLUE."""

from __future__ import annotations

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.evaluations.fewshot.tasks.patterns import pattern
from lmassay.evaluations.fewshot.tasks.superglue.patterns import SUPERGLUE_PVPS
from tests.evaluations.fewshot.small_tokenizers import word_pieces

REFERENT = InputExample(
    "train-1", "Ann met Eve because she asked.", None, "True", meta={"span1_text": "Eve", "span2_text": "she"}
)
REFERENT.meta = {**REFERENT.meta, "span1_index": 2, "span2_index": 4}


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    return word_pieces("Ann", "Eve", "met", "because", "she", "asked")


@pytest.mark.parametrize("name", SUPERGLUE_PVPS)
def test_published_ptuning_patterns_are_numbered_by_their_slots(name):
    for number, text in SUPERGLUE_PVPS[name].PATTERNS["ptuning"].items():
        assert pattern(text).slots == number


@pytest.mark.parametrize("name", SUPERGLUE_PVPS)
def test_published_patterns_have_one_gap_and_classifiers_none(name):
    patterns = SUPERGLUE_PVPS[name].PATTERNS
    assert all(pattern(text).masks == 1 for mode in ("cloze", "ptuning") for text in patterns[mode].values())
    assert all(pattern(text).masks == 0 for text in patterns["cls"].values())


def test_a_referent_has_one_mask_more_than_tokens_at_evaluation(tokenizer):
    pvp = open_task("wsc").pvp(tokenizer)
    assert [len(pvp.encode(REFERENT, training=False).masks) for _ in range(5)] == [2] * 5


def test_a_referent_has_up_to_three_more_in_training_drawn_from_the_seed(tokenizer):
    def draw(seed):
        pvp = open_task("wsc").pvp(tokenizer, seed=seed)
        return [len(pvp.encode(REFERENT, training=True).masks) for _ in range(40)]

    assert set(draw(1)) == {1, 2, 3, 4}
    assert draw(1) == draw(1) != draw(2)


def test_without_being_told_an_example_of_a_training_file_is_for_training(tokenizer):
    pvp = open_task("wsc").pvp(tokenizer)
    assert len({len(pvp.encode(REFERENT).masks) for _ in range(40)}) == 4


def test_encoding_for_evaluation_does_not_change_what_training_draws(tokenizer):
    first, second = (open_task("wsc").pvp(tokenizer) for _ in range(2))
    second.encode(REFERENT, training=False)
    assert first.encode(REFERENT, training=True) == second.encode(REFERENT, training=True)


def test_record_fills_a_candidate_in_for_a_classifier(tokenizer):
    meta = {"candidates": ["Ann", "Eve"], "answers": ["Eve"]}
    example = InputExample("dev-1", "Ann met Eve", "because @placeholder asked", "1", meta=meta)
    encoded = open_task("record").pvp(tokenizer, mode="cls").filled(example, "Eve")
    assert "because Eve asked" in tokenizer.decode(encoded.ids)


def test_record_with_two_placeholders_is_an_error(tokenizer):
    example = InputExample("dev-1", "Ann", "@placeholder met @placeholder", "1", meta={"candidates": ["Ann"]})
    with pytest.raises(DataError, match="dev-1: the query must have one @placeholder"):
        open_task("record").pvp(tokenizer).encode(example)
