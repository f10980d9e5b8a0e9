"""What must hold for every perturbation and any text: property tests."""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.evaluations.robustness import perturbations
from lmassay.evaluations.robustness.perturbations import make_perturber
from lmassay.evaluations.robustness.perturbations.graphemes import graphemes, kind_of, tokens, words
from lmassay.evaluations.robustness.perturbations.keyboards import LAYOUTS
from lmassay.evaluations.robustness.perturbations.letter_edits import plain
from lmassay.plugins.registry import current_registry

DEFAULTS = [(name, {}) for name in current_registry().names("perturbation")]
# Every built-in, with every value of every option.
LETTER_LEVEL = [
    *[("charswap", {}), ("delete", {})],
    *[("keyboard", {"layout": layout}) for layout in LAYOUTS],
    *[("insert", {"mode": mode, "layout": "dubeolsik"}) for mode in ("both", "double", "add")],
    *[("insert", {"mode": "add", "layout": "qwerty"})],
    *[("homoglyph", {"kind": kind}) for kind in ("any", "script", "fullwidth")],
    *[("case", {"letters": letters}) for letters in ("all", "one")],
    *[("diacritics", {"mode": mode}) for mode in ("both", "strip", "add")],
]
WORD_LEVEL = [
    *[("wordswap", {"segment": segment}) for segment in ("spaces", "zh", "ja", "th")],
    *[("worddrop", {"segment": segment}) for segment in ("spaces", "zh-hant")],
]

# Letters that change length with their case, conjoining jamo, conjuncts, joiners, prepended signs, lone marks …
NASTY = (
    "hello|Word|naïve|nai\u0308ve|Straße|ς|Ünlü|İstanbul|ǅ|ﬁne|ẖ|H\u0331|\u212a|\u212b|"
    "한국어|닭과|ㅋㅋㅠ|\u1112\u1161\u11ab\u1100\u116e|\u1100|\u1161|\u11a8|Привет|κόσμος|عالم|"
    "क्षत्रिय|क्|ष|می\u200cخواهم|が|か\u3099|กำลัง|今天，公园|\u0d4e|\u0600|\u0301|\u0338|"
    "👨\u200d👩\u200d👧|😀\u200d|ℹ\ufe0f|🇫🇷|🇫|\u200d|\ufe0f|\u00ad|\u202e|\ud800|\x00|3|²|Ⅳ|"
    "'|-|(|)|.|,|@|https://a.b/c| |  |\t|\n|\r\n|\x85|\u2028|\u3000"
)
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=())),
    st.lists(st.sampled_from(NASTY.split("|")), max_size=14).map("".join),
    st.lists(st.text(st.characters(categories=["L", "M"]), min_size=1, max_size=8), max_size=6).map(" ".join),
)
RATES = st.sampled_from([0.1, 0.5, 1.0])
quickly = settings(max_examples=20, deadline=None)


def run(name: str, options: dict[str, str], text: str, rate: float, seed: int = 0) -> str:
    return make_perturber(name, rate=rate, seed=seed, options=options)(text, 0)


def variants(*lists: list[tuple[str, dict[str, str]]]) -> pytest.MarkDecorator:
    rows = [row for rows in lists for row in rows]
    return pytest.mark.parametrize(("name", "options"), rows, ids=["-".join([n, *o.values()]) for n, o in rows])


def cores(text: str) -> list[str]:
    units = graphemes(text)
    return ["".join(units[t.core_start : t.core_stop]) for t in tokens(units) if t.eligible]


def word_list(text: str) -> list[str]:
    units = graphemes(text)
    return ["".join(units[a:b]) for a, b in words(units)]


@variants(DEFAULTS)
@quickly
@given(text=TEXTS, rate=RATES, seed=st.integers())
def test_the_same_seed_gives_the_same_text(name, options, text, rate, seed):
    assert run(name, options, text, rate, seed) == run(name, options, text, rate, seed)


@variants(DEFAULTS)
@quickly
@given(text=TEXTS)
def test_rate_0_changes_nothing(name, options, text):
    assert run(name, options, text, 0) == text


