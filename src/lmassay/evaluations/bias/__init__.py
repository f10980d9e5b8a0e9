"""Is it biased? Bias question answering in the manner of KoBBQ (Jin et al. 2024) and BBQ (Parrish et al. 2022).

This module only declares the evaluation; importing it is cheap.
"""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase

from lmassay.contracts import Command, Component, Evaluation, Reproduction, Sample, TaskEntry, Variation
from lmassay.types import Metric

_HERE = Path(__file__).parent
_RATE = (0.0, 1.0)
_SIGNED = (-1.0, 1.0)

METRICS = (
    Metric(
        "accuracy_amb",
        "accuracy in ambiguous contexts",
        bounds=_RATE,
        meaning="How often the model says that it cannot know where the context does not say.",
        verdict=True,
    ),
    Metric(
        "diff_bias_amb",
        "bias where nothing is known",
        better="zero",
        bounds=_SIGNED,
        meaning="The share of stereotyped answers minus that of the opposite answers, where the context does not say.",
    ),
    Metric(
        "accuracy_dis",
        "accuracy in disambiguated contexts",
        bounds=_RATE,
        meaning="How often the model is right where the context does say.",
        verdict=True,
    ),
    Metric(
        "diff_bias_dis",
        "bias in disambiguated contexts",
        better="zero",
        bounds=_SIGNED,
        meaning="The accuracy where the context confirms the stereotype minus that where it contradicts it.",
    ),
    Metric(
        "s_amb",
        "bias where nothing is known",
        better="zero",
        bounds=_SIGNED,
        meaning="BBQ's bias score in ambiguous contexts: 0 is even-handed, 1 always the stereotype.",
    ),
    Metric(
        "s_dis",
        "bias score in disambiguated contexts",
        better="zero",
        bounds=_SIGNED,
        meaning="BBQ's bias score in disambiguated contexts: 0 is even-handed, 1 always the stereotype.",
    ),
    Metric(
        "ooc",
        "answers outside the choices",
        better="lower",
        bounds=_RATE,
        meaning="The share of answers that name none of the choices.",
        verdict=True,
    ),
    Metric(
        "ooc_reference",
        "outside the choices for KoBBQ's parser",
        better="lower",
        bounds=_RATE,
        meaning="The same as KoBBQ's own parser reads the answers.",
        verdict=True,
    ),
    Metric(
        "ooc_robust",
        "outside the choices for the robust parser",
        better="lower",
        bounds=_RATE,
        meaning="The same as the robust parser reads the answers.",
        verdict=True,
    ),
    Metric(
        "consistency",
        "same answer in every order of the choices",
        bounds=_RATE,
        meaning="How often a question gets the same answer whatever the order of its choices.",
    ),
    Metric(
        "parsers_agree",
        "agreement of the two parsers",
        bounds=_RATE,
        meaning="How often both parsers read the same choice from an answer.",
    ),
    Metric("correct_biased", "right where the context confirms the stereotype", bounds=_RATE, verdict=True),
    Metric("correct_counter", "right where the context contradicts the stereotype", bounds=_RATE, verdict=True),
)
# What describes a run without being good or bad: templates that have a value, letters that were chosen.
_COVERAGES = tuple(Metric(f"coverage_{metric.name}", bounds=_RATE) for metric in METRICS)
_LETTERS = tuple(Metric(f"letter_{letter}", bounds=_RATE) for letter in ascii_uppercase)

evaluation = Evaluation(
    name="bias",
    question="Is it biased?",
    order=30,
    datasets=Path(__file__).parent / "datasets",
    reproductions=(
        Reproduction(
            "bbq",
            "BBQ: UnifiedQA's published answers, scored again (in percent)",
            f"{__name__}.reproduce:bbq",
            datasets=("bbq",),
        ),
        Reproduction(
            "kobbq",
            "KoBBQ: the expanded set, and the published effect of debiasing prompts",
            f"{__name__}.reproduce:kobbq",
            datasets=("kobbq",),
        ),
    ),
    tasks={
        "bias": TaskEntry(
            path=f"{__name__}.task:Bias",
            summary="is it biased? KoBBQ's accuracy and diff-bias, BBQ's scores, data of your own",
        ),
    },
    metrics=(*METRICS, *_COVERAGES, *_LETTERS),
    components={
        "model": {
            "predictions": Component(
                f"{__name__}.kobbq.predictions:Predictions", "answers of KoBBQ's second step, read from its file"
            ),
        },
    },
    variation=Variation(pooled="prompt", named=("prompt",), hidden=()),
    section=f"{__name__}.report.section:section",
    texts=f"{__name__}.report.answers:texts",
    headline=f"{__name__}.card:headline",
    card=f"{__name__}.card:variants",
    sample=Sample(_HERE / "sample", marks=f"{__name__}.card:sample_marks"),
    log_reader=f"{__name__}.lm_eval_import:questions_reader",
    commands=(
        Command(
            "kobbq",
            "KoBBQ's six steps with their own flags and files.",
            f"{__name__}.commands.kobbq:kobbq",
            section="Compatibility commands",
        ),
    ),
)
