"""Compares runs by the examples that both have scored.

:mod:`lmassay.statistics.pairing` finds the pairs of scores; some tasks pair labels or test examples instead of
examples. Warnings about comparisons are in :mod:`lmassay.statistics.caveats`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from lmassay.errors import UserError, did_you_mean
from lmassay.plugins.evaluations import metric_of
from lmassay.statistics.distributions import false_discovery_rates
from lmassay.statistics.estimation import Estimate
from lmassay.statistics.paired_scores import Pairs, count_changes
from lmassay.statistics.pairing import paired_on_tests, pairing_key, pairs_of
from lmassay.statistics.sides import Side
from lmassay.types import Better


def p_equation(p: float | None) -> str:
    """A p-value as the text of an equation. A very small one is not shown as 0 but as ``p < 0.0001``.

    >>> p_equation(0.25), p_equation(1e-9), p_equation(None)
    ('p = 0.2500', 'p < 0.0001', 'p = n/a')
    """
    if p is None:
        return "p = n/a"
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}"


def relative_change(before: float, after: float) -> float | None:
    """Return a difference relative to the value before, as in "falls by 43 %" (not "43 points").

    None if that value is 0, or if the two have different signs, as may happen to a bias: "falls by 220 %" would say
    nothing.

    >>> relative_change(0.5, 0.25), relative_change(-0.5, -0.25), relative_change(0.125, -0.15)
    (-0.5, 0.5, None)
    """
    if before == 0 or before * after < 0:
        return None
    return (after - before) / abs(before)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """One metric of a run compared with the base run: a row of the table that `lmassay compare` prints."""

    metric: str
    base: str
    """The id of the base run."""
    new: str
    """The id of the run that is compared with it."""
    base_label: str
    new_label: str
    base_mean: float
    """The value of the metric in the base run, computed only from the pairs."""
    new_mean: float
    """The value of the metric in the new run, computed only from the pairs."""
    difference: float
    """New minus base."""
    low: float | None
    """The lower end of the difference's interval; None if there is no interval."""
    high: float | None
    """The upper end of the difference's interval; None if there is no interval."""
    p: float | None
    """The two-sided p-value of the difference; None if it cannot be tested."""
    p_adjusted: float | None
    """The p-value adjusted for the number of rows: the false discovery rate."""
    n: int
    """The number of pairs."""
    units: int = 0
    """The number of units that the test treats as independent: the pairs, or the clusters to which they belong."""
    changed: int = 0
    """The number of units that differ between the runs; the others do not show which run is better."""
    can_fall: int = 0
    """The number of units that could be lower than in the base run. If scores lie between 0 and 1, a unit with a score
    of 0 could not."""
    can_rise: int = 0
    """The number of units that could be higher than in the base run."""
    better: Better = "higher"
    """The direction that is better, as declared by the metric."""
    only_base: int = 0
    """The number of examples that only the base run scored. They are in no pair, so the other fields ignore them."""
    only_new: int = 0
    """The number of examples that only the other run scored."""
    estimate: Estimate | None = None
    """The estimate of the difference, which gives its interval and p, and also one-sided tests at other thresholds."""
    unpaired_unit: str = "example"
    """What ``only_base`` and ``only_new`` count, as a singular noun: examples; labels, if the runs have no example in
    common and are paired by a group; or repetitions, such as splits."""

    @property
    def relative(self) -> float | None:
        """The difference relative to the base mean, see :func:`relative_change`."""
        return relative_change(self.base_mean, self.new_mean)

    def __repr__(self) -> str:
        interval = ""
        if self.low is not None and self.high is not None:
            interval = f" [{self.low:+z.4f}, {self.high:+z.4f}]"
        p = "" if self.p is None else f", {p_equation(self.p)}"
        runs = f"{self.new_label} against {self.base_label}"
        return f"<Comparison {self.metric}: {self.difference:+z.4f}{interval}{p}, n = {self.n:,}: {runs}>"

    def as_json(self) -> dict[str, Any]:
        """All fields as plain data; of the estimate, only its method, standard error and degrees of freedom."""
        values: dict[str, Any] = {}
        for field in fields(self):
            if field.name != "estimate":
                values[field.name] = getattr(self, field.name)
        values["relative"] = self.relative
        if self.estimate is not None:
            is_known = not self.estimate.reason
            values["method"] = self.estimate.method
            values["standard_error"] = self.estimate.standard_error if is_known else None
            values["degrees_of_freedom"] = self.estimate.degrees if is_known else None
        return values


