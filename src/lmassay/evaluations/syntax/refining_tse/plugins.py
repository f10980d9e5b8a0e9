"""Classes written for refining-tse: a model class as a model that fills blanks, metric classes beside ours."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay.contracts import Model
from lmassay.errors import ConfigError, PluginError
from lmassay.evaluations.syntax.metrics import VERB_PAIR
from lmassay.evaluations.syntax.refining_tse.config import BATCH
from lmassay.evaluations.syntax.refining_tse.modules import (
    INVALID,
    MetricComputer,
    MPEModel,
    Number,
    call_user_code,
    check_written,
    class_identity,
    load_class,
)
from lmassay.evaluations.syntax.sources import DataSpec
from lmassay.evaluations.syntax.task import BOTTOM, TOP, Cutoff, Syntax, by_verb_pair
from lmassay.models.hf.logits import candidate_columns
from lmassay.statistics import intervals
from lmassay.statistics.intervals import Settings
from lmassay.statistics.observations import observations
from lmassay.statistics.table import ScoreTable
from lmassay.types import Candidates, Example, Response, Result, Score, Slot, digest


class MpeModel(Model):
    """A model class written for refining-tse: ``file`` is file.py:Class, ``settings`` what it is made with."""

    name = "mpe"
    can = frozenset({"slot"})
    # What the class reads, weights above all, is not known here; so no answer can be taken for another time's.
    cached = False

    def __init__(
        self, file: str, settings: dict[str, Any] | None = None, label: str = "", base_dir: Path = Path()
    ) -> None:
        self._file, self._settings, self._base = file, settings or {}, base_dir
        self._places: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self.label = label or file.rpartition(":")[2]

    def check(self) -> None:
        check_written(self._file, self._made, MPEModel, "predict", "word_to_index")
        words = call_user_code(self._file, "word_to_index", getattr, self._made, "word_to_index", None)
        for name, there in (("predict", hasattr(self._made, "predict")), ("word_to_index", words is not None)):
            if not there:
                raise PluginError(f"{self._file}: a model needs word_to_index and predict; {name} is missing")

    @property
    def sees_right(self) -> bool:  # type: ignore[override]  # the class says so
        """As the model says in ``bidirectional``."""
        return bool(getattr(self._made, "bidirectional", True))

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, **class_identity(self._file, self._base, self._settings)}

    def slot(self, requests: Sequence[Slot]) -> Iterator[Response]:
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            lefts, rights = [r.left.split() for r in batch], [_right_words(r.right) for r in batch]
            logits = call_user_code(self._file, "predict", self._made.predict, lefts, rights)
            if logits is None:
                # The original passes over such a batch.
                yield from (Response(finish="empty") for _ in batch)
                continue
            yield from self._answers(batch, *self._checked(logits, len(batch)))

    @cached_property
    def _class(self) -> type:
        return load_class(self._file, self._base, "models")

    @cached_property
    def _made(self) -> Any:
        return call_user_code(self._file, "__init__", self._class, dict(self._settings))

    def _checked(self, logits: Any, size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        values = _array(logits)
        if values.ndim != 2 or len(values) != size or values.shape[1] == 0:
            shape = "×".join(map(str, values.shape))
            raise PluginError(
                f"{self._file}: predict gave {shape} logits for {size} contexts; it must be contexts×words"
            )
        if np.isnan(values).any():
            raise PluginError(f"{self._file}: predict gave logits that are no numbers (NaN)")
        if np.isposinf(values).any():
            raise PluginError(f"{self._file}: predict gave a logit of +inf, or one too large for 32 bits")
        if np.isneginf(values).all(axis=1).any():
            raise PluginError(f"{self._file}: predict gave -inf for all words of a context; one must be possible")
        # torch's own softmax where there is one: the last bit of it decides which of two like words comes first.
        return values, _array(logits.float().softmax(-1)) if hasattr(logits, "softmax") else _softmax(values)

    def _answers(
        self, batch: Sequence[Slot], logits: NDArray[np.float32], probabilities: NDArray[np.float32]
    ) -> Iterator[Response]:
        for request, row, p in zip(batch, logits, probabilities, strict=True):
            ids = self._ids(request.candidates, len(row))
            yield Response(candidate_columns(row, p if request.ranked else None, ids))

    def _ids(self, words: tuple[str, ...], size: int) -> NDArray[np.int64]:
        if words not in self._places:
            self._places[words] = call_user_code(self._file, "word_to_index", self._looked_up, words)
            far = int(self._places[words].max(initial=-1))
            if far >= size:
                raise PluginError(f"{self._file}: word_to_index gives the place {far}, but predict {size} logits")
        return self._places[words]

    def _looked_up(self, words: Sequence[str]) -> NDArray[np.int64]:
        index = self._made.word_to_index
        # The base class speaks of a dict, the README of a method.
        places = map(index if callable(index) else index.get, words)
        return np.array([-1 if place is None else int(place) for place in places], dtype=np.int64)


def _right_words(text: str) -> list[str]:
    """The words behind the verb as the original hands them over: the full stop is a word."""
    words = text.split()
    if words and words[-1].endswith(".") and words[-1] != ".":
        words[-1:] = [words[-1].removesuffix("."), "."]
    return words


def _array(values: Any) -> NDArray[np.float32]:
    """A torch tensor, wherever it lies, or anything that numpy takes."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=np.float32)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float32)


