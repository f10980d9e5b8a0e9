"""Examples in patterns as token ids."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.pvp import NO_MASK, PVP
from lmassay.evaluations.fewshot.tokens import CachedTokenizer, Piece, SpecialTokens, shorten
from tests.evaluations.fewshot.small_tokenizers import word_pieces

EXAMPLE = InputExample("train-1", "one two three", "four five", "yes")
WORDS = ("one", "two", "three", "four", "five", "Yes", "No", "same", "is")


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    return word_pieces(*WORDS)


class Same(PVP):
    """In FewNLU's style, without a constructor of its own."""

    VERBALIZER = {"yes": ["Yes"], "no": ["No"]}
    parts = None

    def get_parts(self, example):
        a, b = self.shortenable(example.text_a), self.shortenable(example.text_b)
        if self.parts is not None:
            return self.parts(a, b)
        if not self.use_cloze:
            return [a], [b]
        if self.use_continuous_prompt:
            return ["is", a, 2, "same", b, 1, [self.mask_id]], []
        return [a, "?"], [[self.mask_id], b]

    def verbalize(self, label):
        return self.VERBALIZER[label]


def pvp(tokenizer, parts=None, cls=Same, **options):
    made = cls(tokenizer, **{"max_seq_length": 32, "label_list": ["no", "yes"], **options})
    if parts is not None:
        made.parts = partial(parts, made)
    return made


def tokens(tokenizer, encoded):
    return tokenizer.convert_ids_to_tokens(encoded.ids)


def test_two_sides_get_the_special_tokens_and_types_of_the_tokenizer(tokenizer):
    encoded = pvp(tokenizer).encode(EXAMPLE)
    assert tokens(tokenizer, encoded) == [
        *("[CLS]", "one", "two", "three", "?", "[SEP]", "[MASK]", "four", "five", "[SEP]")
    ]
    assert encoded.types == [0] * 6 + [1] * 4
    assert encoded.masks == [6]
    assert encoded.prompts == []


def test_prompt_tokens_have_the_id_behind_the_vocabulary_and_are_listed(tokenizer):
    encoded = pvp(tokenizer, use_continuous_prompt=True).encode(EXAMPLE)
    assert encoded.prompts == [5, 6, 10]
    assert [encoded.ids[place] for place in encoded.prompts] == [len(tokenizer.get_vocab())] * 3
    assert encoded.masks == [11]


def test_the_number_of_prompt_tokens_is_known_without_an_example(tokenizer):
    assert pvp(tokenizer, use_continuous_prompt=True, pattern_id=7).prompt_length == 3
    assert pvp(tokenizer).prompt_length == 0


def test_a_classifier_reads_both_texts_without_a_mask(tokenizer):
    encoded = pvp(tokenizer, use_cloze=False).encode(EXAMPLE)
    assert encoded.masks == []
    assert tokens(tokenizer, encoded)[-3:] == ["four", "five", "[SEP]"]


def test_text_is_cut_at_the_end_of_what_may_be_shortened(tokenizer):
    encoded = pvp(tokenizer, max_seq_length=8).encode(EXAMPLE)
    assert tokens(tokenizer, encoded) == ["[CLS]", "one", "two", "?", "[SEP]", "[MASK]", "four", "[SEP]"]


@pytest.mark.fault(29)
def test_text_that_may_not_be_shortened_and_is_too_long_is_an_error_with_lengths(tokenizer):
    made = pvp(tokenizer, lambda self, a, b: ([a[0], b, [self.mask_id]], []), max_seq_length=5)
    message = r"train-1: the parts that may not be shortened have 6 tokens.*the window has 5"
    with pytest.raises(DataError, match=message):
        made.encode(EXAMPLE)


def test_a_pattern_without_a_mask_is_an_error(tokenizer):
    with pytest.raises(ConfigError, match="the pattern has no mask"):
        pvp(tokenizer, lambda self, a, b: ([a, b], [])).encode(EXAMPLE)


def test_masks_that_stand_apart_are_an_error(tokenizer):
    with pytest.raises(ConfigError, match="not next to each other"):
        pvp(tokenizer, lambda self, a, b: ([[self.mask_id], a, [self.mask_id]], [])).encode(EXAMPLE)


def test_two_masks_are_an_error_where_words_are_one_token(tokenizer):
    with pytest.raises(ConfigError, match="2 masks"):
        pvp(tokenizer, lambda self, a, b: ([a, [self.mask_id] * 2], [])).encode(EXAMPLE)


def test_a_pattern_that_is_not_written_is_an_error(tokenizer):
    with pytest.raises(ConfigError, match="has no pattern 3"):
        pvp(tokenizer, lambda self, a, b: None, pattern_id=3).encode(EXAMPLE)


def test_a_part_of_no_known_kind_is_an_error(tokenizer):
    with pytest.raises(ConfigError, match=r"the part 1\.5 is not a text"):
        pvp(tokenizer, lambda self, a, b: ([a, 1.5, [self.mask_id]], [])).encode(EXAMPLE)


