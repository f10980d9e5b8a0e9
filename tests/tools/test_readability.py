"""The script that measures how easy code is to read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.readability import COLUMNS, main, measure

SOURCE = '''"""A docstring does not count."""

# Why the next line is needed.
squares = [number * number for number in range(10)]


class Shape:
    """Neither does this one."""

    def area(self, factor):
        return (
            factor if factor
            else 1
        )
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "one.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "two.py").write_text('class Shape:\n    size = f"{1 + 2}"\n', encoding="utf-8")
    return tmp_path


def test_figures_equal_a_count_by_hand(package: Path) -> None:
    measurement = measure([package])
    assert measurement.files == 2
    # one.py: squares, class, def, and four lines of return; two.py: two lines.
    assert measurement.code_lines == 9
    assert measurement.statements == 6
    # squares 14, class 3, def 8, return 8; class 3, size 3 (an f-string is one token).
    assert measurement.tokens == 14 + 3 + 8 + 8 + 3 + 3
    assert measurement.inline_expressions == 2
    assert measurement.comment_lines == 1


def test_classes_of_one_name_are_listed_with_their_locations(package: Path) -> None:
    duplicates = measure([package]).duplicate_classes
    assert list(duplicates) == ["Shape"]
    assert [location.rpartition("/")[2] for location in duplicates["Shape"]] == ["one.py:7", "two.py:1"]


def test_the_table_has_our_figures_the_goals_and_other_projects(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(package), "--worst", "3"])
    lines = capsys.readouterr().out.splitlines()
    assert all(column in lines[0] for column in COLUMNS)
    names = [line[:20].strip() for line in lines[1:4]]
    assert names == ["this code", "goal", "httpx ae1b9f66"]
    assert any(line.startswith("duplicate class Shape") for line in lines)


def test_a_path_that_does_not_exist_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "nothing")])
    assert "does not exist" in capsys.readouterr().err


def test_a_reformatted_copy_leaves_the_original_alone(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ruff", reason="ruff is not installed")
    before = (package / "one.py").read_text(encoding="utf-8")
    main([str(package), "--reformat", "--json"])
    assert (package / "one.py").read_text(encoding="utf-8") == before
    # The return statement fits on one line of our length.
    assert '"code lines": 6' in capsys.readouterr().out
