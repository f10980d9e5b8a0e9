"""The scores of a whole run as columns, for aggregation and statistics. They are small even for a million examples."""

from __future__ import annotations

import math
import warnings
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from lmassay.errors import PluginError
from lmassay.statistics.repetition import SAMPLE_OF
from lmassay.types import Outcome, PerTestScores, Row, RowBatch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmassay.storage.store import Store


@dataclass(frozen=True, slots=True)
class ScoresOnTests:
    """The scores of rows, such as trainings, that were all tested on the same test set.

    A *test* is one example of the test set.
    """

    tests: str
    """A digest of the test set."""
    scores: NDArray[np.float64]
    """One row for each row of the table, one column for each test; NaN for a test without a usable answer."""
    groups: NDArray[np.int64]
    """The number of the group to which each test belongs; empty if tests are independent."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The outcomes of one metric in ``Design.crossed``, with one element for each label of each example.

    In a targeted syntactic evaluation (TSE), for instance, an example has one outcome for each verb pair.
    """

    table_rows: NDArray[np.int64]
    """The row of the table to which each outcome belongs."""
    labels: Sequence[str]
    codes: NDArray[np.int64]
    """The label of each outcome as an index into the sorted list of all labels."""
    values: NDArray[np.float64]
    rows: NDArray[np.float64]
    """The number of rows of the data that each outcome summarises."""