def test_the_mask_may_be_written_as_text(tokenizer):
    encoded = pvp(tokenizer, lambda self, a, b: ([a, self.mask], [])).encode(EXAMPLE)
    assert encoded.masks == [4]


def test_label_words_become_their_tokens_in_the_order_of_the_labels(tokenizer):
    ids = tokenizer.convert_tokens_to_ids(["No", "Yes"])
    assert pvp(tokenizer).label_token_ids() == [[ids[0]], [ids[1]]]


def test_a_word_of_several_tokens_is_named_with_them(tokenizer):
    class Wrong(Same):
        VERBALIZER = {"yes": ["Yes"], "no": ["Not"]}

    with pytest.raises(
        ConfigError, match=r"the word 'Not' for the label 'no' must be one token.*splits it into 2: No, ##t;"
    ):
        pvp(tokenizer, cls=Wrong).label_token_ids()


def test_a_word_outside_the_vocabulary_is_named(tokenizer):
    class Wrong(Same):
        VERBALIZER = {"yes": ["예"], "no": ["No"]}

    with pytest.raises(ConfigError, match=r"the word '예' for the label 'yes' is not in the vocabulary.*\[UNK\]"):
        pvp(tokenizer, cls=Wrong).label_token_ids()


@pytest.mark.fault(28)
def test_a_label_outside_the_verbalizer_is_named(tokenizer):
    with pytest.raises(ConfigError, match="no word for the label 'perhaps'"):
        pvp(tokenizer, label_list=["no", "yes", "perhaps"]).label_token_ids()


def test_final_punctuation_and_first_letters_of_marked_and_plain_texts():
    assert PVP.remove_final_punc("Really?!") == "Really"
    assert PVP.remove_final_punc(("Done.", True)) == ("Done", True)
    assert PVP.lowercase_first("The End") == "the End"
    assert PVP.lowercase_first(("The", True)) == ("the", True)
    assert PVP.lowercase_first("") == ""


def test_a_tokenizer_without_a_mask_leaves_a_gap_to_stop_at():
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from tests.tiny_models import byte_level

    encoded = pvp(byte_level(mask=False)).encode(EXAMPLE)
    assert [encoded.ids[place] for place in encoded.masks] == [NO_MASK]


def test_byte_level_words_are_read_with_the_space_before_them():
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from tests.tiny_models import byte_level

    roberta = byte_level(mask=True)
    assert CachedTokenizer(roberta).ids("the author") == roberta.encode(" the author", add_special_tokens=False)
    assert CachedTokenizer(roberta).ids(" the author") == roberta.encode(" the author", add_special_tokens=False)
    assert CachedTokenizer(roberta).ids("") == []


def test_a_text_is_tokenized_once_for_all_patterns_of_a_tokenizer(tokenizer):
    assert CachedTokenizer.of(tokenizer) is CachedTokenizer.of(tokenizer)


def test_what_is_done_to_the_tokens_of_a_text_does_not_come_back(tokenizer):
    made = pvp(tokenizer)
    made.text_ids("one two").append(99)
    assert made.text_ids("one two") == tokenizer.convert_tokens_to_ids(["one", "two"])


def test_a_tokenizer_that_learned_a_token_reads_differently():
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    young = word_pieces("one")
    assert len(pvp(young).text_ids("newword")) == 7
    young.add_tokens(["newword"])
    assert len(pvp(young).text_ids("newword")) == 1


def test_robertas_pair_has_two_separators_and_one_type():
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from tests.tiny_models import byte_level

    frame = SpecialTokens.of(byte_level(mask=True), pair=True)
    assert (frame.before, frame.between, frame.after) == ((0,), (2, 2), (2,))
    assert frame.around([9], [8]) == ([0, 9, 2, 2, 8, 2], [0] * 6)


def test_a_text_alone_is_framed_as_the_tokenizer_does_it(tokenizer):
    ids, types = SpecialTokens.of(tokenizer, pair=False).around(tokenizer.encode("one two", add_special_tokens=False))
    assert ids == tokenizer.encode("one two")
    assert types == [0] * 4


sides = st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=4)


def one_by_one(first, second, surplus):
    """As in PET: count again after removing each token from the end."""
    for _ in range(surplus):
        size_a, size_b = (sum(len(p.ids) for p in side if p.shortenable) for side in (first, second))
        side = first if size_a > size_b else second
        piece = [p for p in side if p.shortenable and p.ids][-1]
        piece.ids = piece.ids[:-1]


@given(sides, sides, st.integers(0, 40))
def test_cutting_in_one_go_equals_cutting_token_by_token(first, second, wanted):
    def pieces(side):
        return [Piece(list(range(size)), may) for size, may in side]

    a, b, c, d = pieces(first), pieces(second), pieces(first), pieces(second)
    possible = sum(size for size, may in (*first, *second) if may)
    left = shorten(a, b, wanted)
    assert left == max(0, wanted - possible)
    one_by_one(c, d, min(wanted, possible))
    assert (a, b) == (c, d)
