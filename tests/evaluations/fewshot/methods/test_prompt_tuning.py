"""Prompt tuning: a frozen network and a few vectors."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from tests.evaluations.fewshot.methods.prompt_tasks import QUICK, inputs_of, model_of


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, SLOT, drawn_words, PromptTuning
    import torch

    from lmassay.evaluations.fewshot.methods.prompt_encoder import SLOT, drawn_words
    from lmassay.evaluations.fewshot.methods.prompt_tuning import PromptTuning


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "deberta-v2", "gpt2", "llama"])
def test_only_the_prompt_changes(tmp_path, family):
    inputs = inputs_of(tmp_path, model_of(family))
    method = PromptTuning(n_tokens=3, **QUICK)
    before = {name: p.detach().clone() for name, p in method.learner(inputs).module.named_parameters()}
    fitted = method.fit(inputs)
    after = dict(fitted.net.module.named_parameters())
    assert [name for name in before if not torch.equal(before[name], after[name])] == [
        "prompt_encoder.prompt_embeddings.weight"
    ]
    assert fitted.logits(inputs.dev).shape == (4, 2)


def test_it_lowers_the_loss(tmp_path):
    options = {**QUICK, "max_steps": 40, "batch_size": 8, "micro_batch": 8}
    fitted = PromptTuning(n_tokens=10, learning_rate=0.1, **options).fit(inputs_of(tmp_path, model_of("roberta")))
    assert sum(fitted.course.losses[-5:]) < 0.6 * sum(fitted.course.losses[:5])


def test_little_is_kept_of_each_look(tmp_path):
    learner = PromptTuning(n_tokens=3, **QUICK).learner(inputs_of(tmp_path, model_of("bert")))
    trained = [parameter for _, parameter, _ in learner.optimised() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == 3 * 32


def test_prompts_start_as_the_words_of_the_labels_and_then_of_the_vocabulary(tmp_path):
    inputs = inputs_of(tmp_path, model_of("bert"))
    learner = PromptTuning(n_tokens=5, start="labels", **QUICK).learner(inputs)
    words = learner.net.input_embeddings.weight
    spoken = learner.inner.verbalizer.rows.tolist()
    expected = [*spoken, *drawn_words(len(words), 5, inputs.seed)][:5]
    assert torch.equal(learner.encoder(), words[expected])


def test_a_prompt_may_stand_in_the_slots_of_a_pattern(tmp_path):
    inputs = inputs_of(tmp_path, model_of("bert"))
    learner = PromptTuning(place="slots", pattern=2, **QUICK).learner(inputs)
    (item, *_) = learner.encode(inputs.train, training=True)
    assert item.ids.count(SLOT) == 2
    assert item.ids[1] != SLOT


def test_texts_are_cut_to_leave_room_for_the_prompt(tmp_path):
    inputs = inputs_of(tmp_path, model_of("roberta"))
    learner = PromptTuning(n_tokens=6, **{**QUICK, "max_seq_length": 18}).learner(inputs)
    assert max(len(item) for item in learner.encode(inputs.train, training=True)) == 18


def test_a_prompt_that_fills_the_window_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="48 prompt tokens leave 0 of 48"):
        PromptTuning(n_tokens=48, **QUICK).learner(inputs_of(tmp_path, model_of("bert")))


def test_a_causal_model_has_no_slots_in_its_pattern(tmp_path):
    with pytest.raises(ConfigError, match="place: a causal model"):
        PromptTuning(place="slots", pattern=1, **QUICK).learner(inputs_of(tmp_path, model_of("gpt2")))
