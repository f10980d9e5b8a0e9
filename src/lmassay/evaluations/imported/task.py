"""A log of a task that we do not have: its own metrics, example by example, with our intervals.

Runs of ours come back in this form, too, unless they are minimal pairs: their log says which examples belong together
and how metrics are put together, so that numbers and intervals are those of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from lmassay.contracts import Task
from lmassay.errors import DataError
from lmassay.evaluations.imported import evaluation
from lmassay.interchange.lm_eval.run_metadata import RunMetadata, UnloggedExamples
from lmassay.interchange.lm_eval.sample_logs import (
    LogSample,
    LogTotals,
    SampleLog,
    by_id,
    is_finite,
    plain_json,
    requests_digest,
    shortened,
)
from lmassay.statistics import intervals
from lmassay.statistics.combination import combination_result
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Design, Example, Request, Response, Result, Score, digest

_AGREES = 1e-6


class LoggedMetrics(Task):
    """Each example has the metrics that the harness gave it; a result is their mean, or what our run made of them."""

    name = "lm_eval"
    version = 1
    evaluation = evaluation

    def __init__(
        self, log: SampleLog, imported: Mapping[str, str], totals: LogTotals | None = None, notes: Sequence[str] = ()
    ) -> None:
        self._log, self._imported, self._totals, self._told = log, imported, totals, notes
        self._ours = totals.ours if totals else RunMetadata()
        self._absent = UnloggedExamples([self._ours])
        self.label = log.task

    @property
    def design(self) -> Design:  # type: ignore[override]  # the log says
        headline = tuple(name for name in self._ours.headline if name in self._reported) or self._reported
        clusters = (self._cluster,) if self._cluster else ()
        return Design(clusters=clusters, headline=headline, combinations=self._ours.combinations)

    @cached_property
    def _cluster(self) -> str | None:
        """What the samples name: examples that belong together do not count as so many."""
        first = self._log.samples[0].ours.get("cluster")
        for sample in self._log.samples:
            name = sample.ours.get("cluster")
            if name != first or (name is not None and not (isinstance(name, str) and name in _groups_of(sample))):
                raise DataError(
                    f"{sample.where}: the cluster {shortened(name)} is no group of this sample, or not that of all"
                )
        return first

    def check(self) -> None:
        if not self._reported:
            names = ", ".join(self._log.samples[0].metrics) or "none"
            raise DataError(f"{self._log.path} has no metric that is one number an example (its metrics: {names})")
        for sample in self._log.samples:
            self._scores(sample)
        self._absent.require_apart(self._logged)

    def notes(self) -> list[str]:
        told = [self._whose(), *self._told, *self._absent.notes(len(self._log.samples))]
        if self._left_out:
            told.append(f"left out, as they are not one number an example: {', '.join(self._left_out)}")
        return [*told, *self._other_totals()]

    def size(self) -> int:
        return len(self._log.samples) + len(self._absent)

    def examples(self) -> Iterator[Example]:
        for name, sample in self._logged.items():
            prompt = str(sample.asked[0][0]) if sample.asked and sample.asked[0] else ""
            inputs = {"prompt": prompt, "doc": sample.doc, "doc_id": sample.doc_id}
            yield Example(name, inputs, sample.target, _groups_of(sample))
        for left in self._absent:
            yield Example(left.id, {"doc": left.doc}, left.target, left.groups)
        yield from self._absent.last()

    def requests(self, example: Example) -> Sequence[Request]:
        """None about a sample: the log has judged already."""
        return self._absent.requests(example.id) if example.id in self._absent else []

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [
            self._absent.score(example.id) if example.id in self._absent else self._judged(self._logged[example.id])
            for example in examples
        ]

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        return [self._result(table, metric, settings) for metric in self._reported]

    def signature(self) -> Mapping[str, Any]:
        """Documents and questions, not the answers: two models' runs must not differ in more than the model."""
        samples = self._log.samples
        known = {"data": digest([[s.doc, s.target] for s in samples])[:8], "prompt": requests_digest(samples)}
        return {
            "logged": self._log.task,
            "filter": self._log.filter,
            **(self._ours.depends_on or known),
            **self._imported,
        }

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _logged(self) -> dict[str, LogSample]:
        """Samples by an id that comes from task and document, so that two models' runs pair and two tasks' do not."""
        task = self._log.task
        return by_id(
            (str(sample.ours.get("id") or digest(task, sample.doc)[:16]), sample.doc_id, sample)
            for sample in self._log.samples
        )

    def _result(self, table: ScoreTable, metric: str, settings: Settings) -> Result:
        import numpy as np

        combination = self._ours.combinations.get(metric)
        if combination is None:
            return intervals.mean_result(table, metric, settings, cluster=self._cluster)
        everywhere = np.ones(len(table), dtype=bool)
        return combination_result(
            table, metric, combination, settings, group="overall", where=everywhere, cluster=self._cluster
        )

    def _judged(self, sample: LogSample) -> Score:
        return Score(self._scores(sample), details={"answer": _answer(sample)})

    @cached_property
    def _reported(self) -> tuple[str, ...]:
        """What a run of ours puts first, all metrics of the log, and what is put together from scores."""
        known = dict.fromkeys([*self._metrics, *self._ours.combinations])
        return tuple(dict.fromkeys([*(name for name in self._ours.headline if name in known), *known]))

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

    def _scores(self, sample: LogSample) -> dict[str, float]:
        scores = {m: sample.metrics[m] for m in self._metrics if m in sample.metrics}
        # Scores that a task of ours reports nothing of, though it may need them to put a metric together.
        own = sample.ours.get("scores")
        scores |= own if isinstance(own, dict) else {}
        for metric, value in scores.items():
            if not isinstance(value, int | float) or not is_finite(value):
                raise DataError(f"{sample.where}: {metric} is {shortened(value)}; a score must be a finite number")
        return {metric: float(value) for metric, value in scores.items()}

    def _whose(self) -> str:
        if not self._ours.task:
            names = ", ".join(self._metrics)
            return f"there is no task of ours for {self._log.task}: shown are its own metrics ({names})"
        left = f", {', '.join(self._ours.not_carried)}" if self._ours.not_carried else ""
        return (
            f"{self._log.task} is the log of a {self._ours.task} run: shown are its metrics over all examples; "
            f"what a log does not hold: results by group{left}"
        )

    def _other_totals(self) -> Iterator[str]:
        """Metrics that the harness does not average: its total is another number."""
        for metric, total in (self._totals.means if self._totals else {}).items():
            if metric not in self._metrics or metric in self._ours.combinations:
                continue
            values = [sample.metrics[metric] for sample in self._log.samples if metric in sample.metrics]
            if values and abs(sum(values) / len(values) - total) > _AGREES:
                yield f"the harness's own {metric} is {total:.6g}, which is not the mean over examples shown here"


def _groups_of(sample: LogSample) -> dict[str, str]:
    groups = sample.ours.get("groups")
    return {str(k): str(v) for k, v in groups.items()} if isinstance(groups, dict) else {}


def _answer(sample: LogSample) -> Any:
    """What was answered, as a reader wants to see it."""
    texts = sample.texts()
    if texts is not None:
        return texts[0] if len(texts) == 1 else texts
    numbers = sample.log_likelihoods()
    if numbers is None:
        return plain_json(list(sample.answers))
    return [{"continuation": r[1], "logprob": n} for r, n in zip(sample.asked, numbers, strict=True)]
