"""A grammar writes minimal pairs: right ones, each once, balanced, and the same on every machine."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from functools import cache

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lmassay.syntax.grammar
import lmassay.syntax.grammar_words
from lmassay.cli.grammar import grammar as command
from lmassay.errors import ConfigError, DataError, UserError
from lmassay.syntax.grammar import load_grammar, shipped_grammars
from lmassay.syntax.grammar_notation import parse
from lmassay.syntax.grammar_source import Misfit
from lmassay.syntax.grammar_words import Feature, english_noun, english_verb, hangul_final
from tests.helpers import ROOT

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
SMALL = """
features:
  number: {sg: -1, pl: -2}
  animacy: [animate, inanimate]
  polarity: [negative, positive]
irregular:
  be: {sg: is, pl: are}
lexicon:
  Noun: {inflects: english noun, words: [cook, waiter, boss]}
  Guest: {inflects: english noun, words: [guest, critic]}
  Verb: {inflects: english verb, words: [sing, be late]}
  Like: {inflects: english verb, words: [like]}
  Det: {inflects: polarity, words: [{negative: "no", positive: the}]}
  Said: [said, knew]
constructions:
  simple: the {Noun} {Verb agrees Noun, contrast number}
"""
AGREES = "{Verb agrees Noun, contrast number}"


@pytest.fixture
def written(tmp_path):
    """Loads SMALL with other constructions, or with other entries in its lexicon."""

    def load(constructions=None, **lexicon):
        data = yaml.safe_load(SMALL)
        data["lexicon"] |= lexicon
        data["constructions"] = constructions or data["constructions"]
        path = tmp_path / "small.yaml"
        path.write_text(yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=1000), encoding="utf-8")
        return load_grammar(path)

    return load


@cache
def shipped(name):
    return load_grammar(name)


@cache
def everything(grammar, construction):
    """All rows of a shipped grammar's construction; not to be changed."""
    return shipped(grammar).write(construction)


@pytest.fixture(scope="module", autouse=True)
def _rows_are_forgotten_in_the_end():
    yield
    everything.cache_clear()


def goods(rows):
    return [row["sentence_good"] for row in rows]


def pairs(rows):
    return [(row["sentence_good"], row["sentence_bad"]) for row in rows]


# What the shipped grammars write


@pytest.mark.parametrize("name", MARVIN_LINZEN)
def test_marvin_and_linzens_pairs_are_written_again_to_the_last_one(name, shared):
    def key(row):
        good, bad = (row[f"sentence_{side}"].lower().removesuffix(".") for side in ("good", "bad"))
        return good, bad, row["label"]

    text = (shared / "data" / "tse" / "ML" / f"{name}_all.jsonl").read_text(encoding="utf-8")
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
        found = pairs(rows)
        good, bad = {g for g, _ in found}, {b for _, b in found}
        assert len(set(found)) == len(found)
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
        for g, b in found[::7]:
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
        found = {row["contrast"] for row in shipped(name).write(construction.name, most=40)}
        other = name == "korean" or re.search("reflexive|npi|determiner", construction.name)
        assert ("verb" not in found) if other else (found == {"verb"}), construction.name


def test_that_after_a_verb_of_seeing_is_not_taken_for_a_determiner():
    for name in ("determiner_noun", "determiner_adjective_noun"):
        assert not [good for good in goods(everything("english", name)) if "noticed" in good]


def test_a_korean_relative_clause_has_no_verb_of_giving():
    words = {word for good in goods(everything("korean", "honorific_across_relative")) for word in good.split()}
    assert not words & {"준", "주신"}
    assert "만드신" in words


def test_a_korean_noun_in_the_wrong_case_has_no_other_reading():
    found = pairs(everything("korean", "case"))
    assert ("지영아, 카메라를 찾아라.", "지영아, 카메라가 찾아라.") in found
    assert ("민수에게 책이 필요하다.", "민수에게 책을 필요하다.") in found
    # After a topic the noun could be what finds.
    assert not [good for good, _ in found if re.match(r"\w+[은는] ", good)]


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
        "import hashlib, json; from lmassay.syntax.grammar import load_grammar; g = load_grammar('korean');"
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


# The language


