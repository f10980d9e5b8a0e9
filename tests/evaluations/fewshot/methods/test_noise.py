"""Spatial dropout on word embeddings."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from tests.tiny_models import save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, AutoModelForMaskedLM, WordNoise, noisy, spatial_dropout
    import torch
    from transformers import AutoModelForMaskedLM

    from lmassay.evaluations.fewshot.methods.noise import WordNoise, noisy, spatial_dropout


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return AutoModelForMaskedLM.from_pretrained(save_model(tmp_path_factory.mktemp("bert"), "bert"))


def test_a_dimension_is_left_out_at_all_words_of_a_line_or_at_none():
    dropped = spatial_dropout(torch.ones(8, 5, 64), 0.25, torch.Generator().manual_seed(0))
    assert torch.equal(dropped, dropped[:, :1].expand(-1, 5, -1))
    assert sorted(set(dropped.flatten().tolist())) == pytest.approx([0, 1 / 0.75])
    assert not torch.equal(dropped[0], dropped[1])
    assert (dropped[:, 0] == 0).float().mean().item() == pytest.approx(0.25, abs=0.05)


def test_the_mean_stays_as_torchs_own_dropout_over_channels_has_it():
    ours = spatial_dropout(torch.ones(200, 2, 50), 0.05, torch.Generator().manual_seed(1))
    torch.manual_seed(1)
    theirs = torch.nn.functional.dropout1d(torch.ones(200, 50, 2), 0.05)
    assert ours.mean().item() == pytest.approx(1, abs=0.02)
    assert ours.max().item() == pytest.approx(theirs.max().item())


def test_the_generator_alone_decides():
    def draw():
        return spatial_dropout(torch.ones(2, 3, 16), 0.5, torch.Generator().manual_seed(4))

    torch.manual_seed(1)
    first = draw()
    torch.manual_seed(2)
    assert torch.equal(first, draw())


def test_noise_is_there_in_training_only_and_ends_with_its_block(network):
    ids = torch.tensor([[2, 7, 9, 3]])
    words = network.get_input_embeddings()
    plain = words(ids)
    with noisy(network, rate=0.5, seed=1):
        network.train()
        assert not torch.equal(words(ids), plain)
        network.eval()
        assert torch.equal(words(ids), plain)
    network.train()
    assert torch.equal(words(ids), plain)


def test_evaluations_in_between_do_not_change_the_noise(network):
    ids = torch.tensor([[2, 7, 9, 3]])

    def course(evaluations):
        noise = WordNoise(network, rate=0.5, seed=3)
        network.eval()
        for _ in range(evaluations):
            network.get_input_embeddings()(ids)
        network.train()
        drawn = network.get_input_embeddings()(ids)
        noise.remove()
        return drawn

    assert torch.equal(course(0), course(5))


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_a_rate_that_is_no_share_is_refused(network, rate):
    with pytest.raises(ConfigError, match="dropout_rate"):
        WordNoise(network, rate=rate)
