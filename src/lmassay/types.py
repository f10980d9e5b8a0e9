"""The nouns that every part of lmassay speaks in. Frozen, no I/O, and all of them survive a trip through JSON."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = Sequence[float | None] | NDArray[np.float64]

Verb = Literal["generate", "logprobs", "slot", "train"]
State = Literal["scored", "unscored", "error"]
Finish = Literal["stop", "length", "content_filter", "refusal", "empty", "too_long"]
Better = Literal["higher", "lower", "zero"]

OVERALL = "overall"
"""The group of results that are over all examples."""

INTERVAL_RULE = "cr2.1"
"""The version of the rule by which intervals are computed; what was done for a number is in its ``Result.method``."""


@dataclass(frozen=True, slots=True)
class Example:
    """One thing that is asked about. ``groups`` (category, template …) make tables and clusters."""

    id: str
    inputs: Mapping[str, Any]
    reference: Any = None
    groups: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """Where a request stands in its data set, for models that look ready-made answers up: a role and a line or id."""

    role: str
    key: int | str


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask for text. Either a prompt or chat messages, each a (role, content) pair."""

    verb: ClassVar[Verb] = "generate"
    prompt: str = ""
    messages: tuple[tuple[str, str], ...] = ()
    max_tokens: int = 256
    temperature: float = 0.0
    stop: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    """If any: the answer must be one of these texts, the one that the model finds most probable."""
    # Not part of what the model is asked, hence neither of equality nor of the cache key.
    location: SourceLocation | None = field(default=None, compare=False)
    draw: str = field(default="", compare=False)
    """Which draw a sampled answer is: the seed for models that sample here."""


