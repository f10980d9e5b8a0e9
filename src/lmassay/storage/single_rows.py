"""Scored examples in the form of single rows, each with a digest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lmassay.redaction import redact
from lmassay.storage.blanking import json_without_keys
from lmassay.storage.digests import short_digest
from lmassay.types import Example, Outcome, PerTestScores, Row, Score, State, compact
from lmassay.types.json_text import from_json

ROW_COLUMNS = "run, id, position, state, inputs, reference, groups, scores, unscored, details, error"
# The key of the details under which the scores on single test items (few-shot) are stored.
_TEST_SCORES = "on_tests"
STATES = ("scored", "unscored", "error")
UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
"""The exceptions that may be raised when a damaged value is read."""


class StoredRow(NamedTuple):
    """A row of the table ``rows``. It is a tuple for speed, because there may be hundreds of thousands of them.

    ``position`` is that of the example in the data, counted from 0. The columns from ``inputs`` to ``details`` and
    ``outcomes`` are JSON.
    """

    run: str
    id: str
    position: int
    state: State
    inputs: str
    reference: str
    groups: str
    scores: str
    unscored: str
    details: str
    error: str | None
    outcomes: str | None = None

    @staticmethod
    def of(run: str, position: int, row: Row) -> StoredRow:
        """Return an example of a run in the form in which it is stored."""
        outcomes = _stored_outcomes(row.score.outcomes)
        return StoredRow(
            run,
            writable(row.example.id),
            position,
            row.state,
            json_without_keys(compact(dict(row.example.inputs))),
            json_without_keys(compact(row.example.reference)),
            json_without_keys(compact(dict(row.example.groups))),
            json_without_keys(compact(dict(row.score.values))),
            json_without_keys(compact(dict(row.score.unscored))),
            json_without_keys(compact(_stored_details(row.score))),
            None if row.error is None else writable(redact(row.error)),
            None if outcomes is None else json_without_keys(outcomes),
        )

    def parsed(self) -> Row:
        """Return the row as an example with its score."""
        example = Example(self.id, from_json(self.inputs), from_json(self.reference), from_json(self.groups))
        details = from_json(self.details)
        stored_test_scores = details.pop(_TEST_SCORES, None)
        score = Score(
            values=from_json(self.scores),
            unscored=from_json(self.unscored),
            details=details,
            outcomes=parsed_outcomes(self.outcomes),
            test_scores=None if stored_test_scores is None else PerTestScores(**stored_test_scores),
        )
        return Row(example, self.state, score, self.error)

    def digest(self) -> bytes:
        """Return two digests in one: that of the columns that statistics read, followed by that of the texts.

        So statistics can verify what they read without reading the texts.
        """
        of_scores = digest_of_scores(
            self.run, self.id, self.position, self.state, self.groups, self.scores, self.error, self.outcomes
        )
        return of_scores + short_digest(f"{self.inputs}\n{self.reference}\n{self.unscored}\n{self.details}")

    def without_secrets(self) -> StoredRow:
        """Return the row with secrets blanked out, as this version would store it."""
        return self._replace(
            inputs=json_without_keys(self.inputs),
            reference=json_without_keys(self.reference),
            groups=json_without_keys(self.groups),
            scores=json_without_keys(self.scores),
            unscored=json_without_keys(self.unscored),
            details=json_without_keys(self.details),
            error=None if self.error is None else redact(self.error),
            outcomes=None if self.outcomes is None else json_without_keys(self.outcomes),
        )

    def _can_be_parsed(self) -> bool:
        try:
            self.parsed()
        except UNREADABLE:
            return False
        return isinstance(self.id, str) and isinstance(self.position, int) and self.state in STATES

    def with_digest(self) -> tuple[Any, ...]:
        """Return all columns and the digest."""
        return (*self, self.digest())

    def is_damaged(self, stored_digest: Any, *, needs_digest: bool) -> bool:
        """Return whether the stored digest does not match; rows of old stores may have none."""
        if stored_digest is None:
            return needs_digest or not self._can_be_parsed()
        return bool(stored_digest != self.digest())


def digest_of_scores(
    run: str,
    example_id: str,
    position: int,
    state: str,
    groups: str,
    scores: str,
    error: str | None,
    outcomes: str | None,
) -> bytes:
    """Return the digest of the columns that statistics read, which is the first half of a row's digest."""
    text = f"{run}\n{example_id}\n{position}\n{state}\n{groups}\n{scores}\n{error or ''}"
    # The digest of rows without outcomes must stay the same as in schema 4, which had no outcomes.
    return short_digest(text if outcomes is None else f"{text}\n{outcomes}")


def _stored_details(score: Score) -> dict[str, Any]:
    """Return the details with the scores on single test items (few-shot), which are too rare for their own column."""
    if score.test_scores is None:
        return dict(score.details)
    return {**score.details, _TEST_SCORES: score.test_scores.as_dict()}


def writable(text: str) -> str:
    """Return a text that can be written as UTF-8; a lone surrogate is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _stored_outcomes(outcomes: Mapping[str, Sequence[Outcome]]) -> str | None:
    """Return outcomes as JSON lists, because the names of fields would take more space than the values."""
    if not outcomes:
        return None
    data: dict[str, list[tuple[str, float, float]]] = {}
    for metric, outcomes_of_metric in outcomes.items():
        data[metric] = [(outcome.label, outcome.value, outcome.rows) for outcome in outcomes_of_metric]
    return compact(data)


def parsed_outcomes(stored: str | None) -> dict[str, list[Outcome]]:
    """Read what :func:`_stored_outcomes` wrote; early versions stored no outcomes."""
    outcomes: dict[str, list[Outcome]] = {}
    if stored is not None:
        for metric, rows in json.loads(stored).items():
            outcomes[metric] = [Outcome(*values) for values in rows]
    return outcomes
