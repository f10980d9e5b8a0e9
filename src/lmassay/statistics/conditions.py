"""The conditions of a gate, as they are written: ``accuracy<-0.02``, ``accuracy<-2%``, ``accuracy worse by 0.02``.

A condition is about the difference, new minus base. Which question it asks depends on the option:

- ``--fail-if CONDITION`` fails on evidence that the condition holds, such as a drop beyond the threshold;
- ``--pass-only-if CONDITION`` passes only on evidence that it holds, such as no drop beyond the threshold.
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

_NUMBER = r"(?:\d+\.?\d*|\.\d+)"
_CONDITION = re.compile(
    # Names of metrics may contain such signs, too: the last one counts.
    r"(?P<metric>.*\S)\s*(?P<sign><=|>=|<|>)\s*"
    rf"(?P<number>[+\-\N{{MINUS SIGN}}]?{_NUMBER}(?:[eE][+\-\N{{MINUS SIGN}}]?\d+)?)\s*(?P<percent>%?)",
    re.DOTALL,
)
_WORSE = re.compile(
    rf"(?P<metric>.*?\S)\s+(?P<sign>(?:not\s+)?worse)"
    rf"(?:\s+by\s+(?P<number>\+?{_NUMBER}(?:[eE][+\-]?\d+)?)\s*(?P<percent>%?))?",
    re.DOTALL,
)
# Suggested where a condition lacks the margin that it needs.
_USUAL_MARGIN = "0.02"
_SHAPES: dict[Reading, str] = {
    "fail if": 'write METRIC<NUMBER or METRIC>NUMBER, such as "accuracy<-0.02", "accuracy<-2%" for a share of the '
    'base, or "accuracy worse by 0.02"',
    "pass only if": 'write METRIC>NUMBER or METRIC<NUMBER, such as "accuracy>-0.02", "accuracy>-2%" for a share of '
    'the base, or "accuracy not worse by 0.02"',
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A statement about a difference, new minus base. The threshold of a ``relative`` one is a share of the base."""

    metric: str
    sign: str
    """One of < <= > >=, or "worse" and "not worse": relative to the direction in which the metric is better."""
    threshold: float
    relative: bool = False
    reading: Reading = "fail if"

    def __str__(self) -> str:
        if self.sign in ("worse", "not worse"):
            return f"{self.metric} {self.sign} by {self.threshold_text}"
        return f"{self.metric}{self.sign}{self.threshold_text}"

    @property
    def option(self) -> str:
        """The condition as on the command line, for messages."""
        return f"--{self.reading.replace(' ', '-')} '{self}'"

    @property
    def threshold_text(self) -> str:
        """The threshold as it is written: ``-0.02``, or ``-2%`` for a share of the base."""
        # Negating "worse by 0" gives -0.0; adding 0.0 removes the sign.
        threshold = self.threshold + 0.0
        return f"{100 * threshold:g}%" if self.relative else f"{threshold:g}"

    def directed(self, metric: Metric) -> Condition:
        """The condition with a sign: for a metric that is better when higher, ``worse by 0.02`` is ``<-0.02``."""
        if self.sign not in ("worse", "not worse"):
            return self
        if metric.better == "zero":
            name = self.metric
            both = f"'{name}>-NUMBER' and '{name}<NUMBER'"
            if self.reading == "fail if":
                both = f"'{name}<-NUMBER' or '{name}>NUMBER'"
            raise UserError(
                f"{self.option}: 0 is the best value of {name}, so both directions can be worse; write {both}"
            )
        is_worse = self.sign == "worse"
        if metric.better == "higher":
            # Worse is lower: "worse by 0.02" is a difference below -0.02.
            return replace(self, sign="<" if is_worse else ">", threshold=-self.threshold)
        return replace(self, sign=">" if is_worse else "<")

    @property
    def is_below(self) -> bool:
        """True if the condition holds for differences below the threshold."""
        return self.sign.startswith("<")

    @property
    def alternative(self) -> Alternative:
        """What the test looks for evidence of: that the condition holds."""
        return "less" if self.is_below else "greater"

    @property
    def verb(self) -> str:
        """What the metric does if the condition holds."""
        return "fall" if self.is_below else "rise"

    @property
    def limit(self) -> str:
        """Such as ``below -0.02``."""
        return f"{'below' if self.is_below else 'above'} {self.threshold_text}"

    def is_met_by(self, difference: float) -> bool:
        """True if the difference, or the share of the base, is beyond the threshold; rounding does not count."""
        if math.isclose(difference, self.threshold, rel_tol=1e-9, abs_tol=1e-12):
            return False
        return difference < self.threshold if self.is_below else difference > self.threshold


def parse_condition(text: str, reading: Reading = "fail if") -> Condition:
    """Parse a condition as it is written on the command line.

    >>> parse_condition("accuracy < -0.02")
    Condition(metric='accuracy', sign='<', threshold=-0.02, relative=False, reading='fail if')
    >>> parse_condition("word_error_rate not worse by 2%", "pass only if").sign
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
    sign = match["sign"]
    percent = match["percent"]
    number = match["number"].replace("\N{MINUS SIGN}", "-")
    threshold = _threshold(number, percent, option)
    if reading == "fail if":
        # "Fail on evidence that the gain is below 0.02" would fail on a run that is the same: nobody means that.
        size = number.lstrip("+-")
        # A sign that was typed twice is not a part of the name.
        name = metric.rstrip("<>= ") or metric
        if sign.startswith("<") and threshold > 0:
            raise UserError(
                f"{option}: a difference is new minus base, so a drop is below 0; "
                f"did you mean '{name}{sign}-{size}{percent}'?"
            )
        if sign.startswith(">") and threshold < 0:
            raise UserError(
                f"{option}: a difference is new minus base, so a rise is above 0; "
                f"did you mean '{name}{sign}{size}{percent}'?"
            )
    return Condition(metric, sign, threshold, bool(percent), reading)


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
    sign = " ".join(match["sign"].split())
    metric = match["metric"]
    number = match["number"] or "0"
    percent = match["percent"] or ""
    size = _threshold(number, percent, option)
    threshold_text = f"{number}{percent}"
    if reading == "fail if":
        expected_sign = "worse"
        meaning = "what must not hold"
    else:
        expected_sign = "not worse"
        meaning = "what must hold"
        if size == 0:
            threshold_text = _USUAL_MARGIN
    if sign != expected_sign:
        raise UserError(
            f"{option}: this option takes {meaning}; did you mean '{metric} {expected_sign} by {threshold_text}'?"
        )
    if reading == "pass only if" and size == 0:
        # Without a margin, a run that is as good as the base would hardly ever pass, however many examples it has.
        raise UserError(f"{option}: say by how much, such as '{metric} not worse by {_USUAL_MARGIN}'")
    return Condition(metric, sign, size, bool(percent), reading)


def likely_mistake(condition: Condition, metric: Metric) -> str:
    """A warning for a condition that blocks an improvement, or lets a regression pass; empty otherwise."""
    better = metric.better
    if condition.sign in ("worse", "not worse") or better == "zero":
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
