"""Each perturbation by example, in several languages; property tests on any text are in test_any_text.py."""

from __future__ import annotations

import random
import unicodedata

import pytest

from lmassay.evaluations.robustness.perturbations import (
    case,
    charswap,
    delete,
    diacritics,
    homoglyph,
    insert,
    keyboard,
    make_perturber,
    worddrop,
    wordswap,
)
from lmassay.evaluations.robustness.perturbations.graphemes import graphemes, words
from lmassay.evaluations.robustness.perturbations.hangul import is_syllable
from lmassay.evaluations.robustness.perturbations.keyboards import neighbours
from lmassay.evaluations.robustness.perturbations.letter_edits import plain
from lmassay.plugins.registry import current_registry
from tests.helpers import lmassay, write_lines

ENGLISH = "The quick brown fox, unlike the others, jumps over two lazy dogs."


def word_list(text: str) -> list[str]:
    units = graphemes(text)
    return ["".join(units[a:b]) for a, b in words(units)]


def changed(before: str, after: str) -> int:
    return sum(a != b for a, b in zip(before.split(), after.split(), strict=True))


def test_words_are_what_is_between_punctuation_apostrophes_and_hyphens():
    assert word_list("“L'homme, well-known”; e.g. 3pm a.b (see) x_y") == ["L", "homme", "well", "known", "see"]


@pytest.mark.parametrize("name", current_registry().names("perturbation"))
def test_every_built_in_changes_an_english_sentence(name):
    assert make_perturber(name, rate=1)(ENGLISH, 0) != ENGLISH


@pytest.mark.parametrize("name", ["keyboard", "delete", "insert", "homoglyph", "case", "diacritics"])
def test_rate_1_changes_every_word_of_an_english_sentence(name):
    assert changed(ENGLISH, make_perturber(name, rate=1)(ENGLISH, 0)) == len(ENGLISH.split())


# The rate.


def test_charswap_at_rate_1_changes_exactly_the_eligible_words():
    after = charswap("noon four abc aabb abca, Wörter l'enfant", random.Random(0), 1).split()
    assert after[0] == "noon"
    assert after[1:5] == ["fuor", "abc", "abab", "acba,"]
    assert sorted(after[5]) == sorted("Wörter") != list("Wörter")


@pytest.mark.parametrize(("rate", "count"), [(0.1, 717), (0.3, 2127), (0.7, 4903)])
def test_the_rate_is_the_share_of_eligible_words_changed(rate, count):
    line = "these seven words could each swap letters"
    perturber = make_perturber("charswap", rate=rate)
    total = sum(changed(line, perturber(line, index)) for index in range(1000))
    assert total == count
    assert count / 7000 == pytest.approx(rate, abs=0.01)


# Each built-in by example.


def test_charswap_keeps_first_and_last_letter():
    for word, swapped in zip(ENGLISH.split(), charswap(ENGLISH, random.Random(3), 1).split(), strict=True):
        assert (word[0], word[-1], sorted(word)) == (swapped[0], swapped[-1], sorted(swapped))


def test_charswap_never_parts_a_letter_from_its_accent():
    assert charswap("pe\u0301cs", random.Random(0), 1) == "pce\u0301s"


def test_charswap_swaps_korean_syllables_in_words_of_four():
    assert charswap("학교에 가나다라", random.Random(0), 1) == "학교에 가다나라"


def test_charswap_gives_the_same_korean_in_either_form():
    text = "안녕하세요 여러분들"
    apart = charswap(unicodedata.normalize("NFD", text), random.Random(0), 1)
    assert apart == unicodedata.normalize("NFD", charswap(text, random.Random(0), 1))


@pytest.mark.parametrize(
    ("layout", "letter", "near"),
    [
        ("qwerty", "s", "weadzx"),
        ("qwerty", "P", "OL"),
        ("azerty", "a", "ézq"),
        ("azerty", "m", "plù"),
        ("qwertz", "z", "tugh"),
        ("qwertz", "ü", "ßpöä"),
        ("dubeolsik", "ㅏ", "ㅑㅐㅓㅣㅡ"),
        ("dubeolsik", "ㅆ", "ㄲㅛㄹㅎ"),
        ("jcuken", "а", "кевпсм"),
        ("jcuken", "Ф", "ЙЦЫЯ"),
        ("arabic", "ب", "قفيلؤر"),
        ("inscript", "क", "गदरतस"),
        ("inscript", "ष", "खथश"),
        ("kana", "か", "えおすんはき"),
    ],
)
def test_neighbours_are_the_keys_that_touch(layout, letter, near):
    assert sorted(neighbours(layout)[letter]) == sorted(near)


@pytest.mark.parametrize("layout", ["qwerty", "azerty", "qwertz"])
def test_what_a_key_touches_touches_it(layout):
    table = neighbours(layout)
    assert all(letter in table[other] for letter, near in table.items() for other in near)


