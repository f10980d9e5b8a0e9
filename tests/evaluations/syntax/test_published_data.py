"""Published data sets by name: ``data: blimp``, ``data: clams/de``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.syntax import sources
from lmassay.evaluations.syntax.sentences import MinimalPairs
from lmassay.evaluations.syntax.task import Syntax
from tests.helpers import write_lines


def test_a_whole_data_set_has_a_construction_for_each_file(fetched):
    fetched("blimp")
    task = MinimalPairs("blimp", max_per_file=2)
    assert task.size() == 134
    assert task.label == "blimp"
    # BLiMP's published results are part of the data set, but they are not pairs.
    assert {example.groups["phenomenon"] for example in task.examples()} >= {"island_effects", "binding"}


def test_a_part_is_selected_by_its_name_or_by_labels(fetched):
    fetched("clams")
    by_name = sources.constructions("clams/de", Path())
    assert len(by_name) == 7
    assert by_name[0].name == "de/long_vp_coord"
    by_label = sources.constructions({"name": "clams", "language": "de"}, Path())
    assert sources.signature_of(by_name) == sources.signature_of(by_label)
    both = sources.constructions({"name": "clams", "language": "de", "construction": "simple_agrmt"}, Path())
    assert [construction.name for construction in both] == ["de/simple_agrmt"]
    assert len(sources.constructions("clams", Path())) == 28


@pytest.mark.parametrize(("name", "paradigms", "first_phenomenon"), [("rublimp", 45, "Word Formation")])
def test_a_table_brings_its_groups(fetched, name, paradigms, first_phenomenon):
    fetched(name)
    examples = list(MinimalPairs(name, max_per_file=1).examples())
    assert len({example.groups["paradigm"] for example in examples}) == paradigms
    assert examples[0].groups["phenomenon"] == first_phenomenon


def test_pairs_of_one_file_keep_their_paradigms(fetched):
    fetched("jblimp")
    examples = list(MinimalPairs("jblimp").examples())
    assert len(examples) == 331
    assert len({example.groups["paradigm"] for example in examples}) > 10


def test_blanks_are_read_by_name_too(fetched):
    fetched("tse")
    task = Syntax({"name": "tse", "set": "ML", "construction": "simple_agrmt"})
    assert task.label == "tse ML simple_agrmt"
    assert task.size() > 0


class LeftToRight:
    """What the task reads of a model that does not see the text behind the blank."""

    sees_right = False


@pytest.mark.parametrize("language", ["de", "fr", "he", "ru"])
def test_clams_has_a_blank_a_noun_and_a_construction_in_every_language(fetched, language):
    fetched("clams")
    task = Syntax({"name": "clams", "language": language, "construction": "simple_agrmt"})
    task.check_model(LeftToRight())
    examples = list(task.examples())
    assert {example.groups["construction"] for example in examples} == {f"{language}/simple_agrmt"}
    assert not any("problem" in example.inputs for example in examples)
    # Ten or twenty nouns, although neither nouns nor numbers are labelled.
    assert len({example.groups["noun"] for example in examples}) == len(examples) / 2
    (note,) = [note for note in task.notes() if "verb list" in note]
    assert f"no verb list for the language '{language}'" in note


def test_a_verb_list_in_the_language_gives_numbers_to_all_verbs(fetched, tmp_path):
    fetched("clams")
    verbs = write_lines(tmp_path / "german.csv", ["sing,plur", "ist,sind"])
    task = Syntax({"name": "clams", "language": "de", "construction": "simple_agrmt"}, verbs=verbs)
    task.check_model(LeftToRight())
    assert [example.reference for example in task.examples()].count("plural") == 10
    assert not any("is in the verb list" in note or "clear number" in note for note in task.notes())
    assert any("the verb list german.csv has only 1 verb," in note for note in task.notes())


def test_a_masked_model_does_not_get_pairs_whose_adjective_gives_the_answer_away(fetched):
    fetched("clams")
    task = Syntax({"name": "clams", "language": "fr", "construction": "simple_agrmt"})
    reasons = [example.inputs["problem"] for example in task.examples() if "problem" in example.inputs]
    assert len(reasons) == 120
    assert set(reasons) == {"words after the verb differ as well, and this model sees them"}


def test_a_data_set_that_was_not_fetched_is_one_line_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path))
    with pytest.raises(DataError, match="run lmassay data get blimp"):
        sources.constructions("blimp", Path())


def test_a_folder_of_the_same_name_takes_precedence(tmp_path):
    (tmp_path / "blimp").mkdir()
    pair = {"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps."}
    write_lines(tmp_path / "blimp" / "own.jsonl", [json.dumps(pair)])
    assert [construction.name for construction in sources.constructions("blimp", tmp_path)] == ["own"]


def test_a_construction_may_be_called_name(tmp_path):
    """Only the name of a data set makes a mapping a selection."""
    pair = {"sentence_good": "Cats sleep.", "sentence_bad": "Cats sleeps."}
    write_lines(tmp_path / "own.jsonl", [json.dumps(pair)])
    assert [construction.name for construction in sources.constructions({"name": "own.jsonl"}, tmp_path)] == ["name"]
