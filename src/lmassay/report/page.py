"""One self-contained HTML page of one or more runs: no script, no network, everything escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

import lmassay
from lmassay.comparison import Comparison, compare_runs, load_side, share_examples
from lmassay.errors import UserError
from lmassay.report import robustness
from lmassay.report.numbers import interval_text, number_text, p_text, value_text
from lmassay.store import RunRecord, Store

MOST_SCATTERS = 12


def render(store: Store, records: Sequence[RunRecord]) -> str:
    """The page as text."""
    if not records:
        raise UserError("there is nothing to report; see `lmassay ls`")
    style = files("lmassay.report").joinpath("templates/page.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("lmassay.report"), autoescape=select_autoescape(default=True), undefined=StrictUndefined
    )
    environment.globals |= {f.__name__: f for f in (value_text, interval_text, number_text, p_text)}
    tasks = list(dict.fromkeys(record.task for record in records))
    sections = [_section(store, [r for r in records if r.task == task]) for task in tasks]
    return environment.get_template("page.html").render(
        version=lmassay.__version__,
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        style=style,
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
        sections=sections,
        records=records,
        json=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
        counts={record.id: store.count(record.id) for record in records},
    )


def _section(store: Store, records: Sequence[RunRecord]) -> dict[str, Any]:
    section: dict[str, Any] = {
        "task": records[0].task,
        "records": records,
        "errors": {record.id: store.errors(record.id) for record in records},
        "figures": [],
        "examples": [],
        "columns": [],
        "overall": robustness.overall,
    }
    if records[0].task == "robustness":
        section["columns"] = robustness.columns(records)
        rates = robustness.success_figure(records)
        section["wide"] = [rates] if rates else []
        for record in records[:MOST_SCATTERS]:
            seen = robustness.glance(store.rows(record.id))
            figure = robustness.scatter_figure(record, seen)
            section["figures"] += [figure] if figure else []
            section["examples"].append((record, robustness.examples(seen)))
        section["left_out"] = max(len(records) - MOST_SCATTERS, 0)
    section["comparisons"] = _comparisons(store, records, [m for m, _ in section["columns"]] or None)
    return section


def _comparisons(store: Store, records: Sequence[RunRecord], metrics: Sequence[str] | None) -> list[Comparison]:
    """Each run against the first, where they share examples."""
    base, *others = [load_side(store, record) for record in records]
    pairs = [other for other in others if share_examples(base, other)]
    try:
        return compare_runs(base, pairs, metrics) if pairs else []
    except UserError:
        # They share examples, but none with a score: there is nothing to compare.
        return []