class ScoreTable:
    """Columns of scores, with one row for each example; a missing score is NaN."""

    def __init__(self, rows: Iterable[Row]) -> None:
        """Build the columns. The rows are iterated over only once."""
        import numpy as np

        ids: list[str] = []
        # This takes one byte per row; a list would take a pointer of 8 bytes.
        has_error = bytearray()
        self._on_tests: dict[int, PerTestScores] = {}
        # An array holds plain numbers without a Python object for each: a run may have millions of them.
        columns: dict[str, array[float]] = {}
        groups: dict[str, list[str]] = {}
        self._outcomes: dict[str, list[tuple[int, Outcome]]] = {}
        for row in rows:
            index = len(ids)
            ids.append(row.example.id)
            has_error.append(row.state == "error")
            if row.score.test_scores is not None:
                self._on_tests[index] = row.score.test_scores
            for name, outcomes in row.score.outcomes.items():
                own_outcomes = self._outcomes.setdefault(name, [])
                for outcome in outcomes:
                    own_outcomes.append((index, outcome))
            # If this row is the first with this column or group, the rows before it have no value.
            for name, value in row.score.values.items():
                if name not in columns:
                    columns[name] = array("d", [np.nan]) * index
                columns[name].append(float(value))
            for name, label in row.example.groups.items():
                if name not in groups:
                    groups[name] = [""] * index
                groups[name].append(str(label))
            # The columns and groups that this row lacks get an empty value.
            for column in columns.values():
                if len(column) == index:
                    column.append(np.nan)
            for labels in groups.values():
                if len(labels) == index:
                    labels.append("")
        self._length = len(ids)
        self._ids: list[str] | None = ids
        self._ids_of_batches: list[Sequence[str]] = []
        self._has_error = np.array(has_error, dtype=np.uint8).astype(bool)
        self._columns = {name: np.asarray(column) for name, column in columns.items()}
        self.groups = groups
        """A dict from group to the label of each row; an empty label for a row that is not in the group."""
        self._codes: dict[str, tuple[list[str], NDArray[np.int64]]] = {}
        self._outcome_columns: dict[str, Outcomes] = {}
        self._has_unique_ids: bool | None = None

    @classmethod
    def from_batches(cls, batches: Iterable[RowBatch]) -> ScoreTable:
        """The table of examples that are stored as columns; it is equal to a table that is built from their rows."""
        import numpy as np

        table = cls([])
        columns: dict[str, array[float]] = {}
        length = 0
        for batch in batches:
            # Ids from a store are decoded when they are first needed; until then, they take a quarter of the memory.
            table._ids_of_batches.append(batch.ids)
            for name, values in batch.values.items():
                # If this batch is the first with this column or group, the rows before it have no value.
                if name not in columns:
                    columns[name] = array("d", [np.nan]) * length
                columns[name].frombytes(values.tobytes())
            for name, labels in batch.groups.items():
                if name not in table.groups:
                    table.groups[name] = [""] * length
                table.groups[name].extend(labels)
            length += len(batch)
            # The columns and groups that this batch lacks get empty values.
            for column in columns.values():
                column.extend([np.nan] * (length - len(column)))
            for group_labels in table.groups.values():
                group_labels.extend([""] * (length - len(group_labels)))
        table._length = length
        table._ids = None
        # Batches contain only scored examples.
        table._has_error = np.zeros(length, dtype=bool)
        table._columns = _in_order_of_first_score({name: np.asarray(column) for name, column in columns.items()})
        return table

    @property
    def ids(self) -> list[str]:
        """The ids of the examples."""
        if self._ids is None:
            self._ids = list(chain.from_iterable(self._ids_of_batches))
            self._ids_of_batches = []
        return self._ids

    def __len__(self) -> int:
        return self._length

    @property
    def has_unique_ids(self) -> bool:
        """Whether no two rows have the same id; computed once."""
        if self._has_unique_ids is None:
            self._has_unique_ids = len(set(self.ids)) == len(self.ids)
        return self._has_unique_ids

    @property
    def metrics(self) -> list[str]:
        """The metrics of which at least one example has a score, in the order of their first scores."""
        return list(self._columns)

    @property
    def n_error(self) -> int:
        """The number of rows that have an error."""
        return int(self._has_error.sum())

    def has_error(self) -> NDArray[np.bool_]:
        """Which rows have an error."""
        return self._has_error

    def in_error(self) -> NDArray[np.bool_]:
        """The old name of :meth:`has_error`."""
        warnings.warn("ScoreTable.in_error is deprecated; use has_error", DeprecationWarning, stacklevel=2)
        return self._has_error

    def has_score(self) -> NDArray[np.bool_]:
        """Which rows have a score of any metric."""
        import numpy as np

        has_score = np.zeros(len(self), dtype=bool)
        for column in self._columns.values():
            has_score |= ~np.isnan(column)
        return has_score

    @property
    def repeated_by(self) -> tuple[str, ...]:
        """If questions were asked several times, the group whose labels are the ids of the questions; else empty."""
        return (SAMPLE_OF,) if SAMPLE_OF in self.groups else ()

    def sample_numbers(self) -> list[str]:
        """For each row, the part of its id that says which sample of its question it is; empty if asked only once."""
        if SAMPLE_OF not in self.groups:
            return [""] * len(self)
        return [row_id.removeprefix(example) for row_id, example in zip(self.ids, self.groups[SAMPLE_OF], strict=True)]

    def has(self, metric: str) -> bool:
        """True if at least one example has a score of this metric."""
        return metric in self._columns

    def column(self, metric: str) -> NDArray[np.float64]:
        """The scores of all rows, with NaN for missing scores, so that several columns have the same rows."""
        import numpy as np

        column = self._columns.get(metric)
        if column is None:
            return np.full(len(self), np.nan)
        return column

    def values(self, metric: str, where: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """The scores of the rows in ``where`` (by default all), without missing ones."""
        import numpy as np

        column = self._columns.get(metric)
        if column is None:
            return np.empty(0)
        return column[self._present(metric, where)]

    def weights(self, metric: str, weight: str, where: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """The weight of each of :meth:`values`, from the column ``weight``; 0 for a row without a weight."""
        import numpy as np

        if weight not in self._columns:
            raise PluginError(f"no example has a score '{weight}', which the task names as the weight of '{metric}'")
        return np.asarray(np.nan_to_num(self._columns[weight][self._present(metric, where)]))

    def together(self, *metrics: str) -> list[NDArray[np.float64]]:
        """The scores of several metrics for the examples that have all of them: one array for each metric."""
        import numpy as np

        columns = []
        has_all = np.ones(len(self), dtype=bool)
        for metric in metrics:
            column = self.column(metric)
            has_all &= ~np.isnan(column)
            columns.append(column)
        return [column[has_all] for column in columns]

    def clusters(self, metric: str, group: str, where: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """The cluster to which each of :meth:`values` belongs, as an index into the names of :meth:`codes`."""
        return self.codes(group)[1][self._present(metric, where)]

    def codes(self, group: str) -> tuple[list[str], NDArray[np.int64]]:
        """The sorted labels of a group, and for each row the index of its label in this list."""
        import numpy as np

        if group not in self._codes:
            if group not in self.groups:
                raise PluginError(f"no example has the group '{group}' that the task names as its cluster")
            # Sorted, so that the numbers do not depend on the order of the rows.
            names = sorted(set(self.groups[group]))
            number_of_name = {name: number for number, name in enumerate(names)}
            numbers = map(number_of_name.__getitem__, self.groups[group])
            self._codes[group] = (names, np.fromiter(numbers, dtype=np.int64, count=len(self)))
        return self._codes[group]

    def outcomes(self, metric: str) -> Outcomes | None:
        """The outcomes of a metric; None if a scored row has none, as in stores of earlier versions."""
        import numpy as np

        if metric not in self._outcome_columns:
            self._outcome_columns[metric] = self._outcomes_in_columns(metric)
        outcomes = self._outcome_columns[metric]
        scored_rows = np.flatnonzero(~np.isnan(self.column(metric)))
        has_outcomes = np.isin(scored_rows, outcomes.table_rows)
        if len(scored_rows) == 0 or not has_outcomes.all():
            return None
        return outcomes

    def _outcomes_in_columns(self, metric: str) -> Outcomes:
        """Convert the outcomes of a metric, which were collected row by row, to columns."""
        import numpy as np

        table_rows = []
        labels = []
        values = []
        rows = []
        for table_row, outcome in self._outcomes.get(metric, []):
            table_rows.append(table_row)
            labels.append(outcome.label)
            values.append(outcome.value)
            rows.append(outcome.rows)
        _, codes = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        return Outcomes(
            table_rows=np.array(table_rows, dtype=np.int64),
            labels=labels,
            codes=codes.astype(np.int64),
            values=np.array(values, dtype=float),
            rows=np.array(rows, dtype=float),
        )

    def by_id(self, metric: str) -> dict[str, float]:
        """A dict from example id to score, without the examples that have none."""
        column = self._columns.get(metric)
        if column is None:
            return {}
        scores: dict[str, float] = {}
        for example, value in zip(self.ids, column.tolist(), strict=True):
            if not math.isnan(value):
                scores[example] = value
        return scores

    def counts(self, metric: str, where: NDArray[np.bool_] | None = None) -> tuple[int, int, int]:
        """The numbers of scored rows, rows with errors and unscored rows of a metric, among the rows in ``where``."""
        import numpy as np

        inside = np.ones(len(self), dtype=bool) if where is None else where
        n_scored = 0
        if metric in self._columns:
            n_scored = int(self._present(metric, where).sum())
        n_error = int((inside & self.has_error()).sum())
        # Everything else was answered, but has no score of this metric.
        n_unscored = int(inside.sum()) - n_scored - n_error
        return n_scored, n_error, n_unscored

    def on_tests(self, metric: str, where: NDArray[np.bool_] | None = None) -> ScoresOnTests | None:
        """The scores of single test examples, whose means are :meth:`values`.

        None if they are not stored, or if the rows were not all tested on the same test set.
        """
        import numpy as np

        if metric not in self._columns:
            return None
        rows: list[PerTestScores] = []
        for index in np.flatnonzero(self._present(metric, where)):
            row = self._on_tests.get(int(index))
            if row is None or metric not in row.scores or (rows and row.tests != rows[0].tests):
                return None
            rows.append(row)
        if not rows:
            return None
        scores = np.array([row.scores[metric] for row in rows], dtype=float)
        return ScoresOnTests(rows[0].tests, scores, np.asarray(rows[0].groups, dtype=np.int64))

    def parts(self, group: str) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield each label of a group with a mask of its rows."""
        import numpy as np

        labels = np.asarray(self.groups.get(group, []))
        for label in sorted(set(self.groups.get(group, []))):
            yield label, labels == label

    def _present(self, metric: str, where: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        import numpy as np

        present: NDArray[np.bool_] = ~np.isnan(self._columns[metric])
        return present if where is None else present & where


def _in_order_of_first_score(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    """Sort columns by the row of their first score, and leave out columns without scores."""
    import numpy as np

    first_scores: dict[str, int] = {}
    for name, column in columns.items():
        is_scored = ~np.isnan(column)
        if is_scored.any():
            first_scores[name] = int(is_scored.argmax())
    # Sorting is stable, so columns whose first scores are in the same row keep their order.
    return {name: columns[name] for name in sorted(first_scores, key=first_scores.__getitem__)}


def score_table(store: Store, run: str, *, with_test_scores: bool = False) -> ScoreTable:
    """The scores of a stored run. ``with_test_scores`` adds the scores of single test examples (few-shot)."""
    if store.has_single_rows(run):
        return ScoreTable(store.score_rows(run, with_test_scores=with_test_scores))
    return ScoreTable.from_batches(store.score_batches(run))
