"""A task of the user's own as a Python file in FewNLU's style."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError, DataError, PluginError
from lmassay.evaluations.fewshot.tasks.nlu import open_task

# As FewNLU's document has it: get_labels() without self, a metric as a plain text, no constructor, no list of patterns.
FILE = """
from pathlib import Path
from typing import List

from lmassay.evaluations.fewshot import PVP, DataProcessor, InputExample, PVPOutputPattern


class MRPCPVP(PVP):
    VERBALIZER = {"1": ["Yes"], "0": ["No"]}

    def get_parts(self, example: InputExample) -> PVPOutputPattern:
        text_a = self.shortenable(example.text_a)
        text_b = self.shortenable(example.text_b)
        if not self.use_cloze:
            return [text_a], [text_b]
        elif not self.use_continuous_prompt:
            return ["Does ", text_a, " has the same meaning with ", text_b, "? ", [self.mask_id], "."], []
        else:
            return ["Does ", text_a, " has the same meaning with ", text_b, "? ", 1, [self.mask_id], "."], []

    def verbalize(self, label) -> List[str]:
        if not self.use_cloze:
            return []
        return MRPCPVP.VERBALIZER[label]


class MRPCDataProcessor(DataProcessor):
    def get_labels():
        return ["1", "0"]

    def _create_examples(self, path: str, set_type: str) -> List[InputExample]:
        examples = []
        for number, line in enumerate(Path(path).read_text().splitlines()):
            label, a, b = line.strip().split("\\t")
            examples.append(InputExample(guid=f"{set_type}-{number}", text_a=a, text_b=b, label=label))
        return examples


GLUE_METRICS = {"mrpc": "acc"}
GLUE_PVPS = {"mrpc": MRPCPVP}
GLUE_PROCESSORS = {"mrpc": MRPCDataProcessor}
"""


def opened(tmp_path, text=FILE, name="mine.py:mrpc", rows="1\tA cat.\tThe cat.\n"):
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    (tmp_path / "train.tsv").write_text(rows, encoding="utf-8")
    return open_task(name, tmp_path, tmp_path)


def test_the_documents_own_class_works(tmp_path):
    task = opened(tmp_path)
    assert (task.dataset, task.name, task.labels, task.metrics) == ("glue", "mrpc", ["1", "0"], ("acc",))
    (example,) = task.examples("train")
    assert task.cloze_text(example) == ("Does A cat. has the same meaning with The cat.? ", ".")
    assert task.verbalize("1") == ["Yes"]
    assert task.kind == "labels"
    assert task.group(example) == "train-0"


@pytest.mark.parametrize("folder", ["mrpc", "MRPC"])
def test_its_data_are_in_the_folder_named_after_the_task_in_any_case(tmp_path, folder):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "train.tsv").write_text("0\tA dog.\tA bird.\n", encoding="utf-8")
    for key in ("mrpc", "MRPC"):
        task = opened(tmp_path, FILE.replace('{"mrpc"', f'{{"{key}"'), name=f"mine.py:{key}")
        assert [example.label for example in task.examples("train")] == ["0"]


def test_its_pattern_has_masks_and_prompt_tokens(tmp_path):
    pytest.importorskip("transformers", reason="the hf extra is not installed")
    from tests.evaluations.fewshot.small_tokenizers import word_pieces

    task = opened(tmp_path)
    pvp = task.pvp(word_pieces("Yes", "No", "cat"), mode="ptuning", pattern_id=1)
    encoded = pvp.encode(task.examples("train")[0])
    assert len(encoded.prompts) == pvp.prompt_length == 1
    assert encoded.masks == [encoded.prompts[0] + 1]
    assert len(pvp.label_token_ids()) == 2


def test_a_label_without_a_word_is_named(tmp_path):
    task = opened(tmp_path, FILE.replace('return ["1", "0"]', 'return ["1", "0", "2"]'))
    with pytest.raises(ConfigError, match="MRPCPVP: the verbalizer of pattern 0 has no word for the label '2'"):
        task.verbalize("2")


def test_a_label_outside_get_labels_is_named_with_its_example(tmp_path):
    with pytest.raises(DataError, match="train-0 has the label 'x'; the labels are 1, 0"):
        opened(tmp_path, rows="x\ta\tb\n").examples("train")


def test_an_example_without_a_label_is_named(tmp_path):
    task = opened(tmp_path, FILE.replace("text_b=b, label=label", "text_b=b"))
    with pytest.raises(DataError, match="train-0 has no label"):
        task.examples("train")


def test_a_processor_that_fails_is_named_with_its_line(tmp_path):
    with pytest.raises(DataError, match=r"train data could not be read: ValueError.*mine\.py, line 34"):
        opened(tmp_path, rows="no tabs here\n").examples("train")


def test_a_processor_that_finds_nothing_is_an_error(tmp_path):
    with pytest.raises(DataError, match="there are no examples"):
        opened(tmp_path, rows="").examples("train")


def test_a_processor_that_returns_something_else_is_an_error(tmp_path):
    with pytest.raises(DataError, match="must return a list of InputExample"):
        opened(tmp_path, FILE.replace("return examples", "return dict()")).examples("train")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("GLUE_METRICS =", "METRICS =", "missing GLUE_METRICS; a file with tasks needs three dicts"),
        ('GLUE_PVPS = {"mrpc"', 'GLUE_PVPS = {"mrcp"', "GLUE_PVPS has no task 'mrpc'; did you mean 'mrcp'"),
        ("class MRPCPVP(PVP):", "class MRPCPVP:", "is not a subclass of lmassay.evaluations.fewshot.PVP"),
        (
            "class MRPCDataProcessor(DataProcessor):",
            "class MRPCDataProcessor:",
            "not a subclass of lmassay.evaluations.fewshot.Data",
        ),
        ("    def verbalize(self", "    def verbalise(self", "MRPCPVP lacks verbalize"),
        ('"mrpc": "acc"', '"mrpc": "accuracy"', "there is no metric 'accuracy'"),
        ('"mrpc": "acc"', '"mrpc": []', "at least one metric"),
        ('return ["1", "0"]', 'return ["1"]', r"get_labels\(\) must return a list of two or more strings"),
        ('return ["1", "0"]', 'return ["1", "1"]', "names a label twice"),
        ('return ["1", "0"]', "return 1 / 0", r"get_labels failed: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported(old, new, message, tmp_path):
    assert old in FILE
    with pytest.raises((PluginError, ConfigError), match=message):
        opened(tmp_path, FILE.replace(old, new))


def test_a_file_without_a_task_shows_those_it_has(tmp_path):
    with pytest.raises(PluginError, match=r"write mine\.py:NAME for one of its tasks \(mrpc\)"):
        opened(tmp_path, name="mine.py")


def test_the_file_itself_is_among_the_digests(tmp_path):
    assert set(opened(tmp_path).digests()) == {"file", "train"}


def test_a_pattern_number_the_class_does_not_list_is_left_to_the_class(tmp_path):
    assert opened(tmp_path).cloze_text(opened(tmp_path).examples("train")[0], 5)[1] == "."


def test_a_class_that_lists_its_patterns_is_held_to_them(tmp_path):
    lister = "    def available_patterns(self):\n        return [0, 3]\n\n"
    listed = FILE.replace("    def verbalize", f"{lister}    def verbalize")
    with pytest.raises(ConfigError, match="glue/mrpc has no cloze pattern 5; it has 0, 3"):
        opened(tmp_path, listed).pvp(None, pattern_id=5)