def test_a_small_grammar_writes_what_one_expects(written):
    rows = written(Noun={"inflects": "english noun", "words": ["boss"]}).write("simple")
    assert pairs(rows) == [
        ("the boss sings", "the boss sing"),
        ("the boss is late", "the boss are late"),
        ("the bosses sing", "the bosses sings"),
        ("the bosses are late", "the bosses is late"),
    ]
    assert rows[0] == {
        "sentence_good": "the boss sings",
        "sentence_bad": "the boss sing",
        "label": -1,
        "construction": "simple",
        "template": "simple",
        "noun": "boss",
        "contrast": "verb",
        "attractor": "none",
    }


def test_words_may_be_left_out_and_named_choices_are_recorded(written):
    rows = written({"c": "the {Noun sg} (that) {verb:runs|} (up) {Verb agrees Noun, contrast number}"}).write("c")
    assert {"the cook sings", "the cook that sings", "the cook that runs up sings"} <= set(goods(rows))
    assert Counter(row["verb"] for row in rows) == {"runs": 24, "none": 24}


def test_agreement_can_point_forward_and_be_limited_to_a_feature(written):
    this = {"inflects": "number", "words": [{"sg": "this", "pl": "these"}]}
    rows = written({"c": "{This agrees Noun in number, contrast number} {Noun}"}, This=this).write("c")
    assert ("these cooks", "this cooks") in pairs(rows)
    assert rows[0]["noun"] == "cook"


def test_born_features_select_words_for_each_other(written):
    lexicon = {
        "Person": {"inflects": "english noun", "animacy": "animate", "words": ["cook"]},
        "Thing": {"inflects": "english noun", "animacy": "inanimate", "words": ["spoon"]},
        "Any": {"includes": ["Person", "Thing"]},
        "Act": {
            "inflects": "english verb",
            "words": [{"run": {"animacy": "animate"}}, {"rust": {"animacy": "inanimate"}}],
        },
    }
    rows = written({"c": "the {Any} {Act agrees Any, contrast number}"}, **lexicon).write("c")
    assert sorted(goods(rows)) == ["the cook runs", "the cooks run", "the spoon rusts", "the spoons rust"]
    assert {row["animacy"] for row in rows} == {"animate", "inanimate"}


def test_a_slot_can_be_unlike_another_and_follows_it(written):
    grammar = written(
        {"c": "{Det negative, contrast polarity} {Noun pl, head} and {second:Det unlike Det} {Guest pl} sing"}
    )
    assert pairs(grammar.write("c"))[0] == ("no cooks and the guests sing", "the cooks and no guests sing")


def test_a_sentence_that_is_right_both_ways_is_left_out(written):
    sheep = {"inflects": "english noun", "words": ["cook", {"sheep": {"pl": "sheep"}}]}
    rows = written({"c": "the {Noun} {Verb agrees Noun, contrast number}"}, Noun=sheep).write("c")
    assert {row["noun"] for row in rows} == {"cook"}
    # Where another word tells the number, the pair stays.
    rows = written(
        {"c": "the {Noun} {Verb agrees Noun} and {second:Verb agrees Noun, not Verb, contrast number}"}, Noun=sheep
    ).write("c")
    assert ("the sheep sings and is late", "the sheep sings and are late") in pairs(rows)


def test_a_word_with_equal_forms_and_a_value_is_left_out_too(written):
    sheep = {"inflects": "number", "words": [{"sg": "cook", "pl": "cooks"}, {"sg": "sheep", "pl": "sheep"}]}
    rows = written({"c": "the {Noun pl} {Verb agrees Noun, contrast number}"}, Noun=sheep).write("c")
    assert pairs(rows) == [("the cooks sing", "the cooks sings"), ("the cooks are late", "the cooks is late")]
    assert {(row["noun"], row["attractor"]) for row in rows} == {("cook", "none")}


def test_a_value_says_what_is_right_beside_words_that_do_not_decide(written):
    text = "{Det negative, contrast polarity} {Noun pl, head} that {inner:Det positive, %s} {Guest pl} like ever sing"
    (first, *_) = written({"c": text % "attractor"}).write("c")
    assert first["sentence_bad"] == "the cooks that the guests like ever sing"
    assert (first["attractor"], first["contrast"]) == ("mismatch", "det")
    assert "attractor" not in written({"c": text % "bystander"}).write("c")[0]


