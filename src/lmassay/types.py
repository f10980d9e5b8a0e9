"""The data types that all parts of lmassay share.

They are immutable, do no input or output, and can be stored as JSON. A run passes through them in this order: a task
yields an :class:`Example` and turns it into requests (:class:`Generate`, :class:`LogProbs`, :class:`Slot`,
:class:`Train`); a model answers each with a :class:`Response`; the task gives the example a :class:`Score`; the scores
of a run are aggregated into a list of :class:`Result`.
"""

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
"""The kinds of request."""
State = Literal["scored", "unscored", "error"]
"""The states of an example: scored; not scorable, with a reason; or the model failed to answer."""
Finish = Literal["stop", "length", "content_filter", "refusal", "empty", "too_long"]
"""Why a model stopped generating."""
Better = Literal["higher", "lower", "zero"]
"""Which values of a metric are better."""

OVERALL = "overall"
"""The group of results that cover all examples."""

INTERVAL_RULE = "cr2.2"
"""The version of the rules for intervals, which is part of every signature. ``Result.method`` says which rule a single
result used."""


# --- examples and requests --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Example:
    """One item of a data set: the input, and what a good answer looks like."""

    id: str
    """A name that is unique within the task."""
    inputs: Mapping[str, Any]
    """The texts and other values that the task's requests are made from."""
    reference: Any = None
    """The expected answer, if the data has one."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """Labels by which results are grouped and examples are clustered, such as ``{"category": "Age"}``."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The position of a request in its data set, for models that look up stored answers by line or id."""

    role: str
    """Which of the example's answers is meant, such as ``out`` or ``adv_out``."""
    key: int | str
    """The line number, counted from 0, or the id."""


@dataclass(frozen=True, slots=True)
class Generate:
    """A request for generated text, given either a prompt or chat messages."""

    verb: ClassVar[Verb] = "generate"
    prompt: str = ""
    """The text to continue; empty if ``messages`` is given."""
    messages: tuple[tuple[str, str], ...] = ()
    """A chat as pairs of role and content, such as ``(("user", "Hello"),)``."""
    max_tokens: int = 256
    """The maximum length of the answer."""
    temperature: float = 0.0
    """The sampling temperature; 0 means that the most probable token is chosen."""
    stop: tuple[str, ...] = ()
    """Texts at which generation stops."""
    choices: tuple[str, ...] = ()
    """If given, the answer is the one of these texts that the model finds most probable."""
    # The two fields below do not change what the model is asked. They are excluded from comparisons, and thereby from
    # the cache key.
    location: SourceLocation | None = field(default=None, compare=False)
    """Where the request is in its data set."""
    draw: str = field(default="", compare=False)
    """Identifies the sample if the temperature is above 0; local models use it as their random seed."""


@dataclass(frozen=True, slots=True)
class LogProbs:
    """A request for the log-probability of a continuation, after a context or as the reply to chat messages."""

    verb: ClassVar[Verb] = "logprobs"
    context: str
    """The text before the continuation; empty if ``messages`` is given."""
    continuation: str
    """The text whose probability is wanted."""
    messages: tuple[tuple[str, str], ...] = ()
    """A chat as pairs of role and content."""
    location: SourceLocation | None = field(default=None, compare=False)
    """Where the request is in its data set."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A request for the probabilities of candidate words in a blank.

    The full text is ``left + word + right``, including spaces. Masked models see both sides of the blank, causal models
    only the left.
    """

    verb: ClassVar[Verb] = "slot"
    left: str
    """The text before the blank."""
    right: str
    """The text after the blank."""
    candidates: tuple[str, ...]
    """The words to score."""
    ranked: bool = True
    """Whether to return each word's rank in the vocabulary and the probability mass above and below it."""
    multi_token: bool = False
    """Whether words of several tokens are scored token by token; if not, they get no score."""
    location: SourceLocation | None = field(default=None, compare=False)
    """Where the request is in its data set."""


