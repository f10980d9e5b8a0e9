"""Reproduces FewNLU's published numbers (Zheng et al. 2022) for 64 labelled examples, with FewNLU's settings.

For PET, FewNLU's scripts say which setting was selected on each task, so only these settings are run. For the other
methods, only the search space is known, so the whole search is run, and the setting with the best dev score is
selected, as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lmassay.contracts import ReproducedFigure, ReproductionPart, Work
from lmassay.statistics.distributions import t_quantile
from lmassay.types import OVERALL, RunRecord

_ALBERT = "albert-xxlarge-v2"
_DEBERTA = "microsoft/deberta-v2-xxlarge"
# How many weights are applied to a token: layers · 12 · width². ALBERT applies the same layer twelve times, and each
# time counts.
_WEIGHTS = {_ALBERT: 12 * 12 * 4096**2, _DEBERTA: 48 * 12 * 1536**2}
_LEARNING_RATES = {_ALBERT: [1e-5, 2e-5], _DEBERTA: [1e-5, 5e-6]}
_MICRO_BATCH = {_ALBERT: 8, _DEBERTA: 2}
_SPLITS = 4
_BATCH = 16


# --- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Task:
    """A task of the published table: its metrics, its patterns, and its size, from which the work is estimated."""

    title: str
    metrics: Mapping[str, str]
    """lmassay's name of a metric → its name in the published table."""
    patterns: int
    """The number of patterns that the search covers; patterns are numbered from 0."""
    max_seq_length: int = 256
    tokens: int = 0
    """Tokens per example, measured on FewGLUE with the tokenizer of SmolLM2."""
    tests: int = 0
    """The number of test examples."""
    dev: int = 32
    """The number of dev examples in a split. In MultiRC each of a question's several answers is an example."""
    has_words_as_answers: bool = False
    """True if the answer consists of words of the text (COPA, WSC). ADAPET then has one example per micro-batch."""
    excuse: str = ""
    """Why the number that lmassay computes may differ from the published one; empty if it should not."""


_ACCURACY = {"acc": "accuracy"}
_TASKS: Mapping[str, _Task] = {
    "boolq": _Task("BoolQ", _ACCURACY, 6, tokens=150, tests=3_270),
    "rte": _Task("RTE", _ACCURACY, 6, tokens=80, tests=277),
    "wic": _Task("WiC", _ACCURACY, 3, tokens=30, tests=638),
    "cb": _Task("CB", {"acc": "accuracy", "f1-macro": "macro-F1"}, 6, tokens=95, tests=56),
    "multirc": _Task(
        "MultiRC", {"f1": "F1 over answers", "em": "exact match"}, 3, 512, tokens=360, tests=4_848, dev=150
    ),
    "wsc": _Task(
        "WSC",
        _ACCURACY,
        3,
        128,
        tokens=45,
        tests=104,
        has_words_as_answers=True,
        excuse="possibly because FewNLU trained on other examples than FewGLUE's",
    ),
    "copa": _Task("COPA", _ACCURACY, 2, 96, tokens=32, tests=100, has_words_as_answers=True),
}


# --- published numbers ------------------------------------------------------------------------------------------------