@variants(LETTER_LEVEL, [("wordswap", {})])
@quickly
@given(text=TEXTS, rate=RATES)
def test_white_space_is_kept_exactly(name, options, text, rate):
    assert re.findall(r"\s+", run(name, options, text, rate)) == re.findall(r"\s+", text)


@variants(LETTER_LEVEL)
@quickly
@given(text=TEXTS, rate=RATES)
def test_no_grapheme_but_a_letter_is_touched(name, options, text, rate):
    def others(t: str) -> list[str]:
        return [unit for unit in graphemes(t) if kind_of(unit) != "letter"]

    assert others(run(name, options, text, rate)) == others(text)


@variants(LETTER_LEVEL)
@quickly
@given(text=TEXTS)
def test_no_grapheme_is_torn_or_merged(name, options, text):
    before, after = graphemes(text), graphemes(run(name, options, text, 1))
    if name == "charswap":
        assert Counter(before) == Counter(after)
    elif name == "delete":
        assert len(before) - len(list(words(before))) <= len(after) <= len(before)
    elif name == "insert":
        assert len(before) <= len(after) <= len(before) + len(list(words(before)))
    else:
        assert len(before) == len(after)


@variants(LETTER_LEVEL, WORD_LEVEL)
@quickly
@given(text=TEXTS, rate=RATES)
def test_no_control_character_line_break_or_surrogate_is_added(name, options, text, rate):
    def controls(t: str) -> Counter[str]:
        return Counter(c for c in t if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp"))

    added = controls(run(name, options, text, rate)) - controls(text)
    # A doubled letter may carry a joiner, which belongs to it.
    assert set(added) <= ({"\u200c", "\u200d"} if name == "insert" else set())


@variants(LETTER_LEVEL, WORD_LEVEL)
@quickly
@given(text=TEXTS, form=st.sampled_from(["NFC", "NFD"]))
def test_normalised_text_stays_normalised(name, options, text, form):
    text = unicodedata.normalize(form, text)
    if form == "NFD" and unicodedata.is_normalized("NFC", text):
        form = "NFC"  # text in both forms, ASCII say, counts as NFC
    assert unicodedata.is_normalized(form, run(name, options, text, 1))


@variants(LETTER_LEVEL)
@quickly
@given(text=TEXTS)
def test_a_higher_rate_changes_the_same_words_and_more(name, options, text):
    function = getattr(perturbations, name)
    texts = [function(text, random.Random(7), rate, **options) for rate in (0.0, 0.3, 0.7, 1.0)]
    for none, some, more, most in zip(*(word_list(t) for t in texts), strict=True):
        assert some in (none, more)
        assert more in (none, most)


@quickly
@given(text=TEXTS, rate=RATES)
def test_wordswap_keeps_the_multiset_of_words_and_of_graphemes(text, rate):
    swapped = run("wordswap", {}, text, rate)
    assert Counter(cores(swapped)) == Counter(cores(text))
    assert Counter(graphemes(swapped)) == Counter(graphemes(text))


@quickly
@given(text=TEXTS, rate=RATES)
def test_worddrop_only_takes_away_and_leaves_a_word(text, rate):
    rest = run("worddrop", {}, text, rate)
    assert not Counter(graphemes(rest)) - Counter(graphemes(text))
    assert not cores(text) or cores(rest)


@variants([v for v in LETTER_LEVEL if v[0] == "homoglyph"])
@quickly
@given(text=TEXTS)
def test_look_alikes_can_be_undone(name, options, text):
    assert plain(run(name, options, text, 1)) == plain(text)


@variants(LETTER_LEVEL, WORD_LEVEL)
@pytest.mark.parametrize(
    "text", ["", " ", "\t \u3000", "2019 3pm 50% …", "https://example.com/a me@x.org @you #tag <unk>"]
)
def test_text_without_eligible_words_comes_back_unchanged(name, options, text):
    assert run(name, options, text, 1) == text


@variants(LETTER_LEVEL)
def test_emoji_flags_and_right_to_left_text_survive(name, options):
    after = run(name, options, "(family) 👨‍👩‍👧 flag🇫🇷🇩🇪 سلام שלום 👍🏽!", 1)
    assert [u for u in graphemes(after) if kind_of(u) == "other"] == ["(", ")", "👨‍👩‍👧", "🇫🇷", "🇩🇪", "👍🏽", "!"]
