"""YAML files that a pydantic model describes: all mistakes at once, each with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, ValidationInfo, field_validator

from lmassay.errors import ConfigError
from lmassay.plugins.yaml_models import Mistakes, YamlModel, read_model
from lmassay.storage.yamlfile import read_yaml


class Entry(YamlModel):
    text: str
    kind: Literal["question", "answer"] = "question"


class Description(YamlModel):
    labels: list[str] = Field(description="name the labels, e.g. [a, b]")
    folder: str | None = None
    entries: list[Entry] = Field(default_factory=list)
    words: dict[str, str] = Field(default_factory=dict)

    @field_validator("words")
    @classmethod
    def _check_words(cls, words: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        mistakes = Mistakes()
        for label in words:
            if label not in info.data.get("labels", words):
                mistakes.add(f"{{{label}}} is not a label", label)
        mistakes.report()
        return words


def written(folder: Path, text: str) -> Path:
    path = folder / "file.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_model(written(folder, text), Description)
    return str(caught.value).replace(f"{folder}/", "").split("\n")


def test_a_file_without_mistakes_is_the_model(tmp_path):
    described, file = read_model(written(tmp_path, "labels: [a]\nentries: [{text: x}]\n"), Description)
    assert described == Description(labels=["a"], entries=[Entry(text="x")])
    assert file.locate("labels: wrong") == f"{file.path}, line 1: labels: wrong"


def test_all_mistakes_are_reported_in_the_order_of_the_file(tmp_path):
    text = """\
words: {a: x, b: y, c: z}
entries:
  - {text: 3}
  - text: x
    kind: anwser
  - kind: answer
lables: [a]
"""
    assert mistakes(tmp_path, text) == [
        "file.yaml, line 3: entries[0].text: Input should be a valid string (got 3); put it in quotes",
        "file.yaml, line 5: entries[1].kind: Input should be 'question' or 'answer' (got 'anwser'); "
        "did you mean 'answer'?",
        "file.yaml, line 6: entries[2].text: this key is required",
        "file.yaml, line 7: lables: unknown key; did you mean 'labels'?",
        "file.yaml: labels: this key is required; name the labels, e.g. [a, b]",
    ]


def test_a_validator_reports_several_mistakes_below_its_field(tmp_path):
    assert mistakes(tmp_path, "labels: [a]\nwords:\n  a: x\n  b: y\n  c: z\n") == [
        "file.yaml, line 4: words.b: {b} is not a label",
        "file.yaml, line 5: words.c: {c} is not a label",
    ]


def test_an_unknown_key_inside_a_list_is_compared_with_those_known_there(tmp_path):
    (line,) = mistakes(tmp_path, "labels: [a]\nentries:\n  - {text: x, knid: answer}\n")
    assert line == "file.yaml, line 3: entries[0].knid: unknown key; did you mean 'kind'?"


def test_a_default_stands_in_for_a_key_and_does_not_replace_it(tmp_path):
    path = written(tmp_path, "folder: x\n")
    assert read_model(path, Description, labels=["a"], folder="y")[0] == Description(labels=["a"], folder="x")


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("a: x", ", line 1"),
        ("b.c: x", ", line 3"),
        ("b[1].c: x", ", line 4"),
        ("b[1].d.e: x", ", line 4"),
        ("b[7].c: x", ", line 2"),
        ("b.c: x (got 8)", ", line 4"),
        ("e: x", ""),
        ("no key", ""),
    ],
)
def test_a_message_is_located_at_the_nearest_key(tmp_path, message, line):
    path = written(tmp_path, "a: 1\nb:\n  - c: 7\n  - c: 8\n")
    where = " or 4" if message == "b.c: x" else ""
    assert read_yaml(path).locate(message) == f"{path}{line}{where}: {message}"
