"""PET as a method: what it learns, what it gives back, what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmassay.errors import ConfigError, LmassayError, ModelError
from lmassay.evaluations.fewshot.methods.contract import TrainedClassifier, TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.models.hf.model import HuggingFace
from lmassay.plugins.options import checked_options, options_model
from tests.evaluations.fewshot.methods.conftest import Opened


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global torch, Adapet, Cloze, Reading, open_network, Pet
    import torch

    from lmassay.evaluations.fewshot.methods.adapet import Adapet
    from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
    from lmassay.evaluations.fewshot.methods.network import open_network
    from lmassay.evaluations.fewshot.methods.pet import Pet


QUICK: dict[str, Any] = {
    "max_steps": 6,
    "batch_size": 8,
    "learning_rate": 1e-2,
    "eval_ratios": 0.5,
    "max_seq_length": 64,
}


def inputs(task: NluTask, model: Any, **more: Any) -> TrainingInputs:
    return TrainingInputs(task, model, task.examples("train"), task.examples("dev32"), **more)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "deberta-v2", "electra", "gpt2", "llama"])
def test_it_learns_with_every_family(tiny: Opened, rte: NluTask, family: str) -> None:
    given = TrainingInputs(rte, tiny(family), rte.examples("train"))
    # Every batch holds the whole training set, so that losses do not vary with the examples drawn. Over twelve seeds
    # the last losses are at most 0.2 times the first ones for the family that learns slowest.
    fitted = Pet(**{**QUICK, "max_steps": 40, "batch_size": 16}).fit(given)
    losses = fitted.course.losses
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    assert isinstance(fitted, TrainedClassifier)
    assert fitted.logits(rte.examples("dev")).shape == (16, 2)


def test_the_same_lesson_gives_the_same_numbers(tiny: Opened, rte: NluTask) -> None:
    first = Pet(**QUICK).fit(inputs(rte, tiny("bert")))
    Pet(**QUICK, pattern=1).fit(inputs(rte, tiny("bert")))
    torch.rand(10)
    again = Pet(**QUICK).fit(inputs(rte, tiny("bert")))
    assert again.course == first.course
    assert np.array_equal(again.logits(rte.examples("dev")), first.logits(rte.examples("dev")))


def test_the_seed_of_dropout_and_that_of_the_order_are_apart(tiny: Opened, rte: NluTask) -> None:
    courses = [
        Pet(**QUICK).fit(inputs(rte, tiny("bert"), **seeds)).course.losses
        for seeds in ({}, {"seed": 1}, {"sampler_seed": 1})
    ]
    assert courses[0] != courses[1]
    assert courses[0] != courses[2]


def test_one_training_serves_several_intervals(tiny: Opened, rte: NluTask) -> None:
    both = Pet(**{**QUICK, "eval_ratios": (0.2, 0.5)}).fit(inputs(rte, tiny("bert")))
    for choice, ratio in zip(both.choices, (0.2, 0.5), strict=True):
        alone = Pet(**{**QUICK, "eval_ratios": ratio}).fit(inputs(rte, tiny("bert")))
        assert alone.choices == [choice]
        both.use(choice)
        assert np.array_equal(both.logits(rte.examples("dev")), alone.logits(rte.examples("dev")))


def test_weights_that_were_not_kept_cannot_be_used(tiny: Opened, rte: NluTask) -> None:
    fitted = Pet(**QUICK).fit(inputs(rte, tiny("bert")))
    with pytest.raises(ConfigError, match="not kept"):
        fitted.use(replace(fitted.choices[0], step=99))


def test_what_was_saved_is_read_back(tmp_path: Path, tiny: Opened, rte: NluTask) -> None:
    fitted = Pet(**QUICK).fit(inputs(rte, tiny("bert")))
    fitted.save(tmp_path / "saved")
    net = open_network(HuggingFace(str(tmp_path / "saved")))
    learner = Cloze(net, rte, Reading())
    net.module.eval()
    examples = rte.examples("dev")
    with torch.no_grad():
        logits = learner.logits(learner.encode(examples, training=False)).numpy()
    assert np.allclose(logits, fitted.logits(examples), atol=1e-5)
    card = json.loads((tmp_path / "saved" / "lmassay.json").read_text(encoding="utf-8"))
    assert (card["threads"], card["choice"]["step"]) == (1, fitted.choices[0].step)


def test_saving_writes_nothing_to_the_console(
    tmp_path: Path, tiny: Opened, rte: NluTask, capfd: pytest.CaptureFixture[str]
) -> None:
    Pet(**{**QUICK, "max_steps": 2}).fit(inputs(rte, tiny("bert"))).save(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_soft_labels_are_learned_by_distillation(tiny: Opened, rte: NluTask) -> None:
    soft = [replace(example, label=None, logits=[2.0, -1.0]) for example in rte.examples("train")]
    fitted = Pet(**{**QUICK, "max_steps": 20}).fit(TrainingInputs(rte, tiny("bert"), soft))
    assert fitted.course.losses[-1] < fitted.course.losses[0]
    assert (fitted.logits(rte.examples("dev")).argmax(axis=1) == 0).all()


def test_spatial_dropout_is_felt_in_training_only(tiny: Opened, rte: NluTask) -> None:
    plain = Pet(**QUICK).fit(inputs(rte, tiny("bert")))
    noisy = Pet(**QUICK, spatial_dropout=0.3).fit(inputs(rte, tiny("bert")))
    assert noisy.course.losses != plain.course.losses
    examples = rte.examples("dev")
    assert np.array_equal(noisy.logits(examples), noisy.logits(examples))


def test_options_of_the_loop_and_of_the_method_are_checked_together() -> None:
    assert {"learning_rate", "pattern", "alpha", "eval_ratios"} <= set(options_model(Pet).model_fields)
    given = checked_options(Pet, {"eval_ratios": [0.02, 0.04], "alpha": 0.5}, Path(), "method")
    assert Pet(**given).hyperparameters().eval_ratios == (0.02, 0.04)
    with pytest.raises(ConfigError, match=r"learning_rate.*greater than 0"):
        checked_options(Pet, {"learning_rate": -1}, Path(), "method")
    with pytest.raises(ConfigError, match="did you mean 'batch_size'"):
        checked_options(Pet, {"batchsize": 4}, Path(), "method")


def test_a_pattern_that_is_not_there_is_named(tiny: Opened, rte: NluTask) -> None:
    with pytest.raises(ConfigError, match="no pattern 7"):
        Pet(**QUICK, pattern=7).fit(inputs(rte, tiny("bert")))


def test_an_empty_split_is_reported(tiny: Opened, rte: NluTask) -> None:
    with pytest.raises(ModelError, match="training part of the split is empty"):
        Pet(**QUICK).fit(TrainingInputs(rte, tiny("bert"), []))


def test_a_training_example_without_label_is_named(tiny: Opened, rte: NluTask) -> None:
    bare = [replace(example, label=None) for example in rte.examples("train")]
    with pytest.raises(ModelError, match=rf"{bare[0].guid} has no label"):
        Pet(**QUICK).fit(TrainingInputs(rte, tiny("bert"), bare))


def test_an_interval_of_no_update_is_refused(tiny: Opened, rte: NluTask) -> None:
    with pytest.raises(ConfigError, match=r"the smallest possible is 0\.1667"):
        Pet(**{**QUICK, "eval_ratios": 0.03}).fit(inputs(rte, tiny("bert")))


def test_a_method_that_trains_needs_a_model(rte: NluTask) -> None:
    with pytest.raises(ConfigError, match="give one"):
        Pet(**QUICK).fit(inputs(rte, None))


def test_a_learning_rate_that_is_far_too_high_is_stopped(tiny: Opened, rte: NluTask) -> None:
    with pytest.raises(ModelError, match="lower learning_rate"):
        Pet(**{**QUICK, "learning_rate": 1e30}).fit(inputs(rte, tiny("bert")))


def test_a_fixed_deberta_keeps_its_first_layers(tiny: Opened, rte: NluTask) -> None:
    fitted = Pet(**{**QUICK, "max_steps": 2}, fix_deberta=True).fit(inputs(rte, tiny("deberta-v2")))
    trained = {name for name, parameter in fitted.net.module.named_parameters() if parameter.requires_grad}
    assert "deberta.embeddings.word_embeddings.weight" not in trained
    assert any("encoder.layer.1" in name for name in trained)


def test_other_families_cannot_be_fixed_like_deberta(tiny: Opened, rte: NluTask) -> None:
    with pytest.raises(ConfigError, match="the model is a bert, not a DeBERTa"):
        Pet(**QUICK, fix_deberta=True).fit(inputs(rte, tiny("bert")))


def test_what_cannot_be_read_at_test_is_reported_before_the_training(tiny: Opened, rte: NluTask) -> None:
    long = replace(rte.examples("dev")[0], text_a="the author laughs " * 400)
    shares: list[float] = []
    with pytest.raises(LmassayError, match="the model reads at most 64"):
        Pet(**{**QUICK, "max_seq_length": 1000}).fit(
            inputs(rte, tiny("bert"), test=[long], report_progress=shares.append)
        )
    assert not shares


def test_a_pattern_that_is_not_there_is_reported_without_a_model(rte: NluTask) -> None:
    with pytest.raises(ConfigError, match="rte has no pattern 7; it has 0, 1"):
        Pet().check_pattern(rte, 7)


def test_a_method_for_masked_models_says_so_before_anything_is_loaded(tiny: Opened) -> None:
    Adapet().check_model(tiny("bert"))
    with pytest.raises(ConfigError, match="use a masked model"):
        Adapet().check_model(tiny("gpt2"))
