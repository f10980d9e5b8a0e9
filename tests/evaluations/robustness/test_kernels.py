"""chrF and BLEU: every engine gives sacrebleu's scores."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmassay.errors import ConfigError, DataError, MissingExtra
from lmassay.evaluations.robustness.kernels import backend, chrf_numpy
from lmassay.evaluations.robustness.kernels.code_points import join, whitespace
from lmassay.evaluations.robustness.scorers.bleu import BLEU, bleu_scores
from lmassay.evaluations.robustness.scorers.chrf import ChrF, chrf_scores, chrf_with_words_scores
from tests.published.teapot_scores import scores_of_sacrebleu
from tests.published_data import published_set


def setup_module() -> None:
    """Import sacrebleu when the first test runs: collecting the tests does not wait for it."""
    global sacrebleu
    import sacrebleu


# As text, which is evaluated when a test runs (conftest.py has the name): importing numba takes a while.
needs_numba = pytest.mark.skipif("not numba_is_usable()", reason="numba is not installed")
ENGINES = ["numpy", pytest.param("numba", marks=needs_numba)]
Pair = tuple[str, str]

# Few characters, so that n-grams match; each is special to a tokenizer, to str.split() or to Unicode.
TRICKY = (
    "aaab  .,,..--0019&;<>/'\"(){}[]|~^_`!?:=@#$%*+\\\n\r\t\x00\x0b\x1c\x1f\x85\xa0\u1680\u2003\u2028\u3000"
    "\u200b\ufeffäß中国한\u1112\u1161\u11ab😀👩\u200d\ud800\udfff\U0010ffff"
)
PIECES = ["<skipped>", "&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;", "-\n", "1.5", "1,000.", "..", "9-", "the ", "the"]
TEXTS = st.one_of(
    st.text(st.sampled_from(TRICKY), max_size=40),
    st.lists(st.one_of(st.sampled_from(PIECES), st.sampled_from(TRICKY)), max_size=20).map("".join),
    st.text(st.characters(), max_size=30),  # surrogates too
)
STOPS = st.text(st.sampled_from("a1.,- "), max_size=30)  # where the rules of the 13a tokenizer meet
PARTS = st.one_of(TEXTS, STOPS)
# Unrelated texts hardly match; most pairs share a beginning and an end.
PAIRS = st.lists(
    st.one_of(
        st.tuples(PARTS, PARTS),
        st.tuples(PARTS, PARTS, PARTS, PARTS).map(lambda p: (p[0] + p[1] + p[3], p[0] + p[2] + p[3])),
    ),
    max_size=8,
)
EDGES: list[Pair] = [
    ("", ""),
    ("", "a"),
    ("a", ""),
    (" \t\u3000", "a b"),
    ("a\x1cb\x1db\x1ec\x1fd", "abbcd"),
    ("a\x85b\xa0c\u2028d\u2029e", "abcde"),
    ("abcdef", "abcdef"),
    ("abcde", "abcde"),
    ("aaaaaaa", "aaaa"),
    ("中国人民", "中国的人民"),
    ("\u1112\u1161\u11ab\u1100\u1173\u11af", "\u1112\u1161\u11ab"),
    ("👩\u200d👩\u200d👧 ok", "👩\u200d👧 ok"),
    ("a\ud800b", "a\ud800c"),
    ("a\x00b", "a\x00\x00b"),
    ("abc-\n", "abc-"),
    ("abc-\nd", "abcd"),
    ("the cat <skipped> sat", "the cat sat"),
    ("x..5 ..5 5..x .,.,", "x . .5 . 5. . x"),
    ("3-4 a-b 5- -5", "3 - 4 a-b 5 - -5"),
    ("&amp;quot; R&D", '&quot; R & D "'),
]


@pytest.fixture(scope="module", autouse=True)
def no_override() -> Iterator[None]:
    """The tests name the engines themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(backend.ENGINE_VARIABLE, raising=False)
        yield


def sacre_chrf(pairs: Sequence[Pair], **options: Any) -> np.ndarray:
    return np.array([sacrebleu.sentence_chrf(h, [r], **options).score / 100 for h, r in pairs])


def sacre_bleu(pairs: Sequence[Pair]) -> np.ndarray:
    scores = [sacrebleu.sentence_bleu(h, [r], smooth_method="floor", smooth_value=0.01).score for h, r in pairs]
    return np.minimum(np.array(scores) / 100, 1.0)


def columns(pairs: Sequence[Pair]) -> tuple[list[str], list[str]]:
    return [hyp for hyp, _ in pairs], [ref for _, ref in pairs]


def difference(scores: np.ndarray, expected: np.ndarray) -> float:
    assert scores.dtype == np.float64
    assert scores.shape == expected.shape
    return float(np.abs(scores - expected).max(initial=0.0))


