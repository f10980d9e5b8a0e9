"""Runs compared with base runs: everything that the terminal, the page and the JSON output show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lmassay.plugins.evaluations import metric_of
from lmassay.reporting.run_labels import short_run_titles
from lmassay.statistics import ALPHA
from lmassay.statistics.caveats import asked_differently, caveats, computed_differently, other_labels, wrong_order
from lmassay.statistics.comparison import (
    Comparison,
    compare_runs,
    headline,
    known_metrics,
    number_of_tests,
    pairing_of,
    require_one_task,
    with_false_discovery_rate,
)
from lmassay.statistics.conditions import Condition, likely_mistake
from lmassay.statistics.flips import Flips, flips
from lmassay.statistics.gate import GateVerdict, judge, pairs_about
from lmassay.statistics.ranking import Standing, rankings
from lmassay.statistics.sides import Side, comparable_sides, load_side
from lmassay.storage.store import Store
from lmassay.types import Better, RunRecord

DIRECTION_TEXTS: Mapping[Better, str] = {"higher": "higher is better", "lower": "lower is better", "zero": "0 is best"}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run with its scores, the store that has its texts, and its title."""

    store: Store
    side: Side
    title: str


@dataclass(frozen=True, slots=True)
class GateSettings:
    """The settings of a gate, which is a check that fails if a new run is worse than its conditions allow.

    ``alpha`` is the significance level of its tests. ``allow_incomplete`` lets it judge runs that have not finished.
    """

    conditions: Sequence[Condition]
    alpha: float = ALPHA
    allow_incomplete: bool = False


Pair = tuple[ComparedRun, ComparedRun]
"""A base run and the new run that is compared with it."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The result of comparing pairs of runs.

    All pairs may share one base run, or each has its own. ``rows`` are the differences, one for each pair and metric,
    and ``flips`` the examples whose scores changed. ``caveats`` are warnings about the comparison. ``groups`` selects
    the examples that are compared, such as ``{"category": "Age"}``; empty for all of them. ``verdict`` is that of the
    gate.
    """

    pairs: Sequence[Pair]
    rows: Sequence[Comparison]
    flips: Sequence[Flips]
    caveats: Sequence[str]
    groups: Mapping[str, str] = field(default_factory=dict)
    alpha: float = ALPHA
    verdict: GateVerdict | None = None
    standings: Sequence[Standing] = ()
    """All runs compared with the best one, by metric; empty for two runs, or if the runs have different bases."""

    @property
    def bases(self) -> Sequence[ComparedRun]:
        """The base runs, each once."""
        by_id: dict[str, ComparedRun] = {}
        for base, _ in self.pairs:
            by_id[base.side.record.id] = base
        return list(by_id.values())

    @property
    def others(self) -> Sequence[ComparedRun]:
        """The new runs."""
        return [new for _, new in self.pairs]

    @property
    def base_title(self) -> str:
        """The title of the base run, or "the base run" if there are several."""
        if len(self.bases) == 1:
            return self.bases[0].title
        return "the base run"

    @property
    def part(self) -> str:
        """A text that says which examples are compared; empty for all."""
        return part_text(self.groups)

    @property
    def pairing(self) -> str:
        """A text that says what is paired, and which units are treated as independent."""
        return pairing_of([(base.side, new.side) for base, new in self.pairs], self.rows)

    @property
    def adjustment(self) -> str:
        """A text that says what p-values are adjusted for; empty for a single p-value, which needs no adjustment."""
        return adjustment_text(self.rows)

    @property
    def confidence(self) -> float:
        """The confidence level of all intervals."""
        return self.bases[0].side.record.settings.confidence

    def title(self, run: str) -> str:
        """Return the title of a run by its id."""
        for compared in [*self.bases, *self.others]:
            if compared.side.record.id == run:
                return compared.title
        raise KeyError(run)

    def flips_of(self, run: ComparedRun) -> list[Flips]:
        """Return the changes of example scores (one `Flips` per metric) between one of the new runs and its base."""
        return [flips for flips in self.flips if flips.new == run.side.record.id]

    def p(self, row: Comparison) -> float | None:
        """Return the p-value of a row, adjusted if there are several."""
        if self.adjustment:
            return row.p_adjusted
        return row.p


