"""The models' answers of ``figures/kobbq``: made for the comparison, with a mark wherever a published choice stood."""

from __future__ import annotations

import csv
import functools
import gzip
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.published_data import FIGURES

TOPIC = "KoBBQ_test_evaluation"
_START = datetime(2024, 1, 1)
# ⟦B⟧ stands for choice B, ⟦B:4⟧ for its first four characters.
_MARK = re.compile("⟦([ABC])(?::([0-9]+))?⟧")


@functools.cache
def _recorded() -> dict[str, Any]:
    """``answers``: all different answers; ``files``: prompt and model → the number of each question's answer."""
    with gzip.open(FIGURES / "kobbq" / "answers.json.gz", "rt", encoding="utf-8") as stream:
        return json.load(stream)


def _choice(row: dict[str, str], mark: re.Match[str]) -> str:
    letter, length = mark.groups()
    return row[letter][: int(length)] if length else row[letter]


def write_answers(target: Path, questions: Path, prompt: int, model: str) -> None:
    """Write a file of answers as KoBBQ's step 2 does, to the questions of step 1."""
    answers = _recorded()["answers"]
    numbers = _recorded()["files"][f"{prompt}_{model}"]
    with questions.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    with target.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter="\t")
        writer.writerow(["time", "topic", "guid", "truth", "raw"])
        for position, (row, number) in enumerate(zip(rows, numbers, strict=True)):
            raw = _MARK.sub(functools.partial(_choice, row), answers[number])
            time = (_START + timedelta(microseconds=position)).isoformat(" ", "microseconds")
            writer.writerow([time, f"{TOPIC}_{prompt}", row["sample_id"], row["answer_abc"], raw])
