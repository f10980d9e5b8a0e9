"""Import minimal pairs from logs of lm-evaluation-harness, and score them by the logged log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from lmassay.errors import DataError
from lmassay.evaluations.syntax.pairs import NUMBER_OF_LABEL, MinimalPair, pair_of
from lmassay.evaluations.syntax.sentences import CLUSTER, MinimalPairs
from lmassay.interchange.lm_eval.run_metadata import UnloggedExample, UnloggedExamples
from lmassay.interchange.lm_eval.sample_logs import LogSample, SampleLog, by_id, is_finite, requests_digest
from lmassay.types import Example, LogProbs, Request, Response, Score, SourceLocation, digest

_NO_TOKENS = "the log does not say how many tokens the sentences have"
_NOTHING_UNLOGGED = UnloggedExamples(())


def are_pairs(log: SampleLog) -> bool:
    """Return True if every sample compares a good with a bad sentence by their log-likelihoods."""
    return all(_request_order(sample) is not None for sample in log.samples)


class LoggedPairs(MinimalPairs):
    """The task that scores the pairs of one or several logs.

    A pair has the same id as in a run of lmassay on the same file, so that the two runs can be compared.
    """

    def __init__(
        self,
        logs: Sequence[SampleLog],
        imported: Mapping[str, str],
        notes: Sequence[str] = (),
        unlogged: UnloggedExamples = _NOTHING_UNLOGGED,
    ) -> None:
        label = logs[0].task
        if len(logs) > 1:
            label = f"{len(logs)} constructions"
        super().__init__(data="log", label=label)
        self._logs = logs
        self._imported = imported
        self._import_notes = notes
        self._unlogged = unlogged
        # Only logs that lmassay exported name a cluster. Without one, pairs are treated as independent.
        cluster = self._logged_cluster()
        if cluster is not None:
            self.design = replace(self.design, clusters=(cluster,))

    def check(self) -> None:
        self._unlogged.require_apart(self._samples_by_id)

    def notes(self) -> list[str]:
        judged = 0
        judged_differently = 0
        for sample in self._samples_by_id.values():
            if isinstance(sample.metrics.get("acc"), int | float):
                judged += 1
                if _is_right(sample) != bool(sample.metrics["acc"]):
                    judged_differently += 1
        notes = list(self._import_notes)
        if judged_differently:
            # The harness takes the first of two equally probable sentences, which is the good one.
            notes.append(
                f"{judged_differently} of {judged} pairs are judged differently than in the log, which counts ties as "
                "right"
            )
        return [*notes, *self._unlogged.notes(len(self._all_samples))]

    def size(self) -> int:
        return len(self._all_samples) + len(self._unlogged)

    def examples(self) -> Iterator[Example]:
        for example_id, sample in self._samples_by_id.items():
            pair = _pair(sample)
            construction = _construction(sample, self._task_of_file[sample.file])
            groups = _logged_groups(sample) or self._groups(construction, pair)
            yield Example(example_id, self._inputs(pair), pair.good, groups)
        for unlogged_example in self._unlogged:
            pair = _unlogged_pair(unlogged_example)
            yield Example(unlogged_example.id, self._inputs(pair), pair.good, unlogged_example.groups)
        yield from self._unlogged.last()

    def requests(self, example: Example) -> Sequence[Request]:
        """Return the requests as they were logged, with the space that the harness puts before a sentence."""
        if example.id in self._unlogged:
            return self._unlogged.requests(example.id)
        if "problem" in example.inputs:
            return []
        sample = self._samples_by_id[example.id]
        order = _request_order(sample)
        assert order is not None
        key = f"{sample.file}:{sample.line}"
        requests = []
        for number in order:
            context, continuation = sample.requests[number][:2]
            requests.append(LogProbs(context, continuation, location=SourceLocation(str(number), key)))
        return requests

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        scores = []
        for example, answers in zip(examples, responses, strict=True):
            if example.id in self._unlogged:
                scores.append(self._unlogged.score(example.id))
            else:
                sample = self._samples_by_id[example.id]
                scores.append(self._with_logged_tokens(sample, self._verdict(example, answers)))
        return scores

    def signature(self) -> Mapping[str, Any]:
        pairs = []
        for log in self._logs:
            for sample in log.samples:
                pair = _pair(sample)
                pairs.append([_construction(sample, log.task), pair.good, pair.bad])
        for unlogged in self._unlogged:
            pair = _unlogged_pair(unlogged)
            pairs.append([unlogged.groups.get("paradigm", ""), pair.good, pair.bad])
        return {
            "data": digest(sorted(pairs))[:8],
            "prompt": requests_digest(self._all_samples),
            "method": "sentence",
            **self._imported,
        }

    # --- internals ----------------------------------------------------------------------------------------------------

    @cached_property
    def _all_samples(self) -> list[LogSample]:
        samples: list[LogSample] = []
        for log in self._logs:
            samples += log.samples
        return samples

    def _logged_cluster(self) -> str | None:
        """Return the group by which the exported run clustered its pairs: that of a field, paradigm or phenomenon."""
        first = self._all_samples[0].metadata.get("cluster")
        # Early versions of lmassay did not write the name of the group.
        name = first if isinstance(first, str) else CLUSTER
        for sample in self._all_samples:
            if sample.metadata.get("cluster") != first or name not in _logged_groups(sample):
                return None
        return name

    @cached_property
    def _task_of_file(self) -> dict[Any, str]:
        return {log.path: log.task for log in self._logs}

    @cached_property
    def _samples_by_id(self) -> dict[str, LogSample]:
        samples: dict[str, LogSample] = {}
        for log in self._logs:
            numbered = [(_id(sample, log.task), number, sample) for number, sample in enumerate(log.samples, 1)]
            of_log = by_id(numbered)
            for example_id, sample in of_log.items():
                if example_id in samples:
                    raise DataError(
                        f"{samples[example_id].where} and {sample.where} are about the same pair; logs of two "
                        "evaluations are two runs: import them one by one"
                    )
            samples |= of_log
        return samples

    @staticmethod
    def _with_logged_tokens(sample: LogSample, score: Score) -> Score:
        """Replace the numbers of tokens by those of the log, or remove the score that depends on them."""
        details = dict(score.details)
        good = details.pop("tokens_good", None)
        bad = details.pop("tokens_bad", None)
        if good is None or bad is None:
            return score
        values = {metric: value for metric, value in score.values.items() if metric != "accuracy_token"}
        counts = sample.metadata.get("tokens")
        if not isinstance(counts, list) or len(counts) != 2 or not all(map(_is_count, counts)):
            return replace(score, values=values, unscored={"accuracy_token": _NO_TOKENS}, details=details)
        good_tokens, bad_tokens = counts
        good_mean = details["logprob_good"] / good_tokens
        bad_mean = details["logprob_bad"] / bad_tokens
        values["accuracy_token"] = float(good_mean > bad_mean)
        details |= {"tokens_good": good_tokens, "tokens_bad": bad_tokens}
        return replace(score, values=values, details=details)


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0 and is_finite(value)


def _request_order(sample: LogSample) -> tuple[int, int] | None:
    """Return which request is about the good and which about the bad sentence; None if the sample is not a pair."""
    good = sample.doc.get("sentence_good")
    bad = sample.doc.get("sentence_bad")
    if not isinstance(good, str) or not isinstance(bad, str):
        return None
    if sample.log_likelihoods() is None or len(sample.answers) != 2:
        return None
    # The harness puts a space before the continuation.
    continuations = [str(request[1]).strip() for request in sample.requests]
    if continuations == [good.strip(), bad.strip()]:
        return 0, 1
    if continuations == [bad.strip(), good.strip()]:
        return 1, 0
    return None


def _is_right(sample: LogSample) -> bool:
    """Return True if the good sentence is more probable."""
    likelihoods = sample.log_likelihoods()
    order = _request_order(sample)
    assert likelihoods is not None
    assert order is not None
    return likelihoods[order[0]] > likelihoods[order[1]]


def _pair(sample: LogSample) -> MinimalPair:
    doc = dict(sample.doc)
    label = doc.get("label")
    # The label of another kind of task is not a grammatical number.
    if "label" in doc and not (type(label) is int and label in NUMBER_OF_LABEL):
        del doc["label"]
    return pair_of(doc, str(sample.file), sample.line)


def _id(sample: LogSample, task: str) -> str:
    """Return the id of the pair's example."""
    logged_id = sample.metadata.get("id")
    if logged_id:
        return str(logged_id)
    # The id that a run of lmassay gives to this pair, so that both runs can be compared.
    pair = _pair(sample)
    return digest(_construction(sample, task), pair.good, pair.bad)[:16]


def _unlogged_pair(unlogged: UnloggedExample) -> MinimalPair:
    return pair_of(unlogged.doc, f"the pair {unlogged.id}, which is not in the log", 0)


def _construction(sample: LogSample, task: str) -> str:
    """Return the construction of a pair: its UID, after which BLiMP's files are named, or else the harness's task."""
    return str(sample.doc.get("UID") or task.removeprefix("blimp_"))


def _logged_groups(sample: LogSample) -> dict[str, str]:
    groups = sample.metadata.get("groups")
    if not isinstance(groups, dict):
        return {}
    return {str(name): str(label) for name, label in groups.items()}


class PairsReader:
    """Recognises logs of minimal pairs; several of them become one run."""

    joins = True

    def reads(self, log: SampleLog) -> bool:
        """Return True if the log has minimal pairs."""
        return are_pairs(log)

    def task(
        self, logs: Sequence[SampleLog], imported: Mapping[str, str], notes: Sequence[str], unlogged: UnloggedExamples
    ) -> LoggedPairs:
        """Return the task that judges the logs."""
        return LoggedPairs(logs, imported, notes, unlogged)


def pairs_reader() -> PairsReader:
    """Return the reader of logs that the evaluation declares."""
    return PairsReader()
