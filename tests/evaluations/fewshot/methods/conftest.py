"""Tiny models that know the words of a small entailment task, the task itself, and the gold models."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from lmassay.models.hf.model import HuggingFace
from tests import tiny_models
from tests.published import fewnlu_gold

Opened = Callable[..., HuggingFace]
_SUBJECTS = ("the author", "the pilot", "the surgeon", "some dancers", "a customer", "the teacher", "people", "guards")
_WORDS = ("Yes", "No", "true", "false", "laughs", "swims")


@pytest.fixture(scope="session", autouse=True)
def torch_is_installed() -> None:
    pytest.importorskip("torch", reason="the hf extra is not installed")


@pytest.fixture(scope="session")
def gold_model(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """``gold_model("bert")``, or albert or albert_pad: the model behind the gold values."""
    made: dict[str, Path] = {}

    def open_gold(family: str) -> HuggingFace:
        if family not in made:
            folder = tmp_path_factory.mktemp(f"gold-{family}")
            made[family] = fewnlu_gold.save_model(family, folder)
        return HuggingFace(str(made[family]))

    return open_gold


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """``tiny("roberta")``: a random model of a family in whose vocabulary the verbalizers are single tokens."""
    made: dict[str, Path] = {}

    def open_tiny(family: str, **options: Any) -> HuggingFace:
        if family not in made:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tiny_models, "tokenizer_of", _with_words(tiny_models.tokenizer_of))
                made[family] = tiny_models.save_model(tmp_path_factory.mktemp(family), family)
        return HuggingFace(str(made[family]), **options)

    return open_tiny


def _with_words(tokenizer_of: Callable[..., Any]) -> Callable[..., Any]:
    def with_words(family: str, words: Sequence[str] = ()) -> Any:
        from tokenizers import AddedToken

        tokenizer = tokenizer_of(family, words)
        tokenizer.add_tokens([AddedToken(word, lstrip=True, single_word=True, normalized=False) for word in _WORDS])
        return tokenizer

    return with_words


@pytest.fixture(scope="session")
def rte(tmp_path_factory: pytest.TempPathFactory) -> NluTask:
    """Entailment that can be learned from a word: who laughs is not who swims."""
    folder = tmp_path_factory.mktemp("rte")
    rows = [
        {
            "premise": f"{who} {'laughs' if place % 2 else 'swims'} near the {what}{' and the movie' * (place % 3)}.",
            "hypothesis": f"{who} laughs",
            "label": "entailment" if place % 2 else "not_entailment",
            "idx": place,
        }
        for place, (who, what) in enumerate((who, what) for what in ("pilot", "movie", "people") for who in _SUBJECTS)
    ]
    for part, chosen in (("train", rows[:16]), ("dev32", rows[16:24]), ("val", rows[8:24]), ("unlabeled", rows[4:12])):
        text = "\n".join(json.dumps(row) for row in chosen) + "\n"
        (folder / f"{part}.jsonl").write_text(text, encoding="utf-8")
    return open_task("superglue/rte", folder)
