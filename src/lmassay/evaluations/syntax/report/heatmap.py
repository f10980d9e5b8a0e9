"""Constructions by metric, or by model where there are several, as a heat map."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.evaluations.syntax.report.runs import MEAN, System
from lmassay.reporting import heatmap
from lmassay.reporting.blocks import Block, Figure, Figures
from lmassay.reporting.numbers import interval_text, number_text, value_text
from lmassay.types import Result

FEW_CONTEXTS = 10
MOST_COLUMNS = 12
_METRICS = (("mw", "MW"), ("ew", "EW"), ("tse", "TSE"))


def blocks(names: Sequence[str], members: Sequence[System]) -> list[Block]:
    """One system: a column a metric. Several: a figure a metric, a column a system. One number needs no map."""
    shown = [(m, title) for m, title in _METRICS if any(_of(s, m, c) for s in members for c in names)]
    if len(names) < 2 or not shown:
        return []
    if len(members) == 1:
        (system,) = members
        columns = [(title, system, metric) for metric, title in shown]
        return [Figures([_figure(names, columns, f"{system.title}: constructions by metric")], "middle")]
    figures = []
    for metric, title in shown:
        for panel in (members[at : at + MOST_COLUMNS] for at in range(0, len(members), MOST_COLUMNS)):
            columns = [(system.title, system, metric) for system in panel]
            figures.append(_figure(names, columns, f"{title}: constructions by model"))
    return [Figures(figures, "middle")]


def _figure(names: Sequence[str], columns: Sequence[tuple[str, System, str]], what: str) -> Figure:
    rows = [
        heatmap.Strip(
            name, [_shade(f"{title}, {name}", _of(system, metric, name)) for title, system, metric in columns]
        )
        for name in names
    ]
    means = [_shade(f"{title}, {MEAN}", system.mean(metric)) for title, system, metric in columns]
    if any(mean is not None for mean in means):
        rows.append(heatmap.Strip(MEAN, means, apart=True))
    few = any(shade is not None and shade.faint for row in rows for shade in row.shades)
    stars = f" A star: fewer than {FEW_CONTEXTS} contexts." if few else ""
    drawing = heatmap.drawing([title for title, _, _ in columns], rows, what)
    return Figure(drawing, f"{what}. Blue above a half, which guessing reaches; orange below it.{stars}")


def _of(system: System, metric: str, construction: str) -> Result | None:
    return system.result(metric, construction)


def _shade(what: str, result: Result | None) -> heatmap.Shade | None:
    if result is None:
        return None
    if result.value is None:
        return heatmap.Shade(None, f"{what}: {value_text(result)}")
    told = f"{what}: {number_text(result.value, 3)} {interval_text(result, 3)}, n {result.n:,}"
    return heatmap.Shade(result.value, told, faint=result.n < FEW_CONTEXTS)
