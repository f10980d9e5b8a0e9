"""Scores of single sentences of TEAPOT's published examples, from ``figures/teapot``."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.published_data import FIGURES

_FOLDER = FIGURES / "teapot"


def scores_of_sacrebleu(release: str) -> dict[str, dict[str, Any]]:
    """Name → ``hyp`` and ``ref``, the files that are compared, and ``chrf`` and ``bleu`` of each line, from 0 to 1."""
    with gzip.open(_FOLDER / "per-sentence.json.gz", "rt", encoding="utf-8") as stream:
        scores = json.load(stream)
    assert scores.pop("sacrebleu") == "2.6.0"
    if release == "1.3.1":
        # Where no n-gram of an order matches, its BLEU has a floor; all else differs by less than 1e-12.
        floors = json.loads((_FOLDER / "bleu-sacrebleu1.json").read_text(encoding="utf-8"))
        for name, lines in floors.items():
            for line, score in lines.items():
                scores[name]["bleu"][int(line) - 1] = score
    return scores


def scores_of_meteor() -> dict[str, list[float]]:
    """``hypotheses|references`` → METEOR 1.5 of each line."""
    with gzip.open(_FOLDER / "per-sentence-meteor.json.gz", "rt", encoding="utf-8") as stream:
        return json.load(stream)