def test_a_bystander_is_no_attractor_and_neither_is_its_verb(written):
    text = "the {Guest%s} {Like agrees Guest} that the {Noun} {Verb agrees Noun, contrast number}"
    assert {row["attractor"] for row in written({"c": text % ""}).write("c")} == {"match", "mismatch"}
    assert {row["attractor"] for row in written({"c": text % " bystander"}).write("c")} == {"none"}


@pytest.mark.parametrize(
    ("category", "entry", "contrast"),
    [
        ("Act", {"inflects": "english verb", "words": ["run"]}, "verb"),
        ("VERBS", {"inflects": "number", "words": [{"sg": "runs", "pl": "run"}]}, "verb"),
        ("Act", {"inflects": "number", "words": [{"sg": "runs", "pl": "run"}]}, "act"),
        ("Act", {"inflects": "number", "contrast": "Verb", "words": [{"sg": "runs", "pl": "run"}]}, "verb"),
        ("Verb2", {"inflects": "english verb", "contrast": "copula", "words": ["be here"]}, "copula"),
        ("Either", {"includes": ["Verb", "Like"]}, "verb"),
        ("Either", {"includes": ["Noun", "Like"]}, "either"),
        ("Either", {"includes": ["Noun", "Like"], "contrast": "word"}, "word"),
    ],
)
def test_the_contrast_of_a_row_is_verb_or_what_the_category_is_called(written, category, entry, contrast):
    text = f"the {{Guest}} {{{category} agrees Guest, contrast number}}"
    rows = written({"c": text}, **{category: entry}).write("c")
    assert {row["contrast"] for row in rows} == {contrast}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (r"the {Noun} \(sic\) ", "the cook (sic) sings"),
        (r"the {Noun} (\(sic\)) ", "the cook (sic) sings"),
        (r"the {Noun} {\{a\|b\}|c} ", "the cook {a|b} sings"),
        (r"the {Noun} {time:3\:00|4\:00} \\ ", "the cook 3:00 \\ sings"),
    ],
)
def test_a_backslash_makes_a_sign_a_sign(written, text, sentence):
    assert sentence in goods(written({"c": text + AGREES}).write("c"))


def test_a_pair_of_equal_sentences_or_met_before_is_not_written(written):
    same = {"inflects": "english verb", "words": ["sing", {"put": {"sg": "put", "pl": "put"}}]}
    grammar = written({"c": {"templates": {"a": "the {Noun} {Verb agrees Noun, contrast number}"}}}, Verb=same)
    assert len(grammar.write("c")) == 6
    text = "the {Noun} {Verb agrees Noun, contrast number}"
    twice = written({"c": {"templates": {"a": text, "b": f"(the) {text.removeprefix('the ')}"}}})
    assert Counter(row["template"] for row in twice.write("c")) == {"a": 12, "b": 12}


def test_a_contrast_with_many_values_makes_a_pair_with_each_wrong_one():
    rows = shipped("korean").write("classifier")
    wrong = [bad for good, bad in pairs(rows) if good == "나는 학생 두 명을 보았다."]
    assert len(wrong) == 3


def test_case_and_full_stop_are_the_grammars_choice(tmp_path):
    path = tmp_path / "g.yaml"
    path.write_text(f'capitalise: true\nend: "!"\n{SMALL}', encoding="utf-8")
    assert load_grammar(path).write("simple")[0]["sentence_bad"] == "The cook sing!"


def test_factors_stand_in_every_row(written):
    text = "the {Noun} {Verb agrees Noun, contrast number}"
    rows = written({"c": {"template": text, "factors": {"distance": "short"}}}).write("c")
    assert {row["distance"] for row in rows} == {"short"}


word = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=6)


@settings(max_examples=25, deadline=None)
@given(st.lists(word, min_size=1, max_size=4, unique=True), st.lists(word, min_size=2, max_size=4, unique=True))
def test_any_lexicon_gives_clean_pairs(tmp_path_factory, nouns, verbs):
    data = yaml.safe_load(SMALL)
    data["lexicon"]["Noun"]["words"] = nouns
    data["lexicon"]["Verb"]["words"] = verbs
    data["constructions"] = {
        "c": "the {Noun} (often) {Verb agrees Noun} and {second:Verb agrees Noun, not Verb, contrast number}"
    }
    path = tmp_path_factory.mktemp("any") / "g.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    try:
        rows = load_grammar(path).write("c")
    except ConfigError as error:
        assert "writes no pair" in str(error)
        return
    found = pairs(rows)
    assert len(set(found)) == len(found)
    assert not {g for g, _ in found} & {b for _, b in found}
    for good, bad in found:
        assert sum(map(str.__ne__, good.split(), bad.split())) == 1


