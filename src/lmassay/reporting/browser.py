"""The example browser: one table of the page with the examples of its runs, to sort, filter and search."""

from __future__ import annotations

import base64
import gzip
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from markupsafe import Markup

from lmassay.contracts import KeyText
from lmassay.plugins.evaluations import view_of
from lmassay.redaction import without_keys
from lmassay.reporting.example_choice import MAX_ROWS, ChosenRows
from lmassay.reporting.example_texts import texts_of
from lmassay.reporting.html_document import environment
from lmassay.reporting.units import EXAMPLE
from lmassay.storage.store import Store
from lmassay.types import Response, Row, RunRecord, compact
from lmassay.types.wording import counted


@dataclass(frozen=True, slots=True)
class BrowserRow:
    """One example of one run. ``run`` is the title of the run, ``texts`` are (name, text) in reading order."""

    run: str
    task: str
    id: str
    state: str
    groups: Mapping[str, str]
    scores: Mapping[str, float]
    texts: Sequence[tuple[str, str]]
    key_texts: Sequence[KeyText] = ()
    """The texts that are columns of the table; by default the first text and the answer."""
    comes_first: bool = False
    """Whether the row is kept in preference to others if a page cannot show all examples."""


def browser_rows(store: Store, record: RunRecord, title: str, chosen: ChosenRows | None = None) -> Iterator[BrowserRow]:
    """Yield the examples of a run as rows of the browser; ``title`` names the run, ``chosen`` selects examples."""
    metric_order = [*record.design.headline, *(result.metric for result in record.results)]
    exchanges = _ExchangeReader(store, record.id)
    key_texts = view_of(record).key_texts
    rows: Iterable[tuple[Row, bool]] = zip(store.rows(record.id), repeat(False))
    if chosen is not None:
        rows = zip(store.selected_rows(record.id, chosen.numbers), chosen.come_first, strict=True)
    for row, comes_first in rows:
        yield BrowserRow(
            run=title,
            task=record.task,
            id=row.example.id,
            state=row.state,
            groups=row.example.groups,
            scores=_ordered_scores(row.score.values, metric_order),
            texts=texts_of(record, row, exchanges.about(row.example.id)),
            key_texts=key_texts,
            comes_first=comes_first,
        )


def browser(
    rows: Iterable[BrowserRow],
    *,
    unit: str = EXAMPLE,
    heading: str = "",
    anchor: str = "examples",
    total: int | None = None,
) -> Markup:
    """Return the example browser (table, controls and data) as markup for ``document(browser=True)``.

    The markup is empty if there are no rows. ``unit`` is what a row is about, in the singular, such as ``example``.
    ``total`` is the number of all examples, if ``rows`` are only some of them.
    """
    sampled_rows, count = sample(rows)
    if total is None:
        total = count
    if not sampled_rows:
        return Markup("")
    text = (
        environment()
        .get_template("browser.html")
        .render(
            heading=heading or f"{unit.capitalize()}s",
            anchor=anchor,
            unit=unit,
            counted=counted,
            row_count=len(sampled_rows),
            total=total,
            has_first=any(row.comes_first for row in sampled_rows),
            data=Markup(packed(sampled_rows)),  # noqa: S704 - base64
        )
    )
    return Markup(text)  # noqa: S704 - the template escaped it


def _ordered_scores(values: Mapping[str, float], metric_order: Iterable[str]) -> dict[str, float]:
    """Return the scores in the order of the run's metrics, without the points of a curve such as ``ew@top0.5``."""
    scores: dict[str, float] = {}
    for metric in [*metric_order, *values]:
        if metric in values and "@" not in metric:
            scores[metric] = values[metric]
    return scores


class _ExchangeReader:
    """Looks up the exchanges of an example: its requests, each with its response.

    Exchanges and rows are stored in the same order, so the exchanges are read only once, along with the rows.
    """

    def __init__(self, store: Store, run: str) -> None:
        self._remaining: Iterator[tuple[str, list[tuple[dict[str, Any], Response]]]] = iter(())
        if store.has_single_rows(run):
            # Rows that a run stores in batches, as columns, have no stored requests.
            self._remaining = store.requests_and_responses(run)

    def about(self, example: str) -> list[tuple[dict[str, Any], Response]]:
        """Return the exchanges of an example; examples must be asked for in the order of the rows."""
        for example_id, exchanges in self._remaining:
            if example_id == example:
                return exchanges
        return []


# --- the rows as the page stores them: compressed columns of numbers that index one list of texts ---------------------

# A text that many rows share (a prompt sent to several models, the title of a run) is stored once. The data are lines
# of JSON, so that the page can read them piece by piece and stays responsive.

MAX_CHARACTERS = 40_000_000
"""The largest total length of all texts. A page with this many characters is a file of about 20 MB."""
MAX_TEXT_LENGTH = 10_000
"""Longer texts are cut, so that a few of them do not use up the space for all other examples."""
_CHARACTERS_PER_LINE = 250_000
"""A line of the data ends after this many characters of text."""


def sample(rows: Iterable[BrowserRow]) -> tuple[list[BrowserRow], int]:
    """Return as many rows as a page can hold, in their order, and the number of all rows.

    If there are more than MAX_ROWS rows, they are sampled at random. If the texts of the remaining rows together are
    still too long, rows with ``comes_first`` are kept in preference to others.
    """
    # A fixed seed: the same rows give the same page.
    rng = random.Random(0)
    kept: list[tuple[int, BrowserRow]] = []
    total = 0
    for row in rows:
        total += 1
        if len(kept) < MAX_ROWS:
            kept.append((total, row))
            continue
        # Reservoir sampling: each of the rows so far is in the sample with the same probability.
        position = rng.randrange(total)
        if position < MAX_ROWS:
            kept[position] = (total, row)
    if total > MAX_ROWS or _count_characters(row for _, row in kept) > MAX_CHARACTERS:
        rng.shuffle(kept)
        kept.sort(key=lambda entry: not entry[1].comes_first)
        kept = sorted(_within_budget(kept), key=lambda entry: entry[0])
    return [row for _, row in kept], total


