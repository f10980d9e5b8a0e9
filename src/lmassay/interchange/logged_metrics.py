"""A log of a task that we do not have: its own metrics, example by example, with our intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from lmassay import stats
from lmassay.errors import DataError
from lmassay.interchange.lm_eval_log import Log, Sample, Totals, plain_json
from lmassay.stats import Settings
from lmassay.table import ScoreTable
from lmassay.types import Example, Request, Response, Result, Score, digest

_AGREES = 1e-6


class LoggedMetrics:
    """Each example has the metrics that the harness gave it; a result is their mean."""

    name = "lm_eval"
    version = 1
    needs: frozenset[str] = frozenset()

    def __init__(
        self, log: Log, imported: Mapping[str, str], totals: Totals | None = None, notes: Sequence[str] = ()
    ) -> None:
        self._log, self._imported, self._totals, self._told = log, imported, totals, notes
        self.label = log.task

    @property
    def headline(self) -> tuple[str, ...]:
        return tuple(self._metrics)

    def check(self) -> None:
        if not self._metrics:
            names = ", ".join(self._log.samples[0].metrics) or "none"
            raise DataError(f"{self._log.path} has no metric that is one number an example (its metrics: {names})")
        for sample in self._log.samples:
            self._scores(sample)

    def notes(self) -> list[str]:
        told = [
            f"there is no task of ours for {self._log.task}: shown are its own metrics ({', '.join(self._metrics)})",
            *self._told,
        ]
        if self._left_out:
            told.append(f"left out, as they are not one number an example: {', '.join(self._left_out)}")
        return [*told, *self._other_totals()]

    def size(self) -> int:
        return len(self._log.samples)

    def examples(self) -> Iterator[Example]:
        for name, sample in self._logged.items():
            prompt = str(sample.asked[0][0]) if sample.asked and sample.asked[0] else ""
            inputs = {"prompt": prompt, "doc": sample.doc, "doc_id": sample.doc_id}
            groups = sample.ours.get("groups")
            labels = {str(k): str(v) for k, v in groups.items()} if isinstance(groups, dict) else {}
            yield Example(name, inputs, sample.target, labels)

    def requests(self, example: Example) -> Sequence[Request]:
        """None: the log has judged already."""
        return []

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [
            Score(self._scores(sample), details={"answer": _answer(sample)})
            for sample in (self._logged[example.id] for example in examples)
        ]

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        return [stats.mean_result(table, metric, settings) for metric in self._metrics]

    def signature(self) -> Mapping[str, Any]:
        log = self._log
        return {"logged": log.task, "filter": log.filter, "data": log.sha256[:8], **self._imported}

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _logged(self) -> dict[str, Sample]:
        """Samples by an id that comes from task and document, so that two models' runs pair and two tasks' do not."""
        found: dict[str, Sample] = {}
        for sample in self._log.samples:
            key = str(sample.ours.get("id") or digest(self._log.task, sample.doc)[:16])
            found[f"{key}-{sample.doc_id}" if key in found else key] = sample
        return found

    @cached_property
    def _metrics(self) -> list[str]:
        names = dict.fromkeys(name for sample in self._log.samples for name in sample.metrics)
        return [name for name in names if name not in self._left_out]

    @cached_property
    def _left_out(self) -> list[str]:
        return list(
            dict.fromkeys(
                name
                for sample in self._log.samples
                for name, value in sample.metrics.items()
                if not isinstance(value, int | float)
            )
        )

    def _scores(self, sample: Sample) -> dict[str, float]:
        scores = {m: float(sample.metrics[m]) for m in self._metrics if m in sample.metrics}
        for metric, value in scores.items():
            if not math.isfinite(value):
                raise DataError(f"{sample.where}: {metric} is {value}; a score must be a finite number")
        return scores

    def _other_totals(self) -> Iterator[str]:
        """Metrics that the harness does not average: its total is another number."""
        for metric, total in (self._totals.means if self._totals else {}).items():
            values = [sample.metrics[metric] for sample in self._log.samples if metric in sample.metrics]
            if metric in self._metrics and values and abs(sum(values) / len(values) - total) > _AGREES:
                yield f"the harness's own {metric} is {total:.6g}, which is not the mean over examples shown here"


def _answer(sample: Sample) -> Any:
    """What was answered, as a reader wants to see it."""
    texts = sample.texts()
    if texts is not None:
        return texts[0] if len(texts) == 1 else texts
    numbers = sample.log_likelihoods()
    if numbers is None:
        return plain_json(list(sample.answers))
    return [{"continuation": r[1], "logprob": n} for r, n in zip(sample.asked, numbers, strict=True)]
