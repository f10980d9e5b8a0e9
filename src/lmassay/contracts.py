"""What a task, a model and an evaluation offer: everything that the core reads from a plug-in is declared here.

``Task`` and ``Model`` are base classes. The members without a default must be written; all others have a default that
suits most plug-ins. The options of a plug-in are the parameters of its ``__init__``: names, types and defaults are
read from there, and a configuration is checked against them. Creating a task or a model must be cheap and touch
neither network nor weights; load on the first request.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmassay.errors import LmassayError, PluginError, error_with_location
from lmassay.types import (
    Candidates,
    Continuation,
    Design,
    Example,
    Metric,
    Request,
    Response,
    Result,
    Score,
    Settings,
)

if TYPE_CHECKING:
    from lmassay.budget import Budget, Prices
    from lmassay.statistics.table import ScoreTable

ModelReplies = Iterable[Response | str | Continuation | Candidates | tuple[int, Response]]
Hook = str | Callable[..., Any]
"""A function, or where to import it from when it is first needed: ``package.module:name``."""


class Task:
    """What is asked, and how the answers are scored.

    Required: ``name``, ``examples``, ``requests`` and ``score``. A task whose results are means over its examples
    needs no ``aggregate``: it lists its metrics in ``metrics``.
    """

    name: str
    version: int = 1
    """Raise it when the same inputs may score differently than before."""
    needs: frozenset[str] = frozenset()
    """What the model must be able to do: generate, logprobs, slot, train, choices; empty if no model is asked."""
    evaluation: Evaluation | None = None
    """The evaluation that the task belongs to. A subclass inherits it, and with it report, headline and card."""
    label: str = ""
    """The short name in tables for what is asked; the task's name if empty."""
    metrics: Sequence[Metric] = ()
    """The metrics that the task reports. What is not declared here is looked up in the evaluation's metrics."""
    design: Design = Design()
    """What statistics need to know: clusters, headline metrics, weights, combined metrics, how runs are paired, what
    examples are crossed with."""
    requests_each: int | None = None
    """Requests per example at most, where the task knows."""
    chunk: int = 1024
    """How many examples are processed at a time, at least."""
    trains: bool = False
    """True if the task requests trainings, which the runs of a sweep share."""

    def examples(self) -> Iterator[Example]:
        """All examples, in a stable order, with unique ids. May be called more than once."""
        raise NotImplementedError

    def requests(self, example: Example) -> Sequence[Request]:
        """What to ask about it."""
        raise NotImplementedError

    def score(self, examples: Sequence[Example], responses: Sequence[Sequence[Response]]) -> Sequence[Score]:
        """Score a batch; each example comes with one usable response per request, in the order of its requests."""
        raise NotImplementedError

    def aggregate(self, table: ScoreTable, settings: Settings) -> list[Result]:
        """The results of a run, overall first. By default the mean of each metric that some example has a score of."""
        from lmassay.statistics.intervals import mean_results

        declared = list(self.metrics)
        if not declared and self.evaluation is not None:
            declared = list(self.evaluation.metrics)
        names = [metric.name for metric in declared if table.has(metric.name)]
        if not names:
            # A column that only says how much an example weighs is no metric.
            weights = set(self.design.weights.values())
            names = [name for name in table.metrics if name not in weights]
        bounds = {metric.name: metric.bounds for metric in declared if metric.bounds is not None}
        design = self.design
        return mean_results(
            table,
            names,
            settings,
            cluster=design.clusters,
            weights=design.weights,
            bounds=bounds,
            crossed=design.crossed,
        )

    def signature(self) -> Mapping[str, Any]:
        """What the scores depend on (digests of the data, scorers, options), for the signature line."""
        return {}

    def size(self) -> int | None:
        """How many examples there are, where that is known without reading them all."""
        return None

    def notes(self) -> Sequence[str]:
        """What a user should know before the run."""
        return ()

    def check(self) -> None:
        """Raise a UserError for what can be known to be wrong before anything is asked."""

    def check_examples(self, limit: int | None) -> None:
        """Raise a UserError if the examples (with ``limit``, the first so many) cannot give a meaningful result.

        Called last, after ``check`` and ``check_model``. It must be quick however many examples there are.
        """

    def check_model(self, model: Model) -> None:
        """Raise a UserError if this model cannot be used with this task."""


