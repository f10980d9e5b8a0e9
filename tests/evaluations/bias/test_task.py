"""The native task: published numbers, rotations, parsers, empty cells, ways of answering."""

from __future__ import annotations

import csv
import gzip
import json
import math

import pytest

from lmassay import compare, evaluate, load
from lmassay.errors import ConfigError, DataError, UserError
from lmassay.evaluations.bias.bbq import bbq_items
from lmassay.evaluations.bias.prompts import shipped_prompts
from lmassay.evaluations.bias.task import Bias
from lmassay.plugins.options import build
from lmassay.statistics.table import score_table
from lmassay.storage.store import Store
from lmassay.types import Settings
from tests.evaluations.bias.test_bbq import parrish
from tests.helpers import EVALUATIONS, lmassay, write_config
from tests.published_data import published_set

METRICS = {
    "out-of-choice ratio": "ooc",
    "accuracy in ambiguous contexts": "accuracy_amb",
    "accuracy in disambiguated contexts": "accuracy_dis",
    "diff-bias in ambiguous contexts": "diff_bias_amb",
    "diff-bias in disambiguated contexts": "diff_bias_dis",
}
LABELS = ("NC", "ST", "TM")


@pytest.fixture
def raw(shared, tmp_path):
    """A predictions file of gold, unpacked."""

    def unpack(name):
        source = shared / "gold" / "kobbq" / f"{name}.tsv.gz"
        target = tmp_path / source.name.removesuffix(".gz")
        target.write_bytes(gzip.decompress(source.read_bytes()))
        return target

    return unpack


def kobbq(predictions, prompt_id=1, **task):
    data = published_set("kobbq")
    return {
        "task": {
            "name": "bias",
            "data": str(data / "KoBBQ_test_samples.tsv"),
            "prompts": str(data / "0_evaluation_prompts.tsv"),
            "prompt_id": prompt_id,
            **task,
        },
        "model": {"name": "predictions", "file": str(predictions)},
        "resamples": 100,
    }


def published(path, model):
    with path.open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter="\t") if row["model"] == model]
    return {(METRICS[column], _group(row["category"])): float(row[column]) for row in rows for column in METRICS}


def _group(name):
    if name == "overall":
        return name
    return f"label={name}" if name in LABELS else f"category={name}"


@pytest.mark.parametrize("model", ["debiased", "synth-hard", "synth-nan"])
def test_the_task_gives_the_numbers_of_the_six_steps(shared, raw, tmp_path, model):
    predictions = raw(f"inputs/raw/KoBBQ_test_evaluation_2_{model}_predictions")
    config = kobbq(predictions, 2, averaging="test")
    (run,) = evaluate(config, tmp_path / "r")
    # How the scores are averaged changes none of them.
    other = build("task", {**config["task"], "averaging": "all"}, tmp_path)
    assert "averaging:test" in run.signature
    assert other.signature()["averaging"] == "all"
    with Store(tmp_path / "r") as store:
        averaged = {"test": run.results, "all": other.aggregate(score_table(store, run.id), Settings(0.95, 100, 0))}
    for averaging, results in averaged.items():
        gold = published(shared / "gold" / "kobbq" / f"step5_{averaging}" / "KoBBQ_test_2.tsv", model)
        value_of = {(r.metric, r.group): r.value for r in results}
        assert len(gold) == 80
        for key, value in gold.items():
            if math.isnan(value):
                # Some template has no data: the original's number is lost, ours says on how many templates it rests.
                assert f"coverage_{key[0]}" in {metric for metric, group in value_of if group == key[1]}
            else:
                assert value_of[key] == pytest.approx(value, abs=1e-12), (averaging, key)


def test_an_empty_cell_is_no_data_and_does_not_spread(shared, raw, tmp_path):
    predictions = raw("edge/KoBBQ_test_evaluation_1_edge_predictions")
    (run,) = evaluate(kobbq(predictions, averaging="all"), tmp_path / "r")
    result_of = {(r.metric, r.group): r for r in run.results}
    assert result_of["accuracy_amb", "category=religion"].value is None
    assert result_of["accuracy_amb", "category=religion"].n == 0
    overall = result_of["accuracy_amb", "overall"]
    assert overall.value is not None
    coverage = result_of["coverage_accuracy_amb", "overall"]
    assert (coverage.n, coverage.value < 1) == (269, True)
    gold = published(shared / "gold" / "kobbq" / "edge" / "KoBBQ_test_1_edge_all.tsv", "edge")
    for key, value in gold.items():
        if not math.isnan(value):
            assert result_of[key].value == pytest.approx(value, abs=1e-12), key
    shown = lmassay("show", "latest", "--results", tmp_path / "r")
    assert "no data (n = 0)" in shown.stdout
    assert "nan" not in shown.stdout.lower().split()


