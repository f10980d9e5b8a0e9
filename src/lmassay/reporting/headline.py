"""The one number that an evaluation puts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.contracts import Evaluation
from lmassay.plugins.evaluations import metric_of
from lmassay.types import Better, Metric, Result, RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What an evaluation says about a model. ``records`` are the runs it was computed from.

    ``scope`` is what it was computed over and ``beside`` what else to know about this model; ``meaning`` and
    ``limits`` hold for every model. Title and meaning are the metric's own unless given.
    """

    evaluation: Evaluation
    metric: str
    result: Result
    scope: str
    records: Sequence[RunRecord]
    beside: Sequence[str] = ()
    title: str = ""
    meaning: str = ""
    limits: str = ""
    comparison_note: str = ""
    """What to know about the difference of two models in this number."""
    unfinished_runs: Sequence[RunRecord] = ()
    """Runs of the same question that have no results."""

    @property
    def about(self) -> Metric:
        """The metric as it was declared."""
        return metric_of(self.records[0], self.metric)

    @property
    def model(self) -> str:
        return self.records[0].model

    @property
    def question(self) -> str:
        return self.evaluation.question

    @property
    def shown_title(self) -> str:
        return self.title or self.about.shown_as

    @property
    def shown_meaning(self) -> str:
        return self.meaning or self.about.meaning

    @property
    def better(self) -> Better:
        return self.about.better

    @property
    def explanation(self) -> str:
        """What the number means and what it does not tell, in one text."""
        return " ".join(text for text in (self.shown_meaning, self.limits) if text)

    @property
    def unfinished(self) -> list[str]:
        runs = (*self.records, *self.unfinished_runs)
        return [f"{record.label}: {record.status}" for record in runs if record.status != "done"]


def first_of_each(headlines: Sequence[Headline]) -> list[Headline]:
    """One headline for each number that is shown, whatever model it is of."""
    first: dict[tuple[str, str], Headline] = {}
    for headline in headlines:
        first.setdefault((headline.evaluation.name, headline.metric), headline)
    return list(first.values())


def value_with_interval(result: Result | None) -> str:
    """A number in running text: two digits, with its interval or its n."""
    if result is None or result.value is None:
        return "no data"
    if result.low is None or result.high is None:
        return f"{result.value:.2f} (n = {result.n})"
    return f"{result.value:.2f} [{result.low:.2f}, {result.high:.2f}]"


def counted(count: int, noun: str) -> str:
    """``1 attack``, ``2 attacks``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
