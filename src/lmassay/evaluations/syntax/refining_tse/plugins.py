"""Use classes written for refining-tse: model classes as models of lmassay, metric classes as further metrics."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

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
    check_tokenizer,
    check_written,
    class_identity,
    load_class,
)
from lmassay.evaluations.syntax.sources import DataSpec
from lmassay.evaluations.syntax.task import PUBLISHED_BOTTOM, PUBLISHED_TOP, Cutoff, Syntax, by_verb_pair
from lmassay.models.hf.logits import candidate_columns
from lmassay.statistics import intervals
from lmassay.statistics.intervals import Settings
from lmassay.statistics.observations import observations
from lmassay.statistics.table import ScoreTable
from lmassay.types import Candidates, Example, Request, Response, Result, Score, Slot, digest


class UserMpeModel(Model):
    """Runs a user's subclass of refining-tse's ``MPEModel``.

    ``file`` names the class as file.py:Class; ``settings`` is the argument of its ``__init__``.
    """

    name = "mpe"
    can = frozenset({"slot"})
    # lmassay cannot know what the class reads, such as weights that may change, so its answers are not cached.
    cached = False

    option_help: ClassVar[Mapping[str, str]] = {
        "file": "the class, as file.py:Class",
        "settings": "the argument that the class receives",
        "label": "name in tables",
    }
    config_example = "model: {name: mpe, file: my_model.py:MyModel}"

    def __init__(
        self, file: str, settings: dict[str, Any] | None = None, label: str = "", base_dir: Path = Path()
    ) -> None:
        self._file = file
        self._settings = settings or {}
        self._base = base_dir
        self._indices: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self.label = label or file.rpartition(":")[2]

    def check(self) -> None:
        """Raise a PluginError if the class lacks a method."""
        check_written(self._file, self._instance, MPEModel, "predict", "word_to_index")
        words = call_user_code(self._file, "word_to_index", getattr, self._instance, "word_to_index", None)
        if not hasattr(self._instance, "predict"):
            raise PluginError(f"{self._file}: a model needs word_to_index and predict; predict is missing")
        if words is None:
            raise PluginError(f"{self._file}: a model needs word_to_index and predict; word_to_index is missing")
        check_tokenizer(self._file, self._base, self._instance)

    @property
    def sees_right(self) -> bool:  # type: ignore[override]  # the class says so
        """The attribute ``bidirectional`` of the class; True if it has none."""
        return bool(getattr(self._instance, "bidirectional", True))

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name, **class_identity(self._file, self._base, self._settings)}

    def slot(self, requests: Sequence[Slot]) -> Iterator[Response]:
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            lefts = [request.left.split() for request in batch]
            rights = [_right_words(request.right) for request in batch]
            logits = call_user_code(self._file, "predict", self._instance.predict, lefts, rights)
            if logits is None:
                # None means that there is no answer: the original skips such a batch.
                for _ in batch:
                    yield Response(finish="empty")
                continue
            values, probabilities = self._checked(logits, len(batch))
            yield from self._answers(batch, values, probabilities)

    @cached_property
    def _class(self) -> type:
        return load_class(self._file, self._base, "models")

    @cached_property
    def _instance(self) -> Any:
        return call_user_code(self._file, "__init__", self._class, dict(self._settings))

    def _checked(self, logits: Any, size: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return logits and probabilities, or raise a PluginError that says what is wrong with the logits."""
        values = _array(logits)
        if values.ndim != 2 or len(values) != size or values.shape[1] == 0:
            shape = "×".join(map(str, values.shape))
            raise PluginError(
                f"{self._file}: predict gave {shape} logits for {size} contexts; it must be contexts×words"
            )
        if np.isnan(values).any():
            raise PluginError(f"{self._file}: predict gave logits that are not numbers (NaN)")
        if np.isposinf(values).any():
            raise PluginError(f"{self._file}: predict gave a logit of +inf, or one too large for 32 bits")
        if np.isneginf(values).all(axis=1).any():
            raise PluginError(f"{self._file}: predict gave -inf for all words of a context; one must be possible")
        if hasattr(logits, "softmax"):
            # torch's own softmax: its last bit decides the order of two equally probable words.
            return values, _array(logits.float().softmax(-1))
        return values, _softmax(values)

    def _answers(
        self, batch: Sequence[Slot], logits: NDArray[np.float32], probabilities: NDArray[np.float32]
    ) -> Iterator[Response]:
        for request, row, p in zip(batch, logits, probabilities, strict=True):
            ids = self._ids(request.candidates, len(row))
            answer = candidate_columns(row, p if request.ranked else None, ids)
            if request.full_logits:
                answer = replace(answer, logits=row, ids=ids)
            yield Response(answer)

    def _ids(self, words: tuple[str, ...], size: int) -> NDArray[np.int64]:
        """Return the indices of words among the logits, -1 for words that the model does not know."""
        if words not in self._indices:
            self._indices[words] = call_user_code(self._file, "word_to_index", self._looked_up, words)
            largest = int(self._indices[words].max(initial=-1))
            if largest >= size:
                raise PluginError(
                    f"{self._file}: word_to_index gives the index {largest}, but predict gives only {size} logits"
                )
        return self._indices[words]

    def _looked_up(self, words: Sequence[str]) -> NDArray[np.int64]:
        word_to_index = self._instance.word_to_index
        # The original's base class describes a dict, its README a method; both are supported.
        look_up = word_to_index if callable(word_to_index) else word_to_index.get
        indices = []
        for word in words:
            index = look_up(word)
            indices.append(-1 if index is None else int(index))
        return np.array(indices, dtype=np.int64)


