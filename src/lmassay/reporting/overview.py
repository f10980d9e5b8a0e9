"""The results that a reader wants first: one row a group, one column a metric that the task calls its headline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lmassay.reporting.numbers import short_text
from lmassay.types import Result, RunRecord

MOST_GROUPS_OF_A_KIND = 40
Found = Mapping[str, Result]
"""The results of one group by metric."""


@dataclass(frozen=True, slots=True)
class Overview:
    """``rows`` are (depth, label, results); ``counted`` names one metric for each n that differs from the others.

    ``crossed`` are the metrics that are crossed with something, and with what; its number is shown next to n.
    """

    metrics: Sequence[str]
    counted: Sequence[str]
    crossed: Mapping[str, str]
    rows: Sequence[tuple[int, str, Found]]
    lines: Sequence[tuple[str, str]]
    left_out: int


def overview_of(record: RunRecord) -> Overview | None:
    """None where the task names no headline, or has no result of it."""
    groups: dict[str, dict[str, Result]] = {}
    for result in record.results:
        groups.setdefault(result.group, {})[result.metric] = result
    present = {metric for found in groups.values() for metric in found}
    metrics = [metric for metric in record.design.headline if metric in present]
    if not metrics:
        return None
    shown = _shown([group for group, found in groups.items() if not found.keys().isdisjoint(metrics)])
    overall = groups.get("overall", {})
    beside = [metric for metric in overall if metric not in metrics and "@" not in metric and "." not in metric]
    listed = sum(metric in groups[group] for group in shown for metric in metrics) + len(beside)
    return Overview(
        metrics=metrics,
        counted=_counted(metrics, [groups[group] for group in shown]),
        crossed=_crossed(record, metrics, overall),
        rows=list(_rows(shown, groups)),
        lines=[*_left_out(metrics, overall), *((metric, short_text(overall[metric])) for metric in beside)],
        left_out=len(record.results) - listed,
    )


def in_parts(overview: Overview, fits: Callable[[Overview], bool]) -> list[Overview]:
    """The overview as one table, or as several with fewer metrics each where one would be too wide."""
    if len(overview.metrics) == 1 or fits(overview):
        return [overview]
    sizes = range(len(overview.metrics) - 1, 0, -1)
    most = next((size for size in sizes if fits(_only(overview, overview.metrics[:size]))), 1)
    return [_only(overview, overview.metrics[:most]), *in_parts(_only(overview, overview.metrics[most:]), fits)]


def _only(overview: Overview, metrics: Sequence[str]) -> Overview:
    counted = _counted(metrics, [found for _, _, found in overview.rows if found])
    crossed = {metric: name for metric, name in overview.crossed.items() if metric in metrics}
    return replace(overview, metrics=metrics, counted=counted, crossed=crossed)


def _shown(groups: Sequence[str]) -> list[str]:
    """Groups that are no part of another (``number`` within ``construction``), of kinds that are not too many."""
    known = set(groups)
    whole = [g for g in groups if not any(g[:at] in known for at, sign in enumerate(g) if sign == ",")]
    kinds = [_kind(group) for group in whole]
    return [g for g, kind in zip(whole, kinds, strict=True) if not kind or kinds.count(kind) <= MOST_GROUPS_OF_A_KIND]


def _kind(group: str) -> str:
    kind, sign, _ = group.partition("=")
    return kind if sign else ""


def _rows(shown: Sequence[str], groups: Mapping[str, Found]) -> Iterable[tuple[int, str, Found]]:
    """Groups without a kind first, then each kind under its name."""
    for kind in dict.fromkeys(["", *map(_kind, shown)]):
        if kind:
            yield 0, kind, {}
        for group in shown:
            if _kind(group) == kind:
                yield (1, group.partition("=")[2], groups[group]) if kind else (0, group, groups[group])


def _counted(metrics: Sequence[str], groups: Sequence[Found]) -> list[str]:
    first: dict[tuple[int | None, ...], str] = {}
    for metric in metrics:
        first.setdefault(tuple(found[metric].n if metric in found else None for found in groups), metric)
    return list(first.values())


def _crossed(record: RunRecord, metrics: Sequence[str], overall: Found) -> dict[str, str]:
    """The metrics whose results say how many labels they rest on; those of earlier versions do not."""
    crossed: dict[str, str] = {}
    for metric, name in record.design.crossed.items():
        if metric in metrics and metric in overall and name in overall[metric].clusters:
            crossed[metric] = name
    return crossed


def _left_out(metrics: Sequence[str], overall: Found) -> list[tuple[str, str]]:
    found = {metric: overall[metric] for metric in metrics if metric in overall}
    if not found:
        return []
    errors = _by_metric({metric: result.n_error for metric, result in found.items()})
    unscored = _by_metric({metric: result.n_unscored for metric, result in found.items()})
    return [("left out", f"in error: {errors}; unscored: {unscored}")]


def _by_metric(counts: Mapping[str, int]) -> str:
    """One number, or one for each metric where they count different things: rows, contexts."""
    if len(set(counts.values())) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(f"{metric} {count}" for metric, count in counts.items())
