"""A model as it is named on the command line."""

from __future__ import annotations

import re

import pytest

from lmassay.errors import ConfigError
from lmassay.running.model_spec import model_spec


def test_a_kind_stands_for_itself(tmp_path):
    assert model_spec("smollm2", tmp_path) == "smollm2"


def test_a_kind_and_a_model(tmp_path):
    assert model_spec("openai:gpt-x", tmp_path) == {"name": "openai", "model": "gpt-x"}


def test_a_folder_or_file_that_is_there_is_a_local_model(tmp_path):
    (tmp_path / "weights").mkdir()
    assert model_spec("weights", tmp_path) == {"name": "hf", "model": str(tmp_path / "weights")}
    assert model_spec("hf:weights", tmp_path) == {"name": "hf", "model": str(tmp_path / "weights")}


def test_anything_else_is_a_model_of_the_hub(tmp_path):
    assert model_spec("owner/name", tmp_path) == {"name": "hf", "model": "owner/name"}


def test_the_file_of_a_users_own_class_is_written_as_a_full_path(tmp_path):
    assert model_spec("mine.py:Mine", tmp_path) == f"{tmp_path / 'mine.py'}:Mine"


def test_options_come_in_brackets_or_in_a_file(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "weights").mkdir()
    (tmp_path / "deep" / "model.yaml").write_text("model: {name: hf, model: weights, kind: causal}\n", encoding="utf-8")
    spec = {"name": "hf", "model": str(tmp_path / "deep" / "weights"), "kind": "causal"}
    assert model_spec("deep/model.yaml", tmp_path) == spec
    assert model_spec("{name: hf, model: deep/weights, kind: causal}", tmp_path) == spec


def test_a_folder_called_like_a_served_model_is_not_taken_for_it(tmp_path):
    (tmp_path / "gpt-x").mkdir()
    assert model_spec("openai:gpt-x", tmp_path) == {"name": "openai", "model": "gpt-x"}
    assert model_spec("{name: openai, model: gpt-x}", tmp_path) == {"name": "openai", "model": "gpt-x"}


def test_a_file_may_describe_the_model_without_a_key_above_it(tmp_path):
    (tmp_path / "model.yaml").write_text("name: openai\nmodel: my-model\n", encoding="utf-8")
    assert model_spec("model.yaml", tmp_path) == {"name": "openai", "model": "my-model"}


def test_an_option_is_no_path_because_a_folder_is_called_like_it(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "data").mkdir()
    spec = model_spec("{name: 'mine.py:Mine', label: best, data: ./data}", tmp_path)
    assert spec == {"name": f"{tmp_path / 'mine.py'}:Mine", "label": "best", "data": str(tmp_path / "data")}


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        (" ", "the name is empty"),
        ("smolm2", "did you mean 'smollm2'?"),
        ("{name: openai", "do not match"),
        ("{name: openai, x: 2026-99-99}", "'2026-99-99' is not a date; put the value in quotes"),
        ("{a: " + "[" * 3000, "nested more than 40 levels deep"),
        ("{a: " + "[" * 50 + "]" * 50 + "}", "nested more than 40 levels deep"),
        ("{name: openai, model: x, model: y}", "the key 'model' appears twice"),
        ("{name: !!python/object:os.system x}", "not valid YAML: could not determine a constructor"),
        ("{name: openai, 1: x}", "the key '1' is not a text"),
        ("{model: x}", "the key 'name'"),
        ("missing.yaml", "missing.yaml"),
        ("own.py", "name the class in own.py as well: own.py:NAME"),
    ],
)
def test_a_mistake_is_reported_with_what_was_meant(tmp_path, word, hint):
    (tmp_path / "own.py").write_text("class Own: ...\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(hint)) as caught:
        model_spec(word, tmp_path)
    message = str(caught.value).replace(str(tmp_path), "")
    assert len(message) < 200