# Words


@pytest.mark.parametrize(
    ("lemma", "plural"),
    [
        ("author", "authors"),
        ("taxi driver", "taxi drivers"),
        ("boss", "bosses"),
        ("story", "stories"),
        ("boy", "boys"),
        ("church", "churches"),
        ("chef", "chefs"),
        ("fox", "foxes"),
        ("old man", "old men"),
    ],
)
def test_english_nouns_inflect_at_their_end(lemma, plural):
    assert english_noun(lemma, {"man": ("man", "men")}) == (lemma, plural)


@pytest.mark.parametrize(
    ("lemma", "singular", "plural"),
    [
        ("laugh", "laughs", "laugh"),
        ("be tall", "is tall", "are tall"),
        ("carry a bag", "carries a bag", "carry a bag"),
        ("go home", "goes home", "go home"),
        ("play", "plays", "play"),
        ("wash", "washes", "wash"),
    ],
)
def test_english_verbs_inflect_at_their_beginning(lemma, singular, plural):
    assert english_verb(lemma, {"be": ("is", "are")}) == (singular, plural)


@given(st.integers(ord("가"), ord("힣")).map(chr))
def test_final_consonants_are_read_as_unicode_decomposes_them(syllable):
    read = hangul_final(Feature("final", ("closed", "open"), {}))
    assert read(f"x{syllable}") == ("closed" if len(unicodedata.normalize("NFD", syllable)) == 3 else "open")


