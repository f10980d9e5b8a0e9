"""The bias evaluation on a card (see ``lmassay card``): how its questions are asked, and its headline number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.contracts import CardRequest, CardVariant, DataNeed
from lmassay.evaluations.bias import evaluation
from lmassay.evaluations.bias.sources import CONTROL
from lmassay.reporting.headline import Headline, ReferenceRow, ReferenceTable, value_with_interval
from lmassay.reporting.variants import pooled
from lmassay.storage.store import Store
from lmassay.types import Result, RunRecord
from lmassay.types.wording import counted

_DATA = Path(__file__).parent / "card_data"
# Size of the card → ids of the prompts with which the questions are asked.
_PROMPTS = {"quick": [1], "standard": [1, 2], "full": [1, 2, 3]}
_LOCAL_MODELS = ("smollm2", "hf")


def variants(size: str) -> list[CardVariant]:
    """Return how the card asks its questions about people, best variant first.

    A model that can be restricted to given choices answers by letter; any other model answers in words.
    """
    task: dict[str, Any] = {"name": "bias", "data": "bias.yaml", "prompt_id": _PROMPTS[size]}
    if size == "quick":
        task["per_category"] = 1
    by_letter = {**task, "answer_by": "letters"}
    return [
        CardVariant(frozenset({"generate", "choices"}), {"task": by_letter}, _DATA),
        CardVariant(frozenset({"generate"}), {"task": task}, _DATA),
    ]


# --- on published data ------------------------------------------------------------------------------------------------

# The six categories for which the answers of UnifiedQA were published; the other five are not asked about.
BBQ_CATEGORIES = (
    "Age",
    "Disability_status",
    "Nationality",
    "Physical_appearance",
    "Religion",
    "Sexual_orientation",
)
_SEED = 0
# Size of the card → how many templates of each category, and how many questions of each kind of a template, are asked
# (None: all).
_TEMPLATES = {"quick": 10, "standard": None, "full": None}
_KOBBQ_TEMPLATES = {"quick": 4, "standard": None, "full": None}
_QUESTIONS = {"quick": 1, "standard": 1, "full": None}


def published_variants(request: CardRequest) -> list[CardVariant]:
    """Return how the card asks the questions of BBQ, KoBBQ or MBBQ, best variant first."""
    data = published_data(request.language)
    task: dict[str, Any] = {"name": "bias", "data": data, "prompt_id": _PROMPTS[request.size]}
    templates = _KOBBQ_TEMPLATES if request.language == "ko" else _TEMPLATES
    if templates[request.size] is not None:
        task["per_category"] = templates[request.size]
    if _QUESTIONS[request.size] is not None:
        task |= {"per_template": _QUESTIONS[request.size], "sample_seed": _SEED}
    needs: tuple[DataNeed, ...] = (DataNeed(data),)
    if _has_control_questions(request.language):
        task["control"] = True
        needs = (*needs, DataNeed(data, role=CONTROL))
    by_letter = {**task, "answer_by": "letters"}
    # Letters first, because they need no parsing of words.
    return [
        CardVariant(frozenset({"generate", "choices"}), {"task": by_letter}, Path(), needs),
        CardVariant(frozenset({"generate"}), {"task": task}, Path(), needs),
    ]


def _has_control_questions(language: str) -> bool:
    """Return True for MBBQ; the other two data sets have no questions without stereotypes."""
    return str(published_data(language)).startswith("mbbq/")


def published_data(language: str) -> Any:
    """Return the data set for a language, in the form in which a configuration names it."""
    if language == "en":
        return {"name": "bbq", "category": list(BBQ_CATEGORIES)}
    if language == "ko":
        return "kobbq"
    return f"mbbq/{language}"


@dataclass(frozen=True, slots=True)
class PublishedScores:
    """Published scores of a model: bias and accuracy in ambiguous contexts, and accuracy in disambiguated contexts."""

    model: str
    bias: float
    accuracy_amb: float
    accuracy_dis: float
    source: str
    n: int | None = None
    """The number of questions in ambiguous contexts; there are as many in disambiguated contexts."""


# Computed from the published answers as in the authors' analysis, over all questions of the six categories together.
_PARRISH = "the answers that Parrish et al. (2022) published, scored again"
UNIFIEDQA = (
    PublishedScores("UnifiedQA-11B (ARC)", 0.3274, 0.3882, 0.8911, _PARRISH, 5_978),
    PublishedScores("UnifiedQA-11B (RACE)", 0.2081, 0.5878, 0.9144, _PARRISH, 5_978),
)
# Averages printed in the README of the debiasing study of KoBBQ, for the default prompts.
_GPT35 = (PublishedScores("GPT-3.5 turbo (0125)", 0.3047, 0.2411, 0.8960, "README of KoBBQ's debiasing study"),)
_GUESSING = ReferenceRow("guessing among three choices", 1 / 3)


def _references(record: RunRecord, accuracy_amb: Result | None, accuracy_dis: Result | None) -> list[ReferenceTable]:
    """Return tables of scores to compare a run with; none for other data than BBQ's six categories, KoBBQ and MBBQ.

    They list published scores on the same data, where they exist (not for MBBQ), and what balanced answers or guessing
    would reach.
    """
    task = record.config["task"]
    data = task.get("data") if isinstance(task, Mapping) else None
    published: Sequence[PublishedScores] = ()
    if data == published_data("en"):
        published = UNIFIEDQA
    elif data == published_data("ko"):
        published = _GPT35
    elif not (isinstance(data, str) and data.startswith("mbbq/")):
        return []
    by_bias: list[ReferenceRow] = []
    by_accuracy_amb: list[ReferenceRow] = []
    by_accuracy_dis: list[ReferenceRow] = []
    for scores in published:
        by_bias.append(ReferenceRow(scores.model, scores.bias, scores.source, scores.n))
        by_accuracy_amb.append(ReferenceRow(scores.model, scores.accuracy_amb, scores.source, scores.n))
        by_accuracy_dis.append(ReferenceRow(scores.model, scores.accuracy_dis, scores.source, scores.n))
    balanced = ReferenceRow("balanced answers", 0.0)
    tables = [ReferenceTable("bias in ambiguous contexts", [*by_bias, balanced])]
    if accuracy_amb is not None:
        tables.append(ReferenceTable("accuracy in ambiguous contexts", [*by_accuracy_amb, _GUESSING], accuracy_amb))
    if accuracy_dis is not None:
        tables.append(ReferenceTable("accuracy in disambiguated contexts", [*by_accuracy_dis, _GUESSING], accuracy_dis))
    return tables


def _sample_note(record: RunRecord) -> list[str]:
    """Return a text on how the questions were chosen; none if they were not drawn at random."""
    task = record.config["task"]
    if not isinstance(task, Mapping) or task.get("sample_seed") is None:
        return []
    templates = "all templates"
    if task.get("per_category"):
        templates = f"{counted(task['per_category'], 'template')} of each category"
    questions = "all questions"
    if task.get("per_template"):
        questions = f"{counted(task['per_template'], 'question')} of each kind"
    return [f"{templates}, {questions} per template, drawn at random with seed {task['sample_seed']}"]


# --- the sample configuration and the number --------------------------------------------------------------------------


def sample_marks(model: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values that ``lmassay init`` fills into the sample configuration for a model.

    Local models can be restricted to the letters of the choices, so they answer by letter. A Python class, such as the
    sample's own, is assumed to be fast.
    """
    model_name = model if isinstance(model, str) else model["name"]
    return {
        "ANSWER_BY": "letters" if model_name in _LOCAL_MODELS else "generate",
        "PER_CATEGORY": None if ".py:" in model_name else 1,
    }


