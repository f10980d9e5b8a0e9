"""What the shipped grammars write: right pairs, each once, balanced, and the same on every machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmassay.errors import ConfigError
from lmassay.evaluations.syntax.grammar.grammar import shipped_grammars
from tests.evaluations.syntax.grammars import everything, goods, pairs, shipped
from tests.published_data import published_set

MARVIN_LINZEN = {
    "simple_agrmt": 140,
    "sent_comp": 1_680,
    "vp_coord": 840,
    "long_vp_coord": 400,
    "prep_anim": 16_800,
    "prep_inanim": 5_040,
    "subj_rel": 11_200,
    "obj_rel_across_anim": 11_200,
    "obj_rel_across_inanim": 10_080,
    "obj_rel_no_comp_across_anim": 11_200,
    "obj_rel_no_comp_across_inanim": 10_080,
    "obj_rel_within_anim": 11_200,
    "obj_rel_within_inanim": 10_080,
    "obj_rel_no_comp_within_anim": 11_200,
    "obj_rel_no_comp_within_inanim": 10_080,
}


@pytest.fixture(scope="module", autouse=True)
def _rows_are_forgotten_in_the_end():
    yield
    everything.cache_clear()


# What the shipped grammars write


@pytest.mark.parametrize("name", MARVIN_LINZEN)
def test_marvin_and_linzens_pairs_are_written_again_to_the_last_one(name):
    def key(row):
        good, bad = (row[f"sentence_{side}"].lower().removesuffix(".") for side in ("good", "bad"))
        return good, bad, row["label"]

    text = (published_set("tse") / "ML" / f"{name}_all.jsonl").read_text(encoding="utf-8")
    published = {key(json.loads(line)) for line in text.splitlines()}
    rows = everything("marvin-linzen", name)
    assert {key(row) for row in rows} == published
    assert len(rows) == len(published)


def test_marvin_and_linzens_reflexives_and_polarity_items_are_there_too():
    names = [construction.name for construction in shipped("marvin-linzen").constructions]
    assert names[: len(MARVIN_LINZEN)] == list(MARVIN_LINZEN)
    further = names[len(MARVIN_LINZEN) :]
    assert len([name for name in further if "reflexive" in name]) == 3
    assert len([name for name in further if "npi" in name]) == 4


@pytest.mark.parametrize("name", shipped_grammars())
def test_every_set_of_a_shipped_grammar_is_fit_for_use(name):
    grammar = shipped(name)
    assert grammar.name == name
    assert grammar.about
    for construction in grammar.constructions:
        rows = everything(name, construction.name)
        written = pairs(rows)
        good, bad = {g for g, _ in written}, {b for _, b in written}
        assert len(set(written)) == len(written)
        assert not good & bad
        assert {row["construction"] for row in rows} == {construction.name}
        for row in rows[::7]:
            assert all(isinstance(value, str) and value for key, value in row.items() if key != "label")
        labels = Counter(row.get("label") for row in rows)
        assert set(labels) == {None} or labels[-1] == labels[-2] > 0
        assert len({row["noun"] for row in rows}) >= 6
        if name == "marvin-linzen":
            assert len(rows) == MARVIN_LINZEN.get(construction.name, len(rows))
        two_words = name == "marvin-linzen" and construction.name.startswith("npi_across")
        for g, b in written[::7]:
            assert len(g.split()) == len(b.split())
            assert sum(map(str.__ne__, g.split(), b.split())) == (2 if two_words else 1)


def test_the_label_names_the_number_of_the_right_form():
    rows = {row["sentence_good"]: row["label"] for row in everything("english", "simple")}
    assert rows["The child is hungry."] == rows["The story looks old."] == -1
    assert rows["The children are hungry."] == rows["The stories look old."] == -2


def test_the_attractor_is_the_noun_that_the_verb_does_not_agree_with():
    rows = {row["sentence_good"]: row for row in everything("marvin-linzen", "obj_rel_within_anim")}
    assert rows["the author that the guards like laughs"]["attractor"] == "mismatch"
    assert rows["the author that the guards like laughs"]["noun"] == "guard"
    assert rows["the authors that the guards like laugh"]["attractor"] == "match"
    assert rows["the author that the taxi driver hates is old"]["noun"] == "taxi driver"
    assert {row["attractor"] for row in everything("marvin-linzen", "vp_coord")} == {"none"}
    assert Counter(row["attractor"] for row in everything("marvin-linzen", "prep_inanim")) == {
        "match": 2_520,
        "mismatch": 2_520,
    }


@pytest.mark.parametrize(
    ("grammar", "construction"),
    [
        ("marvin-linzen", "sent_comp"),
        ("marvin-linzen", "reflexive_sent_comp"),
        ("english", "sentential_complement"),
        ("english", "reflexive_sentential_complement"),
        ("english", "determiner_noun"),
        ("english", "determiner_adjective_noun"),
    ],
)
def test_a_far_subject_is_no_attractor(grammar, construction):
    assert {row["attractor"] for row in everything(grammar, construction)} == {"none"}


@pytest.mark.parametrize("name", shipped_grammars())
def test_a_row_says_verb_where_a_verb_agrees_and_nowhere_else(name):
    for construction in shipped(name).constructions:
        contrasts = {row["contrast"] for row in everything(name, construction.name)}
        other = name == "korean" or re.search("reflexive|npi|determiner", construction.name)
        assert ("verb" not in contrasts) if other else (contrasts == {"verb"}), construction.name


def test_that_after_a_verb_of_seeing_is_not_taken_for_a_determiner():
    for name in ("determiner_noun", "determiner_adjective_noun"):
        assert not [good for good in goods(everything("english", name)) if "noticed" in good]


def test_a_korean_relative_clause_has_no_verb_of_giving():
    words = {word for good in goods(everything("korean", "honorific_across_relative")) for word in good.split()}
    assert not words & {"준", "주신"}
    assert "만드신" in words


def test_a_korean_noun_in_the_wrong_case_has_no_other_reading():
    written = pairs(everything("korean", "case"))
    assert ("지영아, 카메라를 찾아라.", "지영아, 카메라가 찾아라.") in written
    assert ("민수에게 책이 필요하다.", "민수에게 책을 필요하다.") in written
    # After a topic the noun could be what finds.
    assert not [good for good, _ in written if re.match(r"\w+[은는] ", good)]


def test_a_licensor_in_the_wrong_place_does_not_license():
    rows = everything("marvin-linzen", "npi_across_anim")
    assert rows[0]["sentence_good"] == "no authors that the guards like have ever been popular"
    assert rows[0]["sentence_bad"] == "the authors that no guards like have ever been popular"
    assert "label" not in rows[0]
    assert "attractor" not in rows[0]


def test_korean_particles_follow_the_word_before_them():
    grammar = shipped("korean")
    assert ("나는 책과 시계를 샀다.", "나는 책와 시계를 샀다.") in pairs(grammar.write("particle_and"))
    # The classifier is wrong, its own particle right.
    assert ("나는 학생 두 명을 보았다.", "나는 학생 두 마리를 보았다.") in pairs(grammar.write("classifier"))
    row = next(
        r for r in grammar.write("honorific_across_relative") if r["sentence_good"].startswith("동생이 할머니께서")
    )
    assert row["attractor"] == "mismatch"
    assert row["honorific"] == "plain"


# Samples


@pytest.fixture(scope="module")
def marvin_linzen():
    return shipped("marvin-linzen")


@settings(max_examples=12, deadline=None)
@given(most=st.integers(1, 900), seed=st.integers())
@example(most=1, seed=0)
@example(most=839, seed=0)
def test_a_sample_has_as_many_pairs_of_each_label_and_noun_as_can_be(marvin_linzen, most, seed):
    rows = marvin_linzen.write("vp_coord", seed=seed, most=most)
    assert len(rows) == (1 if most == 1 else min(most // 2 * 2, 840))
    assert len(set(pairs(rows))) == len(rows)
    labels = Counter(row["label"] for row in rows)
    assert most == 1 or labels[-1] == labels[-2]
    nouns = Counter((row["label"], row["noun"]) for row in rows)
    assert max(nouns.values()) - min(nouns.values()) <= 1


def test_a_sample_is_even_over_templates_and_attractors_too(marvin_linzen):
    rows = marvin_linzen.write("prep_anim", most=80)
    assert set(Counter((row["label"], row["noun"], row["attractor"]) for row in rows).values()) == {2}
    rows = shipped("english").write("across_pp", most=96)
    assert set(Counter((row["label"], row["template"]) for row in rows).values()) == {24}
    sides = Counter(row["final"] for row in shipped("korean").write("particle_object", most=41))
    assert sorted(sides.values()) == [20, 21]


def test_another_seed_draws_another_sample_and_the_same_seed_the_same(marvin_linzen):
    first, again, other = (marvin_linzen.write("sent_comp", seed=seed, most=50) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_hash_randomisation_changes_nothing():
    code = (
        "import hashlib, json; from lmassay.evaluations.syntax.grammar.grammar import load_grammar;"
        "g = load_grammar('korean');"
        "rows = [g.write(c.name, seed=3, most=40) for c in g.constructions];"
        "print(hashlib.sha256(json.dumps(rows).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def test_a_set_too_large_to_write_out_is_refused_and_can_be_sampled(written):
    words = {"inflects": "english noun", "words": [f"noun{i}x" for i in range(200)]}
    grammar = written(
        {"big": "the {Noun} near the {other:Noun not Noun} {Verb agrees Noun, contrast number}"}, Noun=words
    )
    with pytest.raises(ConfigError, match=r"constructions\.big: up to 320000 pairs.*--max"):
        grammar.write("big")
    rows = grammar.write("big", most=400)
    assert rows == grammar.write("big", most=400)
    assert len(set(pairs(rows))) == 400
    assert Counter(row["label"] for row in rows) == {-1: 200, -2: 200}
    nouns = Counter((row["label"], row["noun"]) for row in rows)
    assert set(nouns.values()) == {1}


@pytest.mark.parametrize("most", [0, -1])
def test_a_sample_of_nothing_is_refused(written, most):
    with pytest.raises(ConfigError, match="at least one pair"):
        written().write("simple", most=most)