def compare_runs(base: Side, others: Sequence[Side], metrics: Sequence[str] | None = None) -> list[Comparison]:
    """Compare each of the other runs with the base run, by ``metrics`` or by the headline metrics of its task.

    Metrics that the base run does not have are left out. Raises UserError if a run is of another task, or if it shares
    no example with a score with the base run.
    """
    available = set(comparable(base))
    compared = [metric for metric in metrics or headline(base) if metric in available]
    rows: list[Comparison] = []
    for other in others:
        rows += _compare_pair(base, other, compared)
    return with_false_discovery_rate(rows)


def headline(side: Side) -> Sequence[str]:
    """The headline metrics of a run's task; if it declares none, all metrics, those with results first."""
    declared: Sequence[str] = side.record.design.headline
    if declared:
        return declared
    reported = [result.metric for result in side.record.results if side.table.has(result.metric)]
    return list(dict.fromkeys([*reported, *side.table.metrics]))


def comparable(side: Side) -> list[str]:
    """The metrics by which a run can be compared: those that examples have, and combinations of them."""
    return list(dict.fromkeys([*side.record.design.combinations, *side.table.metrics]))


def known_metrics(base: Side, others: Sequence[Side], names: Iterable[str]) -> list[str]:
    """The names without duplicates. Raises a UserError for the first metric that one of the runs does not have."""
    unique_names = list(dict.fromkeys(names))
    for name in unique_names:
        for side in (base, *others):
            _require_metric(side, name, base)
    return unique_names


def _require_metric(side: Side, name: str, base: Side) -> None:
    """Raise UserError if runs cannot be compared by this metric. Messages suggest metrics of the base run."""
    available = comparable(side)
    if name in available:
        return
    # Some results, such as a percentile or a ratio of sums, are not means of values that single examples have.
    if any(result.metric == name for result in side.record.results):
        listed = ", ".join(comparable(base))
        raise UserError(f"'{name}' is not a mean over examples, so runs cannot be paired by it; choose one of {listed}")
    _require_scores(side)
    raise UserError(f"{side.record.id} has no metric '{name}'{did_you_mean(name, available)}")


def _require_scores(side: Side) -> None:
    """Raise UserError, with the reason, if a run has no score of any metric."""
    table = side.table
    if table.metrics:
        return
    if not len(table):
        reason = ""
        if side.record.status != "done":
            reason = f" ({side.record.status}: {side.record.note})" if side.record.note else f" ({side.record.status})"
        raise UserError(f"{side.record.id} has no examples{reason}, so there is nothing to compare")
    counts = f"{len(table):,} unscored"
    if table.n_error:
        counts += " or with errors"
    raise UserError(
        f"no example of {side.record.id} has a score ({counts}), so there is nothing to compare; "
        f"`lmassay show {side.record.id}` says why"
    )


def require_one_task(base: Side, other: Side) -> None:
    """Raise a UserError for runs of different tasks. Their scores are not comparable, even if metrics share a name."""
    if other.record.task != base.record.task:
        raise UserError(
            f"{other.record.id} is a {other.record.task} run, {base.record.id} a {base.record.task} run; "
            "compare runs of one task"
        )


def _compare_pair(base: Side, other: Side, metrics: Sequence[str]) -> list[Comparison]:
    """Compare two runs by the metrics in which they have pairs. Raises UserError if they have none in any metric."""
    require_one_task(base, other)
    rows = []
    for metric in metrics:
        pairs = pairs_of(base, other, metric)
        if pairs is not None:
            rows.append(_row(base, other, metric, pairs))
    if not rows:
        _require_scores(base)
        _require_scores(other)
        raise UserError(
            f"{base.record.id} and {other.record.id} share no example with a score; were they run on the same data?"
        )
    return rows


