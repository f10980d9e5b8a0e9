"""Computes how many examples a gate (``--fail-if`` or ``--pass-only-if``) needs, before anything is run.

The drop that a gate can detect depends on how many answers change from one run to the next although neither run is
better. This is unknown before the runs exist. So the number of examples is computed under the assumption that 2, 5 or
10 % of the answers change, half of them for the better and half for the worse, or that as much changes as between two
earlier runs.

In this module, a *drop* is the size of a change in the direction for which the gate fails. If a metric is better when
lower, it is usually a rise of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lmassay.errors import UserError, did_you_mean
from lmassay.plugins.evaluations import metric_of
from lmassay.statistics.comparison import known_metrics, require_one_task
from lmassay.statistics.conditions import Condition
from lmassay.statistics.intervals import mean_estimate
from lmassay.statistics.pairing import pairs_of
from lmassay.statistics.power import Spread, detectable, rows_to_detect, rows_to_show, spread_of
from lmassay.statistics.sides import Side
from lmassay.statistics.variance import clusters_of
from lmassay.types import Metric, find_metric

# Assumed fractions of answers that change from one run to the next.
CHURN = (0.02, 0.05, 0.10)
# The drop to plan for if a gate fails on any drop (a threshold of 0): 0.02 on a scale from 0 to 1.
SMALLEST_DROP = 0.02


@dataclass(frozen=True, slots=True)
class Expectation:
    """Assumptions about a comparison by one metric, for which sample sizes are computed."""

    spreads: Sequence[tuple[str, Spread]]
    """The spreads to plan for. Each has a name, such as ``5 %`` if it assumes that 5 % of the answers change."""
    mean: float | None = None
    """The mean of an earlier run, for thresholds that are relative to the base; None without an earlier run."""


@dataclass(frozen=True, slots=True)
class Need:
    """The number of examples that one condition needs if a given fraction of the answers changes."""

    condition: Condition
    changed: str
    """The name of the spread, usually the percentage of answers that change."""
    drop: float | None
    """The drop to detect, for ``fail if``: twice the threshold, because no number of examples reliably detects a drop
    of exactly the threshold. If the threshold is 0, it is :data:`SMALLEST_DROP`, multiplied by the size of the mean of
    an earlier run if that size is above 1. None for ``pass only if``."""
    needed: int | None
    """The number of examples needed to detect the drop or, for ``pass only if``, to show that the condition holds if
    neither run is better. None if more than 100 million are needed."""
    available: int | None
    """The number of examples in the configuration; None if the task does not know it."""
    detectable: float | None
    """The drop that can be detected with the available examples, for ``fail if``. None for ``pass only if``, if the
    number of examples is below 2 or not known, or if no drop is detected reliably."""

    def as_json(self) -> dict[str, Any]:
        """All fields, and how the gate uses the condition (``reading``), as plain JSON, for ``--json``."""
        return {
            "condition": str(self.condition),
            "reading": self.condition.reading,
            "changed": self.changed,
            "drop": self.drop,
            "examples_needed": self.needed,
            "examples": self.available,
            "detectable": self.detectable,
        }


def needs(
    condition: Condition, metric: Metric, expectation: Expectation, available: int | None, alpha: float
) -> list[Need]:
    """Return the number of examples that the condition needs, for each assumed fraction of changed answers.

    ``available`` is the number of examples in the configuration, None if it is unknown.
    """
    directed = condition.directed(metric)
    threshold = directed.threshold
    if condition.relative:
        if expectation.mean is None:
            raise UserError(
                f"{condition.option}: a threshold in percent is relative to the mean of the base, which is not known "
                "yet; name an earlier run with --like RUN, or write the threshold as a difference"
            )
        threshold *= abs(expectation.mean)
    if directed.reading == "fail if":
        drop = _drop_to_detect(abs(threshold), expectation)
        fail_needs = []
        for changed, spread in expectation.spreads:
            fail_needs.append(_need_to_fail(condition, abs(threshold), drop, changed, spread, available, alpha))
        return fail_needs
    # The largest change for the worse that the condition accepts; negative if it requires an improvement.
    margin = threshold if directed.is_below else -threshold
    if margin <= 0:
        raise UserError(
            f"{condition.option}: this asks for an improvement, and the number of examples needed depends on its size; "
            "`lmassay check` plans for conditions that allow for a small drop"
        )
    pass_needs = []
    for changed, spread in expectation.spreads:
        needed = rows_to_show(spread, margin, alpha)
        pass_needs.append(Need(condition, changed, None, needed, available, None))
    return pass_needs


def _drop_to_detect(threshold: float, expectation: Expectation) -> float:
    """Return the drop that a ``fail if`` gate is planned for (see ``Need.drop``)."""
    if threshold == 0:
        return SMALLEST_DROP * max(abs(expectation.mean or 0.0), 1.0)
    return 2 * threshold


def _need_to_fail(
    condition: Condition,
    threshold: float,
    drop: float,
    changed: str,
    spread: Spread,
    available: int | None,
    alpha: float,
) -> Need:
    """Return the number of examples that a ``fail if`` condition needs for one assumed spread."""
    needed = rows_to_detect(spread, drop, threshold, alpha)
    detectable_drop = None
    # One example has no variance.
    if available is not None and available >= 2:
        detectable_drop = detectable(spread.with_rows(available), threshold, alpha)
    return Need(condition, changed, drop, needed, available, detectable_drop)


def expected(metric: str, like: Sequence[Side]) -> Expectation:
    """Return what to assume about a comparison.

    The assumptions come from one or two earlier runs (``like``). Without any, scores are assumed to be 0 or 1 and
    independent.
    """
    if not like:
        # This number of rows does not matter, because the search for a sufficient number replaces it.
        return Expectation(_for_each_churn(Spread(rows=1000, changed=0.0)))
    known_metrics(like[0], like[1:], [metric])
    if len(like) == 2:
        return _expectation_from_pairs(metric, like[0], like[1])
    spread, mean = _spread_in(metric, like[0])
    return Expectation(_for_each_churn(spread), mean)


def _for_each_churn(spread: Spread) -> list[tuple[str, Spread]]:
    """The spread for each assumed fraction of changed answers, with its name."""
    return [(f"{changed:.0%}", replace(spread, changed=changed)) for changed in CHURN]


def _spread_in(metric: str, side: Side) -> tuple[Spread, float]:
    """Return the spread of the scores of an earlier run, with its clusters, and their mean."""
    import numpy as np

    table = side.table
    if not table.has(metric):
        raise UserError(
            f"{metric} combines several scores, so one earlier run does not show how much it changes; name two: "
            "--like RUN --like RUN"
        )
    values = table.values(metric)
    groupings = []
    for name in side.record.design.clusters:
        if name in table.groups:
            groupings.append(table.clusters(metric, name))
    estimated = mean_estimate(values, groupings)
    if estimated.reason:
        raise UserError(_cannot_plan(side, metric, estimated.reason))
    # The scores of a rate are 0 or 1, so every change has the size 1.
    size = 1.0
    if estimated.kind != "rate":
        # The scores of an example in two runs are assumed to differ as much as the scores of two random examples. The
        # variance of such a difference is twice that of a score.
        size = math.sqrt(2 * float(values.var()))
    if size == 0:
        raise UserError(_cannot_plan(side, metric, f"all {len(values):,} values are the same"))
    if not groupings:
        return Spread(len(values), 0.0, size), estimated.value
    effect = estimated.rows / estimated.effective
    # A task has at most one clustering, see ``Design.clusters``; for several, the smallest number would be safe.
    degrees = math.inf
    for codes in groupings:
        _, sizes = np.unique(codes, return_counts=True)
        degrees = min(degrees, clusters_of(sizes.astype(float)).degrees_of_freedom())
    return Spread(len(values), 0.0, size, effect, degrees), estimated.value


def _cannot_plan(side: Side, metric: str, reason: str) -> str:
    return (
        f"{side.record.id} does not show how much {metric} varies: {reason}; give another run to --like, or check "
        "without --like"
    )


def _expectation_from_pairs(metric: str, base: Side, new: Side) -> Expectation:
    """Return the spread of the differences between two earlier runs."""
    require_one_task(base, new)
    pairs = pairs_of(base, new, metric)
    if pairs is None:
        raise UserError(
            f"{base.record.id} and {new.record.id} share no example with a score of {metric}; were they run on the "
            "same data?"
        )
    estimated = pairs.difference(base.record.settings).estimate
    spread = None if estimated is None else spread_of(pairs, estimated)
    if spread is None:
        raise UserError(
            f"{base.record.id} and {new.record.id} do not show how much {metric} changes from run to run; give other "
            "runs to --like, or check without --like"
        )
    return Expectation([(f"{spread.changed:.1%}, as between the two runs", spread)], pairs.base_mean())


def checked_metric(name: str, declared: Sequence[Metric], like: Sequence[Side]) -> Metric:
    """Return the metric that a condition names. Raises a UserError if the task declares metrics, but not this one."""
    if like:
        known_metrics(like[0], like[1:], [name])
        return metric_of(like[0].record, name)
    metric = find_metric(name, declared)
    if declared and metric is None:
        raise UserError(f"the task has no metric '{name}'{did_you_mean(name, [metric.name for metric in declared])}")
    return metric or Metric(name)
