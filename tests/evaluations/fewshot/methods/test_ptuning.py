"""P-tuning on tiny models of all families: what learns, at which rate, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.methods.prompt_tasks import QUICK, inputs_of, model_of
from tests.tiny_models import MASKED


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, EncodedItem, SLOT, PTuning, with_front_slots
    import torch

    from lmassay.evaluations.fewshot.methods.learner import EncodedItem
    from lmassay.evaluations.fewshot.methods.prompt_encoder import SLOT
    from lmassay.evaluations.fewshot.methods.ptuning import PTuning, with_front_slots


@pytest.mark.parametrize("family", [*MASKED, "gpt2", "llama"])
def test_every_family_learns_through_its_slots(tmp_path, family):
    inputs = inputs_of(tmp_path, model_of(family))
    method = PTuning(pattern=2, prompt_encoder_head_type="mlp", **QUICK)
    learner = method.learner(inputs)
    before = {name: p.detach().clone() for name, p in learner.module.named_parameters()}
    fitted = method.fit(inputs)
    after = dict(fitted.net.module.named_parameters())
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert {name for name in before if name.startswith("prompt_encoder.")} <= changed
    assert any(not name.startswith("prompt_encoder.") for name in changed)
    assert fitted.logits(inputs.dev).shape == (4, 2)


def test_the_prompt_has_a_rate_of_its_own_and_each_weight_is_trained_once(tmp_path):
    learner = PTuning(embedding_learning_rate=0.5, **QUICK).learner(inputs_of(tmp_path, model_of("bert")))
    optimised = list(learner.optimised())
    assert {name.startswith("prompt_encoder."): rate for name, _, rate in optimised} == {True: 0.5, False: None}
    assert len({id(parameter) for _, parameter, _ in optimised}) == len(optimised)


def test_the_slots_of_an_item_have_an_id_that_no_word_has(tmp_path):
    inputs = inputs_of(tmp_path, model_of("bert"))
    (item, *_) = PTuning(pattern=3, **QUICK).learner(inputs).encode(inputs.train, training=True)
    assert [place for place, token in enumerate(item.ids) if token == SLOT] == item.prompts
    assert len(item.prompts) == 3


@pytest.mark.parametrize("head", ["raw", "lstm", "mlp"])
def test_the_same_lesson_gives_the_same_numbers(tmp_path, head):
    def taught():
        torch.manual_seed(torch.seed())
        method = PTuning(pattern=1, prompt_encoder_head_type=head, **QUICK)
        fitted = method.fit(inputs_of(tmp_path, model_of("bert")))
        return fitted.course.losses, fitted.logits(inputs_of(tmp_path, None).dev)

    (losses, logits), (again, same) = taught(), taught()
    assert losses == again
    assert np.array_equal(logits, same)


def test_padding_beside_a_longer_text_does_not_change_the_scores(tmp_path):
    inputs = inputs_of(tmp_path, model_of("roberta"))
    learner = PTuning(pattern=2, **QUICK).learner(inputs)
    learner.module.eval()
    items = learner.encode(inputs.train[:3], training=False)
    with torch.inference_mode():
        together = learner.logits(items)
        alone = torch.cat([learner.logits([item]) for item in items])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_choices_of_several_tokens_are_learned_with_prompts(family):
    task = open_task("superglue/copa")
    meta = {"choice1": "the author laughs", "choice2": "a movie", "question": "cause"}
    examples = [
        InputExample("train-0", "The pilot is tall.", label="0", meta=meta),
        InputExample("train-1", "People swim.", label="1", meta=meta),
    ]
    method = PTuning(pattern=2, prompt_encoder_head_type="lstm", embedding_learning_rate=0.1, **QUICK)
    fitted = method.fit(TrainingInputs(task, model_of(family), examples))
    start = method.learner(TrainingInputs(task, model_of(family), examples)).encoder()
    assert fitted.logits(examples).shape == (2, 2)
    assert (fitted.learner.encoder() - start).abs().max() > 1e-3


def test_slots_before_a_text_move_its_masks():
    item = with_front_slots(EncodedItem([2, 8, 4, 3], [0, 0, 1, 1], masks=[2], prompts=[1]), 2, after={2})
    assert (item.ids, item.types) == ([2, SLOT, SLOT, 8, 4, 3], [0, 0, 0, 0, 1, 1])
    assert (item.masks, item.prompts) == ([4], [1, 2, 3])


def test_slots_stand_first_where_nothing_opens_a_text():
    assert with_front_slots(EncodedItem([8, 4], [0, 0]), 1, after={2}).ids == [SLOT, 8, 4]


def test_a_pattern_that_the_task_does_not_have_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="has no pattern 9"):
        PTuning(pattern=9, **QUICK).learner(inputs_of(tmp_path, model_of("bert")))


def test_a_window_that_the_prompt_fills_is_refused(tmp_path):
    options = {**QUICK, "max_seq_length": 10}
    with pytest.raises(ConfigError, match="max_seq_length: 4 prompt tokens leave 6 of 10"):
        PTuning(pattern=4, **options).learner(inputs_of(tmp_path, model_of("gpt2")))
