"""Numbers on the page about robustness that no command of the page prints."""

from __future__ import annotations

import re

import pytest
import sacrebleu

from tests.helpers import ROOT
from tests.published.teapot_scores import scores_of_sacrebleu
from tests.published_data import published_set

PAGE = " ".join((ROOT / "docs" / "robustness.md").read_text(encoding="utf-8").split())


def test_the_drop_of_the_corpus_score_is_another_number_than_the_drop_of_the_mean():
    signed_drop, corpus_drop = re.search(
        r"`signed_drop` is ([\d.]+) % and the drop of corpus chrF is ([\d.]+) %", PAGE
    ).groups()
    sentences = scores_of_sacrebleu("2.6.0")
    mean_drop = 1 - sum(sentences["charswap.advout-ref"]["chrf"]) / sum(sentences["out-ref"]["chrf"])
    assert f"{100 * mean_drop:.2f}" == signed_drop

    folder = published_set("teapot") / "MT"
    references, before, after = (
        (folder / name).read_text(encoding="utf-8").splitlines() for name in ("ref.en", "base.en", "adv.charswap.en")
    )
    score_before, score_after = (sacrebleu.corpus_chrf(lines, [references]).score for lines in (before, after))
    assert f"{100 * (1 - score_after / score_before):.2f}" == corpus_drop


@pytest.mark.parametrize("measured_file", ["whitebox.txt", "whitebox_word_by_word.txt"])
def test_the_advantage_of_gradients_is_what_the_benchmark_printed(measured_file):
    printed = (ROOT / "benchmarks" / "measured" / measured_file).read_text(encoding="utf-8")
    rows = re.findall(r"(\w+) +success: .* difference ([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\]", printed)
    assert len(rows) == 3
    for kind, *numbers in rows:
        difference, low, high = (number.removeprefix("+").replace("-", "−") for number in numbers)
        assert f"{difference} [{low}, {high}] for `{kind}`" in PAGE
    seeds, sentences = re.search(r"(\d+) seeds, (\d+) sentences each", printed).groups()
    assert seeds == "10"
    assert f"ver ten seeds with {sentences} sentences each" in PAGE