@pytest.mark.parametrize("module", [lmassay.syntax.grammar, lmassay.syntax.grammar_words])
def test_the_examples_in_the_docstrings_run(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


# Mistakes


@given(st.text("{}()|:\\\\, aNnotcontrastagrees한", max_size=40))
def test_any_text_is_a_template_or_a_mistake_that_is_told(text):
    try:
        parsed = parse(text, {"pl": "number"})
    except Misfit as misfit:
        assert str(misfit)
    else:
        assert len(parsed.literals) == len(parsed.slots) + 1


TEMPLATE_MISTAKES = {
    "the {Nuon} {Verb agrees Nuon, contrast number}": r"no category 'Nuon'; .*Noun",
    "the {Noun} {Verb agrees Nuon, contrast number}": r"refers to 'Nuon', but no slot has that name",
    "the {Noun} {Verb agrees Noun}": r"no slots have a contrast; exactly one must",
    "the {Noun} {Like agrees Noun, contrast number} {Verb agrees Noun, contrast number}": r"2 slots have a contrast",
    "the {Noun} {Said, contrast number}": r"'Said' cannot contrast number: 'Said' inflects for nothing",
    "the {Noun} {Verb agrees Noun, contrast polarity}": r"cannot contrast polarity: 'Verb' inflects for number",
    "the {Noun} {Verb agrees Noun, contrast numbre}": r"no feature 'numbre' to contrast; did you mean 'number'",
    "the {Noun} {Verb contrast number}": r"nothing says which number is right in the slot 'Verb'",
    "the {Noun} {Said agrees Noun} {Verb agrees Noun, contrast number}": r"no feature in common",
    "the {Noun} {Noun} {Verb agrees Noun, contrast number}": r"two slots are called 'Noun'",
    "the {Noun plural} {Verb agrees Noun, contrast number}": r"says 'plural', which is neither the value",
    "the {Noun negative} {Verb agrees Noun, contrast number}": r"the slot 'Noun' has no polarity",
    "the {Noun sg pl} {Verb agrees Noun, contrast number}": r"both sg and pl",
    "the {Noun} {Verb pl agrees Noun, contrast number}": r"told twice what its number is",
    "the {Noun agrees Verb} {Verb agrees Noun, contrast number}": r"wait for each other",
    "the {Noun agrees Guest} {Guest agrees Noun} {Verb pl, contrast number}": r"wait for each other",
    "the {Noun} {Verb agrees Verb, contrast number}": r"refers to itself",
    "the {Noun} {Verb agrees, contrast number}": r"after 'agrees' comes the name of a slot",
    "the {Noun {Verb agrees Noun, contrast number}": r"a '\{' without its partner",
    "the {Noun} (that {Guest}) {Verb agrees Noun, contrast number}": r"neither stands inside the other",
    "the {Noun head} {Guest head} {Verb agrees Noun, contrast number}": r"both marked head",
    "the {Noun} {a|a} {Verb agrees Noun, contrast number}": r"the same words twice",
    "the {Noun} {label:a|b} {Verb agrees Noun, contrast number}": r"'label' has a meaning in each row already",
    "the {Noun} {Verb agrees Noun in polarity, contrast number}": r"the slot 'Verb' has no polarity",
    "the {Noun} {Verb agrees Noun in numbr, contrast number}": r"no feature 'numbr'; did you mean 'number'",
    "the {} {Verb agrees Noun, contrast number}": r"cannot be the name of a slot",
    "the {Noun pl} {Verb pl, contrast number}": r"'Noun' has a number too; write 'agrees Noun' in 'Verb'",
    "the {Noun head} {Verb pl, contrast number}": r"the slot 'Verb' agrees with no other in number",
    "the {Noun pl} {Like pl} and {Verb agrees Like, contrast number}": r"write 'agrees Noun' in 'Like'",
    "the {Noun attractor bystander} {Verb pl, contrast number}": r"marked attractor and bystander",
    "the {Noun|Guest} {Verb pl, contrast number}": r"'Noun' is a category; .*Either: \{includes: \[Noun, …\]\}",
    "the {who:the cook|Guest pl} {Verb pl, contrast number}": r"'Guest pl' is written as it stands .*'Guest' is a cat",
    "the {Noun} (Said) {Verb agrees Noun, contrast number}": r"'Said' is a category; .*write two templates",
    "the {Noun} (a|b) {Verb agrees Noun, contrast number}": r"one of these words or none is \{a\|b\|\}",
    r"the {Noun} \n {Verb agrees Noun, contrast number}": r"a '\\' stands only before one of .*got '\\n'",
    "the {Noun} {Verb agrees Noun, contrast number} \\": r"a '\\' stands only before",
    r"the {Noun\|Guest} {Verb pl, contrast number}": r"the slot \{Noun\|Guest\} has a '\\'",
    "the {Noun} :) {Verb agrees Noun, contrast number}": r"for the sign itself write '\\\)'",
}


@pytest.mark.parametrize(("template", "message"), TEMPLATE_MISTAKES.items())
def test_a_mistake_in_a_template_is_told_with_its_place(written, template, message):
    with pytest.raises(ConfigError, match=message) as caught:
        written({"mine": template})
    assert re.match(r".*small\.yaml, line \d+: constructions\.mine: ", str(caught.value))


LEXICON_MISTAKES = [
    ({"Noun": {"inflects": "english noun", "words": []}}, "the category has no words"),
    (
        {"Noun": {"inflects": "english nuon", "words": ["a"]}},
        "neither a feature nor a rule; did you mean 'english noun'",
    ),
    ({"Noun": {"inflect": "number", "words": ["a"]}}, "unknown key 'inflect'; did you mean 'inflects'"),
    ({"Noun": {"inflects": "number", "words": ["a"]}}, "'a' has no form for 'sg'"),
    ({"Noun": {"inflects": "number", "words": [{"sg": "a", "plu": "b"}]}}, "'plu' is neither .*; did you mean 'pl'"),
    ({"Noun": {"inflects": "english noun", "words": ["a", "a"]}}, "'a' is there twice"),
    (
        {"Noun": {"inflects": "english noun", "number": "sg", "words": ["a"]}},
        "inflect for number, so it cannot be fixed",
    ),
    ({"Said": [False]}, "YAML reads a word such as yes, no, on or off"),
    ({"Said": [3]}, "3 is no text; put it in quotes"),
    ({"Said": {"animacy": "anim", "words": ["a"]}}, "'anim' is no value of animacy; did you mean 'animate'"),
    ({"Said": [{"a": {"animacy": "animate"}}, "b"]}, r"other words have a animacy; write \{b: \{animacy: …\}\} too"),
    ({"Said": {"animacy": "hangul", "words": ["a"]}}, "'a' does not end in a Hangul syllable"),
    ({"Said": {"includes": ["Nuon"]}}, "no category 'Nuon' with words of its own; .*Noun"),
    ({"Said": {"includes": ["Noun", "Det"]}}, "'Noun' and 'Det' have different features"),
    ({"Said": {"contrast": " ", "words": ["a"]}}, "contrast: give a word such as 'verb'"),
    ({"Said": {"includes": ["Noun"], "words": ["a"]}}, "no words or features of its own"),
]


@pytest.mark.parametrize(("lexicon", "message"), LEXICON_MISTAKES)
def test_a_mistake_in_the_lexicon_is_told_with_its_place(written, lexicon, message):
    with pytest.raises(ConfigError, match=message) as caught:
        written(**lexicon)
    assert re.match(r".*small\.yaml, line \d+: lexicon\.(Noun|Said)", str(caught.value))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("features:", "feature:", "unknown key 'feature'; did you mean 'features'"),
        ("lexicon:", "capitalise:", "the key 'lexicon' is required"),
        ("[animate, inanimate]", "[animate]", r"line 4: features\.animacy: give two or more values"),
        ("[animate, inanimate]", "[animate, pl]", "'pl' is a value of number already"),
        ("{sg: -1, pl: -2}", "{sg: 1, pl: 2}", r"labels are -1 \(singular\) and -2 \(plural\)"),
        ("{sg: -1, pl: -2}", "{sg: -1, pl: -1}", r"features\.number: two values have the same label"),
        ("{sg: -1, pl: -2}", "{sg: -1.0, pl: -2}", r"labels are -1"),
        ("animacy:", "contrast:", "'contrast' means something else"),
        ("animacy:", "noun:", "'noun' means something else"),
        ("be: {sg: is, pl: are}", "be: {sg: is}", r"irregular\.be: give all of its forms"),
        ("  simple: the", "  ../simple: the", "the name becomes a file name"),
        ("  simple: the", "  simple: [1]\n  other: the", r"constructions\.simple: give a template in quotes"),
        ("  Said:", "  Noun:", "the key 'Noun' was given already in line 9"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path, old, new, message):
    path = tmp_path / "g.yaml"
    assert old in SMALL
    path.write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_grammar(path)


@pytest.mark.parametrize("name", ["CON", "con", "nul.x", "Com1", "lpt9.pairs"])
def test_a_name_that_windows_keeps_for_a_device_is_refused(written, name):
    with pytest.raises(ConfigError, match=rf"constructions\.{re.escape(name)}: .*Windows keeps this one for a device"):
        written({name: f"the {{Noun}} {AGREES}"})


@pytest.mark.parametrize(("first", "second"), [("simple", "Simple"), ("é", "É"), ("가", "\u1100\u1161")])
def test_names_that_are_one_file_on_some_systems_are_refused(written, first, second):
    text = f"the {{Noun}} {AGREES}"
    with pytest.raises(ConfigError, match=rf"the name and '{first}' are one file"):
        written({first: text, second: text})
    assert len(written({"con_1": text, "console": text, "com": text}).constructions) == 3


@pytest.mark.parametrize("content", ["", "# nothing\n", "- a\n", "words"])
def test_a_file_that_is_no_mapping_is_told(tmp_path, content):
    path = tmp_path / "g.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"g\.yaml: the file must be a mapping of keys to values"):
        load_grammar(path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"templates": {}}, "has no templates"),
        ({"template": "a", "templates": {"a": "b"}}, "give either 'template'"),
        ({"template": "the {Noun} " + AGREES, "factor": {}}, "unknown key 'factor'; did you mean 'factors'"),
        ({"template": "the {Noun} " + AGREES, "factors": {"noun": "x"}}, "'noun' has a meaning in each row"),
        ({"template": "the {Noun} " + AGREES, "factors": {"contrast": "x"}}, "'contrast' has a meaning in each row"),
        ({"template": "the {Noun} {x:a|b} " + AGREES, "factors": {"x": "y"}}, "'x' has a meaning in each row"),
        (
            {"templates": {"a": "the {Noun} " + AGREES, "b": "{Det negative, contrast polarity} {Noun}"}},
            "contrast the same feature",
        ),
    ],
)
def test_a_mistake_in_a_construction_is_told_with_its_place(written, entry, message):
    with pytest.raises(ConfigError, match=rf"constructions\.mine: .*{message}"):
        written({"mine": entry})


