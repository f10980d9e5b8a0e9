"""The card: four questions in one command, the numbers those of the four evaluations run one by one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lmassay.reporting.card import card_evaluations, card_models
from lmassay.reporting.headline import differences_to_first_model, headlines
from lmassay.storage.store import Store
from lmassay.types import CardPart
from tests.helpers import lmassay
from tests.tiny_models import save_model

MODELS = Path(__file__).parent / "models.py"
KNOWER = f"{MODELS}:Knower"
EVALUATIONS = ["robustness", "syntax", "bias", "fewshot"]


def quick_card(folder: Path, *arguments: str):
    return lmassay("card", *arguments, "--quick", "--json", "--results", folder / "r", "-o", folder / "c.html")


@pytest.fixture(scope="module")
def knower(tmp_path_factory):
    """The card of a model that can be asked everything, with what was printed."""
    folder = tmp_path_factory.mktemp("card")
    done = lmassay("card", KNOWER, "--quick", "--json", "--results", folder / "results", "-o", folder / "card.html")
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_a_card_has_four_numbers_with_interval_n_and_meaning(knower):
    _, output = knower
    assert [headline["evaluation"] for headline in output["headlines"]] == EVALUATIONS
    for headline in output["headlines"]:
        assert headline["result"]["n"] > 0
        assert headline["meaning"]
        assert headline["limits"]
        result = headline["result"]
        assert result["low"] is None or result["low"] <= result["value"] <= result["high"]
    assert sum(headline["result"]["low"] is not None for headline in output["headlines"]) >= 3
    assert output["not_applicable"] == {}


def test_the_numbers_are_those_of_the_four_evaluations_run_one_by_one(knower, tmp_path):
    folder, output = knower
    assert lmassay("card", KNOWER, "--quick", "--write", tmp_path / "configs").returncode == 0
    files = sorted((tmp_path / "configs").glob("*.yaml"))
    assert [file.stem for file in files] == sorted(EVALUATIONS)
    for file in files:
        done = lmassay("run", file, "--results", tmp_path / "alone")
        assert done.returncode == 0, done.stderr
    with Store(folder / "results") as ours, Store(tmp_path / "alone") as theirs:
        by_card = {(r.task, r.label): (r.signature, r.results) for r in ours.runs()}
        alone = {(r.task, r.label): (r.signature, r.results) for r in theirs.runs()}
        assert by_card == alone
        result_of = {h.evaluation.name: h.result.as_dict() for h in headlines(theirs, theirs.runs())}
    assert result_of == {h["evaluation"]: h["result"] for h in output["headlines"]}


def test_the_page_answers_the_four_questions_and_shows_every_section(knower):
    page = (knower[0] / "card.html").read_text(encoding="utf-8")
    for question in (evaluation.question for evaluation in card_evaluations()):
        assert question in page
    for evaluation in EVALUATIONS:
        assert f'id="evaluation-{evaluation}"' in page


def test_a_report_of_the_same_runs_has_the_same_overview(knower, tmp_path):
    folder, output = knower
    for form in ("html", "md", "tex"):
        target = tmp_path / f"report.{form}"
        assert lmassay("report", "--results", folder / "results", "-o", target).returncode == 0
        text = target.read_text(encoding="utf-8")
        for headline in output["headlines"]:
            assert f"{headline['result']['value']:.3f}".lstrip("-") in text, (form, headline["evaluation"])


def test_what_a_model_cannot_be_asked_is_reported_with_the_reason(tmp_path):
    done = lmassay(
        "card", f"{MODELS}:Talker", "--quick", "--json", "--results", tmp_path / "r", "-o", tmp_path / "c.html"
    )
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert [headline["evaluation"] for headline in output["headlines"]] == ["robustness", "bias", "fewshot"]
    (reason,) = output["not_applicable"]["talker"].values()
    assert reason == (
        "needs a model that can rank words at a blank, or compute log-probabilities; "
        "talker can generate text and restrict its answers to given choices"
    )
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "rank words at a blank" in page


def test_a_model_that_lacks_a_label_word_of_the_card_is_tested_on_the_rest(tmp_path):
    model = save_model(tmp_path / "small-vocabulary", "bert")
    file = model / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    # Without this piece, "bad" and "good" cannot be written.
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["##unused"] = vocabulary.pop("##d")
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    done = lmassay("card", model, "--quick", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "syntax" in done.stdout
    reason = "the word 'bad' for the label 'bad' is not in the vocabulary of this model (it becomes [UNK])\n"
    assert "fewshot is not applicable to small-vocabulary: card-reviews, pattern 0: " + reason in done.stderr


def test_models_without_a_number_are_in_the_order_of_the_card(tmp_path):
    done = lmassay(
        *("card", f"{{name: '{MODELS}:Talker', label: zebra}}", f"{{name: '{MODELS}:Talker', label: ant}}", "--quick"),
        *("--only", "syntax", "--only", "robustness", "--json", "--results", tmp_path / "r", "-o", tmp_path / "c.html"),
    )
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["not_applicable"]) == ["zebra", "ant"]


def test_a_model_without_blanks_is_asked_for_whole_sentences(tmp_path):
    done = lmassay(
        "card", f"{MODELS}:Ranker", "--quick", "--json", "--results", tmp_path / "r", "-o", tmp_path / "c.html"
    )
    output = json.loads(done.stdout)
    assert [(h["evaluation"], h["metric"]) for h in output["headlines"]] == [("syntax", "accuracy")]
    assert set(output["not_applicable"]["ranker"]) == {"robustness", "bias", "fewshot"}


def test_a_model_that_no_evaluation_applies_to_is_an_error_without_a_traceback(tmp_path):
    done = lmassay("card", f"{MODELS}:Mute", "--results", tmp_path / "r", cwd=tmp_path)
    assert done.returncode == 2
    assert "no evaluation can be run on this model" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r").exists()


def test_several_models_stand_side_by_side_with_paired_tests(tmp_path):
    other = yaml.safe_dump({"name": KNOWER, "label": "other", "seed": 1}, default_flow_style=True).strip()
    done = quick_card(tmp_path, KNOWER, other, "--only", "robustness", "--only", "bias")
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert [(h["evaluation"], h["model"]) for h in output["headlines"]] == [
        (evaluation, model) for evaluation in ("robustness", "bias") for model in ("talker", "other")
    ]
    assert [row["metric"] for row in output["comparisons"]] == ["success", "diff_bias_amb"]
    assert {(row["model"], row["base_model"]) for row in output["comparisons"]} == {("other", "talker")}
    for row in output["comparisons"]:
        assert row["p_adjusted"] >= row["p"]
    # Both give the last word back: under attack there is no difference between them.
    assert output["comparisons"][0]["difference"] == 0
    with Store(tmp_path / "r") as store:
        shown = headlines(store, store.runs())
        assert [pair.comparison.n for pair in differences_to_first_model(store, shown)] == [
            shown[0].result.n,
            shown[2].result.n,
        ]
    assert "other" in (tmp_path / "c.html").read_text(encoding="utf-8")


def test_one_model_in_several_spellings_is_asked_once(tmp_path):
    spellings = ["echo", "{name: echo}", f"{MODELS}:Knower", f"{{name: '{MODELS}:Knower'}}"]
    assert [model.label for model in card_models(spellings, tmp_path)] == ["echo", "talker"]


def test_models_are_asked_in_the_same_way_where_there_is_one(tmp_path):
    done = lmassay("card", KNOWER, f"{MODELS}:Talker", "--quick", "--only", "fewshot", "--write", tmp_path)
    assert done.returncode == 0, done.stderr
    ways = [
        yaml.safe_load(file.read_text(encoding="utf-8"))["task"]["method"][1] for file in sorted(tmp_path.iterdir())
    ]
    assert [way["answer_by"] for way in ways] == ["choices", "choices"]


def test_the_page_is_written_though_nobody_reads_what_is_printed(tmp_path):
    command = [sys.executable, "-m", "lmassay", "card", f"{MODELS}:Talker", "--quick", "--only", "robustness"]
    with subprocess.Popen(
        [*command, "--results", tmp_path / "r", "-o", tmp_path / "c.html"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert (tmp_path / "c.html").is_file()


def test_a_dry_run_asks_and_writes_nothing(tmp_path):
    done = lmassay("card", KNOWER, "--full", "--dry-run", "--json", "--results", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert {run["task"] for run in json.loads(done.stdout)["runs"]} == set(EVALUATIONS)
    assert not (tmp_path / "r").exists()


def test_a_card_that_was_broken_off_is_finished_by_resume(tmp_path):
    """The runs are recorded before the first begins, so what is left can be done from the store alone."""
    from lmassay.reporting import card
    from lmassay.running import runner
    from lmassay.running.sweep import record_runs

    parts = card.plan_card(card.card_models([KNOWER], tmp_path), "quick", ["syntax", "bias"])
    planned = [runner.plan(config) for part in parts for config in part.runs()]
    with Store(tmp_path / "r", create=True) as store:
        record_runs(planned, store, "s", CardPart("quick"))
    done = lmassay("resume", "--results", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    with Store(tmp_path / "r") as store:
        assert {record.status for record in store.runs()} == {"done"}
        assert [headline.evaluation.name for headline in headlines(store, store.runs())] == ["syntax", "bias"]


def test_an_evaluation_that_failed_is_reported_and_the_others_are_answered(tmp_path):
    done = quick_card(tmp_path, f"{MODELS}:Stumbler", "--only", "robustness", "--only", "bias")
    assert done.returncode == 1
    output = json.loads(done.stdout)
    assert [headline["evaluation"] for headline in output["headlines"]] == ["robustness"]
    (reason,) = output["no_result"]["stumbler"].values()
    assert reason == "bias, prompt 1 is incomplete: 192 examples with errors"
    assert "192 examples with errors" in (tmp_path / "c.html").read_text(encoding="utf-8")


def test_a_model_that_dies_on_some_variants_is_reported_and_still_compared(tmp_path):
    """A number over fewer attacks must not look like one over all of them."""
    done = quick_card(tmp_path, f"{MODELS}:Talker", f"{MODELS}:Mortal", "--only", "robustness")
    assert done.returncode == 1
    output = json.loads(done.stdout)
    assert [(h["model"], h["scope"].partition(";")[0]) for h in output["headlines"]] == [
        ("talker", "120 attacked inputs, 3 attacks"),
        ("mortal", "40 attacked inputs, 1 attack"),
    ]
    (row,) = output["comparisons"]
    assert (row["n"], row["difference"]) == (40, 0)
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "cover only a part of the examples: keyboard: failed (mortal); insert: failed (mortal)" in page


def test_models_with_one_label_are_distinguished(tmp_path):
    other = yaml.safe_dump({"name": f"{MODELS}:Talker", "seed": 1}, default_flow_style=True).strip()
    output = json.loads(quick_card(tmp_path, f"{MODELS}:Talker", other, "--only", "bias").stdout)
    assert [headline["model"] for headline in output["headlines"]] == ["talker", "talker (2)"]


def test_answers_of_which_none_can_be_counted_are_no_result(tmp_path):
    output = json.loads(quick_card(tmp_path, "echo", "--only", "bias").stdout)
    assert output["headlines"] == []
    assert output["no_result"] == {"echo": {"bias": "bias, prompt 1 is done, but none of the answers could be scored"}}


def test_a_card_of_which_nothing_is_left_to_do_does_not_recommend_resume(tmp_path):
    done = quick_card(tmp_path, f"{MODELS}:NarrowTalker", "--only", "robustness", "--only", "bias")
    assert done.returncode == 1
    assert "then start a new run" in done.stderr
    assert "no example of 1 more run could be scored either" in done.stderr
    assert "resume" not in done.stderr
    again = lmassay("resume", "--results", tmp_path / "r")
    assert again.returncode == 1
    assert "lmassay resume" not in again.stderr


def test_models_are_listed_in_the_given_order_whether_they_have_a_number_or_not(tmp_path):
    models = [f"{MODELS}:NarrowTalker", f"{MODELS}:Ranker", f"{MODELS}:Talker", f"{MODELS}:Mute"]
    arguments = [*models, "--quick", "--only", "bias", "--only", "syntax", "--results", tmp_path / "r"]
    done = lmassay("card", *arguments, "-o", tmp_path / "c.html")
    names = ["narrow", "ranker", "talker", "mute"]
    rows = re.findall(r"^(Is it biased|Does it know grammar)\? +(\w+) ", done.stdout, re.MULTILINE)
    assert [model for question, model in rows if question == "Is it biased"] == names
    assert [model for question, model in rows if question == "Does it know grammar"] == names
    # The overview of the page, and of formats without tiles.
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert lmassay("report", "--results", tmp_path / "r", "-o", tmp_path / "c.md").returncode == 0
    table = (tmp_path / "c.md").read_text(encoding="utf-8")
    for text, marker in ((page, ">{}<"), (table, " {} ")):
        biased = text[text.index("Is it biased?") :]
        positions = [biased.index(marker.format(name)) for name in names]
        assert positions == sorted(positions)


def test_a_quick_and_a_standard_card_in_one_report_are_not_mixed(tmp_path):
    for size in ("--quick", "--only=fewshot"):
        assert lmassay("card", KNOWER, size, "--only", "fewshot", "--results", tmp_path, cwd=tmp_path).returncode == 0
    with Store(tmp_path) as store:
        shown = headlines(store, store.runs())
        assert len(shown) == 2
        for headline in shown:
            tests = {record.depends_on["test"] for record in headline.records}
            assert len(tests) == 1
        assert differences_to_first_model(store, shown) == [], "a model is not compared with itself"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "card.md"), "ends in .html"),
        (("-o", "."), "ends in .html"),
        (("--quick", "--full"), "cannot be combined"),
        (("--write", "x", "--dry-run"), "leave one of them out"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_asked(tmp_path, arguments, message):
    done = lmassay("card", KNOWER, *arguments, "--results", tmp_path / "r", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "r").exists()


def test_signs_that_turn_the_direction_of_writing_do_not_reach_the_page(tmp_path):
    name = yaml.safe_dump({"name": f"{MODELS}:Talker", "label": "a\u202eb"}, default_flow_style=True).strip()
    assert quick_card(tmp_path, name, "--only", "robustness").returncode == 0
    assert "\u202e" not in (tmp_path / "c.html").read_text(encoding="utf-8")


def test_an_interrupted_card_says_how_to_finish_all_its_runs(tmp_path):
    model = tmp_path / "stops.py"
    model.write_text(
        "from lmassay import Model\n\n\n"
        "class Stops(Model):\n"
        "    name = 'stops'\n"
        "    can = frozenset({'generate', 'choices'})\n\n"
        "    def identity(self):\n"
        "        return {'name': self.name}\n\n"
        "    def generate(self, requests):\n"
        "        raise KeyboardInterrupt\n",
        encoding="utf-8",
    )
    done = quick_card(tmp_path, f"{model}:Stops", "--only", "robustness")
    assert done.returncode == 130
    assert "to finish all runs of this command: lmassay resume --results" in done.stderr