@dataclass(frozen=True, slots=True)
class Train:
    """A request to train something. Any process can do the work, and the outcome is cached like an answer."""

    verb: ClassVar[Verb] = "train"
    trainer: str
    """The registered name of the function that does the training."""
    spec: Mapping[str, Any]
    """What to train, as plain JSON; the trainer defines the keys."""
    after: tuple[Train, ...] = ()
    """Trainings that must be done first, because this one uses their outcomes."""
    data_paths: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Where the data is on this machine. The paths do not affect the outcome, so they are not part of the cache key."""
    key: str = field(init=False, compare=False, repr=False)
    """A digest that identifies the training, without the model."""

    def __post_init__(self) -> None:
        # Computed once per object: an earlier training is shared by many later ones, which would otherwise compute
        # the digests of the whole chain again. The JSON key "by" is that of stored answers.
        key = digest({"by": self.trainer, "spec": self.spec, "after": [earlier.key for earlier in self.after]})
        object.__setattr__(self, "key", key)


Request = Generate | LogProbs | Slot | Train


# --- answers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Continuation:
    """The answer to a :class:`LogProbs` request, in natural logarithms."""

    total: float
    """The log-probability of the whole continuation."""
    tokens: tuple[float, ...]
    """The log-probability of each of its tokens."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The score of one word in a blank."""

    logprob: float | None
    """The natural log-probability; None if the vocabulary cannot spell the word as requested."""
    rank: int | None = None
    """How many tokens of the vocabulary are more probable."""
    mass_above: float | None = None
    """The total probability of all more probable tokens."""
    mass_below: float | None = None
    """The total probability of all less probable tokens."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The answer to a :class:`Slot` request: one column per value, in the order of the request's words.

    Columns are lists or numpy arrays of the same length. Indexing and iterating yield :class:`Candidate` objects.
    """

    logprobs: Column
    """Natural log-probabilities; NaN or None for a word that the vocabulary cannot spell as requested."""
    ranks: Column | None = None
    """How many tokens of the vocabulary are more probable; None if the model does not rank its vocabulary."""
    masses_above: Column | None = None
    """The total probability of all more probable tokens."""
    masses_below: Column | None = None
    """The total probability of all less probable tokens."""

    def __len__(self) -> int:
        return len(self.logprobs)

    def __getitem__(self, index: int) -> Candidate:
        logprob = _number_or_none(self.logprobs[index])
        if logprob is None:
            return Candidate(None)
        rank = self._value(self.ranks, index)
        return Candidate(
            logprob,
            None if rank is None else int(rank),
            self._value(self.masses_above, index),
            self._value(self.masses_below, index),
        )

    @staticmethod
    def _value(column: Column | None, index: int) -> float | None:
        return None if column is None else _number_or_none(column[index])

    def __iter__(self) -> Iterator[Candidate]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidates) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def candidates_from_rows(rows: Iterable[Candidate]) -> Candidates:
    """Build the columns of :class:`Candidates` from single words."""
    candidates = list(rows)
    return Candidates(
        logprobs=[candidate.logprob for candidate in candidates],
        ranks=[candidate.rank for candidate in candidates],
        masses_above=[candidate.mass_above for candidate in candidates],
        masses_below=[candidate.mass_below for candidate in candidates],
    )


