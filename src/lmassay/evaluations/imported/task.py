"""The task for logs that no other task can score: it takes the metrics of each example from the log.

The intervals are computed by lmassay. Runs that lmassay exported are restored by this task, too, except runs on minimal
pairs. The log of an exported run says which examples belong together and how metrics are combined, so numbers and
intervals are the same as in the original run.
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

# The harness and lmassay may round differently. A larger difference means that the harness's total is not a mean.
_TOTAL_TOLERANCE = 1e-6


class LoggedMetrics(Task):
    """Takes the metrics of each example from the log; a result is their mean, or combined as in the exported run."""

    name = "lm_eval"
    version = 1
    evaluation = evaluation

    def __init__(
        self, log: SampleLog, imported: Mapping[str, str], totals: LogTotals | None = None, notes: Sequence[str] = ()
    ) -> None:
        self._log = log
        self._imported = imported
        self._totals = totals
        self._import_notes = notes
        self._metadata = totals.metadata if totals else RunMetadata()
        self._unlogged = UnloggedExamples([self._metadata])
        self.label = log.task

    @property
    def design(self) -> Design:  # type: ignore[override]  # the log determines it
        """The design of the exported run; for a log of the harness, all metrics are headline metrics."""
        headline = tuple(name for name in self._metadata.headline if name in self._reported)
        clusters: tuple[str, ...] = ()
        if self._cluster:
            clusters = (self._cluster,)
        return Design(
            clusters=clusters,
            headline=headline or self._reported,
            combinations=self._metadata.combinations,
        )

    @cached_property
    def _cluster(self) -> str | None:
        """The group by which examples are clustered, which every sample of an exported run names; None if none does."""
        cluster = self._log.samples[0].metadata.get("cluster")
        for sample in self._log.samples:
            name = sample.metadata.get("cluster")
            is_group = isinstance(name, str) and name in _groups_of(sample)
            if name != cluster or (name is not None and not is_group):
                raise DataError(
                    f"{sample.where}: the cluster {shortened(name)} is not a group of this sample, or is not the "
                    "cluster of the other samples"
                )
        return cluster

    def check(self) -> None:
        """Read every score, so that an unusable one is reported before the run starts."""
        if not self._reported:
            names = ", ".join(self._log.samples[0].metrics) or "none"
            raise DataError(f"{self._log.path} has no metric with one number per example (its metrics: {names})")
        for sample in self._log.samples:
            self._scores(sample)
        self._unlogged.require_apart(self._logged)

    def notes(self) -> list[str]:
        """Return notes on where the numbers come from, and on what the log does not contain."""
        notes = [self._metrics_note(), *self._import_notes, *self._unlogged.notes(len(self._log.samples))]
        if self._non_numeric:
            names = ", ".join(self._non_numeric)
            notes.append(f"left out, because they are not one number per example: {names}")
        return [*notes, *self._differing_totals()]

    def size(self) -> int:
        """Return the number of examples in the run, including those that are not in the log."""
        return len(self._log.samples) + len(self._unlogged)

    def examples(self) -> Iterator[Example]:
        """Yield the samples of the log, and then the examples of the exported run that are not in it."""
        for example_id, sample in self._logged.items():
            prompt = ""
            if sample.requests and sample.requests[0]:
                prompt = str(sample.requests[0][0])
            inputs = {"prompt": prompt, "doc": sample.doc, "doc_id": sample.doc_id}
            yield Example(example_id, inputs, sample.target, _groups_of(sample))
        for unlogged in self._unlogged:
            yield Example(unlogged.id, {"doc": unlogged.doc}, unlogged.target, unlogged.groups)
        yield from self._unlogged.last()

    def requests(self, example: Example) -> Sequence[Request]:
        """Return no requests for a sample of the log, because its metrics are in the log.

        For an example that failed in the exported run and is not in the log, there is a request, which the model
        answers with the stored error.
        """
        if example.id in self._unlogged:
            return self._unlogged.requests(example.id)
        return []

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        """Return the metrics that the log has for each sample."""
        scores = []
        for example in examples:
            if example.id in self._unlogged:
                scores.append(self._unlogged.score(example.id))
                continue
            sample = self._logged[example.id]
            scores.append(Score(self._scores(sample), details={"answer": _answer(sample)}))
        return scores

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        """Return one overall result per metric."""
        return [self._result(table, metric, settings) for metric in self._reported]

    def signature(self) -> Mapping[str, Any]:
        """Return what the numbers depend on: for an exported run, what its own signature says; otherwise digests.

        The digests are of documents and requests, not of answers, so runs of two models have the same ones.
        """
        parts = self._metadata.depends_on
        if not parts:
            documents = [[sample.doc, sample.target] for sample in self._log.samples]
            parts = {"data": digest(documents)[:8], "prompt": requests_digest(self._log.samples)}
        return {"logged": self._log.task, "filter": self._log.filter, **parts, **self._imported}

    # --- details ------------------------------------------------------------------------------------------------------

    @cached_property
    def _logged(self) -> dict[str, LogSample]:
        """Samples by id.

        The id is a digest of task and document, so that runs of two models can be paired example by example, but runs
        of two tasks cannot.
        """
        named = []
        for sample in self._log.samples:
            example_id = sample.metadata.get("id") or digest(self._log.task, sample.doc)[:16]
            named.append((str(example_id), sample.doc_id, sample))
        return by_id(named)

    def _result(self, table: ScoreTable, metric: str, settings: Settings) -> Result:
        import numpy as np

        combination = self._metadata.combinations.get(metric)
        if combination is None:
            return intervals.mean_result(table, metric, settings, cluster=self._cluster)
        # The only result is over all examples, so every row is included.
        everywhere = np.ones(len(table), dtype=bool)
        return combination_result(
            table, metric, combination, settings, group="overall", where=everywhere, cluster=self._cluster
        )

    @cached_property
    def _reported(self) -> tuple[str, ...]:
        """The metrics with a result: first the exported run's headline, then those of the log, then combined ones."""
        available = dict.fromkeys([*self._metrics, *self._metadata.combinations])
        headline = [name for name in self._metadata.headline if name in available]
        return tuple(dict.fromkeys([*headline, *available]))

    @cached_property
    def _metrics(self) -> list[str]:
        """The metrics of the log that have one number per example."""
        names: dict[str, None] = {}
        for sample in self._log.samples:
            names |= dict.fromkeys(sample.metrics)
        return [name for name in names if name not in self._non_numeric]

    @cached_property
    def _non_numeric(self) -> list[str]:
        """The metrics of the log that are not one number in some sample, such as the two numbers for a perplexity."""
        names: dict[str, None] = {}
        for sample in self._log.samples:
            for name, value in sample.metrics.items():
                if not isinstance(value, int | float):
                    names[name] = None
        return list(names)

    def _scores(self, sample: LogSample) -> dict[str, float]:
        """Return the scores of a sample; raise a DataError if one is not a finite number."""
        values = {metric: sample.metrics[metric] for metric in self._metrics if metric in sample.metrics}
        # An exported run may have further scores, which have no result themselves but are combined to metrics.
        other_scores = sample.metadata.get("scores")
        if isinstance(other_scores, dict):
            values |= other_scores
        scores: dict[str, float] = {}
        for metric, value in values.items():
            if not isinstance(value, int | float) or not is_finite(value):
                raise DataError(f"{sample.where}: {metric} is {shortened(value)}; a score must be a finite number")
            scores[metric] = float(value)
        return scores

    def _metrics_note(self) -> str:
        if not self._metadata.task:
            names = ", ".join(self._metrics)
            return f"lmassay has no task for {self._log.task}, so the metrics in the log are shown ({names})"
        missing = ", ".join(["results by group", *self._metadata.not_carried])
        return (
            f"{self._log.task} is the log of a {self._metadata.task} run: its metrics over all examples are shown; "
            f"a log does not contain {missing}"
        )

    def _differing_totals(self) -> Iterator[str]:
        """Yield a note on each metric whose total in the harness is not the mean over examples."""
        if self._totals is None:
            return
        for metric, total in self._totals.means.items():
            if metric not in self._metrics or metric in self._metadata.combinations:
                continue
            values = [sample.metrics[metric] for sample in self._log.samples if metric in sample.metrics]
            if not values:
                continue
            mean = sum(values) / len(values)
            if abs(mean - total) > _TOTAL_TOLERANCE:
                yield f"the harness's own {metric} is {total:.6g}, which is not the mean over examples shown here"


def _groups_of(sample: LogSample) -> dict[str, str]:
    groups = sample.metadata.get("groups")
    if not isinstance(groups, dict):
        return {}
    return {str(name): str(label) for name, label in groups.items()}


def _answer(sample: LogSample) -> Any:
    """Return the answer of a sample in a readable form."""
    texts = sample.texts()
    if texts is not None:
        if len(texts) == 1:
            return texts[0]
        return texts
    log_likelihoods = sample.log_likelihoods()
    if log_likelihoods is None:
        return plain_json(list(sample.answers))
    answers = []
    for request, value in zip(sample.requests, log_likelihoods, strict=True):
        answers.append({"continuation": request[1], "logprob": value})
    return answers