def alphabet(size: int, seed: int, length: int) -> str:
    """Random text of ``size`` different Chinese characters at most."""
    codes = np.random.default_rng(seed).integers(0x4E00, 0x4E00 + size, length)
    return "".join(map(chr, codes))


def related_pairs(count: int) -> list[Pair]:
    rng = np.random.default_rng(7)
    words = [
        "the",
        "cat",
        "sat",
        "on",
        "a",
        "mat",
        "1.5",
        "and,",
        "then",
        "(it)",
        "left.",
        "œuvre",
        "naïve",
        "x-y",
        "3-4",
    ]
    pairs = []
    for _ in range(count):
        ref = list(rng.choice(words, rng.integers(1, 25)))
        hyp = [word if rng.random() < 0.8 else str(rng.choice(words)) for word in ref if rng.random() < 0.95]
        pairs.append((" ".join(hyp), " ".join(ref)))
    return pairs


@pytest.mark.parametrize("engine_name", ENGINES)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=PAIRS)
def test_chrf_of_any_text_is_sacrebleus(engine_name: str, pairs: list[Pair]) -> None:
    assert difference(chrf_scores(*columns(pairs), engine=engine_name), sacre_chrf(pairs)) < 1e-12


@pytest.mark.parametrize("engine_name", ENGINES)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=PAIRS)
def test_bleu_of_any_text_is_sacrebleus(engine_name: str, pairs: list[Pair]) -> None:
    assert difference(bleu_scores(*columns(pairs), engine=engine_name), sacre_bleu(pairs)) < 1e-12


@pytest.mark.parametrize("engine_name", ENGINES)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    pairs=PAIRS,
    char_order=st.integers(1, 14),
    beta=st.sampled_from([1, 2, 3, 0.5]),
)
def test_chrf_of_any_order_and_beta_is_sacrebleus(
    engine_name: str, pairs: list[Pair], char_order: int, beta: float
) -> None:
    scores = chrf_scores(*columns(pairs), char_order=char_order, beta=beta, engine=engine_name)
    assert difference(scores, sacre_chrf(pairs, char_order=char_order, beta=beta)) < 1e-12


@needs_numba
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs=PAIRS)
def test_both_bleu_engines_agree_on_sacrebleu_1x(pairs: list[Pair]) -> None:
    plain = bleu_scores(*columns(pairs), compat="1.x", engine="numpy")
    assert difference(bleu_scores(*columns(pairs), compat="1.x", engine="numba"), plain) < 1e-12


@pytest.mark.parametrize("engine_name", ENGINES)
def test_edge_cases_are_bit_exact(engine_name: str) -> None:
    assert difference(chrf_scores(*columns(EDGES), engine=engine_name), sacre_chrf(EDGES)) == 0
    assert difference(bleu_scores(*columns(EDGES), engine=engine_name), sacre_bleu(EDGES)) < 1e-15


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("size", [200, 600, 3000])
def test_large_alphabets_are_exact(engine_name: str, size: int) -> None:
    pairs = [(alphabet(size, 2 * n, 4000), alphabet(size, 2 * n + 1, 4100)) for n in range(3)]
    pairs += [(hyp + ref[:2000], ref) for hyp, ref in pairs]
    assert difference(chrf_scores(*columns(pairs), engine=engine_name), sacre_chrf(pairs)) == 0


def test_a_chunk_of_chinese_is_exact_however_it_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [(alphabet(2500, n, 30), alphabet(2500, n, 28)) for n in range(300)]
    expected = sacre_chrf(pairs)
    assert difference(chrf_scores(*columns(pairs), engine="numpy"), expected) == 0
    monkeypatch.setattr(chrf_numpy, "_RENUMBERING_TABLE_LIMIT", 0)
    assert difference(chrf_scores(*columns(pairs), engine="numpy"), expected) == 0


@pytest.mark.parametrize("engine_name", ENGINES)
def test_very_long_lines_are_exact(engine_name: str) -> None:
    text = " ".join(hyp for hyp, _ in related_pairs(2500))
    assert len(text) > 100_000
    pairs = [(text, text[500:] + " and more"), (alphabet(20_000, 1, 100_000), alphabet(20_000, 2, 1000)), ("a", text)]
    assert difference(chrf_scores(*columns(pairs), engine=engine_name), sacre_chrf(pairs)) == 0
    assert difference(bleu_scores(*columns(pairs), engine=engine_name), sacre_bleu(pairs)) < 1e-15


