"""A gate for regressions: it fails when a run is worse than another by more than is allowed, and not by chance.

A gate that cannot judge says so; it never passes for lack of evidence that there could be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal

from lmassay.comparison import Comparison, Side, with_false_discovery_rate
from lmassay.errors import UserError
from lmassay.flips import scores_of

State = Literal["pass", "fail", "cannot judge"]
ALPHA = 0.05
_POWER = 0.8
_CONDITION = re.compile(
    r"(?P<metric>[^<>=]+?)\s*(?P<sign><=|>=|<|>)\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<percent>%?)"
)
_SHAPE = 'write METRIC<NUMBER or METRIC>NUMBER, such as "accuracy<-0.02", or "accuracy<-2%" for a share of the base'


@dataclass(frozen=True, slots=True)
class Condition:
    """What must not be: a difference, new less base, beyond a threshold. A ``relative`` one is a share of the base."""

    metric: str
    sign: str
    threshold: float
    relative: bool = False

    def __str__(self) -> str:
        number = f"{100 * self.threshold:g}%" if self.relative else f"{self.threshold:g}"
        return f"{self.metric}{self.sign}{number}"

    @property
    def limit(self) -> str:
        """Such as ``below -0.02``."""
        words = {"<": "below", "<=": "at or below", ">": "above", ">=": "at or above"}
        return f"{words[self.sign]} {str(self)[len(self.metric) + len(self.sign) :]}"

    def is_met_by(self, difference: float) -> bool:
        """True if the difference, or the share of the base, is beyond the threshold."""
        if self.sign == "<":
            return difference < self.threshold
        if self.sign == "<=":
            return difference <= self.threshold
        return difference > self.threshold if self.sign == ">" else difference >= self.threshold


def parse_condition(text: str) -> Condition:
    """
    >>> parse_condition("accuracy < -0.02")
    Condition(metric='accuracy', sign='<', threshold=-0.02, relative=False)
    """
    found = _CONDITION.fullmatch(text.strip().replace("\N{MINUS SIGN}", "-"))
    if found is None:
        raise UserError(f"--fail-if '{text}' cannot be read; {_SHAPE}")
    threshold = float(found["number"]) / (100 if found["percent"] else 1)
    if not math.isfinite(threshold):
        raise UserError(f"--fail-if '{text}': the threshold is no finite number")
    falls = found["sign"].startswith("<")
    if threshold > 0 if falls else threshold < 0:
        # The test asks whether there is a difference at all: it cannot tell whether a gain is large enough.
        other = (
            f"{found['metric']}{found['sign']}{'-' if falls else ''}{found['number'].lstrip('+-')}{found['percent']}"
        )
        raise UserError(
            f"--fail-if '{text}': a difference is new less base, so a "
            f"{'drop is below' if falls else 'rise is above'} 0; did you mean '{other}'?"
        )
    return Condition(found["metric"], found["sign"], threshold, bool(found["percent"]))


@dataclass(frozen=True, slots=True)
class Check:
    """One condition on one run: what came of it and why. ``p`` is adjusted where several are tested."""

    condition: Condition
    row: Comparison
    state: State
    p: float | None
    detectable: float | None
    why: str
    lost: int = 0
    """Examples with a score in the base run and none in the new one: they are in no pair, so no test sees them."""

    def as_json(self) -> dict[str, Any]:
        return {
            "condition": str(self.condition),
            "new": self.row.new,
            "verdict": self.state,
            "why": self.why,
            "difference": self.row.difference,
            "low": self.row.low,
            "high": self.row.high,
            "p": self.p,
            "n": self.row.n,
            "units": self.row.units,
            "changed": self.row.changed,
            "detectable": self.detectable,
            "lost": self.lost,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate says: a failure counts even if another condition cannot be judged."""

    checks: Sequence[Check]
    alpha: float
    tests: int
    refused: str = ""

    @property
    def state(self) -> State:
        states = {check.state for check in self.checks}
        if self.refused:
            return "cannot judge"
        return "fail" if "fail" in states else "cannot judge" if "cannot judge" in states else "pass"

    @property
    def exit_code(self) -> int:
        codes: dict[State, int] = {"pass": 0, "fail": 1, "cannot judge": 2}
        return codes[self.state]

    @property
    def why_not(self) -> str:
        """Why the gate cannot judge; empty if it can."""
        return self.refused or "; ".join(f"{c.condition}: {c.why}" for c in self.checks if c.state == "cannot judge")

    def how(self) -> str:
        """What was tested, in a sentence."""
        several = f" after adjustment for {self.tests} tests (false discovery rate)" if self.tests > 1 else ""
        return (
            f"fails if the difference is beyond the threshold and p of the paired test is below {self.alpha:g}{several}"
        )

    def as_json(self) -> dict[str, Any]:
        checks = [check.as_json() for check in self.checks]
        return {
            "verdict": self.state,
            "alpha": self.alpha,
            "tests": self.tests,
            "refused": self.refused or None,
            "checks": checks,
        }


