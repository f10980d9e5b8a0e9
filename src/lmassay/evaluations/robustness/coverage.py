"""How many of its inputs an attack changes: success on an input that was not attacked means nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from lmassay.contracts import Component
from lmassay.evaluations.robustness.attack import CHECKED_BEFORE_A_RUN, Attack, Maker

GROUP = "input"
"""The group of an example that says whether the attack changed its input."""
CHANGED, UNCHANGED = "changed", "unchanged"

# With more than half of the inputs unchanged, no system can reach a success rate of one half.
MOST_UNCHANGED = 0.5
# So many inputs are enough to find out which perturbations can change a text.
_FEW = 50


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


def warning(label: str, found: Coverage, inputs: int | None) -> str:
    """What a user should know about an attack that leaves most inputs unchanged."""
    is_part = inputs is not None and found.checked < inputs
    of = f"the first {found.checked:,}" if is_part else f"{found.checked:,}"
    share = found.unchanged / found.checked
    return (
        f"the attack {label} leaves {found.unchanged:,} of {of} inputs unchanged ({share:.0%}), and on these it cannot "
        "succeed; raise its rate, let it draw again with redraws, or choose an attack that suits the script"
    )


def no_change_message(
    attack: Attack,
    source: Path,
    texts: Iterable[str],
    checked: int,
    perturbations: Mapping[str, Component],
    maker: Maker | None,
) -> str:
    """Why a run with this attack is refused, and what would change these texts."""
    what = f"the attack {attack.label} changes none of {checked:,} inputs of {source}"
    if maker is None:
        return f"task.attack.file: {what}; give a file with attacked inputs, not the inputs again"
    sample = list(islice(texts, _FEW))
    if any(maker.could_change(text, index) for index, text in enumerate(sample)):
        return f"task.attack: {what}; raise its rate (now {_rates(attack)}) or let it draw again with redraws"
    suitable = [name for name in perturbations if _can_change(name, sample)]
    if not suitable:
        return f"task.attack: {what}, nor would another perturbation; give a file with attacked inputs"
    return f"task.attack: {what}; attacks that do change this text: {', '.join(suitable)}"


def _rates(attack: Attack) -> str:
    rates = [attack.rate] if attack.search is None else attack.search.rates
    return ", ".join(f"{rate:g}" for rate in rates)


def _can_change(name: str, texts: Sequence[str]) -> bool:
    maker = Maker(Attack(name=name, rate=1.0), Path())
    return any(maker.changes(text, index) for index, text in enumerate(texts))
