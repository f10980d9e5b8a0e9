"""P-tuning against FewNLU, which was run on tiny random ALBERT models (its only family of that size that could)."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.models.hf.model import HuggingFace
from tests.published import fewnlu_gold
from tests.published.fewnlu_gold import PADDED, family_in, fill, gold
from tests.published_data import published_set


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    pytest.importorskip("sentencepiece", reason="the fewshot extra is not installed")
    global torch, scores, PromptEncoder, PTuning
    import torch

    from lmassay.evaluations.fewshot.methods.engine import scores
    from lmassay.evaluations.fewshot.methods.prompt_encoder import PromptEncoder
    from lmassay.evaluations.fewshot.methods.ptuning import PTuning


TOLERANCE = 2e-6
HEADS = ("raw", "lstm", "mlp")
FOLDERS = {"boolq": "BoolQ", "cb": "CB", "multirc": "MultiRC", "rte": "RTE", "wic": "WiC"}


RUNS = sorted(gold("ptuning").get("model", ()))
TRAINED = sorted(name for name in gold("train_trajectories") if name.startswith("ptuning/"))


def values(name, shape):
    return torch.from_numpy(fewnlu_gold.values(name, shape))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The model of a run, with a row for the prompt's id, which the original looks up."""
    made = {}

    def opened(run):
        family = family_in(run).removesuffix(PADDED) + PADDED
        if family not in made:
            folder = fewnlu_gold.save_model(family, tmp_path_factory.mktemp(family))
            made[family] = HuggingFace(str(folder), device="cpu")
        return made[family]

    return opened


def test_no_run_is_left_out():
    assert len(RUNS) >= 18
    assert len(TRAINED) >= 2


def filled(**options):
    """P-tuning with the prompt encoder's weights of the original's runs."""

    class Filled(PTuning):
        def learner(self, inputs):
            learner = super().learner(inputs)
            fill(learner.encoder)
            return learner

    return Filled(**options)


def task_of(name):
    return open_task(f"superglue/{name}", published_set("fewglue") / FOLDERS[name])


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("head", HEADS)
def test_the_prompt_encoder_gives_the_originals_vectors(head, length):
    expected = gold("ptuning")["prompt_encoder"][f"{head}/len{length}"]
    encoder = PromptEncoder(length, head, values("weight", (50, 8)), seed=3)
    assert [[name, list(p.shape)] for name, p in encoder.named_parameters()] == expected["params"]
    if head != "raw":
        fill(encoder)
    assert np.abs(encoder().detach().numpy().ravel() - expected["out"]).max() < 1e-7


@pytest.mark.parametrize("run", RUNS)
def test_logits_and_loss_are_the_originals(model, run):
    expected = gold("ptuning")["model"][run]
    name, _, pattern, head = run.split("/")
    task = task_of(name)
    method = filled(
        pattern=int(pattern[1:]),
        prompt_encoder_head_type=head,
        max_seq_length=expected["L"],
        reference=True,
    )
    inputs = TrainingInputs(task, model(run), task.examples("train")[:4])
    learner = method.learner(inputs)
    items = learner.encode(inputs.train, training=True)
    assert [item.label for item in items] == expected["labels"]
    computed = scores(learner, items, batch_size=3)
    assert np.abs(computed - expected["logits"]).max() < TOLERANCE
    assert learner.loss(items).item() == pytest.approx(expected["loss"], abs=TOLERANCE)


@pytest.mark.parametrize("run", TRAINED)
def test_nine_updates_are_the_originals(model, run):
    expected = gold("train_trajectories")[run]
    *_, name, pattern, head = run.split("/")
    task = task_of(name)
    examples = task.examples("train")
    method = filled(
        pattern=int(pattern[1:]),
        prompt_encoder_head_type=head,
        learning_rate=1e-3,
        embedding_learning_rate=1e-2,
        max_steps=8,
        batch_size=8,
        micro_batch=4,
        eval_ratios=0.5,
        max_seq_length=128,
        reference=True,
    )
    fitted = method.fit(TrainingInputs(task, model(run), examples[:16], examples[16:24], sampler_seed=42))
    # The original divides by the number of micro-batches once more before it writes a loss down.
    assert fitted.course.losses == pytest.approx([2 * loss for loss in expected["loss"]], abs=1e-5)
    assert fitted.course.learning_rates == pytest.approx(expected["lr"])
    assert [dev["acc"] for _, dev in fitted.course.curve] == expected["dev"]
    final = fitted.logits(examples[16:20])
    assert np.abs(final - expected["final_logits_dev0_3"]).max() < 1e-5