def _row(base: Side, other: Side, metric: str, pairs: Pairs) -> Comparison:
    """The comparison of two runs by one metric, without the adjusted p-value."""
    difference = pairs.difference(base.record.settings)
    counts = count_changes(pairs)
    return Comparison(
        metric=metric,
        base=base.record.id,
        new=other.record.id,
        base_label=base.name,
        new_label=other.name,
        base_mean=pairs.base_mean(),
        new_mean=pairs.new_mean(),
        difference=difference.value,
        low=difference.low,
        high=difference.high,
        p=difference.p,
        p_adjusted=None,
        n=pairs.n,
        units=counts.units,
        changed=counts.changed,
        can_fall=counts.can_fall,
        can_rise=counts.can_rise,
        better=metric_of(base.record, metric).better,
        only_base=pairs.only_base,
        only_new=pairs.only_new,
        unpaired_unit=pairs.unpaired_unit,
        estimate=difference.estimate,
    )


def with_false_discovery_rate(rows: Sequence[Comparison]) -> list[Comparison]:
    """The rows with their p-values adjusted for how many there are (Benjamini and Hochberg 1995)."""
    p_values = [row.p for row in rows if row.p is not None]
    # There is one rate for each row that has a p-value, in the order of the rows.
    rates = iter(false_discovery_rates(p_values))
    adjusted = []
    for row in rows:
        if row.p is not None:
            row = replace(row, p_adjusted=next(rates))
        adjusted.append(row)
    return adjusted


def number_of_tests(rows: Iterable[Comparison]) -> int:
    """The number of rows that have a p-value, for which the p-values are adjusted."""
    return sum(row.p is not None for row in rows)


def pairing_of(pairs: Iterable[tuple[Side, Side]], rows: Sequence[Comparison]) -> str:
    """A text that says what is paired in the comparisons ``rows`` of several pairs of runs."""
    # A dictionary instead of a set, because it keeps the order of the pairs.
    texts: dict[str, None] = {}
    for base, other in pairs:
        rows_of_other = [row for row in rows if row.new == other.record.id]
        texts[pairing_text(base, other, rows_of_other)] = None
    return " or ".join(texts)


def pairing_text(base: Side, other: Side, rows: Sequence[Comparison] = ()) -> str:
    """A text that says what is paired, and by what it is clustered, in the comparisons ``rows`` of two runs."""
    design = base.record.design
    metrics = [row.metric for row in rows]
    tested = [metric for metric in metrics if paired_on_tests(base, other, metric)]
    if design.replicates is not None and tested:
        others = [metric for metric in metrics if metric not in tested]
        group = design.replicates.group
        if not others:
            return f"paired by test within each {group}"
        return f"{', '.join(tested)} paired by test within each {group}, {', '.join(others)} by {group}"
    text = f"paired by {pairing_key(base, other) or 'example'}"
    clusters = _clusters_text(rows)
    if clusters:
        text += f", clustered by {clusters}"
    return text


def _clusters_text(rows: Sequence[Comparison]) -> str:
    """A text that says by what the rows are clustered; if this differs between metrics, with the metrics."""
    # A dictionary instead of a set, because it keeps the order of the metrics.
    metrics_by_clusters: dict[str, dict[str, None]] = {}
    for row in rows:
        names = () if row.estimate is None else row.estimate.clustered_by
        clusters = " and ".join(name.replace("_", " ") for name in names)
        metrics_by_clusters.setdefault(clusters, {})[row.metric] = None
    if len(metrics_by_clusters) == 1:
        return next(iter(metrics_by_clusters))
    parts = []
    for clusters, metrics in metrics_by_clusters.items():
        if clusters:
            parts.append(f"{clusters} ({', '.join(metrics)})")
    return " or ".join(parts)
