"""The last layer at the mask alone gives what the whole layer gives there."""

from __future__ import annotations

import pytest

from tests.tiny_models import MASKED, save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global ITEMS, WORDS
    global torch, transformers, collate, last_layer, Item, Network
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    from lmassay.evaluations.fewshot.methods.batches import collate
    from lmassay.evaluations.fewshot.methods.last_layer import last_layer
    from lmassay.evaluations.fewshot.methods.learner import Item
    from lmassay.evaluations.fewshot.methods.network import Network

    ITEMS = [Item([2, 9, 4, 10, 3], [0] * 5), Item([2, 11, 12, 13, 14, 15, 4, 3], [0] * 8), Item([2, 4, 3], [0] * 3)]
    WORDS = torch.tensor([20, 7, 30])


PLACES = [2, 6, 1]


def gradients(network: Network, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    network.module.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in network.module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("many", [3, 1], ids=["padded", "alone"])
@pytest.mark.parametrize("family", MASKED)
def test_logits_and_gradients_are_those_of_the_whole_network(tmp_path, family, many):
    folder = save_model(tmp_path, family)
    module = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    network = Network(module, transformers.AutoTokenizer.from_pretrained(folder), "masked", torch.device("cpu"))
    batch, places = collate(ITEMS[:many], network.pad_id, network.device), torch.tensor(PLACES[:many])
    found = network.decode(network.hidden_at(batch, places), WORDS)
    whole = module(**network.inputs(batch)).logits[torch.arange(many), places][:, WORDS]
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-5)
    mine, theirs = gradients(network, found.square().sum()), gradients(network, whole.square().sum())
    assert mine.keys() == theirs.keys()
    for name, gradient in mine.items():
        torch.testing.assert_close(gradient, theirs[name], atol=1e-3, rtol=1e-4, msg=name)


def test_bert_and_its_kin_take_the_short_way(tmp_path):
    short = {}
    for family in MASKED:
        module = transformers.AutoModelForMaskedLM.from_pretrained(save_model(tmp_path / family, family))
        short[family] = last_layer(module) is not None
    assert [family for family, taken in short.items() if taken] == ["bert", "roberta", "electra"]


def test_the_layer_is_whole_again_afterwards(tmp_path):
    folder = save_model(tmp_path, "bert")
    module = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    network = Network(module, transformers.AutoTokenizer.from_pretrained(folder), "masked", torch.device("cpu"))
    batch = collate(ITEMS, network.pad_id, network.device)
    before = network.hidden(batch)
    network.hidden_at(batch, torch.tensor(PLACES))
    assert torch.equal(network.hidden(batch), before)
