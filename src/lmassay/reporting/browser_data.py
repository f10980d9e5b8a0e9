"""The rows of the example browser as the page carries them: columns that point into one list of texts, compressed.

A text that many rows share (a prompt asked of several models, the name of a run) is written once. What comes out are
lines of JSON, so that a page can read them piece by piece without standing still.
"""

from __future__ import annotations

import base64
import gzip
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from lmassay.types import compact

if TYPE_CHECKING:
    from lmassay.reporting.browser import Shown

MOST_ROWS = 50_000
MOST_CHARACTERS = 40_000_000
"""Of all texts together, which makes a page of some 20 MB."""
MOST_OF_A_TEXT = 10_000
_LINE = 250_000
"""Characters of texts in a line of the data."""


def sample(rows: Iterable[Shown]) -> tuple[list[Shown], int]:
    """All rows, or as many as a page can bear, drawn at random and in their order; and how many there are."""
    rng = random.Random(0)
    kept: list[tuple[int, Shown]] = []
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


def _within_budget(rows: Sequence[tuple[int, Shown]]) -> Iterator[tuple[int, Shown]]:
    seen: set[str] = set()
    left = MOST_CHARACTERS
    for number, row in rows:
        new = {text for _, text in row.texts} - seen
        seen |= new
        left -= sum(min(len(text), MOST_OF_A_TEXT) for text in new)
        if left < 0:
            return
        yield number, row


def _characters(rows: Iterable[Shown]) -> int:
    return sum(min(len(text), MOST_OF_A_TEXT) for text in {text for row in rows for _, text in row.texts})


def packed(rows: Sequence[Shown]) -> str:
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


def _lines(rows: Sequence[Shown]) -> Iterator[str]:
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
