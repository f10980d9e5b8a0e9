"""Does it learn from a few examples? Few-shot methods under FewNLU's protocol (Zheng et al. 2022).

The protocol divides the labelled examples into train and dev several times, selects the hyper-parameters with the best
mean dev score, and reports the mean test score of the selected ones.

This module only declares the evaluation, so importing it is cheap. The file of your own task begins with::

    from lmassay.evaluations.fewshot import PVP, DataProcessor, InputExample
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmassay.contracts import (
    Command,
    Component,
    Evaluation,
    Finding,
    KeyText,
    PublishedCard,
    Reproduction,
    Sample,
    Starter,
    TaskEntry,
    Variation,
)
from lmassay.types import Metric

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.examples import InputExample
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
    from lmassay.evaluations.fewshot.tasks.processors import DataProcessor
    from lmassay.evaluations.fewshot.tasks.pvp import PVP, EncodedText, PVPOutputPattern

__all__ = [
    "PVP",
    "DataProcessor",
    "EncodedText",
    "InputExample",
    "NluTask",
    "PVPOutputPattern",
    "evaluation",
    "open_task",
]

# Public name → the module that defines it, which is imported when the name is first used.
_DEFINED_IN = {
    "DataProcessor": "tasks.processors",
    "EncodedText": "tasks.pvp",
    "InputExample": "tasks.examples",
    "NluTask": "tasks.nlu",
    "PVP": "tasks.pvp",
    "PVPOutputPattern": "tasks.pvp",
    "open_task": "tasks.nlu",
}
_HERE = Path(__file__).parent
_SAMPLE = _HERE / "sample"
_STARTERS = _HERE / "starters"
_METHOD_FILE = {"my_method.py": _SAMPLE / "my_method.py"}
_METHODS = f"{__name__}.methods"
_EXTRA = "fewshot"
_RATE = (0.0, 1.0)

METRICS = (
    Metric(
        "acc", "accuracy", bounds=_RATE, meaning="The share of test examples that are labelled correctly.", verdict=True
    ),
    Metric(
        "f1",
        "F1",
        bounds=_RATE,
        meaning="The F1 score of the second label; for ReCoRD, the F1 over the words of the chosen entity.",
    ),
    Metric("f1-macro", "macro-F1", bounds=_RATE, meaning="The mean of the labels' F1 scores."),
    Metric(
        "em", "exact match", bounds=_RATE, meaning="The share of questions answered entirely correctly.", verdict=True
    ),
    Metric(
        "dev", "dev score", bounds=_RATE, meaning="The mean of the task's metrics on the dev set, used for selection."
    ),
    Metric(
        "gain",
        "gain over no examples",
        bounds=(-1.0, 1.0),
        chance=0.0,
        meaning="The score after a few examples minus the score without any, on the same test examples.",
    ),
    Metric(
        "ooc",
        "out-of-choice rate",
        better="lower",
        bounds=_RATE,
        meaning="The share of test examples for which a prompted model's answer could not be read as a label: it was "
        "another text, a refusal, or cut off. The other metrics are computed over the remaining test examples.",
        verdict=True,
    ),
    Metric(
        "not_asked",
        "test examples that are too long to ask",
        better="lower",
        bounds=_RATE,
        meaning="The share of test examples whose prompts the model cannot read, because they are longer than its "
        "window. It is reported if there are any; the other metrics are computed over the remaining test examples.",
    ),
    Metric("test", "test score", bounds=_RATE, meaning="The mean of the task's metrics on the test set."),
)


def _method(path: str, summary: str) -> Component:
    return Component(path, summary, extra=_EXTRA)


def _optional_packages() -> list[Finding]:
    """What ``lmassay doctor`` reports: the optional packages that some methods and ``lmassay search`` need."""
    return [
        Finding.of_package("peft", "few-shot: LoRA", extra=_EXTRA),
        Finding.of_package("safetensors", "few-shot: weights on disk", extra=_EXTRA),
        Finding.of_package("sentencepiece", "few-shot: tokenizers of ALBERT and DeBERTa", extra=_EXTRA),
        Finding.of_package("protobuf", "few-shot: tokenizer files of ALBERT and DeBERTa", extra=_EXTRA),
        Finding.of_package("optuna", "lmassay search", extra="search"),
    ]


evaluation = Evaluation(
    name="fewshot",
    question="Does it learn from a few examples?",
    order=40,
    datasets=_HERE / "datasets",
    reproductions=(
        Reproduction(
            "fewnlu",
            "FewNLU (Zheng et al. 2022): test scores with 64 labelled examples",
            datasets=("fewglue",),
            parts=f"{__name__}.reproduce:fewnlu",
            notes=(
                "A figure agrees if a t-test at the 5 % level finds no difference between the two means over four "
                "splits. If no standard deviation was published, that of the run is used for both.",
                "FewNLU's own file of 64 examples is not in the catalogue; train and dev32 of FewGLUE are used "
                "instead. These are presumably the same examples, except for WSC.",
                "iPET, Noisy Student and their combination are not part of this command: the setting that they build "
                "upon is published for PET only.",
            ),
        ),
    ),
    tasks={
        "fewshot": TaskEntry(
            path=f"{__name__}.task:FewShot",
            summary="does it learn from a few examples? few-shot methods under FewNLU's protocol",
        ),
    },
    metrics=METRICS,
    components={
        "method": {
            "sequence_classifier": _method(
                f"{_METHODS}.classifier:SequenceClassifier", "a classifier head, all weights trained"
            ),
            "pet": _method(
                f"{_METHODS}.pet:Pet", "patterns and verbalizers (PET); lm_training adds a masked-word loss"
            ),
            "ptuning": _method(f"{_METHODS}.ptuning:PTuning", "PET with continuous prompt tokens: raw, lstm or mlp"),
            "adapet": _method(
                f"{_METHODS}.adapet:Adapet", "decoupled label loss and label-conditioned masked words (ADAPET)"
            ),
            "lora": _method(f"{_METHODS}.lora:Lora", "PET with low-rank adapters on a frozen model (extra: fewshot)"),
            "prompt_tuning": _method(
                f"{_METHODS}.prompt_tuning:PromptTuning", "only prompt embeddings are trained; the model is frozen"
            ),
            "sentence_encoder": _method(
                f"{_METHODS}.sentence_encoder:SentenceEncoder", "SetFit: contrastive tuning, then a logistic regression"
            ),
            "icl": _method(f"{__name__}.icl:InContext", "in-context learning: demonstrations, no training, any model"),
            "majority": _method(f"{__name__}.baselines:Majority", "the most frequent label of the training examples"),
            "random": _method(
                f"{__name__}.baselines:Random", "a random label, with the frequencies of the training examples"
            ),
        },
        "trainer": {
            "fewshot": Component(f"{__name__}.trainer:teach", "trains a model with a few-shot method and tests it"),
        },
    },
    # Methods are compared with each other; what they are trained and tested on must be the same.
    variation=Variation(named=("method", "regime"), hidden=("answer_by",), free=("init",), combined=("data",)),
    section=f"{__name__}.report.section:section",
    texts=f"{__name__}.report.example_texts:texts",
    key_texts=(KeyText("configuration"), KeyText("examples")),
    headline=f"{__name__}.card:headline",
    card=f"{__name__}.card:variants",
    published_card=PublishedCard(("en",), f"{__name__}.card:published_variants"),
    sample=Sample(_SAMPLE, model=None, marks=f"{__name__}.card:sample_marks", model_files=_METHOD_FILE),
    starters=(
        Starter(
            "fewshot-task",
            "your own few-shot task, as a YAML file and as classes in FewNLU's style",
            {
                "mrpc": _STARTERS / "mrpc",
                "mrpc.yaml": _STARTERS / "mrpc.yaml",
                "mrpc.py": _STARTERS / "mrpc.py",
                "own_tasks.yaml": _STARTERS / "own_tasks.yaml",
                **_METHOD_FILE,
            },
            ("lmassay run own_tasks.yaml",),
        ),
        Starter(
            "method",
            "your own few-shot method, against the majority baseline",
            {
                "my_method.yaml": _STARTERS / "my_method.yaml",
                "reviews.yaml": _SAMPLE / "reviews.yaml",
                "train.jsonl": _SAMPLE / "train.jsonl",
                "dev.jsonl": _SAMPLE / "dev.jsonl",
                **_METHOD_FILE,
            },
            ("lmassay run my_method.yaml", "lmassay protocol"),
        ),
        Starter(
            "fewnlu",
            "the hyperparameter searches of the FewNLU paper, and an experiment on three tasks",
            {"fewnlu": _STARTERS / "fewnlu"},
            (
                "pip install 'lmassay[fewshot]'",
                "lmassay data get fewglue",
                "lmassay check fewnlu/search_pet_albert.yaml",
            ),
        ),
    ),
    export=f"{__name__}.export:trainings_export",
    checks=_optional_packages,
    after_run=f"{__name__}.commands.actions.protocol:print_verdicts",
    commands=(
        Command(
            "search",
            "Search for the options with the best dev score.",
            f"{__name__}.commands.search:search",
            section="Run",
        ),
        Command(
            "protocol",
            "Evaluate few-shot runs by the FewNLU protocol.",
            f"{__name__}.commands.protocol:protocol",
            section="Results",
        ),
        Command(
            "fewnlu",
            "Run FewNLU with its original options and result files.",
            f"{__name__}.commands.fewnlu:fewnlu",
            section="Compatibility commands",
        ),
        Command(
            "predict",
            "Label new texts with a trained model.",
            f"{__name__}.commands.predict:predict",
            section="Results",
        ),
        Command("methods", "List the few-shot methods.", f"{__name__}.commands.listings:methods", section="Components"),
    ),
)


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_DEFINED_IN[name]}"), name)