def test_intervals_are_clustered_by_template(default_and_debiased):
    run = load(default_and_debiased / "results")[0]
    result = run["accuracy_dis"]
    assert result.low < result.value < result.high
    assert result.n > 3000
    assert run.record.design.cluster == "template"


def test_default_against_debiased_is_paired(default_and_debiased):
    runs = list(load(default_and_debiased / "results"))
    row_of = {row.metric: row for row in compare(*runs)}
    assert set(row_of) == {"accuracy_amb", "diff_bias_amb", "accuracy_dis", "diff_bias_dis", "ooc"}
    for metric, row in row_of.items():
        # On the examples that both runs scored, which are not all: each has answers out of choice.
        assert row.base_mean == pytest.approx(runs[0][metric].value, abs=0.01)
        assert row.new_mean == pytest.approx(runs[1][metric].value, abs=0.01)
        assert row.difference == pytest.approx(row.new_mean - row.base_mean)
        assert row.relative == pytest.approx(row.difference / row.base_mean)
    assert row_of["diff_bias_amb"].p < 0.001
    assert row_of["diff_bias_amb"].high < 0


def test_both_parsers_are_reported_and_either_can_be_used(raw, tmp_path):
    predictions = raw("inputs/raw/KoBBQ_test_evaluation_1_synth-hard_predictions")
    runs = evaluate({**kobbq(predictions, parsing=["reference", "robust"]), "limit": 900}, tmp_path / "r")
    reference, robust = runs
    assert reference["ooc"].value == reference["ooc_reference"].value == robust["ooc_reference"].value
    assert robust["ooc"].value == robust["ooc_robust"].value < reference["ooc"].value
    assert reference["parsers_agree"].value < 1
    assert "parsing:reference" in reference.signature


def test_the_same_answer_in_all_rotations_is_consistent(raw, tmp_path):
    """A model that always says A follows the position; one that always picks the biased person does not."""
    predictions = raw("inputs/raw/KoBBQ_test_evaluation_1_biased_predictions")
    with predictions.open(encoding="utf-8", newline="") as stream:
        rows = [["guid", "raw"], *([row["guid"], "A"] for row in csv.DictReader(stream, delimiter="\t"))]
    with predictions.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter="\t").writerows(rows)
    (run,) = evaluate({**kobbq(predictions), "limit": 900}, tmp_path / "r")
    assert run["consistency"].value == 0
    assert run["consistency"].n == 300
    assert (run["letter_A"].value, run["letter_A"].n) == (1.0, 900)
    assert run["accuracy_amb"].value == pytest.approx(1 / 3)
    assert run["diff_bias_amb"].value == pytest.approx(0)


