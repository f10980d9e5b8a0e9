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
)

_TASK = {"name": Robustness.name, "src": "src.txt"}


def perturbation_help(name: str, function: Function) -> ComponentHelp:
    """Explain a perturbation, which is a function: lmassay passes the text and ``rng``; the attack has the rate."""
    own_options = options_only(name, function)
    attack: dict[str, Any] = {"name": name, "rate": Attack.model_fields["rate"].default}
    values = example_values(own_options)
    if values:
        attack["options"] = values
    example = section_text("task", {**_TASK, "attack": attack})
    return ComponentHelp([_rate(), *options_of(own_options)], example)


def scorer_help(name: str, factory: Callable[..., Any]) -> ComponentHelp:
    """Explain a scorer. The parameters of a function of two texts are not options."""
    if is_scorer_function(factory):
        options: list[OptionHelp] = []
        scorer: dict[str, Any] = {"name": name}
    else:
        options = options_of(factory)
        scorer = {"name": name, **required_values(factory)}
    # A scorer that also reads the source scores translations only.
    needs_source = isinstance(factory, type) and issubclass(factory, Scorer) and factory.needs_source
    key = "s_tgt" if needs_source else "s_src"
    return ComponentHelp(options, section_text("task", {**_TASK, "attack": "charswap", key: scorer}))


def _rate() -> OptionHelp:
    """Return the rate as the task explains it, where it is a key of the attack."""
    for option in options_of(Robustness):
        if option.name == "attack.rate":
            return replace(option, name="rate")
    raise AssertionError("an attack has a rate")