@dataclass(frozen=True, slots=True)
class LogProbs:
    """Ask for the log-probability of a continuation after a context, or as the reply to chat messages."""

    verb: ClassVar[Verb] = "logprobs"
    context: str
    continuation: str
    messages: tuple[tuple[str, str], ...] = ()
    location: SourceLocation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Slot:
    """Ask how candidate words fare at a blank: the text is ``left + word + right``, spaces included.

    Masked models see both sides, causal ones the left. ``ranked`` asks for rank and mass as well. A word of several
    tokens is spelled out where ``multi_token`` says so, and has no score otherwise.
    """

    verb: ClassVar[Verb] = "slot"
    left: str
    right: str
    candidates: tuple[str, ...]
    ranked: bool = True
    multi_token: bool = False
    location: SourceLocation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Train:
    """Ask that something be learned: a piece of work that any process can do, and whose outcome is kept.

    ``trainer`` names the trainer that does it, ``spec`` says what is to be learned, ``after`` are trainings whose
    outcomes it builds upon.
    """

    verb: ClassVar[Verb] = "train"
    trainer: str
    spec: Mapping[str, Any]
    after: tuple[Train, ...] = ()
    data_paths: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Where the data lie on this machine, which is no part of what is asked."""
    key: str = field(init=False, compare=False, repr=False)
    """What tells trainings apart, without the model."""

    def __post_init__(self) -> None:
        # Made once: what comes before is shared by many, and has others before it.
        own = digest({"by": self.trainer, "spec": self.spec, "after": [earlier.key for earlier in self.after]})
        object.__setattr__(self, "key", own)


Request = Generate | LogProbs | Slot | Train


@dataclass(frozen=True, slots=True)
class Continuation:
    """Answer to LogProbs: natural-log probability in all and per token."""

    total: float
    tokens: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """How one word fares at a blank; ``logprob`` is None for a word the vocabulary cannot spell as asked."""

    logprob: float | None
    rank: int | None = None
    mass_above: float | None = None
    mass_below: float | None = None


@dataclass(frozen=True, slots=True)
class Candidates:
    """Answer to Slot, as columns in the order of the request's words: lists or numpy arrays of one length.

    ``logprobs`` holds NaN (or None) for a word the vocabulary cannot spell as asked. The others are for models that
    rank their whole vocabulary: how many tokens are more probable, how much they weigh together, and how much all less
    probable ones do.
    """

    logprobs: Column
    ranks: Column | None = None
    masses_above: Column | None = None
    masses_below: Column | None = None

    def __len__(self) -> int:
        return len(self.logprobs)

    def __getitem__(self, place: int) -> Candidate:
        logprob = _plain(self.logprobs[place])
        if logprob is None:
            return Candidate(None)
        rank, above, below = (
            None if column is None else _plain(column[place])
            for column in (self.ranks, self.masses_above, self.masses_below)
        )
        return Candidate(logprob, None if rank is None else int(rank), above, below)

    def __iter__(self) -> Iterator[Candidate]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidates) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def candidates_from_rows(words: Iterable[Candidate]) -> Candidates:
    """The columns of candidates given one by one."""
    rows = list(words)
    return Candidates(
        [r.logprob for r in rows], [r.rank for r in rows], [r.mass_above for r in rows], [r.mass_below for r in rows]
    )


def _plain(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """Answer to Train: what came of it, as plain JSON."""

    outcome: Mapping[str, Any]


Answer = str | Continuation | Candidates | TrainingOutcome


@dataclass(frozen=True, slots=True)
class Response:
    """What came back: an answer or an error, never both. ``finish`` tells whole answers from cut or refused ones."""

    answer: Answer | None = None
    error: str | None = None
    finish: Finish = "stop"
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float | None = None

    @property
    def text(self) -> str:
        """The answer to a Generate request."""
        if not isinstance(self.answer, str):
            raise TypeError(f"no text in this response: {self.error or self.answer!r}")
        return self.answer

    @property
    def usable(self) -> bool:
        """True where there is an answer that a task may judge."""
        return self.answer is not None and self.error is None


@dataclass(frozen=True, slots=True)
class PerTestScores:
    """The scores on single tests, where an example is a training and its score a mean over a test set."""

    tests: str
    """A digest of the test set: only scores on the same tests, in the same order, can be paired."""
    scores: Mapping[str, Sequence[float]]
    """By metric, one score for each test."""
    groups: Sequence[int] = ()
    """The number of the group that each test belongs to, such as its passage; empty if tests are independent."""

    def as_dict(self) -> dict[str, Any]:
        scores = {metric: list(values) for metric, values in self.scores.items()}
        return {"tests": self.tests, "scores": scores, "groups": list(self.groups)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an example fared on those of its rows that have one label, such as the rows that try one pair of verbs."""

    label: str
    """What other examples may have in common with these rows: the pair of verbs."""
    value: float
    """The mean of the metric over these rows."""
    rows: float = 1.0
    """How many rows that are."""


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict on one example: numbers by metric, or the reason why a metric has none. Never NaN."""

    values: Mapping[str, float] = field(default_factory=dict)
    unscored: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    """For metrics in ``Design.crossed``: the value again, apart for each label. The value of the metric is the mean
    over the outcomes, each counting by its rows. Statistics need them; tables and pages show the value."""
    test_scores: PerTestScores | None = None
    """Of a task whose ``design.replicates`` is set: what the values are means of."""


@dataclass(frozen=True, slots=True)
class Row:
    """One example of a run as the store keeps it."""

    example: Example
    state: State
    score: Score = field(default_factory=Score)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A number with what it rests on. ``low`` and ``high`` are None where no interval can be given."""

    metric: str
    group: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_error: int = 0
    n_unscored: int = 0
    method: str = ""
    """How the interval was computed, such as ``wilson/template`` (clustered by template), or why there is none."""
    clusters: Mapping[str, int] = field(default_factory=dict)
    """How many clusters it rests on, such as ``{"noun": 10, "verb_pair": 2}``; empty where examples are independent."""

    def as_dict(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        # Results of early versions have neither, and many others have no clusters.
        for name in ("method", "clusters"):
            if not data[name]:
                del data[name]
        return data


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that a task reports, with everything that tables, comparisons, gates, exports and pages need to know.

    >>> Metric("word_error_rate", "words that are wrong", better="lower", bounds=(0, 1)).better
    'lower'
    """

    name: str
    title: str = ""
    """What it is in a few words; the name if left out."""
    better: Better = "higher"
    """Which direction is better; ``zero`` where both ends are bad."""
    bounds: tuple[float | None, float | None] | None = None
    """The least and the largest possible value. An end without a limit is None; an infinite end is stored so."""
    chance: float | None = None
    """What guessing would score."""
    meaning: str = ""
    """One sentence for somebody who does not know the metric."""
    verdict: bool = False
    """True if every example is simply right (1) or wrong (0), rather than scored by degree."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"Metric {self.name!r}: name must be a text that is not empty")
        if self.better not in ("higher", "lower", "zero"):
            raise ValueError(f"Metric {self.name!r}: better must be 'higher', 'lower' or 'zero', not {self.better!r}")
        object.__setattr__(self, "bounds", _checked_bounds(self))
        _check_chance(self)

    @property
    def display_title(self) -> str:
        """The title, or the name of a metric without one."""
        return self.title or self.name

    @property
    def range(self) -> tuple[float, float] | None:
        """The bounds of a metric that has both."""
        if self.bounds is None:
            return None
        low, high = self.bounds
        return None if low is None or high is None else (low, high)


def _checked_bounds(metric: Metric) -> tuple[float | None, float | None] | None:
    """The bounds as they are stored: JSON has neither tuples nor infinity."""
    if metric.bounds is None:
        return None
    expected = f"Metric {metric.name!r}: bounds must be two numbers, the smaller first, not {metric.bounds!r}"
    if not isinstance(metric.bounds, tuple | list) or len(metric.bounds) != 2:
        raise ValueError(expected)
    ends: list[float | None] = []
    for end, unlimited in zip(metric.bounds, (-math.inf, math.inf), strict=True):
        if end is None or end == unlimited:
            ends.append(None)
        elif _is_finite_number(end):
            ends.append(float(end))
        else:
            raise ValueError(expected)
    low, high = ends
    if low is not None and high is not None and low >= high:
        raise ValueError(expected)
    return None if low is None and high is None else (low, high)


def _check_chance(metric: Metric) -> None:
    if metric.chance is None:
        return
    if not _is_finite_number(metric.chance):
        raise ValueError(f"Metric {metric.name!r}: chance must be a number, not {metric.chance!r}")
    low, high = metric.bounds or (None, None)
    if (low is not None and metric.chance < low) or (high is not None and metric.chance > high):
        raise ValueError(f"Metric {metric.name!r}: chance must be within the bounds {(low, high)}, not {metric.chance}")


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def find_metric(name: str, declared: Iterable[Metric]) -> Metric | None:
    """The declaration of a metric among several; None if there is none.

    A point of a curve (``ew@top0.5``) and a statistic of a metric (``d_tgt.std``) share the facts of the metric that
    they belong to, but they are no verdict on an example.
    """
    by_name = {metric.name: metric for metric in declared}
    if name in by_name:
        return by_name[name]
    base = name.partition("@")[0].partition(".")[0]
    if base in by_name:
        return dataclasses.replace(by_name[base], name=name, title="", verdict=False)
    return None


@dataclass(frozen=True, slots=True)
class Combination:
    """How a metric is combined from the means of several columns.

    The value is ``constant + Σ weight · mean(column)``, each mean over the rows that have the column. With ``each``,
    that is computed within every label of a group and averaged over the labels, so that each label has equal weight.
    """

    terms: Mapping[str, float]
    constant: float = 0.0
    each: str | None = None
    bounds: tuple[float, float] = (0.0, 1.0)
    """What no interval may go beyond."""

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def combination_from_dict(data: Mapping[str, Any]) -> Combination:
    """The inverse of :meth:`Combination.as_dict`, after a trip through JSON."""
    return Combination(**{**data, "bounds": tuple(data["bounds"])})


@dataclass(frozen=True, slots=True)
class Replicates:
    """For a task whose examples are repetitions of one experiment, such as trainings on splits of one pool.

    Repetitions that share their data are not independent: see :mod:`lmassay.statistics.replicates`.
    """

    group: str
    """The group whose labels tell repetitions apart: ``split``."""
    correlation: Mapping[str, float] = field(default_factory=dict)
    """By metric: how strongly the results of two repetitions are correlated because they share data; 0 if not named."""

    def as_dict(self) -> dict[str, Any]:
        return {"group": self.group, "correlation": dict(self.correlation)}


@dataclass(frozen=True, slots=True)
class Design:
    """What statistics need to know about a task."""

    clusters: tuple[str, ...] = ()
    """Groups whose members are not independent of each other, such as questions made from one template."""
    headline: tuple[str, ...] = ()
    """The metrics that tables and comparisons show unless asked for others; all of them if none is named."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Metrics that are means over something other than examples: metric → the column that says over how many."""
    combinations: Mapping[str, Combination] = field(default_factory=dict)
    """Metrics that are combined from several columns."""
    pair_by: tuple[str, ...] = ()
    """The groups by which runs are paired that have no example in common."""
    replicates: Replicates | None = None
    """Set if examples are repetitions of one experiment."""
    crossed: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose examples share something beside their clusters, as contexts of different nouns try the same pairs
    of verbs: metric → what the labels of its ``Score.outcomes`` are, in the singular (``{"tse": "verb_pair"}``).
    Intervals and comparisons are then clustered both ways."""

    @property
    def cluster(self) -> str | None:
        """The group that examples are clustered by, if any."""
        return self.clusters[0] if self.clusters else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "clusters": list(self.clusters),
            "headline": list(self.headline),
            "weights": dict(self.weights),
            "combinations": {metric: combination.as_dict() for metric, combination in self.combinations.items()},
            "pair_by": list(self.pair_by),
            **({} if self.replicates is None else {"replicates": self.replicates.as_dict()}),
            "crossed": dict(self.crossed),
        }


def design_from_dict(data: Mapping[str, Any]) -> Design:
    """The inverse of :meth:`Design.as_dict`; early versions named one cluster and one group to pair by."""
    clusters = data.get("clusters")
    if clusters is None:
        clusters = [data["cluster"]] if data.get("cluster") else []
    pair_by = data.get("pair_by") or []
    combinations = data.get("combinations") or {}
    return Design(
        clusters=tuple(clusters),
        headline=tuple(data.get("headline") or ()),
        weights=dict(data.get("weights") or {}),
        combinations={metric: combination_from_dict(stored) for metric, stored in combinations.items()},
        pair_by=(pair_by,) if isinstance(pair_by, str) else tuple(pair_by),
        replicates=Replicates(**data["replicates"]) if data.get("replicates") else None,
        crossed=dict(data.get("crossed") or {}),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """How uncertainty is computed."""

    confidence: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def signature(self, clusters: Sequence[str] = ()) -> str:
        """Confidence, the version of the rule, and what examples are clustered by, for the signature line."""
        clustered = f",clusters={'+'.join(clusters)}" if clusters else ""
        return f"{self.confidence:g},{INTERVAL_RULE}{clustered}"


@dataclass(frozen=True, slots=True)
class CardPart:
    """What a run needs to know about the card that it is part of."""

    size: str
    absent: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Model → evaluation → why it does not apply."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers of a run come from."""

    versions: Mapping[str, str] = field(default_factory=dict)
    platform: str = ""
    machine: str = ""
    cpus: int | None = None
    command: tuple[str, ...] = ()
    signature: Mapping[str, str] = field(default_factory=dict)
    """What the numbers depend on, by name: the parts of the signature."""
    evaluation: str | None = None
    """The evaluation that the task belongs to; empty if it belongs to none, None if the run does not say: those of
    early versions do not."""
    base_task: str = ""
    """The task of that evaluation that this one is, or extends."""
    base_label: str = ""
    """The label without the options that the run's sweep varies; empty in runs of early versions."""
    design: Design = field(default_factory=Design)
    metrics: tuple[Metric, ...] = ()
    notes: tuple[str, ...] = ()
    card: CardPart | None = None

    def as_dict(self) -> dict[str, Any]:
        """As the store keeps it: plain JSON, the design among the other keys."""
        data: dict[str, Any] = {
            "versions": dict(self.versions),
            "platform": self.platform,
            "machine": self.machine,
            "cpus": self.cpus,
            "command": list(self.command),
            "signature": dict(self.signature),
            "base_task": self.base_task,
            **self.design.as_dict(),
            "metrics": [_metric_as_dict(metric) for metric in self.metrics],
            "notes": list(self.notes),
        }
        if self.evaluation is not None:
            data["evaluation"] = self.evaluation
        if self.base_label:
            data["base_label"] = self.base_label
        if self.card is not None:
            data["card"] = dataclasses.asdict(self.card)
        return data


def provenance_from_dict(data: Mapping[str, Any]) -> Provenance:
    """The inverse of :meth:`Provenance.as_dict`; what early versions did not write stays empty."""
    card = data.get("card")
    evaluation = data.get("evaluation")
    return Provenance(
        versions=dict(data.get("versions") or {}),
        platform=str(data.get("platform") or ""),
        machine=str(data.get("machine") or ""),
        cpus=data.get("cpus"),
        command=tuple(data.get("command") or ()),
        signature=dict(data.get("signature") or {}),
        evaluation=None if evaluation is None else str(evaluation),
        base_task=str(data.get("base_task") or ""),
        base_label=str(data.get("base_label") or ""),
        design=design_from_dict(data),
        metrics=tuple(_stored_metric(stored) for stored in data.get("metrics") or ()),
        notes=tuple(data.get("notes") or ()),
        card=None if card is None else CardPart(**card),
    )


def _metric_as_dict(metric: Metric) -> dict[str, Any]:
    """What is declared about a metric; an evaluation may have a hundred, so defaults are left out."""
    fields = {field.name: getattr(metric, field.name) for field in dataclasses.fields(metric)}
    defaults = {field.name: field.default for field in dataclasses.fields(metric)}
    return {name: value for name, value in fields.items() if value != defaults[name]}


def _stored_metric(data: Mapping[str, Any]) -> Metric:
    """The declaration of a metric; what an early version did not check and is wrong is left out."""
    try:
        return Metric(**data)
    except ValueError:
        return Metric(**{**data, "name": str(data["name"]) or "unnamed", "bounds": None, "chance": None})


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is known about a run when it starts."""

    id: str
    sweep: str
    name: str
    task: str
    model: str
    label: str
    config: Mapping[str, Any]
    signature: str
    provenance: Provenance
    planned: int | None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the store keeps it."""

    id: str
    sweep: str
    name: str
    task: str
    model: str
    label: str
    status: str
    config: Mapping[str, Any]
    signature: str
    provenance: Provenance
    results: Sequence[Result]
    note: str
    planned: int | None
    created: str
    finished: str | None
    mark: str = ""
    """Not stored: tells runs that were measured differently apart where they are shown together, such as ``[b]``."""

    @property
    def design(self) -> Design:
        """What statistics need to know about the run's task."""
        return self.provenance.design

    @property
    def depends_on(self) -> Mapping[str, str]:
        """The parts of the signature, by name."""
        return self.provenance.signature

    @property
    def base_task(self) -> str:
        """The evaluation's task that this run's task is, or extends; runs of early versions do not say."""
        return self.provenance.base_task or self.task

    @property
    def base_label(self) -> str:
        """The label without the options that the run's sweep varies; runs of early versions have no others."""
        return self.provenance.base_label or self.label

    @property
    def settings(self) -> Settings:
        """How the run computes its intervals; runs of early versions may not say."""
        known = {name: self.config[name] for name in ("confidence", "resamples", "seed") if name in self.config}
        return Settings(**known)

    def result(self, metric: str, group: str = OVERALL) -> Result | None:
        """The result of a metric, over all examples or in one group; None if there is none."""
        for result in self.results:
            if result.metric == metric and result.group == group:
                return result
        return None

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "run": self.id,
            "task": self.task,
            "model": self.model,
            "label": self.label,
            "status": self.status,
            "signature": self.signature,
            "results": [result.as_dict() for result in self.results],
        }


