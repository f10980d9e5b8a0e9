"""Methods with a training loop: micro-batches of any size teach the same, and noise is there in training only."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.models.hf.model import HuggingFace
from tests import tiny_models
from tests.evaluations.fewshot.methods.conftest import _with_words
from tests.evaluations.fewshot.methods.test_multimask import small_task
from tests.tiny_models import save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global METHODS
    global \
        torch, \
        AutoModelForMaskedLM, \
        Adapet, \
        SequenceClassifier, \
        Pet, \
        PTuning, \
        Training, \
        EmbeddingNoise, \
        spatial_dropout
    import torch
    from transformers import AutoModelForMaskedLM

    from lmassay.evaluations.fewshot.methods.adapet import Adapet
    from lmassay.evaluations.fewshot.methods.classifier import SequenceClassifier
    from lmassay.evaluations.fewshot.methods.pet import Pet
    from lmassay.evaluations.fewshot.methods.ptuning import PTuning
    from lmassay.evaluations.fewshot.methods.training import EmbeddingNoise, Training, spatial_dropout

    METHODS = {method.__name__: method for method in (Adapet, Pet, PTuning, SequenceClassifier)}


__all__ = ["small_task"]  # A fixture.


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


def test_noise_is_there_in_training_only_and_ends_when_it_is_removed(network):
    ids = torch.tensor([[2, 7, 9, 3]])
    words = network.get_input_embeddings()
    plain = words(ids)
    noise = EmbeddingNoise(network, rate=0.5, seed=1)
    network.train()
    assert not torch.equal(words(ids), plain)
    network.eval()
    assert torch.equal(words(ids), plain)
    noise.remove()
    network.train()
    assert torch.equal(words(ids), plain)


def test_evaluations_in_between_do_not_change_the_noise(network):
    ids = torch.tensor([[2, 7, 9, 3]])

    def course(evaluations):
        noise = EmbeddingNoise(network, rate=0.5, seed=3)
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
        EmbeddingNoise(network, rate=rate, seed=1)


# With a large epsilon gradients that are nought but for rounding (the biases of keys) do not move anything.
LOOP: dict[str, Any] = {
    "max_steps": 3,
    "batch_size": 16,
    "learning_rate": 1e-3,
    "adam_epsilon": 1e-3,
    "max_seq_length": 150,
}
CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("rte", "Pet", {}),
    ("rte soft", "Pet", {}),
    ("rte", "SequenceClassifier", {}),
    ("rte", "Pet", {"lm_training": True}),
    ("rte", "Pet", {"lm_training": True, "alpha": 0.75, "unlabeled_batch_size": 3}),
    ("rte", "Adapet", {"adapet_mask_alpha": 0.5}),
    ("copa", "Pet", {}),
    ("copa", "Adapet", {"adapet_balance_alpha": 0.25, "adapet_mask_alpha": 0.5}),
    ("wsc", "Pet", {}),
    ("wsc", "PTuning", {"pattern": 1}),
    ("wsc", "Adapet", {"adapet_mask_alpha": 0.5}),
    ("record", "Pet", {}),
    ("record", "Adapet", {"adapet_mask_alpha": 0.5}),
]


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> HuggingFace:
    """A model without dropout, whose draws would depend on the micro-batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny_models, "tokenizer_of", _with_words(tiny_models.tokenizer_of))
        folder = tiny_models.save_model(tmp_path_factory.mktemp("steady"), "bert", window=160)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return HuggingFace(str(folder), device="cpu")


def softened(examples: Sequence[InputExample]) -> list[InputExample]:
    """A teacher's scores for two of three examples."""
    return [
        replace(example, label=None, logits=[0.3 * place, 1.0]) if place % 3 else example
        for place, example in enumerate(examples)
    ]


@pytest.mark.parametrize(("name", "method", "options"), CASES)
def test_micro_batches_of_any_size_teach_the_same(
    steady: HuggingFace, rte: NluTask, small_task: Any, name: str, method: str, options: dict[str, Any]
) -> None:
    task = rte if name.startswith("rte") else small_task(name)
    # More than one update and a half, so that an epoch ends with a small one.
    train = (list(task.examples("train")) * 12)[:36] if name == "wsc" else (list(task.examples("train")) * 12)[:22]
    train = softened(train) if name.endswith("soft") else train
    unlabeled = rte.examples("unlabeled") if options.get("lm_training") else ()
    trainings = []
    for size in (16, 4, 1):
        made = METHODS[method](**LOOP, micro_batch=size, **options)
        fitted = made.fit(TrainingInputs(task, steady, train, unlabeled=unlabeled, seed=1, sampler_seed=3))
        weights = torch.cat([parameter.detach().flatten() for parameter in fitted.learner.module.parameters()])
        trainings.append((fitted.course.losses, weights.numpy()))
    for losses, weights in trainings[1:]:
        assert losses == pytest.approx(trainings[0][0], abs=1e-5)
        assert np.abs(weights - trainings[0][1]).max() <= 1e-5


def test_unlabeled_examples_are_as_many_as_labelled_ones_unless_their_number_is_given(
    steady: HuggingFace, rte: NluTask
) -> None:
    inputs = TrainingInputs(rte, steady, rte.examples("train"), unlabeled=rte.examples("unlabeled"))
    for options, many in (
        ({"batch_size": 6, "micro_batch": 2}, 6),
        ({"batch_size": 6, "micro_batch": 2, "unlabeled_batch_size": 5}, 5),
        ({"batch_size": 6, "micro_batch": 2, "reference": True}, 2),
        ({"batch_size": 6, "micro_batch": 8, "reference": True}, 6),
    ):
        learner: Any = Pet(lm_training=True, **options).learner(inputs)  # type: ignore[arg-type]
        assert len(next(learner._batches).batch.ids) == many
