"""The language that grammars are written in."""

from __future__ import annotations

import doctest
import json
import unicodedata
from collections import Counter

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.errors import ConfigError
from lmassay.evaluations.syntax.grammar import grammar, lexicon
from lmassay.evaluations.syntax.grammar.grammar import load_grammar
from lmassay.evaluations.syntax.grammar.lexicon import Feature, english_noun, english_verb, hangul_final
from tests.evaluations.syntax.grammars import AGREES, SMALL, goods, pairs, shipped

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


def test_a_sentence_with_its_own_punctuation_is_capitalised_and_gets_no_second_end(tmp_path):
    text = {**yaml.safe_load(SMALL), "capitalise": True, "end": "."}
    text["constructions"] = {"asked": "¿the {Noun sg} {Verb agrees Noun, contrast number}?"}
    (tmp_path / "g.yaml").write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
    rows = load_grammar(str(tmp_path / "g.yaml")).write("asked")
    assert ("¿The cook sings?", "¿The cook sing?") in pairs(rows)


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
        assert "gives no pair" in str(error)
        return
    written = pairs(rows)
    assert len(set(written)) == len(written)
    assert not {g for g, _ in written} & {b for _, b in written}
    for good, bad in written:
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


@pytest.mark.parametrize("module", [grammar, lexicon])
def test_the_examples_in_the_docstrings_run(module):
    report = doctest.testmod(module)
    assert report.attempted
    assert not report.failed
