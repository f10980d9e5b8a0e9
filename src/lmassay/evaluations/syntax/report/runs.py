"""Runs of the syntax evaluation as the page needs them: results by construction, and what its rows tell besides."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lmassay.evaluations.syntax.metrics import MEAN_OF_CONSTRUCTIONS
from lmassay.reporting.run_labels import short_run_titles
from lmassay.storage.store import Store
from lmassay.types import Result, Row, RunRecord

MOST_EXAMPLES = 8
_CANDIDATES = 200
MEAN = MEAN_OF_CONSTRUCTIONS
_CUTOFF = re.compile(r"ew@(top|bottom)(\d+(?:\.\d+)?(?:e-\d+)?)")
Side = Literal["top", "bottom"]


@dataclass(slots=True)
class Basis:
    """What a construction's numbers rest on: how many nouns, how many contexts without one, how many lemmas."""

    nouns: set[str] = field(default_factory=set)
    alone: int = 0
    lemmas: set[int] = field(default_factory=set)

    def add(self, row: Row) -> None:
        noun, inputs = row.example.groups.get("noun", ""), row.example.inputs
        # A context whose noun is not known is its own cluster.
        if noun in ("", f"{inputs.get('left')}_{inputs.get('right')}"):
            self.alone += 1
        else:
            self.nouns.add(noun)
        if isinstance(lemmas := row.score.details.get("lemmas"), int):
            self.lemmas.add(lemmas)


@dataclass(frozen=True, slots=True)
class SyntaxRun:
    """A run with its results by metric and group, its constructions in order, and the contexts it fails most on."""

    record: RunRecord
    results: Mapping[tuple[str, str], Result]
    bases: Mapping[str, Basis]
    worst: Sequence[Row]

    def result(self, metric: str, construction: str | None = None, number: str = "") -> Result | None:
        """Of a construction or, without one, of all; results of a run with one construction do not name it."""
        parts = [f"construction={construction}"] if construction is not None and len(self.bases) > 1 else []
        parts += [f"number={number}"] if number else []
        return self.results.get((metric, ",".join(parts) or "overall"))

    @property
    def cutoffs(self) -> list[tuple[Side, float]]:
        found: dict[tuple[Side, float], None] = {}
        for metric, _ in self.results:
            if match := _CUTOFF.fullmatch(metric):
                found["top" if match[1] == "top" else "bottom", float(match[2])] = None
        return list(found)


@dataclass(slots=True)
class System:
    """A column of the table: one run, or runs of one model on a construction each."""

    runs: list[SyntaxRun]
    title: str = ""

    @property
    def constructions(self) -> list[str]:
        return [name for run in self.runs for name in run.bases]

    def run_on(self, construction: str) -> SyntaxRun | None:
        return next((run for run in self.runs if construction in run.bases), None)

    def result(self, metric: str, construction: str | None = None, number: str = "") -> Result | None:
        run = self.run_on(construction) if construction is not None else self._only_run()
        return None if run is None else run.result(metric, construction, number)

    def mean(self, metric: str) -> Result | None:
        """The mean over constructions, each counting alike."""
        run = self._only_run()
        return None if run is None else run.results.get((metric, MEAN))

    def _only_run(self) -> SyntaxRun | None:
        return self.runs[0] if len(self.runs) == 1 else None


def read(store: Store, record: RunRecord) -> SyntaxRun:
    """Read the rows once and keep little of them, however many there are."""
    bases: dict[str, Basis] = {}
    results = {(r.metric, r.group): r for r in record.results}
    return SyntaxRun(record, results, bases, _worst(_noted(store.rows(record.id), bases)))


def _noted(rows: Iterable[Row], bases: dict[str, Basis]) -> Iterator[Row]:
    for row in rows:
        basis = bases.setdefault(row.example.groups.get("construction", ""), Basis())
        if row.state == "scored":
            basis.add(row)
            yield row


def _worst(rows: Iterable[Row]) -> list[Row]:
    """Where most probability goes to verbs that do not agree; one context a noun and construction."""
    candidates = heapq.nlargest(_CANDIDATES, (row for row in rows if wrong_mass(row) > 0), key=wrong_mass)
    first: dict[tuple[str, ...], Row] = {}
    for row in candidates:
        first.setdefault(tuple(row.example.groups.get(g, "") for g in ("construction", "noun")), row)
    return list(first.values())[:MOST_EXAMPLES]


def wrong_mass(row: Row) -> float:
    """The probability of all verb forms that do not agree."""
    values = row.score.values
    share = (1 - values["mw"]) * values["mass"] if {"mw", "mass"} <= set(values) else 0.0
    return share if math.isfinite(share) else 0.0


def systems(runs: Sequence[SyntaxRun]) -> list[System]:
    """Runs as columns: those on one construction each share the column of their model where all else is the same."""
    columns: list[System] = []
    for run in runs:
        fitting = (c for c in columns if len(run.bases) == 1 and _fits(run, c)) if run.bases else iter(())
        column = next(fitting, None)
        if column is None:
            columns.append(System([run]))
        else:
            column.runs.append(run)
    for column, title in zip(columns, short_run_titles([c.runs[0].record for c in columns]), strict=True):
        column.title = title
    return columns


def _fits(run: SyntaxRun, column: System) -> bool:
    other = column.runs[0]
    return (
        len(other.bases) == 1
        and run.record.model == other.record.model
        and _settings(run) == _settings(other)
        and set(column.constructions).isdisjoint(run.bases)
    )


def _settings(run: SyntaxRun) -> dict[str, Any]:
    signature = run.record.depends_on
    return {key: value for key, value in signature.items() if key != "data"}
