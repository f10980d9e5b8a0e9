"""The bias evaluation: questions about social stereotypes, after KoBBQ (Jin et al. 2024) and BBQ (Parrish et al. 2022).

This module only declares the evaluation, so importing it is cheap.
"""

from __future__ import annotations

from pathlib import Path
from string import ascii_uppercase

from lmassay.contracts import (
    Command,
    Component,
    Evaluation,
    KeyText,
    PublishedCard,
    Reproduction,
    Sample,
    Starter,
    TaskEntry,
    Variation,
)
from lmassay.types import Metric

_HERE = Path(__file__).parent
_STARTERS = _HERE / "starters"
_ASSISTANT = {"my_assistant.py": _HERE / "sample" / "my_assistant.py"}
_QUESTIONS = {
    "people.csv": _STARTERS / "people.csv",
    "people.yaml": _STARTERS / "people.yaml",
    "people_run.yaml": _STARTERS / "people_run.yaml",
    **_ASSISTANT,
}
_RATE = (0.0, 1.0)
_SIGNED = (-1.0, 1.0)

METRICS = (
    Metric(
        "accuracy_amb",
        "accuracy in ambiguous contexts",
        bounds=_RATE,
        meaning="How often the model answers that it cannot know, when the context does not say.",
        verdict=True,
    ),
    Metric(
        "diff_bias_amb",
        "bias in ambiguous contexts",
        better="zero",
        bounds=_SIGNED,
        meaning="The share of stereotyped answers minus the share of counter-stereotyped ones.",
    ),
    Metric(
        "accuracy_dis",
        "accuracy in disambiguated contexts",
        bounds=_RATE,
        meaning="How often the model is right when the context gives the answer.",
        verdict=True,
    ),
    Metric(
        "diff_bias_dis",
        "bias in disambiguated contexts",
        better="zero",
        bounds=_SIGNED,
        meaning="The accuracy when the context confirms the stereotype minus the accuracy when it contradicts it.",
    ),
    Metric(
        "s_amb",
        "BBQ's bias score in ambiguous contexts",
        better="zero",
        bounds=_SIGNED,
        meaning="BBQ's bias score in ambiguous contexts, which equals diff_bias_amb: 0 is balanced, 1 is always the "
        "stereotype, -1 always its opposite.",
    ),
    Metric(
        "s_dis",
        "BBQ's bias score in disambiguated contexts",
        better="zero",
        bounds=_SIGNED,
        meaning="BBQ's bias score in disambiguated contexts, computed from the answers that name a person: 0 is "
        "balanced, 1 is always the stereotype, -1 always its opposite.",
    ),
    Metric(
        "control_accuracy_amb",
        "accuracy on ambiguous control questions",
        bounds=_RATE,
        meaning="The accuracy in ambiguous contexts that have nothing to do with a stereotype.",
        verdict=True,
    ),
    Metric(
        "control_accuracy_dis",
        "accuracy on disambiguated control questions",
        bounds=_RATE,
        meaning="The accuracy in disambiguated contexts that have nothing to do with a stereotype.",
        verdict=True,
    ),
    Metric(
        "control_ooc",
        "answers outside the choices of control questions",
        better="lower",
        bounds=_RATE,
        meaning="The share of answers to control questions that name none of the choices.",
        verdict=True,
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
        "answers outside the choices, by KoBBQ's parser",
        better="lower",
        bounds=_RATE,
        meaning="The share of answers in which KoBBQ's own parser finds none of the choices.",
        verdict=True,
    ),
    Metric(
        "ooc_robust",
        "answers outside the choices, by the robust parser",
        better="lower",
        bounds=_RATE,
        meaning="The share of answers in which lmassay's own parser, which understands more than KoBBQ's, finds none "
        "of the choices.",
        verdict=True,
    ),
    Metric(
        "consistency",
        "same answer in every order of the choices",
        bounds=_RATE,
        meaning="How often a question gets the same answer in every order of its choices.",
    ),
    Metric(
        "parsers_agree",
        "agreement of the two parsers",
        bounds=_RATE,
        meaning="How often KoBBQ's parser and the robust one read the same from an answer: the same choice, or none.",
    ),
    Metric(
        "correct_biased",
        "accuracy when the context confirms the stereotype",
        bounds=_RATE,
        meaning="How often the model is right when the right answer is the stereotyped one.",
        verdict=True,
    ),
    Metric(
        "correct_counter",
        "accuracy when the context contradicts the stereotype",
        bounds=_RATE,
        meaning="How often the model is right when the right answer is the counter-stereotyped one.",
        verdict=True,
    ),
)
# These metrics describe a run and are neither good nor bad: the share of templates that have a value of a metric, and
# how often each letter was chosen.
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
            summary="is it biased? KoBBQ's accuracy and diff-bias, BBQ's scores, or your own questions",
        ),
    },
    metrics=(*METRICS, *_COVERAGES, *_LETTERS),
    components={
        "model": {
            "predictions": Component(
                f"{__name__}.kobbq.predictions:Predictions",
                "stored answers: the predictions file of KoBBQ's second step",
            ),
        },
    },
    variation=Variation(pooled="prompt", pooled_by_file=True, named=("prompt",), hidden=()),
    section=f"{__name__}.report.section:section",
    texts=f"{__name__}.report.answers:texts",
    key_texts=(KeyText("prompt"), KeyText("context"), KeyText("answer"), KeyText("read as")),
    headline=f"{__name__}.card:headline",
    card=f"{__name__}.card:variants",
    published_card=PublishedCard(("en", "ko", "es", "nl", "tr"), f"{__name__}.card:published_variants"),
    sample=Sample(
        _HERE / "sample",
        model="@DATA@/my_assistant.py:MyAssistant",
        marks=f"{__name__}.card:sample_marks",
        model_files=_ASSISTANT,
    ),
    starters=(
        Starter(
            "questions",
            "your own questions about stereotypes, in a CSV file",
            _QUESTIONS,
            ("lmassay run people_run.yaml",),
        ),
        Starter(
            "prompts",
            "your own prompts for questions about stereotypes, to change or to translate",
            {"my_prompts.tsv": _STARTERS / "my_prompts.tsv", **_QUESTIONS},
            ("lmassay run people_run.yaml --set task.prompts=my_prompts.tsv",),
        ),
    ),
    log_reader=f"{__name__}.lm_eval_import:questions_reader",
    after_run=f"{__name__}.commands.actions.run_notes:warn_about_cut_off_answers",
    commands=(
        Command(
            "kobbq",
            "Run the steps of KoBBQ with its original options and files.",
            f"{__name__}.commands.kobbq:kobbq",
            section="Compatibility commands",
        ),
    ),
)
