"""Minimal pairs in a log of another harness, judged by our own task from the log-likelihoods that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from lmassay.errors import DataError
from lmassay.evaluations.syntax.pairs import NUMBER_OF_LABEL, MinimalPair, pair_of
from lmassay.evaluations.syntax.sentences import CLUSTER as _CLUSTER
from lmassay.evaluations.syntax.sentences import MinimalPairs
from lmassay.interchange.lm_eval.run_metadata import UnloggedExample, UnloggedExamples
from lmassay.interchange.lm_eval.sample_logs import LogSample, SampleLog, by_id, is_finite, requests_digest
from lmassay.types import Example, LogProbs, Request, Response, Score, SourceLocation, digest

_NO_TOKENS = "the log does not tell how many tokens the sentences have"
_NOTHING = UnloggedExamples(())


def are_pairs(log: SampleLog) -> bool:
    """True if every sample compares a good with a bad sentence by their log-likelihoods."""
    return all(_order(sample) is not None for sample in log.samples)


class LoggedPairs(MinimalPairs):
    """The minimal pairs of one or several logs. A pair has the id that it has in a run of ours on the same file."""

    def __init__(
        self,
        logs: Sequence[SampleLog],
        imported: Mapping[str, str],
        notes: Sequence[str] = (),
        absent: UnloggedExamples = _NOTHING,
    ) -> None:
        super().__init__(data="log", label=logs[0].task if len(logs) == 1 else f"{len(logs)} constructions")
        self._logs, self._imported, self._notes, self._absent = logs, imported, notes, absent
        if all(_CLUSTER in _groups_of(sample) for log in logs for sample in log.samples):
            self.design = replace(self.design, clusters=(_CLUSTER,))

    def check(self) -> None:
        self._absent.require_apart(self._logged)

    def notes(self) -> list[str]:
        judged = [sample for sample in self._logged.values() if isinstance(sample.metrics.get("acc"), int | float)]
        other = sum(_is_right(sample) != bool(sample.metrics["acc"]) for sample in judged)
        # The harness takes the first of two equal sentences, which is the good one.
        told = [
            f"{other} of {len(judged)} pairs are right or wrong otherwise than in the log, which counts ties as right"
        ]
        return [*self._notes, *(told if other else []), *self._absent.notes(self._samples)]

    def size(self) -> int:
        return self._samples + len(self._absent)

    def examples(self) -> Iterator[Example]:
        for name, sample in self._logged.items():
            pair = _pair(sample)
            groups = _groups_of(sample) or self._groups(_construction(sample, self._task_of[sample.file]), pair)
            yield Example(name, self._inputs(pair), pair.good, groups)
        for left in self._absent:
            pair = _pair_left_out(left)
            yield Example(left.id, self._inputs(pair), pair.good, left.groups)
        yield from self._absent.last()

    def requests(self, example: Example) -> Sequence[Request]:
        """As they were asked, with the space that the harness puts before a sentence."""
        if example.id in self._absent:
            return self._absent.requests(example.id)
        if "problem" in example.inputs:
            return []
        sample = self._logged[example.id]
        order = _order(sample)
        assert order is not None
        key = f"{sample.file}:{sample.line}"
        requests = []
        for position in order:
            context, continuation = sample.requests[position][:2]
            requests.append(LogProbs(context, continuation, location=SourceLocation(str(position), key)))
        return requests

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [
            self._absent.score(example.id)
            if example.id in self._absent
            else self._in_tokens(self._logged[example.id], self._verdict(example, answers))
            for example, answers in zip(examples, responses, strict=True)
        ]

    def signature(self) -> Mapping[str, Any]:
        pairs = [(_construction(s, log.task), _pair(s)) for log in self._logs for s in log.samples]
        pairs += [(left.groups.get("paradigm", ""), _pair_left_out(left)) for left in self._absent]
        data = digest(sorted([construction, pair.good, pair.bad] for construction, pair in pairs))[:8]
        asked = requests_digest([sample for log in self._logs for sample in log.samples])
        return {"data": data, "prompt": asked, "method": "sentence", **self._imported}

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _samples(self) -> int:
        return sum(len(log.samples) for log in self._logs)

    @cached_property
    def _task_of(self) -> dict[Any, str]:
        return {log.path: log.task for log in self._logs}

    @cached_property
    def _logged(self) -> dict[str, LogSample]:
        found: dict[str, LogSample] = {}
        for log in self._logs:
            own = by_id((_id(sample, log.task), number, sample) for number, sample in enumerate(log.samples, 1))
            twice = next((name for name in own if name in found), None)
            if twice is not None:
                raise DataError(
                    f"{found[twice].where} and {own[twice].where} are about the same pair; logs of two evaluations are "
                    "two runs: import them one by one"
                )
            found |= own
        return found

    @staticmethod
    def _in_tokens(sample: LogSample, score: Score) -> Score:
        """The score with the numbers of tokens where the log has them, and without what would need them elsewhere."""
        details = dict(score.details)
        good, bad = details.pop("tokens_good", None), details.pop("tokens_bad", None)
        if good is None or bad is None:
            return score
        values = {metric: value for metric, value in score.values.items() if metric != "accuracy_token"}
        counts = sample.metadata.get("tokens")
        if not isinstance(counts, list) or len(counts) != 2 or not all(map(_is_count, counts)):
            return replace(score, values=values, unscored={"accuracy_token": _NO_TOKENS}, details=details)
        means = [details[f"logprob_{side}"] / n for side, n in zip(("good", "bad"), counts, strict=True)]
        values["accuracy_token"] = float(means[0] > means[1])
        return replace(score, values=values, details=details | {"tokens_good": counts[0], "tokens_bad": counts[1]})


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0 and is_finite(value)


def _order(sample: LogSample) -> tuple[int, int] | None:
    """Which request is about the good, which about the bad sentence; None if this is no such comparison."""
    good, bad = (sample.doc.get(f"sentence_{side}") for side in ("good", "bad"))
    if not isinstance(good, str) or not isinstance(bad, str) or sample.log_likelihoods() is None:
        return None
    asked = [str(request[1]).strip() for request in sample.requests]
    if len(sample.answers) != 2 or sorted(asked) != sorted((good.strip(), bad.strip())):
        return None
    return (0, 1) if asked[0] == good.strip() else (1, 0)


def _is_right(sample: LogSample) -> bool:
    numbers, order = sample.log_likelihoods(), _order(sample)
    assert numbers is not None
    assert order is not None
    return numbers[order[0]] > numbers[order[1]]


def _pair(sample: LogSample) -> MinimalPair:
    # A label of another kind of task is no grammatical number.
    label = sample.doc.get("label")
    own = type(label) is int and label in NUMBER_OF_LABEL
    doc = {name: value for name, value in sample.doc.items() if name != "label" or own}
    return pair_of(doc, str(sample.file), sample.line)


def _id(sample: LogSample, task: str) -> str:
    pair = _pair(sample)
    return str(sample.metadata.get("id") or digest(_construction(sample, task), pair.good, pair.bad)[:16])


def _pair_left_out(left: UnloggedExample) -> MinimalPair:
    return pair_of(left.doc, f"the pair {left.id}, which is not in the log", 0)


def _construction(sample: LogSample, task: str) -> str:
    """The name of the file that such a pair comes from: BLiMP's are called like the UID of their rows."""
    return str(sample.doc.get("UID") or task.removeprefix("blimp_"))


def _groups_of(sample: LogSample) -> dict[str, str]:
    groups = sample.metadata.get("groups")
    return {str(k): str(v) for k, v in groups.items()} if isinstance(groups, dict) else {}


class PairsReader:
    """Recognises logs of minimal pairs; several of them are one run."""

    joins = True

    def reads(self, log: SampleLog) -> bool:
        return are_pairs(log)

    def task(
        self, logs: Sequence[SampleLog], imported: Mapping[str, str], notes: Sequence[str], absent: UnloggedExamples
    ) -> LoggedPairs:
        return LoggedPairs(logs, imported, notes, absent)


def pairs_reader() -> PairsReader:
    """The evaluation's reader of logs."""
    return PairsReader()
