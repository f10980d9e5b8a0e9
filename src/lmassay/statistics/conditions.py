"""The conditions of a gate, as they are written: ``accuracy<-0.02``, ``accuracy<-2%``, ``accuracy worse by 0.02``.

A condition is a statement about the difference between two runs, new minus base. ``-0.02`` is a difference in the
metric's own units; ``-2%`` is relative to the base, so it is 2 % of the base's value. The option says what is tested:

- ``--fail-if CONDITION`` fails if there is evidence that the condition holds, such as a drop beyond the threshold;
- ``--pass-only-if CONDITION`` passes only if there is evidence that it holds, such as no drop beyond the threshold.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

from lmassay.errors import UserError
from lmassay.statistics.estimation import Alternative
from lmassay.types import Metric

Reading = Literal["fail if", "pass only if"]
"""How a gate uses a condition: it fails if the condition holds, or passes only if the condition holds."""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_CONDITION = re.compile(
    # The name of a metric may contain < or >, too. The greedy ``.*`` leaves the last one to the operator.
    r"(?P<metric>.*\S)\s*(?P<operator><=|>=|<|>)\s*"
    rf"(?P<number>[+\-\N{{MINUS SIGN}}]?{_NUMBER}(?:[eE][+\-\N{{MINUS SIGN}}]?\d+)?)\s*(?P<percent>%?)",
    re.DOTALL,
)
_WORSE = re.compile(
    rf"(?P<metric>.*?\S)\s+(?P<operator>(?:not\s+)?worse)"
    rf"(?:\s+by\s+(?P<number>\+?{_NUMBER}(?:[eE][+\-]?\d+)?)\s*(?P<percent>%?))?",
    re.DOTALL,
)
# The margin that messages suggest if a condition needs one and has none.
_USUAL_MARGIN = "0.02"
_SHAPES: dict[Reading, str] = {
    "fail if": 'write METRIC<NUMBER or METRIC>NUMBER, such as "accuracy<-0.02", "accuracy<-2%" relative to the base, '
    'or "accuracy worse by 0.02"',
    "pass only if": 'write METRIC>NUMBER or METRIC<NUMBER, such as "accuracy>-0.02", "accuracy>-2%" relative to the '
    'base, or "accuracy not worse by 0.02"',
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A statement about a difference, new minus base."""

    metric: str
    operator: str
    """One of < <= > >=, or "worse" or "not worse", whose direction depends on whether the metric is better when higher
    or when lower."""
    threshold: float
    """The difference, new minus base, to compare with; for "worse" and "not worse", its size without a sign."""
    relative: bool = False
    """True if the threshold is a fraction of the base's value: -0.02 for ``-2%``."""
    reading: Reading = "fail if"
    """How the gate uses the condition, which depends on the option: ``--fail-if`` or ``--pass-only-if``."""

    def __str__(self) -> str:
        if self.operator in ("worse", "not worse"):
            return f"{self.metric} {self.operator} by {self.threshold_text}"
        return f"{self.metric}{self.operator}{self.threshold_text}"

    @property
    def option(self) -> str:
        """The option with the condition as a user would type it, for messages."""
        return f"--{self.reading.replace(' ', '-')} '{self}'"

    @property
    def threshold_text(self) -> str:
        """The threshold as it is written: ``-0.02``, or ``-2%`` relative to the base."""
        # Negating the threshold of "worse by 0" gives -0.0; adding 0.0 removes the minus sign.
        threshold = self.threshold + 0.0
        return f"{100 * threshold:g}%" if self.relative else f"{threshold:g}"

    def directed(self, metric: Metric) -> Condition:
        """The condition with < or >: if higher is better, ``worse by 0.02`` becomes ``<-0.02``."""
        if self.operator not in ("worse", "not worse"):
            return self
        if metric.better == "zero":
            name = self.metric
            alternatives = f"'{name}>-NUMBER' and '{name}<NUMBER'"
            if self.reading == "fail if":
                alternatives = f"'{name}<-NUMBER' or '{name}>NUMBER'"
            raise UserError(
                f"{self.option}: 0 is the best value of {name}, so both directions can be worse; write {alternatives}"
            )
        is_worse = self.operator == "worse"
        if metric.better == "higher":
            # Worse is lower: "worse by 0.02" is a difference below -0.02.
            return replace(self, operator="<" if is_worse else ">", threshold=-self.threshold)
        return replace(self, operator=">" if is_worse else "<")

    @property
    def is_below(self) -> bool:
        """True if the condition holds for differences below the threshold."""
        return self.operator.startswith("<")

    @property
    def alternative(self) -> Alternative:
        """The alternative hypothesis of the significance test: the condition holds."""
        return "less" if self.is_below else "greater"

    @property
    def verb(self) -> str:
        """A verb for what the metric does if the condition holds: ``fall`` or ``rise``."""
        return "fall" if self.is_below else "rise"

    @property
    def limit(self) -> str:
        """The threshold with its direction as a text, such as ``below -0.02``."""
        return f"{'below' if self.is_below else 'above'} {self.threshold_text}"

    def is_met_by(self, difference: float) -> bool:
        """True if the difference is beyond the threshold by more than a rounding error.

        If the condition is ``relative``, pass the difference divided by the base's value.
        """
        if math.isclose(difference, self.threshold, rel_tol=1e-9, abs_tol=1e-12):
            return False
        return difference < self.threshold if self.is_below else difference > self.threshold


