"""``lmassay check`` shows how label words are tokenized, and refuses words that cannot work."""

import json

import pytest

from tests.helpers import lmassay, write_config, write_lines
from tests.tiny_models import save_model


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {family: save_model(folder / family, family) for family in ("gpt2", "roberta", "bert")}


@pytest.fixture
def check(tmp_path, models):
    """Check PET with these words on a model; pattern 0, or an ensemble of patterns."""

    def check(family, words, **task):
        labels = sorted(words)
        rows = [f"the customer swims {number},{labels[number % len(labels)]}" for number in range(16 * len(labels))]
        write_lines(tmp_path / "texts.csv", ["text,label", *rows[: len(rows) // 2]])
        write_lines(tmp_path / "tests.csv", ["text,label", *rows[len(rows) // 2 :]])
        description = {
            "data": {"train": "texts.csv", "dev": "tests.csv"},
            "fields": ["text"],
            "label": "label",
            "labels": labels,
            "patterns": ["{text} [mask]"],
            "words": words,
        }
        write_config(tmp_path / "texts.yaml", description)
        task = {"name": "fewshot", "data": "texts.yaml", "labelled": ["train"], "method": "pet", **task}
        model = {"name": "hf", "model": str(models[family])}
        config = write_config(tmp_path / "config.yaml", {"task": task, "model": model})
        return lmassay("check", config, "--json")

    return check


def test_the_tokens_of_every_label_word_are_shown(check):
    done = check("gpt2", {"a": "the", "b": ["나쁨", "author"]})
    (run,) = json.loads(done.stdout)["runs"]
    (fact,) = run["facts"]
    assert fact.startswith("label words of texts, pattern 0: the → ")
    assert "(1 token)" in fact
    assert "나쁨 → Ġ " in fact
    assert "(7 tokens)" in fact
    assert done.stderr == ""


def test_methods_without_label_words_show_none(check):
    done = check("bert", {"a": "the", "b": "author"}, method="sequence_classifier")
    assert json.loads(done.stdout)["runs"][0]["facts"] == []


@pytest.mark.parametrize(
    ("family", "words", "complaint"),
    [
        ("bert", {"a": "the", "b": "나쁨"}, "the word '나쁨' for the label 'b' is not in the vocabulary"),
        ("bert", {"a": "The", "b": "the"}, "the labels 'a' and 'b' have the same tokens (the)"),
        ("gpt2", {"a": "swims", "b": "swimsuit"}, "can never prefer 'b'; choose other words"),
        ("gpt2", {"a": "swims", "b": " swims"}, "have the same tokens"),
    ],
)
def test_words_that_cannot_work_are_refused(check, family, words, complaint):
    done = check(family, words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("family", "words"),
    [
        # With one mask per token, the longer word is read in another text.
        ("roberta", {"a": "swims", "b": "swimsuit"}),
        # The mean over several words may exceed the score of any single one.
        ("gpt2", {"a": ["swims", "author"], "b": "swimsuit"}),
    ],
)
def test_a_word_that_begins_another_one_is_allowed_where_both_can_win(check, family, words):
    assert check(family, words).returncode == 0
