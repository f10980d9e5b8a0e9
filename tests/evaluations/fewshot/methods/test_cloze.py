"""The words of the labels at a mask, and with models that read from left to right."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from tests.evaluations.fewshot.methods.conftest import Opened


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global torch, CausalCloze, Cloze, Reading, Verbalizer, opening, prompt, open_network
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import CausalCloze, Cloze, Reading, Verbalizer, opening, prompt
    from lmassay.evaluations.fewshot.methods.network import open_network


def test_label_logits_are_those_of_the_whole_vocabulary_at_the_mask(tiny: Opened, rte: NluTask) -> None:
    net = open_network(tiny("bert"))
    learner = Cloze(net, rte, Reading(pattern=10))
    net.module.eval()
    items = learner.encode(rte.examples("train")[:5], training=True)
    with torch.no_grad():
        whole = net.module(**net.inputs(learner.batch(items))).logits
        at_mask = torch.stack([row[item.masks[0]] for row, item in zip(whole, items, strict=True)])
        expected = torch.stack([at_mask[:, ids].mean(dim=1) for ids in learner.pvp.label_token_ids()], dim=1)
        assert torch.allclose(learner.logits(items), expected, atol=1e-6)


def test_a_word_with_id_zero_counts_for_nothing_but_is_counted() -> None:
    verbalizer = Verbalizer([[0, 4], [6]], torch.device("cpu"))
    assert verbalizer.rows.tolist() == [0, 4, 6]
    assert verbalizer.labels(torch.tensor([[9.0, 4.0, 1.0]])).tolist() == [[2.0, 1.0]]


def test_what_stands_behind_the_answer_is_moved_to_the_front() -> None:
    assert prompt('"the author laughs"? ', ', "the author laughs near people."') == (
        '"the author laughs near people." "the author laughs"?'
    )


def test_punctuation_behind_the_answer_is_dropped() -> None:
    assert prompt("Is it raining? Answer: ", ".") == "Is it raining? Answer:"


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_label_logits_are_those_of_the_words_after_the_prompt(tiny: Opened, rte: NluTask, family: str) -> None:
    net = open_network(tiny(family))
    learner = CausalCloze(net, rte, Reading(pattern=5))
    net.module.eval()
    examples = rte.examples("train")[:4]
    items = learner.encode(examples, training=True)
    before, _ = rte.cloze_text(examples[0], 5)
    with torch.no_grad():
        alone = net.module(torch.tensor([net.tokenizer(before.strip()).input_ids])).logits[0, -1]
        logits = learner.logits(items)[0]
    expected = [alone[net.tokenizer.encode(f" {word}", add_special_tokens=False)[-1]].item() for word in ("Yes", "No")]
    assert np.allclose(logits.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Sense (", "("), ("an [", "["), ('He said "', '"'), ('("', '"'), ('He said "no"', ""), ("dogs'", ""), ("", "")],
)
def test_a_quote_opens_where_no_word_stands_before_it(text: str, expected: str) -> None:
    assert opening(text) == expected


class Bracketed:
    """A task whose first answer stands in a bracket, and whose second does not."""

    labels = ("0", "1")

    def __init__(self, *words: str) -> None:
        self.words = words

    def verbalize(self, label: str, pattern: int) -> list[str]:
        return [self.words[int(label)]]

    def cloze_text(self, example: InputExample, pattern: int) -> tuple[str, str]:
        return ("the author (", ")") if example.guid == "0" else ("the author is ", "")


def test_behind_an_opening_bracket_a_word_has_no_space_before_it(tiny: Opened) -> None:
    net = open_network(tiny("gpt2"))
    net.module.eval()
    learner = CausalCloze(net, Bracketed("a", "t"), Reading())  # type: ignore[arg-type]
    items = learner.encode([InputExample("0", "", label="0"), InputExample("1", "", label="1")], training=True)
    with torch.no_grad():
        logits = learner.logits(items)
        for row, item, space in zip(logits, items, ("", " "), strict=True):
            alone = net.module(torch.tensor([item.ids])).logits[0, -1]
            expected = [alone[net.tokenizer.encode(f"{space}{word}")[0]].item() for word in ("a", "t")]
            assert row.tolist() == pytest.approx(expected, abs=1e-4)


def test_a_word_that_is_several_tokens_behind_the_bracket_is_refused_by_name(tiny: Opened) -> None:
    learner = CausalCloze(open_network(tiny("gpt2")), Bracketed("author", "laugh"), Reading())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'author', right after the \( at the end of the prompt, must be one token"):
        learner.encode([InputExample("0", "", label="0")], training=True)


def test_a_text_that_is_too_long_loses_its_beginning(tiny: Opened, rte: NluTask) -> None:
    net = open_network(tiny("llama"))
    whole = CausalCloze(net, rte, Reading(pattern=5)).encode(rte.examples("train")[:1], training=True)[0]
    short = CausalCloze(net, rte, Reading(pattern=5, max_seq_length=12)).encode(
        rte.examples("train")[:1], training=True
    )[0]
    assert len(short) == 12
    assert short.ids == [whole.ids[0], *whole.ids[-11:]]


def test_a_word_of_several_tokens_is_refused_by_name(tiny: Opened, rte: NluTask) -> None:
    class Wordy:
        labels = rte.labels

        def verbalize(self, label: str, pattern: int) -> list[str]:
            return ["unquestionably"]

        def cloze_text(self, example: InputExample, pattern: int) -> tuple[str, str]:
            return "", ""

    with pytest.raises(ConfigError, match="'unquestionably' must be one token, but this tokenizer splits it into"):
        CausalCloze(open_network(tiny("gpt2")), Wordy(), Reading())  # type: ignore[arg-type]
