"""Reads and verifies the examples of a run: single rows and batches together, in the order of the data."""

from __future__ import annotations

import heapq
import itertools
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lmassay.errors import DamageError
from lmassay.redaction import excerpt, redact
from lmassay.storage import digests
from lmassay.storage.batches import (
    BATCH_QUERY,
    BATCHES_QUERY,
    SCORES_QUERY,
    StoredBatch,
    StoredScores,
    positions_text,
)
from lmassay.storage.blanking import batch_without_keys, json_without_keys
from lmassay.storage.database import Database, one_line, plain_errors
from lmassay.storage.digests import SHORT_SIZE, decoded_cell
from lmassay.storage.provenance import command_line
from lmassay.storage.single_rows import (
    ROW_COLUMNS,
    STATES,
    UNREADABLE,
    StoredRow,
    digest_of_scores,
    parsed_outcomes,
)
from lmassay.types import Example, Row, RowBatch, RunRecord, Score
from lmassay.types.json_text import from_json
from lmassay.types.wording import counted

_MAX_ID_LENGTH = 80


class RowReader:
    """Reads the examples of the runs in a results folder."""

    def __init__(self, database: Database, *, for_display: bool = False) -> None:
        """Read from an open database.

        With ``for_display``, all API keys that the process knows are blanked out of everything that is read, except the
        ids of examples.
        """
        self.database = database
        self.for_display = for_display
        self.file = database.file
        self.folder = database.folder

    # --- errors of damaged files ----------------------------------------------------------------------------------

    @contextmanager
    def reading(self, run: str) -> Iterator[None]:
        """Convert errors that SQLite or a parser raises because of a damaged file to a DamageError about the run.

        All code that reads the examples of a run must be within this context.
        """
        try:
            with plain_errors(self.file):
                yield
        except DamageError as error:
            if error.__cause__ is None:
                # This is not an error of SQLite but of a verification by lmassay, whose message already names the run.
                raise
            repair = command_line("doctor", "--results", self.folder, "--fix")
            problem = one_line(error.__cause__)
            message = f"{self.file}: the run {run} is damaged: {problem}; `{repair}` saves what can be read"
            raise DamageError(message, problem) from error.__cause__
        except UNREADABLE as error:
            raise self.damage_error(run, f"it cannot be read ({one_line(error)})") from error

    def damage_error(self, run: str, problem: str) -> DamageError:
        """Return the error about a damaged run; ``problem`` is a clause that says what is damaged."""
        again = command_line("resume", run, "--results", self.folder)
        message = (
            f"{self.file}: the run {run} is damaged: {problem}; score the examples again from the stored answers: "
            f"{again}"
        )
        return DamageError(message, problem)

    def parsed_row(self, row: StoredRow) -> Row:
        """Return a row, which must not be damaged, as an example with its score."""
        return (row.without_secrets() if self.for_display else row).parsed()

    def shown_json(self, text: str) -> str:
        """Return stored JSON; if the store was opened for display, with API keys blanked out."""
        return json_without_keys(text) if self.for_display else text

    def damage_of(self, run: str) -> DamageError | None:
        """Verify all examples of a run, and return an error about the first damage; None if there is none."""
        try:
            with self.reading(run):
                for row, is_damaged in self.single_rows(run):
                    if is_damaged:
                        raise self.example_error(run, row.id)
                for batch in self.stored_batches(run):
                    if batch.is_damaged():
                        raise self._batch_error(run, batch)
                for example_id, _, is_damaged in self.stored_keys(run):
                    if is_damaged:
                        raise self.example_error(run, example_id)
                self.check_counts(run)
        except DamageError as error:
            return error
        return None

    def rows_are_whole(self, run: str) -> bool:
        """Return whether no row of a run is missing or damaged."""
        return self.damage_of(run) is None

    def needs_digests(self, run: str) -> bool:
        """Return whether all examples of a run must have digests.

        Examples that were recorded before schema 4 have none, until the store is updated to the current schema, which
        happens when something is written to it.
        """
        return self.database.has_all_digests or digests.RECORD in self.database.digests(run)

    def example_error(self, run: str, example_id: object) -> DamageError:
        """Return the error about a damaged example."""
        shown_id = excerpt(decoded_cell(example_id), _MAX_ID_LENGTH)
        return self.damage_error(run, f"example '{shown_id}' is not what lmassay wrote")

    def _batch_error(self, run: str, batch: StoredBatch | StoredScores) -> DamageError:
        positions = positions_text(batch.first, batch.examples)
        return self.damage_error(run, f"{positions} are not what lmassay wrote")

    def check_counts(self, run: str) -> None:
        """Raise DamageError if the numbers of examples are not those from which the results were computed.

        For a run without results, only the states of the examples are checked.
        """
        self._check_counts(run, self._counts(run))

    def _check_counts(self, run: str, counts: Mapping[str, int]) -> None:
        expected = self.database.digests(run).get(digests.ROWS)
        if expected is None:
            if not set(counts) <= {*STATES, digests.ASKED}:
                raise self.damage_error(run, "the states of its examples are not what lmassay wrote")
        elif not digests.counts_match(expected, counts):
            total = digests.total_of(counts)
            self._check_total(run, total)
            raise self.damage_error(run, "the states or requests of its examples are not what lmassay wrote")

    def _check_total(self, run: str, total: int) -> None:
        """Raise DamageError if the number of examples differs from the recorded one. Without a record, do nothing."""
        stored = self.database.digests(run).get(digests.ROWS)
        if stored is None:
            return
        expected = digests.expected_total(stored)
        if expected is None:
            raise self.damage_error(run, "the number of its examples cannot be read")
        if expected != total:
            raise self.damage_error(run, f"it has {counted(total, 'example')} instead of {expected:,}")

    # --- counts ---------------------------------------------------------------------------------------------------

    def count(self, run: str) -> dict[str, int]:
        """Return the number of rows in each state. Raises DamageError if the numbers differ from the recorded ones."""
        with self.reading(run):
            counts = self._counts(run)
            self._check_counts(run, counts)
        return {state: counts[state] for state in STATES}

    def recorded_counts(self, run: str) -> dict[str, int]:
        """Return the number of rows in each state as it was recorded with the results, without counting them again.

        A run without results, or with results of an early version, is counted.
        """
        recorded = self.database.digests(run).get(digests.ROWS)
        if recorded is None or recorded.isdigit():
            return self.count(run)
        with self.reading(run):
            counts = json.loads(recorded)
            return {state: int(counts[state]) for state in STATES}

    def counts_text(self, run: str) -> str:
        """Return the current numbers of examples as the text that is recorded with the results."""
        return digests.counts_text(self._counts(run))

    def _counts(self, run: str) -> dict[str, int]:
        """Count the examples in each state, and under the key ``ASKED`` those whose requests are recorded."""
        counts = dict.fromkeys(STATES, 0)
        query = "SELECT state, COUNT(*) FROM rows WHERE run = ? GROUP BY state"
        for state, number in self.database.execute(query, (run,)):
            counts[state] = number
        for positions in self.finished_positions(run):
            counts["scored"] += len(positions)
        counts[digests.ASKED] = 0
        if self.database.has_asked:
            query = "SELECT COUNT(*) FROM asked WHERE run = ?"
            (counts[digests.ASKED],) = self.database.execute(query, (run,)).fetchone()
        return counts

    def errors(self, run: str, limit: int = 3) -> list[tuple[str, int]]:
        """Return the most frequent errors of a run's examples, with their counts."""
        with self.reading(run):
            counts = Counter(row.error or "" for _, row in self.single_score_rows(run, "state = 'error'"))
        return sorted(counts.items(), key=_by_frequency)[:limit]

    def unscored_reasons(self, record: RunRecord) -> list[tuple[str, int]]:
        """Return the reasons why examples have no score, with the number of examples, the most frequent first.

        For an example without any score, the reasons of all metrics count; for others, only those of the headline
        metrics. If an example has several reasons, they are joined by semicolons and count as one.
        """
        if record.results and not any(result.n_unscored for result in record.results):
            return []
        run = record.id
        counts: Counter[str] = Counter()
        with self.reading(run):
            for row, is_damaged in self.single_rows(run, "unscored != '{}'"):
                if is_damaged:
                    raise self.example_error(run, row.id)
                reasons = dict(json.loads(self.shown_json(row.unscored)))
                if row.state != "unscored" and record.design.headline:
                    reasons = {metric: reasons[metric] for metric in reasons if metric in record.design.headline}
                if reasons:
                    distinct_reasons = dict.fromkeys(reasons.values())
                    counts["; ".join(distinct_reasons)] += 1
        return sorted(counts.items(), key=_by_frequency)

    # --- which examples are there ---------------------------------------------------------------------------------

    def finished_ids(self, run: str) -> set[str]:
        """Return the ids of examples that need no further work. Examples with errors are not among them."""
        query = "SELECT id FROM rows WHERE run = ? AND state != 'error'"
        with self.reading(run):
            ids = {example_id for (example_id,) in self.database.execute(query, (run,))}
        for batch in self.verified_score_batches(run):
            ids.update(batch.ids)
        return ids

    def finished_positions(self, run: str) -> list[range]:
        """Return the positions of the examples that are stored in batches: one range for each batch, in order."""
        positions = []
        with self.reading(run):
            for batch in self._stored_scores(run):
                if batch.is_damaged():
                    raise self._batch_error(run, batch)
                positions.append(range(batch.first, batch.first + batch.examples))
        return positions

    def has_single_rows(self, run: str) -> bool:
        """Return whether a run has examples that are not stored in batches."""
        with self.reading(run):
            return self.database.execute("SELECT 1 FROM rows WHERE run = ? LIMIT 1", (run,)).fetchone() is not None

    # --- examples -------------------------------------------------------------------------------------------------

    def single_rows(
        self, run: str, condition: str = "TRUE", values: Sequence[Any] = (), *, first: int = 0, count: int = -1
    ) -> Iterator[tuple[StoredRow, bool]]:
        """Yield the rows of a run as they are stored, each with whether it is damaged, in the order of the data.

        ``condition`` is an SQL condition, ``values`` are the values of its placeholders. Of the rows that match it, the
        first ``first`` are skipped, and up to ``count`` are yielded (by default, all).
        """
        needs_digest = self.needs_digests(run)
        matching = f"FROM rows WHERE run = ? AND {condition} ORDER BY position LIMIT ? OFFSET ?"
        query = f"SELECT {self.row_columns} {matching}"
        for *columns, stored_digest in self.database.execute(query, (run, *values, count, first)):
            row = StoredRow(*columns)
            yield row, row.is_damaged(stored_digest, needs_digest=needs_digest)

    def stored_keys(self, run: str) -> Iterator[tuple[str, str, bool]]:
        """Yield the id of each example, the cache keys of its answers as JSON, and whether these are damaged."""
        if not self.database.has_asked:
            return
        query = f"SELECT id, keys, {self.database.asked_digest_column} FROM asked WHERE run = ?"  # noqa: S608
        for example_id, keys, stored_digest in self.database.execute(query, (run,)):
            is_damaged = stored_digest != digests.keys_digest(run, example_id, keys)
            if not self.database.has_all_digests:
                is_damaged = False
            yield example_id, keys, is_damaged

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
        """Yield the batches of a run. Raises DamageError if one is damaged."""
        return self._verified_batches(run, self.stored_batches(run))

    def verified_score_batches(self, run: str) -> Iterator[RowBatch]:
        """Yield the batches of a run without their texts, and without checking whether some are missing."""
        return self._verified_batches(run, self._stored_scores(run))

    def batch_at(self, run: str, first: int) -> RowBatch:
        """Return the batch that begins at a position. Raises DamageError if it is damaged."""
        (batch,) = self._verified_batches(run, self._stored_batch(run, first))
        return batch

    def _verified_batches(self, run: str, batches: Iterable[StoredBatch | StoredScores]) -> Iterator[RowBatch]:
        with self.reading(run):
            for batch in batches:
                if batch.is_damaged():
                    raise self._batch_error(run, batch)
                parsed = batch.parsed()
                yield batch_without_keys(parsed) if self.for_display else parsed

    def rows(self, run: str) -> Iterator[Row]:
        """Yield all rows of a run in the order of its data. Raises DamageError if one is damaged or missing."""
        return self._in_order(run, self._parsed_single_rows(run), self.batches(run))

    def selected_rows(self, run: str, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of a run with these numbers, in the order of its data. If possible, others are not read.

        ``numbers`` must be sorted; they count the rows that :meth:`rows` yields from 0.
        """
        batches = self.finished_positions(run)
        if not batches:
            yield from self._selected_single_rows(run, numbers)
            return
        if self.has_single_rows(run):
            # A run that was resumed after damage has both single rows and batches. Then the number of a row is known
            # only after all rows before it have been read.
            selected_numbers = set(numbers)
            for number, row in enumerate(self.rows(run)):
                if number in selected_numbers:
                    yield row
            return
        start = 0
        for positions in batches:
            low = bisect_left(numbers, start)
            high = bisect_left(numbers, start + len(positions))
            if low < high:
                batch = self.batch_at(run, positions.start)
                yield from batch.selected([number - start for number in numbers[low:high]]).rows()
            start += len(positions)

    def _selected_single_rows(self, run: str, numbers: Sequence[int]) -> Iterator[Row]:
        """Yield the rows with these numbers. Consecutive rows are read with one query."""
        with self.reading(run):
            for _, group in itertools.groupby(enumerate(numbers), key=_start_of_sequence):
                consecutive = [number for _, number in group]
                for row, is_damaged in self.single_rows(run, first=consecutive[0], count=len(consecutive)):
                    if is_damaged:
                        raise self.example_error(run, row.id)
                    yield self.parsed_row(row)

    def row_called(self, run: str, example_id: str) -> Row | None:
        """Return the row of the example with this id; None if there is none."""
        with self.reading(run):
            for row, is_damaged in self.single_rows(run, "id = ?", (example_id,)):
                if is_damaged:
                    raise self.example_error(run, row.id)
                return self.parsed_row(row)
        for scores in self.verified_score_batches(run):
            ids = list(scores.ids)
            if example_id in ids:
                (batch,) = self._verified_batches(run, self._stored_batch(run, scores.first))
                return next(batch.selected([ids.index(example_id)]).rows())
        return None

    def _in_order(self, run: str, single_rows: Iterable[tuple[int, Row]], batches: Iterable[RowBatch]) -> Iterator[Row]:
        """Yield single rows and the rows of batches in the order of the data; raise DamageError if some are missing."""
        count = 0
        for _, row in heapq.merge(single_rows, _rows_of_batches(batches), key=position_of):
            count += 1
            yield row
        with self.reading(run):
            self._check_total(run, count)

    def _parsed_single_rows(self, run: str) -> Iterator[tuple[int, Row]]:
        with self.reading(run):
            for row, is_damaged in self.single_rows(run):
                if is_damaged:
                    raise self.example_error(run, row.id)
                yield row.position, self.parsed_row(row)

    def score_rows(self, run: str, *, with_test_scores: bool = False) -> Iterator[Row]:
        """Yield the rows without their texts, because statistics need only ids, groups and scores.

        ``with_test_scores`` adds the score on each test item (few-shot).
        """
        if with_test_scores:
            # They are stored in the column with the details, which is most of a large run and is otherwise not read.
            for row in self.rows(run):
                example = Example(row.example.id, {}, None, row.example.groups)
                score = Score(row.score.values, test_scores=row.score.test_scores)
                yield Row(example, row.state, score, row.error)
            return
        yield from self._in_order(run, self.single_score_rows(run), self.verified_score_batches(run))

    def score_batches(self, run: str) -> Iterator[RowBatch]:
        """Yield the batches of a run without their texts. Raises DamageError if one is damaged or missing.

        All examples of the run must be in batches: see :meth:`has_single_rows`.
        """
        count = 0
        for batch in self.verified_score_batches(run):
            count += len(batch)
            yield batch
        with self.reading(run):
            self._check_total(run, count)

    def single_score_rows(self, run: str, condition: str = "TRUE") -> Iterator[tuple[int, Row]]:
        """Yield the rows that are not in batches, with their positions and without their texts."""
        query = (
            "SELECT id, position, state, groups, scores, error,"  # noqa: S608
            f" {self.database.outcomes_column}, {self.database.digest_column} FROM rows"
            f" WHERE run = ? AND {condition} ORDER BY position"
        )
        with self.reading(run):
            needs_digest = self.needs_digests(run)
            for stored_row in self.database.execute(query, (run,)):
                example_id, position, state, groups, scores, error, outcomes, stored_digest = stored_row
                if stored_digest is None:
                    is_damaged = needs_digest or state not in STATES or not isinstance(position, int)
                else:
                    # The first half of a row's digest covers these columns.
                    computed = digest_of_scores(run, example_id, position, state, groups, scores, error, outcomes)
                    is_damaged = stored_digest[:SHORT_SIZE] != computed
                if is_damaged:
                    raise self.example_error(run, example_id)
                shown_outcomes = None if outcomes is None else self.shown_json(outcomes)
                score = Score(from_json(self.shown_json(scores)), outcomes=parsed_outcomes(shown_outcomes))
                example = Example(example_id, {}, None, from_json(self.shown_json(groups)))
                yield position, Row(example, state, score, redact(error) if error and self.for_display else error)

    def runs_in_batches(self) -> list[str]:
        """Return the ids of the runs that have examples in batches."""
        if not self.database.has_batches:
            return []
        with plain_errors(self.file):
            query = "SELECT DISTINCT CAST(run AS BLOB) FROM batches ORDER BY run"
            return [decoded_cell(run) for (run,) in self.database.execute(query)]

    @property
    def row_columns(self) -> str:
        """The columns of a stored row and its digest; NULL for columns that an old store does not have."""
        return f"{ROW_COLUMNS}, {self.database.outcomes_column}, {self.database.digest_column}"


def _rows_of_batches(batches: Iterable[RowBatch]) -> Iterator[tuple[int, Row]]:
    """Yield the rows of batches with their positions."""
    for batch in batches:
        yield from enumerate(batch.rows(), start=batch.first)


def _start_of_sequence(indexed_number: tuple[int, int]) -> int:
    """Return a key that is the same for all numbers of a sequence without gaps, for ``itertools.groupby``."""
    index, number = indexed_number
    return number - index


def _by_frequency(text_and_count: tuple[str, int]) -> tuple[int, str]:
    """Return a sort key that puts the most frequent texts first, and equally frequent ones in alphabetical order."""
    text, count = text_and_count
    return -count, text


def position_of(entry: tuple[int, object]) -> int:
    """Return the position of an entry: the key by which sorted rows and batches are merged."""
    return entry[0]
