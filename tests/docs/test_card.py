"""Numbers on the page about the card that no command of the page prints."""

from __future__ import annotations

import re

import pytest

from lmassay.evaluations.bias import card as bias
from lmassay.evaluations.fewshot import card as fewshot
from lmassay.evaluations.robustness import card as robustness
from lmassay.evaluations.robustness.attack import Attack, CandidateMaker
from lmassay.evaluations.syntax import card as syntax
from lmassay.models.embedded import EMBEDDED
from tests.docs.blocks import texts
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "card.md").read_text(encoding="utf-8")
SIZES = ("quick", "standard", "full")


def row(start: str, table: int = 0) -> list[str]:
    """The cells of a row that begins so, without the first; of several tables, the one with this number."""
    lines = [line for line in PAGE.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in lines[table].strip("|").split("|")][1:]


def lines_of(path: str) -> int:
    return len((ROOT / "src" / "lmassay" / "evaluations" / path).read_text(encoding="utf-8").splitlines())


def test_the_sizes_of_the_robustness_part_are_those_of_the_card():
    sentences = lines_of("robustness/card_data/facts.src")
    quick, standard, full = (len(robustness._ATTACKS[size]) for size in SIZES)
    limit = robustness._QUICK_LIMIT
    assert row("robustness") == [
        f"{limit} sentences, {quick} attacks",
        f"{sentences} sentences, {standard} attacks",
        f"{sentences} sentences, {full} attacks",
    ]
    assert f"{sentences} sentences about common knowledge" in PAGE
    sample = robustness._SAMPLE
    assert row("robustness", table=1) == [
        f"{sample['quick']} templates, one question each, {quick} attacks",
        f"{sample['standard']} templates, {standard} attacks",
        f"all templates, {full} attacks",
    ]


@pytest.mark.parametrize("size", SIZES)
def test_about_nine_of_ten_attacked_sentences_differ_in_one_word(size):
    [variant] = robustness.variants(size)
    sentences = (robustness._DATA / "facts.src").read_text(encoding="utf-8").splitlines()
    sentences = sentences[: variant.config.get("limit")]
    n_attacked = n_one_word = 0
    for options in variant.config["task"]["attack"]:
        attack = Attack(**options)
        maker = CandidateMaker(attack, robustness._DATA)
        for index, sentence in enumerate(sentences):
            [candidate] = maker.candidates(sentence, index)
            pairs = zip(sentence.split(), candidate.text.split(), strict=True)
            n_attacked += 1
            n_one_word += sum(before != after for before, after in pairs) == 1
    assert round(10 * n_one_word / n_attacked) == 9
    assert "In about nine of ten attacked sentences,\nonly one word changes" in PAGE


def test_the_sizes_of_the_syntax_part_are_those_of_the_card():
    quick, standard, full = (syntax._MAX_PAIRS[size] for size in SIZES)
    # VP coordination consists of two constructions of the grammar.
    assert row("syntax") == [
        f"{quick} pairs per construction (VP coordination: {2 * quick})",
        f"{standard} pairs ({2 * standard})",
        f"up to {full} pairs ({2 * full})",
    ]
    quick, standard, full = (syntax._CONSTRUCTION_PAIRS[size] for size in SIZES)
    first, *others = row("refining-tse")
    assert first.startswith(f"{quick} pairs of each of ")
    assert others == [f"{standard} pairs", f"{full} pairs"]
    quick, standard = (syntax._BLIMP_PAIRS[size] for size in SIZES[:2])
    assert row("BLiMP") == [
        f"{quick} pairs of each paradigm ({67 * quick})",
        f"{standard} pairs ({67 * standard:,})",
        "all (67,000)",
    ]
    clams, rublimp = syntax._CLAMS_PAIRS, syntax._RUBLIMP_PAIRS
    assert row("CLAMS, RuBLiMP") == [
        f"{clams['quick']} pairs of each construction, {rublimp['quick']} of each paradigm",
        f"{clams['standard']} and {rublimp['standard']} pairs",
        "all",
    ]


