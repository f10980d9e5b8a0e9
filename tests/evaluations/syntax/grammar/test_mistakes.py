"""Mistakes in a grammar are reported with their position; the command line."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from lmassay.cli import app
from lmassay.errors import ConfigError, DataError, UserError
from lmassay.evaluations.syntax.grammar.grammar import load_grammar, shipped_grammars
from lmassay.evaluations.syntax.grammar.notation import parse
from lmassay.evaluations.syntax.grammar.source import GrammarMistake
from tests.evaluations.syntax.grammars import AGREES, SMALL, shipped
from tests.helpers import ROOT

# Mistakes


@given(st.text("{}()|:\\\\, aNnotcontrastagrees한", max_size=40))
def test_any_text_is_a_template_or_a_mistake_that_is_reported(text):
    try:
        parsed = parse(text, {"pl": "number"})
    except GrammarMistake as misfit:
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
    "the {Noun plural} {Verb agrees Noun, contrast number}": r"has 'plural', which is neither a value",
    "the {Noun negative} {Verb agrees Noun, contrast number}": r"the slot 'Noun' has no polarity",
    "the {Noun sg pl} {Verb agrees Noun, contrast number}": r"both sg and pl",
    "the {Noun} {Verb pl agrees Noun, contrast number}": r"the number of the slot 'Verb' is given twice",
    "the {Noun agrees Verb} {Verb agrees Noun, contrast number}": r"depend on each other",
    "the {Noun agrees Guest} {Guest agrees Noun} {Verb pl, contrast number}": r"depend on each other",
    "the {Noun} {Verb agrees Verb, contrast number}": r"refers to itself",
    "the {Noun} {Verb agrees, contrast number}": r"'agrees' must be followed by the name of a slot",
    "the {Noun {Verb agrees Noun, contrast number}": r"a '\{' without its partner",
    "the {Noun} that|which {Verb agrees Noun, contrast number}": r"a '\|' may only be inside braces: \{a\|b\}",
    "the {Noun} (that {Guest}) {Verb agrees Noun, contrast number}": r"neither may be inside the other",
    "the {Noun head} {Guest head} {Verb agrees Noun, contrast number}": r"both marked head",
    "the {Noun} {a|a} {Verb agrees Noun, contrast number}": r"the same words twice",
    "the {Noun} {label:a|b} {Verb agrees Noun, contrast number}": r"'label' already has a meaning in each row",
    "the {Noun} {Verb agrees Noun in polarity, contrast number}": r"the slot 'Verb' has no polarity",
    "the {Noun} {Verb agrees Noun in numbr, contrast number}": r"no feature 'numbr'; did you mean 'number'",
    "the {} {Verb agrees Noun, contrast number}": r"cannot be the name of a slot",
    "the {Noun pl} {Verb pl, contrast number}": r"'Noun' has a number too; write 'agrees Noun' in 'Verb'",
    "the {Noun head} {Verb pl, contrast number}": r"the slot 'Verb' agrees with no other in number",
    "the {Noun pl} {Like pl} and {Verb agrees Like, contrast number}": r"write 'agrees Noun' in 'Like'",
    "the {Noun attractor bystander} {Verb pl, contrast number}": r"marked attractor and bystander",
    "the {Noun|Guest} {Verb pl, contrast number}": r"'Noun' is a category; .*Either: \{includes: \[Noun, …\]\}",
    "the {who:the cook|Guest pl} {Verb pl, contrast number}": r"'Guest pl' in a choice .*'Guest' is a category",
    "the {Noun} (Said) {Verb agrees Noun, contrast number}": r"'Said' is a category; .*write two templates",
    "the {Noun} (a|b) {Verb agrees Noun, contrast number}": r"for one of these words or none, write \{a\|b\|\}",
    r"the {Noun} \n {Verb agrees Noun, contrast number}": r"a '\\' may only precede one of .*got '\\n'",
    "the {Noun} {Verb agrees Noun, contrast number} \\": r"a '\\' may only precede",
    r"the {Noun\|Guest} {Verb pl, contrast number}": r"the slot \{Noun\|Guest\} has a '\\'",
    "the {Noun} :) {Verb agrees Noun, contrast number}": r"for the sign itself, write '\\\)'",
}


@pytest.mark.parametrize(("template", "message"), TEMPLATE_MISTAKES.items())
def test_a_mistake_in_a_template_is_reported_with_its_place(written, template, message):
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
    ({"Noun": {"inflects": "english noun", "words": ["a", "a"]}}, "'a' appears twice"),
    (
        {"Noun": {"inflects": "english noun", "number": "sg", "words": ["a"]}},
        "inflect for number, so it cannot be fixed",
    ),
    ({"Said": [False]}, "YAML reads a word such as yes, no, on or off"),
    ({"Said": [3]}, "3 is not text; put it in quotes"),
    ({"Said": {"animacy": "anim", "words": ["a"]}}, "'anim' is not a value of animacy; did you mean 'animate'"),
    (
        {"Said": [{"a": {"animacy": "animate"}}, "b"]},
        r"other words have the feature animacy; write \{b: \{animacy: …\}\} too",
    ),
    ({"Said": {"animacy": "hangul", "words": ["a"]}}, "'a' does not end in a Hangul syllable"),
    ({"Said": {"includes": ["Nuon"]}}, "no category 'Nuon' with its own words; .*Noun"),
    ({"Said": {"includes": ["Noun", "Det"]}}, "'Noun' and 'Det' have different features"),
    ({"Said": {"contrast": " ", "words": ["a"]}}, "contrast: give a word such as 'verb'"),
    ({"Said": {"includes": ["Noun"], "words": ["a"]}}, "cannot have its own words or features"),
]


@pytest.mark.parametrize(("lexicon", "message"), LEXICON_MISTAKES)
def test_a_mistake_in_the_lexicon_is_reported_with_its_place(written, lexicon, message):
    with pytest.raises(ConfigError, match=message) as caught:
        written(**lexicon)
    assert re.match(r".*small\.yaml, line \d+: lexicon\.(Noun|Said)", str(caught.value))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("features:", "feature:", "line 2: feature: unknown key; did you mean 'features'"),
        ("lexicon:", "capitalise:", "lexicon: this key is required; docs/grammar.md has"),
        ("[animate, inanimate]", "[animate]", r"line 4: features\.animacy: give two or more values"),
        ("[animate, inanimate]", "[animate, pl]", "'pl' is already a value of number"),
        ("{sg: -1, pl: -2}", "{sg: 1, pl: 2}", r"labels are -1 \(singular\) and -2 \(plural\)"),
        ("{sg: -1, pl: -2}", "{sg: -1, pl: -1}", r"features\.number: two values have the same label"),
        ("{sg: -1, pl: -2}", "{sg: -1.0, pl: -2}", r"labels are -1"),
        ("animacy:", "contrast:", "'contrast' has another meaning"),
        ("animacy:", "noun:", "'noun' has another meaning"),
        ("be: {sg: is, pl: are}", "be: {sg: is}", r"irregular\.be: give all of its forms"),
        ("  simple: the", "  ../simple: the", "the name becomes a file name"),
        ("  simple: the", "  simple: [1]\n  other: the", r"constructions\.simple: give a template in quotes"),
        ("  Said:", "  Noun:", "the key 'Noun' appears twice, first in line 9"),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_its_place(tmp_path, old, new, message):
    path = tmp_path / "g.yaml"
    assert old in SMALL
    path.write_text(SMALL.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_grammar(path)


LONG = """\
features:
  number: {sg: -1, pl: -2}
  animacy: [animate, inanimate]
