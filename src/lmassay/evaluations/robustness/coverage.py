"""How many of its inputs an attack changes: success on an input that was not attacked means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmassay.evaluations.robustness.attack import CHECKED_BEFORE_A_RUN, Attack, CandidateMaker

GROUP = "input"
"""The group of an example that says whether the attack changed its input."""
CHANGED, UNCHANGED = "changed", "unchanged"

# With more than half of the inputs unchanged, no system can reach a success rate of one half.
MOST_UNCHANGED = 0.5
# So many inputs are enough to find out which perturbations suit a text.
A_FEW = 50


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many inputs were checked, and how many of them the attack leaves unchanged."""

    checked: int
    unchanged: int

    @property
    def is_none(self) -> bool:
        return self.unchanged == self.checked

    @property
    def is_low(self) -> bool:
        return self.unchanged > MOST_UNCHANGED * self.checked


def measure(is_changed: Iterable[bool]) -> Coverage:
    """Check the first 1,000 inputs; if the attack changes none of them, go on until it changes one.

    >>> measure([True, False, True, True])
    Coverage(checked=4, unchanged=1)
    """
    checked = unchanged = 0
    for changed in is_changed:
        checked += 1
        unchanged += not changed
        if checked >= CHECKED_BEFORE_A_RUN and unchanged < checked:
            break
    return Coverage(checked, unchanged)


def explanation(
    found: Coverage, attack: Attack, maker: CandidateMaker | None, inputs: Sequence[str], perturbations: Iterable[str]
) -> str:
    """What an attack leaves unchanged, and what to do about it; ``inputs`` are a few of them."""
    if found.is_none:
        noun = "input" if found.checked == 1 else "inputs"
        what = f"the attack {attack.label} changes none of {found.checked:,} {noun}, so nothing would be attacked"
    else:
        share = f"{found.unchanged:,} of {found.checked:,} inputs"
        percent = f"{found.unchanged / found.checked:.0%}"
        what = f"the attack {attack.label} leaves {share} unchanged ({percent}), so nothing is attacked there"
    return f"{what}; {_remedy(attack, maker, inputs, perturbations)}"


def _remedy(attack: Attack, maker: CandidateMaker | None, inputs: Sequence[str], perturbations: Iterable[str]) -> str:
    """How to change more of the inputs: by the same attack if it can, else by another one."""
    if maker is None:
        return f"check that {attack.file} has the attacked inputs"
    changed = sum(maker.changes(text, index) for index, text in enumerate(inputs))
    within_reach = sum(maker.could_change(text, index) for index, text in enumerate(inputs))
    if within_reach > changed and attack.search is None:
        return f"raise its rate (now {attack.rate:g}) or let it draw again with redraws (now {attack.redraws})"
    if within_reach > changed and attack.search is not None:
        rates = ", ".join(f"{rate:g}" for rate in attack.search.rates)
        return f"raise its rates (now {rates}) or its budget (now {attack.search.budget})"
    suitable = [name for name in perturbations if _most_changed_by(name, inputs) > within_reach]
    if suitable:
        return f"perturbations that change more of them: {', '.join(suitable)}"
    return "no perturbation of lmassay changes more of them; attacked inputs can also come from a file"


def _most_changed_by(perturbation: str, inputs: Sequence[str]) -> int:
    maker = CandidateMaker(Attack(name=perturbation, rate=1.0), Path())
    return sum(maker.changes(text, index) for index, text in enumerate(inputs))
