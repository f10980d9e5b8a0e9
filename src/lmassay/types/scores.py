"""The scores of single examples, and the results that they are aggregated into."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lmassay.types.requests import Example

State = Literal["scored", "unscored", "error"]
"""The state of an example: it has a score; it cannot be scored, for a stated reason; or the model failed to answer."""

OVERALL = "overall"
"""The group of results that cover all examples."""


@dataclass(frozen=True, slots=True)
class PerTestScores:
    """Scores on single test items, for tasks in which each example is a training and is scored on a whole test set."""

    tests: str
    """A digest of the test set. Only scores on the same tests, in the same order, can be paired."""
    scores: Mapping[str, Sequence[float | None]]
    """A dict from metric to one score per test item; None for an item without a usable answer."""
    groups: Sequence[int] = ()
    """The number of the group to which each test item belongs, such as its passage; empty if items are independent."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        scores = {metric: list(values) for metric, values in self.scores.items()}
        return {"tests": self.tests, "scores": scores, "groups": list(self.groups)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The mean of a metric over those rows of an example that share a label, such as one pair of verbs."""

    label: str
    """What these rows have in common with rows of other examples, such as the name of the pair of verbs."""
    value: float
    """The mean of the metric over these rows."""
    rows: float = 1.0
    """The number of rows."""


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of one example: for each metric a number, or the reason why there is none. Values are never NaN."""

    values: Mapping[str, float] = field(default_factory=dict)
    """A dict from metric to score."""
    unscored: Mapping[str, str] = field(default_factory=dict)
    """A dict from metric to the reason why the example has no score."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further values for the report, as plain JSON."""
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    """For metrics in ``Design.crossed``: a dict from metric to one outcome for each label. The mean over the outcomes,
    weighted by their rows, must equal the metric's value. Only intervals and comparisons use the outcomes; tables and
    pages show the value."""
    test_scores: PerTestScores | None = None
    """For a task with ``Design.replicates``: the single scores whose means are in ``values``."""


@dataclass(frozen=True, slots=True)
class Row:
    """One example of a run with its state and its score or error, as it is stored."""

    example: Example
    state: State
    score: Score = field(default_factory=Score)
    """The score; empty if the state is ``error``."""
    error: str | None = None
    """The message of the error if the state is ``error``, otherwise None."""


@dataclass(frozen=True, slots=True)
class Result:
    """A metric over a group of examples: the value, its confidence interval and the number of examples."""

    metric: str
    """The name of the metric."""
    group: str
    """The group of examples, such as ``overall`` or ``category=Age``."""
    value: float | None
    """The value; None if no example has a score."""
    low: float | None
    """The lower end of the interval; None if there is no interval."""
    high: float | None
    """The upper end of the interval; None if there is no interval."""
    n: int
    """The number of scored examples."""
    n_error: int = 0
    """The number of examples that the model failed to answer."""
    n_unscored: int = 0
    """The number of examples that could not be scored."""
    method: str = ""
    """How the interval was computed, such as ``wilson/template`` (clustered by template), or why there is none."""
    clusters: Mapping[str, int] = field(default_factory=dict)
    """The number of clusters, such as ``{"noun": 10, "verb_pair": 2}``; empty if examples are independent."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON, without an empty method and without empty clusters."""
        data = dataclasses.asdict(self)
        # Results of early versions have neither field, and many results have no clusters.
        for name in ("method", "clusters"):
            if not data[name]:
                del data[name]
        return data