lexicon:
  Noun:
    inflects: english noun
    animacy: animate
    words:
      - author
      - pilot
      - guard: {pl: guards}
  Verb:
    inflects: english verb
    contrast: verb
    words: [smile]
  Said:
    - said
    - thought
constructions:
  simple:
    factors:
      distance: none
    template: the {Noun} {Verb agrees Noun, contrast number}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("- pilot", "- author", 10, "lexicon.Noun: 'author' appears twice"),
        ("- pilot", "- yes", 10, "lexicon.Noun: YAML reads a word such as yes"),
        ("{pl: guards}", "{dual: guards}", 11, "lexicon.Noun: 'dual' is neither a feature nor a value"),
        ("- thought", "- thought: {animacy: alive}", 18, "lexicon.Said: 'alive' is not a value of animacy"),
        ("- thought", "- thought: {animacy: animate}", 17, "lexicon.Said: other words have the feature animacy"),
        ("animacy: animate", "animacy: alive", 7, "lexicon.Noun: 'alive' is not a value of animacy"),
        ("english verb", "english verbs", 13, "lexicon.Verb: inflects: 'english verbs' is neither"),
        ("contrast: verb", "contrast: ' '", 14, "lexicon.Verb: contrast: give a word"),
        ("contrast: verb", "contrats: verb", 14, "lexicon.Verb: unknown key 'contrats'"),
        ("distance: none", "noun: none", 22, "constructions.simple: 'noun' already has a meaning"),
        ("{Noun}", "{Nuon}", 23, "constructions.simple: "),
    ],
)
def test_the_line_is_that_of_the_faulty_entry_and_not_of_the_whole_category(tmp_path, old, new, line, message):
    path = tmp_path / "long.yaml"
    assert old in LONG
    path.write_text(LONG.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"long\.yaml, line {line}: {re.escape(message)}"):
        load_grammar(path)