def _right_words(text: str) -> list[str]:
    """Return the words after the verb as the original passes them: the full stop is a word."""
    words = text.split()
    if words and words[-1].endswith(".") and words[-1] != ".":
        words[-1:] = [words[-1].removesuffix("."), "."]
    return words


def _array(values: Any) -> NDArray[np.float32]:
    """Return a torch tensor on any device, or anything that numpy accepts, as an array."""
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
_NO_NUMBER = "it is unknown whether the right verb is singular or plural; give a label"


class MetricTemplate(NamedTuple):
    """What a metric is given about an example in addition to the grammatical number of its right verb."""

    template_id: str
    """The name of the file that the example is from."""
    lemma_inflections: tuple[str, str]
    """The right and the wrong form of the verb."""


class MetricRow(NamedTuple):
    """A row of the data that a metric scores."""

    context: int
    """The index of its context among those that the metric is given."""
    row: int
    """Its row number in the data."""
    label: Number
    """The grammatical number of the right verb: singular or plural."""
    template: MetricTemplate


class RowScore(NamedTuple):
    """The score of a row; ``extra`` is further information that the metric returned for it."""

    row: int
    score: float
    extra: Any


class WordIndex:
    """Like a dict: word → index among the logits that a metric gets, for words that the model was asked about."""

    def __init__(self, words: Sequence[str], indices: Sequence[int]) -> None:
        """``indices`` has the index of each word among the logits, a negative one for a word that the model lacks."""
        self._indices = dict(zip(words, indices, strict=True))

    def __contains__(self, word: str) -> bool:
        if word not in self._indices:
            raise PluginError(
                f"a metric looks for '{word}', which the model was not asked about; "
                f"add `words: [{word}]` to the metric's section"
            )
        return self._indices[word] >= 0

    def __getitem__(self, word: str) -> int:
        index = self.get(word)
        if index is None:
            raise KeyError(word)
        return index

    def get(self, word: str, default: int | None = None) -> int | None:
        return self._indices[word] if word in self else default


