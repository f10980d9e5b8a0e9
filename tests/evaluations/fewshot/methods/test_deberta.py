"""DeBERTa's mask decoder without the shared folder: what it must not depend on, and what is frozen."""

from __future__ import annotations

import json

import pytest

from lmassay.models.hf.model import HuggingFace
from tests.tiny_models import tokenizer_of


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global IDS
    global \
        torch, \
        DebertaV2Config, \
        DebertaV2ForMaskedLM, \
        DebertaV2ForSequenceClassification, \
        deberta, \
        EncodedItem, \
        collate
    global open_network
    import torch
    from transformers import DebertaV2Config, DebertaV2ForMaskedLM, DebertaV2ForSequenceClassification

    from lmassay.evaluations.fewshot.methods import deberta
    from lmassay.evaluations.fewshot.methods.learner import EncodedItem, collate
    from lmassay.evaluations.fewshot.methods.network import open_network

    IDS = torch.tensor([[2, 7, 9, 11, 4, 3]])


SIZES = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
    "legacy": False,
}


def made(kind=None, **own):
    torch.manual_seed(0)
    network = (kind or DebertaV2ForMaskedLM)(DebertaV2Config(**{**SIZES, **own})).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.2)
    return network


def by_hand(network, ids):
    """The decoder as the original computes it: both readings of the last layer, none taken from the encoder."""
    body = network.deberta
    encoder = body.encoder
    mask = torch.ones_like(ids)
    before = body(ids, attention_mask=mask, output_hidden_states=True).hidden_states[-2]
    queries = before
    if body.embeddings.position_embeddings is not None:
        queries = queries + body.embeddings.position_embeddings.weight[: ids.shape[1]]
    for _ in range(2):
        queries = encoder.layer[-1](
            before,
            encoder.get_attention_mask(mask),
            query_states=queries,
            relative_pos=encoder.get_rel_pos(before),
            rel_embeddings=encoder.get_rel_embedding(),
        )[0]
    return queries


@pytest.mark.parametrize(
    "own",
    [{}, {"position_biased_input": True}, {"conv_kernel_size": 3}, {"conv_kernel_size": 3, "num_hidden_layers": 1}],
)
def test_the_last_layer_reads_twice(own):
    network = made(**own)
    with torch.inference_mode():
        hidden_states = deberta.lm_hidden(network, {"input_ids": IDS})
        torch.testing.assert_close(hidden_states, by_hand(network, IDS))
        plain = network.deberta(IDS).last_hidden_state
    assert (hidden_states - plain).abs().max() > 0.01


def test_padding_does_not_change_what_is_read():
    network = made()
    padded = torch.cat([IDS, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    mask = (padded > 0).long()
    with torch.inference_mode():
        alone = deberta.lm_hidden(network, {"input_ids": IDS})
        beside = deberta.lm_hidden(network, {"input_ids": padded, "attention_mask": mask})
    torch.testing.assert_close(beside[:, : IDS.shape[1]], alone)


def opened(folder):
    return open_network(HuggingFace(str(folder), device="cpu"))


def saved(folder, **own):
    tokenizer = tokenizer_of("deberta-v2")
    network = made(vocab_size=len(tokenizer), **own)
    network.save_pretrained(folder)
    # Published configurations do not say which head the weights have.
    file = folder / "config.json"
    output = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({key: value for key, value in output.items() if key != "legacy"}), encoding="utf-8")
    tokenizer.save_pretrained(folder)
    return network


def test_an_opened_network_reads_through_the_decoder_where_its_head_was_trained_with_it(tmp_path):
    trained, other = saved(tmp_path / "microsoft"), saved(tmp_path / "transformers", legacy=True)
    batch = collate([EncodedItem(IDS[0].tolist(), [0] * IDS.shape[1])], 0, torch.device("cpu"))
    rows = torch.tensor([5, 9])
    with torch.inference_mode():
        network = opened(tmp_path / "microsoft")
        states = network.hidden(batch)
        torch.testing.assert_close(states, by_hand(trained, IDS))
        torch.testing.assert_close(
            network.decode(states[:, 2], rows), deberta.lm_logits(trained, states)[:, 2][:, rows]
        )
        network = opened(tmp_path / "transformers")
        states = network.hidden(batch)
        torch.testing.assert_close(states, other.deberta(IDS).last_hidden_state)
        torch.testing.assert_close(network.decode(states), deberta.lm_logits(other, states))


def test_a_third_of_the_layers_the_words_and_the_head_are_frozen():
    network = made()
    frozen = deberta.freeze(network)
    assert {name.split(".")[1] if name.startswith("lm") else ".".join(name.split(".")[1:4]) for name in frozen} == {
        "embeddings.word_embeddings.weight",
        "encoder.layer.0",
        "lm_head",
    }


def test_a_classifier_keeps_its_head_learning():
    network = made(DebertaV2ForSequenceClassification)
    frozen = deberta.freeze(network)
    assert "classifier.weight" not in frozen
    assert "deberta.embeddings.word_embeddings.weight" in frozen


def test_targets_of_padding_do_not_count_and_the_rest_is_summed():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    loss = deberta.summed_loss(logits, torch.tensor([4, 0, 1]))
    log_p = logits.log_softmax(1)
    assert loss.item() == pytest.approx(-(log_p[0, 4] + log_p[2, 1]).item())
