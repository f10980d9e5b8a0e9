"""BLiMP's published averages, computed again from its published results by paradigm.

The repository has the accuracy of four models on each paradigm, and their averages by phenomenon and overall. People's
accuracies are published by paradigm; their overall average is printed in the paper (Warstadt et al. 2020, Table 3).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path

from lmassay.contracts import ReproducedFigure
from lmassay.datasets.catalogue import select
from lmassay.errors import DataError
from lmassay.evaluations.syntax.blimp import paradigms

_MODELS = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}
_OVERALL = "overall"
_HUMAN_OVERALL = "0.886"


def blimp() -> list[ReproducedFigure]:
    """All published averages of the models, and that of people."""
    models_file, humans_file = _result_files()
    by_paradigm: dict[str, Mapping[str, float]] = {}
    published: dict[str, Mapping[str, float]] = {}
    for line in models_file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["UID"] == _OVERALL:
            published[row["linguistics_term"]] = row
        else:
            by_paradigm[row["UID"]] = row
    figures: list[ReproducedFigure] = []
    for model, title in _MODELS.items():
        for phenomenon, row in published.items():
            accuracies = [by_paradigm[name][model] for name in _members(phenomenon)]
            figures.append(ReproducedFigure(f"{title}, {phenomenon}", f"{row[model]:.6f}", f"{_mean(accuracies):.6f}"))
    with humans_file.open(encoding="utf-8", newline="") as stream:
        humans = {row["Condition"]: float(row["total_mean"]) for row in csv.DictReader(stream)}
    accuracies = [humans[name] for name in paradigms()]
    figures.append(ReproducedFigure("people, overall", _HUMAN_OVERALL, f"{_mean(accuracies):.3f}"))
    return figures


def _result_files() -> tuple[Path, Path]:
    selections = [select({"name": "blimp", "results": which}, role="results") for which in ("models", "humans")]
    first, second = selections
    if first is None or second is None:
        raise DataError("the data set blimp is not in the catalogue")
    return first.paths[0], second.paths[0]


def _members(phenomenon: str) -> list[str]:
    """The paradigms of a phenomenon; all of them for the overall average."""
    return [name for name, paradigm in paradigms().items() if phenomenon in (_OVERALL, paradigm.phenomenon)]


def _mean(accuracies: list[float]) -> float:
    return sum(accuracies) / len(accuracies)
