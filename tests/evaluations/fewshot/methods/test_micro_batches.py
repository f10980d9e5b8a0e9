"""How many examples go through the network at once is a matter of memory: every method learns the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.models.hf.model import HuggingFace
from tests import tiny_models
from tests.evaluations.fewshot.methods.conftest import _with_words
from tests.evaluations.fewshot.methods.test_multimask import small_task


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Pet, METHODS
    import torch

    from lmassay.evaluations.fewshot.methods.adapet import Adapet
    from lmassay.evaluations.fewshot.methods.classifier import SequenceClassifier
    from lmassay.evaluations.fewshot.methods.pet import Pet
    from lmassay.evaluations.fewshot.methods.ptuning import PTuning

    METHODS = {method.__name__: method for method in (Adapet, Pet, PTuning, SequenceClassifier)}


__all__ = ["small_task"]  # A fixture.
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
    found = []
    for size in (16, 4, 1):
        made = METHODS[method](**LOOP, micro_batch=size, **options)
        fitted = made.fit(Lesson(task, steady, train, unlabeled=unlabeled, seed=1, sampler_seed=3))
        weights = torch.cat([parameter.detach().flatten() for parameter in fitted.learner.network.parameters()])
        found.append((fitted.course.losses, weights.numpy()))
    for losses, weights in found[1:]:
        assert losses == pytest.approx(found[0][0], abs=1e-5)
        assert np.abs(weights - found[0][1]).max() <= 1e-5


def test_unlabeled_examples_are_as_many_as_labelled_ones_unless_their_number_is_given(
    steady: HuggingFace, rte: NluTask
) -> None:
    lesson = Lesson(rte, steady, rte.examples("train"), unlabeled=rte.examples("unlabeled"))
    for options, many in (
        ({"batch_size": 6, "micro_batch": 2}, 6),
        ({"batch_size": 6, "micro_batch": 2, "unlabeled_batch_size": 5}, 5),
        ({"batch_size": 6, "micro_batch": 2, "reference": True}, 2),
        ({"batch_size": 6, "micro_batch": 8, "reference": True}, 6),
    ):
        learner: Any = Pet(lm_training=True, **options).learner(lesson)  # type: ignore[arg-type]
        assert len(next(learner._riddles).batch.ids) == many
