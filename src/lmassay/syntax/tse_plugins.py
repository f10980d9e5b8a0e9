"""Metric classes written for refining-tse, beside TSE, EW and MW."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lmassay import stats
from lmassay.errors import ConfigError, PluginError
from lmassay.stats import Settings
from lmassay.syntax.sources import DataSpec
from lmassay.syntax.task import BOTTOM, TOP, Cutoff, Syntax
from lmassay.syntax.tse_config import BATCH
from lmassay.syntax.tse_modules import INVALID, Number, class_identity, load_class, told
from lmassay.table import ScoreTable
from lmassay.types import Candidates, Example, Response, Result, Score, digest

Options = dict[str, Any]
_NUMBERS = {"singular": Number.SINGULAR, "plural": Number.PLURAL}


class Template(NamedTuple):
    """What a metric learns of an example beside its number: the file, and the pair's verbs (right, wrong)."""

    template_id: str
    lemma_inflections: tuple[str, str]


class AskedWords:
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
        _ = self._made

    def signature(self) -> str:
        return ",".join(f"{k}={v}" for k, v in class_identity(self._file, self._base, self._settings).items())

    def scores(
        self, logits: NDArray[np.float64], labels: Sequence[Number], templates: Sequence[Template], words: AskedWords
    ) -> list[tuple[float | None, Any]]:
        """(score, extra information) of each example."""
        found: list[tuple[float | None, Any]] = []
        size = BATCH
        while len(found) < len(labels):
            part = slice(len(found), len(found) + size)
            told_of = self._computed(logits[part], labels[part], templates[part], words)
            if told_of is None:
                # One number for a whole batch is the score of one example in classes that are written for one.
                size = 1
            else:
                found += told_of
        return found

    def summary(self, scores: Sequence[float], extras: Sequence[Any]) -> dict[str, Any]:
        """What the class has to say of all scores together."""
        made = told(self._file, "__init__", self._make)
        if not hasattr(made, "summarize") or not hasattr(made, "score_per_example"):
            mean = float(np.mean(scores)) if len(scores) else "INVALID_SCORE_VALUE"
            return {"Overall model score": mean, "Number of examples": len(scores)}
        made.score_per_example.extend(scores)
        made.extra_info_per_example.extend(extras)
        return dict(told(self._file, "summarize (which is given the scores alone)", made.summarize))

    def _computed(self, *arguments: Any) -> list[tuple[float | None, Any]] | None:
        logits, labels, *others = arguments
        compute = self._made._compute
        answer = told(self._file, "_compute", compute, _as_tensor(logits), list(labels), *others)
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
        return told(self._file, "__init__", self._make)

    def _make(self) -> Any:
        return self._class(dict(self._settings))


class RefiningTse(Syntax):
    """The task ``syntax`` with what only users of refining-tse ask for.

    ``metrics`` are classes of the user's own: {name: {file: file.py:Class, settings: {…}}}. ``lemma_stats`` keeps of
    each context the rank, probability and cumulative probability of every verb form, which takes much room.
    """

    name = "refining_tse"

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
        if not judged:
            return scores
        answers = [_candidates_of(responses[i]) for i in judged]
        for metric in self._own:
            found = metric.scores(*self._given([examples[i] for i in judged], answers))
            for i, (value, extra) in zip(judged, found, strict=True):
                scores[i] = _with_own(scores[i], metric.name, value, extra)
        if self._lemma_stats:
            for i, answer in zip(judged, answers, strict=True):
                scores[i] = replace(scores[i], details={**scores[i].details, "lemma_stats": self._stats_of(answer)})
        return scores

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        own = [stats.mean_result(table, metric.name, settings, cluster=self.cluster) for metric in self._own]
        return [*super().aggregate(table, settings), *own]

    @cached_property
    def _candidates(self) -> tuple[str, ...]:
        own = (word for metric in self._own for word in metric.words)
        return tuple(dict.fromkeys([*super()._candidates, *own]))

    @cached_property
    def _templates(self) -> dict[tuple[str, str], str]:
        return {(context.left, context.right): Path(context.template).name for context in self._gathered[0]}

    def _given(
        self, examples: Sequence[Example], answers: Sequence[Candidates]
    ) -> tuple[NDArray[np.float64], list[Number], list[Template], AskedWords]:
        """What ``_compute`` is given: log-probabilities of the words, and of all others together as the last column."""
        logprobs = np.stack([np.asarray(answer.logprobs, dtype=np.float64) for answer in answers])
        words = AskedWords(self._candidates, np.asarray(~np.isnan(logprobs).all(axis=0)))
        asked = np.where(np.isnan(logprobs), -np.inf, logprobs)
        rest = np.maximum(1 - np.exp(asked).sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        labels = [_NUMBERS[example.reference] for example in examples]
        return np.hstack([asked, np.log(rest)]), labels, [self._template(e) for e in examples], words

    def _template(self, example: Example) -> Template:
        _, good, bad = example.inputs["rows"][0]
        return Template(self._templates[example.inputs["left"], example.inputs["right"]], (good, bad))

    def _stats_of(self, answer: Candidates) -> dict[str, list[float]]:
        """Verb form → rank from the top, probability, and probability of all that is no more probable."""
        found = {}
        for form in self._verbs.forms:
            candidate = answer[self._place[form]]
            if candidate.logprob is not None and candidate.rank is not None and candidate.mass_below is not None:
                p = math.exp(candidate.logprob)
                # Seven digits are what the model's float32 holds, and half the room.
                found[form] = [candidate.rank, float(f"{p:.7g}"), float(f"{candidate.mass_below + p:.7g}")]
        return found


def own_metrics(metrics: Mapping[str, Options], base: Path) -> list[OwnMetric]:
    """The user's own metrics that a task's option names."""
    found = []
    for name, options in metrics.items():
        if name in ("ew", "mw", "mass", "tse", "tse_rows") or "@" in name:
            raise ConfigError(f"task.metrics.{name}: this name is taken; choose another one")
        if not isinstance(options.get("file"), str):
            raise ConfigError(f"task.metrics.{name}.file: must be file.py:Class (got {options.get('file')!r})")
        found.append(OwnMetric(name, options["file"], options.get("settings") or {}, base))
    return found


def _with_own(score: Score, name: str, value: float | None, extra: Any) -> Score:
    if value is None:
        return replace(score, unscored={**score.unscored, name: "the metric gave no score"})
    own = {**score.details.get("own", {}), name: extra}
    details = {**score.details, "own": own} if _is_json(extra) and extra is not None else score.details
    return replace(score, values={**score.values, name: value}, details=details)


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
