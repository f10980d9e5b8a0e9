"""Reads the examples of a run, single rows and batches in one order, and verifies what it reads."""

from __future__ import annotations

import heapq
import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lmassay.errors import StoreError
from lmassay.storage.batches import (
    BATCH_QUERY,
    BATCHES_QUERY,
    SCORES_QUERY,
    StoredBatch,
    StoredScores,
    positions_text,
)
from lmassay.storage.database import Database, plain_errors
from lmassay.storage.provenance import command_line
from lmassay.storage.single_rows import DIGEST_SIZE, ROW_COLUMNS, StoredRow, digest_of_scores, parsed_outcomes
from lmassay.types import Example, Row, RowBatch, Score


class RowReader:
    """Reads the examples of the runs in a results folder."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.file = database.file
        self.folder = database.folder

    def errors(self, run: str, limit: int = 3) -> list[tuple[str, int]]:
        """Return the most frequent errors of a run's examples, with their counts."""
        query = (
            "SELECT error, COUNT(*) AS n FROM rows WHERE run = ? AND state = 'error'"
            " GROUP BY error ORDER BY n DESC, error LIMIT ?"
        )
        with plain_errors(self.file):
            return [(str(error), int(count)) for error, count in self.database.execute(query, (run, limit))]

    def finished_ids(self, run: str) -> set[str]:
        """Return the ids of examples that need no further work; those in error are tried again."""
        query = "SELECT id FROM rows WHERE run = ? AND state != 'error'"
        with plain_errors(self.file):
            ids = {example_id for (example_id,) in self.database.execute(query, (run,))}
        for batch in self.verified_score_batches(run):
            ids.update(batch.ids)
        return ids

    def finished_positions(self, run: str) -> list[range]:
        """Return the positions of the examples that are stored in batches, in their order."""
        if not self.database.has_batches:
            return []
        query = "SELECT first, examples FROM batches WHERE run = ? ORDER BY first"
        with plain_errors(self.file):
            return [range(first, first + examples) for first, examples in self.database.execute(query, (run,))]

    def has_single_rows(self, run: str) -> bool:
        """Return whether a run has examples that are not stored in batches."""
        with plain_errors(self.file):
            return self.database.execute("SELECT 1 FROM rows WHERE run = ? LIMIT 1", (run,)).fetchone() is not None

    def rows_are_whole(self, run: str) -> bool:
        """Return whether all rows of a run are there and undamaged."""
        with plain_errors(self.file):
            expected = self.database.digests(run).get("rows")
            if expected not in (None, str(self.count_rows(run))):
                return False
            return next(self.damaged_rows(run), None) is None and next(self.damaged_batches(run), None) is None

    def count_rows(self, run: str) -> int:
        """Return how many examples of a run are stored."""
        (count,) = self.database.execute("SELECT COUNT(*) FROM rows WHERE run = ?", (run,)).fetchone()
        return int(count) + self._count_in_batches(run)

    def _count_in_batches(self, run: str) -> int:
        if not self.database.has_batches:
            return 0
        (count,) = self.database.execute("SELECT TOTAL(examples) FROM batches WHERE run = ?", (run,)).fetchone()
        return int(count)

    def damaged_rows(self, run: str) -> Iterator[int]:
        """Yield the row numbers of rows that do not match their digests."""
        # A run that was recorded with a digest must have digests in all its rows.
        needs_digest = "record" in self.database.digests(run)
        query = f"SELECT rowid, {self.row_columns} FROM rows WHERE run = ?"  # noqa: S608
        for number, *columns, stored_digest in self.database.execute(query, (run,)):
            row = StoredRow(*columns)
            if row.is_damaged(stored_digest, needs_digest=needs_digest):
                yield number

    def damaged_batches(self, run: str) -> Iterator[StoredBatch]:
        """Yield the batches that do not match their digests."""
        for batch in self.stored_batches(run):
            if batch.is_damaged():
                yield batch

    def stored_batches(self, run: str) -> Iterator[StoredBatch]:
        """Yield the batches of a run as they are stored; they may be damaged."""
        if not self.database.has_batches:
            return
        for columns in self.database.execute(BATCHES_QUERY, (run,)):
            yield StoredBatch(*columns)

    def _stored_batch(self, run: str, first: int) -> Iterator[StoredBatch]:
        """Yield the batch that begins at a position."""
        for columns in self.database.execute(BATCH_QUERY, (run, first)):
            yield StoredBatch(*columns)

    def _stored_scores(self, run: str) -> Iterator[StoredScores]:
        if not self.database.has_batches:
            return
        for columns in self.database.execute(SCORES_QUERY, (run,)):
            yield StoredScores(*columns)

    def batches(self, run: str) -> Iterator[RowBatch]:
        """Yield the batches of a run. Raises StoreError if one is damaged."""
        return self._verified_batches(run, self.stored_batches(run))

    def verified_score_batches(self, run: str) -> Iterator[RowBatch]:
        """Yield the batches of a run without their texts, without comparing their number with the record."""
        return self._verified_batches(run, self._stored_scores(run))

    def _verified_batches(self, run: str, batches: Iterable[StoredBatch | StoredScores]) -> Iterator[RowBatch]:
        with plain_errors(self.file):
            for batch in batches:
                if batch.is_damaged():
                    which = positions_text(batch.first, batch.examples)
                    raise self._damage_error(run, f"{which} are not what lmassay wrote")
                yield batch.parsed()

    def rows(self, run: str) -> Iterator[Row]:
        """Yield all rows of a run in the order of its data. Raises StoreError if one is damaged or missing."""
        return self._in_order(run, self._single_rows(run), self.batches(run))

    def selected_rows(self, run: str, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield some rows of a run, in the order of its data. Batches without such rows are neither read nor verified.

        ``numbers`` are sorted and count the rows of :meth:`rows` from 0.
        """
        if self.has_single_rows(run):
            wanted = set(numbers)
            for number, row in enumerate(self.rows(run)):
                if number in wanted:
                    yield row
            return
        start = 0
        for positions in self.finished_positions(run):
            low = bisect_left(numbers, start)
            high = bisect_left(numbers, start + len(positions))
            if low < high:
                (batch,) = self._verified_batches(run, self._stored_batch(run, positions.start))
                yield from batch.selected([number - start for number in numbers[low:high]]).rows()
            start += len(positions)

    def _in_order(self, run: str, single_rows: Iterable[tuple[int, Row]], batches: Iterable[RowBatch]) -> Iterator[Row]:
        """Yield rows with their positions and the rows of batches in the order of the data, and count them."""
        digests = self.database.digests(run)
        count = 0
        rows_of_batches = (pair for batch in batches for pair in enumerate(batch.rows(), start=batch.first))
        for _, row in heapq.merge(single_rows, rows_of_batches, key=position_of):
            count += 1
            yield row
        self._check_count(run, count, digests)

    def _single_rows(self, run: str) -> Iterator[tuple[int, Row]]:
        query = f"SELECT {self.row_columns} FROM rows WHERE run = ? ORDER BY position"  # noqa: S608
        with plain_errors(self.file):
            needs_digest = "record" in self.database.digests(run)
            for *columns, stored_digest in self.database.execute(query, (run,)):
                row = StoredRow(*columns)
                if row.is_damaged(stored_digest, needs_digest=needs_digest):
                    raise self._damage_error(run, f"example '{row.id}' is not what lmassay wrote")
                yield row.position, row.parsed()

    def score_rows(self, run: str, *, with_test_scores: bool = False) -> Iterator[Row]:
        """Yield the rows without their texts, which is all that statistics need.

        ``with_test_scores`` adds the score on each test item (few-shot).
        """
        if with_test_scores:
            # They are stored with the details, which make up most of a large run and are otherwise not read.
            for row in self.rows(run):
                example = Example(row.example.id, {}, None, row.example.groups)
                score = Score(row.score.values, test_scores=row.score.test_scores)
                yield Row(example, row.state, score, row.error)
            return
        yield from self._in_order(run, self._single_score_rows(run), self.verified_score_batches(run))

    def score_batches(self, run: str) -> Iterator[RowBatch]:
        """Yield the batches of a run without their texts. Raises StoreError if one is damaged or missing.

        It is for runs whose examples are all in batches, see :meth:`has_single_rows`.
        """
        count = 0
        for batch in self.verified_score_batches(run):
            count += len(batch)
            yield batch
        self._check_count(run, count, self.database.digests(run))

    def _single_score_rows(self, run: str) -> Iterator[tuple[int, Row]]:
        query = (
            "SELECT id, position, state, groups, scores, error,"  # noqa: S608
            f" {self.database.outcomes_column}, {self.database.digest_column} FROM rows"
            " WHERE run = ? ORDER BY position"
        )
        with plain_errors(self.file):
            needs_digest = "record" in self.database.digests(run)
            for stored_row in self.database.execute(query, (run,)):
                example_id, position, state, groups, scores, error, outcomes, stored_digest = stored_row
                if stored_digest is None:
                    is_damaged = needs_digest
                else:
                    # The first half of a row's digest covers these columns.
                    computed = digest_of_scores(run, example_id, position, state, groups, scores, error, outcomes)
                    is_damaged = stored_digest[:DIGEST_SIZE] != computed
                if is_damaged:
                    raise self._damage_error(run, f"example '{example_id}' is not what lmassay wrote")
                score = Score(json.loads(scores), outcomes=parsed_outcomes(outcomes))
                yield position, Row(Example(example_id, {}, None, json.loads(groups)), state, score, error)

    def _check_count(self, run: str, count: int, digests: Mapping[str, str]) -> None:
        expected = digests.get("rows")
        if expected is not None and expected != str(count):
            raise self._damage_error(run, f"it has {count:,} examples instead of {int(expected):,}")

    def _damage_error(self, run: str, problem: str) -> StoreError:
        """Return the error about a damaged run; ``problem`` is a clause that says what is damaged."""
        again = command_line("resume", run, "--results", self.folder)
        return StoreError(
            f"{self.file}: the run {run} is damaged: {problem}; score the examples again from the stored answers: "
            f"{again}"
        )

    def count(self, run: str) -> dict[str, int]:
        """Return the number of rows in each state."""
        query = "SELECT state, COUNT(*) FROM rows WHERE run = ? GROUP BY state"
        with plain_errors(self.file):
            counts = {"scored": 0, "unscored": 0, "error": 0, **dict(self.database.execute(query, (run,)).fetchall())}
            counts["scored"] += self._count_in_batches(run)
        return counts

    def runs_in_batches(self) -> list[str]:
        """Return the ids of the runs that have examples in batches."""
        if not self.database.has_batches:
            return []
        with plain_errors(self.file):
            query = "SELECT DISTINCT run FROM batches ORDER BY run"
            return [run for (run,) in self.database.execute(query)]

    @property
    def row_columns(self) -> str:
        """The columns of a stored row and its digest; NULL for columns that an old store does not have."""
        return f"{ROW_COLUMNS}, {self.database.outcomes_column}, {self.database.digest_column}"


def position_of(entry: tuple[int, object]) -> int:
    """Return the position of an entry, by which rows and batches are merged."""
    return entry[0]
