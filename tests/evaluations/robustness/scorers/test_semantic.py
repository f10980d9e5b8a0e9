"""The semantic scorer: with the real encoder where it is installed, with small ones elsewhere."""

from __future__ import annotations

import argparse
import importlib.util
import random
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmassay.errors import MissingExtra, NotFetched, PluginError, UserError
from lmassay.evaluations.robustness.scorers import semantic
from lmassay.evaluations.robustness.scorers.semantic import Semantic
from tests.published_data import published_set

SENTENCE = "The committee approved the new budget after a long debate."
PARAPHRASE = "Following lengthy discussion, the panel passed the new spending plan."
UNRELATED = "My neighbour's cat likes to sleep on the warm roof."
CHARSWAP = "The comimttee approved the new bugdet after a long dbeate."
TEXTS = [
    SENTENCE,
    PARAPHRASE,
    UNRELATED,
    CHARSWAP,
    "Hi.",
    "Déjà vu 😀",
    "one " * 300,
    "\u3042\u3044",
    "a\x00b",
    "\ud800",
]


class Counting:
    """A user's own encoder, which counts letters. It records the texts that it gets."""

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode(self, sentences: list[str]) -> list[list[int]]:
        self.encoded += sentences
        return [[text.count(letter) for letter in "abc"] for text in sentences]


