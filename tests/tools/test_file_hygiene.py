"""The hook for the ends of files and for large files."""

from __future__ import annotations

import pytest

from tools import file_hygiene


@pytest.mark.parametrize("content", [b"", b"a\n", b"a\r\n", b"\0binary", b"a\n\nb\n"])
def test_a_file_in_order_is_left_alone(content, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert file_hygiene.main([str(file)]) == 0
    assert file.read_bytes() == content


@pytest.mark.parametrize("content", [b"a", b"a\n\n", b"a\r\n\r\n"])
def test_the_end_of_a_text_is_corrected(content, tmp_path, capsys):
    file = tmp_path / "file"
    file.write_bytes(content)
    assert file_hygiene.main([str(file)]) == 1
    assert file.read_bytes() == b"a\n"
    assert "corrected" in capsys.readouterr().out


def test_a_large_file_is_refused(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_bytes(b"a" * (file_hygiene.LARGEST + 1))
    assert file_hygiene.main([str(file)]) == 1
    assert "500,001 bytes; the limit is 500,000" in capsys.readouterr().out
