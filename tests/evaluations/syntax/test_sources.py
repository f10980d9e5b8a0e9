"""What ``task.data`` names, and how runs name it. The pairs themselves are tested in test_pairs.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.syntax import sources
from lmassay.evaluations.syntax.grammar import grammar
from lmassay.evaluations.syntax.sources import constructions, label_of


@pytest.mark.parametrize(
    ("data", "label"),
    [
        ("pairs/simple.jsonl", "simple"),
        ("clams/de", "clams/de"),
        ({"name": "clams", "language": "de"}, "clams de"),
        ({"name": "clams", "language": ["de", "fr"]}, "clams (2 parts)"),
        ({"simple": "simple.jsonl", "nested": ["a.jsonl", "b.jsonl"]}, "2 constructions"),
    ],
)
def test_data_have_a_short_label(data, label):
    assert label_of(data) == label


@pytest.mark.parametrize(
    ("pattern", "files", "names"),
    [
        ("*/*.jsonl", ["a/one.jsonl", "b/two.jsonl"], ["one", "two"]),
        ("*/*.jsonl", ["a/one.jsonl", "b/one.jsonl"], ["a/one", "b/one"]),
        ("*/x/*.jsonl", ["a/x/one.jsonl", "b/x/one.jsonl"], ["a/x/one.jsonl", "b/x/one.jsonl"]),
        ("a", ["a/one.jsonl", "a/one.tsv"], ["one.jsonl", "one.tsv"]),
    ],
)
def test_files_of_the_same_name_are_different_constructions(tmp_path, pattern, files, names):
    for file in files:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n", encoding="utf-8")
    assert [pair_set.name for pair_set in constructions(pattern, tmp_path)] == names


def test_a_data_set_as_the_source_of_a_construction_is_refused_with_what_to_write(tmp_path):
    with pytest.raises(DataError, match="clams/de is a data set, which cannot be the source of one construction"):
        constructions({"German": "clams/de"}, tmp_path)


def test_a_grammar_in_the_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shipped = Path(grammar.__file__).parents[1] / "grammars/korean.yaml"
    (tmp_path / "own.yaml").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    assert constructions("~/own.yaml", tmp_path / "elsewhere")


def test_a_grammar_writes_its_pairs_once_as_long_as_there_is_room(monkeypatch):
    written = []
    write = grammar.Grammar.write
    monkeypatch.setattr(sources, "_cached_rows", {})
    monkeypatch.setattr(sources, "_MAX_CACHED_ROWS", 30)
    monkeypatch.setattr(
        grammar.Grammar, "write", lambda self, name, most: written.append(most) or write(self, name, most=most)
    )
    korean = grammar.load_grammar("korean")
    pairs = sources.GrammarPairs(korean, korean.constructions[0].name)
    for limit in (10, 10, 12, 10, 12, 14, 10, 40, 40):
        assert len(list(pairs.pairs(limit))) == limit
        assert sum(map(len, sources._cached_rows.values())) <= 30
    assert written == [10, 12, 14, 10, 40, 40]
