"""The example browser: every example of the page's runs, to sort, filter and search, in one table of the page."""

from __future__ import annotations

import base64
import gzip
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from markupsafe import Markup

from lmassay.reporting.example_texts import texts_of
from lmassay.reporting.html_document import environment
from lmassay.storage.store import Store
from lmassay.types import Response, RunRecord, compact


@dataclass(frozen=True, slots=True)
class BrowserRow:
    """One row of the browser: ``run`` as the reader knows it, ``texts`` as (name, text) in reading order."""

    run: str
    task: str
    id: str
    state: str
    groups: Mapping[str, str]
    scores: Mapping[str, float]
    texts: Sequence[tuple[str, str]]


def browser_rows(store: Store, record: RunRecord, title: str) -> Iterator[BrowserRow]:
    """Every example of a run with what was asked, answered, read and scored."""
    first = dict.fromkeys([*(record.design.headline), *(r.metric for r in record.results)])
    asked = _Asked(store, record.id)
    for row in store.rows(record.id):
        yield BrowserRow(
            run=title,
            task=record.task,
            id=row.example.id,
            state=row.state,
            groups=row.example.groups,
            scores=_scores(row.score.values, first),
            texts=texts_of(record, row, asked.about(row.example.id)),
        )


def browser(rows: Iterable[BrowserRow], *, heading: str = "Examples") -> Markup:
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
        self._left = store.requests_and_responses(run)

    def about(self, example: str) -> list[tuple[dict[str, Any], Response]]:
        for found, asked in self._left:
            if found == example:
                return asked
        return []


# --- the rows as the page carries them: columns that point into one list of texts, compressed -------------------------

# A text that many rows share (a prompt asked of several models, the name of a run) is written once. What comes out are
# lines of JSON, so that a page can read them piece by piece without standing still.

MOST_ROWS = 50_000
MOST_CHARACTERS = 40_000_000
"""Of all texts together, which makes a page of some 20 MB."""
MOST_OF_A_TEXT = 10_000
_LINE = 250_000
"""Characters of texts in a line of the data."""


def sample(rows: Iterable[BrowserRow]) -> tuple[list[BrowserRow], int]:
    """All rows, or as many as a page can bear, drawn at random and in their order; and how many there are."""
    rng = random.Random(0)
    kept: list[tuple[int, BrowserRow]] = []
    total = 0
    for row in rows:
        total += 1
        if len(kept) < MOST_ROWS:
            kept.append((total, row))
        elif (place := rng.randrange(total)) < MOST_ROWS:
            kept[place] = (total, row)
    if total > MOST_ROWS or _characters(row for _, row in kept) > MOST_CHARACTERS:
        rng.shuffle(kept)
        kept = sorted(_within_budget(kept), key=lambda entry: entry[0])
    return [row for _, row in kept], total


def _within_budget(rows: Sequence[tuple[int, BrowserRow]]) -> Iterator[tuple[int, BrowserRow]]:
    seen: set[str] = set()
    left = MOST_CHARACTERS
    for number, row in rows:
        new = {text for _, text in row.texts} - seen
        seen |= new
        left -= sum(min(len(text), MOST_OF_A_TEXT) for text in new)
        if left < 0:
            return
        yield number, row


def _characters(rows: Iterable[BrowserRow]) -> int:
    return sum(min(len(text), MOST_OF_A_TEXT) for text in {text for row in rows for _, text in row.texts})


def packed(rows: Sequence[BrowserRow]) -> str:
    """The rows as gzip in base64: nothing in it can be taken for markup."""
    lines = "\n".join(_lines(rows))
    # No time of writing: the same rows give the same page.
    return base64.b64encode(gzip.compress(lines.encode("utf-8"), compresslevel=6, mtime=0)).decode("ascii")


class _Texts:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


def _lines(rows: Sequence[BrowserRow]) -> Iterator[str]:
    texts, names = _Texts(), _Texts()
    columns = {
        "task": [texts.number(row.task) for row in rows],
        "run": [texts.number(row.run) for row in rows],
        "state": [texts.number(row.state) for row in rows],
        "id": [texts.number(row.id) for row in rows],
    }
    kinds = dict.fromkeys(chain.from_iterable(row.groups for row in rows))
    metrics = dict.fromkeys(chain.from_iterable(row.scores for row in rows))
    groups = [
        [kind, [texts.number(str(row.groups[kind])) if kind in row.groups else -1 for row in rows]] for kind in kinds
    ]
    scores = [[metric, [_number(row.scores.get(metric)) for row in rows]] for metric in metrics]
    of_rows = [
        [number for name, text in row.texts for number in (names.number(name), texts.number(_cut(text)))]
        for row in rows
    ]
    yield compact({"rows": len(rows), **columns, "groups": groups, "scores": scores, "names": list(names.known)})
    yield compact(of_rows)
    yield from map(compact, _pieces(texts.known))


def _pieces(texts: Iterable[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for text in texts:
        piece.append(text)
        size += len(text) + 3
        if size > _LINE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _number(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _cut(text: str) -> str:
    if len(text) <= MOST_OF_A_TEXT:
        return text
    return f"{text[:MOST_OF_A_TEXT]} … ({len(text) - MOST_OF_A_TEXT:,} more characters)"