# The columns: BoolQ, RTE, WiC, CB (accuracy, macro-F1), MultiRC (F1, exact match), WSC, COPA. From the leaderboard
# (fewnlu.github.io) of November 2021.
_PUBLISHED: Mapping[tuple[str, str], str] = {
    ("pet", _DEBERTA): "82.67 79.42 67.20 91.96 88.63 78.20 42.42 84.13 89.00",
    ("pet", _ALBERT): "76.70 72.83 53.87 84.38 62.56 76.51 36.46 80.05 81.75",
    ("adapet", _DEBERTA): "81.28 82.58 66.50 89.73 86.63 77.88 43.05 85.34 88.75",
    ("adapet", _ALBERT): "79.24 74.28 58.07 92.86 89.99 77.24 37.17 78.85 81.75",
    ("ptuning", _DEBERTA): "82.25 82.22 66.22 94.20 91.76 78.45 43.78 85.10 86.50",
    ("ptuning", _ALBERT): "76.55 63.27 55.49 88.39 84.24 75.91 38.01 78.85 85.25",
    ("pet_mlm", _DEBERTA): "82.80 83.30 58.23 90.18 87.18 77.05 40.63 81.73 85.75",
    ("pet_mlm", _ALBERT): "76.83 71.48 52.39 83.93 67.37 75.15 35.68 81.97 85.75",
    ("cls", _DEBERTA): "59.49 49.55 54.08 68.30 60.10 75.42 34.23 53.13 85.25",
    ("cls", _ALBERT): "55.01 53.97 50.82 67.97 52.18 59.95 18.86 52.64 64.25",
}
# Standard deviations over splits are published only for this row (Table 2 of the paper).
_PUBLISHED_STDS: Mapping[tuple[str, str], str] = {
    ("pet", _DEBERTA): "0.78 2.41 1.34 3.72 4.91 1.86 3.04 4.87 2.94",
}
# PET's best setting on each task according to FewNLU's scripts: learning rate, number of updates, number of the
# pattern, and evaluation ratio (the share of all updates between two evaluations on the dev set).
_SELECTED: Mapping[str, Mapping[str, tuple[float, int, int, float]]] = {
    _DEBERTA: {
        "boolq": (1e-5, 250, 1, 0.02),
        "rte": (5e-6, 250, 5, 0.02),
        "wic": (5e-6, 250, 2, 0.02),
        "cb": (1e-5, 250, 5, 0.02),
        "multirc": (1e-5, 500, 0, 0.02),
        "wsc": (5e-6, 250, 2, 0.02),
        "copa": (1e-5, 500, 0, 0.02),
    },
    _ALBERT: {
        "boolq": (2e-5, 250, 0, 0.02),
        "rte": (2e-5, 500, 4, 0.02),
        "wic": (1e-5, 250, 1, 0.02),
        "cb": (2e-5, 500, 4, 0.02),
        "multirc": (1e-5, 250, 1, 0.04),
        "wsc": (2e-5, 250, 1, 0.02),
        "copa": (2e-5, 500, 0, 0.02),
    },
}
_TITLES = {"pet": "PET", "adapet": "ADAPET", "ptuning": "P-tuning", "pet_mlm": "PET+MLM", "cls": "CLS"}


def _cells(row: str, task: str) -> list[str]:
    """The numbers of a task in a row of the table."""
    numbers = row.split()
    position = 0
    for name, definition in _TASKS.items():
        count = len(definition.metrics)
        if name == task:
            return numbers[position : position + count]
        position += count
    raise ValueError(task)


# --- the settings -----------------------------------------------------------------------------------------------------


def fewnlu() -> list[ReproductionPart]:
    """Most methods of the leaderboard, with each model and on each task.

    The exceptions are iPET and Noisy Student, which train several generations of models on each other's labels.
    """
    parts: list[ReproductionPart] = []
    for model in (_DEBERTA, _ALBERT):
        for method in _TITLES:
            for task in _TASKS:
                parts.append(_part(method, task, model))
    return parts


def _part(method: str, task: str, model: str) -> ReproductionPart:
    definition = _TASKS[task]
    options = {**_shared_options(definition, task, model), **_method_options(method, task, model)}
    variants = [options]
    if method == "ptuning":
        # The learning rate of the prompt depends on that of the model, so they are not varied independently.
        variants = []
        for rate in _LEARNING_RATES[model]:
            prompt_rate = 1e-5 if rate == 5e-6 else 1e-4
            variants.append({**options, "learning_rate": rate, "embedding_learning_rate": prompt_rate})
    config = {
        "task": {
            "name": "fewshot",
            "data": f"superglue/{task}",
            "splits": {"strategy": "multi_splits", "k": _SPLITS, "ratio": 0.5, "grouped": False},
            "seed": 42,
            "sampler_seeds": [42],
            "method": variants,
        }
    }
    return ReproductionPart(
        name=f"{method}/{task}",
        model=model,
        config=config,
        figures=partial(_figures, method, task, model),
        work=_work(variants, definition, model),
        is_optional=method != "pet",
    )


def _shared_options(definition: _Task, task: str, model: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "batch_size": _BATCH,
        "micro_batch": 1 if task == "multirc" else _MICRO_BATCH[model],
        "eval_batch": 16 if task == "multirc" else 32,
        "max_seq_length": definition.max_seq_length,
        # This repeats FewNLU's training loop and optimizer.
        "reference": True,
    }
    if model == _DEBERTA:
        options["fix_deberta"] = True
    return options


