"""Where questions come from, and the data and prompts that come with lmassay."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from lmassay.answers.parser import parse
from lmassay.errors import DataError, UserError
from lmassay.evaluations.bias.sources import read_dataset
from tests.evaluations.bias.test_bbq import row, write
from tests.helpers import EVALUATIONS, ROOT
from tests.published_data import published_set

SAMPLE = EVALUATIONS / "bias/sample"
KOBBQ = ROOT / "tests" / "evaluations" / "bias" / "data"
SHIPPED = ROOT / "src" / "lmassay" / "evaluations" / "bias" / "prompts_data"
COLUMNS = ["prompt_id", "prompt", "instruction", "context", "question", "a", "b", "c", "answer", "unknown"]


def test_a_file_a_folder_and_a_pattern_of_bbq_are_the_same(tmp_path):
    write(tmp_path / "one.jsonl", [row()])
    write(tmp_path / "two.jsonl", [row(example_id=1)])
    assert [item.id for item in read_dataset("one.jsonl", tmp_path).items] == ["Age-1-0"]
    assert [item.id for item in read_dataset(str(tmp_path), Path("elsewhere")).items] == ["Age-1-0", "Age-1-1"]
    assert read_dataset("*.jsonl", tmp_path) == read_dataset(".", tmp_path)


def test_a_samples_file_of_kobbq_is_read():
    pytest.importorskip("lmassay.evaluations.bias.kobbq.samples")
    dataset = read_dataset("KoBBQ_test_samples.tsv", published_set("kobbq"))
    assert (dataset.kind, dataset.language, len(dataset.items)) == ("kobbq", "ko", 2280)


def test_a_place_is_looked_for_beside_the_configuration_first(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    write(tmp_path / "x.jsonl", [row(category="There")])
    monkeypatch.chdir(tmp_path)
    assert read_dataset("x.jsonl", tmp_path / "here").items[0].category == "There"
    write(tmp_path / "here" / "x.jsonl", [row(category="Here")])
    assert read_dataset("x.jsonl", tmp_path / "here").items[0].category == "Here"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (" ", "the path is empty"),
        ("nothing.jsonl", "there is no file or folder"),
        ("empty", "has no .jsonl file"),
        ("x.txt", "has a format that cannot be read"),
        ("x.*", "matches 2 files"),
        ("blank.jsonl", "has no questions"),
        ("none.jsonl", "is empty"),
    ],
)
def test_what_cannot_be_read_is_reported_with_what_can(tmp_path, data, message):
    (tmp_path / "empty").mkdir()
    for name, text in (("x.txt", "x"), ("x.csv", "x"), ("blank.jsonl", "\n\n"), ("none.jsonl", "")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_dataset(data, tmp_path)


def test_a_table_that_is_not_kobbqs_is_refused(tmp_path):
    pytest.importorskip("lmassay.evaluations.bias.kobbq.samples")
    (tmp_path / "x.tsv").write_text("id\tquestion\n1\twho\n", encoding="utf-8")
    with pytest.raises(UserError, match="sample_id"):
        read_dataset("x.tsv", tmp_path)


# --- the examples ----------------------------------------------------------------------------------------------------


def test_the_questions_of_the_demonstration_are_balanced():
    dataset = read_dataset("questions.yaml", SAMPLE)
    assert (dataset.name, dataset.language, len(dataset.items), list(dataset.notes)) == ("questions", "en", 64, [])
    templates = Counter(item.template for item in dataset.items)
    assert set(templates.values()) == {8}
    assert len(templates) == 8
    assert set(Counter(item.category for item in dataset.items).values()) == {16}
    cells = Counter((i.template, i.context_type, i.groups["polarity"], i.biased_context) for i in dataset.items)
    assert set(cells.values()) == {1, 2}
    for item in dataset.items:
        assert (item.context_type == "amb") == (item.correct == item.unknown)
        assert item.biased is not None
        people = [choice for place, choice in enumerate(item.choices) if place != item.unknown]
        assert all(person.lower() in item.context.lower() for person in people)
    for place in range(3):
        assert 20 <= sum(item.unknown == place for item in dataset.items) <= 22


def test_the_answers_of_the_demonstration_can_be_distinguished_in_words():
    for item in read_dataset("questions.yaml", SAMPLE).items:
        for place, choice in enumerate(item.choices):
            assert parse(f"The answer is {choice}.", item.choices).letter == "ABC"[place]


def test_the_korean_samples_of_the_demonstration_have_kobbqs_form():
    pytest.importorskip("lmassay.evaluations.bias.kobbq.samples")
    dataset = read_dataset("korean.tsv", KOBBQ)
    assert (dataset.kind, len(dataset.items), len({item.template for item in dataset.items})) == ("kobbq", 32, 4)
    for item in dataset.items:
        if item.context_type == "dis":
            assert item.biased_context == (item.groups["version"] == "b")
        assert item.choices[item.unknown] == "알 수 없음"
        assert all(choice in item.context for choice in item.choices if choice != "알 수 없음")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


@pytest.mark.parametrize(
    "path",
    [SHIPPED / "english.tsv", SHIPPED / "korean.tsv", KOBBQ / "prompts.tsv", KOBBQ / "prompts_debiased.tsv"],
    ids=lambda path: path.name,
)
def test_prompts_have_kobbqs_columns(path):
    prompts = rows(path)
    assert [prompt["prompt_id"] for prompt in prompts] == [str(n + 1) for n in range(len(prompts))]
    for prompt in prompts:
        assert list(prompt) == COLUMNS
        for label in ("context", "question", "a", "b", "c"):
            assert prompt[label] == f"{prompt[label].strip()} "
        assert prompt["answer"] == prompt["answer"].strip() != ""
        parts = [f"{prompt[name]}{{{name}}}" for name in ("context", "question", "a", "b", "c")]
        written = "\n".join([prompt["instruction"], "", *parts, prompt["answer"]])
        assert prompt["prompt"] == written.replace("\n", "\\n")
        assert bool(prompt["unknown"]) == (path.name != "english.tsv")
    assert len({prompt["instruction"] for prompt in prompts}) == len(prompts)
    if path.parent == SHIPPED:
        assert len({prompt["a"] for prompt in prompts}) == len(prompts) == 3


@pytest.mark.parametrize("path", [SHIPPED / "korean.tsv", KOBBQ / "prompts.tsv"], ids=lambda path: path.name)
def test_the_unknown_choice_of_a_korean_prompt_is_understood_in_other_words(path):
    for prompt in rows(path):
        choices = ("손자", "할머니", prompt["unknown"])
        assert parse("알 수 없습니다.", choices).letter == "C"
        assert parse(prompt["unknown"].replace("없음", "없습니다."), choices).letter == "C"


def test_the_debiased_prompts_are_the_others_with_an_example():
    for plain, debiased in zip(rows(KOBBQ / "prompts.tsv"), rows(KOBBQ / "prompts_debiased.tsv"), strict=True):
        assert debiased["instruction"].endswith(plain["instruction"])
        assert plain["unknown"] in debiased["instruction"]
        assert {name: plain[name] for name in COLUMNS[3:]} == {name: debiased[name] for name in COLUMNS[3:]}


def test_the_questions_are_lines_of_json_without_escapes():
    lines = (SAMPLE / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    assert all(json.dumps(json.loads(line), ensure_ascii=False) == line for line in lines)
