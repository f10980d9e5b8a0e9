"""FewGLUE's files, and what may be wrong with them."""

from __future__ import annotations

import json

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.evaluations.fewshot.tasks.superglue.processors import SUPERGLUE_PROCESSORS
from tests.published_data import published_set

ROWS = {
    "rte": {"premise": "It rains.", "hypothesis": "It is wet.", "label": "entailment", "idx": 3},
    "cb": {"premise": "It rains.", "hypothesis": "It is wet.", "label": "neutral", "idx": 3},
    "boolq": {"passage": "Rain falls.", "question": "is it wet", "label": True, "idx": 3},
    "wic": {"word": "run", "sentence1": "I run.", "sentence2": "A run.", "label": False, "idx": 3},
    "copa": {"premise": "It rained.", "choice1": "Wet.", "choice2": "Dry.", "question": "effect", "label": 0, "idx": 3},
    "multirc": {
        "idx": 3,
        "passage": {
            "text": "Rain falls.",
            "questions": [
                {
                    "question": "What falls?",
                    "idx": 5,
                    "answers": [{"text": "Rain", "idx": 8, "label": 1}, {"text": "Snow", "idx": 9, "label": 0}],
                }
            ],
        },
    },
    "wsc": {
        "text": "Ann met Eve because she asked.",
        "idx": 3,
        "label": True,
        "target": {"span1_text": "Eve", "span1_index": 2, "span2_text": "she", "span2_index": 4},
    },
    "record": {
        "idx": 3,
        "passage": {
            "text": "Ann met Eve in Rome.\n@highlight\nAll well",
            "entities": [{"start": 8, "end": 10}, {"start": 0, "end": 2}, {"start": 15, "end": 18}],
        },
        "qas": [{"idx": 6, "query": "Then @placeholder left.", "answers": [{"text": "Eve"}, {"text": "Ann"}]}],
    },
}


def folder(tmp_path, *rows, name="train.jsonl"):
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def read(task, tmp_path, *rows, part="train", name=None):
    return open_task(task, folder(tmp_path, *rows, name=name or f"{part}.jsonl")).examples(part)


@pytest.mark.parametrize("task", SUPERGLUE_PROCESSORS)
def test_every_task_reads_a_row_of_its_own(task, tmp_path):
    examples = read(task, tmp_path, ROWS[task])
    assert all(e.guid.startswith("train-") and e.guid.rpartition("-")[2].isdigit() for e in examples)
    assert all(e.label in open_task(task).labels for e in examples)
    assert len({e.guid for e in examples}) == len(examples)


@pytest.mark.parametrize(("task", "label"), [("boolq", "True"), ("wic", "F"), ("wsc", "True"), ("copa", "0")])
def test_labels_of_any_type_become_those_of_the_task(task, label, tmp_path):
    assert read(task, tmp_path, ROWS[task])[0].label == label


@pytest.mark.fault(28)
@pytest.mark.parametrize("task", ["rte", "cb", "boolq", "wic", "copa", "wsc"])
def test_a_label_outside_the_task_is_an_error_with_its_line(task, tmp_path):
    with pytest.raises(DataError, match=r"train\.jsonl, line 2: 'label' is 'perhaps'; the labels are"):
        read(task, tmp_path, ROWS[task], {**ROWS[task], "label": "perhaps", "idx": 4})


@pytest.mark.parametrize("task", SUPERGLUE_PROCESSORS)
def test_a_missing_field_is_named_with_its_line(task, tmp_path):
    row = dict(ROWS[task])
    gone = next(name for name in row if name not in ("idx", "label"))
    del row[gone]
    with pytest.raises(DataError, match=rf"line 1: the field '{gone}' is missing"):
        read(task, tmp_path, row)