# --- metric classes ---------------------------------------------------------------------------------------------------

Options = dict[str, Any]
_NUMBERS = {"singular": Number.SINGULAR, "plural": Number.PLURAL}
_NO_NUMBER = "the number of the right verb is unknown; give a label"


class MetricTemplate(NamedTuple):
    """What a metric learns of an example beside its number: the file, and the pair's verbs (right, wrong)."""

    template_id: str
    lemma_inflections: tuple[str, str]


class MetricRow(NamedTuple):
    """A row of the data that a metric is to score: which context it stands in, and what is told of it."""

    context: int
    row: int
    label: Number
    template: MetricTemplate


class RowScore(NamedTuple):
    """What a metric says of a row; ``extra`` is what it keeps beside the score."""

    row: int
    score: float
    extra: Any


class WordIndex:
    """Like a dict: a word's place among the logits that a metric is given; only words that were asked about."""

    def __init__(self, words: Sequence[str], known: NDArray[np.bool_]) -> None:
        self._places = {word: place for place, word in enumerate(words)}
        self._known = known

    def __contains__(self, word: str) -> bool:
        if word not in self._places:
            raise PluginError(
                f"a metric looks for '{word}', about which the model was not asked; "
                f"add `words: [{word}]` to the metric's section"
            )
        return bool(self._known[self._places[word]])

    def __getitem__(self, word: str) -> int:
        place = self.get(word)
        if place is None:
            raise KeyError(word)
        return place

    def get(self, word: str, default: int | None = None) -> int | None:
        return self._places[word] if word in self else default


