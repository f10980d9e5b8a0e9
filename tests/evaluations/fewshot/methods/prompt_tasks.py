"""A tiny task and tiny models for methods that train: all families have its two words as one token each."""

from __future__ import annotations

import atexit
import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from lmassay.evaluations.fewshot.methods.contract import TrainingInputs
from lmassay.evaluations.fewshot.tasks.nlu import open_task
from lmassay.models.hf.model import HuggingFace
from tests.tiny_models import save_model

TASK = """
name: who
data: {train: train.jsonl, dev: dev.jsonl}
fields: [first, second]
labels: ["0", "1"]
words: {"0": author, "1": laugh}
patterns: ['{first} {second} so [mask].', '{second} [mask] {first}']
"""
# The label says whether the second text speaks of authors.
TEXTS = [("the pilot is tall", "the author is old"), ("a movie", "the teacher is here"), ("some joy", "authors laugh")]


def write_task(folder: Path, copies: int = 4) -> Path:
    rows = [
        {"first": first, "second": second, "label": str(int("author" not in second))}
        for _ in range(copies)
        for first, second in TEXTS
    ]
    for part in ("train", "dev"):
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    file = folder / "who.yaml"
    file.write_text(TASK, encoding="utf-8")
    return file


def inputs_of(folder: Path, model: HuggingFace | None, n: int = 8, seed: int = 42) -> TrainingInputs:
    task = open_task(write_task(folder))
    return TrainingInputs(task, model, task.examples("train")[:n], task.examples("dev")[:4], seed=seed)


@cache
def model_of(family: str) -> HuggingFace:
    """Saved once for all tests of a process, and gone with it."""
    folder = Path(mkdtemp(prefix=f"tiny-{family}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return HuggingFace(str(save_model(folder, family)), device="cpu")


QUICK = {"max_steps": 3, "batch_size": 4, "micro_batch": 2, "eval_ratios": 1.0, "max_seq_length": 48}