class Model:
    """Who answers. It has one method for each thing it ``can`` do: generate, logprobs, slot.

    Each takes a sequence of requests and returns the answers in order (a bare answer will do: a string, a
    Continuation, Candidates), or pairs of position and Response in the order of their arrival, which loses least when
    a run is killed. ``can`` may also hold "choices": the model keeps to the choices of a Generate request; and
    "train": a trainer can use its weights. A trainer is another plug-in (see ``Train``), so there is no such method.
    """

    name: str
    can: frozenset[str]
    """What it can do: generate, logprobs, slot, choices, train."""
    label: str = ""
    """The short name in tables; the model's name if empty."""
    cached: bool = True
    """False for a model whose answers cost nothing and are looked up by place."""
    sees_right: bool = True
    """False for a model that does not see what follows a blank."""
    chunk: int = 0
    """How many examples it should be asked about at a time, at least."""
    metered: bool = False
    """True for a model whose tokens are counted and may cost money."""
    prices: Prices | None = None
    """What the tokens of a metered model cost; None if that is unknown."""

    def identity(self) -> Mapping[str, Any]:
        """All that makes its answers its own: name, revision, digest of the weights or endpoint, parameters.

        No secrets: it is stored with the results.
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

    def notes(self) -> Sequence[str]:
        """What a user should know before the run."""
        return ()

    def check(self) -> None:
        """Raise a UserError for what can be known to be wrong before the first request."""

    def use_budget(self, budget: Budget) -> None:
        """Called before the first request. When ``budget.allows`` says no, request nothing more, yield what is in
        flight, then raise BudgetReached."""

    def use_folder(self, folder: Path) -> None:
        """Called before the first request: where the model may note what it must find again after a crash."""

    def close(self) -> None:
        """Called after the last request."""


class StoredAnswers(Model):
    """A model that looks up answers which are already there, by role and line or id."""

    cached = False
    lines: int | None = None
    """How many lines of answers there are, where answers are looked up by line."""
    roles: frozenset[str] = frozenset()
    """The roles that answers are there for."""

    def check_ids(self, ids: Sequence[str]) -> None:
        """Raise a UserError if an example of these ids has no answer; called before the run."""


def ask(model: Model, verb: str, requests: Sequence[Request]) -> Iterator[tuple[int, Response]]:
    """Put requests of one verb to a model; yield (position, response) as they arrive, exactly one for each."""
    seen: set[int] = set()
    for count, item in enumerate(_answers_of(model, verb, requests)):
        place, response = item if _is_placed(item) else (count, item)
        if isinstance(response, str | Continuation | Candidates):
            response = Response(response)
        if place in seen or not 0 <= place < len(requests) or not isinstance(response, Response):
            raise PluginError(f"the model {model.name} answered {item!r}, which answers no request that is open")
        seen.add(place)
        yield place, response
    if len(seen) != len(requests):
        raise PluginError(f"the model {model.name} gave {len(seen)} answers to {len(requests)} requests")


def _answers_of(model: Model, verb: str, requests: Sequence[Request]) -> Iterator[Any]:
    """What the model returns; a failure in a user's class is reported by name, one of ours is a bug and shown whole."""
    methods: dict[str, Callable[[Sequence[Request]], ModelReplies]] = {
        "generate": model.generate,
        "logprobs": model.logprobs,
        "slot": model.slot,
    }
    try:
        yield from methods[verb](requests)
    except LmassayError:
        raise
    except Exception as error:
        if type(model).__module__.startswith("lmassay."):
            raise
        raise PluginError(f"the model {model.name} failed: {error_with_location(error)}") from error


def _is_placed(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], int)


def label_of(part: Task | Model) -> str:
    """The short name that tables show for a task or model."""
    return part.label or part.name


@dataclass(frozen=True, slots=True)
class Component:
    """A plug-in by name: where it lives and what it is. Listing components imports none of them."""

    path: str
    """``package.module:Name``"""
    summary: str
    extra: str = ""
    """The extra of lmassay that it needs, if any."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that ``lmassay doctor`` looked for: ok, missing (nothing else needs it), low, or broken."""

    what: str
    state: str
    found: str
    remedy: str = ""

    @staticmethod
    def of_package(package: str, purpose: str, extra: str, of: str = "lmassay") -> Finding:
        """Whether an optional package is installed. ``extra`` of the package ``of`` brings it; if the extra is empty,
        the package is installed by itself.

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
    """What ``lmassay init`` writes: the template ``config.yaml`` of a folder, and the other files there as data.

    In the template, ``@DATA@/name`` is the path of a data file, ``@MODEL@`` the model, ``@FILE@`` and ``@NAME@`` the
    configuration's file and name; ``marks`` adds further marks that depend on the model.
    """

    folder: Path
    model: str = "smollm2"
    """The model if the user names none; ``@DATA@/file.py:Name`` is a class among the data."""
    marks: Hook | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line: name, one line of help, and where it is defined (``module:name``)."""

    name: str
    help: str
    path: str
    section: str = "Evaluations"
    """The heading under which ``lmassay --help`` lists it."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Published numbers that ``lmassay reproduce NAME`` computes again."""

    name: str
    title: str
    path: str
    """Where to import the function from: () → the ReproducedFigures, in the order of the printed table."""
    datasets: tuple[str, ...] = ()
    """The data sets that must have been fetched."""


