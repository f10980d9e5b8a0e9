"""Does it know what it knows? Expected calibration error and Brier score from the probabilities of choices.

This module only declares the evaluation, so that listing evaluations and commands stays fast. Everything else is
imported when it is needed: the paths below say from where.
"""

from __future__ import annotations

from pathlib import Path

from lmassay.contracts import Command, Evaluation, Sample, TaskEntry
from lmassay.types import Metric

METRICS = (
    Metric(
        "ece",
        "calibration error (ECE)",
        better="lower",
        bounds=(0, 1),
        meaning="How far the model's confidence is from its accuracy, on average: 0 is perfectly calibrated.",
    ),
    Metric(
        "brier",
        "Brier score",
        better="lower",
        bounds=(0, 2),
        meaning="The squared distance of the probabilities from the truth: 0 is sure and right, 2 sure and wrong.",
    ),
    Metric("accuracy", "accuracy", bounds=(0, 1), meaning="The share of right answers.", verdict=True),
    Metric("confidence", "mean confidence", bounds=(0, 1), meaning="The mean probability of the chosen answer."),
)

evaluation = Evaluation(
    name="calibration",
    question="Does it know what it knows?",
    order=50,
    tasks={
        "calibration": TaskEntry(
            path=f"{__name__}.task:Calibration",
            summary="does it know what it knows? calibration error and Brier score of multiple-choice answers",
        ),
    },
    metrics=METRICS,
    section=f"{__name__}.report:section",
    texts=f"{__name__}.report:texts",
    headline=f"{__name__}.card:headline",
    card=f"{__name__}.card:variants",
    sample=Sample(Path(__file__).parent / "sample"),
    commands=(
        Command(
            "calibration",
            "Calibration error and Brier score of probabilities in a file.",
            f"{__name__}.commands:calibration",
        ),
    ),
)