class UserMetric:
    """A metric class written for refining-tse."""

    def __init__(self, name: str, file: str, settings: Options, base: Path) -> None:
        self.name = name
        self._file = file
        self._settings = settings
        self._base = base
        words = settings.get("words", [])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ConfigError(f"metrics.{name}.words: must be a list of words (got {words!r})")
        self.words: list[str] = words
        full_logits = settings.get("full_logits", False)
        if not isinstance(full_logits, bool):
            raise ConfigError(f"metrics.{name}.full_logits: must be true or false (got {full_logits!r})")
        self.full_logits = full_logits

    def check(self) -> None:
        if not callable(getattr(self._class, "_compute", None)):
            raise PluginError(f"{self._file}: a metric needs _compute")
        check_written(self._file, self._instance, MetricComputer, "_compute")

    def signature(self) -> str:
        return ",".join(f"{k}={v}" for k, v in class_identity(self._file, self._base, self._settings).items())

    def scores(
        self, logits: NDArray[np.float64], rows: Sequence[MetricRow], words: WordIndex
    ) -> list[tuple[float | None, Any]]:
        """Return (score, extra information) of each row; ``logits`` has a row for each context."""
        scored: list[tuple[float | None, Any]] = []
        size = BATCH
        while len(scored) < len(rows):
            batch = rows[len(scored) : len(scored) + size]
            contexts = [row.context for row in batch]
            labels = [row.label for row in batch]
            templates = [row.template for row in batch]
            batch_scores = self._computed(logits[contexts], labels, templates, words)
            if batch_scores is None:
                # The class gave one number for the whole batch: it is written for one example at a time.
                size = 1
            else:
                scored += batch_scores
        return scored

    def summary(self, scores: Sequence[float], extras: Sequence[Any]) -> dict[str, Any]:
        """Return what the class's ``summarize`` returns for all scores; without one, their mean and number."""
        # A new instance, because the one that computed the scores may have collected scores itself.
        instance = call_user_code(self._file, "__init__", self._make)
        if not hasattr(instance, "summarize") or not hasattr(instance, "score_per_example"):
            mean = float(np.mean(scores)) if len(scores) else "INVALID_SCORE_VALUE"
            return {"Overall model score": mean, "Number of examples": len(scores)}
        instance.score_per_example.extend(scores)
        instance.extra_info_per_example.extend(extras)
        # The error message says what the new instance has, because a summarize that needs more fails here.
        method = "summarize (called on a new instance that has only the scores)"
        return dict(call_user_code(self._file, method, instance.summarize))

    def _computed(self, *arguments: Any) -> list[tuple[float | None, Any]] | None:
        """Return (score, extra information) of a batch; None if the class gave one number for several examples."""
        logits, labels, *others = arguments
        compute = self._instance._compute
        answer = call_user_code(self._file, "_compute", compute, _as_tensor(logits), list(labels), *others)
        if not isinstance(answer, tuple) or len(answer) != 3:
            raise PluginError(f"{self._file}: _compute must return (scores, extra information, dict); got {answer!r}")
        scores = _as_list(answer[0])
        extras = _as_list(answer[1])
        if scores is None:
            if len(labels) > 1:
                return None
            scores = [answer[0]]
        if len(scores) != len(labels):
            raise PluginError(f"{self._file}: _compute gave {len(scores)} scores for {len(labels)} examples")
        if extras is None or len(extras) != len(scores):
            extras = [None] * len(scores)
        return [(self._number(score), extra) for score, extra in zip(scores, extras, strict=True)]

    def _number(self, score: Any) -> float | None:
        if score is INVALID:
            return None
        try:
            number = float(score)
        except (TypeError, ValueError):
            raise PluginError(
                f"{self._file}: _compute gave {score!r} as a score; it must be a number or None"
            ) from None
        # The original treats a NaN as an example without a score.
        if math.isnan(number):
            return None
        return number

    @cached_property
    def _class(self) -> type:
        return load_class(self._file, self._base, "metrics")

    @cached_property
    def _instance(self) -> Any:
        return call_user_code(self._file, "__init__", self._make)

    def _make(self) -> Any:
        return self._class(dict(self._settings))


