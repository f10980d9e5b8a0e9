"""Numbers on the page about robustness that no command of the page prints."""

from __future__ import annotations

import json
import re

import pytest
import sacrebleu

from tests.helpers import ROOT, lmassay
from tests.published.teapot_scores import scores_of_sacrebleu
from tests.published.test_teapot_gold import CAPPED, RIGHT, RIGHT_RESULTS, WRONG
from tests.published_data import FIGURES, published_set

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


def numbers_of_teapot(printed: str) -> list[str]:
    """The two means and the success rate that TEAPOT prints."""
    return re.findall(r"^(?:Mean:\t|Success percentage: )([\d.]+)", printed, re.MULTILINE)


def original(name: str) -> list[str]:
    """What the original printed for a case of its published examples."""
    for line in (FIGURES / "teapot" / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if case["name"] == name:
            return numbers_of_teapot(case["stdout"])
    raise AssertionError(name)


@pytest.mark.parametrize("attack", ["charswap", "knn"])
def test_the_table_of_published_examples_has_the_numbers_of_the_original(attack):
    """test_teapot_gold.py compares the same numbers with what lmassay computes."""
    s_src, d_tgt, success = original(f"mt.{attack}.default.both.ref")
    assert f"| {attack} | {s_src} | {d_tgt} | {success} % |" in PAGE
    if attack == "knn":
        # The original crashes here, so test_teapot_gold.py has the right result.
        assert f"{RIGHT_RESULTS['mt.knn.default.both.noref']} % (the original crashes)" in PAGE
        return
    _, s_tgt, without_reference = original(f"mt.{attack}.default.both.noref")
    assert f"| {s_tgt} | {without_reference} % |" in PAGE


def test_the_row_of_the_table_without_a_recorded_output_is_what_the_command_prints():
    folder = published_set("teapot") / "MT"
    files = {"src": "src.fr", "adv-src": "adv.unconstrained.fr", "out": "base.en", "adv-out": "adv.unconstrained.en"}
    arguments = []
    for option, name in files.items():
        arguments += [f"--{option}", str(folder / name)]
    s_src, d_tgt, success = numbers_of_teapot(lmassay("teapot", *arguments, "--ref", str(folder / "ref.en")).stdout)
    _, s_tgt, without_reference = numbers_of_teapot(lmassay("teapot", *arguments).stdout)
    assert f"| unconstrained | {s_src} | {d_tgt} | {success} % | {s_tgt} | {without_reference} % |" in PAGE


def test_the_successes_that_a_cap_of_1_removes_are_those_of_the_comparison_with_the_original():
    before, after = CAPPED["mt.charswap.bleu.both.ref"]
    before_chrf, after_chrf = CAPPED["mt.charswap.bleu-chrf.both.ref"]
    assert (
        f"charswap under BLEU is {after} % instead of {before} % (with BLEU as s_src and chrF as s_tgt, "
        f"{after_chrf} % instead of {before_chrf} %)"
    ) in PAGE
    migrating = (ROOT / "docs" / "migrating" / "teapot.md").read_text(encoding="utf-8")
    assert f"charswap under BLEU {after} % instead of {before} %" in migrating
    assert f"knn gives {RIGHT_RESULTS['mt.knn.default.both.noref']} %" in migrating


def test_a_million_lines_take_as_long_as_the_benchmark_printed():
    printed = (ROOT / "benchmarks" / "measured" / "core_1m.txt").read_text(encoding="utf-8")
    microseconds = re.search(r"^lmassay run +([\d.]+) µs per example", printed, re.MULTILINE)[1]
    assert f"a million lines takes {float(microseconds):.0f} µs of CPU time per line" in PAGE


def test_as_many_commands_of_the_original_are_compared_as_stated():
    commands = 0
    for file in (ROOT / "tests" / "published" / "reference" / "teapot").glob("cases*.jsonl"):
        commands += len(file.read_text(encoding="utf-8").splitlines())
    assert f"compares {commands} commands on sentences that are part of this repository" in PAGE


def test_as_many_commands_are_compared_on_the_published_examples_as_stated():
    stated, failures = map(
        int, re.search(r"runs (\d+) commands on TEAPOT's examples.*?\((\d+) of them fail", PAGE).groups()
    )
    assert len(RIGHT) + len(WRONG) == stated
    assert len(WRONG) == failures
