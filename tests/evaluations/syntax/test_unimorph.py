"""Verb lists from lexicons in UniMorph's format, in several languages."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from lmassay.errors import ConfigError, DataError, UserError
from lmassay.evaluations.syntax.commands.actions.verbs import verbs as write_verbs
from lmassay.evaluations.syntax.lemmas import Lemma, read_verbs
from lmassay.evaluations.syntax.unimorph import BOTH_NUMBERS, ONE_SIDE, OTHER_SPELLINGS, SEVERAL_WORDS, verbs_of_lexicon
from tests.helpers import lmassay, write_lines


def lexicon(place, *rows):
    return write_lines(place / "lexicon", [row.replace(" ", "\t", 2) for row in rows])


GERMAN = [
    "gehen geht V;IND;PRS;3;SG",
    "gehen gehen V;IND;PRS;3;PL",
    "gehen geht V;IND;PRS;2;PL",
    "gehen gehe V;SBJV;PRS;3;SG",
    "gehen gehen V;NFIN",
    "lachen lacht V;IND;PRS;3;SG",
    "lachen lachen V;IND;PRS;3;PL",
]


def test_german_forms_are_third_person_present_indicative(tmp_path):
    verbs = verbs_of_lexicon(lexicon(tmp_path, *GERMAN))
    # "ihr geht" is plural, but not of the third person, so "geht" is not ambiguous.
    assert verbs.lemmas == [Lemma("geht", "gehen"), Lemma("lacht", "lachen")]
    assert not verbs.dropped


def test_forms_of_several_words_are_dropped_and_counted(tmp_path):
    file = tmp_path / "lexicon"
    write_lines(
        file,
        [
            *(row.replace(" ", "\t") for row in GERMAN),
            "ankommen\tkommt an\tV;IND;PRS;3;SG",
            "ankommen\tkommen an\tV;IND;PRS;3;PL",
        ],
    )
    verbs = verbs_of_lexicon(file)
    assert len(verbs.lemmas) == 2
    assert verbs.dropped == {SEVERAL_WORDS: ["kommt an", "kommen an"]}


def test_forms_that_are_singular_and_plural_are_dropped_and_counted(tmp_path):
    verbs = verbs_of_lexicon(
        lexicon(
            tmp_path,
            *GERMAN,
            "spille spiller V;IND;PRS;3;SG",
            "spille spiller V;IND;PRS;3;PL",
            # The plural of one verb is the singular of another.
            "aa ba V;IND;PRS;3;SG",
            "aa ca V;IND;PRS;3;PL",
            "bb ca V;IND;PRS;3;SG",
            "bb da V;IND;PRS;3;PL",
        )
    )
    assert verbs.lemmas == [Lemma("geht", "gehen"), Lemma("lacht", "lachen")]
    assert verbs.dropped == {BOTH_NUMBERS: ["spiller", "ca", "ca"]}


def test_a_verb_with_one_form_and_other_spellings_are_counted(tmp_path):
    verbs = verbs_of_lexicon(
        lexicon(
            tmp_path,
            "payer paie V;IND;PRS;3;SG",
            "payer paye V;IND;PRS;3;SG",
            "payer paient V;IND;PRS;3;PL",
            "falloir faut V;IND;PRS;3;SG",
        )
    )
    assert verbs.lemmas == [Lemma("paie", "paient")]
    assert verbs.dropped == {OTHER_SPELLINGS: ["paye"], ONE_SIDE: ["falloir"]}


@pytest.mark.parametrize(
    ("rows", "pair"),
    [
        (["читать читает V;PRS;3;SG", "читать читают V;PRS;3;PL", "читать читал V;PST;SG;MASC"], ("читает", "читают")),
        (["lopen loopt V;IND;PRS;3;SG", "lopen lopen V;IND;PRS;PL", "lopen loopt V;IMP;PL"], ("loopt", "lopen")),
        (["לרקוד רוקד V;SG;PRS;MASC", "לרקוד רוקדים V;PL;PRS;MASC"], ("רוקד", "רוקדים")),
        (["gehen geht V;IND;PRS;NOM(3,SG)", "gehen gehen V;IND;PRS;NOM(3,PL)"], ("geht", "gehen")),
        (["dire dit V|IND;PRS;3;SG\tdi|t", "dire disent V|IND;PRS;3;PL\tdis|ent"], ("dit", "disent")),
        (["a b N;SG", "gehen geht v;ind;prs;3;sg", "gehen gehen v;ind;prs;3;pl"], ("geht", "gehen")),
    ],
    ids=["Russian", "Dutch", "Hebrew", "nested features", "four columns", "lower case"],
)
def test_every_spelling_of_the_features_is_read(tmp_path, rows, pair):
    assert verbs_of_lexicon(lexicon(tmp_path, *rows)).lemmas == [Lemma(*pair)]


def test_other_features_can_be_chosen(tmp_path):
    rows = ["put puts V;PRS;3;SG", "put put V;NFIN", "put put V;PST"]
    verbs = verbs_of_lexicon(lexicon(tmp_path, *rows), "V;PRS;3;SG", "V;NFIN")
    assert verbs.lemmas == [Lemma("puts", "put")]


def test_forms_of_different_gender_are_not_a_pair(tmp_path):
    rows = [
        "לרקוד רוקד V;SG;PRS;MASC",
        "לרקוד רוקדת V;SG;PRS;FEM",
        "לרקוד רוקדים V;PL;PRS;MASC",
        "לרקוד רוקדות V;PL;PRS;FEM",
    ]
    file = lexicon(tmp_path, *rows)
    assert set(verbs_of_lexicon(file).lemmas) == {Lemma("רוקד", "רוקדים"), Lemma("רוקדת", "רוקדות")}
    assert verbs_of_lexicon(file, "V;PRS;SG;FEM", "V;PRS;PL;FEM").lemmas == [Lemma("רוקדת", "רוקדות")]
    done = lmassay("verbs", file, "-o", tmp_path / "v.csv")
    assert "agree in gender (FEM, MASC)" in done.stderr


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["gehen\tgeht"], "line 1: a row must be lemma, form and features with tabs between them"),
        (["gehen\tgeht\tV;PRS;3;SG", "gehen\t\tV;PRS;3;PL"], "line 2: a row must be"),
        (["gehen\tging\tV;PST;3;SG"], "has no verb with the forms .* --singular and --plural"),
    ],
)
def test_a_bad_lexicon_is_reported_with_line_and_remedy(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        verbs_of_lexicon(write_lines(tmp_path / "lexicon", lines))


def test_the_command_recognises_a_lexicon_and_reports_what_was_dropped(tmp_path):
    file = write_lines(
        tmp_path / "deu",
        [
            "\ufeffsein\tist\tV;IND;PRS;3;SG",
            "sein\tsind\tV;IND;PRS;3;PL",
            "",
            "ankommen\tkommt an\tV;IND;PRS;3;SG",
            "ankommen\tkommen an\tV;IND;PRS;3;PL",
        ],
    )
    done = lmassay("verbs", file, "-o", tmp_path / "german.csv")
    assert done.returncode == 0, done.stderr
    assert "dropped: 2 forms of several words (kommt an, kommen an)" in done.stderr
    assert read_verbs(tmp_path / "german.csv").lemmas == [Lemma("ist", "sind")]


def test_features_for_a_file_of_base_forms_are_refused(tmp_path):
    bases = write_lines(tmp_path / "bases.txt", ["laugh"])
    done = lmassay("verbs", bases, "--plural", "V;NFIN", "-o", tmp_path / "v.csv")
    assert done.returncode == 2
    assert "--singular and --plural are for a lexicon" in done.stderr


def test_features_for_a_lexicon_that_is_read_as_base_forms_are_refused(tmp_path):
    file = lexicon(tmp_path, *GERMAN)
    with pytest.raises(ConfigError, match=r"--singular and --plural are for a lexicon .*lexicon is read as base forms"):
        write_verbs(file, None, "bases", "V;IND;PRS;3;SG", None, tmp_path / "v.csv")


def test_verbs_are_not_written_to_a_file_that_is_called_like_standard_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bases = write_lines(tmp_path / "bases.txt", ["laugh"])
    with pytest.raises(UserError, match=r"-o -: the name must end in \.csv"):
        write_verbs(bases, None, "auto", None, None, Path("-"))
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("content", ["gehen\tgeht\tV;IND;PRS;3;SG\ngehen\tgehen\tV;IND;PRS;3;PL", "walk sing"])
def test_verbs_are_read_from_standard_input(tmp_path, monkeypatch, content):
    file = write_lines(tmp_path / "source", [content])
    write_verbs(file, None, "auto", None, None, tmp_path / "from_file.csv")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    write_verbs(Path("-"), None, "auto", None, None, tmp_path / "from_stdin.csv")
    assert (tmp_path / "from_stdin.csv").read_bytes() == (tmp_path / "from_file.csv").read_bytes()
    with pytest.raises(ConfigError, match="standard input can be read only once"):
        write_verbs(Path("-"), Path("-"), "auto", None, None, tmp_path / "both.csv")


def test_the_source_of_verbs_is_not_overwritten(tmp_path):
    file = write_lines(tmp_path / "source", ["walk sing"])
    with pytest.raises(DataError, match=r"-o .* would overwrite the file of SOURCE"):
        write_verbs(file, None, "auto", None, None, file)