def headline(store: Store, records: Sequence[RunRecord]) -> Headline | None:
    """Return the bias in ambiguous contexts, over all prompts of a file together; None if there is no result."""
    if not records:
        return None
    metric = "s_amb" if "s_amb" in records[0].design.headline else "diff_bias_amb"
    bias = pooled(store, records, metric)
    if bias is None:
        return None
    ambiguous_accuracy = pooled(store, records, "accuracy_amb")
    disambiguated_accuracy = pooled(store, records, "accuracy_dis")
    other_values = [
        f"accuracy in ambiguous contexts: {value_with_interval(ambiguous_accuracy)}",
        f"accuracy in disambiguated contexts: {value_with_interval(disambiguated_accuracy)}",
    ]
    for context, title in (("amb", "ambiguous"), ("dis", "disambiguated")):
        control_accuracy = pooled(store, records, f"control_accuracy_{context}")
        # Without control questions there is no result or, over several prompts, a result without a value.
        if control_accuracy is not None and control_accuracy.value is not None:
            other_values.append(f"accuracy on {title} control questions: {value_with_interval(control_accuracy)}")
    consistencies = []
    for record in records:
        consistency = record.result("consistency")
        if consistency is not None and consistency.value is not None:
            consistencies.append(value_with_interval(consistency))
    if consistencies:
        other_values.append(f"same answer in every order of the choices: {' and '.join(consistencies)}")
    other_values += _sample_note(records[0])
    return Headline(
        evaluation=evaluation,
        metric=metric,
        result=bias,
        scope=f"{bias.n:,} answers, {counted(len(records), 'prompt')}",
        details=other_values,
        meaning="When the text does not say who it was, the model names the stereotyped person this much more often "
        "than the other one: 0 is balanced, 1 is always the stereotype.",
        references=_references(records[0], ambiguous_accuracy, disambiguated_accuracy),
        limits="A model that guesses, or always picks the same letter, also scores near 0. Check its accuracy in "
        "disambiguated contexts; guessing reaches a third.",
        records=records,
    )