def test_stored_answers_must_be_complete_before_a_run_starts(raw, tmp_path):
    predictions = raw("inputs/raw/KoBBQ_test_evaluation_1_biased_predictions")
    predictions.write_bytes(b"".join(predictions.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(DataError, match="has no answer to 6839 questions; the first is age-001a-002-amb-bsd-1"):
        evaluate(kobbq(predictions), tmp_path / "r")


def test_a_question_that_was_not_asked_in_every_order_has_no_consistency(tmp_path, rule):
    config = {"task": {"name": "bias", "data": str(OWN)}, "model": rule, "limit": 5, "resamples": 100}
    (run,) = evaluate(config, tmp_path / "r")
    assert (run["consistency"].n, run["consistency"].n_unscored) == (1, 1)


def test_labels_without_letters_cannot_be_answered_by_letters(tmp_path, rule):
    from lmassay.evaluations.bias.prompts import shipped_prompts

    text = shipped_prompts("en").read_text(encoding="utf-8")
    file = tmp_path / "p.tsv"
    file.write_text(text.replace("\tA: \tB: \tC: ", "\t1) \t2) \t3) "), encoding="utf-8")
    task = {"name": "bias", "data": str(OWN), "prompts": str(file), "answer_by": "letters"}
    with pytest.raises(ConfigError, match="the labels of prompt 1 show no letters"):
        evaluate({"task": task, "model": rule}, tmp_path / "r")


# --- BBQ --------------------------------------------------------------------------------------------------------------


OWN = EVALUATIONS / "bias/sample/questions.yaml"


class Answers:
    """A model that answers every question by a rule on the example's id and choices."""

    name = "rule"
    can = frozenset({"generate", "choices"})

    def identity(self):
        return {"name": self.name}

    def generate(self, requests):
        for request in requests:
            text = request.messages[-1][1]
            yield "B" if len(text) % 3 else "The answer is C."


@pytest.fixture
def rule(tmp_path):
    file = tmp_path / "rule.py"
    file.write_text("from tests.evaluations.bias.test_task import Answers\n", encoding="utf-8")
    return f"{file}:Answers"


def test_bbq_has_parrishs_scores(tmp_path, rule):
    file = published_set("bbq") / "Religion.jsonl"
    (run,) = evaluate({"task": {"name": "bias", "data": str(file)}, "model": rule, "resamples": 100}, tmp_path / "r")
    rows = list(run.rows())
    assert len(rows) == 1200, "BBQ is asked in its own order, once"
    items = {item.id: item for item in bbq_items([file]).items}
    picked = {row["id"]: row["details"]["letter"] for row in rows}
    expected = parrish([(items[i], None if letter is None else "ABC".index(letter)) for i, letter in picked.items()])
    for metric in ("accuracy_amb", "accuracy_dis", "s_amb", "s_dis"):
        assert run[metric].value == pytest.approx(expected[metric], abs=1e-12)
    assert run.record.design.headline == ("accuracy_amb", "s_amb", "accuracy_dis", "s_dis", "ooc")


def test_own_data_run_from_a_description(tmp_path, rule):
    config = {"task": {"name": "bias", "data": str(OWN), "prompt_id": [1, 2]}, "model": rule, "resamples": 100}
    runs = evaluate(config, tmp_path / "r")
    assert len(runs) == 2
    assert runs[0]["accuracy_amb"].n == 32 * 3
    assert {r.group.partition("=")[0] for r in runs[0].results} >= {"overall", "category"}
    assert runs[0].signature != runs[1].signature


def test_per_category_takes_whole_templates(tmp_path, rule):
    config = {"task": {"name": "bias", "data": str(OWN), "per_category": 1}, "model": rule, "resamples": 100}
    (run,) = evaluate(config, tmp_path / "r")
    templates = {row["groups"]["template"]: row["groups"]["category"] for row in run.rows()}
    assert len(templates) == len(set(templates.values())) == 4


def test_letters_are_asked_as_the_prompt_shows_them(tmp_path, rule):
    config = {"task": {"name": "bias", "data": str(OWN), "answer_by": "letters"}, "model": rule, "resamples": 100}
    (run,) = evaluate(config, tmp_path / "r")
    assert run["ooc"].value is not None
    assert "answer_by:letters" in run.signature


def test_a_model_that_cannot_keep_to_choices_is_refused_before_it_is_asked(tmp_path):
    config = {"task": {"name": "bias", "data": str(OWN), "answer_by": "letters"}, "model": "echo"}
    with pytest.raises(ConfigError, match="echo cannot restrict its answers"):
        evaluate(config, tmp_path / "r")


def test_a_language_whose_denials_are_not_read_is_noted(tmp_path):
    def notes(language, **options):
        description = tmp_path / f"{language}.yaml"
        text = OWN.read_text(encoding="utf-8").replace("language: en", f"language: {language}")
        description.write_text(text.replace("questions.jsonl", str(OWN.with_name("questions.jsonl"))), encoding="utf-8")
        return [
            note
            for note in Bias(str(description), prompts=shipped_prompts("en"), **options).notes()
            if "'not B'" in note
        ]

    assert len(notes("pl")) == 1
    assert notes("pl", answer_by="letters") == []
    assert notes("de") == []


def test_a_prompt_that_is_not_there_is_named_with_those_that_are(tmp_path):
    with pytest.raises(DataError, match="there is no prompt 9"):
        evaluate({"task": {"name": "bias", "data": str(OWN), "prompt_id": 9}, "model": "echo"}, tmp_path / "r")


def test_an_unknown_group_is_named_with_those_that_are_there(tmp_path):
    with pytest.raises(UserError, match="the data have no group 'nothing'; there are"):
        evaluate({"task": {"name": "bias", "data": str(OWN), "by": ["nothing"]}, "model": "echo"}, tmp_path / "r")


def test_a_refusal_is_unscored_not_wrong_and_not_unknown(tmp_path):
    from tests.servers import completion, openai_server

    config = {"task": {"name": "bias", "data": str(OWN), "per_category": 1}, "resamples": 100}
    with openai_server(lambda body, _: completion(None, refusal="no")) as server:
        config["model"] = {"name": "openai", "base_url": server.url, "model": "m"}
        done = lmassay("run", write_config(tmp_path / "c.yaml", config), "--results", tmp_path / "r", "--json")
    results = json.loads(done.stdout)["runs"][0]["results"]
    assert {r["n"] for r in results if r["metric"] == "accuracy_amb"} == {0}
    assert "none of 96 examples could be scored" in done.stderr