class RefiningTse(Syntax):
    """The task ``syntax`` with two more options, which only users of refining-tse need.

    ``metrics`` are the user's own classes: {name: {file: file.py:Class, settings: {…}}}. ``lemma_stats`` keeps rank,
    probability and cumulative probability of every verb form in every context, which takes a lot of space.
    """

    name = "refining_tse"
    version = Syntax.version + 1

    option_help: ClassVar[Mapping[str, str]] = {
        "metrics": "your own metrics of refining-tse: a name for each, with file.py:Class and its options",
        "lemma_stats": "also record rank, probability and cumulative probability of each verb form",
    }
    config_example = "task: {name: refining_tse, data: pairs.jsonl, lemma_stats: true}"

    def __init__(
        self,
        data: DataSpec,
        metrics: dict[str, Options] | None = None,
        lemma_stats: bool = False,
        verbs: Path | None = None,
        cutoffs_top: list[Cutoff] = PUBLISHED_TOP,
        cutoffs_bottom: list[Cutoff] = PUBLISHED_BOTTOM,
        capitalize: bool = True,
        period: bool = True,
        max_per_file: Annotated[int, Field(ge=1)] | None = None,
        max_rows: Annotated[int, Field(ge=1)] | None = None,
        compat: Literal["none", "released"] = "none",
        label: str = "",
        base_dir: Path = Path(),
    ) -> None:
        super().__init__(
            data,
            verbs=verbs,
            cutoffs_top=cutoffs_top,
            cutoffs_bottom=cutoffs_bottom,
            capitalize=capitalize,
            period=period,
            max_per_file=max_per_file,
            max_rows=max_rows,
            compat=compat,
            label=label,
            base_dir=base_dir,
        )
        self._user_metrics = user_metrics(metrics or {}, base_dir)
        # The user's metrics are means over rows, as TSE is.
        own_weights = {metric.name: row_count_column(metric.name) for metric in self._user_metrics}
        own_crossed = {metric.name: VERB_PAIR for metric in self._user_metrics}
        self.design = replace(
            self.design,
            weights={**self.design.weights, **own_weights},
            crossed={**self.design.crossed, **own_crossed},
        )
        self._lemma_stats = lemma_stats

    def check(self) -> None:
        super().check()
        for metric in self._user_metrics:
            metric.check()

    def signature(self) -> Mapping[str, Any]:
        parts = dict(super().signature())
        for metric in self._user_metrics:
            parts[f"metric.{metric.name}"] = metric.signature()
        if self._lemma_stats:
            parts["lemma_stats"] = True
        return parts

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> list[Score]:
        scores = super().score(examples, responses)
        judged: list[int] = []
        for index, example in enumerate(examples):
            if example.reference in _NUMBERS:
                judged.append(index)
            else:
                # A metric needs the grammatical number of the right verb; without it, there is no score.
                missing = {metric.name: _NO_NUMBER for metric in self._user_metrics}
                scores[index] = replace(scores[index], unscored={**scores[index].unscored, **missing})
        if not judged:
            return scores
        answers = [_candidates_of(responses[index]) for index in judged]
        rows: list[MetricRow] = []
        for context, index in enumerate(judged):
            rows += self._metric_rows(context, examples[index])
        for metric in self._user_metrics:
            if metric.full_logits:
                logits, words = self._full_logits(metric, answers)
            else:
                logits, words = self._metric_inputs(answers)
            scores_by_context: list[list[RowScore]] = [[] for _ in judged]
            for row, (value, extra) in zip(rows, metric.scores(logits, rows, words), strict=True):
                if value is None:
                    continue
                # Only plain JSON can be stored with the score.
                stored_extra = extra if _is_json(extra) else None
                scores_by_context[row.context].append(RowScore(row.row, value, stored_extra))
            for index, of_context in zip(judged, scores_by_context, strict=True):
                scores[index] = _with_user_scores(scores[index], metric.name, of_context, examples[index])
        if self._lemma_stats:
            for index, answer in zip(judged, answers, strict=True):
                details = {**scores[index].details, "lemma_stats": self._form_stats(answer)}
                scores[index] = replace(scores[index], details=details)
        return scores

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        user_results = [_over_rows(table, metric.name, settings) for metric in self._user_metrics]
        return [*super().aggregate(table, settings), *user_results]

    @cached_property
    def _candidates(self) -> tuple[str, ...]:
        words = dict.fromkeys(super()._candidates)
        for metric in self._user_metrics:
            words |= dict.fromkeys(metric.words)
        return tuple(words)

    @cached_property
    def _templates(self) -> dict[tuple[str, str], str]:
        return {(context.left, context.right): Path(context.template).name for context in self._gathered[0]}

    def _metric_inputs(self, answers: Sequence[Candidates]) -> tuple[NDArray[np.float64], WordIndex]:
        """Return what ``_compute`` is given: the log-probabilities of the candidates, and the column of each word.

        One more column at the end has the log-probability of all other words together.
        """
        rows = [np.asarray(answer.logprobs, dtype=np.float64) for answer in answers]
        logprobs = np.stack(rows)
        # A word that the model does not know has no log-probability in any context.
        is_unknown = np.isnan(logprobs).all(axis=0)
        columns = np.arange(logprobs.shape[1])
        indices = np.where(is_unknown, -1, columns)
        words = WordIndex(self._candidates, indices.tolist())
        known_logprobs = np.where(np.isnan(logprobs), -np.inf, logprobs)
        # The original passes the logits of the whole vocabulary, and a metric may take their softmax. With the
        # probability of all other words as one more column, the softmax gives the same probabilities.
        known_mass = np.exp(known_logprobs).sum(axis=1, keepdims=True)
        # Rounding may leave nothing or less for the other words, and a logarithm needs a positive number.
        other_mass = np.maximum(1 - known_mass, np.finfo(np.float64).tiny)
        return np.hstack([known_logprobs, np.log(other_mass)]), words

    def _full_logits(self, metric: UserMetric, answers: Sequence[Candidates]) -> tuple[NDArray[np.float64], WordIndex]:
        """Return what ``_compute`` is given with ``full_logits``: the logits of the whole vocabulary."""
        rows = []
        for answer in answers:
            if answer.logits is None or answer.ids is None:
                raise PluginError(
                    f"the metric {metric.name} needs the logits of the whole vocabulary (full_logits: true), which "
                    "this model does not give; use a local model, or leave full_logits out"
                )
            rows.append(answer.logits)
        assert answers[0].ids is not None
        return np.stack(rows).astype(np.float64), WordIndex(self._candidates, answers[0].ids.tolist())

    def requests(self, example: Example) -> Sequence[Request]:
        requests = super().requests(example)
        if not any(metric.full_logits for metric in self._user_metrics):
            return requests
        return [replace(request, full_logits=True) for request in requests if isinstance(request, Slot)]

    def _metric_rows(self, context: int, example: Example) -> Iterator[MetricRow]:
        """Yield every row of a context: the original passes each to a metric, even if several share a context."""
        file = self._templates[example.inputs["left"], example.inputs["right"]]
        for row, good, bad in example.inputs["rows"]:
            yield MetricRow(context, row, _NUMBERS[example.reference], MetricTemplate(file, (good, bad)))

    def _form_stats(self, answer: Candidates) -> dict[str, list[float]]:
        """Return verb form → rank from the top, probability, and probability of it and all less probable tokens."""
        stats = {}
        for form in self._verbs.forms:
            candidate = answer[self._candidate_index[form]]
            if candidate.logprob is not None and candidate.rank is not None and candidate.mass_below is not None:
                p = math.exp(candidate.logprob)
                # The model's float32 has seven digits; writing no more halves the space.
                stats[form] = [candidate.rank, float(f"{p:.7g}"), float(f"{candidate.mass_below + p:.7g}")]
        return stats


