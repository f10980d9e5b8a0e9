"""The interface of few-shot methods: what a method declares, what a training receives, and what it returns.

A method is a class whose options are the parameters of its ``__init__``::

    class SharedWords(Method):
        needs = frozenset()  # no model

        def __init__(self, power: float = 1.0) -> None:
            self.power = power

        def fit(self, inputs: TrainingInputs) -> TrainedClassifier: ...

``fit`` raises ModelError if a training cannot produce a classifier, for example because the loss is not finite.
The training is then marked as failed, and the others continue.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lmassay.errors import OldPluginWarning, PluginError
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmassay.contracts import Model
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask
    from lmassay.types import Request, Response

ProgressCallback = Callable[[float], None]
"""Called with the share of a training that is done, between 0 and 1. It raises an exception if the run was stopped."""
DrawsState = Mapping[str, Sequence[int]]
"""The state of a method's random generators, as plain JSON."""


def _report_nothing(share: float) -> None:
    return None


@dataclass(frozen=True, slots=True)
class TrainingInputs:
    """Everything that one training receives: the model, one split of the task's examples, and the seeds."""

    task: NluTask
    model: Any
    """The lmassay model whose weights are the starting point; None for methods that need no model."""
    train: Sequence[InputExample]
    dev: Sequence[InputExample] = ()
    """The examples that hyper-parameters and stopping points are selected on; empty if nothing is held out."""
    unlabeled: Sequence[InputExample] = ()
    """Only for methods with ``uses_unlabeled``."""
    test: Sequence[InputExample] = ()
    """The examples that the classifier will be tested on. A method may check before the training that the model can
    read them, but it must not learn from them."""
    seed: int = 42
    """Seed for everything random except the order of examples: new weights, dropout, masks."""
    sampler_seed: int = 42
    """Seed for the order of the training examples."""
    draws: DrawsState | None = None
    """Where the random generators of the previous training stopped; for methods with ``continue_draws``."""
    report_progress: ProgressCallback = field(default=_report_nothing, compare=False)
    """The method should call this every few seconds with the share of the training that is done, between 0 and 1. If
    the training was cancelled, the call raises an exception."""

    @property
    def told(self) -> ProgressCallback:
        """The name of ``report_progress`` in earlier versions."""
        warnings.warn(
            "told is now called report_progress; the old name will be removed in 1.0", OldPluginWarning, stacklevel=2
        )
        return self.report_progress


@dataclass(frozen=True, slots=True)
class Choice:
    """The weights that a training keeps under one evaluation ratio (see ``Method.eval_ratios``)."""

    every: float | None
    """The share of all updates between two evaluations on the dev set; None if the last weights are simply kept."""
    step: int
    """The update after which the kept weights were reached."""
    dev: dict[str, float]
    """The dev metrics of these weights; empty without a dev set."""
    stopped_at: int
    """The update at which the training would have ended if this ratio had been the only one."""


@dataclass(frozen=True, slots=True)
class TrainingCourse:
    """The course of a training, for the report."""

    updates: int
    losses: list[float] = field(default_factory=list)
    """One per update, the mean over its examples."""
    learning_rates: list[float] = field(default_factory=list)
    curve: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """(update, dev metrics) of every evaluation on the dev set."""


class TrainedClassifier:
    """The classifier that ``fit`` returns: it scores the labels of examples. Only ``logits`` is required."""

    choices: Sequence[Choice] = ()
    """One choice per evaluation ratio, if the training selected weights on the dev set."""
    course: TrainingCourse | None = None
    """Losses and dev curve, for the report."""

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        """One row per example, one column per label in the order of ``task.labels``; the largest is the prediction."""
        raise NotImplementedError

    def use(self, choice: Choice) -> None:
        """Switch to the weights of this choice. Called before ``logits`` for every choice that is tested."""

    def answers(self, examples: Sequence[InputExample]) -> list[str] | None:
        """The texts chosen when ``logits`` last scored these examples (ReCoRD); None for tasks with fixed labels."""
        return None

    def draws_state(self) -> DrawsState | None:
        """The state of the random generators after the training; for methods with ``continue_draws``."""
        return None

    def save(self, folder: Path) -> None:
        """Write the weights in use to a folder, in Hugging Face's format; for methods with ``can_restore``."""
        raise NotImplementedError


