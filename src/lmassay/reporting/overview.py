"""The results of a run that a reader wants first: one row per group, one column per headline metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.reporting.numbers import counted_unit, short_text
from lmassay.types import OVERALL, Result, RunRecord
from lmassay.types.metrics import is_detail
from lmassay.types.wording import counted

MAX_GROUPS_PER_KIND = 40
LEFT_OUT = "left out"
"""The name of the line that counts examples without a score."""
GroupResults = Mapping[str, Result]
"""The results of one group by metric."""


@dataclass(frozen=True, slots=True)
class Overview:
    """A table of a run's main results.

    ``rows`` are (depth of indentation, label, results of the group). ``counted`` are the metrics that get a column for
    their n; a metric with the same n as an earlier one in every group needs none. ``crossed`` maps a metric to the name
    of the labels that its examples share, such as verb pairs; the number of these labels is shown next to n. ``lines``
    are further (name, text) lines below the table, and ``left_out`` is the number of results that are not shown.
    """

    metrics: Sequence[str]
    counted: Sequence[str]
    crossed: Mapping[str, str]
    rows: Sequence[tuple[int, str, GroupResults]]
    lines: Sequence[tuple[str, str]]
    left_out: int


def overview_of(record: RunRecord) -> Overview | None:
    """Return the overview of a run; None if the run has no result of a headline metric."""
    groups: dict[str, dict[str, Result]] = {}
    measured_metrics: set[str] = set()
    for result in record.results:
        groups.setdefault(result.group, {})[result.metric] = result
        measured_metrics.add(result.metric)
    metrics = [metric for metric in record.design.headline if metric in measured_metrics]
    if not metrics:
        return None
    groups_with_headline = []
    for group, results in groups.items():
        if not results.keys().isdisjoint(metrics):
            groups_with_headline.append(group)
    shown_groups = _top_groups(groups_with_headline)
    overall = groups.get(OVERALL, {})
    # Other metrics with an overall result are listed in lines below the table.
    lines = _left_out_line(record, metrics, overall)
    shown_results = 0
    for metric, result in overall.items():
        if metric not in metrics and not is_detail(metric):
            lines.append((metric, short_text(result)))
            shown_results += 1
    for group in shown_groups:
        shown_results += sum(metric in groups[group] for metric in metrics)
    return Overview(
        metrics=metrics,
        counted=_metrics_with_different_n(metrics, [groups[group] for group in shown_groups]),
        crossed=_crossed(record, metrics, overall),
        rows=list(_rows(shown_groups, groups)),
        lines=lines,
        left_out=len(record.results) - shown_results,
    )


def in_parts(overview: Overview, fits: Callable[[Overview], bool]) -> list[Overview]:
    """Divide an overview that is too wide into several overviews with fewer metrics.

    ``fits`` returns whether the table of an overview is narrow enough.
    """
    if len(overview.metrics) == 1 or fits(overview):
        return [overview]
    # At least one metric per table, even if that does not fit either.
    size = len(overview.metrics) - 1
    while size > 1 and not fits(_with_metrics(overview, overview.metrics[:size])):
        size -= 1
    first = _with_metrics(overview, overview.metrics[:size])
    remaining = _with_metrics(overview, overview.metrics[size:])
    return [first, *in_parts(remaining, fits)]


def _with_metrics(overview: Overview, metrics: Sequence[str]) -> Overview:
    groups = [results for _, _, results in overview.rows if results]
    counted = _metrics_with_different_n(metrics, groups)
    crossed = {metric: name for metric, name in overview.crossed.items() if metric in metrics}
    return replace(overview, metrics=metrics, counted=counted, crossed=crossed)


def _top_groups(groups: Sequence[str]) -> list[str]:
    """Return the groups that are not a part of another group, except those of kinds with too many groups."""
    existing = set(groups)
    top_groups = [group for group in groups if not _is_part(group, existing)]
    kinds = [_kind(group) for group in top_groups]
    kept = []
    for group, kind in zip(top_groups, kinds, strict=True):
        if not kind or kinds.count(kind) <= MAX_GROUPS_PER_KIND:
            kept.append(group)
    return kept


def _is_part(group: str, existing: set[str]) -> bool:
    """Return whether a group, such as ``construction=a,number=singular``, is a part of another (``construction=a``)."""
    commas = [position for position, character in enumerate(group) if character == ","]
    return any(group[:position] in existing for position in commas)


def _kind(group: str) -> str:
    """Return the kind of a group: ``category`` for ``category=Age``; empty for a group such as ``overall``."""
    kind, sign, _ = group.partition("=")
    if sign:
        return kind
    return ""


def _rows(shown_groups: Sequence[str], groups: Mapping[str, GroupResults]) -> Iterator[tuple[int, str, GroupResults]]:
    """Yield the rows of groups without a kind, and then, for each kind, a row with its name and those of its groups."""
    kinds = dict.fromkeys(["", *(_kind(group) for group in shown_groups)])
    for kind in kinds:
        if kind:
            yield 0, kind, {}
        for group in shown_groups:
            if _kind(group) != kind:
                continue
            if kind:
                yield 1, group.partition("=")[2], groups[group]
            else:
                yield 0, group, groups[group]


def _metrics_with_different_n(metrics: Sequence[str], groups: Sequence[GroupResults]) -> list[str]:
    """Return the metrics that need their own column for n: the first one of those that share all their n."""
    # Most metrics have the same n in every group, so a column for each metric would only repeat numbers.
    first: dict[tuple[int | None, ...], str] = {}
    for metric in metrics:
        counts: list[int | None] = []
        for results in groups:
            counts.append(results[metric].n if metric in results else None)
        first.setdefault(tuple(counts), metric)
    return list(first.values())


def _crossed(record: RunRecord, metrics: Sequence[str], overall: GroupResults) -> dict[str, str]:
    """Return the crossed metrics whose results say how many labels they are based on (early versions did not)."""
    crossed: dict[str, str] = {}
    for metric, name in record.design.crossed.items():
        if metric in metrics and metric in overall and name in overall[metric].clusters:
            crossed[metric] = name
    return crossed


def _left_out_line(record: RunRecord, metrics: Sequence[str], overall: GroupResults) -> list[tuple[str, str]]:
    """Return the line below the table that says how many examples have no score; no line if there are no results."""
    errors: dict[str, int] = {}
    unscored: dict[str, int] = {}
    for metric in metrics:
        if metric in overall:
            errors[metric] = overall[metric].n_error
            unscored[metric] = overall[metric].n_unscored
    if not errors:
        return []
    units = {metric: counted_unit(record, metric) for metric in errors}
    return [(LEFT_OUT, f"errors: {_counts_text(errors, units)}; unscored: {_counts_text(unscored, units)}")]


def _counts_text(counts: Mapping[str, int], units: Mapping[str, str]) -> str:
    """Return one number, or one for each metric if they differ, with units if these differ as well."""
    different = set(counts.values())
    if len(different) == 1:
        return str(different.pop())
    if len(set(units.values())) == 1:
        return ", ".join(f"{metric} {count}" for metric, count in counts.items())
    return ", ".join(f"{metric} {counted(count, units[metric])}" for metric, count in counts.items())