@dataclass(frozen=True, slots=True)
class ReproducedFigure:
    """One published number next to the number that lmassay computes."""

    name: str
    published: str
    """As printed in the source, with all its digits."""
    computed: str
    """With as many digits as the published one."""
    excuse: str = ""
    """Why the two may differ. Without one, a difference is an error."""

    @property
    def agrees(self) -> bool:
        """Whether both are the same to the last printed digit."""
        return self.published == self.computed

    @property
    def verdict(self) -> str:
        """What the table says about the pair."""
        if self.agrees:
            return "agrees"
        return f"differs, {self.excuse}" if self.excuse else "DIFFERS"


@dataclass(frozen=True, slots=True)
class Variation:
    """Which parts of a run's signature say how the question is asked. Runs are often compared over these parts."""

    pooled: str = ""
    """Runs of one model that differ only in this part are variants of one question; the headline pools them."""
    identity: str = ""
    """The part that tells runs of one sweep apart better than their labels do."""
    named: tuple[str, ...] = ()
    """Parts that a run's label shows, so that different labels already say that they differ."""
    hidden: tuple[str, ...] = ("prompt", "method")
    """Parts that the label does not show."""
    free: tuple[str, ...] = ()
    """Further parts that may differ between two models that are asked the same question."""
    data: tuple[str, ...] = ("data",)
    """Parts that say what the questions are. Only runs on the same data are marked if their settings differ."""

    @property
    def question_parts(self) -> tuple[str, ...]:
        """All parts that say how the question is asked."""
        return (*self.named, *self.hidden)


@dataclass(frozen=True, slots=True)
class CardVariant:
    """One way in which the card can ask: what the model must be able to do, and the configuration without the model."""

    needs: frozenset[str]
    config: Mapping[str, Any]
    folder: Path
    """Where relative paths in the configuration start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How the runs of a task are shown. Every member is optional; what is missing gets the generic form."""

    section: Hook | None = None
    """(store, records) → the Section of the report for runs that share a task."""
    texts: Hook | None = None
    """(row, requests) → (name, text) pairs that the example browser shows, in reading order."""
    headline: Hook | None = None
    """(store, records) → the Headline of runs of one model that ask one question, or None."""
    sample: Sample | None = None
    """What ``lmassay init TASK`` writes."""
    export: Hook | None = None
    """() → the task's Export: how its runs are written in the formats of other tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEntry(View):
    """A task of an evaluation: where it lives, what it is, and where it is shown unlike the evaluation's others."""

    path: str
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(View):
    """A question about a model, with everything that answers and shows it. Only name, question and tasks are required.

    Evaluations are found through the entry-point group ``lmassay.evaluations``. The object should be cheap to import:
    give ``"package.module:name"`` instead of a function, and lmassay imports it when it is needed.
    """

    name: str
    question: str
    tasks: Mapping[str, TaskEntry]
    metrics: tuple[Metric, ...] = ()
    components: Mapping[str, Mapping[str, Component]] = field(default_factory=dict)
    """Further plug-ins that come with it: kind → name → component."""
    variation: Variation = Variation()
    card: Hook | None = None
    """(size) → the ways in which the card can ask, the most informative first; size is quick, standard or full."""
    commands: tuple[Command, ...] = ()
    reproductions: tuple[Reproduction, ...] = ()
    """Published numbers that can be computed again."""
    checks: Hook | None = None
    """() → Findings for ``lmassay doctor``."""
    after_run: Hook | None = None
    """(store, records) → print what the runs of a command show together."""
    log_reader: Hook | None = None
    """() → a LogReader, which recognises logs of other harnesses that one of the tasks can score."""
    datasets: Path | None = None
    """A folder of YAML files, one for each published data set that its tasks read by name."""
    order: int = 100
    """Where it stands among the evaluations on the card and in reports: the smaller, the earlier."""

    def view(self, base_task: str) -> View:
        """How runs of a task are shown: as its entry says, else as all of the evaluation."""
        entry = self.tasks.get(base_task)
        if entry is None:
            return self
        return View(
            section=entry.section or self.section,
            texts=entry.texts or self.texts,
            headline=entry.headline or self.headline,
            sample=entry.sample or self.sample,
            export=entry.export or self.export,
        )


def resolve(hook: Hook) -> Callable[..., Any]:
    """The function behind a hook; imports it if the hook says where it is."""
    if not isinstance(hook, str):
        return hook
    module, colon, name = hook.partition(":")
    if not colon or not module or not name:
        raise PluginError(f"'{hook}' is not an import path; write package.module:name")
    is_own = module.startswith("lmassay.")
    try:
        found = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        # A failure in lmassay itself is a bug and shown whole; our own errors say what to do.
        if is_own or isinstance(error, LmassayError):
            raise
        is_missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        why = f"there is no module {module}" if is_missing else error_with_location(error)
        raise PluginError(f"{hook} cannot be imported: {why}") from error
    try:
        function: Callable[..., Any] = getattr(found, name)
    except AttributeError:
        raise PluginError(f"{hook} cannot be imported: the module {module} has no '{name}'") from None
    return function
