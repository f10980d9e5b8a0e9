"""Published numbers about syntax: BLiMP's averages (Warstadt et al. 2020), and the table of Newman et al. (2021).

BLiMP's repository has the accuracy of four models on each paradigm, and their averages by phenomenon and overall.
People's accuracies are published by paradigm; their overall average is printed in the paper (Table 3). The averages are
computed again from the accuracies by paradigm. The table of Newman et al. is computed again by running the models.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from lmassay.contracts import ReproducedFigure, ReproductionPart, Work
from lmassay.datasets.catalogue import select
from lmassay.errors import DataError
from lmassay.evaluations.syntax.blimp import paradigms
from lmassay.evaluations.syntax.refining_tse.published import METRICS, TEMPLATE_SETS, TemplateSet
from lmassay.types import OVERALL, RunRecord

# --- BLiMP ------------------------------------------------------------------------------------------------------------

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
    models = select({"name": "blimp", "results": "models"}, role="results")
    humans = select({"name": "blimp", "results": "humans"}, role="results")
    if models is None or humans is None:
        raise DataError("the data set blimp is not in the catalogue")
    return models.paths[0], humans.paths[0]


def _members(phenomenon: str) -> list[str]:
    """The paradigms of a phenomenon; all of them for the overall average."""
    return [name for name, paradigm in paradigms().items() if phenomenon in (_OVERALL, paradigm.phenomenon)]


def _mean(accuracies: list[float]) -> float:
    return sum(accuracies) / len(accuracies)


# --- Newman et al. (2021) ---------------------------------------------------------------------------------------------

# The number of weights that a token is multiplied with, from which the time is estimated: 12 · width² in each layer.
# The output layer is left out, because it is applied to one position only.
_WEIGHTS = {
    "bert-large-cased": 24 * 12 * 1024**2,
    "bert-large-uncased": 24 * 12 * 1024**2,
    "gpt2-xl": 48 * 12 * 1600**2,
    "roberta-large": 24 * 12 * 1024**2,
}
_UNCASED = "bert-large-uncased"
_CAUSAL = "gpt2-xl"
# The 125,220 pairs have 78,153 distinct contexts of 12 tokens on average. A causal model sees only what precedes the
# verb, and shared beginnings are computed once, which leaves 24,266 tokens.
_PAIRS = 125_220
_MASKED_TOKENS = 78_153 * 12
_CAUSAL_TOKENS = 24_266
# Half a unit of the last printed digit, plus the difference that the models' arithmetic may make. EW at the cut-off
# 1.0, which the paper reports, also depends on how the original rounds a sum.
_TOLERANCES = {"mw": 0.0055, "ew": 0.007, "tse": 0.0055}
# The original counts the position of the mask without the space that it puts before the sentence. With another version
# of the tokenizer, this was a wrong position in 381 of 4,000 rows; with the one that the authors used, it may differ.
_EXCUSED = ("roberta-large", "blimp")
_EXCUSE = "possibly because the original reads a wrong position in some rows"
_DECIMALS = 3


def refining_tse() -> list[ReproductionPart]:
    """The sets of templates of the paper's table, for each of its models."""
    verbs = select({"name": "tse"}, role="verbs")
    if verbs is None:
        raise DataError("the data set tse is not in the catalogue")
    parts: list[ReproductionPart] = []
    for model, weights in _WEIGHTS.items():
        for name, template_set in TEMPLATE_SETS.items():
            pairs, files = _files_of(template_set)
            task = {
                "name": "syntax",
                "label": template_set.title,
                "data": {template_set.title: files},
                "verbs": str(verbs.paths[0]),
                "capitalize": model != _UNCASED,
                # The largest top cut-off includes every verb, so the table needs no curves.
                "cutoffs_top": [],
                "cutoffs_bottom": [],
            }
            tokens = (_CAUSAL_TOKENS if model == _CAUSAL else _MASKED_TOKENS) * pairs / _PAIRS
            parts.append(
                ReproductionPart(
                    name=name,
                    model=model,
                    config={"task": task},
                    figures=partial(_table_figures, model, name),
                    work=Work(weights, read_tokens=tokens),
                )
            )
    return parts


def _files_of(template_set: TemplateSet) -> tuple[int, list[str]]:
    """The number of pairs of a set of templates, and its files."""
    pairs = 0
    files: list[str] = []
    for construction in template_set.constructions:
        selection = select({"name": "tse", "construction": construction})
        assert selection is not None
        for path, file in selection.files:
            pairs += file.examples or 0
            files.append(str(path))
    return pairs, files


def _table_figures(model: str, name: str, records: Sequence[RunRecord]) -> list[ReproducedFigure]:
    """MW, EW and TSE of a model on a set of templates."""
    (record,) = records
    template_set = TEMPLATE_SETS[name]
    excuse = _EXCUSE if (model, name) == _EXCUSED else ""
    figures: list[ReproducedFigure] = []
    for metric, published in zip(METRICS, template_set.scores[model], strict=True):
        result = record.result(metric, OVERALL)
        computed = "none"
        if result is not None and result.value is not None:
            computed = f"{result.value:.{_DECIMALS}f}"
        name_of_figure = f"{model}, {template_set.title}: {metric.upper()}"
        figures.append(ReproducedFigure(name_of_figure, published, computed, excuse, _TOLERANCES[metric]))
    return figures
