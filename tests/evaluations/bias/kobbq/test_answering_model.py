"""An alias such as clova-x is shown with the model behind it in every step."""

import pytest

from lmassay.errors import DataError
from lmassay.evaluations.bias.kobbq.answering_model import models_behind, notes_path, recorded_models
from tests.evaluations.bias.kobbq.steps.kit import Work, read
from tests.helpers import lmassay
from tests.servers import completion, openai_server

KEY = {"CLOVA": "clova-key-0123456789"}


@pytest.fixture
def work(tmp_path):
    work = Work(tmp_path)
    work.preprocess()
    return work


def test_every_step_names_the_model_behind_an_alias(work):
    folder = work.folder
    model = ("--model-name", "clova-x", "--set", "model=HCX-007")
    with openai_server(lambda body, _: completion("A")) as server:
        lmassay(
            *("kobbq", "infer", "--data-path", work.json, "--output-dir", folder, *model, "--base-url", server.url),
            env=KEY,
        )
    predictions = folder / "topic_1_clova-x_predictions.tsv"
    files = ("--predictions-tsv-path", predictions, "--preprocessed-tsv-path", work.questions)
    collected = folder / "out" / "topic_1_clova-x.tsv"
    third = lmassay("kobbq", "postprocess", *files)
    fourth = lmassay("kobbq", "collect", *files, "--output-path", collected)
    fifth = lmassay(
        *("kobbq", "evaluate", "--model-result-tsv-dir", folder / "out", "--topic", "topic", "--test-or-all", "test"),
        *("--evaluation-result-path", folder / "results_1.tsv", "--prompt-tsv-path", work.prompts, "--prompt-id", "1"),
        *("--models", "clova-x"),
    )
    names = (folder / "results", folder / "results")
    sixth = lmassay(
        *("kobbq", "compare", "--evaluation-result-name", names[0], "--evaluation-debiased-result-name", names[1]),
        *("--prompt_ids", "1", "--models", "clova-x"),
    )
    assert "given by HCX-007" in third.stderr
    assert "given by HCX-007" in fourth.stderr
    assert fifth.stdout.splitlines()[0] == "topic_1 clova-x (HCX-007)"
    assert {row["model"] for row in read(folder / "results_1.tsv")} == {"clova-x (HCX-007)"}
    assert sixth.stdout.splitlines()[0] == "clova-x (HCX-007)"
    assert "no rows" not in sixth.stderr


def test_a_name_that_is_the_models_own_is_not_repeated(work):
    work.answer("A")
    notes_path(work.predictions).write_text('{"guid": "a", "model": "model"}\n{"guid": "b", "mod', encoding="utf-8")
    assert models_behind(work.predictions) == []


def test_answers_without_notes_have_no_model_behind_them(work):
    work.answer("A")
    work.postprocess()
    assert work.collect().models == ()
    assert not [*work.collected.parent.glob("*.json")]


def test_a_damaged_record_is_an_error_that_says_what_to_do(work):
    record = work.folder / "topic_1_clova-x.model.json"
    record.write_text("[", encoding="utf-8")
    with pytest.raises(DataError, match="delete it, or run `lmassay kobbq collect` again"):
        recorded_models(work.folder / "topic_1_clova-x.tsv")
