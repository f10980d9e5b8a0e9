"""Verb lists: read strictly, built from base forms."""

from __future__ import annotations

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.syntax.lemmas import Lemma, build_verb_list, conjugate, read_verbs, shipped_verbs
from tests.helpers import lmassay, write_lines

HEADER = "idx,sing,plur,freq"


def test_the_shipped_list_holds_hundreds_of_verbs():
    verbs = read_verbs(shipped_verbs())
    assert len(verbs.lemmas) > 600
    assert {Lemma("is", "are"), Lemma("was", "were"), Lemma("has", "have")} <= set(verbs.lemmas)


def test_all_lemmas_count_though_their_index_is_the_same(tmp_path):
    file = write_lines(tmp_path / "v.csv", [HEADER, "_,laughs,laugh,_", "_,is,are,_"])
    assert read_verbs(file).lemmas == [Lemma("laughs", "laugh"), Lemma("is", "are")]


def test_duplicate_rows_are_counted_once_and_reported(tmp_path):
    verbs = read_verbs(write_lines(tmp_path / "v.csv", [HEADER, "0,is,are,_", "1,is,are,_"]))
    assert (len(verbs.lemmas), verbs.duplicates) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["idx,sing,freq", "_,is,_"], "line 1: the column 'plur' is missing.*; name the columns sing and plur"),
        (["is,are"], "the column 'sing' is missing"),
        ([HEADER], "lists no verbs"),
        ([HEADER, "_,is,are"], "line 2: 3 cells, but the header has 4"),
        ([HEADER, "_,is,is,_"], "line 2: both forms are 'is', so they cannot distinguish singular from plural"),
        ([HEADER, "_,,are,_"], "line 2: each form must be a single word"),
        ([HEADER, "_,has been,have been,_"], "each form must be a single word"),
        ([HEADER, "_,has\u00a0been,have,_"], "each form must be a single word"),
        ([], "is empty"),
    ],
)
def test_a_bad_list_is_reported_with_file_and_line(tmp_path, lines, words):
    with pytest.raises(DataError, match=words):
        read_verbs(write_lines(tmp_path / "v.csv", lines))


@pytest.mark.parametrize(
    ("base", "singular"),
    [
        ("laugh", "laughs"),
        ("carry", "carries"),
        ("play", "plays"),
        ("watch", "watches"),
        ("fix", "fixes"),
        ("buzz", "buzzes"),
        ("pass", "passes"),
        ("wish", "wishes"),
        ("go", "goes"),
        ("tattoo", "tattoos"),
        ("have", "has"),
        ("be", "is"),
        ("fine-tune", "fine-tunes"),
    ],
)
def test_english_verbs_are_conjugated(base, singular):
    assert conjugate(base).singular == singular


def test_a_built_list_is_sorted_numbered_and_joined_with_another():
    text = build_verb_list(["run", "be", "run"], [Lemma("eats", "eat")])
    assert text.splitlines() == [HEADER, "0,is,are,_", "1,eats,eat,_", "2,runs,run,_", "3,was,were,_"]


@pytest.mark.parametrize("word", ["give up", "run,", '"say"', "먹다", "x2", ""])
def test_what_cannot_be_an_english_verb_is_refused(word):
    with pytest.raises(DataError, match="cannot be a base form"):
        build_verb_list([word])


def test_a_cell_of_absurd_length_is_reported(tmp_path):
    with pytest.raises(DataError, match="line 2"):
        read_verbs(write_lines(tmp_path / "v.csv", [HEADER, f"_,{'x' * 200_000},y,_"]))


def test_the_command_builds_a_list_that_can_be_read(tmp_path):
    bases = write_lines(tmp_path / "bases.txt", ["laugh swim", "carry"])
    done = lmassay("verbs", bases, "-o", tmp_path / "v.csv", "--with", shipped_verbs())
    assert done.returncode == 0, done.stderr
    assert Lemma("swims", "swim") in read_verbs(tmp_path / "v.csv").lemmas
    missing = lmassay("verbs", tmp_path / "none.txt", "-o", tmp_path / "v.csv")
    assert missing.returncode == 2
    assert "does not exist" in missing.stderr