def test_mistakes_in_the_keys_are_reported_all_at_once(tmp_path):
    path = tmp_path / "g.yaml"
    text = SMALL.replace("  simple: the", "  simple: {tempalte: x}\n  other: the", 1)
    path.write_text(f"{text}\ncapitalise: 1\nabuot: x\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_grammar(path)
    for message in ("tempalte: unknown key; did you mean 'template'", "capitalise: ", "abuot: unknown key"):
        assert re.search(rf"g\.yaml, line \d+: (constructions\.simple\.)?{message}", str(caught.value))


@pytest.mark.parametrize("name", ["CON", "con", "nul.x", "Com1", "lpt9.pairs"])
def test_a_name_that_windows_keeps_for_a_device_is_refused(written, name):
    with pytest.raises(
        ConfigError, match=rf"constructions\.{re.escape(name)}: .*Windows reserves this one for a device"
    ):
        written({name: f"the {{Noun}} {AGREES}"})


@pytest.mark.parametrize(("first", "second"), [("simple", "Simple"), ("é", "É"), ("가", "\u1100\u1161")])
def test_names_that_are_one_file_on_some_systems_are_refused(written, first, second):
    text = f"the {{Noun}} {AGREES}"
    with pytest.raises(ConfigError, match=rf"the name and '{first}' are the same file"):
        written({first: text, second: text})
    assert len(written({"con_1": text, "console": text, "com": text}).constructions) == 3


@pytest.mark.parametrize("content", ["", "# nothing\n", "- a\n", "words"])
def test_a_file_that_is_no_mapping_is_reported(tmp_path, content):
    path = tmp_path / "g.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"g\.yaml: the file must be a mapping of keys to values"):
        load_grammar(path)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"templates": {}}, "has no templates"),
        ({"template": "a", "templates": {"a": "b"}}, "give either 'template'"),
        ({"template": "the {Noun} " + AGREES, "factor": {}}, r"\.factor: unknown key; did you mean 'factors'"),
        ({"template": "the {Noun} " + AGREES, "factors": {"noun": "x"}}, "'noun' already has a meaning in each row"),
        (
            {"template": "the {Noun} " + AGREES, "factors": {"contrast": "x"}},
            "'contrast' already has a meaning in each row",
        ),
        ({"template": "the {Noun} {x:a|b} " + AGREES, "factors": {"x": "y"}}, "'x' already has a meaning in each row"),
        (
            {"templates": {"a": "the {Noun} " + AGREES, "b": "{Det negative, contrast polarity} {Noun}"}},
            "contrast the same feature",
        ),
    ],
)
def test_a_mistake_in_a_construction_is_reported_with_its_place(written, entry, message):
    with pytest.raises(ConfigError, match=rf"small\.yaml, line \d+: constructions\.mine\b.*{message}"):
        written({"mine": entry})


def test_a_labelled_pair_that_differs_in_two_words_is_refused(written):
    verb = {"inflects": "number", "words": [{"sg": "does sing", "pl": "sing"}]}
    with pytest.raises(
        ConfigError, match=r"constructions\.simple: 'the cook does sing' and .* must differ in one word"
    ):
        written(Verb=verb).write("simple")


def test_a_construction_without_a_pair_is_refused(written):
    verb = {"inflects": "number", "words": [{"sg": "sang", "pl": "sang"}]}
    with pytest.raises(ConfigError, match="gives no pair"):
        written(Verb=verb).write("simple")


def test_an_unknown_name_is_reported_with_the_nearest_one(tmp_path):
    with pytest.raises(ConfigError, match="no grammar 'koraen'; did you mean 'korean'"):
        load_grammar("koraen")
    with pytest.raises(DataError, match="does not exist"):
        load_grammar(tmp_path / "nothing.yaml")
    with pytest.raises(ConfigError, match="no construction 'smple'"):
        shipped("english").write("smple")


def test_whatever_stands_in_a_grammar_it_is_accepted_or_a_mistake_is_reported(tmp_path):
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
    # Through the app, as users do: a verb that is called alone forgets -h for the rest of the process.
    return CliRunner().invoke(app, ["grammar", *map(str, arguments)])


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
