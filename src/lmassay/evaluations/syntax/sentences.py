"""The task ``minimal_pairs``: is the grammatical sentence more probable? For BLiMP's paradigms and any other pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay.contracts import Task
from lmassay.errors import DataError
from lmassay.evaluations.syntax import evaluation, sources
from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, COLUMNS_HELP, PairFormat
from lmassay.evaluations.syntax.pairs import MinimalPair
from lmassay.statistics import intervals
from lmassay.statistics.intervals import Settings
from lmassay.statistics.observations import observations
from lmassay.statistics.table import ScoreTable
from lmassay.types import Continuation, Design, Example, LogProbs, Request, Response, Result, Score, digest
from lmassay.types.wording import counted

Method = Literal["sentence", "one_prefix", "two_prefix"]
METRICS = ("accuracy", "accuracy_token", "accuracy_char")
TIES = "ties"
"""The share of pairs whose two sentences are equally probable; there is such a result only if there are such pairs."""
CLUSTER = "cluster"
"""The group that has the value of the field named by ``clusters``."""
_FIELD_OF_GROUP = {"paradigm": "UID", "phenomenon": "linguistics_term"}
"""Values of ``clusters`` that are groups of every example, and the field of the data that they come from."""
# BLiMP's published table has twelve phenomena. Its files name a thirteenth, s-selection, whose paradigms the table
# counts as argument structure.
_PUBLISHED_PHENOMENON = {"s-selection": "argument_structure"}
# The fields of BLiMP for its two prefix methods: good context, bad context, good word, bad word.
_PREFIX_FIELDS: Mapping[str, tuple[str, str, str, str]] = {
    "one_prefix": ("one_prefix_prefix", "one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad"),
    "two_prefix": ("two_prefix_prefix_good", "two_prefix_prefix_bad", "two_prefix_word", "two_prefix_word"),
}


class MinimalPairs(Task):
    """The share of minimal pairs whose grammatical sentence is more probable.

    There are three accuracies: by the whole log-probability, by its mean over tokens, and by its mean over characters.

    ``method: one_prefix`` compares two words after one beginning, ``two_prefix`` one word after two beginnings, for the
    BLiMP pairs that allow it (Warstadt et al. 2020). ``clusters`` says which pairs are not independent of each
    other: those of a ``paradigm``, of a ``phenomenon``, or with the same value of a field of the data.

    ``data`` is a file, a folder, a pattern, a grammar or a published data set (``blimp``, ``clams/de``). ``columns``
    names the columns of files that do not use BLiMP's names: ``{right: good, wrong: bad, group: construction}``.
    ``max_per_file`` takes the first pairs of each file or, with ``sample_seed``, a random sample.
    """

    name = "minimal_pairs"
    version = 1
    needs = frozenset({"logprobs"})
    evaluation = evaluation
    design = Design(headline=METRICS)
    requests_each = 2

    option_help: ClassVar[Mapping[str, str]] = {
        "data": "a file, folder or pattern, a grammar, or a published data set (blimp, clams/de)",
        "method": (
            "sentence: compare whole sentences; one_prefix: two words after one beginning; two_prefix: one "
            "word after two beginnings"
        ),
        "max_per_file": "use only this number of pairs of each file; of a grammar, a balanced sample",
        "sample_seed": "with max_per_file, draw the pairs of a file at random with this seed, not the first ones",
        "clusters": "pairs that are not independent: those of one paradigm, phenomenon or value of a field; or none",
        **COLUMNS_HELP,
        "label": "name in tables",
    }
    config_example = "task: {name: minimal_pairs, data: blimp, max_per_file: 100}"

    def __init__(
        self,
        data: sources.PairData,
        method: Method = "sentence",
        max_per_file: Annotated[int, Field(ge=1)] | None = None,
        sample_seed: Annotated[int, Field(ge=0)] | None = None,
        clusters: str = "none",
        columns: PairFormat = BLIMP_FORMAT,
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        self._data = data
        self._base = base_dir
        self._method = method
        self._max_per_file = max_per_file
        self._sample_seed = sample_seed
        self._clusters = clusters
        self._pair_format = columns
        if clusters != "none":
            group = clusters if clusters in _FIELD_OF_GROUP else CLUSTER
            self.design = replace(self.design, clusters=(group,))
        self.label = label or sources.label_of(data)

    def check(self) -> None:
        """Raise a DataError if a pair lacks the field that ``clusters`` names, or if no pair allows the method."""
        if self._method != "sentence" and not any(self._compared_texts(pair) for _, _, pair in self._numbered_pairs()):
            columns = ", ".join([f"{self._method}_method", *dict.fromkeys(_PREFIX_FIELDS[self._method])])
            raise DataError(
                f"task.method: no pair of the data allows {self._method}, which needs the columns {columns}; "
                "write sentence, or add the columns"
            )
        if self._clusters == "none":
            return
        for construction, _, pair in self._numbered_pairs():
            if self.design.cluster not in self._groups(construction, pair):
                field = _FIELD_OF_GROUP.get(self._clusters, self._clusters)
                raise DataError(
                    f"task.clusters: {pair.where} ({construction}) lacks the field '{field}'; "
                    "write none, or a field that all rows have"
                )

    def notes(self) -> list[str]:
        """Return notes on pairs that cannot be scored with any model, and on pairs that are not independent."""
        # The reason → the pairs that it applies to.
        places: dict[str, list[str]] = {}
        for _, _, pair in self._numbered_pairs():
            problem = _problem(pair)
            if problem:
                places.setdefault(problem, []).append(pair.where)
        notes = []
        for problem, where in places.items():
            further = f" and {len(where) - 1} more" if len(where) > 1 else ""
            notes.append(f"{counted(len(where), 'pair')} cannot be scored: {problem} ({where[0]}{further})")
        return [*notes, *self._note_on_nouns()]

    def _note_on_nouns(self) -> list[str]:
        """Return a note if pairs share a noun, as those of a grammar do, and the intervals do not account for it."""
        if self._clusters != "none":
            return []
        nouns = [pair.fields.get("noun") for _, _, pair in self._numbered_pairs()]
        # With clusters: noun, every pair must have one.
        different_nouns = set(map(str, nouns))
        if not all(nouns) or len(different_nouns) == len(nouns):
            return []
        return [
            f"{counted(len(nouns), 'pair')} share {counted(len(different_nouns), 'noun')}; the intervals are too "
            "narrow if pairs with the same noun are similar. With clusters: noun, they account for it"
        ]

    def size(self) -> int:
        return sum(1 for _ in self._numbered_pairs())

    def examples(self) -> Iterator[Example]:
        used_ids: set[str] = set()
        for construction, number, pair in self._numbered_pairs():
            example_id = digest(construction, pair.good, pair.bad)[:16]
            while example_id in used_ids:
                # The data contain this pair twice. BLiMP has no such pairs, but other data may.
                example_id = f"{example_id}-{number + 1}"
            used_ids.add(example_id)
            yield Example(example_id, self._inputs(pair), pair.good, self._groups(construction, pair))

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
                # A group that contains all pairs would repeat the overall result.
                if label and len(set(table.groups[group])) > 1:
                    parts.append((f"{group}={label}", where))
        results = []
        for name, where in parts:
            cluster = self._cluster_within(table, where)
            for metric in METRICS:
                results.append(intervals.mean_result(table, metric, settings, group=name, where=where, cluster=cluster))
        return [*results, *self._ties(table, settings)]

    def _ties(self, table: ScoreTable, settings: Settings) -> list[Result]:
        """Return the share of pairs whose sentences are equally probable, if there are any: they count as wrong."""
        cluster = self._cluster_within(table, np.ones(len(table), dtype=bool))
        clusters = intervals.cluster_names(cluster) or table.repeated_by
        margins = observations(table, "margin", clusters=clusters) if table.has("margin") else None
        # A margin of exactly 0 is a tie.
        if margins is None or margins.values.all():
            return []
        is_tie = (margins.values == 0).astype(np.float64)
        share = intervals.mean_estimate(is_tie, margins.clusters)
        ties = replace(margins, values=is_tie, mean=float(is_tie.mean()))
        return [intervals.observed_result(share, ties, TIES, "overall", table.counts("margin"), settings)]

    def _cluster_within(self, table: ScoreTable, where: NDArray[np.bool_]) -> str | None:
        """Return the group that clusters these rows; None if all of them belong to one paradigm (or phenomenon).

        From a single cluster no variance between clusters can be estimated, so its pairs count as independent.
        """
        cluster = self.design.cluster
        if cluster in _FIELD_OF_GROUP:
            _, codes = table.codes(cluster)
            if len(np.unique(codes[where])) == 1:
                return None
        return cluster

    def signature(self) -> Mapping[str, Any]:
        parts: dict[str, Any] = {"data": sources.signature_of(self._constructions), "method": self._method}
        if self._max_per_file:
            parts["max_per_file"] = self._max_per_file
            if self._sample_seed is not None:
                parts["sample"] = f"seed{self._sample_seed}"
        if self._clusters != "none":
            parts["clusters"] = self._clusters
        return parts

    # --- internals ----------------------------------------------------------------------------------------------------

    @cached_property
    def _constructions(self) -> list[sources.PairSet]:
        return sources.constructions(self._data, self._base, self._pair_format)

    def _numbered_pairs(self) -> Iterator[tuple[str, int, MinimalPair]]:
        return sources.numbered_pairs(self._constructions, self._max_per_file, None, self._sample_seed)

    def _groups(self, construction: str, pair: MinimalPair) -> dict[str, str]:
        fields = pair.fields
        # BLiMP spells one of its fields in two ways.
        field = str(fields.get("field", "")).replace("/", "_")
        phenomenon = str(fields.get("linguistics_term", ""))
        labels = {
            "field": field,
            "phenomenon": _PUBLISHED_PHENOMENON.get(phenomenon, phenomenon),
            "paradigm": str(fields.get("UID") or construction),
        }
        groups = {name: label for name, label in labels.items() if label}
        if self._clusters not in ("none", *_FIELD_OF_GROUP) and fields.get(self._clusters) is not None:
            groups[CLUSTER] = str(fields[self._clusters])
        return groups

    def _inputs(self, pair: MinimalPair) -> dict[str, Any]:
        inputs: dict[str, Any] = {"good": pair.good, "bad": pair.bad}
        problem = _problem(pair)
        if problem:
            return inputs | {"problem": problem}
        compared = self._compared_texts(pair)
        if compared is None:
            return inputs | {"problem": f"the pair has no {self._method}"}
        return inputs | {"asked": compared}

    def _compared_texts(self, pair: MinimalPair) -> list[list[str]] | None:
        """Return [context, continuation] of the good and the bad side; None if the pair does not allow the method."""
        if self._method == "sentence":
            return [["", pair.good], ["", pair.bad]]
        names = _PREFIX_FIELDS[self._method]
        fields = pair.fields
        # BLiMP says of each pair which methods apply: the sentences of some do not differ in one word after a prefix.
        if not fields.get(f"{self._method}_method"):
            return None
        texts = []
        for name in names:
            text = fields.get(name)
            if not isinstance(text, str):
                return None
            texts.append(text.strip())
        good_context, bad_context, good, bad = texts
        return [[good_context, f" {good}"], [bad_context, f" {bad}"]]

    def _verdict(self, example: Example, answers: Sequence[Response]) -> Score:
        if "problem" in example.inputs:
            return Score(unscored=dict.fromkeys(METRICS, str(example.inputs["problem"])))
        good, bad = (answer.answer for answer in answers)
        assert isinstance(good, Continuation)
        assert isinstance(bad, Continuation)
        (_, good_text), (_, bad_text) = example.inputs["asked"]
        good_length = len(good_text)
        bad_length = len(bad_text)
        values = {
            # Ties count as wrong: the model does not prefer the grammatical sentence.
            "accuracy": float(good.total > bad.total),
            "accuracy_token": float(good.total / len(good.tokens) > bad.total / len(bad.tokens)),
            "accuracy_char": float(good.total / good_length > bad.total / bad_length),
            "margin": good.total - bad.total,
        }
        details = {
            "logprob_good": good.total,
            "logprob_bad": bad.total,
            "tokens_good": len(good.tokens),
            "tokens_bad": len(bad.tokens),
        }
        return Score(values, details=details)


def _problem(pair: MinimalPair) -> str:
    """Return why a pair cannot be scored with any model; an empty text if it can."""
    if pair.good == pair.bad:
        return "the two sentences are identical"
    if not pair.good.strip() or not pair.bad.strip():
        return "a sentence is empty"
    return ""
