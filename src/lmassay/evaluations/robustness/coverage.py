"""How many inputs an attack changes, checked before a run: success on an unchanged input means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import MissingExtra
from lmassay.evaluations.robustness.attack import INPUTS_CHECKED_BEFORE_RUN, Attack, CandidateMaker
from lmassay.evaluations.robustness.perturbations.keyboards import LAYOUTS
from lmassay.evaluations.robustness.perturbations.word_edits import SEGMENTS

GROUP = "input"
"""The name of the group that says whether the attack changed the input of an example."""
CHANGED, UNCHANGED = "changed", "unchanged"

# On an unchanged input, s_src is 1 and a deterministic model gives the same output, so the attack does not succeed at
# the default threshold. With more than half unchanged, its success rate stays below 0.5 for any such model.
MAX_UNCHANGED = 0.5
# How many inputs are tried to find perturbations to suggest. Every perturbation is tried on each of them.
SUGGESTION_SAMPLE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many inputs were checked, and how many of them the attack leaves unchanged."""

    checked: int
    unchanged: int

    @property
    def changes_nothing(self) -> bool:
        """Whether the attack changes nothing at all."""
        return self.unchanged == self.checked

    @property
    def changes_few(self) -> bool:
        """Whether the attack leaves more than half of the inputs unchanged."""
        return self.unchanged > MAX_UNCHANGED * self.checked


def measure(is_changed: Iterable[bool]) -> Coverage:
    """Count changed and unchanged inputs among the first 1,000; if none of them is changed, continue until one is.

    >>> measure([True, False, True, True])
    Coverage(checked=4, unchanged=1)
    """
    checked = 0
    unchanged = 0
    for changed in is_changed:
        checked += 1
        if not changed:
            unchanged += 1
        if checked >= INPUTS_CHECKED_BEFORE_RUN and unchanged < checked:
            break
    return Coverage(checked, unchanged)


def explanation(
    coverage: Coverage,
    attack: Attack,
    maker: CandidateMaker | None,
    inputs: Sequence[str],
    perturbations: Iterable[str],
) -> str:
    """A message about what an attack leaves unchanged, and what to do about it; ``inputs`` is a sample of inputs."""
    if coverage.changes_nothing:
        noun = "input" if coverage.checked == 1 else "inputs"
        problem = f"the attack {attack.label} changes none of {coverage.checked:,} {noun}, so nothing would be attacked"
    else:
        share = f"{coverage.unchanged:,} of {coverage.checked:,} inputs"
        percent = f"{coverage.unchanged / coverage.checked:.0%}"
        problem = f"the attack {attack.label} leaves {share} unchanged ({percent}), so these inputs are not attacked"
    return f"{problem}; {_remedy(attack, maker, inputs, perturbations)}"


def _remedy(attack: Attack, maker: CandidateMaker | None, inputs: Sequence[str], perturbations: Iterable[str]) -> str:
    """How to change more inputs: with the same attack if it can, otherwise with another one."""
    if maker is None:
        # The attacked inputs come from a file.
        return f"check that {attack.file} contains attacked inputs and not the originals"
    changed = changeable = 0
    for index, text in enumerate(inputs):
        changed += maker.changes(text, index)
        changeable += maker.could_change(text, index)
    if changeable > changed:
        if attack.search is None:
            return f"raise its rate (now {attack.rate:g}) or let it draw again with redraws (now {attack.redraws})"
        rates = ", ".join(f"{rate:g}" for rate in attack.search.rates)
        return f"raise its rates (now {rates}) or its budget (now {attack.search.budget})"
    option = _better_option(attack, inputs, changeable)
    if option:
        return f"set its option for this script: options: {{{option}}}"
    better = [name for name in perturbations if _changeable_by(name, inputs) > changeable]
    if better:
        return f"perturbations that change more of them: {', '.join(better)}"
    return "no perturbation of lmassay changes more of them; attacked inputs can also come from a file"


# The options of perturbations that depend on the script of the text, with their values.
_SCRIPT_OPTIONS: dict[str, tuple[str, Sequence[str]]] = {
    "keyboard": ("layout", LAYOUTS),
    "wordswap": ("segment", SEGMENTS),
    "worddrop": ("segment", SEGMENTS),
}


def _better_option(attack: Attack, inputs: Sequence[str], changeable: int) -> str:
    """The option and value with which the attack can change most inputs; empty if no other value is better."""
    name = attack.perturb or attack.name
    if attack.search is not None or name not in _SCRIPT_OPTIONS:
        return ""
    key, values = _SCRIPT_OPTIONS[name]
    best, most = "", changeable
    for value in values:
        try:
            count = _changeable_by(name, inputs, {**attack.options, key: value})
        except MissingExtra:
            # The package that divides text into words is not installed.
            continue
        if count > most:
            best = f"{key}: {value}"
            most = count
    return best


def _changeable_by(perturbation: str, inputs: Sequence[str], options: Mapping[str, Any] | None = None) -> int:
    """How many inputs a perturbation changes if it changes every word that it can."""
    # At rate 1.0 a perturbation changes every word that it can. The folder is only used for perturbations that are
    # given as the path of a file, and suggestions are never files.
    maker = CandidateMaker(Attack(name=perturbation, rate=1.0, options=dict(options or {})), Path())
    return sum(maker.changes(text, index) for index, text in enumerate(inputs))