def compare_pairs(
    pairs: Sequence[Pair],
    metrics: Sequence[str] = (),
    groups: Mapping[str, str] | None = None,
    gate: GateSettings | None = None,
) -> RunComparison:
    """Compare each new run with its base, by the named metrics and those that the gate needs.

    Without named metrics, runs are compared by the headline metrics of their task.
    """
    sides = [(base.side, new.side) for base, new in pairs]
    for base, new in sides:
        # Checked first: a mistyped metric is not the problem if the runs are of different tasks.
        require_one_task(base, new)
    conditions: Sequence[Condition] = ()
    alpha = ALPHA
    if gate is not None:
        conditions = gate.conditions
        alpha = gate.alpha
    named_metrics = _metrics_by_run(metrics, sides)
    gated_metrics = _metrics_by_run([condition.metric for condition in conditions], sides)
    rows: list[Comparison] = []
    all_flips: list[Flips] = []
    warnings: list[str] = []
    for base, new in sides:
        run = new.record.id
        compared_metrics = named_metrics[run] if metrics else headline(base)
        metrics_of_pair = dict.fromkeys([*compared_metrics, *gated_metrics[run]])
        rows_of_pair = compare_runs(base, [new], list(metrics_of_pair))
        rows += rows_of_pair
        all_flips += flips(base, new, dict.fromkeys(row.metric for row in rows_of_pair))
        warnings += caveats(base, [new])
        warnings += wrong_order(base, new)
        warnings += asked_differently(base, new)
        if not groups:
            # The results of a run cover all of its examples, so they cannot be checked against a part of them.
            warnings += computed_differently(base, [new], rows_of_pair)
        if conditions:
            warnings += _gate_warnings(base, new, conditions, gated_metrics[run])
    rows = with_false_discovery_rate(rows)
    verdict = None
    if gate and conditions:
        verdict = judge(conditions, sides, rows, alpha=alpha, allow_incomplete=gate.allow_incomplete)
    return RunComparison(
        pairs=pairs,
        rows=rows,
        flips=all_flips,
        caveats=list(dict.fromkeys(warnings)),
        groups=groups or {},
        alpha=alpha,
        verdict=verdict,
        standings=_standings(sides, rows, alpha),
    )


def compare_with_first(runs: Sequence[tuple[Store, RunRecord]]) -> RunComparison:
    """Compare runs with the first of them, by the headline metrics of their task. The stores must stay open."""
    sides = [load_side(store, record) for store, record in runs]
    titles = short_run_titles([record for _, record in runs])
    compared: list[ComparedRun] = []
    for (store, _), side, title in zip(runs, comparable_sides(sides), titles, strict=True):
        compared.append(ComparedRun(store, side, title))
    base, *others = compared
    return compare_pairs([(base, other) for other in others])


def _gate_warnings(base: Side, new: Side, conditions: Sequence[Condition], gated_metrics: Sequence[str]) -> list[str]:
    warnings = list(other_labels(base, new))
    for condition in conditions:
        if condition.metric not in gated_metrics:
            continue
        warning = likely_mistake(condition, metric_of(base.record, condition.metric))
        if warning:
            warnings.append(warning)
    if not gated_metrics:
        warnings.append(f"no condition applies to {new.record.id} ({new.name}), so the gate does not judge it")
    return warnings


def _standings(sides: Sequence[tuple[Side, Side]], rows: Sequence[Comparison], alpha: float) -> list[Standing]:
    """Rank all runs by each metric; empty if they are not all compared with the same base run."""
    first = sides[0][0]
    for base, _ in sides:
        if base is not first:
            # The runs of two sweeps are compared pair by pair; they are variants, not competitors.
            return []
    new_sides = [new for _, new in sides]
    return rankings([first, *new_sides], rows, alpha)


def _metrics_by_run(metrics: Iterable[str], pairs: Sequence[tuple[Side, Side]]) -> dict[str, list[str]]:
    """Return, by the id of each new run, which of these metrics its task has; a metric that no task has is an error."""
    by_run: dict[str, list[str]] = {new.record.id: [] for _, new in pairs}
    for metric in dict.fromkeys(metrics):
        # If no task has the metric, known_metrics raises the error for the first pair.
        for base, new in pairs_about(metric, pairs) or pairs:
            by_run[new.record.id] += known_metrics(base, [new], [metric])
    return by_run


def interval_text(row: Comparison, sign: str = "", digits: int = 4) -> str:
    """Return the interval of a difference; ``sign="+"`` writes a plus before positive numbers.

    Runs with the same scores have no interval, which is not the same as an interval that is unknown.
    """
    if not row.changed:
        return f"same in all {row.n:,}"
    if row.low is None or row.high is None:
        return "n/a"
    return f"[{row.low:{sign}z.{digits}f}, {row.high:{sign}z.{digits}f}]"


def adjustment_text(rows: Iterable[Comparison]) -> str:
    """Return what the p-values of a table are adjusted for; empty for fewer than two, which need no adjustment."""
    tests = number_of_tests(rows)
    if tests < 2:
        return ""
    return f"adjusted for {tests:,} p-values (false discovery rate, Benjamini and Hochberg)"


def part_text(groups: Mapping[str, str]) -> str:
    """Describe a selection of examples by their groups, such as ``category=Age and label=test``."""
    return " and ".join(f"{kind}={label}" for kind, label in groups.items())