def test_a_labelled_pair_that_differs_in_two_words_is_refused(written):
    verb = {"inflects": "number", "words": [{"sg": "does sing", "pl": "sing"}]}
    with pytest.raises(
        ConfigError, match=r"constructions\.simple: 'the cook does sing' and .* must differ in one word"
    ):
        written(Verb=verb).write("simple")


def test_a_construction_without_a_pair_is_refused(written):
    verb = {"inflects": "number", "words": [{"sg": "sang", "pl": "sang"}]}
    with pytest.raises(ConfigError, match="writes no pair"):
        written(Verb=verb).write("simple")


def test_an_unknown_name_is_told_with_the_nearest_one(tmp_path):
    with pytest.raises(ConfigError, match="no grammar 'koraen'; did you mean 'korean'"):
        load_grammar("koraen")
    with pytest.raises(DataError, match="does not exist"):
        load_grammar(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match="no construction 'smple'"):
        shipped("english").write("smple")


def test_whatever_stands_in_a_grammar_it_is_accepted_or_a_mistake_is_told(tmp_path):
    path = tmp_path / "g.yaml"
    strange = [None, [None], {"a": {"b": "c"}}]
    for place in _places(yaml.safe_load(SMALL)):
        for value in strange:
            data = yaml.safe_load(SMALL)
            inside = data
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = value
            path.write_text(json.dumps(data), encoding="utf-8")
            try:
                load_grammar(path)
            except UserError as error:
                assert "g.yaml" in str(error)


