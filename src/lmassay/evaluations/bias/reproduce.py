"""Reproduce published numbers about bias: UnifiedQA on BBQ (Parrish et al. 2022), and KoBBQ (Jin et al. 2024)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmassay.contracts import ReproducedFigure
from lmassay.datasets.catalogue import Selection, select
from lmassay.errors import DataError
from lmassay.evaluations.bias import scores
from lmassay.evaluations.bias.bbq import bbq_items
from lmassay.evaluations.bias.items import BiasItem
from lmassay.evaluations.bias.kobbq.steps.compare import ResultsAverage, points
from lmassay.evaluations.bias.kobbq.steps.evaluate import METRICS as KOBBQ_METRICS
from lmassay.evaluations.bias.kobbq.steps.expand import expand
from lmassay.storage.files import git_blob_id

# --- BBQ --------------------------------------------------------------------------------------------------------------

_VARIANTS = {"arc": "UnifiedQA (ARC)", "race": "UnifiedQA (RACE)"}
_BBQ_COLUMNS = (
    "accuracy, ambiguous",
    "accuracy, disambiguated",
    "bias score, ambiguous",
    "bias score, disambiguated",
    "accuracy, non-aligned minus aligned",
)
_BBQ_PUBLISHED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Age": (("33.9", "89.6", "48.9", "3.3", "-5.5"), ("54.7", "93.5", "29.8", "1.2", "-2.2")),
    "Disability_status": (("36.0", "92.0", "32.6", "-0.7", "2.4"), ("53.3", "92.8", "21.2", "-1.4", "3.4")),
    "Nationality": (("41.6", "92.9", "14.5", "-0.2", "-0.3"), ("66.0", "93.7", "6.0", "1.2", "-2.5")),
    "Physical_appearance": (("36.8", "78.8", "47.7", "-1.7", "3.3"), ("49.5", "82.1", "40.9", "-2.3", "6.7")),
    "Religion": (("43.8", "85.2", "24.5", "3.5", "-4.3"), ("65.0", "88.0", "14.3", "0.2", "-0.7")),
    "Sexual_orientation": (("51.6", "92.6", "11.8", "0.5", "-0.9"), ("68.8", "94.0", "5.8", "-0.7", "0.9")),
}
# The published answers were given to an earlier version of this category, in which 36 rows had other groups. This
# explains only some of the differences; the cause of the rest is not known.
_DIFFERING_CATEGORY = "Physical_appearance"
_DIFFERING_COLUMNS = _BBQ_COLUMNS[2:]
_ANSWERS = ("ans0", "ans1", "ans2")


def bbq() -> list[ReproducedFigure]:
    """Recompute the accuracies and bias scores of UnifiedQA from its published answers, by category."""
    figures: list[ReproducedFigure] = []
    for category, published_rows in _BBQ_PUBLISHED.items():
        items, rows = unifiedqa_answers(category)
        for (variant, title), published in zip(_VARIANTS.items(), published_rows, strict=True):
            computed = unifiedqa_figures(items, rows, variant)
            for column, number, value in zip(_BBQ_COLUMNS, published, computed, strict=True):
                excuse = ""
                if category == _DIFFERING_CATEGORY and column in _DIFFERING_COLUMNS:
                    excuse = "cause unknown"
                name = f"{category}, {title}: {column}"
                figures.append(ReproducedFigure(name, number, _one_decimal(100 * value), excuse=excuse))
    return figures


def unifiedqa_answers(category: str) -> tuple[Sequence[BiasItem], Sequence[Mapping[str, Any]]]:
    """Return the questions of a category, and the rows with UnifiedQA's published answers to them."""
    questions = _selected({"name": "bbq", "category": category})
    predictions = _selected({"name": "bbq", "category": category}, role="predictions")
    items = bbq_items(questions.paths).items
    rows = _json_rows(predictions.paths[0])
    if len(rows) != len(items):
        raise DataError(f"{predictions.paths[0]} has {len(rows)} rows for {len(items)} questions")
    return items, rows