@needs_numba
def test_lines_too_long_for_the_compiled_tables_are_scored_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from lmassay.evaluations.robustness.kernels import bleu_numba, chrf_numba

    monkeypatch.setattr(chrf_numba, "MAX_CHARACTERS", 20)
    monkeypatch.setattr(bleu_numba, "MAX_CHARACTERS", 20)
    monkeypatch.setattr(chrf_numba, "_score_all", None)
    monkeypatch.setattr(bleu_numba, "_score_all", None)
    pairs = [("the cat sat on the mat and left", "the cat sat")]
    assert difference(chrf_scores(*columns(pairs), engine="numba"), sacre_chrf(pairs)) == 0
    assert difference(bleu_scores(*columns(pairs), engine="numba"), sacre_bleu(pairs)) == 0


@pytest.fixture(scope="module")
def many() -> tuple[list[Pair], np.ndarray, np.ndarray]:
    """Pairs for several chunks, and the scores of sacrebleu, which takes seconds."""
    pairs = related_pairs(5000)
    return pairs, sacre_chrf(pairs), sacre_bleu(pairs)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("engine_name", ENGINES)
def test_many_chunks_and_threads_change_no_score(many, engine_name: str, threads: int) -> None:
    pairs, expected_chrf, expected_bleu = many
    chrf = chrf_scores(*columns(pairs), engine=engine_name, threads=threads)
    bleu = bleu_scores(*columns(pairs), engine=engine_name, threads=threads)
    assert difference(chrf, expected_chrf) == 0
    assert difference(bleu, expected_bleu) < 1e-15


@pytest.mark.parametrize("engine_name", ENGINES)
@pytest.mark.parametrize("release", ["1.3.1", "2.6.0"])
def test_real_files_give_the_recorded_scores(engine_name: str, release: str) -> None:
    data = published_set("teapot")
    runs = scores_of_sacrebleu(release)
    assert len(runs) > 5
    for run in runs.values():
        hyps, refs = (lines(data / run[side]) for side in ("hyp", "ref"))
        assert difference(chrf_scores(hyps, refs, engine=engine_name), np.array(run["chrf"])) < 1e-9
        compat = f"{release[0]}.x"
        bleu = bleu_scores(hyps, refs, compat=compat, engine=engine_name)
        assert difference(bleu, np.minimum(run["bleu"], 1.0)) < 1e-9


