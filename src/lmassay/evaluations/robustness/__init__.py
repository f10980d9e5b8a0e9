"""The robustness evaluation: does a system break under attack?

An attack changes the input (the source). It is judged by how much of the input it leaves intact, and by how much of the
output (the target) it destroys. The evaluation is the successor of TEAPOT (Michel et al. 2019).

This module only declares the evaluation; importing it is cheap.
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

_HERE = Path(__file__).parent
_SAMPLE = _HERE / "sample"
_STARTERS = _HERE / "starters"
# The French sentences with their translations, and the small translator, which several samples use.
_SENTENCES = {"src.fr": _SAMPLE / "src.fr", "ref.en": _SAMPLE / "ref.en"}
_SYSTEM = {"my_system.py": _SAMPLE / "my_system.py", "dictionary.tsv": _SAMPLE / "dictionary.tsv"}
_SCORERS = f"{__name__}.scorers"
_PERTURBATIONS = f"{__name__}.perturbations"
_RATE = (0.0, 1.0)
# The probability that a perturbation changes a word, if the user does not set it.
DEFAULT_RATE = 0.3

METRICS = (
    Metric(
        "success",
        "attacks that succeed",
        better="lower",
        bounds=_RATE,
        meaning="The share of inputs on which the attack succeeds: it destroys more of the output than of the input.",
        verdict=True,
    ),
    Metric("s_src", "source similarity", bounds=_RATE, meaning="How much of the input an attack leaves intact."),
    Metric(
        "d_tgt",
        "target damage",
        better="lower",
        bounds=_RATE,
        meaning="The relative drop of the output's score under attack; outputs that improve count as 0.",
    ),
    Metric(
        "s_tgt",
        "target similarity",
        bounds=_RATE,
        meaning="How similar the outputs with and without attack are; used if there is no reference.",
    ),
    Metric("s_out", "score without attack", bounds=_RATE, meaning="The score of the outputs without attack."),
    Metric("s_adv", "score under attack", bounds=_RATE, meaning="The score of the outputs under attack."),
    Metric(
        "signed_drop",
        "signed drop",
        better="lower",
        meaning="The relative drop of the mean score under attack; outputs that improve reduce it.",
    ),
    Metric(
        "turned_wrong",
        "right answers that turn wrong",
        better="lower",
        bounds=_RATE,
        meaning="The share of right answers that are wrong under attack; unchanged inputs are not counted. Needs a "
        "target scorer whose scores are 0 or 1.",
        verdict=True,
    ),
    Metric(
        "unchanged",
        "unchanged inputs",
        better="lower",
        bounds=_RATE,
        meaning="The share of inputs that the attack left unchanged.",
    ),
    Metric(
        "cut_off",
        "cut-off outputs",
        better="lower",
        bounds=_RATE,
        meaning="The share of inputs for which an output, with or without attack, ended at the token limit.",
        verdict=True,
    ),
)

evaluation = Evaluation(
    name="robustness",
    question="Does it break under attack?",
    order=10,
    datasets=Path(__file__).parent / "datasets",
    reproductions=(
        Reproduction(
            "teapot", "TEAPOT: the numbers of its README", f"{__name__}.reproduce:teapot", datasets=("teapot",)
        ),
    ),
    tasks={
        "robustness": TaskEntry(
            path=f"{__name__}.task:Robustness",
            summary="does it break under attack? TEAPOT's s_src, d_tgt and success rate",
        ),
    },
    metrics=METRICS,
    components={
        "scorer": {
            "zero_one": Component(f"{_SCORERS}.exact:ZeroOne", "1 where the two texts are equal, else 0"),
            "exact_match": Component(f"{_SCORERS}.exact:ZeroOne", "the same as zero_one"),
            "bleu": Component(f"{_SCORERS}.bleu:BLEU", "sentence BLEU, floor smoothing 0.01; choice of tokenizers"),
            "chrf": Component(f"{_SCORERS}.chrf:ChrF", "character n-gram F-score, order 6, beta 2"),
            "chrf++": Component(f"{_SCORERS}.chrf:ChrFPlusPlus", "chrF with n-grams of one and two words"),
            "ter": Component(f"{_SCORERS}.ter:TER", "1 minus translation edit rate"),
            "edit_distance": Component(
                f"{_SCORERS}.edit_distance:EditDistance", "1 minus edit distance of characters or words"
            ),
            "meteor": Component(f"{_SCORERS}.meteor:METEOR", "METEOR 1.5, the Java program (needs java and the jar)"),
            "bertscore": Component(
                f"{_SCORERS}.bertscore:BERTScore", "F1 of token embeddings of a local encoder (extra: hf)"
            ),
            "comet": Component(
                f"{_SCORERS}.comet:COMET", "COMET of a local model, run by another Python that has unbabel-comet"
            ),
            "semantic": Component(f"{_SCORERS}.semantic:Semantic", "cosine of sentence embeddings (extra: semantic)"),
        },
        "perturbation": {
            "charswap": Component(f"{_PERTURBATIONS}:charswap", "swap two neighbouring letters inside a word"),
            "keyboard": Component(
                f"{_PERTURBATIONS}:keyboard", "hit the key next to the right one, on a keyboard layout of your choice"
            ),
            "delete": Component(f"{_PERTURBATIONS}:delete", "leave out a letter"),
            "insert": Component(f"{_PERTURBATIONS}:insert", "type a letter twice or add one"),
            "homoglyph": Component(f"{_PERTURBATIONS}:homoglyph", "replace a letter with one that looks the same"),
            "case": Component(f"{_PERTURBATIONS}:case", "flip upper and lower case"),
            "diacritics": Component(f"{_PERTURBATIONS}:diacritics", "drop accents, or add one"),
            "wordswap": Component(f"{_PERTURBATIONS}:wordswap", "swap two neighbouring words"),
            "worddrop": Component(f"{_PERTURBATIONS}:worddrop", "leave out a word"),
        },
    },
    # The same attack at two rates may have the same label. So runs are distinguished by the part `attack` of the
    # signature.
    variation=Variation(pooled="attack", identity="attack", named=("attack",), hidden=("prompt",), data=("src", "ref")),
    section=f"{__name__}.report:section",
    texts=f"{__name__}.report:texts",
    key_texts=(
        KeyText("source"),
        KeyText("perturbed", compared_with="source"),
        KeyText("output on perturbed", compared_with="output"),
    ),
    headline=f"{__name__}.card:headline",
    card=f"{__name__}.card:variants",
    published_card=PublishedCard(("en", "ko", "es", "nl", "tr"), f"{__name__}.card:published_variants"),
    sample=Sample(
        _SAMPLE,
        model="@DATA@/my_system.py:MySystem",
        marks=f"{__name__}.card:sample_marks",
        model_files=_SYSTEM,
    ),
    starters=(
        Starter(
            "scorer",
            "your own scorer of two texts, compared with chrF",
            {
                "my_scorer.py": _STARTERS / "my_scorer.py",
                "my_scorer.yaml": _STARTERS / "my_scorer.yaml",
                **_SENTENCES,
                **_SYSTEM,
            },
            ("lmassay run my_scorer.yaml",),
        ),
        Starter(
            "perturbation",
            "your own attack on a text, alone and in a search for the worst change",
            {
                "my_perturbation.py": _STARTERS / "my_perturbation.py",
                "my_perturbation.yaml": _STARTERS / "my_perturbation.yaml",
                **_SENTENCES,
                **_SYSTEM,
            },
            ("lmassay run my_perturbation.yaml",),
        ),
        Starter(
            "model",
            "your own program or Python class that writes text, under attack",
            {
                "my_model.py": _STARTERS / "my_model.py",
                "my_model.yaml": _STARTERS / "my_model.yaml",
                "src.fr": _SAMPLE / "src.fr",
            },
            ("lmassay run my_model.yaml",),
        ),
        Starter(
            "outputs",
            "outputs that a system has already written, before and after an attack",
            {"parallel": _STARTERS / "parallel", "parallel.yaml": _STARTERS / "parallel.yaml"},
            ("lmassay run parallel.yaml",),
        ),
        Starter(
            "teapot-scorers",
            "scorers in TEAPOT's own style",
            {"custom_scorers.py": _STARTERS / "custom_scorers.py", **_SENTENCES},
            (
                "lmassay perturb charswap --in src.fr --out adv.fr",
                "lmassay teapot --src src.fr --adv-src adv.fr --custom-scores-source custom_scorers.py --s-src f1",
            ),
        ),
        Starter(
            "package",
            "a package that adds a perturbation and a scorer",
            {"lmassay-shouting": _STARTERS / "lmassay-shouting", "src.fr": _SAMPLE / "src.fr"},
            ("pip install ./lmassay-shouting", "lmassay perturb shout --in src.fr --out adv.fr"),
        ),
    ),
    after_run=f"{__name__}.commands.actions.run_notes:warn_about_outputs",
    checks=f"{__name__}.doctor:findings",
    commands=(
        Command(
            "perturb",
            "Write an adversarial version of a text file.",
            f"{__name__}.commands:perturb",
            section="Data",
        ),
        Command(
            "teapot",
            "Run TEAPOT with its original options.",
            f"{__name__}.commands:teapot",
            section="Compatibility commands",
        ),
        Command("scorers", "List the scorers.", f"{__name__}.commands:scorers", section="Components"),
        Command(
            "perturbations",
            "List the perturbations.",
            f"{__name__}.commands:perturbations",
            section="Components",
        ),
    ),
)