def user_metrics(metrics: Mapping[str, Options], base: Path) -> list[UserMetric]:
    """Return the user's own metrics that the task's option ``metrics`` names."""
    built = []
    for name, options in metrics.items():
        if name in ("ew", "mw", "mass", "tse") or "@" in name or name.endswith(row_count_column("")):
            raise ConfigError(f"task.metrics.{name}: this name is taken; choose another one")
        if not isinstance(options.get("file"), str):
            raise ConfigError(f"task.metrics.{name}.file: must be file.py:Class (got {options.get('file')!r})")
        built.append(UserMetric(name, options["file"], options.get("settings") or {}, base))
    return built


def row_count_column(metric: str) -> str:
    """Return the name of the column with the number of rows over which a metric of a context is the mean."""
    return f"{metric}_rows"


def row_scores(score: Score, name: str) -> list[RowScore]:
    """Return the scores that a user's metric gave to the rows of a context."""
    return [RowScore(*values) for values in score.details.get("own", {}).get(name, ())]


def _with_user_scores(score: Score, name: str, scored_rows: Sequence[RowScore], example: Example) -> Score:
    """Add a user's metric to the score of a context.

    Its value is the mean over the rows of the context; it is also added for each pair of verbs. The number of rows
    becomes a column, and the scores of single rows become part of the details.
    """
    if not scored_rows:
        return replace(score, unscored={**score.unscored, name: "the metric gave no score"})
    stored_rows = []
    score_by_row = []
    for scored in scored_rows:
        stored_rows.append(list(scored))
        score_by_row.append((scored.row, scored.score))
    n_rows = len(scored_rows)
    mean = sum(score for _, score in score_by_row) / n_rows
    values = {name: mean, row_count_column(name): float(n_rows)}
    own_details = {**score.details.get("own", {}), name: stored_rows}
    outcomes = {name: by_verb_pair(example, score_by_row)}
    return replace(
        score,
        values={**score.values, **values},
        details={**score.details, "own": own_details},
        outcomes={**score.outcomes, **outcomes},
    )


