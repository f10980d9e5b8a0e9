"""Opening a model for training, its head at chosen places, and its last layer where it is read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest

from lmassay.errors import ConfigError, DataError
from lmassay.models.hf.model import HuggingFace
from tests import tiny_models
from tests.evaluations.fewshot.methods.conftest import Opened
from tests.tiny_models import CAUSAL, MASKED, save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global ITEMS, CELLS, MASKED_ITEMS, WORDS
    global torch, transformers, EncodedItem, collate, DebertaNetwork, Network, last_layer, open_network
    import torch
    import transformers

    from lmassay.evaluations.fewshot.methods.learner import EncodedItem, collate
    from lmassay.evaluations.fewshot.methods.network import DebertaNetwork, Network, last_layer, open_network

    ITEMS = [EncodedItem([2, 9, 4, 11, 12, 3], [0, 0, 0, 1, 1, 1]), EncodedItem([2, 4, 30, 3], [0, 0, 1, 1])]
    CELLS = (torch.tensor([0, 1]), torch.tensor([2, 1]))
    MASKED_ITEMS = [
        EncodedItem([2, 9, 4, 10, 3], [0] * 5),
        EncodedItem([2, 11, 12, 13, 14, 15, 4, 3], [0] * 8),
        EncodedItem([2, 4, 3], [0] * 3),
    ]
    WORDS = torch.tensor([20, 7, 30])


@pytest.mark.parametrize("family", MASKED + CAUSAL)
def test_the_head_at_chosen_cells_and_rows_equals_the_whole_head(tiny: Opened, family: str) -> None:
    net = open_network(tiny(family))
    net.module.eval()
    batch = collate(ITEMS, net.pad_id, net.device)
    rows = torch.tensor([7, 3, 41])
    with torch.no_grad():
        whole = net.module(**net.inputs(batch)).logits[CELLS]
        states = net.hidden(batch)[CELLS]
        # Matrix products of other shapes round differently; how much depends on the processor.
        assert torch.allclose(net.decode(states), whole, atol=1e-5)
        assert torch.allclose(net.decode(states, rows), whole[:, rows], atol=1e-5)


def untrained(family: str, **options: Any) -> Network:
    """A random model of a family, with a tokenizer that does not fit."""
    kind: Literal["masked", "causal"] = "masked" if family in ("esm", "big_bird") else "causal"
    auto_class: Any = transformers.AutoModelForMaskedLM if kind == "masked" else transformers.AutoModelForCausalLM
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    try:
        config = transformers.AutoConfig.for_model(family, vocab_size=64, pad_token_id=0, **sizes, **options)
    except ValueError:
        pytest.skip(f"this version of transformers has no {family}")
    torch.manual_seed(0)
    module = auto_class.from_config(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            # Logits that are large enough to be capped, and biases that are not 0.
            parameter.normal_(0.0, 0.3)
    return Network(module, tiny_models.word_piece(), kind, torch.device("cpu"))


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("cohere", {"logit_scale": 0.25}),
        (
            "falcon_h1",
            {
                "lm_head_multiplier": 0.25,
                "mamba_n_heads": 4,
                "mamba_d_ssm": 32,
                "mamba_d_head": 8,
                "num_key_value_heads": 4,
            },
        ),
        ("granite", {"logits_scaling": 4.0}),
        ("hyperclovax", {"logits_scaling": 4.0}),
        ("gemma2", {"final_logit_softcapping": 0.5}),
        ("recurrent_gemma", {"logits_soft_cap": 0.5}),
        ("modernbert-decoder", {}),
    ],
)
def test_logits_are_scaled_and_capped_like_those_of_the_model(family: str, options: dict[str, Any]) -> None:
    net = untrained(family, **options)
    batch = collate(ITEMS, net.pad_id, net.device)
    with torch.no_grad():
        whole = net.module(**net.inputs(batch)).logits[CELLS]
        torch.testing.assert_close(net.decode(net.hidden(batch)[CELLS]), whole)


def test_a_family_whose_logits_are_computed_in_an_unknown_way_is_refused() -> None:
    # ESM adds a bias that is not part of its output layer.
    with pytest.raises(DataError, match="does not know how esm models compute their logits"):
        untrained("esm").check_head()


def test_a_model_whose_weights_the_check_changes_can_be_trained() -> None:
    # In evaluation mode, RWKV divides the weights of its later layers, in place.
    net = untrained("rwkv", attention_hidden_size=32, context_length=64, rescale_every=1)
    net.check_head()
    net.module.train()
    net.decode(net.hidden(collate(ITEMS, net.pad_id, net.device))).logsumexp(-1).sum().backward()


def test_the_check_leaves_the_attention_of_bigbird_as_it_was() -> None:
    net = untrained("big_bird", block_size=2, num_random_blocks=1)
    assert net.backbone.attention_type == "block_sparse"
    net.check_head()
    assert net.backbone.attention_type == "block_sparse"


def test_trying_out_the_head_leaves_the_training_as_it_was(tiny: Opened) -> None:
    net = open_network(tiny("bert"))
    net.module.train()
    net.backbone.embeddings.eval()
    modes = [part.training for part in net.module.modules()]
    torch.manual_seed(0)
    net.check_head()
    drawn = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(3))
    assert [part.training for part in net.module.modules()] == modes


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "deberta-v2", "gpt2", "llama"])
def test_padding_changes_nothing(tiny: Opened, family: str) -> None:
    net = open_network(tiny(family))
    net.module.eval()
    with torch.no_grad():
        together = net.hidden(collate(ITEMS, net.pad_id, net.device))[1, :4]
        alone = net.hidden(collate(ITEMS[1:], net.pad_id, net.device))[0]
    assert torch.allclose(together, alone, atol=1e-5)


def test_only_bert_like_families_are_given_token_types(tiny: Opened) -> None:
    given = {
        family: "token_type_ids" in net.inputs(collate(ITEMS, 0, net.device))
        for family in ("bert", "electra", "albert", "roberta", "gpt2")
        for net in [open_network(tiny(family))]
    }
    assert given == {"bert": True, "electra": True, "albert": False, "roberta": False, "gpt2": False}


def test_a_classifier_has_a_new_head_that_follows_the_seed(tiny: Opened) -> None:
    heads = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        net = open_network(tiny("bert"), "classifier", 3)
        heads.append(net.module.classifier.weight.detach())
    assert heads[0].shape == (3, 32)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_the_head_of_albert_has_the_eps_of_its_weights_unless_fewnlu_is_repeated(tiny: Opened) -> None:
    assert open_network(tiny("albert")).module.predictions.LayerNorm.eps == 1e-12
    assert open_network(tiny("albert"), reference=True).module.predictions.LayerNorm.eps == 1e-5


def test_a_network_made_in_memory_can_be_as_in_fewnlus_time(tiny: Opened) -> None:
    opened = open_network(tiny("albert"))
    for reference, eps in ((False, 1e-12), (True, 1e-5)):
        net = Network(opened.module, opened.tokenizer, "masked", opened.device, reference=reference)
        assert net.module.predictions.LayerNorm.eps == eps


def test_a_saved_classifier_is_taught_on_if_it_is_said_what_it_reads_like(tmp_path: Path, tiny: Opened) -> None:
    saved = open_network(tiny("bert"), "classifier", 2)
    saved.module.save_pretrained(tmp_path)
    saved.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(DataError, match=r"not a language model.*kind: masked"):
        open_network(HuggingFace(str(tmp_path)), "classifier", 2)
    opened = open_network(HuggingFace(str(tmp_path), kind="masked"), "classifier", 2)
    assert opened.new_parameters == ()
    assert torch.equal(opened.module.classifier.weight, saved.module.classifier.weight)
    with pytest.raises(DataError, match=r"lack .* parts of a masked language model"):
        open_network(HuggingFace(str(tmp_path), kind="masked"))


def test_deberta_with_the_head_of_its_pretraining_reads_by_the_enhanced_decoder(tmp_path: Path, tiny: Opened) -> None:
    from transformers import DebertaV2Config, DebertaV2ForMaskedLM

    source = tiny("deberta-v2").folder
    config = DebertaV2Config.from_pretrained(source)
    config.legacy = False
    DebertaV2ForMaskedLM(config).save_pretrained(tmp_path)
    for file in source.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    # Published configurations do not speak of it.
    said = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    del said["legacy"]
    (tmp_path / "config.json").write_text(json.dumps(said), encoding="utf-8")
    assert isinstance(open_network(HuggingFace(str(tmp_path))), DebertaNetwork)
    assert not isinstance(open_network(tiny("deberta-v2")), DebertaNetwork)


def test_a_model_behind_an_api_cannot_be_trained() -> None:
    class Far:
        name, can = "openai", frozenset({"generate"})

    with pytest.raises(ConfigError, match="openai cannot be trained"):
        open_network(Far())


def test_a_checkpoint_without_its_language_model_head_is_refused(tmp_path: Path, tiny: Opened) -> None:
    from transformers import BertModel

    source = tiny("bert").folder
    BertModel.from_pretrained(source).save_pretrained(tmp_path)
    for file in source.glob("tokenizer*"):
        shutil.copy(file, tmp_path)
    with pytest.raises(DataError, match="language-model head"):
        open_network(HuggingFace(str(tmp_path)))


def test_items_longer_than_the_window_are_refused_with_the_length_to_write(tiny: Opened) -> None:
    net: Any = open_network(tiny("bert"))
    with pytest.raises(ConfigError, match="max_seq_length: 64 or less"):
        net.check_lengths([EncodedItem([1] * 65, [0] * 65)])


def test_a_model_says_that_it_can_be_trained_and_with_how_many_threads(tiny: Opened) -> None:
    model = tiny("bert", threads=2)
    assert "train" in model.can
    assert open_network(model).threads == 2
    assert open_network(tiny("bert")).threads == 1


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
    batch, places = collate(MASKED_ITEMS[:many], network.pad_id, network.device), torch.tensor(PLACES[:many])
    decoded = network.decode(network.hidden_at(batch, places), WORDS)
    whole = module(**network.inputs(batch)).logits[torch.arange(many), places][:, WORDS]
    torch.testing.assert_close(decoded, whole, atol=1e-5, rtol=1e-5)
    mine, theirs = gradients(network, decoded.square().sum()), gradients(network, whole.square().sum())
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
    batch = collate(MASKED_ITEMS, network.pad_id, network.device)
    before = network.hidden(batch)
    network.hidden_at(batch, torch.tensor(PLACES))
    assert torch.equal(network.hidden(batch), before)
