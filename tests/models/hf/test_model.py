"""A sweep loads a model's weights once."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from lmassay.models.hf.model import HuggingFace
from tests.tiny_models import save_model


def setup_module() -> None:
    """Import transformers when the first test runs: collecting the tests does not wait for it."""
    pytest.importorskip("transformers", reason="the hf extra is not installed")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    folders = {family: save_model(tmp_path_factory.mktemp("kept") / family, family) for family in ("gpt2", "bert")}
    return folders.__getitem__


def test_the_next_run_asks_the_model_that_is_loaded_already(folder_of, monkeypatch):
    opened = []
    monkeypatch.setattr(HuggingFace, "_open_engine", lambda self: opened.append(self.label) or object())
    first, again = (HuggingFace(str(folder_of("gpt2"))) for _ in range(2))
    assert first._engine is again._engine
    other = HuggingFace(str(folder_of("bert")))
    assert other._engine is not first._engine
    assert opened == ["gpt2", "bert", "gpt2"]


def test_a_device_that_only_workers_have_need_not_exist_here(folder_of):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(ConfigError, match="there is no CUDA device here"):
        HuggingFace(str(folder_of("gpt2")), device="cuda").identity()
    identity = HuggingFace(str(folder_of("gpt2")), device="cuda", resources={"GPU": 1}).identity()
    assert identity["device"] == "cuda"
    assert "resources" not in identity
