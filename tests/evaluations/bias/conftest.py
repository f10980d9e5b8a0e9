"""Runs that several files use."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lmassay import evaluate
from tests.published_data import published_set


@pytest.fixture(scope="session")
def default_and_debiased(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with KoBBQ under the default and under debiased prompts, in this order. Tests only read it."""
    gold, data = shared / "gold" / "kobbq", published_set("kobbq")
    folder = tmp_path_factory.mktemp("default_and_debiased")
    default = data / "0_evaluation_prompts.tsv"
    debiased = gold / "inputs" / "0_evaluation_prompts_debiased_synthetic.tsv"
    for kind, prompts in (("biased", default), ("debiased", debiased)):
        source = gold / "inputs" / "raw" / f"KoBBQ_test_evaluation_1_{kind}_predictions.tsv.gz"
        answers = folder / f"{kind}.tsv"
        answers.write_bytes(gzip.decompress(source.read_bytes()))
        task = {"name": "bias", "data": str(data / "KoBBQ_test_samples.tsv"), "prompts": str(prompts)}
        model = {"name": "predictions", "file": str(answers), "label": "synth-model"}
        evaluate({"task": task, "model": model, "resamples": 100}, folder / "results")
    return folder