def _over_rows(table: ScoreTable, name: str, settings: Settings) -> Result:
    """Return the mean over rows of the data, as for TSE: each context is weighted by the number of its scored rows."""
    # The table has an entry per context, but n, errors and unscored examples are counted in rows of the data.
    has_score = ~np.isnan(table.column(name))
    scored_rows = table.column(row_count_column(name))[has_score].astype(np.int64)
    rows_of_contexts = np.array([int(count) for count in table.groups["rows"]])
    n = int(scored_rows.sum())
    n_error = int(rows_of_contexts[table.has_error()].sum())
    n_unscored = int(rows_of_contexts.sum()) - n_error - n
    clusters = Syntax.design.clusters
    observed = observations(table, name, clusters=clusters, weight=row_count_column(name), crossed=VERB_PAIR)
    if observed is None:
        return Result(name, "overall", None, None, None, 0, n_error, n_unscored)
    estimated = intervals.mean_estimate(observed.values, observed.clusters, weights=observed.weights)
    counts = (n, n_error, n_unscored)
    return intervals.observed_result(estimated, observed, name, "overall", counts, settings)


def _candidates_of(responses: Sequence[Response]) -> Candidates:
    answer = responses[0].answer
    assert isinstance(answer, Candidates)
    return answer


def _as_tensor(values: NDArray[np.float64]) -> Any:
    """Return a torch tensor if torch is loaded, else the array. A metric class that needs torch has imported it."""
    torch = sys.modules.get("torch")
    return values if torch is None else torch.from_numpy(np.ascontiguousarray(values))


def _as_list(values: Any) -> list[Any] | None:
    """Return a batch of values as a list; None for a single value."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return list(values) if isinstance(values, list | tuple) else None


def _is_json(value: Any) -> bool:
    try:
        digest(value)
    except (TypeError, ValueError):
        return False
    return True
