"""The card on published data: what it needs, what it says without it, and published numbers next to the model's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lmassay.contracts import CardRequest
from lmassay.reporting.card import card_evaluations, published_parts
from lmassay.reporting.headline import Headline, ReferenceRow, ReferenceTable
from lmassay.reporting.tiles import reference_lists
from lmassay.storage.store import Store
from lmassay.types import Metric, Provenance, Result, RunRecord
from tests.helpers import lmassay

MODELS = Path(__file__).parent / "models.py"
KNOWER, RANKER, TALKER = (f"{MODELS}:{name}" for name in ("Knower", "Ranker", "Talker"))
ENGLISH = ("bbq", "tse", "blimp", "fewglue")


def published_card(folder: Path, *arguments: str):
    return lmassay(
        "card",
        *arguments,
        "--data",
        "published",
        "--quick",
        "--results",
        folder / "r",
        "-o",
        folder / "c.html",
    )


# --- without the data -------------------------------------------------------------------------------------------------


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_without_the_data_one_line_says_what_to_fetch_before_a_model_is_looked_for(empty_cache):
    done = published_card(empty_cache, "no-such-model-anywhere")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "error: the card on published data needs bbq, tse, blimp, fewglue: lmassay data get bbq tse blimp fewglue"
    )


def test_only_the_data_of_the_named_evaluations_are_needed(empty_cache):
    done = published_card(empty_cache, KNOWER, "--only", "fewshot")
    assert done.stderr.strip().endswith("needs fewglue: lmassay data get fewglue")


@pytest.mark.parametrize(("language", "name"), [("ko", "kobbq"), ("es", "mbbq"), ("de", "clams"), ("ja", "jblimp")])
def test_the_language_decides_about_the_data(empty_cache, language, name):
    done = published_card(empty_cache, KNOWER, "--language", language)
    assert done.returncode == 2
    assert f"needs {name}: lmassay data get {name}" in done.stderr


def test_an_unknown_language_is_an_error_that_lists_the_languages(empty_cache):
    done = published_card(empty_cache, KNOWER, "--language", "kr")
    assert done.returncode == 2
    assert "--language kr: there are no published data in this language" in done.stderr
    assert "ko" in done.stderr


def test_a_language_needs_published_data(tmp_path):
    done = lmassay("card", KNOWER, "--language", "ko", "-o", tmp_path / "c.html")
    assert done.returncode == 2
    assert "--language needs --data published" in done.stderr


def test_every_evaluation_takes_part_or_says_why_not():
    parts = {part.evaluation: part for part in published_parts(CardRequest("quick", "ja"))}
    assert set(parts) == {evaluation.name for evaluation in card_evaluations()}
    assert parts["syntax"].variants
    assert parts["bias"].reason.startswith("no published data in Japanese")


@pytest.mark.parametrize("size", ["quick", "standard", "full"])
def test_each_language_has_variants_in_each_size_that_name_their_data(size):
    for evaluation in card_evaluations():
        if evaluation.published_card is None:
            continue
        for language in evaluation.published_card.languages:
            [part] = published_parts(CardRequest(size, language), [evaluation.name])
            assert part.variants
            assert all(variant.data for variant in part.variants)


# --- with the data ----------------------------------------------------------------------------------------------------


@pytest.fixture
def english(fetched, tmp_path):
    fetched(*ENGLISH)
    return tmp_path


@pytest.mark.slow
def test_the_card_has_four_questions_with_published_numbers_next_to_them(english):
    done = published_card(english, KNOWER, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    by_metric = {headline["metric"]: headline for headline in document["headlines"]}
    assert list(by_metric) == ["success", "mw", "accuracy", "s_amb", "gain"]
    for headline in by_metric.values():
        assert headline["distinguishable"] > 0
        assert headline["references"]
    [blimp] = by_metric["accuracy"]["references"]
    assert {row["label"]: round(row["value"], 3) for row in blimp["rows"]} == {
        "people": 0.886,
        "GPT-2": 0.830,
        "Transformer-XL": 0.696,
        "LSTM": 0.698,
        "5-gram": 0.612,
        "guessing": 0.5,
    }
    assert by_metric["gain"]["scope"] == "mean of 2 tasks: copa, wic"
    page = (english / "c.html").read_text(encoding="utf-8")
    assert page.count('<article class="tile') == 4
    assert page.count('<table class="references">') == 7
    assert "On published data in English," in page
    # The page of the same runs that `lmassay report` writes has the same numbers to compare with.
    report = lmassay("report", "--results", english / "r", "-o", english / "r.md")
    assert report.returncode == 0, report.stderr
    markdown = (english / "r.md").read_text(encoding="utf-8")
    assert "Compare: accuracy on BLiMP" in markdown
    assert "Two models must differ" in markdown


@pytest.mark.slow
def test_a_written_part_gives_the_same_numbers_by_itself(english):
    done = published_card(english, KNOWER, "--only", "syntax", "--only", "bias")
    assert done.returncode == 0, done.stderr
    written = published_card(english, KNOWER, "--only", "syntax", "--only", "bias", "--write", english / "configs")
    assert written.returncode == 0, written.stderr
    for name in ("syntax", "bias"):
        alone = lmassay("run", english / "configs" / f"{name}.yaml", "--results", english / "alone")
        assert alone.returncode == 0, alone.stderr
    with Store(english / "r") as of_card, Store(english / "alone") as of_files:
        on_card = {(record.task, record.label): (record.signature, record.results) for record in of_card.runs()}
        by_itself = {(record.task, record.label): (record.signature, record.results) for record in of_files.runs()}
    assert on_card == by_itself


def test_a_model_that_only_writes_text_has_no_grammar_number_and_the_reason(english):
    done = published_card(english, TALKER, "--only", "syntax", "--only", "robustness", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [headline["metric"] for headline in document["headlines"]] == ["success"]
    assert "needs a model that can" in document["not_applicable"]["talker"]["syntax"]


def test_a_model_that_cannot_rank_words_is_given_whole_sentences(english):
    done = published_card(english, RANKER, "--only", "syntax", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [headline["metric"] for headline in document["headlines"]] == ["accuracy", "accuracy"]
    assert "402 pairs of blimp" in document["headlines"][0]["scope"]


def test_two_models_are_compared_task_by_task(english):
    done = published_card(
        english, KNOWER, f"{{name: '{KNOWER}', label: other, seed: 1}}", "--only", "fewshot", "--json"
    )
    assert done.returncode == 0, done.stderr
    comparisons = json.loads(done.stdout)["comparisons"]
    assert [comparison["new_label"].split()[0] for comparison in comparisons] == ["copa", "wic"]


@pytest.mark.parametrize(("language", "names"), [("ko", ["kobbq"]), ("tr", ["mbbq"]), ("ru", ["clams", "rublimp"])])
def test_other_languages_can_be_planned(fetched, tmp_path, language, names):
    fetched(*names)
    done = published_card(tmp_path, KNOWER, "--language", language, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "fewshot is not applicable" in done.stderr


def test_control_questions_of_mbbq_are_reported_next_to_the_bias(fetched, tmp_path):
    fetched("mbbq")
    done = published_card(tmp_path, KNOWER, "--language", "es", "--only", "bias", "--json")
    assert done.returncode == 0, done.stderr
    assert "control: true" not in done.stderr, "advice that cannot be followed on a card"
    [headline] = json.loads(done.stdout)["headlines"]
    [control] = [text for text in headline["details"] if text.startswith("accuracy on ambiguous control questions")]
    assert "[" in control, "with its interval"


# --- reference rows on small stand-ins --------------------------------------------------------------------------------


def _headline(model: str, value: float, tables: list[ReferenceTable]) -> Headline:
    [evaluation] = [each for each in card_evaluations() if each.name == "syntax"]
    result = Result("accuracy", "overall", value, value - 0.1, value + 0.1, 100)
    run = ("id", "s", "n", "minimal_pairs", model, "label", "done", {"task": {}}, "sig", Provenance())
    record = RunRecord(*run, results=[result], note="", planned=1, created="now", finished=None)
    return Headline(
        evaluation=evaluation, metric="accuracy", result=result, scope="", records=[record], references=tables
    )


def test_models_stand_among_the_reference_rows_best_first():
    table = ReferenceTable("accuracy", [ReferenceRow("people", 0.9, "Nobody 2026", 50), ReferenceRow("guessing", 0.5)])
    [shown] = reference_lists([_headline("a", 0.7, [table]), _headline("b", 0.4, [table])])
    assert shown.rows == [
        ("people", "0.90", False),
        ("a", "0.70", True),
        ("guessing", "0.50", False),
        ("b", "0.40", True),
    ]
    assert shown.sources == "people: Nobody 2026, n = 50"


def test_the_best_comes_first_where_the_reference_rows_are_for_another_metric_than_the_headline():
    own = Result("errors", "overall", 0.4, 0.3, 0.5, 100)
    table = ReferenceTable("errors", [ReferenceRow("people", 0.1), ReferenceRow("guessing", 0.5)], own)
    headline = _headline("a", 0.7, [table])
    record = replace(headline.records[0], provenance=Provenance(metrics=(Metric("errors", better="lower"),)))
    [shown] = reference_lists([replace(headline, records=[record])])
    assert [label for label, _, _ in shown.rows] == ["people", "a", "guessing"]


def test_sources_that_several_lists_share_are_named_once():
    tables = [ReferenceTable(title, [ReferenceRow("people", 0.9, "Nobody 2026")]) for title in ("first", "second")]
    shown = reference_lists([_headline("a", 0.7, tables)])
    assert [references.sources for references in shown] == ["", "people: Nobody 2026"]
