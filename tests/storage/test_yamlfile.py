"""YAML files with too much in them are refused with the right reason."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from lmassay.storage.yamlfile import read_mapping


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
