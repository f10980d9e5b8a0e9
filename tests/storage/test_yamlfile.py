"""YAML files with too much in them are refused with the right reason."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from lmassay.storage.yamlfile import read_brackets, read_mapping


def test_a_long_list_is_not_called_deeply_nested(tmp_path):
    file = tmp_path / "long.yaml"
    file.write_text(f"numbers: [{'1, ' * 100_001}]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"more than 100,000 values.*put long lists into a data file"):
        read_mapping(file)


def test_anchors_that_multiply_values_are_refused(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        references = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{references}]")
    file = tmp_path / "anchors.yaml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="more than 100,000 values, or anchors that multiply to as many"):
        read_mapping(file)


@pytest.mark.parametrize("level", ["[", "- ", "? "])
def test_deep_nesting_is_refused(tmp_path, level):
    file = tmp_path / "deep.yaml"
    file.write_text(level * 1_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="nested more than 40 levels deep"):
        read_mapping(file)


def test_forty_levels_are_accepted(tmp_path):
    file = tmp_path / "deep.yaml"
    file.write_text(f"key: {'[' * 40}{']' * 40}\n", encoding="utf-8")
    data, _ = read_mapping(file)
    assert str(data["key"]).count("[") == 40


def test_brackets_of_a_template_language_are_not_called_a_key_without_quotes(tmp_path):
    file = tmp_path / "template.yaml"
    file.write_text("task:\n  data: {{folder}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"line 2: a list or mapping in brackets is used as a key; .* in quotes$"):
        read_mapping(file)


def test_a_character_that_yaml_does_not_allow_is_named_with_its_line(tmp_path):
    file = tmp_path / "bell.yaml"
    file.write_text("a: 1\nb: x\x07\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"bell\.yaml, line 2: not valid YAML: the character '\\x07' is not allowed"):
        read_mapping(file)


def test_half_of_a_surrogate_pair_on_the_command_line_is_an_error_of_the_text():
    # Python decodes an argument that is not UTF-8 in this way.
    with pytest.raises(ConfigError, match=r"model: not valid YAML: the character '\\udcff' is not allowed"):
        read_brackets("{a: '\udcff'}", "model")
