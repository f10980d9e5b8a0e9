"""The syntax evaluation: does a model know grammar?

It compares the forms of verbs in minimal pairs (the metrics TSE, EW and MW, see :mod:`.metrics`), or whole sentences as
BLiMP does.

The evaluation is the successor of refining-tse (Newman et al. 2021). This module only declares the evaluation;
importing it is cheap.
"""

from __future__ import annotations

from pathlib import Path

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

_SAMPLES = Path(__file__).parent / "sample"
_STARTERS = Path(__file__).parent / "starters"
# The small model that the samples use: it counts words in a text.
_MODEL = {"name": "@DATA@/my_language_model.py:Bigrams", "text": "@DATA@/corpus.txt"}
_MODEL_FILES = {
    "my_language_model.py": _SAMPLES / "my_language_model.py",
    "corpus.txt": _SAMPLES / "corpus.txt",
}
_RATE = (0.0, 1.0)
_HALF = 0.5

METRICS = (
    Metric(
        "tse",
        "right on the given pairs of verbs (TSE)",
        bounds=_RATE,
        chance=_HALF,
        meaning="How often the right one of two given verb forms is more probable than the wrong one.",
    ),
    Metric(
        "ew",
        "verbs that agree, each equally weighted (EW)",
        bounds=_RATE,
        chance=_HALF,
        meaning="The share of verbs in a long list whose right form is more probable than the wrong one.",
    ),
    Metric(
        "mw",
        "verbs that agree (MW)",
        bounds=_RATE,
        chance=_HALF,
        meaning="How often a verb sampled from the model's predictions agrees with its subject.",
    ),
    Metric(
        "mass",
        "probability mass considered",
        bounds=_RATE,
        meaning="The probability that the model gives to all verb forms that EW and MW count.",
    ),
    Metric(
        "accuracy",
        "grammatical sentences preferred",
        bounds=_RATE,
        chance=_HALF,
        meaning="How often the grammatical sentence of a pair is more probable.",
        verdict=True,
    ),
    Metric(
        "accuracy_token",
        "grammatical sentences preferred, per token",
        bounds=_RATE,
        chance=_HALF,
        meaning="How often the grammatical sentence of a pair has the higher mean log-probability per token.",
        verdict=True,
    ),
    Metric(
        "accuracy_char",
        "grammatical sentences preferred, per character",
        bounds=_RATE,
        chance=_HALF,
        meaning="How often the grammatical sentence of a pair has the higher mean log-probability per character.",
        verdict=True,
    ),
    Metric(
        "margin",
        "margin",
        meaning="The log-probability of the grammatical sentence minus that of the ungrammatical one.",
    ),
    Metric(
        "ties",
        "pairs of equally probable sentences",
        bounds=_RATE,
        better="lower",
        meaning=(
            "How often both sentences of a pair are equally probable, which counts as wrong. "
            "It is shown only if there are such pairs."
        ),
    ),
)

_SECTION = f"{__name__}.report.section:section"
_TEXTS = f"{__name__}.report.section:blank_texts"
_HEADLINE = f"{__name__}.card:headline"

