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

from lmassay.errors import UserError
from lmassay.plugins.evaluations import metric_of
from lmassay.statistics.comparison import (
    Bounds,
    Comparison,
    Side,
    comparable,
    is_same,
    pairing_key,
    unit_names,
    units_of,
    with_false_discovery_rate,
)
from lmassay.statistics.flips import scores_of
from lmassay.types import Metric

# --- conditions: what must not be, as it is written -------------------------------------------------------------------

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


def fails_on_improvement(base: Side, condition: Condition) -> list[str]:
    """A condition on a change for the better may be a slip in the sign."""
    better = metric_of(base.record, condition.metric).better
    if condition.sign == "worse" or better == "zero" or condition.falls is (better == "higher"):
        return []
    direction = "less" if better == "lower" else "more"
    return [
        f"--fail-if '{condition}': {direction} is better for {condition.metric}, so this fails on an improvement; "
        f"did you mean '{condition.metric} worse by {abs(condition.threshold):g}'?"
    ]


# --- checks and the verdict -------------------------------------------------------------------------------------------


State = Literal["pass", "fail", "cannot judge"]
ALPHA = 0.05
_POWER = 0.8


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
    """Examples with a score in the base run that the new run has, but without one: no test sees them."""
    missing: int = 0
    """All that have a score in the base run and are in no pair: lost, or not in the new run at all."""

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
            "missing": self.missing,
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


Pair = tuple[Side, Side]
"""A base run and the new one that is held against it."""


def judge(
    conditions: Sequence[Condition],
    pairs: Sequence[Pair],
    rows: Sequence[Comparison],
    *,
    alpha: float = ALPHA,
    allow_incomplete: bool = False,
) -> Verdict:
    """Hold each condition against the rows of all pairs of the tasks that have its metric."""
    held: list[tuple[Condition, Pair]] = []
    for condition in conditions:
        for pair in pairs_about(condition.metric, pairs):
            held.append((condition.directed(metric_of(pair[0].record, condition.metric)), pair))
    metrics = {(condition.metric, new.record.id) for condition, (_, new) in held}
    tested = with_false_discovery_rate([row for row in rows if (row.metric, row.new) in metrics])
    found = {(row.metric, row.new): row for row in tested}
    checks = []
    for condition, (base, new) in held:
        row = found.get((condition.metric, new.record.id))
        if row is None:
            raise UserError(
                f"{base.record.id} and {new.record.id} share no example with a score of {condition.metric}; "
                "were they run on the same data?"
            )
        bounds = _bounds(base, new, condition.metric)
        _require_reachable(condition, bounds)
        bar = _Bar(alpha, len(tested), base.record.settings.confidence)
        check = _check(condition, row, bar, bounds)
        checks.append(_with_missing(check, base, new, allow_incomplete))
    refused = "" if allow_incomplete else _unfinished(pairs)
    if refused:
        # What was measured is told, but nothing of it is a verdict.
        checks = [replace(check, state="cannot judge") for check in checks]
    return Verdict(checks, alpha, len(tested), refused)