class Rows:
    """An encoder that returns the same array for any texts."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def encode(self, sentences: list[str]) -> Any:
        return np.array(self.rows)


@pytest.fixture
def real() -> Semantic:
    for package in ("sentence_transformers", semantic.DEFAULT_PACKAGE):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"the package {package} is not installed")
    return Semantic()


def score_pairs(scorer: Semantic, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
    scores = scorer.score([hyp for hyp, _ in pairs], [ref for _, ref in pairs])
    return dict(zip(pairs, scores, strict=True))


# --- the real encoder


def test_a_paraphrase_scores_higher_than_an_unrelated_sentence(real: Semantic) -> None:
    close, far = real.score([PARAPHRASE, UNRELATED], [SENTENCE, SENTENCE])
    assert close > 0.5 > 0.3 > far


def swap_in_longest(text: str) -> str:
    """Swap two letters inside the longest word."""
    word = max(text.split(), key=len)
    middle = len(word) // 2
    return text.replace(word, word[: middle - 1] + word[middle] + word[middle - 1] + word[middle + 1 :], 1)


def test_one_misspelt_word_keeps_a_high_score_on_average(real: Semantic) -> None:
    texts = (published_set("teapot") / "MT/ref.en").read_text(encoding="utf-8").split("\n")[:60]
    swapped = real.score([swap_in_longest(text) for text in texts], texts)
    other = real.score(texts[1:] + texts[:1], texts)
    assert np.mean(swapped) > 0.8 > 0.4 > np.mean(other)


def test_several_misspelt_words_do_not_keep_a_high_score(real: Semantic) -> None:
    # Not desirable, but this encoder works like that: its vocabulary has no misspelt words.
    assert real.score_sentence(CHARSWAP, SENTENCE) == pytest.approx(0.324, abs=0.01)


def test_identical_texts_score_one(real: Semantic) -> None:
    assert real.score(TEXTS, TEXTS) == [1.0] * len(TEXTS)


def test_the_order_of_the_pairs_does_not_change_a_bit(real: Semantic) -> None:
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    shuffled = random.Random(1).sample(pairs, len(pairs))
    assert score_pairs(real, shuffled) == score_pairs(real, pairs)


def test_hypothesis_and_reference_may_change_places(real: Semantic) -> None:
    assert real.score_sentence(PARAPHRASE, SENTENCE) == real.score_sentence(SENTENCE, PARAPHRASE)


@pytest.mark.parametrize("batch_size", [1, 3, 500])
def test_batch_sizes_agree(real: Semantic, batch_size: int) -> None:
    hyps, refs = zip(*[(a, b) for a in TEXTS for b in TEXTS], strict=True)
    assert Semantic(batch_size=batch_size).score(hyps, refs) == pytest.approx(real.score(hyps, refs), abs=1e-5)


def test_nothing_is_printed_and_nothing_touches_the_network(
    real: Semantic, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    semantic._load.cache_clear()
    assert real.score_sentence(PARAPHRASE, SENTENCE) > 0.5
    assert capfd.readouterr() == ("", "")


def test_the_folder_of_the_model_gives_the_scores_of_the_default(real: Semantic) -> None:
    folder = semantic._default_folder()
    assert Semantic(str(folder)).score_sentence(CHARSWAP, SENTENCE) == real.score_sentence(CHARSWAP, SENTENCE)


def test_the_signature_names_model_and_weights(real: Semantic) -> None:
    assert real.signature == "semantic(encoder:all-MiniLM-L6-v2|sha:53aa5117|cosine)"


# --- rules that need no encoder


@pytest.mark.parametrize(
    ("hyp", "ref", "score"), [("", "", 1.0), (" ", "\t", 1.0), ("", "abc", 0.0), ("abc", " ", 0.0)]
)
def test_blank_texts_are_equal_to_each_other_and_to_nothing_else(hyp: str, ref: str, score: float) -> None:
    assert Semantic(Counting()).score_sentence(hyp, ref) == score


def test_a_users_own_encoder_gets_each_text_once() -> None:
    encoder = Counting()
    scores = Semantic(encoder).score(["aab", "b", "aab", "c", "x"], ["b", "aab", "abb", "c", "a"])
    assert sorted(encoder.encoded) == ["a", "aab", "abb", "b", "x"]
    assert scores == pytest.approx([1 / 5**0.5, 1 / 5**0.5, 4 / 5, 1, 0])


def test_a_negative_cosine_counts_as_zero() -> None:
    assert Semantic(Rows([[1.0, 0.0], [-1.0, 0.1]])).score_sentence("a", "b") == 0.0


def test_no_pairs_give_no_scores() -> None:
    assert Semantic(Counting()).score([], []) == []


def test_an_encoder_that_gives_the_wrong_number_of_rows_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"shape \(3, 1\) for 2 texts"):
        Semantic(Rows([[1], [2], [3]])).score(["a"], ["b"])


def test_an_encoder_that_gives_no_number_is_an_error() -> None:
    with pytest.raises(PluginError, match="nan"):
        Semantic(Rows([[np.nan], [1.0]])).score(["a"], ["b"])


def test_an_object_without_encode_is_an_error() -> None:
    with pytest.raises(UserError, match="has no method encode"):
        Semantic(3).check()  # type: ignore[arg-type]


@pytest.mark.parametrize("package", ["sentence_transformers", semantic.DEFAULT_PACKAGE])
def test_a_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(MissingExtra, match=r"the semantic scorer .*pip install 'lmassay\[semantic\]'"):
        Semantic().check()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*nothing"):
        Semantic(str(tmp_path / "nothing")).check()


def test_a_hub_name_that_was_not_fetched_is_refused_without_touching_the_network(
    real: Semantic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(NotFetched, match="not on this machine; fetch it: lmassay models get nobody/nothing-here"):
        Semantic("nobody/nothing-here").check()


def test_a_fetched_hub_name_is_loaded_from_the_cache_and_named_in_the_signature(
    real: Semantic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = pytest.importorskip("huggingface_hub.constants", reason="huggingface_hub is not installed")
    repository = tmp_path / "models--me--encoder"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("a" * 40)
    (repository / "snapshots").mkdir()
    (repository / "snapshots" / ("a" * 40)).symlink_to(semantic._default_folder())
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    fetched = Semantic("me/encoder")
    assert fetched.signature == "semantic(encoder:me/encoder|sha:53aa5117|cosine)"
    assert fetched.score_sentence(CHARSWAP, SENTENCE) == real.score_sentence(CHARSWAP, SENTENCE)


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"no .*safetensors"):
        Semantic(tmp_path).check()


def test_a_folder_that_is_no_model_is_a_clean_error(real: Semantic, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(UserError, match="cannot be loaded: ") as caught:
        Semantic(tmp_path).score(["a"], ["b"])
    assert "\n" not in str(caught.value)


def test_importing_the_scorer_imports_no_torch() -> None:
    code = f"import sys, {semantic.__name__}; assert not {{'torch', 'sentence_transformers'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_option_makes_the_scorer(real: Semantic) -> None:
    parser = argparse.ArgumentParser()
    Semantic.add_args(parser)
    folder = semantic._default_folder()
    chosen = Semantic.from_args(parser.parse_args(["--encoder", str(folder)]))
    assert chosen.signature == f"semantic(encoder:{folder.name}|sha:53aa5117|cosine)"
