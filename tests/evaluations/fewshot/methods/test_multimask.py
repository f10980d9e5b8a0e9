"""Tasks whose answer has several tokens, end to end on models of many families."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.methods.contract import Lesson
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.models.hf.model import HuggingFace
from tests.tiny_models import save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global torch, Cloze, Reading, trimmed, MultiMask, learner_for, open_network, Pet, PTuning
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
    from lmassay.evaluations.fewshot.methods.decoding import trimmed
    from lmassay.evaluations.fewshot.methods.multimask import MultiMask, learner_for
    from lmassay.evaluations.fewshot.methods.network import open_network
    from lmassay.evaluations.fewshot.methods.pet import Pet
    from lmassay.evaluations.fewshot.methods.ptuning import PTuning


FAMILIES = ("bert", "roberta", "albert", "electra", "gpt2", "llama")
COPA = [
    {"premise": "The author laughs.", "choice1": "A movie brings joy.", "choice2": "Old."},
    {"premise": "The surgeons swim.", "choice1": "Tall.", "choice2": "The author laughs here."},
    {"premise": "Some dancers are tall.", "choice1": "The pilot.", "choice2": "The authors laugh."},
]
WSC = [
    ("The author admires the pilot who is old and he laughs", "the author", 9, "he"),
    ("The teacher admires some dancers and they swim", "some dancers", 6, "they"),
    ("The guards admire the customer who has been here and she laughs", "the customer", 10, "she"),
]
PASSAGE = "The author laughs near the pilot.\n@highlight\nSome dancers admire the old surgeons"
NAMES = ("author", "pilot", "dancers", "old surgeons")


def copa_rows():
    return [{**row, "question": ("cause", "effect")[n % 2], "label": n % 2, "idx": n} for n, row in enumerate(COPA)]


def wsc_rows():
    return [
        {
            "text": text,
            "idx": n,
            "label": n != 1,
            "target": {"span1_text": span, "span1_index": 0, "span2_text": pronoun, "span2_index": place},
        }
        for n, (text, span, place, pronoun) in enumerate(WSC)
    ]


def record_rows():
    entities = [{"start": PASSAGE.index(name), "end": PASSAGE.index(name) + len(name) - 1} for name in NAMES]
    queries = [("The @placeholder laughs here", "author"), ("The teacher admires @placeholder .", "old surgeons")]
    return [
        {
            "idx": n,
            "passage": {"text": PASSAGE, "entities": entities},
            "qas": [{"query": query, "idx": n, "answers": [{"start": 0, "end": 1, "text": answer}]}],
        }
        for n, (query, answer) in enumerate(queries)
    ]


ROWS = {"copa": copa_rows, "wsc": wsc_rows, "record": record_rows}


MADE = {}
"""Models by family; one for all files of tests that borrow the fixture."""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    def model(family):
        if family not in MADE:
            folder = save_model(tmp_path_factory.mktemp(family), family, window=160)
            MADE[family] = HuggingFace(str(folder), device="cpu")
        return MADE[family]

    return model


@pytest.fixture
def small_task(tmp_path):
    def task(name):
        lines = "".join(f"{json.dumps(row)}\n" for row in ROWS[name]())
        for part in ("train", "dev32", "val"):
            (tmp_path / f"{part}.jsonl").write_text(lines, encoding="utf-8")
        return open_task(name, tmp_path)

    return task


def teach(task, model, method=None, **options):
    from lmassay.evaluations.fewshot.methods.pet import Pet

    common = {"max_steps": 2, "batch_size": 4, "micro_batch": 2, "learning_rate": 1e-3, "eval_ratios": 0.5}
    lesson = Lesson(task=task, model=model, train=task.examples("train"), dev=task.examples("dev32"))
    return (method or Pet)(**{**common, "max_seq_length": 150, **options}).fit(lesson)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ROWS)
def test_every_task_is_learned_and_tested_in_every_family(tiny, small_task, family, name):
    task = small_task(name)
    fitted = teach(task, tiny(family))
    found = fitted.logits(task.examples("dev"))
    assert found.shape == (len(task.examples("dev")), 2)
    assert np.isfinite(found).all()
    assert all(np.isfinite(fitted.course.losses))
    assert fitted.choices[0].dev["acc"] in {hits / len(task.examples("dev32")) for hits in range(4)}


@pytest.mark.parametrize("family", ["roberta", "albert", "gpt2"])
@pytest.mark.parametrize("name", ["copa", "record"])
def test_scores_do_not_depend_on_what_is_read_together(tiny, small_task, family, name):
    task = small_task(name)
    net = open_network(tiny(family))
    net.module.eval()
    rows = []
    for size in (1, 32):
        learner = learner_for(task, net, Reading(0, 150), eval_batch_size=size)
        with torch.no_grad():
            rows.append(learner.logits(learner.encode(task.examples("dev"), training=False)).numpy())
    assert rows[0] == pytest.approx(rows[1], abs=1e-4)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_training_moves_the_right_choice_up(tiny, small_task, family):
    task = small_task("copa")
    common = {"learning_rate": 1e-2, "batch_size": 6, "eval_ratios": 1.0, "decoding_strategy": "parallel"}
    short, long = (teach(task, tiny(family), max_steps=steps, **common) for steps in (1, 12))
    assert long.course.losses[-1] < 0.8 * long.course.losses[0]
    right = [task.labels.index(example.label) for example in task.examples("dev")]
    before, after = (fitted.logits(task.examples("dev")) for fitted in (short, long))
    lead = [
        np.mean([row[place] - row[1 - place] for row, place in zip(r, right, strict=True)]) for r in (before, after)
    ]
    assert lead[1] > lead[0]


@pytest.mark.parametrize("decoding", ["default", "ltr", "parallel"])
def test_all_orders_of_filling_are_offered(tiny, small_task, decoding):
    task = small_task("copa")
    fitted = teach(task, tiny("bert"), decoding_strategy=decoding)
    assert (fitted.logits(task.examples("dev")) < 0).all()


def test_an_unknown_order_of_filling_is_refused(tiny, small_task):
    with pytest.raises(ConfigError, match="decoding strategy 'beam': use one of default, ltr, parallel"):
        learner_for(small_task("copa"), open_network(tiny("bert")), Reading(0, 150), decoding_strategy="beam")


def test_labels_of_one_token_are_left_to_the_cloze(tiny, small_task):
    words = SimpleNamespace(label_token_ids=lambda: [[5], [6]])
    labelled = SimpleNamespace(kind="labels", labels=["no", "yes"], pvp=lambda *_, **__: words)
    net = open_network(tiny("bert"))
    assert isinstance(learner_for(labelled, net, Reading(0, 64)), Cloze)
    assert isinstance(learner_for(small_task("copa"), net, Reading(0, 64)), MultiMask)


@pytest.mark.parametrize(
    ("family", "name"), [("bert", "copa"), ("albert", "wsc"), ("roberta", "record"), ("gpt2", "copa")]
)
def test_continuous_prompts_are_learned_with_texts_of_several_tokens(tiny, small_task, family, name):
    task = small_task(name)
    fitted = teach(task, tiny(family), PTuning, pattern=2, embedding_learning_rate=1e-2)
    assert np.isfinite(fitted.logits(task.examples("dev"))).all()


@pytest.mark.parametrize("name", ROWS)
def test_continuous_prompts_keep_their_places_when_masks_are_trimmed(tiny, small_task, name):
    task = small_task(name)
    learner = learner_for(task, open_network(tiny("bert")), Reading(2, 150, "ptuning"))
    (item, *_) = learner.encode(task.examples("dev"), training=False)
    short = trimmed(item, 1)
    assert len(item.masks) > 1
    assert len(item.prompts) == 2
    slots = item.ids[item.prompts[0]]
    assert [place for place, token in enumerate(short.ids) if token == slots] == short.prompts
    assert len(short.ids) == len(item.ids) - len(item.masks) + 1 == len(short.types)
