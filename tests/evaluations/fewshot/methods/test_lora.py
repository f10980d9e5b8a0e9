"""LoRA through peft: which matrices are adapted, what learns, what is saved."""

from __future__ import annotations

import sys

import pytest

from lmassay.errors import ConfigError, MissingExtra
from tests.evaluations.fewshot.methods.prompt_tasks import QUICK, inputs_of, model_of
from tests.tiny_models import CAUSAL, MASKED


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    pytest.importorskip("peft", reason="the fewshot extra is not installed")
    global torch, safe_open, Lora, Pet
    import torch
    from safetensors import safe_open

    from lmassay.evaluations.fewshot.methods.lora import Lora
    from lmassay.evaluations.fewshot.methods.pet import Pet


@pytest.mark.parametrize("family", [*MASKED, *CAUSAL])
def test_only_the_adapters_of_any_family_learn(tmp_path, family):
    inputs = inputs_of(tmp_path, model_of(family))
    fitted = Lora(r=2, **QUICK).fit(inputs)
    trained = [name for name, parameter in fitted.net.module.named_parameters() if parameter.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    assert any(
        parameter.abs().sum() > 0 for name, parameter in fitted.net.module.named_parameters() if "lora_B" in name
    )
    assert fitted.logits(inputs.dev).shape == (4, 2)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_before_training_it_is_pet_itself(tmp_path, family):
    inputs = inputs_of(tmp_path, model_of(family))
    adapted, plain = Lora(**QUICK).learner(inputs), Pet(**QUICK).learner(inputs)
    for learner in (adapted, plain):
        learner.module.eval()
    with torch.inference_mode():
        items = plain.encode(inputs.train, training=False)
        torch.testing.assert_close(adapted.logits(items), plain.logits(items))


def test_the_same_lesson_gives_the_same_numbers(tmp_path):
    def losses():
        torch.manual_seed(torch.seed())
        return Lora(dropout=0.1, **QUICK).fit(inputs_of(tmp_path, model_of("bert"))).course.losses

    assert losses() == losses()


def test_it_lowers_the_loss(tmp_path):
    options = {**QUICK, "max_steps": 20, "batch_size": 8, "micro_batch": 8}
    fitted = Lora(learning_rate=2e-2, **options).fit(inputs_of(tmp_path, model_of("roberta")))
    assert fitted.course.losses[-1] < 0.7 * fitted.course.losses[0]


def test_named_layers_are_adapted_instead(tmp_path):
    learner = Lora(target_modules=("dense",), **QUICK).learner(inputs_of(tmp_path, model_of("bert")))
    adapted = {name.split(".lora_")[0].rsplit(".", 1)[-1] for name, _, _ in learner.optimised()}
    assert adapted == {"dense"}


def test_a_layer_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    with pytest.raises(ConfigError, match=r"no layer called q_proj; it has .*query"):
        Lora(target_modules=("q_proj",), **QUICK).learner(inputs_of(tmp_path, model_of("bert")))


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2"])
def test_a_new_classifier_learns_beside_the_adapters(tmp_path, family):
    inputs = inputs_of(tmp_path, model_of(family))
    fitted = Lora(head="classifier", **QUICK).fit(inputs)
    trained = {name for name, parameter in fitted.net.module.named_parameters() if parameter.requires_grad}
    assert {"lora_" in name for name in trained} == {True, False}
    assert fitted.logits(inputs.dev).shape == (4, 2)


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_layers_that_the_checkpoint_lacks_are_trained_and_saved(tmp_path, family):
    method = Lora(head="classifier", **{**QUICK, "max_steps": 4})
    inputs = inputs_of(tmp_path, model_of(family))
    fitted = method.fit(inputs)
    assert any("pooler" in name for name in fitted.net.new_parameters)
    parts = dict(fitted.net.module.named_modules())
    (pooler,) = (part for name, part in parts.items() if "pooler" in name and hasattr(part, "modules_to_save"))
    drawn, trained = pooler.original_module.weight, pooler.modules_to_save["default"].weight
    assert not torch.equal(drawn, trained)
    fitted.save(tmp_path / "saved")
    with safe_open(tmp_path / "saved" / "model.safetensors", framework="pt") as weights:
        (name,) = (name for name in weights.keys() if "pooler" in name and name.endswith("weight"))  # noqa: SIM118
        assert torch.equal(weights.get_tensor(name), trained)


@pytest.mark.parametrize("head", ["cloze", "classifier"])
def test_a_saved_model_is_an_ordinary_one_without_adapters(tmp_path, head):
    fitted = Lora(head=head, **QUICK).fit(inputs_of(tmp_path, model_of("bert")))
    fitted.save(tmp_path / "saved")
    with safe_open(tmp_path / "saved" / "model.safetensors", framework="pt") as weights:
        names = list(weights.keys())
    assert not any("lora_" in name or "base_layer" in name or "modules_to_save" in name for name in names)
    assert any("classifier" in name for name in names) is (head == "classifier")
    assert not (tmp_path / "saved" / "adapter_config.json").exists()


def test_without_peft_the_command_that_brings_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match=r"LoRA needs an optional dependency: pip install 'lmassay\[fewshot\]'"):
        Lora(**QUICK).learner(inputs_of(tmp_path, model_of("bert")))
