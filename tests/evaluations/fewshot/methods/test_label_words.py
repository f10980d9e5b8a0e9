"""Label words of several tokens: Korean words in byte-level vocabularies, masked and causal."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from tests.evaluations.fewshot.methods.conftest import Opened


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Adapet, CausalCloze, Cloze, Reading, LabelWordRule, Lora, MultiMask, learner_for, open_network
    global Pet, PromptTuning, PTuning
    import torch

    from lmassay.evaluations.fewshot.methods.adapet import Adapet
    from lmassay.evaluations.fewshot.methods.cloze import CausalCloze, Cloze, Reading
    from lmassay.evaluations.fewshot.methods.label_words import LabelWordRule
    from lmassay.evaluations.fewshot.methods.lora import Lora
    from lmassay.evaluations.fewshot.methods.multimask import MultiMask, learner_for
    from lmassay.evaluations.fewshot.methods.network import open_network
    from lmassay.evaluations.fewshot.methods.pet import Pet
    from lmassay.evaluations.fewshot.methods.prompt_tuning import PromptTuning
    from lmassay.evaluations.fewshot.methods.ptuning import PTuning


QUICK: dict[str, Any] = {"batch_size": 8, "eval_ratios": 1.0, "max_seq_length": 64}


@pytest.fixture(scope="module")
def korean(tmp_path_factory: pytest.TempPathFactory) -> NluTask:
    """Reviews whose label is plain from one word; the label words have 6 and 9 bytes."""
    folder = tmp_path_factory.mktemp("korean")
    rows = []
    for number in range(32):
        text = f"{'the author laughs' if number % 2 else 'a customer swims'} {number % 7}"
        rows.append(json.dumps({"text": text, "label": "good" if number % 2 else "bad"}))
    for part, chosen in (("train", rows[:16]), ("dev", rows[16:]), ("unlabeled", rows[:8])):
        (folder / f"{part}.jsonl").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    description = {
        "data": {part: f"{part}.jsonl" for part in ("train", "dev", "unlabeled")},
        "fields": ["text"],
        "labels": ["bad", "good"],
        "words": {"bad": "나쁨", "good": ["좋아요"]},
        "patterns": ["{text} [mask]"],
    }
    (folder / "korean.yaml").write_text(json.dumps(description, ensure_ascii=False), encoding="utf-8")
    return open_task(str(folder / "korean.yaml"))


def accuracy(method: Any, model: Any, task: NluTask) -> float:
    inputs = TrainingInputs(task, model, task.examples("train"), unlabeled=task.examples("unlabeled"))
    examples = task.examples("dev")
    predicted = method.fit(inputs).logits(examples).argmax(axis=1)
    return float(
        np.mean([task.labels[label] == example.label for label, example in zip(predicted, examples, strict=True)])
    )


@pytest.mark.parametrize(
    ("family", "method", "options"),
    [
        ("roberta", "Pet", {"max_steps": 30, "learning_rate": 1e-3}),
        ("gpt2", "Pet", {"max_steps": 30, "learning_rate": 1e-3}),
        ("roberta", "Pet", {"max_steps": 30, "learning_rate": 1e-3, "lm_training": True}),
        ("roberta", "Adapet", {"max_steps": 60, "learning_rate": 5e-3}),
        ("roberta", "PTuning", {"max_steps": 30, "learning_rate": 1e-3}),
        ("gpt2", "Lora", {"max_steps": 60, "learning_rate": 1e-2}),
    ],
    ids=["pet-masked", "pet-causal", "pet-mlm", "adapet", "ptuning", "lora"],
)
def test_korean_label_words_are_learned(
    tiny: Opened, korean: NluTask, family: str, method: str, options: dict[str, Any]
) -> None:
    # By name, because the classes are imported when the first test runs.
    assert accuracy(globals()[method](**options, **QUICK), tiny(family), korean) > 0.8


def test_a_prompt_that_starts_from_korean_words_is_trained(tiny: Opened, korean: NluTask) -> None:
    method = PromptTuning(max_steps=12, n_tokens=4, start="labels", **QUICK)
    fitted = method.fit(TrainingInputs(korean, tiny("gpt2"), korean.examples("train")))
    assert fitted.course is not None
    assert np.mean(fitted.course.losses[-4:]) < np.mean(fitted.course.losses[:4])


def test_a_causal_score_is_the_log_probability_of_the_whole_word(tiny: Opened, korean: NluTask) -> None:
    net = open_network(tiny("gpt2"))
    net.module.eval()
    learner = learner_for(korean, net, Reading())
    example = korean.examples("dev")[0]
    prompt = net.tokenizer(example.text_a).input_ids
    expected = []
    for word in ("나쁨", "좋아요"):
        tokens = net.tokenizer(f" {word}").input_ids
        with torch.no_grad():
            log_p = net.module(torch.tensor([[*prompt, *tokens]])).logits[0].log_softmax(-1)
        expected.append(sum(float(log_p[len(prompt) - 1 + place, token]) for place, token in enumerate(tokens)))
    with torch.no_grad():
        (row,) = learner.logits(learner.encode([example], training=False)).tolist()
    assert row == pytest.approx(expected, abs=1e-4)


def test_a_masked_score_in_parallel_is_read_with_one_mask_per_token(tiny: Opened, korean: NluTask) -> None:
    net = open_network(tiny("roberta"))
    net.module.eval()
    learner = learner_for(korean, net, Reading(), decoding_strategy="parallel")
    (item,) = learner.encode(korean.examples("dev")[:1], training=False)
    words = [net.tokenizer.encode(f" {word}", add_special_tokens=False) for word in ("나쁨", "좋아요")]
    assert len(item.masks) == max(map(len, words))
    start, mask = item.masks[0], net.tokenizer.mask_token_id
    expected = []
    for tokens in words:
        ids = [*item.ids[:start], *[mask] * len(tokens), *item.ids[item.masks[-1] + 1 :]]
        with torch.no_grad():
            log_p = net.module(torch.tensor([ids])).logits[0].log_softmax(-1)
        expected.append(sum(float(log_p[start + place, token]) for place, token in enumerate(tokens)))
    with torch.no_grad():
        (row,) = learner.logits([item]).tolist()
        assert isinstance(learner, MultiMask)
        assert isinstance(learner.rule, LabelWordRule)
        (trained,) = learner.rule._training_scores(learner.gaps, [item]).tolist()
    assert row == pytest.approx(expected, abs=1e-4)
    assert trained == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("family", "kind"), [("bert", "Cloze"), ("gpt2", "CausalCloze")])
def test_words_of_one_token_are_read_as_before(tiny: Opened, rte: NluTask, family: str, kind: str) -> None:
    assert type(learner_for(rte, open_network(tiny(family)), Reading())) is globals()[kind]


def test_a_word_outside_the_vocabulary_is_refused(tiny: Opened, korean: NluTask) -> None:
    with pytest.raises(ConfigError, match=r"the word '나쁨' for the label 'bad' is not in the vocabulary"):
        learner_for(korean, open_network(tiny("bert")), Reading())


def test_a_window_without_room_for_the_words_is_refused(tiny: Opened, korean: NluTask) -> None:
    with pytest.raises(ConfigError, match="max_seq_length: the longest label word leaves"):
        learner_for(korean, open_network(tiny("roberta")), Reading(max_seq_length=12))
