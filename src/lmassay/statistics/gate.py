"""Gates: tests for regressions between two runs, for example in CI. There are two kinds of conditions.

- ``fail if`` fails if there is evidence that a run is worse by more than the threshold. Without evidence, it passes and
  reports the smallest drop that it would probably have detected.
- ``pass only if`` passes only if there is evidence that a run is not worse by more than the threshold (a
  non-inferiority test). Without evidence, the verdict is "not shown", and the gate reports how many examples would be
  enough.

Both are one-sided t-tests of the paired difference against the threshold. The *verdict* is what a test concludes about
a condition: "pass", "fail", "not shown" or "cannot judge". The last one means, for example, that there are too few data
to detect even the largest possible change, that a run is unfinished, or that most examples are missing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lmassay.errors import UserError
from lmassay.plugins.evaluations import metric_of
from lmassay.statistics import ALPHA
from lmassay.statistics.bounds import NumericBounds
from lmassay.statistics.comparison import Comparison, comparable
from lmassay.statistics.conditions import Condition
from lmassay.statistics.distributions import holm_adjusted
from lmassay.statistics.estimation import Alternative, Estimate, estimate
from lmassay.statistics.flips import scores_of
from lmassay.statistics.paired_scores import Pairs
from lmassay.statistics.pairing import pairing_key, pairs_of, unit_states, units_of
from lmassay.statistics.power import Spread, detectable, rows_to_show, spread_of
from lmassay.statistics.sides import Side
from lmassay.statistics.terms import Term
from lmassay.types.wording import counted

State = Literal["pass", "fail", "not shown", "cannot judge"]
"""The verdict on a condition, or on all conditions of a gate."""


@dataclass(frozen=True, slots=True)
class Check:
    """One condition on one run: the verdict and the reason."""

    condition: Condition
    row: Comparison
    state: State
    p: float | None
    """The p-value of the one-sided test against the threshold, adjusted for the number of ``fail if`` tests."""
    bound: float | None
    """The one-sided confidence bound of the difference; it is beyond the threshold if and only if the test is
    significant. None if the threshold is relative to the base mean or p is adjusted."""
    detectable: float | None
    """For ``fail if``: the size of the drop (or rise) that would be detected with a power of 80 %."""
    examples_needed: int | None
    """For ``pass only if``: how many examples would show the condition with a power of 80 % if nothing has changed.
    None if this is unknown or beyond any realistic number."""
    why: str
    """One sentence that explains the verdict, with the numbers."""
    lost: int = 0
    """The number of examples that have a score in the base run, and are in the new run without a score."""
    missing: int = 0
    """The number of examples that have a score in the base run and are not in a pair: those that are lost, and those
    that are not in the new run at all."""

    def as_json(self) -> dict[str, Any]:
        """The verdict as plain data, for ``--json``."""
        return {
            "condition": str(self.condition),
            "reading": self.condition.reading,
            "base": self.row.base,
            "new": self.row.new,
            "verdict": self.state,
            "why": self.why,
            "difference": self.row.difference,
            "low": self.row.low,
            "high": self.row.high,
            "bound": self.bound,
            "p": self.p,
            "n": self.row.n,
            "units": self.row.units,
            "changed": self.row.changed,
            "detectable": self.detectable,
            "examples_needed": self.examples_needed,
            "only_base": self.row.only_base,
            "only_new": self.row.only_new,
            "lost": self.lost,
            "missing": self.missing,
        }


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """The verdict on all conditions together. If one fails, the gate fails, even if another cannot be judged."""

    checks: Sequence[Check]
    alpha: float
    tests: int
    """The number of tests of ``fail if`` conditions. Their p-values are adjusted for this number."""
    refused: str = ""
    """Why no condition can be judged, for example because a run is unfinished; empty if conditions can be judged."""

    @property
    def state(self) -> State:
        """The most severe of the verdicts on the conditions; "cannot judge" if :attr:`refused`."""
        if self.refused:
            return "cannot judge"
        states = {check.state for check in self.checks}
        most_severe_first: tuple[State, ...] = ("fail", "not shown", "cannot judge")
        for state in most_severe_first:
            if state in states:
                return state
        return "pass"

    @property
    def exit_code(self) -> int:
        """0 for a pass, 1 for "fail" and "not shown", 2 if the gate cannot judge."""
        codes: dict[State, int] = {"pass": 0, "fail": 1, "not shown": 1, "cannot judge": 2}
        return codes[self.state]

    @property
    def why_not(self) -> str:
        """Why the gate cannot judge; empty if it can."""
        if self.refused:
            return self.refused
        reasons = []
        for check in self.checks:
            if check.state == "cannot judge":
                reasons.append(f"{check.condition}: {check.why}")
        return "; ".join(reasons)

    def how(self) -> list[str]:
        """What was tested: one sentence for each kind of condition that is used."""
        readings = {check.condition.reading for check in self.checks}
        sentences = []
        if "fail if" in readings:
            adjusted = ""
            if self.tests > 1:
                adjusted = f", adjusted for {self.tests} tests by Holm's method"
            sentences.append(
                "fail if: fails on evidence that the difference is beyond the threshold, that is if p of the one-sided "
                f"paired t-test is below {self.alpha:g}{adjusted}; a pass does not prove that the difference is within "
                "the threshold"
            )
        if "pass only if" in readings:
            count = sum(check.condition.reading == "pass only if" for check in self.checks)
            # An intersection-union test (Berger 1982): to pass, every condition must be shown, so a false pass of the
            # whole is no more likely than one of a single condition.
            unadjusted = "; all must be shown, so p needs no adjustment" if count > 1 else ""
            sentences.append(
                "pass only if: passes on evidence that the condition holds, that is if p of the one-sided paired "
                f"t-test is below {self.alpha:g}{unadjusted}; 'not shown' does not prove that the condition is false"
            )
        return sentences

    def as_json(self) -> dict[str, Any]:
        """The verdict and its checks as plain data, for ``--json``."""
        checks = [check.as_json() for check in self.checks]
        return {
            "verdict": self.state,
            "alpha": self.alpha,
            "tests": self.tests,
            "adjustment": "holm" if self.tests > 1 else None,
            "refused": self.refused or None,
            "checks": checks,
        }


Pair = tuple[Side, Side]
"""A base run and the new one that is compared with it."""


def judge(
    conditions: Sequence[Condition],
    pairs: Sequence[Pair],
    rows: Sequence[Comparison],
    *,
    alpha: float = ALPHA,
    allow_incomplete: bool = False,
) -> GateVerdict:
    """Test each condition on all pairs of runs whose task has its metric.

    ``rows`` are the comparisons of these pairs. With ``allow_incomplete``, unfinished runs and runs with many missing
    examples are judged, too.
    """
    row_of = {(row.metric, row.new): row for row in rows}
    questions: list[_Question] = []
    for condition in dict.fromkeys(conditions):
        for base, new in pairs_about(condition.metric, pairs):
            row = row_of.get((condition.metric, new.record.id))
            if row is None:
                raise UserError(
                    f"{base.record.id} and {new.record.id} share no example with a score of {condition.metric}; "
                    "were they run on the same data?"
                )
            questions.append(_question(condition, base, new, row))
    p_values, tests = _adjusted(questions)
    checks = []
    for question, p in zip(questions, p_values, strict=True):
        count = tests if question.condition.reading == "fail if" else 1
        check = _check(question, p, _Level(alpha, count))
        checks.append(_with_missing(check, question, allow_incomplete))
    refused = "" if allow_incomplete else _unfinished(pairs)
    if refused:
        # The measurements are reported, but none of them is a verdict.
        checks = [replace(check, state="cannot judge") for check in checks]
    return GateVerdict(checks, alpha, tests, refused)


def pairs_about(metric: str, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of runs whose task has a metric, including runs without it if other runs of the same task have it."""
    tasks = set()
    for base, new in pairs:
        if metric in comparable(base) or metric in comparable(new):
            tasks.add(base.record.task)
    return [(base, new) for base, new in pairs if base.record.task in tasks]