def lines(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as file:
        return [line.rstrip() for line in file]


def test_sacrebleu_1x_gives_the_floor_where_nothing_matches() -> None:
    assert bleu_scores(["a b"], ["c d"]).tolist() == [0.0]
    assert bleu_scores(["a b"], ["c d"], compat="1.x").tolist() == pytest.approx([0.01 * 0.5**0.5])
    assert bleu_scores(["", ""], ["", "a"], compat="1.x").tolist() == [0.0, 0.0]


@pytest.mark.parametrize("engine_name", ENGINES)
def test_bleu_of_a_text_with_itself_is_1_and_not_more(engine_name: str) -> None:
    texts = [hyp for hyp, _ in related_pairs(100) if hyp]
    assert set(bleu_scores(texts, texts, engine=engine_name).tolist()) == {1.0}


def test_chrf_with_words_is_sacrebleus() -> None:
    pairs = related_pairs(50)
    assert difference(chrf_with_words_scores(*columns(pairs)), sacre_chrf(pairs, word_order=2)) == 0
    assert ChrF(word_order=2).score(*columns(pairs)) == sacre_chrf(pairs, word_order=2).tolist()


def test_no_pairs_give_no_scores() -> None:
    assert chrf_scores([], []).shape == bleu_scores([], []).shape == (0,)


def test_all_whitespace_of_python_is_in_the_table() -> None:
    table = whitespace()
    spaces = {code for code in range(sys.maxunicode + 1) if chr(code).isspace()}
    assert spaces == set(np.flatnonzero(table).tolist())


def test_joining_keeps_every_code_point() -> None:
    joined = join(["a\ud800", "", "\x00😀"], gap="  ")
    assert joined.codes.tolist() == [97, 0xD800, 32, 32, 32, 32, 0, 0x1F600, 32, 32]
    assert joined.starts.tolist() == [0, 4, 6, 10]


def test_chunks_are_bounded_by_pairs_and_characters() -> None:
    chunk_sizes: list[int] = []

    def score(hyps: Sequence[str], refs: Sequence[str]) -> np.ndarray:
        chunk_sizes.append(len(hyps))
        return np.zeros(len(hyps))

    texts = ["aa"] * 5 + ["a" * 50] + ["aa"] * 2
    backend.score_in_chunks(score, texts, [""] * 8, backend.ChunkSize(pairs=3, characters=8))
    assert chunk_sizes == [3, 2, 1, 2]


def test_unequal_numbers_of_lines_are_refused() -> None:
    with pytest.raises(DataError, match="2 hypotheses but 1 references"):
        chrf_scores(["a", "b"], ["a"])


def test_an_error_in_a_thread_is_raised() -> None:
    with pytest.raises(TypeError):
        chrf_scores(["a"] * 2000, ["a"] * 1999 + [None], engine="numpy", threads=2)  # type: ignore[list-item]


def choose(pairs: int, wanted: str = "auto") -> str:
    return backend.choose_engine(pairs, kernel="no_such_kernel", numba_pays_from=1000, wanted=wanted)


class TestChoice:
    @pytest.fixture(autouse=True)
    def nothing_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backend, "_pairs_seen", Counter())

    def test_small_batches_never_load_numba(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backend, "numba_is_usable", lambda: pytest.fail("numba was looked for"))
        assert choose(999) == "numpy"

    def test_large_batches_use_numba_where_it_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backend, "numba_is_usable", lambda: True)
        assert choose(1000) == "numba"
        monkeypatch.setattr(backend, "numba_is_usable", lambda: False)
        assert choose(1000) == "numpy"

    def test_numba_that_cannot_be_imported_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # A user's coverage.py in the current folder makes numba's import fail with AttributeError.
        (tmp_path / "numba.py").write_text("import sys\nsys.no_such_attribute\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "numba", raising=False)
        monkeypatch.setattr(backend, "numba_is_usable", backend.numba_is_usable.__wrapped__)
        assert choose(1000) == "numpy"

    def test_many_small_batches_count_as_a_large_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backend, "numba_is_usable", lambda: True)
        assert [choose(400) for _ in range(4)] == ["numpy", "numpy", "numba", "numba"]

    def test_numba_that_is_loaded_already_is_used_for_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "lmassay.evaluations.robustness.kernels.no_such_kernel", sys)
        assert choose(1) == "numba"

    def test_the_environment_overrides(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(backend.ENGINE_VARIABLE, "numpy")
        assert choose(10**9, "numba") == "numpy"

    def test_an_unknown_engine_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(backend.ENGINE_VARIABLE, "numbas")
        with pytest.raises(ConfigError, match=r"^LMASSAY_ENGINE='numbas'.*did you mean 'numba'"):
            chrf_scores(["a"], ["a"])

    def test_an_unknown_engine_in_a_call_is_not_blamed_on_the_environment(self) -> None:
        with pytest.raises(ConfigError, match=r"^engine='numbas' is not an engine; did you mean 'numba'"):
            chrf_scores(["a"], ["a"], engine="numbas")

    def test_numba_asked_for_but_missing_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(backend.ENGINE_VARIABLE, "numba")
        monkeypatch.setattr(backend, "numba_is_usable", lambda: False)
        with pytest.raises(MissingExtra, match=r"the compiled scorer .*lmassay\[fast\]"):
            bleu_scores(["a"], ["a"])


def test_scoring_a_small_batch_imports_no_numba() -> None:
    code = """
import sys
from lmassay.evaluations.robustness.scorers.bleu import BLEU
from lmassay.evaluations.robustness.scorers.chrf import ChrF
assert ChrF().score(["a"], ["a"]) == BLEU().score(["a"], ["a"]) == [1.0]
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@needs_numba
def test_compiled_code_runs_where_no_folder_can_hold_its_cache() -> None:
    code = """
from numba.core import caching
caching.FunctionCache._impl_class._locator_classes = []
from lmassay.evaluations.robustness.scorers.chrf import chrf_scores
assert chrf_scores(["a"], ["a"], engine="numba").tolist() == [1.0]
"""
    # Without optimisation it is compiled sooner.
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_OPT": "0"})


@pytest.mark.parametrize("make", [ChrF, BLEU])
def test_scorers_give_floats_in_order(make: Callable[[], ChrF | BLEU]) -> None:
    scores = make().score(["the cat sat", "no"], ["the cat sat", "yes"])
    assert scores == [1.0, 0.0]
    assert all(type(score) is float for score in scores)
    assert make().score_sentence("the cat sat", "the cat sat") == 1.0


def test_signatures_name_all_that_changes_a_score() -> None:
    assert ChrF().signature == "chrF2(nc:6|nw:0|space:no|case:mixed|eff:yes)"
    assert ChrF(word_order=2, beta=1).signature == "chrF1++(nc:6|nw:2|space:no|case:mixed|eff:yes)"
    assert BLEU(compat="1.x").signature == "BLEU(tok:13a|smooth:floor[0.01]|eff:yes|compat:1.x)"


@pytest.mark.parametrize(
    "make", [lambda: BLEU(compat="3.x"), lambda: ChrF(char_order=0), lambda: ChrF(beta=0), lambda: ChrF(word_order=-1)]
)
def test_options_that_make_no_sense_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


def test_bleu_takes_its_option_from_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    BLEU.add_args(parser)
    assert BLEU.from_args(parser.parse_args([])).compat == "2.x"
    assert BLEU.from_args(parser.parse_args(["--bleu-compat", "1.x"])).compat == "1.x"