@pytest.mark.parametrize("task", SUPERGLUE_PROCESSORS)
def test_unlabeled_data_have_no_labels(task, tmp_path):
    row = {name: value for name, value in ROWS[task].items() if name != "label"}
    assert {e.label for e in read(task, tmp_path, row, part="unlabeled")} == {None}


def test_a_training_example_without_a_label_is_an_error(tmp_path):
    row = {name: value for name, value in ROWS["rte"].items() if name != "label"}
    with pytest.raises(DataError, match="'label' is missing"):
        read("rte", tmp_path, row)


def test_a_test_set_may_lack_labels(tmp_path):
    row = {name: value for name, value in ROWS["rte"].items() if name != "label"}
    assert read("rte", tmp_path, row, part="test")[0].label is None


def test_what_is_no_json_is_named_with_its_line(tmp_path):
    with pytest.raises(DataError, match=r"line 2: this is not JSON"):
        read("rte", tmp_path, ROWS["rte"], "{oops")


def test_a_row_that_is_no_object_is_named_with_its_line(tmp_path):
    with pytest.raises(DataError, match="line 1: the line must be an object"):
        read("rte", tmp_path, "[1, 2]")


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_file_is_an_error(text, tmp_path):
    (tmp_path / "train.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"train\.jsonl (is empty|has no examples)"):
        open_task("rte", tmp_path).examples("train")


def test_an_empty_text_is_an_error(tmp_path):
    with pytest.raises(DataError, match="line 1: 'premise' is empty"):
        read("rte", tmp_path, {**ROWS["rte"], "premise": " "})


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path):
    (tmp_path / "train.jsonl").write_bytes(b"\xef\xbb\xbf" + json.dumps(ROWS["rte"]).encode() + b"\r\n")
    assert open_task("rte", tmp_path).examples("train")[0].text_a == "It rains."


def test_a_file_that_is_not_utf8_is_named_with_its_line(tmp_path):
    (tmp_path / "train.jsonl").write_bytes(b'{"premise": "\xe9"}\n')
    with pytest.raises(DataError, match=r"line 1: byte 0xe9"):
        open_task("rte", tmp_path).examples("train")


def test_an_index_that_is_there_twice_does_not_make_two_examples_one(tmp_path):
    first, second = read("wic", tmp_path, ROWS["wic"], ROWS["wic"])
    assert (first.guid, second.guid) == ("train-3", "train-line2-3")


def test_copa_gets_mirrored_copies_in_training_only(tmp_path):
    original, copy = read("copa", tmp_path, ROWS["copa"])
    assert (copy.meta["choice1"], copy.meta["choice2"]) == ("Dry.", "Wet.")
    assert (original.label, copy.label) == ("0", "1")
    assert len(read("copa", tmp_path, ROWS["copa"], part="dev", name="val.jsonl")) == 1


def test_copa_with_another_question_is_an_error(tmp_path):
    with pytest.raises(DataError, match="must be cause or effect"):
        read("copa", tmp_path, {**ROWS["copa"], "question": "why"})


def test_wsc_finds_a_pronoun_that_is_one_word_off_and_frees_it_from_punctuation(tmp_path):
    target = ROWS["wsc"]["target"]
    off = {**ROWS["wsc"], "target": {**target, "span2_index": 5}}
    assert read("wsc", tmp_path, off)[0].meta["span2_index"] == 4
    stuck = {**ROWS["wsc"], "text": "Ann met Eve and helped her.", "target": {**target, "span2_text": "her"}}
    stuck["target"]["span2_index"] = 5
    example = read("wsc", tmp_path, stuck)[0]
    assert example.text_a == "Ann met Eve and helped her ."


def test_wsc_without_the_pronoun_is_an_error_with_its_line(tmp_path):
    target = {**ROWS["wsc"]["target"], "span2_text": "they"}
    with pytest.raises(DataError, match=r"line 1: word 4 of the text is 'she', not the pronoun 'they'"):
        read("wsc", tmp_path, {**ROWS["wsc"], "target": target})