# --- one condition on one pair of runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Question:
    """A test to run: a condition with < or >, the paired scores, and the threshold as an absolute difference."""

    condition: Condition
    base: Side
    new: Side
    row: Comparison
    pairs: Pairs
    estimate: Estimate
    threshold: float | None
    """None if the threshold is relative and the base mean is 0."""

    @property
    def p(self) -> float | None:
        """The unadjusted p-value of the one-sided test; None if nothing can be tested."""
        if self.threshold is None:
            return None
        return self.estimate.p_value(self.threshold, self.condition.alternative)

    @property
    def measured(self) -> float | None:
        """The difference; for a relative threshold, the difference divided by the base mean."""
        return self.row.relative if self.condition.relative else self.row.difference

    def spread(self) -> Spread | None:
        """How much scores vary between the two runs, for power calculations; None if it is unknown."""
        spread = spread_of(self.pairs, self.estimate)
        original = self.row.estimate
        if spread is None or original is None or original.standard_error <= 0:
            return spread
        # A relative threshold depends on the base mean, whose uncertainty is added here.
        return replace(spread, effect=spread.effect * (self.estimate.standard_error / original.standard_error) ** 2)


@dataclass(frozen=True, slots=True)
class _Level:
    """The significance level of all tests together, and the number of tests."""

    alpha: float
    tests: int

    @property
    def per_test(self) -> float:
        """The level of the first step of Holm's method.

        A test whose unadjusted p is below it is significant, whatever the other tests result in.
        """
        return self.alpha / self.tests


