"""A task by its name: data, groups, questions, gaps and words."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import open_task, task_names
from lmassay.storage.files import sha256
from tests.evaluations.fewshot.tasks.superglue.test_processors import ROWS, folder, read


def example(task, tmp_path):
    return read(task, tmp_path, ROWS[task])[0]


def test_a_short_name_means_the_superglue_task():
    assert (open_task("rte").dataset, open_task("RTE").name) == ("superglue", "rte")
    assert open_task("glue/rte").dataset == "glue"


def test_all_eight_superglue_tasks_are_known():
    assert {f"superglue/{name}" for name in ROWS} <= set(task_names())


def test_an_unknown_task_is_named_with_its_neighbour():
    with pytest.raises(ConfigError, match=r"no few-shot task 'superglue/rtee'; did you mean 'superglue/rte'\?"):
        open_task("superglue/rtee")


def test_data_may_be_the_tasks_own_folder_or_the_one_above(tmp_path):
    inner = tmp_path / "RTE"
    inner.mkdir()
    folder(inner, ROWS["rte"])
    assert open_task("rte", tmp_path).examples("train") == open_task("rte", inner).examples("train")


def test_a_relative_folder_starts_from_the_base(tmp_path):
    (tmp_path / "data").mkdir()
    folder(tmp_path / "data", ROWS["rte"])
    assert open_task("rte", "data", tmp_path).has("train")


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        open_task("rte", tmp_path / "nowhere")


def test_a_folder_without_the_task_is_an_error_that_shows_what_is_there(tmp_path):
    (tmp_path / "CB").mkdir()
    with pytest.raises(DataError, match="nor a folder named rte; it has CB"):
        open_task("rte", tmp_path)


def test_a_task_without_data_says_so_when_they_are_needed():
    with pytest.raises(ConfigError, match="superglue/rte needs data"):
        open_task("rte").examples("train")


def test_a_part_that_is_not_there_is_named(tmp_path):
    task = open_task("rte", folder(tmp_path, ROWS["rte"]))
    assert not task.has("unlabeled")
    with pytest.raises(DataError, match=r"no unlabeled data: there is no unlabeled\.jsonl"):
        task.examples("unlabeled")


def test_a_part_is_read_once(tmp_path):
    task = open_task("rte", folder(tmp_path, ROWS["rte"]))
    assert task.examples("train") is task.examples("train")


def test_digests_are_those_of_the_files(tmp_path):
    task = open_task("rte", folder(tmp_path, ROWS["rte"]))
    assert task.digests() == {"train": sha256(tmp_path / "train.jsonl")}


@pytest.mark.parametrize(
    ("task", "kind"), [("rte", "labels"), ("copa", "choices"), ("wsc", "referent"), ("record", "entities")]
)
def test_a_task_says_what_its_answers_are(task, kind):
    assert open_task(task).kind == kind


def test_a_mirrored_copy_belongs_to_its_original(tmp_path):
    task = open_task("copa", folder(tmp_path, ROWS["copa"]))
    original, copy = task.examples("train")
    assert task.group(original) == task.group(copy)
    assert task.original_group(original) == task.original_group(copy)


def test_mirrored_copies_can_be_added_once_and_taken_away(tmp_path):
    task = open_task("copa", folder(tmp_path, ROWS["copa"], name="dev32.jsonl"))
    plain = task.examples("dev32")
    both = task.with_mirrored(plain)
    assert [e.label for e in both] == ["0", "1"]
    assert task.with_mirrored(both) == both
    assert task.without_mirrored(both) == plain


def test_other_tasks_have_nothing_to_mirror(tmp_path):
    task = open_task("rte", folder(tmp_path, ROWS["rte"]))
    assert task.with_mirrored(task.examples("train")) == task.examples("train")


def test_all_answers_to_a_question_and_all_questions_of_a_passage_are_one_group(tmp_path):
    row = json.loads(json.dumps(ROWS["multirc"]))
    row["passage"]["questions"].append(
        {"question": "Why?", "idx": 6, "answers": [{"text": "x", "idx": 10, "label": 0}]}
    )
    task = open_task("multirc", folder(tmp_path, row))
    a, b, c = task.examples("train")
    assert task.group(a) == task.group(b) == task.group(c)
    assert task.question(a) == task.question(b) != task.question(c)
    assert task.original_group(a) == task.original_group(b) != task.original_group(c)


def test_tasks_without_questions_have_none(tmp_path):
    assert open_task("rte").question(example("rte", tmp_path)) is None


def test_one_passage_is_one_group_in_boolq(tmp_path):
    task = open_task("boolq", folder(tmp_path, ROWS["boolq"], {**ROWS["boolq"], "question": "is it dry", "idx": 4}))
    first, second = task.examples("train")
    assert task.group(first) == task.group(second)
    assert task.original_group(first) != task.original_group(second)


@pytest.mark.parametrize(
    ("task", "pattern", "before", "after"),
    [
        ("rte", 0, '"It is wet"? ', ', "It rains."'),
        ("rte", 4, "It rains. question: It is wet. True or False? answer: ", ""),
        ("rte", 5, "It rains. Question: It is wet? Answer: ", "."),
        ("boolq", 0, "Rain falls. Question: is it wet? Answer: ", "."),
        ("boolq", 4, "Based on the following passage, is it wet? ", ". Rain falls."),
        ("multirc", 1, 'Rain falls. Question: What falls? Is the correct answer "Rain"? ', "."),
        ("multirc", 3, "Rain falls. What falls - [", "] Rain"),
        ("wic", 0, '"I run." / "A run." Similar sense of "run"? ', "."),
        ("wic", 2, 'run. Sense (1) (a) "I run." (', ') "A run."'),
        ("copa", 0, '"wet" or "dry"? It rained, so ', "."),
        ("wsc", 0, "Ann met Eve because *she* asked. The pronoun '*she*' refers to ", "."),
        ("record", 0, "Ann met Eve in Rome.\n- All well Then ", " left."),
    ],
)
def test_the_gap_stands_in_text_that_reads_well(task, pattern, before, after, tmp_path):
    assert open_task(task).cloze_text(example(task, tmp_path), pattern) == (before, after)


def test_a_possessive_follows_the_gap_without_a_space(tmp_path):
    qas = [{**ROWS["record"]["qas"][0], "query": "Then @placeholder's friend left."}]
    (first, _) = read("record", tmp_path, {**ROWS["record"], "qas": qas})
    assert open_task("record").cloze_text(first)[1] == "'s friend left."


def test_words_and_choices_need_no_tokenizer(tmp_path):
    assert open_task("rte").verbalize("entailment") == ["Yes"]
    assert open_task("rte").verbalize("entailment", 10) == ["Yes", "true"]
    assert open_task("copa").choice_texts(example("copa", tmp_path)) == ["wet", "dry"]
    assert open_task("wsc").choice_texts(example("wsc", tmp_path)) == ["Eve"]
    assert open_task("record").choice_texts(example("record", tmp_path)) == ["Ann", "Rome"]
    assert open_task("rte").choice_texts(example("rte", tmp_path)) == []


def test_an_example_of_another_task_is_named():
    with pytest.raises(DataError, match="train-1: this is not an example of WicPVP"):
        open_task("wic").cloze_text(InputExample("train-1", "a", "b", "T"))


def test_a_pattern_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(ConfigError, match="superglue/copa has no cloze pattern 7; it has 0, 1"):
        open_task("copa").pvp(None, pattern_id=7)


def test_tasks_work_without_torch_and_transformers():
    code = (
        "import sys; from lmassay.evaluations.fewshot.tasks import yaml_task, nlu, python_file; "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_half_a_surrogate_pair_is_refused_by_the_name_of_its_example(tmp_path):
    row = '{"premise": "a\\ud800b", "hypothesis": "c", "label": "entailment", "idx": 0}\n'
    (tmp_path / "train.jsonl").write_text(row, encoding="utf-8")
    with pytest.raises(DataError, match="train-0 contains half a surrogate pair"):
        open_task("rte", tmp_path).examples("train")
