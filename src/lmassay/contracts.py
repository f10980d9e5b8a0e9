"""The base classes and data classes of plug-ins: everything that lmassay reads from a plug-in is declared here.

:class:`Task` and :class:`Model` are base classes. A plug-in must define the members without a default; the defaults of
all others suit most plug-ins. The options of a plug-in are the parameters of its ``__init__``: lmassay reads their
names, types and defaults, and checks the configuration against them. Creating a task or a model must be cheap, so load
weights and open connections on the first request.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lmassay.errors import FatalModelError, LmassayError, ModelError, PluginError, error_with_location
from lmassay.redaction import excerpt
from lmassay.types import (
    Candidates,
    Continuation,
    Design,
    Example,
    Metric,
    Request,
    Response,
    Result,
    RowBatch,
    Score,
    Settings,
    Substitutions,
    TrainingOutcome,
    is_text,
)

if TYPE_CHECKING:
    from lmassay.budget import Budget, Prices
    from lmassay.statistics.table import ScoreTable
    from lmassay.types import RunRecord

ModelReplies = Iterable[Response | str | Continuation | Candidates | Substitutions | tuple[int, Response]]
"""What a method of a model may return: answers in the order of the requests, or (request number, response) pairs in any
order; requests are numbered from 0."""
Hook = str | Callable[..., Any]
"""A function, or its import path ``package.module:name``; the path is imported when the function is first needed."""


# --- tasks ------------------------------------------------------------------------------------------------------------


class Task:
    """Defines what a model is asked and how its answers are scored.

    A task must define ``name``, ``examples``, ``requests`` and ``score``. If all results are means over examples, it
    lists its metrics in ``metrics`` and does not need its own ``aggregate``.
    """

    name: str
    """The name in configurations and results."""
    version: int = 1
    """Increase it when the same inputs may get different scores than before; it is part of the signature."""
    needs: frozenset[str] = frozenset()
    """What the model must be able to do: generate, logprobs, slot, train, choices, gradients (see ``Model.can``). Empty
    if the task needs no model."""
    evaluation: Evaluation | None = None
    """The evaluation that the task belongs to. It decides how runs of the task are shown: the section of the report,
    the headline (the most important number) and the place on the card (``lmassay card``). Subclasses inherit it."""
    label: str = ""
    """A short name for tables; the task's name if empty."""
    metrics: Sequence[Metric] = ()
    """The metrics that the task reports. Metrics that are not declared here are looked up in the evaluation."""
    design: Design = Design()
    """What the statistics need to know, such as clusters of dependent examples, headline metrics and how runs are
    paired."""
    requests_each: int | None = None
    """The maximum number of requests per example, if the task knows it. ``lmassay check`` uses it for its estimate."""
    chunk: int = 1024
    """The minimum number of examples that are requested and scored together; the model may ask for more."""
    trains: bool = False
    """Whether the task requests trainings (``Train`` requests). The runs of a sweep share them, and they are carried
    out in parallel."""
    option_help: ClassVar[Mapping[str, str]] = {}
    """Option → its meaning in a few words, which ``lmassay tasks NAME`` prints. Subclasses inherit the entries."""
    config_example: ClassVar[str] = ""
    """An example of the task in a configuration, as one line of YAML."""
    scores_unusable: bool = False
    """Whether ``score`` also gets responses without an answer, such as refusals (``Response.usable`` is False). If not,
    an example with such a response is unscored. Set it for a task whose examples have many requests each. An example
    with a failed response is never scored."""

    def examples(self) -> Iterator[Example]:
        """Yield all examples with unique ids, always in the same order. It may be called more than once."""
        raise NotImplementedError

    def requests(self, example: Example) -> Sequence[Request]:
        """Return the requests that an example needs; the answers are passed to ``score`` in this order."""
        raise NotImplementedError

    def follow_up(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> Sequence[Example]:
        """Return the examples, each extended by the inputs for its next requests, or unchanged if it needs none.

        Override it if later requests depend on earlier answers. ``requests`` of an extended example must begin with the
        requests that were already answered. The new ones are sent together, and ``follow_up`` is called again with the
        extended examples, until it returns all of them unchanged. The result must depend only on the arguments, so that
        a resumed run sends the same requests as an uninterrupted one.
        """
        return examples

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> Sequence[Score]:
        """Return the scores of a batch of examples.

        Each example comes with one response per request, in the order of its requests. Examples with a failed request
        are not passed to this method; neither are those with an unusable response, unless ``scores_unusable`` is set.
        """
        raise NotImplementedError

    def scored_batches(self, model: Model | None, positions: range) -> Iterator[RowBatch] | None:
        """Return the scored examples at these positions, as columns; None (the default) if that is not possible.

        This is a fast path for millions of examples whose answers are known before the run, such as outputs from files.
        Ids, inputs, groups, scores and details must be the same as those from ``examples``, ``requests`` and ``score``,
        which are still needed for other models. Each batch begins where the previous one ends and has ``chunk``
        examples; the last batch may have fewer. ``size`` must return the number of examples. A subclass that overrides
        ``examples``, ``requests``, ``follow_up`` or ``score``, but not this method, is run example by example.
        """
        return None

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        """Return the results of a run, overall results first.

        By default, the results are the means of the declared metrics that at least one example has a score for. If no
        metrics are declared, the means of all scores are returned.
        """
        from lmassay.statistics.intervals import mean_results

        declared = list(self.metrics)
        if not declared and self.evaluation is not None:
            declared = list(self.evaluation.metrics)
        names = [metric.name for metric in declared if table.has(metric.name)]
        if not names:
            # A column of weights says how much each example counts; it is not a metric.
            weight_columns = set(self.design.weights.values())
            names = [name for name in table.metrics if name not in weight_columns]
        bounds = {metric.name: metric.bounds for metric in declared if metric.bounds is not None}
        return mean_results(
            table,
            names,
            settings,
            cluster=self.design.clusters,
            weights=self.design.weights,
            bounds=bounds,
            crossed=self.design.crossed,
        )

    def signature(self) -> Mapping[str, Any]:
        """Return everything that the scores depend on, such as digests of data files, scorers and options.

        The entries become part of the run's signature. A run can only be resumed while they stay the same.
        """
        return {}

    def size(self) -> int | None:
        """Return the number of examples, or None if it is unknown without reading them all."""
        return None

    def is_about(self, metric: str, example: Example) -> bool:
        """Return False if an example can never have a score of this metric, whatever the model answers.

        ``lmassay check --fail-if`` calls it to count the examples of a metric before anything is run.
        """
        return True

    def notes(self) -> Sequence[str]:
        """Return notes that the user sees before the run, such as possible problems with the data."""
        return ()

    def facts(self) -> Sequence[str]:
        """Return what ``lmassay check`` shows about the task and its model, such as how words are tokenized."""
        return ()

    def choose_for(self, model: Model) -> None:
        """Choose how to ask this model, for a task that can ask in several ways.

        It is called first, before ``needs`` is compared with what the model can do.
        """

    def check(self) -> None:
        """Raise a UserError if something is wrong that can be detected before the first request."""

    def check_examples(self, limit: int | None) -> None:
        """Raise a UserError if the examples (only the first ``limit``, if given) cannot give a meaningful result.

        It is called after ``check`` and ``check_model``. It must be fast even if there are millions of examples.
        """

    def check_model(self, model: Model) -> None:
        """Raise a UserError if this model cannot be used with this task."""


# --- models -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConnectionReport:
    """What the test of a model's server found out before the first request; see ``Model.connect``."""

    signature: str
    """What the answers depend on and only the server knows, such as its version. It becomes part of the run's
    signature."""
    findings: Sequence[str] = ()
    """What was tested, with the result, one sentence each; ``lmassay check --online`` prints them."""
    tokens_in: int = 0
    """The number of input tokens that the test used."""
    tokens_out: int = 0
    """The number of generated tokens that the test used."""


class Model:
    """Answers requests. A model implements one method for each kind of request in ``can``.

    The methods ``generate``, ``logprobs``, ``slot`` and ``gradients`` take a sequence of requests. They return the
    answers in order, either as :class:`~lmassay.types.Response` objects or directly as a string, ``Continuation``,
    ``Candidates`` or ``Substitutions``.
    Alternatively, they yield pairs of request number and response as the answers arrive; then nothing that has arrived
    is lost if the run is killed.

    Apart from the names of these methods, ``can`` may contain ``choices`` (the model chooses among the ``choices`` of a
    Generate request) and ``train`` (a trainer can use its weights; the trainer itself is another plug-in).
    """

    name: str
    """The name in results and messages."""
    can: frozenset[str]
    """What the model can do: generate, logprobs, slot, gradients, choices, train."""
    label: str = ""
    """A short name for tables; the model's name if empty."""
    cached: bool = True
    """Whether to cache answers. Set it to False for a model whose answers are random, or that only looks up answers."""
    sees_right: bool = True
    """Whether the model uses the text to the right of a blank; False for causal models."""
    chunk: int = 0
    """The minimum number of examples that are requested together; 0 leaves the choice to ``Task.chunk``."""
    metered: bool = False
    """Whether the tokens of requests are counted, because they may cost money."""
    prices: Prices | None = None
    """The prices of the tokens of a metered model; None if they are unknown."""
    option_help: ClassVar[Mapping[str, str]] = {}
    """Option → its meaning in a few words, which ``lmassay models NAME`` prints. Subclasses inherit the entries."""
    config_example: ClassVar[str] = ""
    """An example of the model in a configuration, as one line of YAML."""
    distributable: bool = False
    """Whether worker processes (``--workers``, ``--scheduler``) may answer requests, each with its own copy of the
    model. Set it to True for a model that computes in this process; an answer must not depend on the other requests.
    ``use_budget`` and ``use_folder`` are not called on the copies."""
    resources: Mapping[str, float] = {}
    """The resources that a worker of a Dask cluster must have, with the names that were given to
    ``dask worker --resources``, such as ``{"GPU": 1}``."""
    decoding_tokens: int = 0
    """About how many tokens of prompts and answers the model processes together when it generates; 0 if it answers one
    request after the other. If there is enough work, workers get batches of this size, because a smaller batch would
    take nearly as long."""

    def identity(self) -> Mapping[str, Any]:
        """Return everything that determines the model's answers: name, revision, digest of the weights, parameters.

        The identity is part of the cache key and is stored with the results, so it must not contain secrets.
        """
        raise NotImplementedError

    def generate(self, requests: Any) -> Any:
        """Answer Generate requests."""
        raise NotImplementedError

    def logprobs(self, requests: Any) -> Any:
        """Answer LogProbs requests."""
        raise NotImplementedError

    def slot(self, requests: Any) -> Any:
        """Answer Slot requests."""
        raise NotImplementedError

    def gradients(self, requests: Any) -> Any:
        """Answer Substitute requests."""
        raise NotImplementedError

    def notes(self) -> Sequence[str]:
        """Return notes that the user sees before the run."""
        return ()

    def remedy(self, missing: Set[str]) -> str:
        """Return what to change in the configuration so that the model can do what it lacks; empty if nothing helps.

        It is shown after the message that a task needs something that is not in ``can``.
        """
        return ""

    def check(self) -> None:
        """Raise a UserError if something is wrong that can be detected before the first request."""

    def check_requests(self, requests: Sequence[Request]) -> None:
        """Raise a UserError if the model's options contradict the settings of requests, such as their temperature.

        It is called before a run that generates text, with the requests of the first example.
        """

    def max_calls(self, request: Request) -> int:
        """Return how many calls to a server the request needs at most, for the estimate of ``lmassay check``."""
        return 1

    def unanswerable(self, requests: Sequence[Request]) -> str:
        """Return why the model cannot answer the requests of an example, such as a text that is longer than its window.

        Return an empty text if the model can answer them, or if that is not known yet. ``lmassay check`` calls this
        method, and refuses a run in which no example can be answered.
        """
        return ""

    def connect(self, needs: Set[str]) -> ConnectionReport | None:
        """Test whether the server really provides what a task needs; None if there is nothing to test.

        It is called by ``lmassay check --online``, and in a run before the first request that is not in the cache.
        Raise a FatalModelError with one clear sentence if the server does not provide what is needed.
        """
        return None

    def use_budget(self, budget: Budget) -> None:
        """Receive the budget; called once before the first request.

        Call ``budget.allows`` before each request. When it returns False, send nothing more, yield the answers to the
        requests that were already sent, then raise BudgetReached.
        """

    def use_folder(self, folder: Path) -> None:
        """Receive a folder for files that must survive a crash, such as the ids of open batches.

        It is called once before the first request.
        """

    def close(self) -> None:
        """Release resources; called after the last request."""


class StoredAnswers(Model):
    """A model that looks up stored answers. Each request names the role and the line number or id of its answer.

    See ``Generate.location``. A role is a kind of answer, such as ``out`` for outputs and ``adv_out`` for outputs under
    attack.
    """

    cached = False
    lines: int | None = None
    """The number of lines, if answers are looked up by line."""
    roles: frozenset[str] = frozenset()
    """The roles that have answers."""

    def texts(self, role: str, positions: range) -> Sequence[str] | None:
        """Return the answers of a role to consecutive lines, counted from 0; None (the default) if that is impossible.

        This is a fast path for ``Task.scored_batches``. The answers must be the same as those from ``generate``.
        """
        return None

    def check_ids(self, ids: Sequence[str]) -> None:
        """Raise a UserError if an example with one of these ids has no answer; called before the run."""


def ask(model: Model, verb: str, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
    """Send requests of one kind to a model and yield (request number, response) as the answers arrive.

    ``verb`` is the kind, which is also the name of the model's method: generate, logprobs, slot or gradients. Each
    request gets exactly one response. A model that returns anything else is reported with a PluginError. Requests with
    texts that are not valid Unicode are not sent, and their responses say so; only a model that sets ``cached`` to
    False, such as one that looks up answers by line, gets them. A ModelError that a user's model raises
    becomes the response to the request that failed, and the remaining requests are sent again. If it is unknown which
    request failed, the error becomes the response to all unanswered requests. A FatalModelError, or a ModelError of one
    of lmassay's own models, is raised.
    """
    not_text = [number for number, request in enumerate(requests) if not is_text(request)]
    # A model that looks up answers by line or id does not read the texts.
    if not_text and model.cached:
        for number in not_text:
            yield number, Response(finish="not_text")
        sent = sorted(set(range(len(requests))) - set(not_text))
        if sent:
            for index, response in ask(model, verb, [requests[number] for number in sent]):
                yield sent[index], response
        return
    waiting = list(range(len(requests)))
    while waiting:
        call = _Call(model, verb, [requests[number] for number in waiting])
        for index, response in call.responses():
            yield waiting[index], response
        for index in call.failed:
            yield waiting[index], Response(error=call.reason)
        waiting = [waiting[index] for index in call.not_reached]


_MAX_SHOWN_REPLY = 200
# The types that the fields of a Response must have. A plug-in may write something else into it by mistake, such as a
# list of answers or an exception, which could not be stored.
_TYPES_IN_RESPONSE: dict[str, tuple[type, ...]] = {
    "answer": (str, Continuation, Candidates, TrainingOutcome, Substitutions),
    "error": (str,),
    "finish": (str,),
    "tokens_in": (int,),
    "tokens_out": (int,),
    "seconds": (int, float),
}


def _problem_of_response(response: Response) -> str:
    """Return what is wrong with a response of a plug-in; empty if nothing."""
    for name, types in _TYPES_IN_RESPONSE.items():
        value = getattr(response, name)
        if value is None:
            continue
        problem = ""
        # In Python, True is an integer.
        if not isinstance(value, types) or isinstance(value, bool):
            problem = f" ({type(value).__name__}); it must be {' or '.join(kind.__name__ for kind in types)}"
        elif isinstance(value, float) and not math.isfinite(value):
            problem = "; it must be a finite number"
        elif name.startswith("tokens") and isinstance(value, int) and value < 0:
            problem = "; it must not be negative"
        if problem:
            return f"{name}={excerpt(repr(value), _MAX_SHOWN_REPLY)}{problem}"
    return ""


class _Call:
    """One call of a method of a model, with the outcome of each request."""

    def __init__(self, model: Model, verb: str, requests: Sequence[Request]) -> None:
        self._model = model
        self._verb = verb
        self._requests = requests
        self.failed: list[int] = []
        """The positions of the requests that a ModelError was about."""
        self.not_reached: list[int] = []
        """The positions of the requests after the failed one, which the model has not processed."""
        self.reason = ""
        """The message of the ModelError."""

    def responses(self) -> Iterator[tuple[int, Response]]:
        """Yield the responses with the positions of their requests."""
        model = self._model
        answered: set[int] = set()
        replies: Iterable[Any] = ()
        in_order = True
        is_own_model = type(model).__module__.startswith("lmassay.")
        try:
            replies = self._replies()
            for count, reply in enumerate(replies):
                has_number = _has_number(reply)
                in_order = in_order and not has_number
                number, response = reply if has_number else (count, reply)
                if isinstance(response, str | Continuation | Candidates | Substitutions):
                    response = Response(response)
                is_open = 0 <= number < len(self._requests) and number not in answered
                if not is_open or not isinstance(response, Response):
                    reply_text = excerpt(repr(reply), _MAX_SHOWN_REPLY)
                    raise PluginError(
                        f"the model {model.name} returned {reply_text}, which does not answer an open request"
                    )
                problem = _problem_of_response(response)
                if problem:
                    raise PluginError(f"the model {model.name} returned a Response with {problem}")
                answered.add(number)
                yield number, response
        except FatalModelError:
            raise
        except ModelError as error:
            # lmassay's models answer a failed request with an error themselves; what they raise concerns all requests.
            if is_own_model:
                raise
            self.reason = str(error)
            remaining = [number for number in range(len(self._requests)) if number not in answered]
            # A generator that yields in order was about to answer the next request. Otherwise it is unknown which
            # request failed: all remaining ones count as failed, and `lmassay resume` tries them again.
            knows_failed_request = in_order and isinstance(replies, Iterator)
            self.failed = remaining[:1] if knows_failed_request else remaining
            self.not_reached = remaining[len(self.failed) :]
            return
        except LmassayError:
            raise
        except Exception as error:
            # An exception in lmassay's own model is a bug and keeps its traceback.
            if is_own_model:
                raise
            raise PluginError(f"the model {model.name} failed: {error_with_location(error)}") from error
        if len(answered) != len(self._requests):
            raise PluginError(f"the model {model.name} gave {len(answered)} answers to {len(self._requests)} requests")

    def _replies(self) -> Iterable[Any]:
        """Call the method of the model, and return what it returns."""
        methods: dict[str, Callable[[Sequence[Request]], ModelReplies]] = {
            "generate": self._model.generate,
            "logprobs": self._model.logprobs,
            "slot": self._model.slot,
            "gradients": self._model.gradients,
        }
        return methods[self._verb](self._requests)


def _has_number(reply: Any) -> bool:
    return isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[0], int)


def label_of(plugin: Task | Model) -> str:
    """Return the short name that tables show for a task or model."""
    return plugin.label or plugin.name


# --- evaluations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Component:
    """A plug-in that comes with an evaluation, such as a scorer. Components are listed without importing them."""

    path: str
    """The import path, ``package.module:Name``."""
    summary: str
    """One line for listings."""
    extra: str = ""
    """The optional dependency group (extra) of lmassay that the component needs, if any."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``lmassay doctor``: what was checked, and its state."""

    what: str
    """What was checked."""
    state: str
    """``ok``; ``missing`` (optional and not installed); ``low`` (usable, but not enough); or ``broken``."""
    found: str
    """What was found, such as a version or a path."""
    remedy: str = ""
    """What to do about it, such as a command to type."""

    @staticmethod
    def of_package(package: str, purpose: str, extra: str, of: str = "lmassay") -> Finding:
        """Return whether an optional package is installed.

        The remedy installs the ``extra`` of the package ``of``, or the package itself if ``extra`` is empty.

        >>> Finding.of_package("not-there", "a detector", extra="detect", of="lmassay-toxicity").remedy
        "pip install 'lmassay-toxicity[detect]'"
        """
        what = f"{purpose} ({package})"
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            command = f"pip install '{of}[{extra}]'" if extra else f"pip install {package}"
            return Finding(what, "missing", "", command)
        return Finding(what, "ok", version)


@dataclass(frozen=True, slots=True)
class Sample:
    """What ``lmassay init TASK`` writes: a configuration, made from the template ``config.yaml``, and its data files.

    In the template, ``@DATA@/name`` stands for the path of a data file, ``@MODEL@`` for the model, and ``@FILE@`` and
    ``@NAME@`` for the file and the name of the configuration.
    """

    folder: Path
    """The folder with the template; all other files in it are data files."""
    model: str | Mapping[str, Any] | None = "smollm2"
    """The model if the user does not name one. ``@DATA@/file.py:Name`` is a class in one of the data files; None means
    that the sample runs without a model."""
    marks: Hook | None = None
    """(the model as the configuration names it) → a mapping from further placeholders, without the @ signs, to their
    values."""
    model_files: Mapping[str, Path] = field(default_factory=dict)
    """Further data files that only the sample's own model or method uses: file name → file. They are not written if the
    user names a model with ``--model``."""


@dataclass(frozen=True, slots=True)
class Starter:
    """What ``lmassay init NAME`` writes to start a plug-in or to try a format: files that can be run and changed."""

    name: str
    """What the user types after ``lmassay init``."""
    summary: str
    """One line for the list that ``lmassay init`` prints."""
    files: Mapping[str, Path]
    """Path relative to the user's folder → the file or folder that is copied there."""
    commands: tuple[str, ...]
    """The commands to run next, as the user types them."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command that an evaluation adds to the command line. Commands are listed without importing them."""

    name: str
    """What the user types after ``lmassay``."""
    help: str
    """One line for ``lmassay --help``."""
    path: str
    """The import path of the click command, ``package.module:name``."""
    section: str = "Evaluations"
    """The heading under which ``lmassay --help`` lists it."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Published numbers that ``lmassay reproduce NAME`` computes again.

    It has a ``path`` if the numbers follow from published files alone, and ``parts`` if models must be run.
    """

    name: str
    """What the user types after ``lmassay reproduce``."""
    title: str
    """What is reproduced, for lists and for the title of the table."""
    path: str = ""
    """The import path of a function: () → the ReproducedFigures, in the order of the printed table."""
    datasets: tuple[str, ...] = ()
    """The data sets that must have been fetched."""
    parts: str = ""
    """The import path of a function: () → the ReproductionParts, grouped by model."""
    notes: tuple[str, ...] = ()
    """What a reader must know about the numbers, such as how their tolerance is chosen."""


@dataclass(frozen=True, slots=True)
class Work:
    """How much a model computes, so that the time can be estimated before the model is loaded."""

    weights: float
    """How many weights are applied to a token; shared layers count as often as they are applied."""
    read_tokens: float = 0.0
    """How many tokens the model only reads, without training on them."""
    trained_tokens: float = 0.0
    """How many tokens the model is trained on; a token counts once for each update that uses it."""

    @property
    def operations(self) -> float:
        """The number of floating-point operations: two per weight and token, and six if the token is trained on."""
        return 2 * self.weights * (self.read_tokens + 3 * self.trained_tokens)


@dataclass(frozen=True, slots=True)
class ReproductionPart:
    """Published numbers of one model on one part of the data, and the runs that compute them again."""

    name: str
    """What ``--part`` accepts, such as ``simple`` or ``pet/rte``; the parts of all models have the same names."""
    model: str
    """The name of the published model on the model hub."""
    config: Mapping[str, Any]
    """A configuration without its model. A list starts one run per value."""
    figures: Callable[[Sequence[RunRecord]], Sequence[ReproducedFigure]]
    """(records of the finished runs) → the reproduced numbers."""
    work: Work
    """How much the published model computes in all runs of this part."""
    is_optional: bool = False
    """True for a part that takes so long that it is run only if the user names it with ``--part``."""


@dataclass(frozen=True, slots=True)
class ReproducedFigure:
    """One published number ("figure") next to the number that lmassay computes."""

    name: str
    """What the number is, such as a model and a metric."""
    published: str
    """The published number as printed in the source, with all its digits."""
    computed: str
    """The computed number, with as many digits as the published one, or more if there is a tolerance."""
    excuse: str = ""
    """Why the two may differ. If it is empty, a difference is an error."""
    tolerance: float | None = None
    """How far apart the two may be. If it is None, they must be the same to the last printed digit."""

    @property
    def agrees(self) -> bool:
        """Whether both are the same, to the last printed digit or within the tolerance."""
        if self.tolerance is None:
            return self.published == self.computed
        try:
            difference = float(self.computed) - float(self.published)
        except ValueError:
            return False
        # Decimal fractions are not exact in binary: 0.8 - 0.7 is slightly larger than 0.1.
        return abs(difference) <= self.tolerance + 1e-9

    @property
    def verdict(self) -> str:
        """What the table says about the pair."""
        if self.agrees:
            return "agrees"
        if self.excuse:
            return f"differs, {self.excuse}"
        return "DIFFERS"


@dataclass(frozen=True, slots=True)
class Variation:
    """Which parts of a run's signature say how the question is asked, such as the prompt or the attack.

    The signature names everything that the numbers depend on, in named parts. Reports and comparisons use this class to
    decide which runs ask the same question in different ways.
    """

    pooled: str = ""
    """Runs of one model that differ only in this part are variants of one question; together they get one pooled
    headline."""
    pooled_by_file: bool = False
    """Whether to pool only runs whose values of ``pooled`` are equal up to the last dot: the prompts of one file."""
    identity: str = ""
    """The part that distinguishes runs better than their labels do, such as the attack with all its options."""
    named: tuple[str, ...] = ()
    """Parts that a run's label shows, so that comparisons need no warning if they differ."""
    hidden: tuple[str, ...] = ("prompt", "method")
    """Parts that the label does not show, so that comparisons warn if they differ."""
    free: tuple[str, ...] = ()
    """Further parts that may differ between two models that are asked the same question."""
    data: tuple[str, ...] = ("data",)
    """Parts that identify the data. In tables, runs on the same data are marked if their settings differ."""
    combined: tuple[str, ...] = ()
    """Parts in which runs of one card may differ and still have one headline, such as the data of several tasks."""

    @property
    def question_parts(self) -> tuple[str, ...]:
        """All parts that say how the question is asked."""
        return (*self.named, *self.hidden)


@dataclass(frozen=True, slots=True)
class CardVariant:
    """One way in which ``lmassay card`` can run an evaluation; the first variant that fits the model is used."""

    needs: frozenset[str]
    """What the model must be able to do."""
    config: Mapping[str, Any]
    """The configuration, without the model."""
    folder: Path
    """The folder that paths in the configuration are relative to."""
    data: tuple[DataNeed, ...] = ()
    """The published data sets that must be on this machine."""


@dataclass(frozen=True, slots=True)
class DataNeed:
    """A published data set, or a part of it, that must be on this machine before a card is run."""

    spec: str | Mapping[str, str | Sequence[str]]
    """The data as a configuration names them: ``name``, ``name/part``, or ``{name: …, label: …}``."""
    role: str = "examples"
    """The role that the files have in the catalogue's entry of the data set."""

    @property
    def dataset(self) -> str:
        """The name of the data set."""
        if isinstance(self.spec, str):
            return self.spec.partition("/")[0]
        return str(self.spec["name"])


@dataclass(frozen=True, slots=True)
class CardRequest:
    """The size and language of a card on published data (``lmassay card --data published``)."""

    size: str
    """quick, standard or full."""
    language: str = "en"
    """The code of the language; one of those that the evaluation declares."""


@dataclass(frozen=True, slots=True)
class PublishedCard:
    """An evaluation's part of ``lmassay card --data published``."""

    languages: tuple[str, ...]
    """The languages in which there are published data."""
    variants: Hook
    """(CardRequest) → the CardVariants that the card can run, the most informative first."""


@dataclass(frozen=True, slots=True)
class KeyText:
    """A text that the table of examples shows in a column, so that readers see it without opening the example."""

    name: str
    """The name that the ``texts`` hook gives it. ``answer`` also finds ``answer (length)`` and ``answer 1 of 3``."""
    compared_with: str = ""
    """The name of another text of the example. Words that differ between the two texts are marked, such as those that
    an attack changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How the runs of a task are shown. All members are optional; without them, runs are shown in a generic form."""

    section: Hook | None = None
    """(store, records) → the Section of the report for runs of one task, or None for a table of all results."""
    texts: Hook | None = None
    """(row, exchanges) → (name, text) pairs that the example browser shows, in reading order. An exchange is a pair of
    a stored request, as a mapping, and its Response."""
    key_texts: tuple[KeyText, ...] = ()
    """The texts that are columns in the table of examples; by default the first text and the answer."""
    headline: Hook | None = None
    """(store, records) → the Headline (the most important number) of one model's runs of one question, or None."""
    sample: Sample | None = None
    """What ``lmassay init TASK`` writes."""
    export: Hook | None = None
    """() → the task's Export: how its runs are written in the formats of other tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry(View):
    """A task of an evaluation. Members of the view override those of the evaluation for this task."""

    path: str
    """The import path of the task's class, or of a function that returns a task: ``package.module:Name``."""
    summary: str
    """One line for ``lmassay tasks``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(View):
    """A question about a model, the tasks that answer it, and the functions that show the answers.

    Only name, question and tasks are required. lmassay finds evaluations through the entry-point group
    ``lmassay.evaluations``. The object should be cheap to import: instead of a function, give its import path
    ``"package.module:name"``, and lmassay imports it when it is needed.
    """

    name: str
    """The name in options and results."""
    question: str
    """The question that the evaluation answers, in a few words for readers of the card."""
    tasks: Mapping[str, TaskEntry]
    """Task name → entry."""
    metrics: tuple[Metric, ...] = ()
    """The metrics that its tasks report."""
    components: Mapping[str, Mapping[str, Component]] = field(default_factory=dict)
    """Further plug-ins that come with it: kind → name → component."""
    variation: Variation = Variation()
    """Which parts of a run's signature say how the question is asked."""
    card: Hook | None = None
    """(size) → the CardVariants that the card can run, the most informative first; size is quick, standard or full."""
    published_card: PublishedCard | None = None
    """The evaluation's part of the card on published data; None if there are no published data for it."""
    commands: tuple[Command, ...] = ()
    """Commands that it adds to the command line."""
    reproductions: tuple[Reproduction, ...] = ()
    """Published numbers that can be computed again."""
    checks: Hook | None = None
    """() → Findings for ``lmassay doctor``."""
    after_run: Hook | None = None
    """(store, records) → None; prints a summary of the runs of one command, or warns about a run."""
    log_reader: Hook | None = None
    """() → a LogReader, which recognises logs of other harnesses that one of the tasks can score."""
    order: int = 100
    """The position on the card and in reports; smaller numbers come first."""
    datasets: Path | None = None
    """A folder with YAML files that describe published data sets, one file each; see ``lmassay data``."""
    starters: tuple[Starter, ...] = ()
    """Further things that ``lmassay init`` can write, such as the beginning of a plug-in."""

    def view(self, base_task: str) -> View:
        """Return how runs of a task are shown: as its entry says, otherwise as the evaluation says."""
        entry = self.tasks.get(base_task)
        if entry is None:
            return self
        return View(
            section=entry.section or self.section,
            texts=entry.texts or self.texts,
            # The columns are named after texts, so the evaluation's columns fit only the evaluation's own texts.
            key_texts=entry.key_texts or (() if entry.texts else self.key_texts),
            headline=entry.headline or self.headline,
            sample=entry.sample or self.sample,
            export=entry.export or self.export,
        )


def resolve(hook: Hook) -> Callable[..., Any]:
    """Return the function behind a hook, importing it if the hook is an import path.

    Raise a PluginError if it cannot be imported.
    """
    if not isinstance(hook, str):
        return hook
    module_name, colon, name = hook.partition(":")
    if not colon or not module_name or not name:
        raise PluginError(f"'{hook}' is not an import path; write package.module:name")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        # A failure in lmassay itself is a bug and keeps its traceback; our own errors already say what to do.
        if module_name.startswith("lmassay.") or isinstance(error, LmassayError):
            raise
        reason = error_with_location(error)
        # The message differs if the module itself exists, but imports another module that does not.
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            reason = f"there is no module {module_name}"
        raise PluginError(f"{hook} cannot be imported: {reason}") from error
    try:
        function: Callable[..., Any] = getattr(module, name)
    except AttributeError:
        raise PluginError(f"{hook} cannot be imported: the module {module_name} has no '{name}'") from None
    return function
