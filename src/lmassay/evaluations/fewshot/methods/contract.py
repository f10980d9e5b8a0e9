"""What a few-shot method must offer, and what it is given.

A method is a class whose options are the parameters of its ``__init__``, with one verb::

    class Mine:
        def __init__(self, learning_rate: float = 1e-5) -> None: ...
        def fit(self, lesson: Lesson) -> Fitted: ...

``fit`` raises ModelError for a training that cannot give a classifier (a loss that is no number …): it is marked, and
the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmassay.evaluations.fewshot.tasks.nlu import NluTask

Told = Callable[[float], None]
DrawsState = Mapping[str, Sequence[int]]
"""Where the random generators of a method stand."""


def _silent(share: float) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is to be learned: one split of one task, and from whom the learner starts."""

    task: NluTask
    model: Any
    """The lmassay model that is taught; None for methods that need none."""
    train: Sequence[InputExample]
    dev: Sequence[InputExample] = ()
    unlabeled: Sequence[InputExample] = ()
    asked: Sequence[InputExample] = ()
    """What the classifier will be asked about: examples that cannot be read are to be told before the training."""
    seed: int = 42
    """Weights of new parts, dropout, masks that are drawn."""
    sampler_seed: int = 42
    """The order of the training examples."""
    draws: DrawsState | None = None
    """Where the draws of the training before stopped; for methods with ``continue_draws``."""
    told: Told = field(default=_silent, compare=False)
    """To be called with the share that is done, between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which weights a training ended with under one evaluation interval."""

    every: float | None
    """The share of all updates between two looks at the dev set; None where the last weights are taken unseen."""
    step: int
    """The update after which the chosen weights stood."""
    dev: dict[str, float]
    """The dev metrics there; empty without a dev set."""
    stopped_at: int
    """The update at which the training would have ended under this interval."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a training went."""

    updates: int
    losses: list[float] = field(default_factory=list)
    """One per update, mean over its examples."""
    learning_rates: list[float] = field(default_factory=list)
    curve: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """(update, dev metrics) at every look."""


@runtime_checkable
class Fitted(Protocol):
    """A classifier that was taught.

    Optional: ``choices`` (a list of Choice, one an evaluation interval), ``use(choice)`` to switch to its weights,
    ``course`` (a Course), ``save(folder)``.
    """

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        """One row an example, one column a label in the order of ``task.labels``; the largest is the prediction."""