class Method:
    """A few-shot method that trains. Only ``fit`` is required; all other members have defaults."""

    needs: frozenset[str] = frozenset({"train"})
    """What the model must be able to do, as in ``Model.can``; ``frozenset()`` for a method that needs no model."""
    uses_unlabeled: bool = False
    """True if the method learns from unlabeled examples; it then gets them in ``TrainingInputs.unlabeled``."""
    pattern: int | None = None
    """The pattern that the method uses. A method with an option of this name can be run with several patterns
    (``task.regime.patterns``)."""
    eval_ratios: float | Sequence[float] | None = None
    """The share of all updates between two evaluations on the dev set. If there are several ratios, one training gives
    one choice of weights per ratio."""
    spatial_dropout: float | None = None
    """The share of embedding dimensions that are dropped in training. A method with an option of this name can be a
    noisy student; in all others it is None."""
    continue_draws: bool = False
    """True if each training of a run continues the random number sequence of the previous one, as in FewNLU."""

    can_restore: bool = False
    """True if classifiers can be saved and restored, so that ``keep: best`` is possible."""

    def fit(self, inputs: TrainingInputs) -> TrainedClassifier:
        """Train a classifier. All randomness must come from ``inputs.seed`` and ``inputs.sampler_seed``."""
        raise NotImplementedError

    def restore(self, inputs: TrainingInputs, folder: Path) -> TrainedClassifier:
        """The classifier that ``TrainedClassifier.save`` wrote; ``inputs.model`` is the model in the same folder."""
        raise NotImplementedError

    def check_task(self, task: NluTask) -> None:
        """Raise a UserError for a task that the method cannot learn."""

    def check_model(self, model: Model) -> None:
        """Raise a UserError for a model that the method cannot train."""

    def check_pattern(self, task: NluTask, pattern: int) -> None:
        """Raise a ConfigError if the task does not have this pattern."""

    def label_words(self, task: NluTask, model: Model, pattern: int) -> dict[str, list[str]]:
        """Label → the words that stand for it with this model and pattern."""
        # A user's method may have an option of this name that is not the number of one of the task's patterns.
        cloze_pattern = pattern if pattern in task.patterns["cloze"] else 0
        return {label: task.verbalize(label, cloze_pattern) for label in task.labels}

    def check_training_size(self, n_train: int, *, has_dev: bool) -> None:
        """Raise a ConfigError if the options cannot work with this number of training examples, with or without dev."""

    def identity(self) -> Any:
        """What else the result depends on, such as digests of files that the method reads; None if nothing else."""
        return None


class PromptMethod(Method):
    """A few-shot method that trains nothing: it sends requests to the model and reads labels from the responses.

    ``questions`` and ``logits`` are required. Set ``needs`` to what the requests need, such as
    ``frozenset({"generate"})``; its default, inherited from :class:`Method`, asks for a model that can be trained.
    """

    shots: int = 0
    """The maximum number of training examples in a prompt."""
    answers_in_words: bool = False
    """Whether the model answers with text, which need not be a label. The share of answers that are not a label is then
    reported as the out-of-choice rate."""

    def choose_for(self, model: Model) -> None:
        """Choose how to ask this model, if the method can ask in several ways. It must set ``needs`` accordingly."""

    def count_requests(self, task: NluTask, examples: Sequence[InputExample]) -> int | None:
        """How many requests ``questions`` will return for these examples; None if that is not known in advance."""
        return None

    def notes(self) -> Sequence[str]:
        """What the user should know before the run, such as how the model is asked."""
        return ()

    def wording(self, task: NluTask) -> Mapping[str, Any]:
        """How the model is asked, as far as scores depend on it. The entries become part of the run's signature."""
        return {}

    def questions(self, inputs: TrainingInputs, examples: Sequence[InputExample]) -> list[list[Request]]:
        """The requests about each example."""
        raise NotImplementedError

    def logits(self, task: NluTask, example: InputExample, responses: Sequence[Response]) -> list[float]:
        """The score of each label, from the responses to the requests about one example.

        All responses are usable. Raises NoChoiceError if they do not say which label is meant.
        """
        raise NotImplementedError


