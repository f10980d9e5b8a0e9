"""Scores of a whole run as columns: what aggregation and statistics work on, small even for a million examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lmassay.errors import PluginError
from lmassay.types import Outcome, PerTestScores, Row, State

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ScoresOnTests:
    """Rows that were tested on one test set: scores with a line for each row and a column for each test."""

    tests: str
    """A digest of the test set."""
    scores: NDArray[np.float64]
    groups: NDArray[np.int64]
    """The group that each test belongs to; empty if tests are independent."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of one metric, one entry for each label of each example."""

    places: NDArray[np.int64]
    """The row of the table that each belongs to."""
    labels: Sequence[str]
    codes: NDArray[np.int64]
    """The place of each label among all of them, sorted."""
    values: NDArray[np.float64]
    rows: NDArray[np.float64]
    """How many rows of the data each stands for."""


class ScoreTable:
    """Columns of scores, one row an example; a missing score is NaN."""

    def __init__(self, rows: Iterable[Row]) -> None:
        import numpy as np

        self.ids: list[str] = []
        self._states: list[State] = []
        self._on_tests: list[PerTestScores | None] = []
        columns: dict[str, list[float]] = {}
        groups: dict[str, list[str]] = {}
        self._outcomes: dict[str, list[tuple[int, Outcome]]] = {}
        for row in rows:
            count = len(self.ids)
            for name, outcomes in row.score.outcomes.items():
                self._outcomes.setdefault(name, []).extend((count, outcome) for outcome in outcomes)
            self.ids.append(row.example.id)
            self._states.append(row.state)
            self._on_tests.append(row.score.test_scores)
            for name, value in row.score.values.items():
                if name not in columns:
                    columns[name] = [np.nan] * count
                columns[name].append(float(value))
            for name, label in row.example.groups.items():
                if name not in groups:
                    groups[name] = [""] * count
                groups[name].append(str(label))
            for column in columns.values():
                if len(column) == count:
                    column.append(np.nan)
            for labels in groups.values():
                if len(labels) == count:
                    labels.append("")
        self._columns = {name: np.asarray(column) for name, column in columns.items()}
        self.groups = groups
        self._codes: dict[str, tuple[list[str], NDArray[np.int64]]] = {}
        self._outcome_columns: dict[str, Outcomes] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def metrics(self) -> list[str]:
        return list(self._columns)

    @property
    def n_error(self) -> int:
        return self._states.count("error")

    def in_error(self) -> NDArray[np.bool_]:
        """Which rows are in error."""
        import numpy as np

        return np.fromiter((s == "error" for s in self._states), bool, len(self))

    def has(self, metric: str) -> bool:
        return metric in self._columns

    def column(self, metric: str) -> NDArray[np.float64]:
        """The scores of all rows, NaN where there is none: for sums over several columns."""
        import numpy as np

        return self._columns.get(metric, np.full(len(self), np.nan))

    def values(self, metric: str, where: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """The scores that there are, missing ones left out."""
        import numpy as np

        column = self._columns.get(metric)
        if column is None:
            return np.empty(0)
        return column[self._present(metric, where)]

    def weights(self, metric: str, weight: str, where: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """How much each of :meth:`values` counts; one without a weight counts nothing."""
        import numpy as np

        if weight not in self._columns:
            raise PluginError(f"no example has a score '{weight}', which the task names as the weight of '{metric}'")
        return np.asarray(np.nan_to_num(self._columns[weight][self._present(metric, where)]))

    def together(self, *metrics: str) -> list[NDArray[np.float64]]:
        """Several columns over the examples that have all of them."""
        import numpy as np

        if any(m not in self._columns for m in metrics):
            return [np.empty(0) for _ in metrics]
        keep = np.logical_and.reduce([~np.isnan(self._columns[m]) for m in metrics])
        return [self._columns[m][keep] for m in metrics]

    def clusters(self, metric: str, group: str, where: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """The cluster that each of :meth:`values` belongs to, as numbers of :meth:`codes`."""
        return self.codes(group)[1][self._present(metric, where)]

    def codes(self, group: str) -> tuple[list[str], NDArray[np.int64]]:
        """The labels of a group, sorted, and for each row the place of its label among them."""
        import numpy as np

        if group not in self._codes:
            if group not in self.groups:
                raise PluginError(f"no example has the group '{group}' that the task names as its cluster")
            names, codes = np.unique(np.asarray(self.groups[group]), return_inverse=True)
            self._codes[group] = ([str(name) for name in names], codes.astype(np.int64))
        return self._codes[group]

    def outcomes(self, metric: str) -> Outcomes | None:
        """The scores of a metric by label; None if a score has none, as in stores of earlier versions."""
        import numpy as np

        if metric not in self._outcome_columns:
            self._outcome_columns[metric] = self._outcomes_in_columns(metric)
        found = self._outcome_columns[metric]
        scored = np.flatnonzero(~np.isnan(self.column(metric)))
        return found if len(scored) and bool(np.isin(scored, found.places).all()) else None

    def _outcomes_in_columns(self, metric: str) -> Outcomes:
        import numpy as np

        found = self._outcomes.get(metric, [])
        labels = [outcome.label for _, outcome in found]
        _, codes = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        return Outcomes(
            np.array([place for place, _ in found], dtype=np.int64),
            labels,
            codes.astype(np.int64),
            np.array([outcome.value for _, outcome in found], dtype=float),
            np.array([outcome.rows for _, outcome in found], dtype=float),
        )

    def by_id(self, metric: str) -> dict[str, float]:
        import numpy as np

        column = self._columns.get(metric)
        if column is None:
            return {}
        return {i: float(v) for i, v in zip(self.ids, column, strict=True) if not np.isnan(v)}

    def counts(self, metric: str, where: NDArray[np.bool_] | None = None) -> tuple[int, int, int]:
        """(scored, errors, unscored) for a metric within a part of the table."""
        import numpy as np

        inside = np.ones(len(self), dtype=bool) if where is None else where
        errors = self.in_error()
        n = int(self._present(metric, where).sum()) if metric in self._columns else 0
        n_error = int((inside & errors).sum())
        return n, n_error, int(inside.sum()) - n - n_error

    def on_tests(self, metric: str, where: NDArray[np.bool_] | None = None) -> ScoresOnTests | None:
        """The scores on single tests that :meth:`values` are means of; None unless all rows have the same tests."""
        import numpy as np

        if metric not in self._columns:
            return None
        found = [self._on_tests[place] for place in np.flatnonzero(self._present(metric, where))]
        rows = [one for one in found if one is not None and metric in one.scores]
        if not rows or len(rows) < len(found) or any(one.tests != rows[0].tests for one in rows):
            return None
        scores = np.array([one.scores[metric] for one in rows], dtype=float)
        return ScoresOnTests(rows[0].tests, scores, np.asarray(rows[0].groups, dtype=np.int64))

    def parts(self, group: str) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Each label of a group with the mask of its rows."""
        import numpy as np

        labels = np.asarray(self.groups.get(group, []))
        for label in sorted(set(self.groups.get(group, []))):
            yield label, labels == label

    def _present(self, metric: str, where: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        import numpy as np

        present: NDArray[np.bool_] = ~np.isnan(self._columns[metric])
        return present if where is None else present & where