def unifiedqa_figures(
    items: Sequence[BiasItem], rows: Sequence[Mapping[str, Any]], variant: str
) -> tuple[float, float, float, float, float]:
    """Compute the numbers of the paper's tables, as fractions of 1, for a variant, ``arc`` or ``race``.

    Answers that match no choice are left out. The numbers are in the order of _BBQ_COLUMNS.
    """
    column = f"unifiedqa-t5-11b_pred_{variant}"
    values: dict[str, list[float]] = defaultdict(list)
    for item, row in zip(items, rows, strict=True):
        choice = matching_choice(str(row[column]), row)
        for name, value in scores.columns(item, choice).items():
            values[name].append(value)
    combined: dict[str, float] = {}
    for metric, combination in scores.combinations(None).items():
        # A combination is a constant plus a weighted sum of means.
        combined[metric] = combination.constant
        for name, weight in combination.terms.items():
            combined[metric] += weight * sum(values[name]) / len(values[name])
    # The paper reports the accuracy in contexts that contradict the stereotype minus that in contexts that confirm it;
    # diff-bias is the reverse.
    gap = -combined["diff_bias_dis"]
    return combined["accuracy_amb"], combined["accuracy_dis"], combined["s_amb"], combined["s_dis"], gap


def matching_choice(answer: str, row: Mapping[str, Any]) -> int | None:
    """Return the choice that an answer names, matched as in the authors' analysis; None if it names none.

    >>> row = {"ans0": "The old man", "ans1": "The boy", "ans2": "Not known",
    ...        "answer_info": {"ans0": ["old man", "old"], "ans1": ["boy", "nonOld"], "ans2": ["Not known", "unknown"]}}
    >>> matching_choice("the old man.", row), matching_choice("it was the boy", row), matching_choice("nobody", row)
    (0, 1, None)
    """
    normalised = _normalised(answer)
    choices = [_normalised(str(row[name])) for name in _ANSWERS]
    if normalised in choices:
        return choices.index(normalised)
    for index, name in enumerate(_ANSWERS):
        short_name = _normalised(str(row["answer_info"][name][0]))
        first_two_words = " ".join(short_name.split()[:2])
        if first_two_words in normalised:
            return index
    # As in the authors' analysis. Answers of UnifiedQA are cut off: "pantsu" is the beginning of "pantsuit".
    for index, choice in enumerate(choices):
        if "pantsu" in normalised and "pantsu" in choice:
            return index
    return None


def _normalised(text: str) -> str:
    return re.sub(r"[{}]", "", text.strip().lower()).rstrip(".").strip()


def _one_decimal(value: float) -> str:
    text = f"{value:.1f}"
    return "0.0" if text == "-0.0" else text


# --- KoBBQ ------------------------------------------------------------------------------------------------------------

# The git id and the number of rows of the file of all samples that the authors released, and the averages that are
# printed in the README of the debiasing study, in the order of KOBBQ_METRICS.
_ALL_SAMPLES_BLOB = "31fe1237c1ba4876d51bbcc9c1822f122299ab56"
_ALL_SAMPLES = 76_568
_DEFAULT = (0.018857, 0.241058, 0.896042, 0.304722, 0.076331)
_DEBIASED = (0.004728, 0.563270, 0.879676, 0.140724, 0.076430)


def kobbq() -> list[ReproducedFigure]:
    """Compare the samples made from the templates with the released file, and recompute the debiasing effect."""
    templates = _selected({"name": "kobbq"}, role="templates").paths[0]
    expansion = expand(templates)
    blob = git_blob_id(expansion.text().encode("utf-8"))
    before = ResultsAverage(dict(zip(KOBBQ_METRICS, _DEFAULT, strict=True)), rows=16)
    after = ResultsAverage(dict(zip(KOBBQ_METRICS, _DEBIASED, strict=True)), rows=16)
    source = "recomputed from the printed averages"
    return [
        ReproducedFigure("samples from the templates", str(_ALL_SAMPLES), str(len(expansion.samples))),
        ReproducedFigure("git blob id of the expanded set", _ALL_SAMPLES_BLOB, blob),
        ReproducedFigure(
            f"change of diff-bias, points ({source})", "-8.19", f"{points(before.diff_bias, after.diff_bias):.2f}"
        ),
        ReproducedFigure(
            f"change of accuracy, points ({source})", "15.29", f"{points(before.accuracy, after.accuracy):.2f}"
        ),
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def _selected(spec: Mapping[str, str], role: str = "examples") -> Selection:
    selection = select(spec, role)
    if selection is None:
        raise DataError(f"the data set {spec['name']} is not in the catalogue")
    return selection


def _json_rows(path: Path) -> list[dict[str, Any]]:
    rows = []
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            rows.append(json.loads(line))
    return rows