@pytest.mark.parametrize("index", [50, -3])
def test_wsc_with_an_index_outside_the_text_is_an_error_with_the_number_of_words(tmp_path, index):
    target = {**ROWS["wsc"]["target"], "span2_index": index}
    message = rf"line 1: 'span2_index' is {index}, but the text has 6 words \(counted from 0\)"
    with pytest.raises(DataError, match=message):
        read("wsc", tmp_path, {**ROWS["wsc"], "target": target})


def test_wsc_reads_fewnlus_pairs_of_a_true_and_a_false_target(tmp_path):
    target = ROWS["wsc"]["target"]
    pair = {
        "text": ROWS["wsc"]["text"],
        "idx": 3,
        "true_target": {**target, "label": True},
        "false_target": {**target, "span1_text": "Ann", "span1_index": 0, "label": False},
    }
    true, false = read("wsc", tmp_path, pair)
    assert (true.label, false.label) == ("True", "False")
    assert (true.meta["span1_text"], false.meta["span1_text"]) == ("Eve", "Ann")
    task = open_task("wsc", tmp_path)
    assert task.group(true) == task.group(false)
    assert task.original_group(true) == task.original_group(false)


def test_wsc_pairs_with_turned_labels_are_an_error(tmp_path):
    target = ROWS["wsc"]["target"]
    pair = {"text": ROWS["wsc"]["text"], "idx": 3, "true_target": {**target, "label": False}, "false_target": target}
    with pytest.raises(DataError, match="the label in 'true_target' must be true"):
        read("wsc", tmp_path, pair)


def test_record_makes_an_example_of_each_answer_in_training(tmp_path):
    first, second = read("record", tmp_path, ROWS["record"])
    assert first.meta["candidates"] == ["Ann", "Rome"]
    assert second.meta["candidates"] == ["Eve", "Rome"]
    assert first.text_a.endswith("- All well")
    task = open_task("record", tmp_path)
    assert task.group(first) == task.group(second)


def test_record_keeps_all_answers_of_a_question_together_elsewhere(tmp_path):
    (example,) = read("record", tmp_path, ROWS["record"], part="dev", name="val.jsonl")
    assert example.meta["candidates"] == ["Ann", "Eve", "Rome"]
    assert example.meta["answers"] == ["Ann", "Eve"]


def test_record_with_an_entity_outside_the_passage_is_an_error(tmp_path):
    passage = {**ROWS["record"]["passage"], "entities": [{"start": 0, "end": 400}]}
    with pytest.raises(DataError, match=r"line 1: the entity 0–400 is outside the passage"):
        read("record", tmp_path, {**ROWS["record"], "passage": passage})


def test_record_without_a_placeholder_is_an_error(tmp_path):
    qas = [{**ROWS["record"]["qas"][0], "query": "Who left?"}]
    with pytest.raises(DataError, match="must have one @placeholder"):
        read("record", tmp_path, {**ROWS["record"], "qas": qas})


@pytest.mark.parametrize(
    ("task", "sizes"),
    [
        ("boolq", (32, 32, 3270)),
        ("cb", (32, 32, 56)),
        ("copa", (64, 32, 100)),
        ("multirc", (154, None, 4848)),
        ("record", (44, 32, None)),
        ("rte", (32, 32, 277)),
        ("wic", (32, 32, 638)),
        ("wsc", (32, 32, 104)),
    ],
)
def test_fewglue_has_the_known_numbers_of_examples(task, sizes):
    opened = open_task(task, published_set("fewglue"))
    for part, size in zip(("train", "dev32", "dev"), sizes, strict=True):
        if size is not None:
            assert len(opened.examples(part)) == size


def test_the_order_of_records_candidates_does_not_depend_on_hashes():
    task = open_task("record", published_set("fewglue"))
    for example in task.examples("dev32"):
        assert example.meta["candidates"] == sorted(example.meta["candidates"])
