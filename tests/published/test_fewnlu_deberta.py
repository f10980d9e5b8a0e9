"""The enhanced mask decoder against FewNLU's own modified DeBERTa, which was run on a tiny random model."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tests.published import fewnlu_gold


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, DebertaV2Config, DebertaV2ForMaskedLM, deberta
    import torch
    from transformers import DebertaV2Config, DebertaV2ForMaskedLM

    from lmassay.evaluations.fewshot.methods import deberta


TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def gold():
    return fewnlu_gold.gold("deberta_emd")


@pytest.fixture(scope="module")
def network(gold):
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    made = DebertaV2ForMaskedLM(DebertaV2Config(**gold["config"], **off, relative_attention=True, legacy=False)).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            values = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF).standard_normal(parameter.shape)
            values = values * 0.08 + (1.0 if "LayerNorm.weight" in name else 0.0)
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))
    return made


def logits_at_masks(network, gold):
    inputs = {name: torch.tensor(gold[name]) for name in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        states = deberta.lm_hidden(network, inputs)
        return deberta.lm_logits(network, states[range(len(states)), gold["mask_pos"]])


def test_the_names_of_the_weights_are_the_originals(network, gold):
    assert {name: list(p.shape) for name, p in network.named_parameters()} == dict(gold["params"])


def test_logits_at_the_masks_are_the_originals(network, gold):
    logits = logits_at_masks(network, gold)[:, gold["token_ids"]]
    assert np.abs(logits.numpy() - gold["logits"]).max() < TOLERANCE


def test_the_loss_leaves_out_targets_of_0_as_the_originals(network, gold):
    # The run had token 100 as the first line's target and padding as the second's.
    loss = deberta.summed_loss(logits_at_masks(network, gold), torch.tensor([100, 0]))
    assert loss.item() == pytest.approx(gold["loss_with_label0_ignored"], abs=TOLERANCE * 10)


def test_the_frozen_weights_are_the_originals(network, gold):
    assert set(deberta.freeze(network)) == set(gold["fix_layers_frozen"])
