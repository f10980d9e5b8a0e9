"""Filling gaps: orders, trimming, sharing of readings."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.errors import ConfigError, DataError


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, CausalGaps, Gap, filled, greedy_fill, known_decoding, log_probabilities, trimmed, EncodedItem
    import torch

    from lmassay.evaluations.fewshot.methods.decoding import (
        CausalGaps,
        Gap,
        filled,
        greedy_fill,
        known_decoding,
        log_probabilities,
        trimmed,
    )
    from lmassay.evaluations.fewshot.methods.learner import EncodedItem


MASK, SIZE = 9, 12


def item(before=(1, 2), masks=3, after=(3,), prompts=()):
    ids = [*before, *[MASK] * masks, *after]
    return EncodedItem(ids, list(range(len(ids))), list(range(len(before), len(before) + masks)), list(prompts))


class Net:
    """Logits that depend on every id of a text and on the place; counts how many texts it is given."""

    def __init__(self):
        self.lines = 0

    def read(self, items, positions):
        rows = []
        for one, places in zip(items, positions, strict=True):
            self.lines += 1
            for place in places:
                seed = hash((tuple(one.ids), place)) % 2**31
                rows.append(torch.randn(SIZE, generator=torch.Generator().manual_seed(seed)))
        return torch.stack(rows)


def slowly(net, gap, decoding):
    """One reading a token, after the definition."""
    short = trimmed(gap.item, len(gap.tokens))
    ids, left, total = list(short.ids), dict(zip(short.masks, gap.tokens, strict=True)), 0.0
    while left:
        scores = net.read([EncodedItem(list(ids), short.types)], [list(left)]).log_softmax(-1)
        known = {place: scores[row, token].item() for row, (place, token) in enumerate(left.items())}
        if decoding == "parallel":
            return total + sum(known.values())
        place = min(known) if decoding == "ltr" else max(known, key=known.__getitem__)
        total += known[place]
        ids[place] = left.pop(place)
    return total


@pytest.mark.parametrize("decoding", ["default", "ltr", "parallel"])
@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 8), min_size=1, max_size=3)), min_size=1, max_size=9)
)
def test_gaps_filled_together_score_as_one_by_one(decoding, drawn):
    items = [item(), item((5, 6, 7), 3, ()), item((8,), 4, (1, 1))]
    gaps = [Gap(items[number], tuple(tokens)) for number, tokens in drawn]
    for size in (1, 2, 32):
        logprobs = log_probabilities(Net().read, gaps, decoding, size)
        assert logprobs.tolist() == pytest.approx([slowly(Net(), gap, decoding) for gap in gaps], abs=1e-5)


def test_texts_of_one_length_share_the_first_reading():
    one, net = item(), Net()
    log_probabilities(net.read, [Gap(one, (token,)) for token in range(8)])
    assert net.lines == 1


def test_trimming_moves_what_stands_behind_the_masks():
    short = trimmed(item((1, 2), 3, (7, 8, 3), prompts=(0, 6)), 1)
    assert short.ids == [1, 2, MASK, 7, 8, 3]
    assert short.types == [0, 1, 2, 5, 6, 7]
    assert short.masks == [2]
    assert short.prompts == [0, 4]


def test_filling_leaves_the_item_as_it_was():
    whole = item()
    assert filled(whole, [5, 6]).ids == [1, 2, 5, 6, 3]
    log_probabilities(Net().read, [Gap(whole, (5, 6))])
    greedy_fill(Net().read, [whole])
    assert whole.ids.count(MASK) == 3


def test_a_text_longer_than_its_gap_is_named():
    with pytest.raises(DataError, match=r"a text of 5 tokens does not fit into 3 mask"):
        trimmed(item(), 5)


def test_an_empty_text_has_no_score():
    with pytest.raises(DataError, match="no tokens"):
        log_probabilities(Net().read, [Gap(item(), ())])


def test_an_unknown_order_is_named():
    with pytest.raises(ConfigError, match="beam"):
        known_decoding("beam")


@pytest.mark.parametrize("decoding", ["default", "ltr", "parallel"])
@pytest.mark.parametrize("size", [1, 2, 32])
def test_each_place_gets_its_likeliest_token(decoding, size):
    items = [item(), item((5, 6), 1), item((8,), 4, (1, 1))]
    for one, written in zip(items, greedy_fill(Net().read, items, decoding, size), strict=True):
        ids, left = list(one.ids), list(one.masks)
        while left:
            scores = Net().read([EncodedItem(list(ids), one.types)], [left]).log_softmax(-1)
            sure, tokens = scores.max(dim=-1)
            best = 0 if decoding == "ltr" else int(sure.argmax())
            for row in range(len(left)) if decoding == "parallel" else [best]:
                ids[left[row]] = int(tokens[row])
            left = [] if decoding == "parallel" else [place for place in left if place != left[best]]
        assert written == [ids[place] for place in one.masks]


def test_a_mask_that_the_network_itself_writes_ends_the_filling():
    always_mask = torch.nn.functional.one_hot(torch.tensor(MASK), SIZE).float()

    def read(items, positions):
        return always_mask.repeat(sum(map(len, positions)), 1)

    assert greedy_fill(read, [item()]) == [[MASK] * 3]


@functools.cache
def chain_table():
    return torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(1))


class Chain:
    """A causal network: what comes next depends on the last token alone."""

    def read(self, items, positions):
        pairs = zip(items, positions, strict=True)
        return torch.stack([chain_table()[one.ids[place - 1]] for one, places in pairs for place in places])


def chained(tokens):
    scores = chain_table().log_softmax(-1)
    return sum(scores[a, b].item() for a, b in itertools.pairwise(tokens))


@pytest.mark.parametrize("size", [1, 32])
def test_causal_scores_are_those_of_the_text_after_what_stands_before_the_gap(size):
    gaps = CausalGaps(Chain().read, size)
    texts = [[[4], [5, 6, 7]], [[8, 8]]]
    items = [item((1, 2), 3), item((3,), 2, (1, 1, 1))]
    expected = [[chained([2, 4]), chained([2, 5, 6, 7])], [chained([3, 8, 8])]]
    for scores, wanted in zip(gaps.scores(items, texts), expected, strict=True):
        assert scores == pytest.approx(wanted, abs=1e-5)
    costs = gaps.costs(items, texts)
    assert [[-cost.sum().item() for cost in of_item] for of_item in costs] == [
        pytest.approx(wanted, abs=1e-5) for wanted in expected
    ]


def test_causal_writing_follows_the_likeliest_chain():
    written = CausalGaps(Chain().read, 32).write([item((1, 2), 3), item((5,), 1)])
    best = chain_table().argmax(dim=1).tolist()
    assert written == [[best[2], best[best[2]], best[best[best[2]]]], [best[5]]]