class NoChoiceError(Exception):
    """An answer that is not one of the labels. Its example counts neither as right nor as wrong."""


# --- checks of user-defined classes -----------------------------------------------------------------------------------

_Contract = TypeVar("_Contract", Method, TrainedClassifier)
_REQUIRED: dict[type, str] = {Method: "fit", TrainedClassifier: "logits"}
_REQUIRED_OF_PROMPT_METHODS = ("questions", "logits")
_PAGE = "docs/extending/method.md"
# How similar a name must be to a member's to count as a misspelling; "uses_unlabelled" and "uses_unlabeled" are 0.97.
_SIMILAR = 0.8


def as_method(plugin: Any) -> Method:
    """The method as the evaluation uses it: a misspelt member is refused, and missing members get their defaults."""
    if isinstance(plugin, PromptMethod):
        _refuse_misspelt(plugin, PromptMethod)
        for required in _REQUIRED_OF_PROMPT_METHODS:
            if getattr(type(plugin), required) is getattr(PromptMethod, required):
                raise PluginError(f"{type(plugin).__name__} has no {required}; see {_PAGE}")
        return plugin
    return _completed(plugin, Method)


def as_classifier(plugin: Any) -> TrainedClassifier:
    """What a method's ``fit`` returned, checked and completed like the method itself."""
    return _completed(plugin, TrainedClassifier)


def _completed(plugin: Any, base: type[_Contract]) -> _Contract:
    """The plug-in, with the defaults of the base class for the members that it does not define.

    In earlier versions any class with ``fit`` was a method. Such a class still works: the base class is added to it.
    """
    cls = type(plugin)
    required = _REQUIRED[base]
    if isinstance(plugin, base):
        if getattr(cls, required) is getattr(base, required):
            raise PluginError(f"{cls.__name__} has no {required}; see {_PAGE}")
        _refuse_misspelt(plugin, base)
        return plugin
    if not callable(getattr(plugin, required, None)):
        raise PluginError(f"{cls.__name__} has no {required}; see {_PAGE}")
    _refuse_misspelt(plugin, base)
    warnings.warn(
        f"{cls.__name__} should inherit from {base.__module__}.{base.__name__}; "
        "a class without it will be refused in 1.0",
        OldPluginWarning,
        stacklevel=3,
    )
    members = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    try:
        plugin.__class__ = type(cls.__name__, (cls, base), members)
    except TypeError as error:
        raise PluginError(f"{cls.__name__} must inherit from {base.__name__} ({error}); see {_PAGE}") from None
    completed: _Contract = plugin
    return completed


def _refuse_misspelt(plugin: object, base: type) -> None:
    """Raise a PluginError for a class member whose name is almost that of a contract member.

    A misspelt member would silently have no effect.
    """
    members = [name for name in dir(base) if not name.startswith("_")]
    for cls in type(plugin).__mro__:
        if cls.__module__.startswith("lmassay.") or cls is object:
            continue
        for name in vars(cls):
            if name.startswith("_") or name in members:
                continue
            similar = difflib.get_close_matches(name, members, n=1, cutoff=_SIMILAR)
            # If the class defines the contract's member as well, the similar name is intended.
            if not similar or similar[0] in vars(cls):
                continue
            raise PluginError(
                f"{cls.__name__}.{name} is not a member of {base.__name__}; did you mean '{similar[0]}'? "
                "If it is your own, begin its name with an underscore"
            )


def __getattr__(name: str) -> Any:
    if name == "Lesson":
        warnings.warn(
            f"{__name__}.Lesson is now called TrainingInputs; the old name will be removed in 1.0",
            OldPluginWarning,
            stacklevel=2,
        )
        return TrainingInputs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