def _question(condition: Condition, base: Side, new: Side, row: Comparison) -> _Question:
    """Prepare the test of one condition on one pair of runs. Raises a UserError if the test makes no sense."""
    condition = condition.directed(metric_of(base.record, condition.metric))
    require_reachable(condition, _bounds(base, new, condition.metric))
    pairs = pairs_of(base, new, condition.metric)
    if pairs is None or row.estimate is None:
        raise UserError(f"{base.record.id} and {new.record.id} share no example with a score of {condition.metric}")
    if not condition.relative:
        return _Question(condition, base, new, row, pairs, row.estimate, condition.threshold)
    if not row.base_mean:
        # A change cannot be expressed relative to a base mean of 0.
        return _Question(condition, base, new, row, pairs, row.estimate, None)
    estimated = _with_uncertain_base(row.estimate, pairs, condition.threshold)
    absolute_threshold = condition.threshold * abs(row.base_mean)
    return _Question(condition, base, new, row, pairs, estimated, absolute_threshold)


def _with_uncertain_base(difference: Estimate, pairs: Pairs, relative_threshold: float) -> Estimate:
    """The difference with a standard error for a test against a threshold relative to the base mean.

    The base mean is itself an estimate. As in Fieller (1954, Some problems in interval estimation, JRSS B 16), the test
    is about ``new - base - relative_threshold · base``, whose spread is computed from the single pairs. The larger of
    the two standard errors is used, because only that of the difference has pseudo-observations.
    """
    # The threshold refers to the absolute value of the base mean, so its sign is changed if that mean is negative.
    factor = math.copysign(relative_threshold, relative_threshold * pairs.base_mean())
    terms = []
    for column in pairs.columns:
        # Subtracting the mean keeps the value of the contrast at that of the difference; only the spread changes.
        centred_before = column.before - column.mean(column.before)
        values = column.changes() - factor * centred_before
        terms.append(Term(values, column.coefficient, column.clusters, column.weights))
    contrast = estimate(terms, is_difference=True)
    return replace(difference, standard_error=max(difference.standard_error, contrast.standard_error))


def _adjusted(questions: Sequence[_Question]) -> tuple[list[float | None], int]:
    """The p-value of each question, and the number of ``fail if`` tests, for which their p-values are adjusted."""
    p_values = [question.p for question in questions]
    indexes: list[int] = []
    tested: list[float] = []
    for index, (question, p) in enumerate(zip(questions, p_values, strict=True)):
        if question.condition.reading == "fail if" and p is not None:
            indexes.append(index)
            tested.append(p)
    for index, p in zip(indexes, holm_adjusted(tested), strict=True):
        p_values[index] = p
    return p_values, len(tested)


