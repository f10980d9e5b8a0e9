"""ADAPET: what it does beyond and against the original; the original's numbers are in tests/published."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from lmassay.errors import ConfigError, ModelError
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from tests.evaluations.fewshot.methods.test_multimask import ROWS, small_task, teach, tiny


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Adapet, AdapetOptions, AdapetLearner, Draws, FilledText, binary_costs, decoupled_label_loss
    global \
        decoupled_text_loss, \
        distinguishing_positions, \
        filled_with_texts, \
        hide_words, \
        Reading, \
        EncodedItem, \
        open_network
    import torch

    from lmassay.evaluations.fewshot.methods.adapet import (
        Adapet,
        AdapetLearner,
        AdapetOptions,
        Draws,
        FilledText,
        binary_costs,
        decoupled_label_loss,
        decoupled_text_loss,
        distinguishing_positions,
        filled_with_texts,
        hide_words,
    )
    from lmassay.evaluations.fewshot.methods.cloze import Reading
    from lmassay.evaluations.fewshot.methods.learner import EncodedItem
    from lmassay.evaluations.fewshot.methods.network import open_network


__all__ = ["small_task", "tiny"]  # Fixtures.


@pytest.fixture
def joy(tmp_path):
    """A task with words that every tiny vocabulary may have; made without files for patterns."""
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask
    from lmassay.evaluations.fewshot.tasks.patterns import TablePVP
    from lmassay.evaluations.fewshot.tasks.processors import DataProcessor

    class Joy(TablePVP):
        PATTERNS = {"cloze": {0: "{text}|is|[M]|."}}
        WORDS = {"cloze": {0: {"0": ["laugh"], "1": ["author"]}}}

        def fields(self, example):
            return {"text": example.text_a}

    class Rows(DataProcessor):
        def get_labels(self):
            return ["0", "1"]

        def _create_examples(self, path, set_type):
            texts = (
                "The author laughs near the pilot",
                "Some dancers swim",
                "the movie brings joy to people",
                "A pilot",
            )
            return [InputExample(f"{set_type}-{n}", text, label=str(n % 2)) for n, text in enumerate(texts)]

    for part in ("train", "dev32", "val"):
        (tmp_path / f"{part}.jsonl").write_text(json.dumps({}) + "\n", encoding="utf-8")
    return NluTask("own", "joy", Rows(), Joy, ("acc",), tmp_path, ["0", "1"])


def learner(task, model, **hyper):
    return AdapetLearner(open_network(model), task, Reading(0, 150), AdapetOptions(**hyper))


@pytest.mark.parametrize("family", ["bert", "roberta", "albert", "electra", "deberta-v2"])
def test_labels_of_one_word_are_learned(tiny, joy, family):
    fitted = teach(joy, tiny(family), Adapet, max_steps=3)
    logits = fitted.logits(joy.examples("dev"))
    assert ((logits >= 0) & (logits <= 1)).all()
    assert np.isfinite(fitted.course.losses).all()


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(("family", "reference"), [("roberta", False), ("albert", False), ("bert", True)])
def test_texts_of_several_tokens_are_learned_in_batches(tiny, small_task, family, name, reference):
    task = small_task(name)
    fitted = teach(task, tiny(family), Adapet, reference=reference)
    assert np.isfinite(fitted.logits(task.examples("dev"))).all()


def test_training_raises_the_right_labels(tiny, joy):
    # Its tiny tokenizer comes out the same in every process, and so do the numbers.
    fitted = teach(joy, tiny("roberta"), Adapet, max_steps=60, learning_rate=5e-3, eval_ratios=1.0)
    assert fitted.logits(joy.examples("dev")).argmax(axis=1).tolist() == [0, 1, 0, 1]


def test_the_same_seed_gives_the_same_training(tiny, joy):
    first, second = (teach(joy, tiny("bert"), Adapet, max_steps=3) for _ in range(2))
    assert first.course.losses == second.course.losses


def test_draws_have_a_seed_of_their_own_where_it_is_given(tiny, joy):
    def hidden(**options):
        inputs = TrainingInputs(joy, tiny("bert"), joy.examples("train"), seed=3)
        adapet = Adapet(max_seq_length=150, adapet_mask_alpha=1.0, **options).learner(inputs)
        return [one.ids for one in adapet.hide(adapet.encode(inputs.train, training=True))]

    assert hidden() == hidden(draw_seed=3)
    assert hidden() != hidden(draw_seed=7)


def test_causal_models_are_refused(tiny, small_task):
    with pytest.raises(ConfigError, match="a causal language model cannot"):
        teach(small_task("copa"), tiny("gpt2"), Adapet)


def test_a_balance_outside_its_range_is_refused(tiny, joy):
    with pytest.raises(ConfigError, match="adapet_balance_alpha: must be between 0 and 1"):
        teach(joy, tiny("bert"), Adapet, adapet_balance_alpha=1.5)


def test_soft_labels_alone_are_refused(tiny, joy):
    with pytest.raises(ModelError, match=r"train-9 has no label; ADAPET learns from labels"):
        learner(joy, tiny("bert")).encode([InputExample("train-9", "A pilot", logits=[0.0, 1.0])], training=True)


def gradients(learner, items):
    learner.module.zero_grad()
    learner.draws = Draws(3)
    loss = learner.loss(items)
    loss.backward()
    return loss.item(), torch.cat([p.grad.flatten() for p in learner.module.parameters() if p.grad is not None])


def parts(learner, items):
    """The gradients of the two losses."""
    gradient_parts = []
    for part in (lambda: learner.label_loss(items), lambda: learner.conditioned_loss(learner.hide(items))):
        learner.module.zero_grad()
        learner.draws = Draws(3)
        part().backward()
        gradient_parts.append(
            torch.cat(
                [torch.zeros(p.numel()) if p.grad is None else p.grad.flatten() for p in learner.module.parameters()]
            )
        )
    return gradient_parts


@pytest.mark.parametrize(("balance", "mine", "theirs"), [(-1.0, 1.0, 1.0), (0.25, 0.75, 0.25)])
def test_both_parts_are_weighed_in_the_gradient(tiny, joy, balance, mine, theirs):
    adapet = learner(joy, tiny("bert"), balance_alpha=balance)
    items = adapet.encode(joy.examples("train"), training=True)
    label, guess = parts(adapet, items)
    _, gradient = gradients(adapet, items)
    assert torch.allclose(gradient, (mine * label + theirs * guess)[: len(gradient)], atol=1e-6)


@pytest.mark.parametrize(("balance", "theirs"), [(-1.0, 1.0), (0.25, 0.25)])
def test_the_original_neither_divides_nor_weighs_the_label_loss(tiny, joy, balance, theirs):
    adapet = learner(joy, tiny("bert"), balance_alpha=balance, reference=True, accumulation=4)
    items = adapet.encode(joy.examples("train"), training=True)
    label, guess = parts(adapet, items)
    shown, gradient = gradients(adapet, items)
    # The loop divides by 4 what is given here.
    assert torch.allclose(gradient / 4, (label + theirs / 4 * guess)[: len(gradient)], atol=1e-6)
    mended = learner(joy, tiny("bert"), balance_alpha=balance)
    assert shown == pytest.approx(gradients(mended, items)[0], abs=1e-6)


def choice_item():
    return EncodedItem([2, 4, 4, 4, 3], [0] * 5, [1, 2, 3], label=1, extra={"texts": [[7, 8], [9, 10, 11]]})


def test_the_text_holds_the_choice_that_was_drawn():
    for seed in range(8):
        (filled,) = filled_with_texts([choice_item()], Draws(seed), reference=False)
        assert filled.ids == ([2, 9, 10, 11, 3] if filled.is_right else [2, 7, 8, 3])


def test_in_the_original_the_text_holds_the_right_choice_whatever_was_drawn():
    filled = [filled_with_texts([choice_item()], Draws(seed), reference=True)[0] for seed in range(8)]
    assert {one.is_right for one in filled} == {True, False}
    assert all(one.ids == [2, 9, 10, 11, 3] for one in filled)


def test_hidden_words_are_drawn_by_the_generators_of_the_original():
    np.random.seed(5)
    random.seed(5)
    labels = np.random.randint(3, size=2).tolist()
    places = [random.sample(range(n), max(int(np.random.rand() * 0.5 * n), 2) - 1) for n in (30, 12)]
    draws = Draws(5)
    assert draws.labels(3, 2) == labels
    assert [draws.hidden(n, 0.5) for n in (30, 12)] == places


def test_draws_go_on_where_others_stopped_also_after_they_were_stored_as_json():
    whole, first, second = Draws(7), Draws(7), Draws(1)
    expected = [(whole.labels(3, 5), whole.hidden(40, 0.5)) for _ in range(400)]
    draws = [(first.labels(3, 5), first.hidden(40, 0.5)) for _ in range(150)]
    second.restore(json.loads(json.dumps(first.state())))
    draws += [(second.labels(3, 5), second.hidden(40, 0.5)) for _ in range(250)]
    assert draws == expected


def test_padding_is_known_by_the_id_of_the_tokenizer():
    texts = [FilledText([0, 5, 6, 7, 2, 1, 1], True)]
    for seed in range(20):
        (hidden,) = hide_words(texts, Draws(seed), 1.0, mask_id=9, pad_id=1)
        assert hidden.positions
        assert max(hidden.positions) < 5
        assert all(hidden.ids[place] == 9 for place in hidden.positions)


def test_what_all_choices_share_tells_nothing():
    assert distinguishing_positions([[5, 6, 7], [5, 8, 7, 9]]) == [[1], [1, 3]]
    assert distinguishing_positions([[5], [5]]) == [[], []]
    nothing = torch.zeros(0, requires_grad=True)
    assert decoupled_text_loss([[nothing, nothing]], [[True, False]]).item() == 0.0


def test_costs_are_binary_cross_entropies_that_do_not_vanish():
    p = torch.tensor([[0.2, 0.7], [0.5, 0.1]])
    expected = torch.nn.functional.binary_cross_entropy(p, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert decoupled_label_loss(p.log(), [1, 0]).item() == pytest.approx(expected.item(), abs=1e-6)
    unlikely = torch.tensor([-200.0, 0.0], requires_grad=True)
    binary_costs(unlikely, torch.tensor([True, False])).sum().backward()
    assert unlikely.grad[0].item() == -1.0
    assert torch.isfinite(unlikely.grad).all()
