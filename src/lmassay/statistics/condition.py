"""What a gate must not let pass, as it is written: ``accuracy<-0.02``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from lmassay.errors import UserError
from lmassay.statistics.changes import is_same
from lmassay.types import Metric

_CONDITION = re.compile(
    # Names of metrics may hold such signs, too: the last one is meant.
    r"(?P<metric>.*\S)\s*(?P<sign><=|>=|<|>)\s*"
    r"(?P<number>[+\-\N{MINUS SIGN}]?(?:\d+\.?\d*|\.\d+)(?:[eE][+\-\N{MINUS SIGN}]?\d+)?)\s*(?P<percent>%?)",
    re.DOTALL,
)
_WORSE = re.compile(
    r"(?P<metric>.*\S)\s+worse(?:\s+by\s+(?P<number>\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+\-]?\d+)?)\s*(?P<percent>%?))?",
    re.DOTALL,
)
_SHAPE = (
    'write METRIC<NUMBER or METRIC>NUMBER, such as "accuracy<-0.02", "accuracy<-2%" for a share of the base, '
    'or "accuracy worse by 0.02"'
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What must not be: a difference, new less base, beyond a threshold. A ``relative`` one is a share of the base."""

    metric: str
    sign: str
    """One of < <= > >=, or "worse": against the direction in which the metric is better."""
    threshold: float
    relative: bool = False

    def __str__(self) -> str:
        number = f"{100 * self.threshold:g}%" if self.relative else f"{self.threshold:g}"
        return f"{self.metric} worse by {number}" if self.sign == "worse" else f"{self.metric}{self.sign}{number}"

    def directed(self, metric: Metric) -> Condition:
        """The condition with a sign: of a metric that is better when higher, ``worse by 0.02`` is ``<-0.02``."""
        if self.sign != "worse":
            return self
        if metric.better == "zero":
            raise UserError(
                f"--fail-if '{self}': 0 is the best value of {self.metric}, so both directions can be worse; "
                f"write '{self.metric}<-NUMBER' or '{self.metric}>NUMBER'"
            )
        if metric.better == "lower":
            return replace(self, sign=">")
        return replace(self, sign="<", threshold=-self.threshold)

    @property
    def falls(self) -> bool:
        """True if a drop is what must not be."""
        return self.sign.startswith("<")

    @property
    def verb(self) -> str:
        return "fall" if self.falls else "rise"

    @property
    def limit(self) -> str:
        """Such as ``below -0.02``."""
        words = {"<": "below", "<=": "at or below", ">": "above", ">=": "at or above"}
        return f"{words[self.sign]} {str(self)[len(self.metric) + len(self.sign) :]}"

    def is_met_by(self, difference: float) -> bool:
        """True if the difference, or the share of the base, is beyond the threshold; rounding is nothing."""
        if is_same(difference, self.threshold):
            return "=" in self.sign
        return difference < self.threshold if self.falls else difference > self.threshold


def parse_condition(text: str) -> Condition:
    """
    >>> parse_condition("accuracy < -0.02")
    Condition(metric='accuracy', sign='<', threshold=-0.02, relative=False)
    >>> parse_condition("word_error_rate worse by 2%")
    Condition(metric='word_error_rate', sign='worse', threshold=0.02, relative=True)
    """
    worse = _WORSE.fullmatch(text.strip())
    if worse is not None:
        size = float(worse["number"] or 0) / (100 if worse["percent"] else 1)
        return Condition(worse["metric"], "worse", size, bool(worse["percent"]))
    found = _CONDITION.fullmatch(text.strip())
    if found is None:
        raise UserError(f"--fail-if '{text}' cannot be read; {_SHAPE}")
    number = found["number"].replace("\N{MINUS SIGN}", "-")
    threshold = float(number) / (100 if found["percent"] else 1)
    if not math.isfinite(threshold):
        raise UserError(f"--fail-if '{text}': the threshold is no finite number")
    falls = found["sign"].startswith("<")
    if threshold > 0 if falls else threshold < 0:
        # The test asks whether there is a difference at all: it cannot tell whether a gain is large enough.
        other = f"{found['metric']}{found['sign']}{'-' if falls else ''}{number.lstrip('+-')}{found['percent']}"
        raise UserError(
            f"--fail-if '{text}': a difference is new less base, so a "
            f"{'drop is below' if falls else 'rise is above'} 0; did you mean '{other}'?"
        )
    return Condition(found["metric"], found["sign"], threshold, bool(found["percent"]))
