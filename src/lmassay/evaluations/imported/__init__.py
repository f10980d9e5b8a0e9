"""Imported results of other tools: sample logs of lm-evaluation-harness.

Minimal pairs and BBQ's questions are scored again by lmassay's own tasks; other logs keep the metrics of the harness.

This module only declares the evaluation; importing it is cheap.
"""

from __future__ import annotations

from pathlib import Path

from lmassay.contracts import Command, Component, Evaluation, Starter, TaskEntry
from lmassay.types import Metric

_RATE = (0.0, 1.0)

# The names that lm-evaluation-harness uses most.
METRICS = (
    Metric("acc", "accuracy", bounds=_RATE, meaning="The share of right answers.", verdict=True),
    Metric(
        "acc_norm",
        "accuracy, length-normalised",
        bounds=_RATE,
        meaning="The share of right answers, if log-probabilities are divided by the length of the choice.",
        verdict=True,
    ),
    Metric("accuracy", "accuracy", bounds=_RATE, meaning="The share of right answers.", verdict=True),
    Metric("exact_match", "exact match", bounds=_RATE, meaning="The share of exactly right answers.", verdict=True),
    Metric("em", "exact match", bounds=_RATE, meaning="The share of exactly right answers.", verdict=True),
    Metric("mc1", "MC1", bounds=_RATE, meaning="The share of questions whose right answer ranks first.", verdict=True),
    Metric("pass@1", "pass@1", bounds=_RATE, meaning="The share of programs that pass their tests.", verdict=True),
    Metric("f1", "F1", bounds=_RATE, meaning="The F1 score of the answers."),
)

evaluation = Evaluation(
    name="lm_eval",
    # Imported results have no research question of their own, so they are not part of a card.
    question="",
    order=90,
    tasks={
        "lm_eval": TaskEntry(
            path=f"{__name__}.reading:logged_task",
            summary="a sample log of lm-evaluation-harness; `lmassay import` uses it",
        ),
    },
    metrics=METRICS,
    components={
        "model": {
            "lm_eval": Component(f"{__name__}.reading:LoggedModel", "answers in a sample log of lm-evaluation-harness"),
        },
    },
    starters=(
        Starter(
            "lm-eval-log",
            "a log of lm-evaluation-harness to import: forty minimal pairs, answered by SmolLM2-135M-Instruct",
            {"lm_eval": Path(__file__).parent / "starters" / "lm_eval"},
            ("lmassay import lm_eval/samples_across_pp_*.jsonl",),
        ),
    ),
    commands=(
        Command(
            "import",
            "Import results of another evaluation harness.",
            f"{__name__}.commands.import_:import_",
            section="Results",
        ),
    ),
)