def _within_budget(rows: Sequence[tuple[int, BrowserRow]]) -> Iterator[tuple[int, BrowserRow]]:
    """Yield rows from the beginning, until their different texts together exceed MAX_CHARACTERS characters."""
    included_texts: set[str] = set()
    remaining = MAX_CHARACTERS
    for number, row in rows:
        new_texts = {text for _, text in row.texts} - included_texts
        included_texts |= new_texts
        remaining -= _total_length(new_texts)
        if remaining < 0:
            return
        yield number, row


def _count_characters(rows: Iterable[BrowserRow]) -> int:
    different_texts: set[str] = set()
    for row in rows:
        different_texts.update(text for _, text in row.texts)
    return _total_length(different_texts)


def _total_length(texts: Iterable[str]) -> int:
    return sum(min(len(text), MAX_TEXT_LENGTH) for text in texts)


def packed(rows: Sequence[BrowserRow]) -> str:
    """Return the rows, compressed with gzip, in base64: text that a browser cannot mistake for markup."""
    lines = "\n".join(_data_lines(rows))
    # Without the time of writing: the same rows give the same page.
    compressed = gzip.compress(lines.encode("utf-8"), compresslevel=6, mtime=0)
    return base64.b64encode(compressed).decode("ascii")


class _NumberedTexts:
    """Numbers different texts in the order in which they are first used."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def column(self, texts: Iterable[str | None]) -> list[int]:
        """Return the number of each text; -1 stands for None."""
        numbers = []
        for text in texts:
            numbers.append(-1 if text is None else self.number(without_keys(str(text))))
        return numbers


def _data_lines(rows: Sequence[BrowserRow]) -> Iterator[str]:
    """Yield the lines of the data: one line with all columns, one with the texts of each row, and then the texts.

    A text is written as its number in the list of all texts, and -1 stands for no text. The list itself takes as many
    lines as it needs. ``templates/rows.js`` reads this format.
    """
    texts = _NumberedTexts()
    columns: dict[str, Any] = {
        "rows": len(rows),
        "task": texts.column(row.task for row in rows),
        "run": texts.column(row.run for row in rows),
        "state": texts.column(row.state for row in rows),
        "id": texts.column(row.id for row in rows),
        "groups": _group_columns(rows, texts),
        "scores": _score_columns(rows),
        "keys": _key_texts(rows, texts),
    }
    text_names = _NumberedTexts()
    texts_of_rows = []
    for row in rows:
        # Alternately the number of a text's name and the number of the text.
        numbers: list[int] = []
        for name, text in row.texts:
            numbers.append(text_names.number(name))
            # API keys are blanked out here, because they could not be found in the compressed data. It is done before
            # the text is cut, because the cut could leave a part of a key.
            numbers.append(texts.number(_clipped(without_keys(text))))
        texts_of_rows.append(numbers)
    columns["names"] = list(text_names.numbers)
    yield compact(columns)
    yield compact(texts_of_rows)
    for piece in _pieces(texts.numbers):
        yield compact(piece)


def _key_texts(rows: Sequence[BrowserRow], texts: _NumberedTexts) -> list[tuple[int, list[tuple[str, str]]]]:
    """Return which texts are columns of the table: for each task that declares key texts, its number and a list.

    The list has a pair for each key text: its name, and the name of the text that it is compared with (or "").
    """
    by_task: dict[str, Sequence[KeyText]] = {}
    for row in rows:
        if row.key_texts:
            by_task[row.task] = row.key_texts
    keys = []
    for task, key_texts in by_task.items():
        keys.append((texts.number(task), [(key.name, key.compared_with) for key in key_texts]))
    return keys


def _group_columns(rows: Sequence[BrowserRow], texts: _NumberedTexts) -> list[tuple[str, list[int]]]:
    """Return each kind of group, such as ``category``, with the number of the label that every row has in it."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row.groups)
    columns = []
    for name in names:
        labels = [row.groups.get(name) for row in rows]
        columns.append((name, texts.column(labels)))
    return columns


def _score_columns(rows: Sequence[BrowserRow]) -> list[tuple[str, list[float | None]]]:
    """Return each metric with the score of every row; None for a row without this score."""
    metrics: dict[str, None] = {}
    for row in rows:
        metrics |= dict.fromkeys(row.scores)
    columns = []
    for metric in metrics:
        scores = [_rounded(row.scores.get(metric)) for row in rows]
        columns.append((metric, scores))
    return columns


def _pieces(texts: Iterable[str]) -> Iterator[list[str]]:
    """Divide texts into lists with about _CHARACTERS_PER_LINE characters each."""
    piece: list[str] = []
    size = 0
    for text in texts:
        piece.append(text)
        # Three more characters for the quotes and the comma around it in JSON.
        size += len(text) + 3
        if size > _CHARACTERS_PER_LINE:
            yield piece
            piece = []
            size = 0
    if piece:
        yield piece


def _rounded(value: float | None) -> float | None:
    """Round to six significant digits: these are more than the page shows, and fewer digits keep the page small."""
    if value is None:
        return None
    return float(f"{value:.6g}")


def _clipped(text: str) -> str:
    if len(text) <= MAX_TEXT_LENGTH:
        return text
    return f"{text[:MAX_TEXT_LENGTH]} … ({len(text) - MAX_TEXT_LENGTH:,} more characters)"