def judge(
    conditions: Sequence[Condition],
    sides: Sequence[Side],
    rows: Sequence[Comparison],
    *,
    alpha: float = ALPHA,
    allow_incomplete: bool = False,
) -> Verdict:
    """Hold the conditions against the rows of a comparison; ``sides`` are the base run and the others."""
    metrics = {condition.metric for condition in conditions}
    tested = with_false_discovery_rate([row for row in rows if row.metric in metrics])
    found = {(row.metric, row.new): row for row in tested}
    base, *others = sides
    for condition in conditions:
        for other in others:
            if (condition.metric, other.record.id) not in found:
                raise UserError(
                    f"{base.record.id} and {other.record.id} share no example with a score of {condition.metric}; "
                    "were they run on the same data?"
                )
    confidence = float(base.record.config.get("confidence", 0.95))
    checks = [
        _with_lost(
            _check(condition, found[condition.metric, other.record.id], len(tested), alpha, confidence),
            _lost(base, other, condition.metric),
        )
        for condition in conditions
        for other in others
    ]
    return Verdict(checks, alpha, len(tested), "" if allow_incomplete else _unfinished(sides))


def fewest_units(alpha: float) -> int:
    """How many independent units must change, all in one direction, for a test by swaps to be significant.

    >>> fewest_units(0.05)
    6
    """
    return next(count for count in range(1, 10_000) if 2.0 ** (1 - count) < alpha)


def detectable(row: Comparison, alpha: float, confidence: float) -> float | None:
    """The difference that such a comparison would find in four of five cases; None where too little changed to tell.

    A normal approximation from the width of the interval, which is what the spread of the differences comes to.
    """
    if row.low is None or row.high is None or row.changed < fewest_units(alpha):
        return None
    normal = NormalDist()
    error = (row.high - row.low) / 2 / normal.inv_cdf(0.5 + confidence / 2)
    return error * (normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(_POWER))


def _lost(base: Side, other: Side, metric: str) -> int:
    """Of the examples that both runs have; where they are paired by something else, there are none."""
    shared = set(other.table.ids)
    return len(
        {
            i
            for score in scores_of(base, metric)
            for i in base.table.by_id(score).keys() - other.table.by_id(score).keys()
            if i in shared
        }
    )


def _with_lost(check: Check, lost: int) -> Check:
    if not lost:
        return check
    told = f"{lost:,} example{'' if lost == 1 else 's'} with a score in the base run have none in the new one"
    return replace(check, lost=lost, why=f"{check.why}; {told}")


def _unfinished(sides: Sequence[Side]) -> str:
    told = []
    for side in sides:
        failed = side.table.n_error
        if side.record.status != "done":
            note = f" ({side.record.note})" if side.record.note else ""
            told.append(f"{side.record.id} is {side.record.status}{note}")
        elif failed and side is not sides[0]:
            told.append(f"{side.record.id} has {failed:,} example{'s'[: failed != 1]} in error")
    if not told:
        return ""
    return f"{'; '.join(told)}: `lmassay resume` finishes a run, --allow-incomplete judges what there is"


def _check(condition: Condition, row: Comparison, tests: int, alpha: float, confidence: float) -> Check:
    p = row.p_adjusted if tests > 1 else row.p
    seen = detectable(row, alpha, confidence)

    def told(state: State, why: str) -> Check:
        return Check(condition, row, state, p, seen, why)

    measured = row.relative if condition.relative else row.difference
    if measured is None:
        return told("cannot judge", f"the base mean of {row.metric} is 0, of which no share can be taken")
    if p is None:
        return told("cannot judge", f"no p can be computed from {_units(row)}")
    numbers = _numbers(row, p, tests, confidence)
    shown = f"{measured:+.2%}" if condition.relative else f"{measured:+.4f}"
    limit = condition.limit
    if not condition.is_met_by(measured):
        return told("pass", f"the difference is {shown}, not {limit} ({numbers}); {_power(row, seen, alpha)}")
    if p < alpha:
        return told("fail", f"the difference is {shown}, {limit}, and significant ({numbers})")
    if row.units < fewest_units(alpha):
        why = f"the difference is {shown}, {limit}, but {_units(row)} can never be significant ({numbers})"
        return told("cannot judge", f"{why}; at least {fewest_units(alpha)} are needed")
    why = f"the difference is {shown}, {limit}, but not significant ({numbers})"
    return told("pass", f"{why}; {_power(row, seen, alpha)}")


def _units(row: Comparison) -> str:
    what = "pair" if row.units == row.n else "cluster"
    return f"{row.units:,} {what}{'' if row.units == 1 else 's'}"


def _numbers(row: Comparison, p: float, tests: int, confidence: float) -> str:
    low, high = row.low, row.high
    interval = (
        "no interval" if low is None or high is None else f"{100 * confidence:g} % interval [{low:+.4f}, {high:+.4f}]"
    )
    several = f" adjusted for {tests} tests" if tests > 1 else ""
    shown = "< 0.0001" if p < 0.0001 else f"{p:.4f}"
    clusters = "" if row.units == row.n else f" in {row.units:,} clusters"
    return f"{row.base_mean:.4f} → {row.new_mean:.4f}, {interval}, p {shown}{several}, n {row.n:,}{clusters}"


def _power(row: Comparison, seen: float | None, alpha: float) -> str:
    """What could have been found, so that nobody takes a pass for a proof."""
    least = fewest_units(alpha)
    if row.units < least:
        return f"with {_units(row)} no difference could be significant: at least {least} are needed"
    if seen is None:
        return f"{row.changed} of {_units(row)} changed, and at least {least} must for a difference to be significant"
    return f"a difference of about {seen:.4f} would be found in 4 of 5 such comparisons"
