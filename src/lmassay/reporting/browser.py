"""The example browser: every example of the page's runs, to sort, filter and search, in one table of the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lmassay.reporting.browser_data import packed, sample
from lmassay.reporting.example_texts import texts_of
from lmassay.reporting.shell import environment
from lmassay.storage.store import Store
from lmassay.types import Response, RunRecord


@dataclass(frozen=True, slots=True)
class Shown:
    """One row of the browser: ``run`` as the reader knows it, ``texts`` as (name, text) in reading order."""

    run: str
    task: str
    id: str
    state: str
    groups: Mapping[str, str]
    scores: Mapping[str, float]
    texts: Sequence[tuple[str, str]]


def shown_rows(store: Store, record: RunRecord, title: str) -> Iterator[Shown]:
    """Every example of a run with what was asked, answered, read and scored."""
    first = dict.fromkeys([*(record.design.headline), *(r.metric for r in record.results)])
    asked = _Asked(store, record.id)
    for row in store.rows(record.id):
        yield Shown(
            run=title,
            task=record.task,
            id=row.example.id,
            state=row.state,
            groups=row.example.groups,
            scores=_scores(row.score.values, first),
            texts=texts_of(record, row, asked.about(row.example.id)),
        )


def browser(rows: Iterable[Shown], *, heading: str = "Examples") -> Markup:
    """Table, controls and data, for use inside ``document(browser=True)``; nothing where there is no row."""
    kept, total = sample(rows)
    if not kept:
        return Markup("")
    text = (
        environment()
        .get_template("browser.html")
        .render(
            heading=heading,
            anchor=re.sub(r"\W+", "-", heading).strip("-").lower() or "examples",
            shown=len(kept),
            total=total,
            data=Markup(packed(kept)),  # noqa: S704 - base64
        )
    )
    return Markup(text)  # noqa: S704 - the template escaped it


def _scores(values: Mapping[str, float], first: Iterable[str]) -> dict[str, float]:
    """In the order of the run's results; the points of a curve (``ew@top0.5``) are no columns of their own."""
    names = dict.fromkeys([*(name for name in first if name in values), *values])
    return {name: values[name] for name in names if "@" not in name}


class _Asked:
    """What was asked of each example, read beside the rows: both come in the order of the data."""

    def __init__(self, store: Store, run: str) -> None:
        self._left = store.asked(run)

    def about(self, example: str) -> list[tuple[dict[str, Any], Response]]:
        for found, asked in self._left:
            if found == example:
                return asked
        return []