def _method_options(method: str, task: str, model: str) -> dict[str, Any]:
    """The options of a method: for PET the selected setting, for others the search space, with a list per option."""
    definition = _TASKS[task]
    if method == "pet":
        rate, steps, pattern, eval_ratio = _SELECTED[model][task]
        return {
            "name": "pet",
            "learning_rate": rate,
            "max_steps": steps,
            "pattern": pattern,
            "eval_ratios": eval_ratio,
        }
    if method == "cls":
        return {
            "name": "sequence_classifier",
            "learning_rate": _LEARNING_RATES[model],
            "max_steps": [2500, 5000],
            "eval_ratios": 1.0,
        }
    if method == "ptuning":
        return {
            "name": "ptuning",
            "pattern": 1,
            "prompt_encoder_head_type": ["lstm", "mlp"],
            "warmup_ratio": [0, 0.1],
            "max_steps": [250, 500],
            "eval_ratios": [0.02, 0.04],
        }
    search = {
        "learning_rate": _LEARNING_RATES[model],
        "max_steps": [250, 500],
        "pattern": list(range(definition.patterns)),
        "eval_ratios": [0.02, 0.04],
    }
    if method == "pet_mlm":
        return {"name": "pet", "lm_training": True, **search}
    adapet = {"name": "adapet", "max_num_lbl_tok": 1, **search}
    if definition.has_words_as_answers:
        adapet |= {"max_num_lbl_tok": 20, "micro_batch": 1}
    return adapet


def _work(variants: Sequence[Mapping[str, Any]], definition: _Task, model: str) -> Work:
    """An estimate of the work of a part: how many tokens its trainings learn from, and how many they only read."""
    trained_tokens = 0.0
    read_tokens = 0.0
    for options in variants:
        updates: list[int] = []
        for steps in _as_list(options["max_steps"]):
            updates += [steps] * _combinations(options, without="max_steps")
        # With an evaluation ratio of 0.02 the dev set is evaluated after every 2 % of the training, hence 1 / ratio
        # times. Only the smallest ratio counts: the larger ones are multiples of it, so they need no further
        # evaluations. The dev set is evaluated once more with the chosen weights.
        evaluations = 1 + 1 / min(_as_list(options["eval_ratios"]))
        for steps in updates:
            labelled = steps * _BATCH * definition.tokens
            # With masked language modelling, the model is also trained on as many unlabeled examples.
            trained_tokens += 2 * labelled if options.get("lm_training") else labelled
            # The test examples are read once, after training; the dev examples are read at every evaluation.
            read_tokens += (evaluations * definition.dev + definition.tests) * definition.tokens
    return Work(_WEIGHTS[model], _SPLITS * read_tokens, _SPLITS * trained_tokens)


def _combinations(options: Mapping[str, Any], without: str) -> int:
    """The number of combinations of the options that are lists; each combination is one training.

    The option ``without`` is not counted, because the caller goes through its values itself. Lists of evaluation ratios
    are not counted either, because one training serves all of them.
    """
    number = 1
    for name, value in options.items():
        if name not in (without, "eval_ratios"):
            number *= len(_as_list(value))
    return number


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# --- computed numbers -------------------------------------------------------------------------------------------------


def _figures(method: str, task: str, model: str, records: Sequence[RunRecord]) -> list[ReproducedFigure]:
    """The test scores of the setting with the best dev score, next to the published ones."""
    definition = _TASKS[task]
    selected = max(records, key=_dev_score)
    published = _cells(_PUBLISHED[method, model], task)
    published_stds: list[float | None] = [None] * len(published)
    if (method, model) in _PUBLISHED_STDS:
        published_stds = [float(cell) for cell in _cells(_PUBLISHED_STDS[method, model], task)]
    model_title = model.rpartition("/")[2]
    figures: list[ReproducedFigure] = []
    for (metric, title), number, std in zip(definition.metrics.items(), published, published_stds, strict=True):
        mean = selected.result(metric, OVERALL)
        value = None if mean is None else mean.value
        figures.append(
            ReproducedFigure(
                f"{model_title}, {_TITLES[method]}, {definition.title}: {title}, %",
                number,
                "none" if value is None else f"{100 * value:.2f}",
                definition.excuse,
                _tolerance(selected, metric, std),
            )
        )
    return figures


def _dev_score(record: RunRecord) -> float:
    result = record.result("dev", OVERALL)
    if result is None or result.value is None:
        return -math.inf
    return result.value


def _tolerance(record: RunRecord, metric: str, published_std: float | None) -> float:
    """The difference beyond which two means over four splits differ significantly, in percentage points.

    The test is Student's t-test at the 5 % level. If the published standard deviation is not known, it is assumed to be
    the same as that of the record.
    """
    spread = record.result(f"{metric}.std", OVERALL)
    own_std = 0.0 if spread is None or spread.value is None else 100 * spread.value
    other_std = own_std if published_std is None else published_std
    standard_error = math.sqrt((own_std**2 + other_std**2) / _SPLITS)
    return t_quantile(0.975, 2 * (_SPLITS - 1)) * standard_error