def _check(question: _Question, p: float | None, level: _Level) -> Check:
    """The verdict on one condition; ``p`` is adjusted for the number of tests."""
    condition = question.condition
    row = question.row
    measured = question.measured
    if measured is None or question.threshold is None:
        return _cannot_judge(question, f"the base mean of {row.metric} is 0, so the threshold cannot be relative to it")
    if p is None:
        return _cannot_judge(question, f"nothing can be tested with {_units(row)}: {question.estimate.reason}")
    bound = _bound(question, level)
    numbers = _numbers(row, p, bound, level, condition)
    measured_text = f"{measured:+z.2%}" if condition.relative else f"{measured:+z.4f}"
    is_significant = p < level.alpha
    if is_significant:
        comparison = f"significantly {condition.limit}"
    elif condition.is_met_by(measured):
        comparison = f"but not significantly {condition.limit}"
    else:
        comparison = f"not {condition.limit}"
    why = f"the difference is {measured_text}, {comparison} ({numbers})"
    check = Check(
        condition=condition,
        row=row,
        state="pass",
        p=p,
        bound=bound,
        detectable=None,
        examples_needed=None,
        why=why,
    )
    if condition.reading == "fail if":
        return _fail_if(question, check, level, is_significant)
    return _pass_only_if(question, check, level, is_significant)


def _cannot_judge(question: _Question, why: str) -> Check:
    """The verdict on a condition that could not be tested at all."""
    return Check(
        condition=question.condition,
        row=question.row,
        state="cannot judge",
        p=None,
        bound=None,
        detectable=None,
        examples_needed=None,
        why=why,
    )


def _fail_if(question: _Question, check: Check, level: _Level, is_significant: bool) -> Check:
    """Fail if there is evidence; otherwise pass, unless not even the worst possible result would be evidence."""
    condition = question.condition
    row = question.row
    # The threshold is not None here, because ``_check`` handles questions without a threshold. ``or`` is for mypy.
    threshold = question.threshold or 0.0
    spread = question.spread()
    worst = _worst(question)
    drop = None
    if spread is not None:
        drop = detectable(spread, abs(threshold), level.per_test, has_bounds=worst is not None)
    if is_significant:
        return replace(check, state="fail", detectable=drop)
    if worst is not None and not _is_beyond(condition, worst.value, threshold):
        why = f"{check.why}; from {row.base_mean:.4f} it cannot {condition.verb} that far"
        return replace(check, why=why)
    can_be_detected = True
    if worst is not None:
        p_at_worst = worst.p_value(threshold, condition.alternative)
        can_be_detected = p_at_worst is not None and p_at_worst < level.per_test
    # If there is a significant change in the other direction, the condition is judged, although not enough scores could
    # change in its own direction.
    if not can_be_detected and not _changed_in_other_direction(question, level):
        changeable = row.can_fall if condition.is_below else row.can_rise
        those_that_can_change = f"{counted(changeable, _unit(row))} that can {condition.verb} (of {row.units:,})"
        in_several_tests = ""
        if level.tests > 1:
            in_several_tests = f" in one of {level.tests} tests"
        why = f"{check.why}; even if all {those_that_can_change} did, that would not be significant{in_several_tests}"
        return replace(check, state="cannot judge", why=why)
    if worst is not None and (drop is None or drop > abs(worst.value)):
        # No drop can be larger than that of the worst result, which is detected either always or never.
        drop = abs(worst.value) if can_be_detected else None
    return replace(check, detectable=drop, why=f"{check.why}; {_power_sentence(condition, drop, spread)}")


def _changed_in_other_direction(question: _Question, level: _Level) -> bool:
    """True if there is evidence of a change in the other direction: of a rise if the condition is about a fall."""
    opposite: Alternative = "greater" if question.condition.is_below else "less"
    p = question.estimate.p_value(0.0, opposite)
    return p is not None and p < level.alpha