class OwnMetric:
    """A metric class written for refining-tse."""

    def __init__(self, name: str, file: str, settings: Options, base: Path) -> None:
        self.name, self._file, self._settings, self._base = name, file, settings, base
        words = settings.get("words", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ConfigError(f"metrics.{name}.words: must be a list of words (got {words!r})")
        self.words: list[str] = words

    def check(self) -> None:
        if not callable(getattr(self._class, "_compute", None)):
            raise PluginError(f"{self._file}: a metric needs _compute")
        check_written(self._file, self._made, MetricComputer, "_compute")

    def signature(self) -> str:
        return ",".join(f"{k}={v}" for k, v in class_identity(self._file, self._base, self._settings).items())

    def scores(
        self, logits: NDArray[np.float64], rows: Sequence[MetricRow], words: WordIndex
    ) -> list[tuple[float | None, Any]]:
        """(score, extra information) of each row; ``logits`` are those of the contexts."""
        found: list[tuple[float | None, Any]] = []
        size = BATCH
        while len(found) < len(rows):
            part = rows[len(found) : len(found) + size]
            places, labels = [row.context for row in part], [row.label for row in part]
            told_of = self._computed(logits[places], labels, [row.template for row in part], words)
            if told_of is None:
                # One number for a whole batch is the score of one example in classes that are written for one.
                size = 1
            else:
                found += told_of
        return found

    def summary(self, scores: Sequence[float], extras: Sequence[Any]) -> dict[str, Any]:
        """What the class has to say of all scores together."""
        made = call_user_code(self._file, "__init__", self._make)
        if not hasattr(made, "summarize") or not hasattr(made, "score_per_example"):
            mean = float(np.mean(scores)) if len(scores) else "INVALID_SCORE_VALUE"
            return {"Overall model score": mean, "Number of examples": len(scores)}
        made.score_per_example.extend(scores)
        made.extra_info_per_example.extend(extras)
        return dict(call_user_code(self._file, "summarize (which is given the scores alone)", made.summarize))

    def _computed(self, *arguments: Any) -> list[tuple[float | None, Any]] | None:
        logits, labels, *others = arguments
        compute = self._made._compute
        answer = call_user_code(self._file, "_compute", compute, _as_tensor(logits), list(labels), *others)
        if not isinstance(answer, tuple) or len(answer) != 3:
            raise PluginError(f"{self._file}: _compute must return (scores, extra information, dict); got {answer!r}")
        scores, extras = _as_list(answer[0]), _as_list(answer[1])
        if scores is None and len(labels) > 1:
            return None
        given = [answer[0]] if scores is None else scores
        if len(given) != len(labels):
            raise PluginError(f"{self._file}: _compute gave {len(given)} scores for {len(labels)} examples")
        beside = extras if extras is not None and len(extras) == len(given) else [None] * len(given)
        return [(self._number(score), extra) for score, extra in zip(given, beside, strict=True)]

    def _number(self, score: Any) -> float | None:
        if score is INVALID:
            return None
        try:
            number = float(score)
        except (TypeError, ValueError):
            raise PluginError(
                f"{self._file}: _compute gave {score!r} as a score; it must be a number or None"
            ) from None
        return None if math.isnan(number) else number

    @cached_property
    def _class(self) -> type:
        return load_class(self._file, self._base, "metrics")

    @cached_property
    def _made(self) -> Any:
        return call_user_code(self._file, "__init__", self._make)

    def _make(self) -> Any:
        return self._class(dict(self._settings))


class RefiningTse(Syntax):
    """The task ``syntax`` with what only users of refining-tse ask for.

    ``metrics`` are classes of the user's own: {name: {file: file.py:Class, settings: {…}}}. ``lemma_stats`` keeps of
    each context the rank, probability and cumulative probability of every verb form, which takes much room.
    """

    name = "refining_tse"
    version = Syntax.version + 1

    def __init__(
        self,
        data: DataSpec,
        metrics: dict[str, Options] | None = None,
        lemma_stats: bool = False,
        verbs: Path | None = None,
        cutoffs_top: list[Cutoff] = TOP,
        cutoffs_bottom: list[Cutoff] = BOTTOM,
        capitalize: bool = True,
        period: bool = True,
        max_per_file: Annotated[int, Field(ge=1)] | None = None,
        max_rows: Annotated[int, Field(ge=1)] | None = None,
        compat: Literal["none", "released"] = "none",
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        text = (verbs, cutoffs_top, cutoffs_bottom, capitalize, period)
        super().__init__(data, *text, max_per_file, max_rows, compat=compat, label=label, base_dir=base_dir)
        self._own = own_metrics(metrics or {}, base_dir)
        # The user's metrics are means over rows, as TSE is.
        own_weights = {metric.name: rows_of(metric.name) for metric in self._own}
        own_crossed = {metric.name: VERB_PAIR for metric in self._own}
        self.design = replace(
            self.design,
            weights={**self.design.weights, **own_weights},
            crossed={**self.design.crossed, **own_crossed},
        )
        self._lemma_stats = lemma_stats

    def check(self) -> None:
        super().check()
        for metric in self._own:
            metric.check()

    def signature(self) -> Mapping[str, Any]:
        own = {f"metric.{metric.name}": metric.signature() for metric in self._own}
        return {**super().signature(), **own, **({"lemma_stats": True} if self._lemma_stats else {})}

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        scores = super().score(examples, responses)
        # Without a number there is nothing that a metric could be told to expect.
        judged = [i for i, example in enumerate(examples) if example.reference in _NUMBERS]
        for i in {*range(len(examples))} - {*judged}:
            missing = {metric.name: _NO_NUMBER for metric in self._own}
            scores[i] = replace(scores[i], unscored={**scores[i].unscored, **missing})
        if not judged:
            return scores
        answers = [_candidates_of(responses[i]) for i in judged]
        rows = [row for place, i in enumerate(judged) for row in self._asked(place, examples[i])]
        logits, words = self._given(answers)
        for metric in self._own:
            found: list[list[RowScore]] = [[] for _ in judged]
            for row, (value, extra) in zip(rows, metric.scores(logits, rows, words), strict=True):
                if value is not None:
                    found[row.context].append(RowScore(row.row, value, extra if _is_json(extra) else None))
            for i, of_rows in zip(judged, found, strict=True):
                scores[i] = _with_own(scores[i], metric.name, of_rows, examples[i])
        if self._lemma_stats:
            for i, answer in zip(judged, answers, strict=True):
                scores[i] = replace(scores[i], details={**scores[i].details, "lemma_stats": self._stats_of(answer)})
        return scores

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        return [*super().aggregate(table, settings), *(_over_rows(table, m.name, settings) for m in self._own)]

    @cached_property
    def _candidates(self) -> tuple[str, ...]:
        own = (word for metric in self._own for word in metric.words)
        return tuple(dict.fromkeys([*super()._candidates, *own]))

    @cached_property
    def _templates(self) -> dict[tuple[str, str], str]:
        return {(context.left, context.right): Path(context.template).name for context in self._gathered[0]}

    def _given(self, answers: Sequence[Candidates]) -> tuple[NDArray[np.float64], WordIndex]:
        """What ``_compute`` is given: log-probabilities of the words, and of all others together as the last column."""
        logprobs = np.stack([np.asarray(answer.logprobs, dtype=np.float64) for answer in answers])
        words = WordIndex(self._candidates, np.asarray(~np.isnan(logprobs).all(axis=0)))
        asked = np.where(np.isnan(logprobs), -np.inf, logprobs)
        rest = np.maximum(1 - np.exp(asked).sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.hstack([asked, np.log(rest)]), words

    def _asked(self, place: int, example: Example) -> Iterator[MetricRow]:
        """The original puts every row to a metric, also where several stand in one context."""
        file = self._templates[example.inputs["left"], example.inputs["right"]]
        for row, good, bad in example.inputs["rows"]:
            yield MetricRow(place, row, _NUMBERS[example.reference], MetricTemplate(file, (good, bad)))

    def _stats_of(self, answer: Candidates) -> dict[str, list[float]]:
        """Verb form → rank from the top, probability, and probability of all that is no more probable."""
        found = {}
        for form in self._verbs.forms:
            candidate = answer[self._candidate_index[form]]
            if candidate.logprob is not None and candidate.rank is not None and candidate.mass_below is not None:
                p = math.exp(candidate.logprob)
                # Seven digits are what the model's float32 holds, and half the room.
                found[form] = [candidate.rank, float(f"{p:.7g}"), float(f"{candidate.mass_below + p:.7g}")]
        return found


def own_metrics(metrics: Mapping[str, Options], base: Path) -> list[OwnMetric]:
    """The user's own metrics that a task's option names."""
    found = []
    for name, options in metrics.items():
        if name in ("ew", "mw", "mass", "tse") or "@" in name or name.endswith(rows_of("")):
            raise ConfigError(f"task.metrics.{name}: this name is taken; choose another one")
        if not isinstance(options.get("file"), str):
            raise ConfigError(f"task.metrics.{name}.file: must be file.py:Class (got {options.get('file')!r})")
        found.append(OwnMetric(name, options["file"], options.get("settings") or {}, base))
    return found


def rows_of(metric: str) -> str:
    """The column that says how many rows a context's value of a user's metric stands for."""
    return f"{metric}_rows"


def row_scores(score: Score, name: str) -> list[RowScore]:
    """What a user's metric said of each row of a context."""
    return [RowScore(*found) for found in score.details.get("own", {}).get(name, ())]


def _with_own(score: Score, name: str, found: Sequence[RowScore], example: Example) -> Score:
    """The mean over the rows of a context, their number, the same by pair of verbs, and each row among the details."""
    if not found:
        return replace(score, unscored={**score.unscored, name: "the metric gave no score"})
    own = {**score.details.get("own", {}), name: [list(row) for row in found]}
    values = {name: sum(row.score for row in found) / len(found), rows_of(name): float(len(found))}
    outcomes = {**score.outcomes, name: by_verb_pair(example, [(row.row, row.score) for row in found])}
    return replace(score, values={**score.values, **values}, details={**score.details, "own": own}, outcomes=outcomes)


def _over_rows(table: ScoreTable, name: str, settings: Settings) -> Result:
    """The mean over rows, as of the built-in TSE: a context counts as often as it has a score."""
    has = ~np.isnan(table.column(name))
    counts = table.column(rows_of(name))[has].astype(np.int64)
    in_data = np.array([int(count) for count in table.groups["rows"]])
    n, n_error = int(counts.sum()), int(in_data[table.in_error()].sum())
    n_unscored = int(in_data.sum()) - n_error - n
    clusters = Syntax.design.clusters
    observed = observations(table, name, clusters=clusters, weight=rows_of(name), crossed=VERB_PAIR)
    if observed is None:
        return Result(name, "overall", None, None, None, 0, n_error, n_unscored)
    estimated = intervals.mean_estimate(observed.values, observed.clusters, weights=observed.weights)
    return intervals.observed_result(estimated, observed, name, "overall", (n, n_error, n_unscored), settings)


def _candidates_of(responses: Sequence[Response]) -> Candidates:
    answer = responses[0].answer
    assert isinstance(answer, Candidates)
    return answer


def _as_tensor(values: NDArray[np.float64]) -> Any:
    """A torch tensor where torch is loaded, which a class that uses it has done."""
    torch = sys.modules.get("torch")
    return values if torch is None else torch.from_numpy(np.ascontiguousarray(values))


def _as_list(values: Any) -> list[Any] | None:
    """A batch of values, or None if it is a single one."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return list(values) if isinstance(values, list | tuple) else None


def _is_json(value: Any) -> bool:
    try:
        digest(value)
    except (TypeError, ValueError):
        return False
    return True
