"""Runs of refining-tse on own pairs and models, and what ``lmassay tse run-all`` makes of the same configurations."""

from __future__ import annotations

import json
import math
import shutil
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.helpers import lmassay
from tests.published import documents
from tests.published.reference_files import REFERENCE

FOLDER = REFERENCE / "tse"
MODELS = ("bert-own", "gpt2-own", "roberta-own")
VERSIONS = {"torch": "2.13.0+cpu", "transformers": "4.46.3", "numpy": "1.26.4"}
"""Of the libraries that the original ran with."""
METRICS = {"EW": "tse_ew", "MW": "mw"}
"""Metric → the name of the configurations that compute it."""

# --- tolerances -------------------------------------------------------------------------------------------------------

MEAN = 2e-5
"""A mean over contexts; the largest difference seen is 3e-6."""
CONTEXT = 1e-4
"""One context: two words whose probabilities agree to six digits may stand in either order at a cut-off."""
EW_AT_ONE, EW_AT_ONE_CONTEXT = 2e-3, 2e-2
"""EW at top cut-off 1.0, where a float32 sum decides whether the last lemma counts: one of 51 in one context."""
SMALL_MASS = 0.05
"""Part of a probability mass that is smaller than the tolerance of a mean."""


def tolerance(path: documents.Path, recorded: float) -> float:
    """Scores and probability masses have a tolerance; TSE, counts, rows and invalid shares are exact."""
    if len(path) < 5 or path[2] not in METRICS:
        return 0.0
    metric, name, place = path[2], path[3], path[-1]
    at_one = metric == "EW" and name.endswith("_top") and place == "11"
    if name.startswith("contexts_"):
        return EW_AT_ONE_CONTEXT if at_one else CONTEXT
    if name.startswith("overall_"):
        return EW_AT_ONE if at_one else MEAN
    return min(MEAN, SMALL_MASS * recorded) if name.startswith("prob_counted_") else 0.0


# --- documents --------------------------------------------------------------------------------------------------------


def recorded_text(model: str) -> str:
    return (FOLDER / f"gold_{model}.json").read_text(encoding="utf-8")


def recorded(model: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(recorded_text(model))
    return document


def sets(model: str) -> list[str]:
    """The sets of pairs that a model ran on, by the folders of its configurations."""
    return sorted(path.name for path in (FOLDER / "configs" / model).iterdir())


def configurations(model: str, name: str) -> list[Path]:
    return sorted((FOLDER / "configs" / model / name).glob("*.yaml"))


def run_all(folder: Path, *options: str) -> Path:
    """Run configurations in a copy of the reference folder, as a user does in a clone of the original."""
    for part in ("configs", "data", "models"):
        shutil.copytree(FOLDER / part, folder / part)
    done = lmassay("tse", "run-all", "configs", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "results"


def document(results: Path, model: str) -> dict[str, Any]:
    """lmassay's results of a model in the form of the recorded file."""
    (main,) = {json.dumps(_main_options(path)) for name in sets(model) for path in configurations(model, name)}
    cutoffs = json.loads(main)
    results_of_sets = {name: set_document(results, model, name) for name in sets(model)}
    return {"model": model, **cutoffs, "versions": VERSIONS, "results": results_of_sets}


def _main_options(path: Path) -> dict[str, list[float]]:
    main = yaml.safe_load(path.read_text(encoding="utf-8"))["metrics"]["main"]
    return {"cutoffs_top": main["cutoffs_top"], "cutoffs_bottom": main["cutoffs_bot"]}


def set_document(results: Path, model: str, name: str) -> dict[str, Any]:
    """lmassay's results of one set of pairs: both of its configurations."""
    numbers: dict[str, Any] = {}
    for metric, configuration in METRICS.items():
        (folder,) = (results / model / name / configuration).iterdir()
        numbers[metric] = _verbs(folder)
        if configuration == "tse_ew":
            numbers["TSE"] = _pairs(folder)
            numbers["n_lemmas"] = _lemmas(folder)
    return numbers


def _pairs(folder: Path) -> dict[str, Any]:
    scores = _array(folder, "ML_scores").tolist()
    rows = _array(folder, "ML-valid_min_pairs_idxs").tolist()
    return {"score": sum(scores) / len(scores), "n": len(scores), "scores": scores, "scored_rows": rows}


def _verbs(folder: Path) -> dict[str, Any]:
    rows = _array(folder, "main-valid_min_pairs_idxs").tolist()
    numbers: dict[str, Any] = {"n_contexts": len(rows), "context_rows": rows}
    for side in ("top", "bottom"):
        scores = _array(folder, f"Cutoff scores ({side}-k)").T.tolist()
        masses = _array(folder, f"Prob counted ({side}-k)").T.tolist()
        numbers[f"overall_{side}"] = [_mean(column) for column in scores]
        numbers[f"invalid_{side}"] = [sum(map(math.isnan, column)) / len(column) for column in scores]
        numbers[f"prob_counted_{side}"] = [_mean(column) for column in masses]
        # Values of single contexts are recorded where there are few.
        if len(rows) <= 20:
            numbers[f"contexts_{side}"] = [[_none(value) for value in row] for row in zip(*scores, strict=True)]
    return numbers


def _array(folder: Path, name: str) -> Any:
    import numpy as np

    return np.load(folder / "npzs" / f"{name}.npz")["arr_0"]


def _mean(values: Sequence[float]) -> float | None:
    there = [value for value in values if not math.isnan(value)]
    return math.fsum(there) / len(there) if there else None


def _none(value: float) -> float | None:
    return None if math.isnan(value) else value


def _lemmas(folder: Path) -> int:
    for line in (folder / "metrics" / "main.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("Number of lemmas: "):
            return int(line.removeprefix("Number of lemmas: "))
    raise AssertionError(f"{folder} tells no number of lemmas")


def left_contexts(name: str) -> list[str]:
    """What stands before the verb in each pair of a set, as the model reads it."""
    contexts: list[str] = []
    for line in (FOLDER / "data" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        good, bad = (pair[key].strip(string.punctuation).split() for key in ("sentence_good", "sentence_bad"))
        place = next(place for place, (a, b) in enumerate(zip(good, bad, strict=True)) if a != b)
        words = [good[0].capitalize(), *good[1:place]]
        # A comma stands at the word before it.
        contexts.append(" ".join(words).replace(" ,", ","))
    return contexts
