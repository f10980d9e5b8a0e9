"""What ``lmassay perturbations NAME`` and ``lmassay scorers NAME`` print: options and an example of a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lmassay.evaluations.robustness.attack import Attack
from lmassay.evaluations.robustness.perturbations.base import Function, options_only
from lmassay.evaluations.robustness.scorers.base import Scorer, is_scorer_function
from lmassay.evaluations.robustness.task import Robustness
from lmassay.plugins.option_help import (
    ComponentHelp,
    OptionHelp,
    example_values,
    options_of,
    required_values,
    section_text,
    with_meanings,
)

_TASK = {"name": Robustness.name, "src": "src.txt"}
# What the options of lmassay's own perturbations and scorers mean, by option. The tables called _OWN_… are by the name
# of the perturbation or scorer first, for options that only this one has or that mean something else there.
_PERTURBATION_MEANINGS = {
    "layout": "keyboard layout",
    "letters": "all: flip all letters of a word; one: flip a single letter",
    "segment": "how the text is divided into words; zh, zh-hant, ja and th need the extra segment",
}
_OWN_PERTURBATION_MEANINGS = {
    "insert": {"mode": "double: type a letter twice; add: add another one; both: either of them"},
    "diacritics": {"mode": "strip: remove accents; add: add one; both: remove them if there are any, else add one"},
    "homoglyph": {"kind": "script: letters of other scripts; fullwidth: full-width forms; any: both"},
}
_SCORER_MEANINGS = {
    "tokenize": "tokenizer: 13a, intl, zh, char, none, ja-mecab, ko-mecab or flores200",
    "tokenizer_file": "SentencePiece model for tokenize: flores200",
    "compat": "1.x: scores of sacrebleu 1, which are not exactly 0 where nothing matches",
    "threads": "number of threads",
    "char_order": "longest n-gram of characters",
    "word_order": "longest n-gram of words; 0: characters only",
    "beta": "weight of recall",
    "case_sensitive": "treat upper and lower case as different",
    "normalized": "normalise characters, as sacrebleu does with this option",
    "no_punct": "remove punctuation",
    "asian_support": "apply normalized and no_punct to Chinese and Japanese, too",
    "unit": "what is inserted, deleted or replaced",
    "meteor_jar": "the file meteor-1.5.jar; by default $METEOR_JAR, or the one in an installed pycocoevalcap",
    "java_command": "the command that starts Java",
    "quasi": "ignore case, punctuation, English articles and white space",
    "layer": "layer whose embeddings are compared; by default that of BERTScore's authors, or the last one",
    "encoder": "a folder or fetched hub name; by default all-MiniLM-L6-v2",
    "batch_size": "texts per batch",
    "device": "where the model runs, such as cpu or cuda",
    "python": "Python of an environment with unbabel-comet",
    "gpus": "number of GPUs",
}
_OWN_SCORER_MEANINGS = {
    "bertscore": {"model": "folder of an encoder such as BERT or RoBERTa"},
    "comet": {"model": "checkpoint (.ckpt) of a COMET model"},
}


def perturbation_help(name: str, function: Function) -> ComponentHelp:
    """Explain a perturbation. Its options are the keyword-only parameters of its function.

    lmassay passes the other parameters: the text, ``rng``, and the rate, which is a key of the attack.
    """
    own_options = options_only(name, function)
    attack: dict[str, Any] = {"name": name, "rate": Attack.model_fields["rate"].default}
    values = example_values(own_options)
    if values:
        attack["options"] = values
    example = section_text("task", {**_TASK, "attack": attack})
    options = options_of(own_options)
    if function.__module__.startswith("lmassay."):
        options = with_meanings(options, _PERTURBATION_MEANINGS | _OWN_PERTURBATION_MEANINGS.get(name, {}))
    return ComponentHelp([_rate(), *options], example)


def scorer_help(name: str, factory: Callable[..., Any]) -> ComponentHelp:
    """Explain a scorer. The parameters of a function of two texts are not options."""
    if is_scorer_function(factory):
        options: list[OptionHelp] = []
        scorer: dict[str, Any] = {"name": name}
    else:
        options = options_of(factory)
        if factory.__module__.startswith("lmassay."):
            options = with_meanings(options, _SCORER_MEANINGS | _OWN_SCORER_MEANINGS.get(name, {}))
        scorer = {"name": name, **required_values(factory)}
    # A scorer that also reads the source can only score translations, so the example uses it as s_tgt.
    needs_source = isinstance(factory, type) and issubclass(factory, Scorer) and factory.needs_source
    key = "s_tgt" if needs_source else "s_src"
    return ComponentHelp(options, section_text("task", {**_TASK, "attack": "charswap", key: scorer}))


def _rate() -> OptionHelp:
    """Return the help of ``rate``, taken from the task, where it is the key ``attack.rate``."""
    for option in options_of(Robustness):
        if option.name == "attack.rate":
            return replace(option, name="rate")
    raise AssertionError("an attack has a rate")
