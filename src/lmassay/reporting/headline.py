"""One number that an evaluation puts first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lmassay.reporting.card_ways import QUESTIONS
from lmassay.storage.store import RunRecord
from lmassay.types import Result


@dataclass(frozen=True, slots=True)
class Headline:
    """What an evaluation says of a model. ``records`` are the runs it was computed from.

    ``scope`` is what it was computed over and ``beside`` what else to know of this model; ``meaning`` and ``limits``
    hold for every model.
    """

    evaluation: str
    model: str
    metric: str
    title: str
    better: Literal["lower", "higher", "zero"]
    result: Result
    scope: str
    beside: Sequence[str]
    meaning: str
    limits: str
    records: Sequence[RunRecord]
    wanting: Sequence[RunRecord] = ()
    """Runs of the same question that have no results."""

    @property
    def question(self) -> str:
        return QUESTIONS[self.evaluation]

    @property
    def unfinished(self) -> list[str]:
        return [
            f"{record.label}: {record.status}" for record in (*self.records, *self.wanting) if record.status != "done"
        ]


def first_of_each(found: Sequence[Headline]) -> list[Headline]:
    """One headline for each number that is told, whatever model it is of."""
    return list({(headline.evaluation, headline.metric): headline for headline in reversed(found)}.values())[::-1]
