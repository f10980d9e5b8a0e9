"""A small task and a method that learns in a moment, for tests of all that goes on around a training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

METHOD = '''
import os, time
from pathlib import Path

import numpy as np

from lmassay.errors import ModelError
from lmassay.evaluations.fewshot.methods.contract import Method, TrainedClassifier


class WordCounts(TrainedClassifier):
    def __init__(self, words, labels, seed, weight):
        self.words, self.labels, self.seed, self.weight = words, labels, seed, weight

    def logits(self, examples):
        known = self.words.get
        rows = [[sum(known((w, l), 0) for w in e.text_a.split()) for l in self.labels] for e in examples]
        return np.asarray(rows, dtype=float) * self.weight + np.arange(len(self.labels)) * 1e-3 * self.seed


class Counting(Method):
    """Counts words by label. It records every training, and its options make it wait, fail or kill its process."""

    needs = frozenset()

    def __init__(self, log: str, weight: float = 1.0, gate: str = "", wait: float = 0.0, fail: str = "", die: str = ""):
        self.log, self.weight, self.gate, self.wait, self.fail, self.die = log, weight, gate, wait, fail, die

    def fit(self, inputs):
        name = f"{self.weight:g}/{inputs.train[0].guid}/{len(inputs.train)}"
        with Path(self.log).open("a", encoding="utf-8") as log:
            log.write(f"{name} {os.getpid()}\\n")
        deadline = time.monotonic() + 300
        while self.gate and not Path(self.gate).exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(self.wait)
        if self.fail and name.startswith(self.fail):
            raise OSError(28, "No space left on device") if self.weight == 28 else ModelError("the loss became NaN")
        if self.die and Path(self.die).exists() and self.weight == 13:
            if Path(self.die).read_text() == "once":
                Path(self.die).unlink()
            os.kill(os.getpid(), 9)
        words = {}
        for e in inputs.train:
            for w in e.text_a.split():
                words[w, e.label] = words.get((w, e.label), 0) + 1
        return WordCounts(words, inputs.task.labels, inputs.seed % 7, self.weight)
'''

_GOOD = ["a fine day", "the fine song", "sunny and warm", "a warm welcome", "nice and sunny", "the nice house"]
_BAD = ["a poor day", "the poor song", "cold and wet", "a cold welcome", "nasty and wet", "the nasty house"]


def rows(many: int) -> list[dict[str, Any]]:
    examples = []
    for number in range(many):
        good = number % 2 == 0
        text = (_GOOD if good else _BAD)[number // 2 % 6] + f" number{number}"
        label = "entailment" if good else "not_entailment"
        examples.append({"premise": text, "hypothesis": "it was good", "label": label, "idx": number})
    return examples


def write_data(folder: Path, train: int = 16, test: int = 12) -> Path:
    """RTE's files with made-up sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, many in (("train", train), ("val", test), ("unlabeled", 20)):
        lines = rows(many)
        if name == "unlabeled":
            lines = [{key: value for key, value in row.items() if key != "label"} for row in lines]
        text = "".join(json.dumps(row) + "\n" for row in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


def write_sweep(folder: Path, **options: Any) -> Path:
    """A sweep of four configurations on two splits: eight trainings."""
    write_data(folder / "data")
    (folder / "toy.py").write_text(METHOD, encoding="utf-8")
    method = {"name": "toy.py:Counting", "log": str(folder / "log"), "weight": [1, 2, 13, 28], **options}
    task = {
        "name": "fewshot",
        "data": "rte",
        "data_dir": "data",
        "labelled": ["train"],
        "method": method,
        "splits": {"k": 2},
    }
    path = folder / "sweep.yaml"
    path.write_text(json.dumps({"task": task, "resamples": 200}), encoding="utf-8")
    return path


def trained(folder: Path) -> list[str]:
    """The trainings that were begun, in order."""
    log = folder / "log"
    return [line.split()[0] for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