def _pass_only_if(question: _Question, check: Check, level: _Level, is_significant: bool) -> Check:
    """Pass only if there is evidence; otherwise, say how many examples would probably be enough."""
    threshold = question.threshold or 0.0
    # The margin of a non-inferiority test: the largest change for the worse that is accepted.
    margin = threshold if question.condition.is_below else -threshold
    spread = question.spread()
    needed = None
    if spread is not None and margin > 0:
        needed = rows_to_show(spread, margin, level.alpha)
    if is_significant:
        return replace(check, examples_needed=needed)
    if margin <= 0:
        return replace(check, state="not shown")
    if spread is None:
        advice = "nothing changed, so it is unknown how many examples would be enough"
    elif needed is None:
        advice = "no realistic number of examples would be enough to show so small a margin"
    else:
        advice = (
            f"with about {needed:,} examples, a run that is neither better nor worse would pass in 4 of 5 comparisons"
        )
    return replace(check, state="not shown", examples_needed=needed, why=f"{check.why}; {advice}")


def _power_sentence(condition: Condition, size: float | None, spread: Spread | None) -> str:
    """The size of the change that would have been detected, so that nobody mistakes a pass for a proof."""
    change = "drop" if condition.is_below else "rise"
    if spread is None:
        return f"nothing changed, so it is unknown which {change} would be found"
    if size is None:
        return f"no possible {change} would be found in 4 of 5 such comparisons"
    return f"a {change} of {size:.4f} would be found in 4 of 5 such comparisons"


def _worst(question: _Question) -> Estimate | None:
    """The estimate if every score changed as far as possible in the condition's direction.

    None if the metric has no bounds, so that no change is the largest possible.
    """
    worst = question.pairs.at_bound(falls=question.condition.is_below)
    if worst is None:
        return None
    estimated = worst.difference(question.base.record.settings).estimate
    if estimated is None or not question.condition.relative:
        return estimated
    return _with_uncertain_base(estimated, worst, question.condition.threshold)


def _is_beyond(condition: Condition, difference: float, threshold: float) -> bool:
    return replace(condition, threshold=threshold, relative=False).is_met_by(difference)


def _bound(question: _Question, level: _Level) -> float | None:
    """The confidence bound that is beyond the threshold if and only if p is below alpha; see :attr:`Check.bound`."""
    if question.condition.relative or level.tests > 1:
        return None
    side: Literal["lower", "upper"] = "upper" if question.condition.is_below else "lower"
    return question.estimate.bound(side, 1 - level.alpha)


def _units(row: Comparison) -> str:
    """The number of independent units in the test, such as ``12 clusters``."""
    return counted(row.units, _unit(row))


def _unit(row: Comparison) -> str:
    """A singular noun for an independent unit in the test."""
    return "pair" if row.units == row.n else "cluster"


def _numbers(row: Comparison, p: float, bound: float | None, level: _Level, condition: Condition) -> str:
    """The numbers behind a verdict, as the text between the parentheses of its sentence."""
    parts = [f"{row.base_mean:.4f} → {row.new_mean:.4f}"]
    if bound is not None:
        side = "upper" if condition.is_below else "lower"
        parts.append(f"{side} {100 * (1 - level.alpha):g} % bound {bound:+z.4f}")
    p_value = "< 0.0001" if p < 0.0001 else f"= {p:.4f}"
    p_text = f"one-sided p {p_value}"
    if level.tests > 1:
        p_text += f" adjusted for {level.tests} tests (Holm)"
    parts.append(p_text)
    n_text = f"n = {row.n:,}"
    if row.units != row.n:
        n_text += f" in {counted(row.units, 'cluster')}"
    parts.append(n_text)
    return ", ".join(parts)


# --- what cannot be judged --------------------------------------------------------------------------------------------


def require_reachable(condition: Condition, bounds: NumericBounds | None) -> None:
    """Raise a UserError if no difference can exceed the threshold, so that the condition always or never holds."""
    if bounds is None:
        return
    low, high = bounds
    if condition.relative and (condition.threshold >= 0 or low < 0):
        # A mean can rise by more than 100 % of the base, and a mean that can be negative can fall by more than 100 %.
        return
    largest = 1.0 if condition.relative else high - low
    if abs(condition.threshold) < largest:
        return
    if condition.relative:
        why = f"{condition.metric} cannot fall by more than 100 %"
    else:
        in_percent = replace(condition, threshold=condition.threshold / 100, relative=True)
        why = (
            f"{condition.metric} lies between {low:g} and {high:g}, so no difference is larger; "
            f"did you mean '{in_percent}'?"
        )
    always_holds = condition.is_below is (condition.threshold > 0)
    verdict = "always holds" if always_holds else "can never hold"
    raise UserError(f"{condition.option} {verdict}: {why}")


