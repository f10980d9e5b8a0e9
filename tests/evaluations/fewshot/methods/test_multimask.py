"""Tasks whose answer has several tokens: COPA, WSC and ReCoRD, on models of many families."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import numpy as np
import pytest

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.models.hf.model import HuggingFace
from tests.tiny_models import save_model


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("torch", reason="the hf extra is not installed")
    global RULE
    global \
        torch, \
        Cloze, \
        Reading, \
        CausalGaps, \
        MaskedGaps, \
        trimmed, \
        EncodedItem, \
        MAX_WRONG, \
        EntityRule, \
        MultiMask, \
        ReferentRule
    global hinge, learner_for, right_choice_first, right_entity_first, same_referent, open_network, Pet, PTuning
    import torch

    from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
    from lmassay.evaluations.fewshot.methods.decoding import CausalGaps, MaskedGaps, trimmed
    from lmassay.evaluations.fewshot.methods.learner import EncodedItem
    from lmassay.evaluations.fewshot.methods.multimask import (
        MAX_WRONG,
        EntityRule,
        MultiMask,
        ReferentRule,
        hinge,
        learner_for,
        right_choice_first,
        right_entity_first,
        same_referent,
    )
    from lmassay.evaluations.fewshot.methods.network import open_network
    from lmassay.evaluations.fewshot.methods.pet import Pet
    from lmassay.evaluations.fewshot.methods.ptuning import PTuning

    RULE = EntityRule(None, ["0", "1"])


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
    inputs = TrainingInputs(task=task, model=model, train=task.examples("train"), dev=task.examples("dev32"))
    return (method or Pet)(**{**common, "max_seq_length": 150, **options}).fit(inputs)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ROWS)
def test_every_task_is_learned_and_tested_in_every_family(tiny, small_task, family, name):
    task = small_task(name)
    fitted = teach(task, tiny(family))
    logits = fitted.logits(task.examples("dev"))
    assert logits.shape == (len(task.examples("dev")), 2)
    assert np.isfinite(logits).all()
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
    words = SimpleNamespace(label_token_ids=lambda: [[5], [6]], label_word_ids=lambda: [[[5]], [[6]]])
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


@pytest.fixture
def copa(tiny, small_task):
    task = small_task("copa")
    learner = learner_for(task, open_network(tiny("bert")), Reading(0, 150))
    learner.module.eval()
    return task, learner


def test_there_are_as_many_masks_as_the_longer_choice_has_tokens(copa):
    task, learner = copa
    for item in learner.encode(task.examples("train"), training=True):
        assert len(item.masks) == max(map(len, item.extra["texts"]))


def test_the_right_choice_comes_first_in_the_hinge(copa):
    task, learner = copa
    items = learner.encode(task.examples("train"), training=True)
    assert {item.label for item in items} == {0, 1}
    for item in items:
        assert right_choice_first(item) == [item.extra["texts"][item.label], item.extra["texts"][1 - item.label]]


def test_the_loss_is_the_mean_over_examples(copa):
    task, learner = copa
    items = learner.encode(task.examples("train"), training=True)
    with torch.no_grad():
        apart = [learner.loss([item]).item() for item in items]
        assert learner.loss(items).item() == pytest.approx(sum(apart) / len(apart), abs=1e-4)


def test_swapped_choices_swap_the_scores_of_a_pattern_without_them(copa):
    task, learner = copa
    items = learner.encode(task.examples("dev"), training=False)
    with torch.no_grad():
        logits = learner.logits(items)
        for item in items:
            item.extra["texts"].reverse()
        assert torch.allclose(learner.logits(items), logits.flip(1))


def test_training_needs_labels(copa):
    task, learner = copa
    example = task.examples("train")[0]
    bare = InputExample("train-7", example.text_a, meta=example.meta)
    with pytest.raises(DataError, match="train-7: an example without a label cannot be trained on"):
        learner.encode([bare], training=True)
    assert learner.encode([bare], training=False)[0].label == -1


def test_an_empty_choice_is_named(copa):
    task, learner = copa
    meta = {**task.examples("train")[0].meta, "choice2": "."}
    with pytest.raises(DataError, match="train-8: a text for the gap is empty"):
        learner.encode([InputExample("train-8", "The pilot swims.", label="0", meta=meta)], training=True)


@pytest.mark.parametrize(
    ("written", "candidate", "same"),
    [
        ("the city councilmen", "councilmen", True),
        ("Councilmen", "The city councilmen", True),
        ("the demonstrators", "the councilmen", False),
        ("Jim's dog", "jim s", True),
        ("", "Jim", True),
        ("##x y", "Jim", False),
    ],
)
def test_referents_are_the_same_if_all_words_of_one_are_in_the_other(written, candidate, same):
    assert same_referent(written, candidate) is same


@pytest.fixture
def wsc(tiny, small_task):
    task = small_task("wsc")
    return task, learner_for(task, open_network(tiny("roberta")), Reading(0, 150))


def test_only_true_referents_are_trained_on(wsc):
    task, learner = wsc
    assert len(learner.encode(task.examples("train"), training=True)) == 2
    assert len(learner.encode(task.examples("train"), training=False)) == 3


def test_surplus_masks_are_trained_to_be_padding_of_the_tokenizer(wsc):
    task, learner = wsc
    many = [item for _ in range(8) for item in learner.encode(task.examples("train"), training=True)]
    assert {len(item.masks) - len(item.extra["span"]) for item in many} == {0, 1, 2, 3}
    pad = learner.net.tokenizer.pad_token_id
    assert pad == 1
    for item in many:
        assert item.extra["target"] == item.extra["span"] + [pad] * (len(item.masks) - len(item.extra["span"]))


def test_surplus_masks_may_be_left_out_of_the_loss(tiny, small_task):
    task, net = small_task("wsc"), open_network(tiny("bert"))
    learner = learner_for(task, net, Reading(0, 150), count_padding=False)
    items = learner.encode(task.examples("train"), training=True)
    assert all(item.extra["target"] == item.extra["span"] for item in items)


def test_deberta_does_not_count_padding_as_in_fewnlu(tiny, small_task):
    learner = learner_for(small_task("wsc"), open_network(tiny("deberta-v2")), Reading(0, 150))
    items = learner.encode(small_task("wsc").examples("train"), training=True)
    assert all(item.extra["target"] == item.extra["span"] for item in items)


def test_a_causal_network_learns_no_padding_even_if_its_tokenizer_has_a_mask(tiny, small_task):
    net = open_network(tiny("gpt2"))
    net.tokenizer = copy.deepcopy(net.tokenizer)
    net.tokenizer.add_special_tokens({"mask_token": "<mask>"})
    learner = learner_for(small_task("wsc"), net, Reading(0, 150))
    items = [item for _ in range(8) for item in learner.encode(small_task("wsc").examples("train"), training=True)]
    assert all(item.extra["target"] == item.extra["span"] for item in items)


def test_dev_examples_have_one_surplus_mask_wherever_they_come_from(wsc):
    task, learner = wsc
    for item in learner.encode(task.examples("train"), training=False):
        assert len(item.masks) == len(item.extra["span"]) + 1


def test_the_original_looks_at_the_name_of_the_file(tiny, small_task):
    task = small_task("wsc")
    learner = learner_for(task, open_network(tiny("bert")), Reading(0, 150), reference=True)
    seen = {
        len(item.masks) - len(item.extra["span"])
        for _ in range(8)
        for item in learner.encode(task.examples("train"), training=False)
    }
    assert seen == {0, 1, 2, 3}


def test_a_referent_that_is_written_gives_the_label_true(wsc):
    task, learner = wsc
    items = learner.encode(task.examples("dev"), training=False)

    class Says:
        def write(self, given):
            return [[*item.extra["span"], learner.net.tokenizer.pad_token_id] for item in given[:2]] + [
                learner.pvp.text_ids("some movie") for _ in given[2:]
            ]

    assert learner.rule.logits(Says(), items).tolist() == [[0, 1], [0, 1], [1, 0]]


def test_the_loss_is_a_mean_over_tokens(wsc):
    task, learner = wsc
    items = learner.encode(task.examples("train"), training=True)
    learner.module.eval()
    with torch.no_grad():
        both = learner.loss(items).item()
        apart = [learner.loss([item]).item() * len(item.extra["target"]) for item in items]
    assert both == pytest.approx(sum(apart) / sum(len(item.extra["target"]) for item in items), abs=1e-4)


def test_labels_without_true_are_refused(tiny):
    net = open_network(tiny("bert"))
    with pytest.raises(DataError, match="needs the label 'True'"):
        ReferentRule(None, ["no", "yes"], net.tokenizer, pad_id=0)


class Known:
    """Gaps whose scores are given."""

    def __init__(self, *scores):
        self._scores = list(scores)

    def scores(self, items, texts):
        return self._scores


def question(names, right):
    return EncodedItem([], [], extra={"names": names, "texts": [[n] for n in range(len(names))], "right": right})


def test_the_best_entity_is_the_answer_and_says_the_label():
    items = [question(["a", "b", "c"], [False, True, True]), question(["a", "b"], [True, False])]
    logits = RULE.logits(Known([-3.0, -2.0, -5.0], [-4.0, -1.0]), items)
    assert logits.tolist() == [[-3.0, -2.0], [-1.0, -4.0]]
    assert [item.extra["answer"] for item in items] == ["b", "b"]


@pytest.mark.parametrize(("right", "label"), [([True, True], 1), ([False, False], 0)])
def test_a_question_without_wrong_or_right_entities_has_finite_scores(right, label):
    logits = RULE.logits(Known([-3.0, -2.0]), [question(["a", "b"], right)])
    assert torch.isfinite(logits).all()
    assert logits.argmax().item() == label


def test_an_answer_is_trained_against_nine_wrong_entities_at_most():
    item = question([str(n) for n in range(20)], [n == 4 for n in range(20)])
    texts = right_entity_first(item)
    assert texts[0] == [4]
    assert len(texts) == 1 + MAX_WRONG
    assert [4] not in texts[1:]


def test_other_right_answers_are_not_wrong():
    assert right_entity_first(question(["a", "b", "c"], [True, False, True])) == [[0], [1]]


@pytest.fixture
def record(tiny, small_task):
    task = small_task("record")
    learner = learner_for(task, open_network(tiny("bert")), Reading(0, 150))
    learner.module.eval()
    return task, learner


def test_all_entities_are_asked_in_evaluation(record):
    task, learner = record
    for item in learner.encode(task.examples("dev"), training=False):
        assert sorted(item.extra["names"]) == sorted(NAMES)
        assert sum(item.extra["right"]) == 1


def test_a_question_whose_answer_is_no_entity_cannot_be_learned(record):
    task, learner = record
    example = task.examples("train")[0]
    lost = InputExample("train-3", example.text_a, example.text_b, "1", meta={**example.meta, "answers": ["nobody"]})
    with pytest.raises(DataError, match="train-3: none of its entities is an answer"):
        learner.encode([lost], training=True)


def test_the_loss_is_the_mean_over_questions(record):
    task, learner = record
    items = learner.encode(task.examples("train"), training=True)
    with torch.no_grad():
        apart = [learner.loss([item]).item() for item in items]
        assert learner.loss(items).item() == pytest.approx(sum(apart) / len(apart), abs=1e-4)


def costs(*values):
    return [[torch.tensor(cost) for cost in of_item] for of_item in values]


def test_each_example_has_its_own_hinge():
    gaps = MaskedGaps(lambda items, positions: torch.empty(0), "default", 8)
    given_costs = costs([[1.0, 3.0], [2.0]], [[5.0], [1.0]])
    assert hinge(gaps, given_costs, per_batch=False).item() == pytest.approx((1.0 + 5.0) / 2)
    # Of the whole batch: the right ones cost (1 + 3 + 5) / 3, the wrong ones (2 + 1) / 2.
    assert hinge(gaps, given_costs, per_batch=True).item() == pytest.approx(1 + 3 - 1.5)


def test_hinges_of_several_wrong_texts_are_summed():
    gaps = MaskedGaps(lambda items, positions: torch.empty(0), "default", 8)
    assert hinge(gaps, costs([[1.0], [0.5], [9.0], [1.5]]), per_batch=False).item() == pytest.approx(1.5 + 0 + 0.5)
    assert hinge(gaps, costs([[1.0]]), per_batch=False).item() == 0.0


def test_a_micro_batch_without_wrong_texts_can_be_trained():
    gaps = MaskedGaps(lambda items, positions: torch.empty(0), "default", 8)
    cost = torch.tensor([1.0, 3.0], requires_grad=True)
    hinge(gaps, [[cost]], per_batch=False).backward()
    assert cost.grad.tolist() == [0.0, 0.0]


def test_a_causal_hinge_compares_sums():
    gaps = CausalGaps(lambda items, positions: torch.empty(0), 8)
    assert hinge(gaps, costs([[1.0, 1.0], [1.5]]), per_batch=False).item() == pytest.approx(1 + 2 - 1.5)
