"""Vectors for the slots of a pattern, and how they get between the word embeddings."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from tests.tiny_models import MASKED, save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global WORDS
    global torch, AutoModelForMaskedLM, SLOT, PromptEncoder, Slots, drawn_words, put_in
    import torch
    from transformers import AutoModelForMaskedLM

    from lmassay.evaluations.fewshot.methods.prompt_encoder import (
        SLOT,
        PromptEncoder,
        Slots,
        drawn_words,
        put_in,
    )

    WORDS = torch.arange(40.0).view(10, 4)


HEADS = ("raw", "lstm", "mlp")


def test_every_head_is_tested():
    from lmassay.evaluations.fewshot.methods import prompt_encoder

    assert prompt_encoder.HEADS == HEADS


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("slots", [1, 3])
def test_every_head_gives_one_vector_a_slot(head, slots):
    assert PromptEncoder(slots, head, WORDS)().shape == (slots, 4)


def test_raw_prompts_start_as_words_of_the_vocabulary():
    encoder = PromptEncoder(3, "raw", WORDS, seed=3)
    assert encoder().tolist() == WORDS[drawn_words(10, 3, 3)].tolist()


@pytest.mark.parametrize("head", HEADS)
def test_weights_depend_on_the_seed_alone(head):
    def made(seed):
        torch.manual_seed(torch.seed())
        return PromptEncoder(2, head, WORDS, seed=seed)()

    assert torch.equal(made(1), made(1))
    assert not torch.equal(made(1), made(2))


def test_making_an_encoder_leaves_the_random_numbers_of_others_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    PromptEncoder(2, "lstm", WORDS, seed=5)
    assert torch.equal(torch.rand(1), expected)


def test_an_unknown_head_is_refused_by_name():
    with pytest.raises(ConfigError, match="no 'lsmt'; did you mean 'lstm'"):
        PromptEncoder(2, "lsmt", WORDS)


def test_a_prompt_without_slots_is_refused():
    with pytest.raises(ConfigError, match="1 slot or more, not 0"):
        PromptEncoder(0, "raw", WORDS)


def test_vectors_go_into_the_slots_of_each_line_in_order():
    embedded = torch.zeros(2, 4, 1)
    slots = torch.tensor([[False, True, False, True], [True, True, False, False]])
    filled = put_in(embedded, slots, torch.tensor([[1.0], [2.0]]))
    assert filled[..., 0].tolist() == [[0, 1, 0, 2], [1, 2, 0, 0]]


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: AutoModelForMaskedLM.from_pretrained(save_model(folder / name, name)).eval() for name in (*MASKED,)}


@pytest.mark.parametrize("family", MASKED)
def test_a_slot_that_holds_a_words_vector_reads_as_that_word(networks, family):
    network = networks[family]
    ids = torch.tensor([[2, 7, 9, 11, 3]])
    with torch.inference_mode():
        expected = network(input_ids=ids).logits
        words = network.get_input_embeddings().weight
        encoder = PromptEncoder(2, "raw", words)
        encoder.start_from(words, [7, 11])
        slots = Slots(network, encoder)
        prompted = network(input_ids=torch.tensor([[2, SLOT, 9, SLOT, 3]])).logits
        slots.remove()
    torch.testing.assert_close(prompted, expected)


def test_only_the_prompt_learns_from_a_slot(networks):
    network = networks["bert"]
    words = network.get_input_embeddings().weight
    encoder = PromptEncoder(1, "mlp", words)
    slots = Slots(network, encoder)
    network.bert(input_ids=torch.tensor([[2, SLOT, 9, 3]])).last_hidden_state[..., 0].sum().backward()
    slots.remove()
    learned = words.grad.abs().sum(1)
    assert all(weight.grad.abs().sum() > 0 for weight in encoder.parameters())
    assert [row for row in range(len(words)) if learned[row] > 0] == [2, 3, 9]
    assert "prompt_encoder.mlp.0.weight" in dict(network.named_parameters())