def test_the_sizes_of_the_bias_part_are_those_of_the_card():
    quick, standard, full = (len(bias._PROMPTS[size]) for size in SIZES)
    assert row("bias") == [
        f"8 templates, {quick} prompt",
        f"24 templates, {standard} prompts",
        f"24 templates, {full} prompts",
    ]
    questions = lines_of("bias/card_data/bias.jsonl")
    assert f"{questions} questions from 24 templates in 8 categories" in PAGE
    templates, kobbq = bias._TEMPLATES["quick"], bias._KOBBQ_TEMPLATES["quick"]
    # A template has a question of each of four kinds: ambiguous or not, with a positive or a negative question.
    questions = 4 * templates * len(bias.BBQ_CATEGORIES)
    of_bbq, of_kobbq = row("BBQ, MBBQ"), row("KoBBQ")
    assert of_bbq[0].startswith(
        f"{templates} templates of each category, one question of each kind ({questions} for BBQ)"
    )
    assert of_kobbq[0].startswith(f"{kobbq} templates of each category, every rotation of the choices")
    for cells in (of_bbq, of_kobbq):
        assert cells[0].endswith(f", {quick} prompt")
        assert cells[1:] == [f"all templates, {standard} prompts", f"all questions, {full} prompts"]


def listed(numbers: list[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def test_the_sizes_of_the_few_shot_part_are_those_of_the_card():
    shots, splits = fewshot._SHOTS, fewshot._SPLITS
    tests = lines_of("fewshot/card_data/reviews_test.jsonl")
    assert row("few-shot") == [
        f"{splits['quick']} splits, {fewshot._QUICK_TESTS} test examples; {listed(shots['quick'])} examples shown",
        f"{splits['standard']} splits, {tests} test examples; {listed(shots['standard'])} shown",
        f"{splits['full']} splits, {tests} test examples; {listed(shots['full'])} shown; two patterns",
    ]
    shots = fewshot._PUBLISHED_SHOTS
    assert row("FewGLUE") == [
        f"COPA, WiC; {fewshot._PUBLISHED_TESTS['quick']} test examples; {listed(shots['quick'])} examples shown",
        f"+ CB, RTE; {fewshot._PUBLISHED_TESTS['standard']} test examples; {listed(shots['standard'])} shown",
        f"+ BoolQ; all test examples; {listed(shots['full'])} shown",
    ]


def test_the_example_with_published_data_is_what_the_card_printed():
    measured = (ROOT / "benchmarks" / "measured" / "card_published_quick.txt").read_text(encoding="utf-8")
    printed = {" ".join(line.split()) for line in measured.splitlines()}
    (block,) = [text for text in texts("docs/card.md", "text") if "grammatical sentences preferred" in text]
    for line in filter(None, block.splitlines()):
        assert " ".join(line.split()) in printed, line
        right, of_bbq = re.search(
            r"right on (\d+) % of the robustness part's questions before they are attacked, "
            r"and on (\d+) % of the bias part's disambiguated questions",
            " ".join(PAGE.split()),
        ).groups()
    assert f"right answers without attack: 0.{right} [" in measured
    assert f"accuracy in disambiguated contexts: 0.{of_bbq} [" in measured


def test_every_page_gives_the_size_of_the_small_model_that_is_downloaded():
    size = EMBEDDED["smollm2"].megabytes
    stated = {}
    for page in sorted((ROOT / "docs").glob("*.md")):
        for line in page.read_text(encoding="utf-8").splitlines():
            if "smollm2" in line.casefold() and re.search(r"\d+ MB", line):
                stated[page.name] = re.findall(r"(\d+) MB", line)
    assert {"bias.md", "card.md", "fewshot.md", "syntax.md"} <= set(stated)
    assert all(sizes == [str(size)] for sizes in stated.values()), stated