def pairs_about(metric: str, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of the tasks that have a metric; a run that has lost it is among them, one of another task is not."""
    tasks = {base.record.task for base, new in pairs if metric in {*comparable(base), *comparable(new)}}
    return [pair for pair in pairs if pair[0].record.task in tasks]


def fewest_units(alpha: float) -> int:
    """How many independent units must change, all in one direction, for a test by swaps to be significant.

    >>> fewest_units(0.05)
    6
    """
    return next(count for count in range(1, 10_000) if 2.0 ** (1 - count) < max(alpha, math.ulp(0.0)))


@dataclass(frozen=True, slots=True)
class _Bar:
    """What a p must be below. One of several tests is sure to pass the adjustment only below ``alpha / tests``."""

    alpha: float
    tests: int
    confidence: float

    @property
    def each(self) -> float:
        return self.alpha / self.tests

    @property
    def fewest(self) -> int:
        return fewest_units(self.each)

    def detectable(self, row: Comparison) -> float | None:
        """The difference that such a comparison would find in four of five cases; None where too little changed.

        A normal approximation from the width of the interval, which is what the spread of the differences comes to.
        """
        if row.low is None or row.high is None or row.changed < self.fewest:
            return None
        normal = NormalDist()
        error = (row.high - row.low) / 2 / normal.inv_cdf(0.5 + self.confidence / 2)
        return error * (-normal.inv_cdf(max(self.each / 2, 1e-300)) + normal.inv_cdf(_POWER))


def _require_reachable(condition: Condition, bounds: Bounds | None) -> None:
    """A threshold that no difference can be beyond would let everything pass."""
    is_share_of_any_size = condition.relative and (not condition.falls or (bounds and bounds[0] < 0))
    if bounds is None or is_share_of_any_size:
        return
    size, most = abs(condition.threshold), 1.0 if condition.relative else bounds[1] - bounds[0]
    if size < most or (size == most and "=" in condition.sign):
        return
    why = f"lies between {bounds[0]:g} and {bounds[1]:g}, so no difference is that large; did you mean "
    why += f"'{condition.metric}{condition.sign}{condition.threshold:g}%'?"
    if condition.relative:
        why = "cannot fall by more than all of it"
    raise UserError(f"--fail-if '{condition}' can never be met: {condition.metric} {why}")


def _bounds(base: Side, new: Side, metric: str) -> Bounds | None:
    """What a metric lies between, if that is known: rates and shares, and what a task puts together from them."""
    combination = base.record.design.combinations.get(metric)
    if combination is not None:
        return combination.bounds
    values = [value for side in (base, new) for value in side.table.by_id(metric).values()]
    return (0.0, 1.0) if values and all(0 <= value <= 1 for value in values) else None


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


def _missing(base: Side, other: Side, metric: str) -> tuple[int, int]:
    """How many of the base's examples with a score have none to be paired with, and how many there are."""
    key = pairing_key(base, other)
    has = {unit for score in scores_of(base, metric) for unit in units_of(base, score, key)}
    if base.table.has(metric):
        there = set(units_of(other, metric, key))
    else:
        # What is put together from several scores may lack one of them by right: an answer "unknown" is no bias.
        there = {unit for unit, state in unit_names(other, key).items() if state == "scored"}
    return len(has - there), len(has)


def _with_missing(check: Check, base: Side, other: Side, allow_incomplete: bool) -> Check:
    """What no test sees is told; a pass on less than half of the examples is none."""
    metric = check.condition.metric
    lost, (missing, total) = _lost(base, other, metric), _missing(base, other, metric)
    check = replace(check, lost=lost, missing=missing)
    if 2 * missing > total and not allow_incomplete and check.state == "pass":
        gone = f"{missing:,} of the {total:,} examples with a score in the base run are not in the new one, or have no"
        why = f"{gone} score there; --allow-incomplete judges the others: {check.why}"
        return replace(check, state="cannot judge", why=why)
    if not lost:
        return check
    told = f"{lost:,} example{'' if lost == 1 else 's'} with a score in the base run have none in the new one"
    return replace(check, why=f"{check.why}; {told}")


def _unfinished(pairs: Sequence[Pair]) -> str:
    told = []
    for base, new in pairs:
        for side in (base, new):
            failed = side.table.n_error
            if side.record.status != "done":
                note = f" ({side.record.note})" if side.record.note else ""
                told.append(f"{side.record.id} is {side.record.status}{note}")
            elif failed and side is new:
                told.append(f"{side.record.id} has {failed:,} example{'s'[: failed != 1]} in error")
    if not told:
        return ""
    return f"{'; '.join(dict.fromkeys(told))}: `lmassay resume` finishes a run, --allow-incomplete judges what there is"


def _check(condition: Condition, row: Comparison, bar: _Bar, bounds: Bounds | None) -> Check:
    p = row.p_adjusted if bar.tests > 1 else row.p
    seen = bar.detectable(row)

    def told(state: State, why: str) -> Check:
        return Check(condition, row, state, p, seen, why)

    measured = row.relative if condition.relative else row.difference
    if measured is None:
        return told("cannot judge", f"the base mean of {row.metric} is 0, of which no share can be taken")
    if p is None:
        return told("cannot judge", f"no p can be computed from {_units(row)}")
    numbers = _numbers(row, p, bar.tests, bar.confidence)
    shown = f"{measured:+z.2%}" if condition.relative else f"{measured:+z.4f}"
    is_met = condition.is_met_by(measured)
    said = f"the difference is {shown}, {condition.limit if is_met else f'not {condition.limit}'}"
    if is_met and p < bar.alpha:
        return told("fail", f"{said}, and significant ({numbers})")
    can_fail = bounds is None or condition.is_met_by(_furthest(condition, row, bounds))
    # A significant move the other way answers the question, however few could have gone this way.
    gained = p < bar.alpha and (row.difference > 0) is condition.falls
    few = "" if gained else _too_few(condition, row, bar.fewest, can_fail)
    if few:
        several = f" in each of {bar.tests} tests" if bar.tests > 1 else ""
        why = f"{said}, but {few} can never be significant ({numbers}); at least {bar.fewest} are needed{several}"
        return told("cannot judge", why)
    power = _power(row, seen, bar) if can_fail else f"from {row.base_mean:.4f} it cannot {condition.verb} that far"
    return told("pass", f"{said}{', but not significant' if is_met else ''} ({numbers}); {power}")


def _furthest(condition: Condition, row: Comparison, bounds: Bounds) -> float:
    """The largest difference that a new run could have in the direction that must not be."""
    difference = bounds[0 if condition.falls else 1] - row.base_mean
    return difference / abs(row.base_mean) if condition.relative else difference


def _too_few(condition: Condition, row: Comparison, fewest: int, can_fail: bool) -> str:
    """The units, if the gate would not see it even if all of them went the way that must not be; else nothing."""
    if row.units < fewest:
        return _units(row)
    able = row.can_fall if condition.falls else row.can_rise
    if able < fewest and can_fail:
        return f"only {able:,} of {_units(row)} can {condition.verb} from where the base run has them, and so few"
    return ""


def _units(row: Comparison) -> str:
    what = "pair" if row.units == row.n else "cluster"
    return f"{row.units:,} {what}{'' if row.units == 1 else 's'}"


def _numbers(row: Comparison, p: float, tests: int, confidence: float) -> str:
    low, high = row.low, row.high
    interval = (
        "no interval" if low is None or high is None else f"{100 * confidence:g} % interval [{low:+z.4f}, {high:+z.4f}]"
    )
    several = f" adjusted for {tests} tests" if tests > 1 else ""
    shown = "< 0.0001" if p < 0.0001 else f"{p:.4f}"
    clusters = "" if row.units == row.n else f" in {row.units:,} clusters"
    return f"{row.base_mean:.4f} → {row.new_mean:.4f}, {interval}, p {shown}{several}, n {row.n:,}{clusters}"


def _power(row: Comparison, seen: float | None, bar: _Bar) -> str:
    """What could have been found, so that nobody takes a pass for a proof."""
    if seen is None:
        return (
            f"{row.changed} of {_units(row)} changed, and at least {bar.fewest} must for a difference to be significant"
        )
    return f"a difference of about {seen:.4f} would be found in 4 of 5 such comparisons"