def canonical(value: Any) -> str:
    """JSON with one spelling a value, for hashing and storing.

    A lone surrogate is legal in a Python string but not in UTF-8, so everything beyond ASCII is escaped.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def compact(value: Any) -> str:
    """The same JSON for keeping: beyond ASCII as it is, which is a third of the size for Korean, where UTF-8 has it."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # Only a lone surrogate cannot be written.
    return text if text.isascii() or _is_utf8(text) else canonical(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def digest(*values: Any) -> str:
    """A SHA-256 over JSON-able values, in hex."""
    return hashlib.sha256(canonical(list(values)).encode("ascii")).hexdigest()


def request_as_dict(request: Request) -> dict[str, Any]:
    """What the model is asked, without the place it is asked from."""
    if isinstance(request, Train):
        earlier = [training.key for training in request.after]
        return {"verb": request.verb, "by": request.trainer, "spec": dict(request.spec), "after": earlier}
    fields = {f.name: getattr(request, f.name) for f in dataclasses.fields(request) if f.compare}
    return {"verb": request.verb, **fields}


def request_key(request: Request) -> dict[str, Any]:
    """What tells requests apart. A list of candidate words is shared by many blanks: it is hashed once."""
    if isinstance(request, Train):
        return {"verb": request.verb, "training": request.key}
    if not isinstance(request, Slot):
        return request_as_dict(request)
    key = dataclasses.replace(request, candidates=())
    return {**request_as_dict(key), "candidates": _words_digest(request.candidates)}


@lru_cache(maxsize=64)
def _words_digest(words: tuple[str, ...]) -> str:
    return digest(list(words))


def response_as_dict(response: Response) -> dict[str, Any]:
    """A response as JSON; fields that hold nothing are left out."""
    row = {f.name: getattr(response, f.name) for f in dataclasses.fields(response)}
    answer = response.answer
    if isinstance(answer, Continuation):
        row["answer"] = {"total": answer.total, "tokens": list(answer.tokens)}
    elif isinstance(answer, Candidates):
        row["answer"] = {"candidates": [[c.logprob, c.rank, c.mass_above, c.mass_below] for c in answer]}
    elif isinstance(answer, TrainingOutcome):
        row["answer"] = {"outcome": dict(answer.outcome)}
    return {name: value for name, value in row.items() if value is not None}


def response_from_dict(row: Mapping[str, Any]) -> Response:
    """The inverse of :func:`response_as_dict`."""
    answer: Any = row.get("answer")
    if isinstance(answer, dict) and "candidates" in answer:
        answer = candidates_from_rows(Candidate(*c) for c in answer["candidates"])
    elif isinstance(answer, dict) and "outcome" in answer:
        answer = TrainingOutcome(answer["outcome"])
    elif isinstance(answer, dict):
        answer = Continuation(answer["total"], tuple(answer["tokens"]))
    return Response(**{**row, "answer": answer})