def _places(value, place=()):
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        yield from _places(inside, (*place, key))


# The command


def run(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_write_makes_a_file_a_construction(tmp_path):
    done = run("write", "korean", "-o", tmp_path / "new" / "pairs", "--only", "tense, case", "--max", 20, "--seed", 5)
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (tmp_path / "new" / "pairs").iterdir()) == ["case.jsonl", "tense.jsonl"]
    lines = (tmp_path / "new" / "pairs" / "tense.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == shipped("korean").write("tense", seed=5, most=20)
    assert "서울" in "".join(lines)


def test_write_writes_nothing_if_one_construction_is_wrong(tmp_path):
    path = tmp_path / "g.yaml"
    path.write_text(SMALL + "  other: the {Noun} {Put agrees Noun, contrast number}\n", encoding="utf-8")
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "lexicon:", "lexicon:\n  Put: {inflects: number, words: [{sg: a, pl: a}]}"
        ),
        encoding="utf-8",
    )
    done = run("write", path, "-o", tmp_path / "pairs")
    assert isinstance(done.exception, ConfigError)
    assert not (tmp_path / "pairs").exists()


def test_only_wants_names_that_exist(tmp_path):
    assert "did you mean 'tense'" in str(run("write", "korean", "-o", tmp_path, "--only", "tens").exception)
    assert "name at least one" in str(run("write", "korean", "-o", tmp_path, "--only", ",").exception)


def test_list_names_the_shipped_grammars():
    done = run("list")
    assert all(name in done.output for name in shipped_grammars())
    assert set(shipped_grammars()) == {"english", "korean", "marvin-linzen"}


def test_show_samples_what_is_too_large_to_write_out(tmp_path):
    data = yaml.safe_load(SMALL)
    data["lexicon"]["Noun"]["words"] = [f"noun{i}x" for i in range(200)]
    data["constructions"] = {"big": "the {Noun} of the {other:Noun} " + AGREES}
    path = tmp_path / "g.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    assert re.search(r"up to 320000 +200 ", run("show", path).output)


# The page


def test_the_grammar_of_the_docs_shows_what_the_docs_say(tmp_path):
    page = (ROOT / "docs" / "grammar.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    path = tmp_path / "kitchen.yaml"
    path.write_text(source, encoding="utf-8")
    done = run("show", path)
    assert [line.rstrip() for line in done.output.splitlines()] == printed.splitlines()
    for name in shipped_grammars():
        assert f"`{name}`" in page