def parse_condition(text: str, reading: Reading = "fail if") -> Condition:
    """Parse a condition as it is written on the command line.

    >>> parse_condition("accuracy < -0.02")
    Condition(metric='accuracy', operator='<', threshold=-0.02, relative=False, reading='fail if')
    >>> parse_condition("word_error_rate not worse by 2%", "pass only if").operator
    'not worse'
    """
    option = f"--{reading.replace(' ', '-')} '{text}'"
    worse_match = _WORSE.fullmatch(text.strip())
    if worse_match is not None:
        return _parse_worse(worse_match, reading, option)
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise UserError(f"{option} cannot be read; {_SHAPES[reading]}")
    metric = match["metric"]
    operator = match["operator"]
    percent = match["percent"]
    number = match["number"].replace("\N{MINUS SIGN}", "-")
    threshold = _threshold(number, percent, option)
    if reading == "fail if":
        # "accuracy<0.02" would fail a run that is exactly as good as the base, which nobody wants.
        size = number.lstrip("+-")
        # In "accuracy<<0.02", the first < was typed by mistake: the suggested condition leaves it out.
        name = metric.rstrip("<>= ") or metric
        if operator.startswith("<") and threshold > 0:
            raise UserError(
                f"{option}: a difference is new minus base, so a drop is below 0; "
                f"did you mean '{name}{operator}-{size}{percent}'?"
            )
        if operator.startswith(">") and threshold < 0:
            raise UserError(
                f"{option}: a difference is new minus base, so a rise is above 0; "
                f"did you mean '{name}{operator}{size}{percent}'?"
            )
    return Condition(metric, operator, threshold, bool(percent), reading)


def _threshold(number: str, percent: str, option: str) -> float:
    threshold = float(number)
    if percent:
        threshold /= 100
    if not math.isfinite(threshold):
        raise UserError(f"{option}: the threshold is not a finite number")
    return threshold


def _parse_worse(match: re.Match[str], reading: Reading, option: str) -> Condition:
    """Parse a condition such as ``accuracy worse by 0.02``."""
    # The pattern allows any white space in "not worse".
    operator = " ".join(match["operator"].split())
    metric = match["metric"]
    number = match["number"] or "0"
    percent = match["percent"] or ""
    size = _threshold(number, percent, option)
    threshold_text = f"{number}{percent}"
    if reading == "fail if":
        expected_operator = "worse"
        rule = "--fail-if takes the condition under which the check fails"
    else:
        expected_operator = "not worse"
        rule = "--pass-only-if takes the condition that must be shown to hold"
        if size == 0:
            threshold_text = _USUAL_MARGIN
    if operator != expected_operator:
        raise UserError(f"{option}: {rule}; did you mean '{metric} {expected_operator} by {threshold_text}'?")
    if reading == "pass only if" and size == 0:
        # Without a margin, a run that is as good as the base would hardly ever pass, however many examples it has.
        raise UserError(f"{option}: say by how much, such as '{metric} not worse by {_USUAL_MARGIN}'")
    return Condition(metric, operator, size, bool(percent), reading)


def likely_mistake(condition: Condition, metric: Metric) -> str:
    """A warning about a condition that would fail an improvement or pass a regression; empty if there is none."""
    better = metric.better
    if condition.operator in ("worse", "not worse") or better == "zero":
        return ""
    # A fall is a gain if lower is better, and a rise if higher is better.
    looks_for_gain = condition.is_below is (better == "lower")
    size = replace(condition, threshold=abs(condition.threshold)).threshold_text
    if condition.reading == "fail if" and looks_for_gain:
        return (
            f"{condition.option}: {better} is better for {condition.metric}, so this fails on an improvement; "
            f"did you mean '{condition.metric} worse by {size}'?"
        )
    if condition.reading == "pass only if" and not looks_for_gain:
        margin = size if condition.threshold else _USUAL_MARGIN
        return (
            f"{condition.option}: {better} is better for {condition.metric}, so this passes only if {condition.metric} "
            f"has not improved; did you mean '{condition.metric} not worse by {margin}'?"
        )
    return ""
