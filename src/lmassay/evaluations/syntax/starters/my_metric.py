"""Your own metric on a built-in task: the share of pairs whose good sentence is clearly preferred.

    lmassay run my_metric.yaml

The metrics of a task are the numbers that ``score`` gives each example. Declare the new one in ``metrics``: its mean is
reported with an interval, and comparisons, exports and the report include it. Rename the task and add the option to its
signature, so that results show which task and which threshold they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lmassay import Example, Metric, Response, Score
from lmassay.evaluations.syntax.sentences import MinimalPairs
from lmassay.evaluations.syntax.sources import DataSpec


class ClearPairs(MinimalPairs):
    """Accuracy over minimal pairs, and ``clear``: the good sentence is more than e^``nats`` times as probable."""

    name = "clear_pairs"
    metrics = (Metric("clear", "good sentence clearly preferred", bounds=(0, 1), verdict=True),)
    # The metrics that tables and comparisons show first.
    design = replace(MinimalPairs.design, headline=("accuracy", "clear", "accuracy_token"))

    def __init__(
        self, data: DataSpec, nats: float = 2.0, max_per_file: int | None = None, base_dir: Path = Path()
    ) -> None:
        super().__init__(data, max_per_file=max_per_file, label=f"by {nats:g} nats", base_dir=base_dir)
        self.nats = nats

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [self.with_clear(score) for score in super().score(examples, responses)]

    def with_clear(self, score: Score) -> Score:
        if "margin" not in score.values:  # a missing score needs a reason
            return replace(score, unscored={**score.unscored, "clear": "the pair has no margin"})
        return replace(score, values={**score.values, "clear": float(score.values["margin"] > self.nats)})

    def signature(self) -> Mapping[str, object]:
        return {**super().signature(), "nats": self.nats}
