"""Whole sentences: does the model find the grammatical one more probable? BLiMP's paradigms and any other pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay.contracts import Task
from lmassay.errors import DataError
from lmassay.evaluations.syntax import evaluation, sources
from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, PairFormat
from lmassay.evaluations.syntax.pairs import MinimalPair
from lmassay.statistics import intervals
from lmassay.statistics.intervals import Settings
from lmassay.statistics.table import ScoreTable
from lmassay.types import Continuation, Design, Example, LogProbs, Request, Response, Result, Score, digest

Method = Literal["sentence", "one_prefix", "two_prefix"]
METRICS = ("accuracy", "accuracy_token", "accuracy_char")
CLUSTER = "cluster"
"""The group that holds the field named by ``clusters``."""
_GROUPED = {"paradigm": "UID", "phenomenon": "linguistics_term"}
"""What ``clusters`` may name that is a group of every example, with the field of the data that it is taken from."""
# BLiMP's published table has twelve phenomena; its files name a thirteenth, which the table counts among another.
_PUBLISHED_AS = {"s-selection": "argument_structure"}


class MinimalPairs(Task):
    """Accuracy over minimal pairs: by the whole log-probability, by its mean over tokens, by its mean over characters.

    ``method: one_prefix`` compares two words after one beginning, ``two_prefix`` one word after two, for the BLiMP
    pairs that allow it. ``clusters`` says what was sampled, if not single pairs: ``paradigm``, ``phenomenon``, or a
    field of the data whose members are not independent of each other.

    ``data`` is a file, a folder, a pattern, a grammar or a published data set (``blimp``, ``clams/de``). ``columns``
    names the columns of other files: ``{right: good, wrong: bad, group: construction}``.
    """

    name = "minimal_pairs"
    version = 1
    needs = frozenset({"logprobs"})
    evaluation = evaluation
    design = Design(headline=METRICS)
    requests_each = 2

    def __init__(
        self,
        data: sources.DataSpec,
        method: Method = "sentence",
        max_per_file: Annotated[int, Field(ge=1)] | None = None,
        clusters: str = "none",
        columns: PairFormat = BLIMP_FORMAT,
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data, self._base, self._method = data, base_dir, method
        self._most, self._clusters, self._pair_format = max_per_file, clusters, columns
        if clusters != "none":
            self.design = replace(self.design, clusters=(clusters if clusters in _GROUPED else CLUSTER,))
        self.label = label or sources.label_of(data)

    def check(self) -> None:
        if self._clusters == "none":
            return
        for construction, _, pair in sources.numbered(self._constructions, self._most, None):
            if self.design.cluster not in self._groups(construction, pair):
                field = _GROUPED.get(self._clusters, self._clusters)
                raise DataError(
                    f"task.clusters: {pair.where} ({construction}) lacks the field '{field}'; "
                    "write none, or a field that all rows have"
                )

    def size(self) -> int:
        return sum(1 for _ in sources.numbered(self._constructions, self._most, None))

    def examples(self) -> Iterator[Example]:
        seen: set[str] = set()
        for construction, number, pair in sources.numbered(self._constructions, self._most, None):
            key = digest(construction, pair.good, pair.bad)[:16]
            while key in seen:
                # The same pair again; BLiMP has none, other data may.
                key = f"{key}-{number + 1}"
            seen.add(key)
            yield Example(key, self._inputs(pair), pair.good, self._groups(construction, pair))

    def requests(self, example: Example) -> Sequence[Request]:
        if "problem" in example.inputs:
            return []
        (good_context, good), (bad_context, bad) = example.inputs["asked"]
        return [LogProbs(good_context, good), LogProbs(bad_context, bad)]

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        return [self._verdict(example, answers) for example, answers in zip(examples, responses, strict=True)]

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        parts = [("overall", np.ones(len(table), dtype=bool))]
        for group in ("field", "phenomenon", "paradigm"):
            for label, where in table.parts(group):
                if label and len(set(table.groups[group])) > 1:
                    parts.append((f"{group}={label}", where))
        found = []
        for name, where in parts:
            cluster = self._cluster_within(table, where)
            for metric in METRICS:
                found.append(intervals.mean_result(table, metric, settings, group=name, where=where, cluster=cluster))
        return found

    def _cluster_within(self, table: ScoreTable, where: NDArray[np.bool_]) -> str | None:
        """Within one paradigm (or phenomenon), nothing varies but its pairs: they are then what was sampled."""
        cluster = self.design.cluster
        if cluster in _GROUPED and len(np.unique(table.codes(cluster)[1][where])) == 1:
            return None
        return cluster

    def signature(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {"data": sources.signature_of(self._constructions), "method": self._method}
        parts |= {"max_per_file": self._most} if self._most else {}
        parts |= {"clusters": self._clusters} if self._clusters != "none" else {}
        return parts

    # --- inside -------------------------------------------------------------------------------------------------------

    @cached_property
    def _constructions(self) -> list[sources.PairSet]:
        return sources.constructions(self._data, self._base, self._pair_format)

    def _groups(self, construction: str, pair: MinimalPair) -> dict[str, str]:
        fields = pair.fields
        # BLiMP spells one of its fields in two ways.
        field = str(fields.get("field", "")).replace("/", "_")
        phenomenon = str(fields.get("linguistics_term", ""))
        groups = {
            "field": field,
            "phenomenon": _PUBLISHED_AS.get(phenomenon, phenomenon),
            "paradigm": str(fields.get("UID") or construction),
        }
        groups = {name: label for name, label in groups.items() if label}
        if self._clusters not in ("none", *_GROUPED) and fields.get(self._clusters) is not None:
            groups[CLUSTER] = str(fields[self._clusters])
        return groups

    def _inputs(self, pair: MinimalPair) -> dict[str, Any]:
        inputs: dict[str, Any] = {"good": pair.good, "bad": pair.bad}
        if pair.good == pair.bad:
            return inputs | {"problem": "the two sentences are identical"}
        if not pair.good.strip() or not pair.bad.strip():
            return inputs | {"problem": "a sentence is empty"}
        asked = self._asked(pair)
        return inputs | ({"problem": f"the pair has no {self._method}"} if asked is None else {"asked": asked})

    def _asked(self, pair: MinimalPair) -> list[list[str]] | None:
        """(context, continuation) of the good and of the bad side."""
        fields = pair.fields
        if self._method == "sentence":
            return [["", pair.good], ["", pair.bad]]
        if self._method == "one_prefix":
            names = ("one_prefix_prefix", "one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad")
        else:
            names = ("two_prefix_prefix_good", "two_prefix_prefix_bad", "two_prefix_word", "two_prefix_word")
        if not fields.get(f"{self._method}_method") or any(not isinstance(fields.get(n), str) for n in names):
            return None
        good_context, bad_context, good, bad = (str(fields[n]).strip() for n in names)
        return [[good_context, f" {good}"], [bad_context, f" {bad}"]]

    def _verdict(self, example: Example, answers: Sequence[Response]) -> Score:
        if "problem" in example.inputs:
            return Score(unscored=dict.fromkeys(METRICS, str(example.inputs["problem"])))
        good, bad = (answer.answer for answer in answers)
        assert isinstance(good, Continuation)
        assert isinstance(bad, Continuation)
        lengths = [len(continuation) for _, continuation in example.inputs["asked"]]
        values = {
            "accuracy": float(good.total > bad.total),
            "accuracy_token": float(good.total / len(good.tokens) > bad.total / len(bad.tokens)),
            "accuracy_char": float(good.total / lengths[0] > bad.total / lengths[1]),
            "margin": good.total - bad.total,
        }
        details = {"logprob_good": good.total, "logprob_bad": bad.total}
        details |= {"tokens_good": len(good.tokens), "tokens_bad": len(bad.tokens)}
        return Score(values, details=details)