def _bounds(base: Side, new: Side, metric: str) -> NumericBounds | None:
    """The range of a metric: the one that its combination declares; 0 to 1 if all scores lie there; otherwise None."""
    combination = base.record.design.combinations.get(metric)
    if combination is not None:
        return combination.bounds
    values = [*base.table.by_id(metric).values(), *new.table.by_id(metric).values()]
    if values and all(0 <= value <= 1 for value in values):
        return 0.0, 1.0
    return None


def _lost(base: Side, other: Side, metric: str) -> int:
    """The number of examples that both runs have and only the base run scored.

    It is 0 if runs have no example in common, because they are paired by a group.
    """
    in_both = set(other.table.ids)
    lost: set[str] = set()
    for score in scores_of(base, metric):
        only_in_base = base.table.by_id(score).keys() - other.table.by_id(score).keys()
        lost |= only_in_base & in_both
    return len(lost)


def _missing(base: Side, other: Side, metric: str) -> tuple[int, int]:
    """The number of examples that have a score only in the base run, and of all that have a score in the base run.

    If runs are paired by a group, its labels are counted instead of examples.
    """
    key = pairing_key(base, other)
    in_base: set[str] = set()
    for score in scores_of(base, metric):
        in_base.update(units_of(base, score, key))
    if base.table.has(metric):
        in_other = set(units_of(other, metric, key))
    else:
        # A metric that combines several scores may lack one of them: an answer "unknown" has no direction of bias.
        in_other = {unit for unit, state in unit_states(other, key).items() if state == "scored"}
    return len(in_base - in_other), len(in_base)


def _with_missing(check: Check, question: _Question, allow_incomplete: bool) -> Check:
    """Add the numbers of examples that the test leaves out to a check.

    A pass becomes "cannot judge" if more than half of the examples are missing.
    """
    base = question.base
    new = question.new
    metric = check.condition.metric
    missing, total = _missing(base, new, metric)
    check = replace(check, lost=_lost(base, new, metric), missing=missing)
    unpaired = unpaired_text(check.row)
    if unpaired:
        check = replace(check, why=f"{check.why}; {unpaired}")
    is_mostly_missing = 2 * missing > total
    if is_mostly_missing and check.state == "pass" and not allow_incomplete:
        unit = check.row.unpaired_unit
        why = (
            f"{missing:,} of the {total:,} {unit}s with a score in the base run are not in the new one, or have no "
            f"score there; --allow-incomplete judges the others: {check.why}"
        )
        return replace(check, state="cannot judge", why=why)
    return check


def unpaired_text(row: Comparison) -> str:
    """A text such as ``not compared: 3 examples that only the base run scored``; empty if all are in a pair."""
    parts = []
    for count, run in ((row.only_base, "base"), (row.only_new, "new")):
        if count:
            parts.append(f"{counted(count, row.unpaired_unit)} that only the {run} run scored")
    return f"not compared: {', '.join(parts)}" if parts else ""


def _unfinished(pairs: Sequence[Pair]) -> str:
    """Why the runs should not be judged yet; empty if all are done and the new ones have no errors."""
    reasons = []
    for base, new in pairs:
        for side in (base, new):
            failed = side.table.n_error
            if side.record.status != "done":
                note = f" ({side.record.note})" if side.record.note else ""
                reasons.append(f"{side.record.id} is {side.record.status}{note}")
            elif failed and side is new:
                # Examples that failed in the base run are only left out. In the new run, they could hide a regression.
                reasons.append(f"{side.record.id} has {counted(failed, side.record.unit)} with errors")
    if not reasons:
        return ""
    # A base run that is compared with several new runs is mentioned only once.
    unique_reasons = "; ".join(dict.fromkeys(reasons))
    return (
        f"{unique_reasons}: `lmassay resume` finishes a run, --allow-incomplete judges the examples that have a score"
    )