def test_keyboard_keeps_the_case():
    before, after = "LOUD Words", keyboard("LOUD Words", random.Random(1), 1)
    assert before != after
    assert [c.isupper() for c in before] == [c.isupper() for c in after]


def test_keyboard_knows_french_accents_on_azerty():
    assert keyboard("é", random.Random(0), 1, layout="azerty") in ("a", "z")
    assert keyboard("é", random.Random(0), 1, layout="qwerty") == "é"


def test_keyboard_slips_one_jamo_and_makes_a_syllable_again():
    results = {keyboard("한", random.Random(seed), 1, layout="dubeolsik") for seed in range(200)}
    # ㅎ → ㄹㅅㅍ (not ㅛㅗㅠ), ㅏ → ㅑㅐㅓㅣㅡ, ㄴ → ㅁㅇㅈㄷㅋㅌ
    assert results == set("란산판" + "햔핸헌힌흔" + "함항핮핟핰핱")
    assert all(is_syllable(r) for r in results)


def test_keyboard_slips_loose_jamo_of_chat_korean():
    assert keyboard("ㅋ", random.Random(0), 1, layout="dubeolsik") in "ㅁㄴㅌ"


def test_keyboard_gives_decomposed_korean_back_decomposed():
    apart = keyboard(unicodedata.normalize("NFD", "한국어"), random.Random(0), 1, layout="dubeolsik")
    assert apart == unicodedata.normalize("NFD", keyboard("한국어", random.Random(0), 1, layout="dubeolsik"))


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("jcuken", "Съешь этих мягких булок"),
        ("arabic", "السلام عليكم"),
        ("inscript", "नमस्ते दुनिया"),
        ("kana", "きょうは とても いい"),
        ("kana", "ガラス パソコン"),
    ],
)
def test_every_word_of_a_script_with_a_layout_is_changed_within_the_script(layout, text):
    changed = keyboard(text, random.Random(0), 1, layout=layout)
    assert len(changed.split()) == len(text.split())
    assert all(new != old for new, old in zip(changed.split(), text.split(), strict=True))
    script = unicodedata.name(text[0]).split()[0]
    assert all(unicodedata.name(letter).startswith(script) for letter in changed if not letter.isspace())


def test_a_slip_keeps_the_marks_of_a_letter():
    voiced = {keyboard("が", random.Random(seed), 1, layout="kana") for seed in range(100)}
    # Of the neighbours of か, only these can be voiced.
    assert voiced == set("ずばぎ")
    signs = {keyboard("की", random.Random(seed), 1, layout="inscript") for seed in range(200)}
    assert {"गी", "का", "कि"} <= signs
    assert all(len(sign) == 2 for sign in signs)


def test_accented_letters_stay_on_a_keyboard_without_them():
    assert keyboard("é", random.Random(0), 1, layout="qwerty") == "é"


@pytest.mark.parametrize(
    ("segment", "text", "swapped"),
    [
        ("zh", "今天的天气非常好，我们去公园散步吧。", "的今天非常天气我们，好公园去吧散步。"),
        ("ja", "今日はとても良い天気ですね。", "とても今日は天気ですね良い。"),
        ("th", "วันนี้อากาศดีมาก", "นี้วันดีอากาศมาก"),
    ],
)
def test_words_of_scripts_without_spaces_are_swapped_and_punctuation_stays(segment, text, swapped):
    pytest.importorskip("budoux", reason="the segment extra is not installed")
    assert wordswap(text, random.Random(0), 1, segment=segment) == swapped
    assert wordswap(text, random.Random(0), 1) == text


def test_words_of_a_script_without_spaces_are_dropped_but_one():
    pytest.importorskip("budoux", reason="the segment extra is not installed")
    kept = worddrop("今天的天气非常好，我们去公园散步吧。", random.Random(0), 1, segment="zh")
    assert 0 < len(kept) < 6


def test_a_latin_word_between_chinese_ones_is_not_divided():
    pytest.importorskip("budoux", reason="the segment extra is not installed")
    assert wordswap("我用Python写了3个程序。", random.Random(0), 1, segment="zh").count("Python") == 1


def test_spaces_and_words_without_spaces_can_be_mixed():
    pytest.importorskip("budoux", reason="the segment extra is not installed")
    assert wordswap("今日は weather good", random.Random(0), 1, segment="ja") == "weather 今日は good"


def test_delete_never_deletes_a_word_of_one_letter():
    assert delete("I a x", random.Random(0), 1) == "I a x"


def test_delete_takes_one_letter_off():
    assert sorted(len(w) for w in delete("Größe über", random.Random(0), 1).split()) == [3, 4]


@pytest.mark.parametrize(
    ("before", "after"), [("한", "하"), ("닭", "닥달"), ("과", "고"), ("나", "나"), ("나무", "나무")]
)
def test_delete_takes_a_stroke_off_a_korean_syllable(before, after):
    assert delete(before, random.Random(0), 1) in after


def test_insert_doubles_a_letter():
    assert insert("ab", random.Random(0), 1, mode="double") in ("aab", "abb")


