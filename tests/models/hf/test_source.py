"""What is known about a model without loading it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmassay.errors import DataError
from lmassay.models.hf.source import ModelSource


def _source(folder: Path, architecture: str, **config: object) -> ModelSource:
    (folder / "config.json").write_text(json.dumps({"architectures": [architecture], **config}), encoding="utf-8")
    return ModelSource("m", folder)


@pytest.mark.parametrize("family", ["bert", "electra", "funnel"])
def test_a_masked_language_model_is_recognised_by_its_head(tmp_path, family):
    assert _source(tmp_path, f"{family.title()}ForMaskedLM", model_type=family).kind == "masked"


@pytest.mark.parametrize("family", ["electra", "funnel"])
def test_a_head_that_tells_real_words_from_replaced_ones_is_refused(tmp_path, family):
    source = _source(tmp_path, f"{family.title()}ForPreTraining", model_type=family)
    with pytest.raises(DataError, match="ForPreTraining, which is not a language model"):
        _ = source.kind


def test_other_heads_of_pretraining_contain_a_masked_language_model(tmp_path):
    assert _source(tmp_path, "BertForPreTraining", model_type="bert").kind == "masked"


@pytest.mark.parametrize(
    ("architecture", "names_head"),
    [
        ("BertForMaskedLM", True),
        ("BertModel", False),
        ("GPT2LMHeadModel", True),
        ("GPT2Model", False),
        ("MarianMTModel", True),
        # A body, unlike Marian's class of the same ending.
        ("FSMTModel", False),
    ],
)
def test_the_weights_are_searched_for_a_head_only_if_the_architecture_names_none(tmp_path, architecture, names_head):
    assert _source(tmp_path, architecture).names_head is names_head
