"""A task of the user's own as a YAML file."""

from __future__ import annotations

import json

import pytest

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from tests.evaluations.fewshot.small_tokenizers import word_pieces
from tests.helpers import EVALUATIONS

STARTERS = EVALUATIONS / "fewshot/starters"
TASK = """\
name: same
data: {train: train.jsonl}
fields: [first, second]
labels: ["0", "1"]
words: {"0": "No", "1": ["Yes", "Right"]}
patterns:
  - '"{first}" or "{second.}"? [mask].'
  - pattern: "A: {first!}? B: [mask], {second}"
    words: {"0": "bad", "1": "good"}
metrics: [acc, f1]
"""


def written(tmp_path, text=TASK, rows=({"first": "A cat.", "second": "A dog.", "label": 1},)):
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "same.yaml").write_text(text, encoding="utf-8")
    return tmp_path / "same.yaml"


def mistakes(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        open_task(written(tmp_path, text))
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def test_fields_labels_words_and_metrics_are_those_of_the_file(tmp_path):
    task = open_task(written(tmp_path))
    assert (task.dataset, task.name, task.labels, task.metrics) == ("own", "same", ["0", "1"], ("acc", "f1"))
    (example,) = task.examples("train")
    assert (example.text_a, example.text_b, example.label) == ("A cat.", "A dog.", "1")
    assert task.verbalize("1") == ["Yes", "Right"]
    assert task.verbalize("1", 1) == ["good"]


def test_patterns_are_filled_with_the_fields(tmp_path):
    task = open_task(written(tmp_path))
    (example,) = task.examples("train")
    assert task.cloze_text(example, 0) == ('"A cat." or "A dog"? ', ".")
    assert task.cloze_text(example, 1) == ("A cat.? ", ", A dog.")


def test_without_ptuning_patterns_the_first_gets_prompt_tokens_before_its_mask(tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    task = open_task(written(tmp_path))
    assert task.patterns == {"cls": [0], "cloze": [0, 1], "ptuning": [1, 2, 3, 4]}
    encoded = task.pvp(word_pieces("A"), mode="ptuning", pattern_id=2).encode(task.examples("train")[0])
    assert [place + 2 for place in encoded.prompts] == [encoded.masks[0], encoded.masks[0] + 1]


def test_columns_may_have_other_names_than_fields(tmp_path):
    text = TASK.replace("fields: [first, second]", "fields: {first: text one, second: text two}\nlabel: gold")
    rows = [{"text one": "A cat.", "text two": "A dog.", "gold": "0"}]
    (example,) = open_task(written(tmp_path, text, rows)).examples("train")
    assert (example.text_a, example.label) == ("A cat.", "0")


def test_a_column_says_what_belongs_together(tmp_path):
    text = TASK + "question: doc\n"
    rows = [{"first": "a", "second": str(n), "label": "1", "doc": "d7"} for n in range(2)]
    task = open_task(written(tmp_path, text.replace("[acc, f1]", "[acc, em]"), rows))
    first, second = task.examples("train")
    assert task.group(first) == task.group(second) == "d7"
    assert task.question(first) == task.question(second) is not None


def test_a_folder_takes_the_place_of_the_files_named(tmp_path):
    path = written(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.jsonl").write_text(json.dumps({"first": "X", "second": "Y", "label": "0"}), encoding="utf-8")
    assert open_task(path, other).examples("train")[0].text_a == "X"


def test_a_misspelt_label_is_reported_with_the_likely_one(tmp_path):
    text = TASK.replace('["0", "1"]', "[other, same]").replace('"0":', "other:").replace('"1":', "same:")
    path = written(tmp_path, text, rows=[{"first": "a", "second": "b", "label": "smae"}])
    message = r"line 1: 'label' is 'smae'; the labels are other, same; did you mean 'same'\?"
    with pytest.raises(DataError, match=message):
        open_task(path).examples("train")


def test_a_row_without_any_text_is_an_error_with_its_line(tmp_path):
    rows = [{"first": "a", "second": "", "label": "1"}, {"first": " ", "second": "", "label": "1"}]
    path = written(tmp_path, rows=rows)
    with pytest.raises(
        DataError, match=r"line 2: 'first' and 'second' must not be empty; fill in the row or remove it"
    ):
        open_task(path).examples("train")


def test_a_label_outside_the_task_is_an_error_with_its_line(tmp_path):
    path = written(tmp_path, rows=[{"first": "a", "second": "b", "label": "2"}])
    with pytest.raises(DataError, match=r"train\.jsonl, line 1: 'label' is '2'; the labels are 0, 1"):
        open_task(path).examples("train")


def test_the_files_digests_hold_the_yaml_and_the_data(tmp_path):
    assert set(open_task(written(tmp_path)).digests()) == {"file", "train"}


def test_all_mistakes_are_reported_at_once_with_key_and_line(tmp_path):
    text = (
        TASK.replace("[acc, f1]", "[acc, f2]")
        .replace("{second.}", "{secnd}")
        .replace("name: same", "nmae: same")
        .replace('"0": "bad", ', "")
        .replace("train.jsonl}", "gone.jsonl}")
    )
    assert mistakes(tmp_path, text) == [
        "same.yaml, line 1: nmae: unknown key; did you mean 'name'?",
        "same.yaml, line 2: data.train: there is no file gone.jsonl; check the path (got 'gone.jsonl')",
        "same.yaml, line 7: patterns[0].pattern: there is no field 'secnd'; did you mean 'second'?",
        "same.yaml, line 9: patterns[1].words: the label '0' has no word",
        "same.yaml, line 10: metrics: there is no metric 'f2'; available: acc, em, f1, f1-macro",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("? [mask].", "?", "line 7: patterns[0].pattern: the pattern has no [mask]; it must have 1"),
        ("? [mask].", "? [mask] [mask]", "line 7: patterns[0].pattern: the pattern has 2 [mask]; it must have 1"),
        (
            "? [mask].",
            "? <2> [mask].",
            "line 7: patterns[0].pattern: continuous prompt tokens (<…>) belong under 'ptuning'",
        ),
        ('["0", "1"]', '["0"]', "line 4: labels: name two or more labels in their order"),
        ('["0", "1"]', "[0, 1]", "line 4: labels[0]: Input should be a valid string (got 0); put it in quotes"),
        ('["0", "1"]', '["1", "1"]', "line 4: labels: '1' appears twice"),
        ('"0": "No"', '"0": "Yes"', "line 5: words.1: the word 'Yes' already belongs to '0'"),
        ('"0": "No"', '"0": no', "line 5: words.0[0]: Input should be a valid string (got False); put it in quotes"),
        ('"0": "No"', '"2": "No"', "line 5: words.2: this is not a label; the labels are 0, 1"),
        ("fields: [first, second]", "", "fields: this key is required; name the columns with the texts"),
        ("train: train.jsonl", "trian: train.jsonl", "(got 'trian'); did you mean 'train'?"),
        ("train: train.jsonl", "train: train.txt", "line 2: data.train: must be a file that ends in"),
        ("train: train.jsonl", "trian: train.jsonl", "line 2: data.trian: Input should be 'train', "),
        ("data: {train: train.jsonl}", "data: train.jsonl", "line 2: data: must be a mapping, name: value"),
        ("data: {train: train.jsonl}", "", "data: this key is required; name the files, e.g. {train: train.jsonl"),
        ("fields: [first, second]", "fields: {first: 1, second: b}", "line 3: fields.first: Input should be a valid"),
        ('words: {"0": "bad", "1": "good"}', "word: x", "line 9: patterns[1].word: unknown key; did you mean 'words'?"),
        ('words: {"0": "No", "1": ["Yes", "Right"]}', "", "patterns[0]: the pattern has no words; give them"),
        ('"0": "No"', '"0": []', "line 5: words.0: Value should have at least 1 item"),
        ("name: same", "name: 7", "line 1: name: Input should be a valid string (got 7); put it in quotes"),
        ("name: same", "name: ' same'", "line 1: name: must not begin or end with a blank (got ' same')"),
        ("[acc, f1]", "[em]", "line 10: metrics: 'em' is computed per question"),
        ("name: same", "name: [1]", "line 1: name: Input should be a valid string (got [1])"),
    ],
)
def test_a_mistake_is_reported_with_key_line_and_remedy(old, new, message, tmp_path):
    assert old in TASK
    messages = mistakes(tmp_path, TASK.replace(old, new))
    assert any(message in line and line.startswith("same.yaml") for line in messages)


def test_ptuning_patterns_need_prompt_tokens_and_different_numbers_of_them(tmp_path):
    text = TASK + "ptuning:\n  - '{first} [mask]'\n  - '{first} <1> [mask]'\n  - '<1> {first} [mask]'\n"
    messages = mistakes(tmp_path, text)
    assert "ptuning[0]: the pattern has no continuous prompt tokens" in messages[0]
    assert "ptuning[2]: another pattern has 1 prompt token; this number is the id" in messages[1]


def test_a_classifier_may_have_its_own_input(tmp_path):
    text = TASK + "classifier: '{second} || {first}'\n"
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    task = open_task(written(tmp_path, text))
    tokenizer = word_pieces("cat", "dog")
    encoded = task.pvp(tokenizer, mode="cls").encode(task.examples("train")[0])
    decoded = tokenizer.decode(encoded.ids)
    assert decoded.index("dog") < decoded.index("cat")


def test_the_python_example_splits_its_data_at_line_breaks_only(tmp_path):
    row = {"sentence1": "One\u2028line.", "sentence2": "The\u0085same.", "label": "1"}
    for part in ("train", "dev", "unlabeled"):
        (tmp_path / f"{part}.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    (example,) = open_task("mrpc.py:mrpc", tmp_path, STARTERS).examples("train")
    assert (example.text_a, example.text_b) == (row["sentence1"], row["sentence2"])


def test_the_yaml_example_is_the_task_of_the_python_example():
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    tokenizer = word_pieces("Does", "has", "the", "same", "meaning", "with", "Yes", "No")
    yaml = open_task("mrpc.yaml", None, STARTERS)
    python = open_task("mrpc.py:mrpc", STARTERS / "mrpc", STARTERS)
    assert (yaml.labels, yaml.metrics) == (python.labels, python.metrics)
    for mode, number in (("cls", 0), ("cloze", 0), ("ptuning", 1)):
        encoded = []
        for task in (yaml, python):
            pvp = task.pvp(tokenizer, mode=mode, pattern_id=number)
            encoded.append([pvp.encode(e) for part in ("train", "dev", "unlabeled") for e in task.examples(part)])
        assert encoded[0] == encoded[1]
        assert len(encoded[0]) == 19


@pytest.mark.parametrize(
    ("column", "name", "written_id"), [("id", "49", 49), ("idx", "49", "49"), ("id", "doc", "doc")]
)
def test_two_rows_with_the_same_id_are_an_error_with_both_lines(tmp_path, column, name, written_id):
    rows = [{"first": "a", "second": "b", "label": "1", column: value} for value in (name, 50, written_id)]
    path = written(tmp_path, TASK if column == "idx" else TASK + "id: id\n", rows)
    message = rf"train\.jsonl, line 3: '{column}' is {name} as in line 1; ids must be unique"
    with pytest.raises(DataError, match=message):
        open_task(path).examples("train")


def test_rows_without_an_id_are_named_by_their_line(tmp_path):
    rows = [{"first": "a", "second": "b", "label": "1", "idx": None} for _ in range(2)]
    assert len(open_task(written(tmp_path, TASK, rows)).examples("train")) == 2