def _number_or_none(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return float(value)


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """The answer to a :class:`Train` request."""

    outcome: Mapping[str, Any]
    """What the trainer returned, as plain JSON."""


Answer = str | Continuation | Candidates | TrainingOutcome


@dataclass(frozen=True, slots=True)
class Response:
    """What a model returned for one request: either an answer or an error."""

    answer: Answer | None = None
    """The answer; None if there is none."""
    error: str | None = None
    """Why the request failed; None if it did not."""
    finish: Finish = "stop"
    """Why the model stopped: an answer can be complete, cut off, refused or empty."""
    tokens_in: int | None = None
    """The number of input tokens, if the model reports it."""
    tokens_out: int | None = None
    """The number of generated tokens, if the model reports it."""
    seconds: float | None = None
    """How long the request took."""

    @property
    def text(self) -> str:
        """The answer to a Generate request. Raises TypeError if the response has no text."""
        if not isinstance(self.answer, str):
            raise TypeError(f"no text in this response: {self.error or self.answer!r}")
        return self.answer

    @property
    def usable(self) -> bool:
        """Whether there is an answer that a task can score."""
        return self.answer is not None and self.error is None


# --- scores and results -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PerTestScores:
    """Scores on single test items, for tasks in which an example is a training and its score a mean over a test set."""

    tests: str
    """A digest of the test set. Only scores on the same tests, in the same order, can be paired."""
    scores: Mapping[str, Sequence[float]]
    """Metric → one score per test."""
    groups: Sequence[int] = ()
    """The number of the group that each test belongs to, such as its passage; empty if tests are independent."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        scores = {metric: list(values) for metric, values in self.scores.items()}
        return {"tests": self.tests, "scores": scores, "groups": list(self.groups)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The mean of a metric over those rows of an example that share a label, such as one pair of verbs."""

    label: str
    """What these rows have in common with rows of other examples, such as the pair of verbs."""
    value: float
    """The mean of the metric over these rows."""
    rows: float = 1.0
    """The number of rows."""


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of one example: a number per metric, or the reason why a metric has none. Values are never NaN."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Metric → score."""
    unscored: Mapping[str, str] = field(default_factory=dict)
    """Metric → reason why the example has no score."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further values for the report, as plain JSON."""
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    """For metrics in ``Design.crossed``: the value split by label. The mean over the outcomes, weighted by their rows,
    must equal the metric's value. Only statistics use them; tables and pages show the value."""
    test_scores: PerTestScores | None = None
    """For a task with ``Design.replicates``: the single scores whose means are in ``values``."""


@dataclass(frozen=True, slots=True)
class Row:
    """One example of a run as it is stored: with its state, its score and its error."""

    example: Example
    state: State
    score: Score = field(default_factory=Score)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """A metric over a group of examples: the value, its confidence interval and the number of examples."""

    metric: str
    """The name of the metric."""
    group: str
    """The group of examples, such as ``overall`` or ``category=Age``."""
    value: float | None
    """The value; None if no example has a score."""
    low: float | None
    """The lower end of the interval; None if there is no interval."""
    high: float | None
    """The upper end of the interval; None if there is no interval."""
    n: int
    """The number of scored examples."""
    n_error: int = 0
    """The number of examples that the model failed to answer."""
    n_unscored: int = 0
    """The number of examples that could not be scored."""
    method: str = ""
    """How the interval was computed, such as ``wilson/template`` (clustered by template), or why there is none."""
    clusters: Mapping[str, int] = field(default_factory=dict)
    """The number of clusters, such as ``{"noun": 10, "verb_pair": 2}``; empty if examples are independent."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON, without an empty method and without empty clusters."""
        data = dataclasses.asdict(self)
        # Results of early versions have neither field, and many results have no clusters.
        for name in ("method", "clusters"):
            if not data[name]:
                del data[name]
        return data


# --- metrics and study design -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric: what tables, comparisons, gates, exports and pages need to know about it.

    >>> Metric("word_error_rate", "words that are wrong", better="lower", bounds=(0, 1)).better
    'lower'
    """

    name: str
    """The name in results, options and files."""
    title: str = ""
    """A few words that say what it is; the name if left out."""
    better: Better = "higher"
    """Which values are better: ``higher``, ``lower``, or ``zero`` if deviations to both sides are bad."""
    bounds: tuple[float | None, float | None] | None = None
    """The smallest and largest possible value. None stands for an end without a limit; so does infinity."""
    chance: float | None = None
    """The expected value of guessing."""
    meaning: str = ""
    """One sentence for readers who do not know the metric."""
    verdict: bool = False
    """Whether every example is simply right (1) or wrong (0), rather than scored by degree."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"Metric {self.name!r}: name must be a text that is not empty")
        if self.better not in ("higher", "lower", "zero"):
            raise ValueError(f"Metric {self.name!r}: better must be 'higher', 'lower' or 'zero', not {self.better!r}")
        object.__setattr__(self, "bounds", _checked_bounds(self))
        _check_chance(self)

    @property
    def display_title(self) -> str:
        """The title, or the name of a metric without a title."""
        return self.title or self.name

    @property
    def range(self) -> tuple[float, float] | None:
        """The bounds as two numbers; None if an end has no limit."""
        low, high = self.bounds or (None, None)
        if low is None or high is None:
            return None
        return (low, high)


def _checked_bounds(metric: Metric) -> tuple[float | None, float | None] | None:
    """Return the bounds in the form in which they are stored, since JSON has neither tuples nor infinity."""
    if metric.bounds is None:
        return None
    message = f"Metric {metric.name!r}: bounds must be two numbers, the smaller first, not {metric.bounds!r}"
    if not isinstance(metric.bounds, tuple | list) or len(metric.bounds) != 2:
        raise ValueError(message)
    ends: list[float | None] = []
    for end, unlimited in zip(metric.bounds, (-math.inf, math.inf), strict=True):
        if end is None or end == unlimited:
            ends.append(None)
        elif _is_finite_number(end):
            ends.append(float(end))
        else:
            raise ValueError(message)
    low, high = ends
    if low is not None and high is not None and low >= high:
        raise ValueError(message)
    if low is None and high is None:
        return None
    return (low, high)


def _check_chance(metric: Metric) -> None:
    if metric.chance is None:
        return
    if not _is_finite_number(metric.chance):
        raise ValueError(f"Metric {metric.name!r}: chance must be a number, not {metric.chance!r}")
    low, high = metric.bounds or (None, None)
    is_below = low is not None and metric.chance < low
    is_above = high is not None and metric.chance > high
    if is_below or is_above:
        raise ValueError(f"Metric {metric.name!r}: chance must be within the bounds {(low, high)}, not {metric.chance}")


def _is_finite_number(value: object) -> bool:
    # In Python, True and False are numbers.
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def find_metric(name: str, declared: Iterable[Metric]) -> Metric | None:
    """Return the declaration of a metric among several, or None.

    A point of a curve (``ew@top0.5``) and a statistic of a metric (``d_tgt.std``) share the declaration of the metric
    they belong to, except that they are not verdicts on single examples.
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
    """How a metric is computed from the means of several columns: ``constant + Σ weight · mean(column)``.

    Each mean is over the rows that have a value in the column.
    """

    terms: Mapping[str, float]
    """Column → weight."""
    constant: float = 0.0
    """The constant that is added to the weighted means."""
    each: str | None = None
    """If given, the value is computed within every label of this group and averaged over the labels, so that each label
    has the same weight."""
    bounds: tuple[float, float] = (0.0, 1.0)
    """Limits of the interval."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        return dataclasses.asdict(self)


def combination_from_dict(data: Mapping[str, Any]) -> Combination:
    """Read what :meth:`Combination.as_dict` wrote; JSON has turned the bounds into a list."""
    return Combination(**{**data, "bounds": tuple(data["bounds"])})


@dataclass(frozen=True, slots=True)
class Replicates:
    """Declares that a task's examples are repetitions of one experiment, such as trainings on splits of one pool.

    Repetitions that share their data are not independent: see :mod:`lmassay.statistics.replicates`.
    """

    group: str
    """The group whose labels distinguish repetitions, such as ``split``."""
    correlation: Mapping[str, float] = field(default_factory=dict)
    """Metric → correlation between the results of two repetitions that is due to shared data; 0 if not named."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        return {"group": self.group, "correlation": dict(self.correlation)}


@dataclass(frozen=True, slots=True)
class Design:
    """What the statistics need to know about a task."""

    clusters: tuple[str, ...] = ()
    """Groups whose members are not independent of each other, such as questions made from one template."""
    headline: tuple[str, ...] = ()
    """The metrics that tables and comparisons show by default; all metrics if empty."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """For metrics that are means over something other than examples: metric → column with the number of items."""
    combinations: Mapping[str, Combination] = field(default_factory=dict)
    """Metrics that are computed from several columns."""
    pair_by: tuple[str, ...] = ()
    """The groups by which two runs are paired if they have no examples in common."""
    replicates: Replicates | None = None
    """Set if examples are repetitions of one experiment."""
    crossed: Mapping[str, str] = field(default_factory=dict)
    """For metrics whose examples share something besides their clusters, as contexts with different nouns test the same
    pairs of verbs: metric → what the labels of its ``Score.outcomes`` are, in the singular, such as
    ``{"tse": "verb_pair"}``. Intervals and comparisons are then clustered both ways."""

    @property
    def cluster(self) -> str | None:
        """The group by which examples are clustered, if any."""
        return self.clusters[0] if self.clusters else None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON."""
        combinations = {metric: combination.as_dict() for metric, combination in self.combinations.items()}
        data: dict[str, Any] = {
            "clusters": list(self.clusters),
            "headline": list(self.headline),
            "weights": dict(self.weights),
            "combinations": combinations,
            "pair_by": list(self.pair_by),
        }
        if self.replicates is not None:
            data["replicates"] = self.replicates.as_dict()
        data["crossed"] = dict(self.crossed)
        return data


def design_from_dict(data: Mapping[str, Any]) -> Design:
    """Read what :meth:`Design.as_dict` wrote. Early versions stored a single cluster and a single group to pair by."""
    clusters = data.get("clusters")
    if clusters is None:
        clusters = [data["cluster"]] if data.get("cluster") else []
    pair_by = data.get("pair_by") or []
    if isinstance(pair_by, str):
        pair_by = [pair_by]
    combinations: dict[str, Combination] = {}
    for metric, stored in (data.get("combinations") or {}).items():
        combinations[metric] = combination_from_dict(stored)
    return Design(
        clusters=tuple(clusters),
        headline=tuple(data.get("headline") or ()),
        weights=dict(data.get("weights") or {}),
        combinations=combinations,
        pair_by=tuple(pair_by),
        replicates=Replicates(**data["replicates"]) if data.get("replicates") else None,
        crossed=dict(data.get("crossed") or {}),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """How intervals are computed."""

    confidence: float = 0.95
    """The confidence level."""
    resamples: int = 2000
    """The number of bootstrap resamples."""
    seed: int = 0
    """The random seed for the bootstrap."""

    def signature(self, clusters: Sequence[str] = ()) -> str:
        """Return the part of the signature that identifies the rule for intervals, with what examples are clustered by.

        >>> Settings(confidence=0.9).signature(["template"])  # doctest: +ELLIPSIS
        '0.9,...,clusters=template'
        """
        text = f"{self.confidence:g},{INTERVAL_RULE}"
        if clusters:
            text += f",clusters={'+'.join(clusters)}"
        return text


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CardPart:
    """What a run that belongs to a card records about the card."""

    size: str
    """quick, standard or full."""
    absent: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Model → evaluation → why the evaluation does not apply to the model."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers of a run come from: software, machine, command, inputs and the declarations of its task."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """Package → version."""
    platform: str = ""
    """The operating system."""
    machine: str = ""
    """The processor architecture."""
    cpus: int | None = None
    """The number of processors."""
    command: tuple[str, ...] = ()
    """The arguments of the command line."""
    signature: Mapping[str, str] = field(default_factory=dict)
    """The parts of the signature by name: everything that the numbers depend on."""
    evaluation: str | None = None
    """The evaluation that the task belongs to. Empty if it belongs to none; None for runs of early versions, which did
    not record it."""
    base_task: str = ""
    """The evaluation's own task that this task is or extends."""
    base_label: str = ""
    """The label without the options that the sweep varies; empty in runs of early versions."""
    design: Design = field(default_factory=Design)
    """The design that the task declares."""
    metrics: tuple[Metric, ...] = ()
    """The metrics that the task and its evaluation declare."""
    notes: tuple[str, ...] = ()
    """Notes of the task and the model for the user."""
    card: CardPart | None = None
    """The card that the run belongs to, if any."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON; the fields of the design are stored next to the others."""
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
    """Read what :meth:`Provenance.as_dict` wrote; fields that an early version did not store stay empty."""
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
    """Return the declared fields of a metric without defaults, because an evaluation may have a hundred metrics."""
    data: dict[str, Any] = {}
    for declared in dataclasses.fields(metric):
        value = getattr(metric, declared.name)
        if value != declared.default:
            data[declared.name] = value
    return data


def _stored_metric(data: Mapping[str, Any]) -> Metric:
    """Read a metric's declaration. Early versions did not check bounds and chance, so wrong ones are dropped."""
    try:
        return Metric(**data)
    except ValueError:
        return Metric(**{**data, "name": str(data["name"]) or "unnamed", "bounds": None, "chance": None})


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is known about a run before it starts; see :class:`RunRecord` for the fields."""

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
    """A run as it is stored: configuration, status, provenance and results, without its examples."""

    id: str
    """A unique id, such as ``20260101-120000-charswap-1a2b3c``."""
    sweep: str
    """An id that all runs of one command share."""
    name: str
    """The name of the configuration."""
    task: str
    """The name of the task."""
    model: str
    """The label of the model."""
    label: str
    """A short name for what was run, which distinguishes the runs of a sweep."""
    status: str
    """waiting, running, done, incomplete, stopped, cancelled, failed, interrupted or damaged."""
    config: Mapping[str, Any]
    """The configuration of this run, without lists of values to try."""
    signature: str
    """One line with everything that the numbers depend on."""
    provenance: Provenance
    """Where the numbers come from."""
    results: Sequence[Result]
    """The results; empty until the run is finished."""
    note: str
    """Why the run is not done, if it is not."""
    planned: int | None
    """The number of examples, if it was known beforehand."""
    created: str
    """When the run was recorded."""
    finished: str | None
    """When the run ended."""
    mark: str = ""
    """A mark such as ``[b]`` that distinguishes runs with different settings when they are shown together. It is not
    stored."""

    @property
    def design(self) -> Design:
        """The design that the run's task declares."""
        return self.provenance.design

    @property
    def depends_on(self) -> Mapping[str, str]:
        """The parts of the signature by name."""
        return self.provenance.signature

    @property
    def base_task(self) -> str:
        """The evaluation's own task that this run's task is or extends. Early versions did not record it."""
        return self.provenance.base_task or self.task

    @property
    def base_label(self) -> str:
        """The label without the options that the sweep varies. In runs of early versions, that is the whole label."""
        return self.provenance.base_label or self.label

    @property
    def settings(self) -> Settings:
        """How the run computes its intervals. Early versions did not record all settings."""
        recorded = {name: self.config[name] for name in ("confidence", "resamples", "seed") if name in self.config}
        return Settings(**recorded)

    def result(self, metric: str, group: str = OVERALL) -> Result | None:
        """Return the result of a metric, over all examples or in one group; None if there is none."""
        for result in self.results:
            if result.metric == metric and result.group == group:
                return result
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the document that commands print with ``--json``."""
        return {
            "run": self.id,
            "task": self.task,
            "model": self.model,
            "label": self.label,
            "status": self.status,
            "signature": self.signature,
            "results": [result.as_dict() for result in self.results],
        }


# --- JSON and digests -------------------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """Return a value as JSON in its one canonical spelling, for hashing and storing.

    All characters beyond ASCII are escaped, because a lone surrogate is legal in a Python string but not in UTF-8.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def compact(value: Any) -> str:
    """Return a value as JSON for storing, with characters beyond ASCII as they are.

    For Korean, this takes a third of the space of :func:`canonical`.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    # Only a lone surrogate cannot be written as UTF-8.
    return text if text.isascii() or _is_utf8(text) else canonical(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def digest(*values: Any) -> str:
    """Return the SHA-256 digest of values that can be written as JSON, in hexadecimal."""
    return hashlib.sha256(canonical(list(values)).encode("ascii")).hexdigest()


def request_as_dict(request: Request) -> dict[str, Any]:
    """Return what the model is asked as plain JSON, without fields that do not change the answer."""
    if isinstance(request, Train):
        earlier_keys = [training.key for training in request.after]
        # The key "by" is that of stored requests.
        return {"verb": request.verb, "by": request.trainer, "spec": dict(request.spec), "after": earlier_keys}
    data: dict[str, Any] = {"verb": request.verb}
    for declared in dataclasses.fields(request):
        if declared.compare:
            data[declared.name] = getattr(request, declared.name)
    return data


def request_key(request: Request) -> dict[str, Any]:
    """Return what distinguishes a request from others, as plain JSON; its digest is part of the cache key."""
    if isinstance(request, Train):
        return {"verb": request.verb, "training": request.key}
    if not isinstance(request, Slot):
        return request_as_dict(request)
    # Many blanks share one long list of candidate words, so the list is hashed only once.
    without_words = dataclasses.replace(request, candidates=())
    return {**request_as_dict(without_words), "candidates": _words_digest(request.candidates)}


@lru_cache(maxsize=64)
def _words_digest(words: tuple[str, ...]) -> str:
    return digest(list(words))


def response_as_dict(response: Response) -> dict[str, Any]:
    """Return a response as plain JSON; fields that are None are left out."""
    data = {declared.name: getattr(response, declared.name) for declared in dataclasses.fields(response)}
    answer = response.answer
    if isinstance(answer, Continuation):
        data["answer"] = {"total": answer.total, "tokens": list(answer.tokens)}
    elif isinstance(answer, Candidates):
        data["answer"] = {"candidates": [[c.logprob, c.rank, c.mass_above, c.mass_below] for c in answer]}
    elif isinstance(answer, TrainingOutcome):
        data["answer"] = {"outcome": dict(answer.outcome)}
    return {name: value for name, value in data.items() if value is not None}


def response_from_dict(data: Mapping[str, Any]) -> Response:
    """Read what :func:`response_as_dict` wrote."""
    answer: Any = data.get("answer")
    if isinstance(answer, dict) and "candidates" in answer:
        answer = candidates_from_rows(Candidate(*values) for values in answer["candidates"])
    elif isinstance(answer, dict) and "outcome" in answer:
        answer = TrainingOutcome(answer["outcome"])
    elif isinstance(answer, dict):
        answer = Continuation(answer["total"], tuple(answer["tokens"]))
    return Response(**{**data, "answer": answer})