def test_insert_adds_a_neighbouring_key_or_a_letter_of_the_alphabet():
    assert insert("a", random.Random(0), 1, mode="add")[1] in "qwsz"
    assert "а" <= insert("ж", random.Random(0), 1, mode="add")[1] <= "я"
    assert insert("Ж", random.Random(0), 1, mode="add")[1].isupper()


def test_insert_types_a_korean_consonant_twice():
    assert insert("하나", random.Random(0), 1, mode="double") == "한나"


def test_insert_leaves_syllables_whole():
    assert all(is_syllable(c) for c in insert("안녕하세요", random.Random(0), 1))


def test_homoglyph_looks_the_same_but_is_not():
    after = homoglyph("paypal", random.Random(0), 1, kind="script")
    assert after != "paypal"
    assert plain(after) == "paypal"


def test_homoglyph_works_on_cyrillic_and_keeps_accents():
    assert homoglyph("е", random.Random(0), 1, kind="script") == "e"
    assert homoglyph("é", random.Random(0), 1, kind="script") == "е\u0301"


def test_homoglyph_fullwidth_is_undone_by_compatibility_normalisation():
    after = homoglyph(ENGLISH, random.Random(0), 1, kind="fullwidth")
    assert unicodedata.normalize("NFKC", after) == ENGLISH != after


def test_case_flips_the_whole_word_but_not_what_has_no_other_case():
    assert case("Straße ÉTÉ 한국", random.Random(0), 1) == "sTRAßE été 한국"


def test_case_can_flip_one_letter_only():
    after = case("letter", random.Random(0), 1, letters="one")
    assert sum(c.isupper() for c in after) == 1


def test_diacritics_strips_accents():
    text = "Élève à Łódź, größere Übung; Ελλάδα"
    assert diacritics(text, random.Random(0), 1, mode="strip") == "Eleve a Lodz, großere Ubung; Ελλαδα"


def test_diacritics_strips_decomposed_accents_too():
    assert diacritics("e\u0301te\u0301", random.Random(0), 1, mode="strip") == "ete"


def test_diacritics_leaves_the_marks_of_other_scripts():
    text = "が किताब مُحَمَّد שָׁלוֹם 한국"
    assert diacritics(text, random.Random(0), 1) == text


def test_diacritics_adds_one_accent_in_composed_form():
    after = diacritics("word", random.Random(0), 1, mode="add")
    assert len(after) == 4
    assert len(unicodedata.normalize("NFD", after)) == 5


def test_diacritics_combines_where_no_composed_letter_exists():
    assert unicodedata.normalize("NFD", diacritics("q", random.Random(0), 1))[0] == "q"
    assert len(diacritics("q", random.Random(0), 1)) == 2


def test_wordswap_leaves_punctuation_and_white_space_in_place():
    assert wordswap("Well,  that's (so) true!", random.Random(0), 1) == "that's,  Well (true) so!"


def test_wordswap_does_not_reach_over_what_is_no_word():
    assert wordswap("one 2 three", random.Random(0), 1) == "one 2 three"


@pytest.mark.parametrize(
    ("text", "seed", "after"),
    [
        ("one", 0, "one"),
        ("one two", 0, "one"),
        ("one two.", 0, "one."),
        ("one, two", 1, "two"),
        ("(one two)", 1, "(two)"),
        ("  one\ttwo  ", 0, "  one  "),
    ],
)
def test_worddrop_closes_the_gap_and_never_drops_the_last_word(text, seed, after):
    assert worddrop(text, random.Random(seed), 1) == after


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("charswap", "The quick borwn fox, unlike the othres, jmups oevr two lzay dgos."),
        ("keyboard", "The auick brown fox, unlkke the kthers, jumls over twk lazy xogs."),
        ("delete", "The quck brown fox, unlike the ohers, jumps over two lazy dos."),
        ("insert", "Thhe quiick browqn fcox, unlike thhe otherss, jumps overr ttwo lazzy doggs."),
        ("homoglyph", "Thｅ quick broｗn fox, unliｋe thｅ others, juｍps over twｏ lａzy dogs."),
        ("case", "tHE quick brown FOX, unlike THE others, JUMPS OVER two LAZY dogs."),
        ("diacritics", "Thé quick brown föx, unĺike the others, júmps over tŵo läzy dogs."),
        ("wordswap", "The quick fox brown, unlike others the, jumps two over lazy dogs."),
        ("worddrop", "brown, others, jumps two."),
    ],
)
def test_results_are_the_same_on_every_machine(name, after):
    assert make_perturber(name, rate=0.5)(ENGLISH, 0) == after


def test_the_perturb_command_does_not_overwrite_its_input(tmp_path):
    file = write_lines(tmp_path / "text", ["one two three"])
    done = lmassay("perturb", "delete", "--in", file, "--out", file, "--rate", 1)
    assert done.returncode == 2
    assert f"--out {file} would overwrite the file of --in" in done.stderr
    assert file.read_text(encoding="utf-8") == "one two three\n"
