"""The robustness section: attack table, success rates, scatter of source against target, examples."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lmassay.report import svg
from lmassay.report.numbers import number_text
from lmassay.store import RunRecord, Store
from lmassay.types import Row

MOST_POINTS = 1500
MOST_EXAMPLES = 8
_METRICS = ("success", "s_src", "d_tgt", "s_tgt", "signed_drop")
_TITLES = {
    "success": "success",
    "s_src": "s_src (source kept)",
    "d_tgt": "d_tgt (target destroyed)",
    "s_tgt": "s_tgt (target kept)",
    "signed_drop": "signed drop",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing and the sentence under it."""

    drawing: Markup
    caption: str


@dataclass(frozen=True, slots=True)
class ShownExample:
    """One example as the page shows it."""

    id: str
    scores: str
    texts: Sequence[tuple[str, str]]


def columns(records: Sequence[RunRecord]) -> list[tuple[str, str]]:
    """The metrics that at least one run has, with their titles."""
    present = {result["metric"] for record in records for result in record.results}
    return [(metric, _TITLES[metric]) for metric in _METRICS if metric in present]


def overall(record: RunRecord, metric: str) -> Mapping[str, Any] | None:
    return next((r for r in record.results if r["metric"] == metric and r["group"] == "overall"), None)


def success_figure(records: Sequence[RunRecord]) -> Figure | None:
    """Success rates with intervals, one row a run."""
    bars = []
    for record in records:
        result = overall(record, "success")
        if result is not None:
            bars.append(svg.Bar(f"{record.label} · {record.model}", result["value"], result["low"], result["high"]))
    if not bars:
        return None
    drawing = svg.rows_with_intervals(bars, "success rate", "Success rate of each attack with its interval")
    return Figure(drawing, "Share of sentences on which the attack succeeds, with its interval (the line).")


def scatter_figure(record: RunRecord, rows: Sequence[Row]) -> Figure | None:
    """s_src against d_tgt (or s_tgt) with the region of success shaded."""
    y_metric = "d_tgt" if any("d_tgt" in row.score.values for row in rows) else "s_tgt"
    scored = [row for row in rows if "s_src" in row.score.values and y_metric in row.score.values]
    if not scored:
        return None
    task = record.config["task"]
    threshold = float(task.get("success_threshold", 1.0)) if isinstance(task, Mapping) else 1.0
    shown = scored if len(scored) <= MOST_POINTS else random.Random(0).sample(scored, MOST_POINTS)
    points = [
        svg.Point(
            row.score.values["s_src"],
            row.score.values[y_metric],
            bool(row.score.values.get("success")),
            f"{row.example.id}: s_src {row.score.values['s_src']:.3f}, {y_metric} {row.score.values[y_metric]:.3f}",
        )
        for row in shown
    ]
    with_reference = y_metric == "d_tgt"
    region = svg.above_diagonal(threshold) if with_reference else svg.below_ray(threshold)
    law = f"s_src + d_tgt > {threshold:g}" if with_reference else f"s_src / s_tgt > {threshold:g}"
    drawing = svg.scatter(points, region, "s_src", y_metric, f"s_src against {y_metric} for {record.label}")
    count = f"{len(shown)} of {len(scored)} sentences" if len(shown) < len(scored) else f"{len(scored)} sentences"
    return Figure(drawing, f"{record.label} on {record.model}: {count}; shaded where the attack succeeds ({law}).")


def examples(rows: Sequence[Row]) -> list[ShownExample]:
    """The sentences on which the attack did most: highest s_src + d_tgt."""
    scored = [row for row in rows if row.state == "scored"]
    return [_shown(row) for row in sorted(scored, key=_fitness, reverse=True)[:MOST_EXAMPLES]]


def _fitness(row: Row) -> float:
    values = row.score.values
    return values.get("s_src", 0.0) + values.get("d_tgt", 1 - values.get("s_tgt", 1.0))


def _shown(row: Row) -> ShownExample:
    details = row.score.details
    texts = [
        ("x", row.example.inputs.get("src")),
        ("x′", details.get("adv_src")),
        ("y(x)", details.get("out")),
        ("y(x′)", details.get("adv_out")),
        ("y*", row.example.reference),
        ("made by", details.get("made_by")),
    ]
    scores = ", ".join(f"{name} {number_text(value, 3)}" for name, value in row.score.values.items())
    return ShownExample(row.example.id, scores, [(name, str(text)) for name, text in texts if text is not None])


def read_rows(store: Store, record: RunRecord) -> list[Row]:
    return list(store.rows(record.id))