evaluation = Evaluation(
    name="syntax",
    question="Does it know grammar?",
    order=20,
    datasets=Path(__file__).parent / "datasets",
    reproductions=(
        Reproduction(
            "blimp",
            "BLiMP: averages of four models and of people, from the published results by paradigm",
            f"{__name__}.reproduce:blimp",
            datasets=("blimp",),
        ),
        Reproduction(
            "refining-tse",
            "Newman et al. (2021): MW, EW and TSE of BERT-large, GPT2-XL and RoBERTa-large",
            datasets=("tse",),
            parts=f"{__name__}.reproduce:refining_tse",
            notes=(
                "A figure agrees if it is within half a unit of the last printed digit, plus 0.0005 for the arithmetic "
                "(EW: 0.002, because the original rounds a sum).",
                "The released verb list gives all verbs the same index, so that the released program counts one verb; "
                "here, as presumably in the paper, every verb counts.",
            ),
        ),
    ),
    tasks={
        "syntax": TaskEntry(
            path=f"{__name__}.task:Syntax",
            summary="does it know grammar? TSE, EW and MW at the verb of minimal pairs",
            sample=Sample(_SAMPLES / "blanks", model=_MODEL, model_files=_MODEL_FILES),
        ),
        "minimal_pairs": TaskEntry(
            path=f"{__name__}.sentences:MinimalPairs",
            summary="does it prefer the grammatical sentence? BLiMP and any other pairs",
            section=f"{__name__}.report.minimal_pairs:section",
            texts=f"{__name__}.report.minimal_pairs:sentence_texts",
            key_texts=(KeyText("good"), KeyText("bad", compared_with="good")),
            headline=f"{__name__}.card:sentences_headline",
            sample=Sample(_SAMPLES / "sentences", model=_MODEL, model_files=_MODEL_FILES),
            export=f"{__name__}.export:pairs_export",
        ),
        "refining_tse": TaskEntry(
            path=f"{__name__}.refining_tse.plugins:RefiningTse",
            summary="the syntax task with metrics in refining-tse's style; `lmassay tse` uses it",
        ),
    },
    metrics=METRICS,
    components={
        "model": {
            "mpe": Component(
                f"{__name__}.refining_tse.plugins:UserMpeModel",
                "a class in refining-tse's style: word_to_index and predict",
            ),
        },
    },
    # The signature's part `context` (left or both) follows from the model, so it may differ between compared runs.
    variation=Variation(hidden=("method", "prompt"), free=("context",)),
    section=_SECTION,
    texts=_TEXTS,
    key_texts=(KeyText("context"), KeyText("right / wrong verb")),
    headline=_HEADLINE,
    export=f"{__name__}.export:blanks_export",
    card=f"{__name__}.card:variants",
    published_card=PublishedCard(("en", "de", "fr", "he", "ja", "ru"), f"{__name__}.card:published_variants"),
    log_reader=f"{__name__}.lm_eval_import:pairs_reader",
    starters=(
        Starter(
            "language-model",
            "your own language model: it returns the probabilities of words and texts",
            {"my_language_model.yaml": _STARTERS / "my_language_model.yaml", **_MODEL_FILES},
            ("lmassay run my_language_model.yaml",),
        ),
        Starter(
            "pairs",
            "your own minimal pairs, at the verb and as whole sentences",
            {"pairs.jsonl": _STARTERS / "pairs.jsonl", "pairs.yaml": _STARTERS / "pairs.yaml", **_MODEL_FILES},
            ("lmassay run pairs.yaml",),
        ),
        Starter(
            "metric",
            "your own metric on a built-in task",
            {
                "my_metric.py": _STARTERS / "my_metric.py",
                "my_metric.yaml": _STARTERS / "my_metric.yaml",
                "pairs.jsonl": _STARTERS / "pairs.jsonl",
                **_MODEL_FILES,
            },
            ("lmassay run my_metric.yaml",),
        ),
        Starter(
            "refining-tse",
            "a configuration of refining-tse with your own model and metric",
            {"tse": _STARTERS / "tse"},
            ("lmassay tse run tse/nearest_noun.yaml",),
        ),
    ),
    after_run=f"{__name__}.commands.actions.run_notes:warn_about_results",
    commands=(
        Command(
            "grammar",
            "Generate minimal pairs from a grammar.",
            f"{__name__}.commands.grammar:grammar",
            section="Data",
        ),
        Command(
            "verbs",
            "Build the list of verbs for the EW and MW metrics.",
            f"{__name__}.commands.verbs:verbs",
            section="Data",
        ),
        Command(
            "tse",
            "Run refining-tse with its configurations, folders and plots.",
            f"{__name__}.commands.tse:tse",
            section="Compatibility commands",
        ),
    ),
)
