"""Published data sets by name, in every language that lmassay has prompts for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lmassay.answers import parser
from lmassay.errors import DataError
from lmassay.evaluations.bias.prompts import guess_language, read_prompts, shipped_prompts
from lmassay.evaluations.bias.sources import read_dataset
from lmassay.evaluations.bias.task import Bias
from tests.helpers import write_lines


def test_kobbq_is_its_test_set(fetched):
    fetched("kobbq")
    dataset = read_dataset("kobbq", Path())
    assert (dataset.name, dataset.language, dataset.kind, len(dataset.items)) == ("kobbq", "ko", "kobbq", 2280)


@pytest.mark.parametrize("spec", ["bbq/Age", {"name": "bbq", "category": "Age"}])
def test_a_category_of_bbq(fetched, spec):
    fetched("bbq")
    task = Bias(spec)
    assert task.size() == 3680
    assert task.label in ("bbq/Age, prompt 1", "bbq Age, prompt 1")


def test_a_category_that_was_not_fetched_is_named(fetched, data_cache, tmp_path, monkeypatch):
    fetched("bbq")
    folder = tmp_path / "data" / "bbq"
    folder.mkdir(parents=True)
    shutil.copy(data_cache / "data" / "bbq" / "Religion.jsonl", folder)
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path))
    assert len(read_dataset("bbq/Religion", Path()).items) == 1200
    with pytest.raises(DataError, match="run lmassay data get bbq"):
        read_dataset("bbq/SES", Path())


@pytest.mark.parametrize(
    ("language", "word"), [("es", "Pregunta"), ("nl", "Vraag"), ("tr", "Soru"), ("en", "Question")]
)
def test_mbbq_is_asked_in_its_own_language(fetched, language, word):
    fetched("mbbq")
    task = Bias({"name": "mbbq", "language": language, "category": "Age"})
    assert task._dataset.language == language
    (request,) = task.requests(next(iter(task.examples())))
    prompt = " ".join(content for _, content in request.messages)
    assert word in prompt
    # Every question has one answer that says that it cannot be known, and most have a biased one.
    assert sum(item.biased is not None for item in task._items) > 0.9 * len(task._items)


def test_several_languages_at_once_are_refused(fetched):
    fetched("mbbq")
    with pytest.raises(DataError, match=r"prompts have one language; choose one, such as mbbq/en"):
        read_dataset("mbbq", Path())


def test_a_prompt_in_another_language_is_noted(fetched):
    fetched("mbbq")
    spanish = {"name": "mbbq", "language": "es", "category": "Age"}
    assert any("seems to be in English" in note for note in Bias(spanish, prompts=shipped_prompts("en")).notes())
    notes = Bias(spanish).notes()
    assert not any("seems to be" in note for note in notes)
    assert any("not reviewed by native speakers" in note for note in notes)


@pytest.mark.parametrize("language", ["en", "es", "ko", "nl", "tr"])
def test_the_shipped_prompts_are_in_the_language_they_are_for(language):
    for prompt in read_prompts(shipped_prompts(language)).values():
        assert guess_language(f"{prompt.instruction} {prompt.question} {prompt.answer}") == language
        assert prompt.has_letters


def test_a_language_without_prompts_says_what_to_do():
    with pytest.raises(
        DataError, match=r"no prompts for the language 'fi'; translate those that lmassay init prompts writes"
    ):
        shipped_prompts("fi")


@pytest.mark.parametrize(
    ("answer", "choices"),
    [
        ("No se puede determinar.", ("Luna", "Emma", "No se puede determinar")),
        ("Es desconocido", ("Luna", "Emma", "No se sabe")),
        ("Dat is niet te bepalen.", ("Luna", "Emma", "Onbekend")),
        ("Onvoldoende informatie", ("Luna", "Emma", "Niet te zeggen")),
        ("Belirlenemez.", ("Luna", "Emma", "Bilinmiyor")),
        ("Yeterli bilgi yok", ("Luna", "Emma", "Bilinemez")),
    ],
)
def test_an_answer_that_it_cannot_be_known_is_read_in_every_language(answer, choices):
    assert parser.parse(answer, choices, "ABC", question="¿Quién?").letter == "C"


def test_a_described_data_set_may_have_any_language(tmp_path):
    rows = ["id,category,context,question,x,y,z,correct,context_type"]
    rows.append("q1,age,Kaksi ihmistä.,Kuka?,Aino,Eero,ei tiedetä,2,amb")
    write_lines(tmp_path / "rows.csv", rows)
    description = "files: rows.csv\nlanguage: fi\nchoices: [x, y, z]\nunknown_texts: ei tiedetä\ntemplate: id\n"
    (tmp_path / "data.yaml").write_text(description, encoding="utf-8")
    assert read_dataset("data.yaml", tmp_path).language == "fi"
