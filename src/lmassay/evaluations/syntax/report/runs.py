"""Runs of the syntax task as the report needs them: results by construction, and facts that only the rows have."""

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

MAX_EXAMPLES = 8
MEAN = MEAN_OF_CONSTRUCTIONS
Side = Literal["top", "bottom"]
# The examples shown have different nouns; they are chosen among this many of the worst contexts.
_CANDIDATES = 200
_CUTOFF_METRIC = re.compile(r"ew@(top|bottom)(\d+(?:\.\d+)?(?:e-\d+)?)")


@dataclass(slots=True)
class Basis:
    """What a construction's numbers are based on: its nouns, and how many contexts have no known noun.

    ``lemmas`` are the different numbers of verbs of the list that EW and MW count in its contexts.
    """

    nouns: set[str] = field(default_factory=set)
    without_noun: int = 0
    lemmas: set[int] = field(default_factory=set)

    def add(self, row: Row) -> None:
        """Count a scored row."""
        noun = row.example.groups.get("noun", "")
        inputs = row.example.inputs
        # A context whose noun is not known is its own cluster, named by its text.
        if noun in ("", f"{inputs.get('left')}_{inputs.get('right')}"):
            self.without_noun += 1
        else:
            self.nouns.add(noun)
        lemmas = row.score.details.get("lemmas")
        if isinstance(lemmas, int):
            self.lemmas.add(lemmas)


@dataclass(frozen=True, slots=True)
class SyntaxRun:
    """A run with its results by metric and group, its constructions in order, and its worst contexts."""

    record: RunRecord
    results: Mapping[tuple[str, str], Result]
    bases: Mapping[str, Basis]
    """Construction → what its numbers are based on."""
    worst: Sequence[Row]

    def result(self, metric: str, construction: str | None = None, number: str = "") -> Result | None:
        """Return the result of a construction, or of all constructions if none is given."""
        parts = []
        # Results of a run with only one construction do not name it.
        if construction is not None and len(self.bases) > 1:
            parts.append(f"construction={construction}")
        if number:
            parts.append(f"number={number}")
        return self.results.get((metric, ",".join(parts) or "overall"))

    @property
    def cutoffs(self) -> list[tuple[Side, float]]:
        """The cut-offs that the run has results for."""
        cutoffs: dict[tuple[Side, float], None] = {}
        for metric, _ in self.results:
            match = _CUTOFF_METRIC.fullmatch(metric)
            if match:
                side: Side = "top" if match[1] == "top" else "bottom"
                cutoffs[side, float(match[2])] = None
        return list(cutoffs)


@dataclass(slots=True)
class System:
    """A column of the table: one run, or several runs of one model on one construction each."""

    runs: list[SyntaxRun]
    title: str = ""

    @property
    def constructions(self) -> list[str]:
        """The constructions of all runs."""
        return [name for run in self.runs for name in run.bases]

    def run_on(self, construction: str) -> SyntaxRun | None:
        """Return the run that has this construction."""
        for run in self.runs:
            if construction in run.bases:
                return run
        return None

    def result(self, metric: str, construction: str | None = None, number: str = "") -> Result | None:
        """Return the result of a construction, or of all constructions if they are in one run."""
        run = self._only_run() if construction is None else self.run_on(construction)
        return None if run is None else run.result(metric, construction, number)

    def mean(self, metric: str) -> Result | None:
        """Return the mean over constructions with equal weights."""
        run = self._only_run()
        return None if run is None else run.results.get((metric, MEAN))

    def _only_run(self) -> SyntaxRun | None:
        return self.runs[0] if len(self.runs) == 1 else None


def read_run(store: Store, record: RunRecord) -> SyntaxRun:
    """Read the rows of a run once. Only counts and a few examples are kept, so memory does not grow with the rows."""
    bases: dict[str, Basis] = {}
    results = {(result.metric, result.group): result for result in record.results}
    worst = _worst_contexts(_scored_rows(store.rows(record.id), bases))
    return SyntaxRun(record, results, bases, worst)


def _scored_rows(rows: Iterable[Row], bases: dict[str, Basis]) -> Iterator[Row]:
    """Yield the scored rows, and count them in ``bases``."""
    for row in rows:
        basis = bases.setdefault(row.example.groups.get("construction", ""), Basis())
        if row.state == "scored":
            basis.add(row)
            yield row


def _worst_contexts(rows: Iterable[Row]) -> list[Row]:
    """Return the contexts with most probability on verbs that do not agree, one per noun and construction."""
    with_wrong_mass = (row for row in rows if wrong_mass(row) > 0)
    candidates = heapq.nlargest(_CANDIDATES, with_wrong_mass, key=wrong_mass)
    first_of_noun: dict[tuple[str, str], Row] = {}
    for row in candidates:
        groups = row.example.groups
        # Further contexts with the same noun would tell the reader nothing new.
        noun = (groups.get("construction", ""), groups.get("noun", ""))
        first_of_noun.setdefault(noun, row)
    return list(first_of_noun.values())[:MAX_EXAMPLES]


def wrong_mass(row: Row) -> float:
    """Return the probability of all verb forms that do not agree."""
    values = row.score.values
    if "mw" not in values or "mass" not in values:
        return 0.0
    mass = (1 - values["mw"]) * values["mass"]
    return mass if math.isfinite(mass) else 0.0


def systems(runs: Sequence[SyntaxRun]) -> list[System]:
    """Return the columns of the table.

    Runs on one construction each share a column if model and settings are the same.
    """
    columns: list[System] = []
    for run in runs:
        for column in columns:
            if len(run.bases) == 1 and _fits(run, column):
                column.runs.append(run)
                break
        else:
            columns.append(System([run]))
    column_titles = short_run_titles([column.runs[0].record for column in columns])
    for column, title in zip(columns, column_titles, strict=True):
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
    return {key: value for key, value in run.record.depends_on.items() if key != "data"}
