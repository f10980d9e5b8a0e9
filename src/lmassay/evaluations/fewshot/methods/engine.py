"""The training loop: updates, looks at the dev set, early stopping, and the weights that are kept.

One training serves every evaluation interval that is asked for: looking at the dev set draws no random numbers, so the
trajectory is the same however often it is looked at, and each interval keeps its own best weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ConfigError, ModelError
from lmassay.evaluations.fewshot.methods.batches import by_length
from lmassay.evaluations.fewshot.methods.contract import Choice, Course, Told
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.optimiser import Optimiser, linear, make_optimiser, set_rate
from lmassay.evaluations.fewshot.methods.sampler import batches
from lmassay.evaluations.fewshot.methods.selection import Watch, watches
from lmassay.evaluations.fewshot.methods.weights import Weights, copied, put, untouched_draws

Look = Callable[[], dict[str, float]]
"""The dev metrics of the weights as they are now."""
_TOO_LARGE = "the memory is not enough; lower micro_batch, eval_batch or max_seq_length, or take a smaller model"
_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyper-parameters of the loop. ``max_steps`` counts updates; ``epochs`` is used where it is None."""

    max_steps: int | None = 250
    epochs: int = 3
    batch_size: int = 16
    """Examples an update."""
    micro_batch: int = 4
    """Examples that go through the network at once: a matter of memory; but for dropout the numbers stay the same."""
    eval_batch: int = 32
    learning_rate: float = 1e-5
    weight_decay: float = 0.01
    adam_epsilon: float = 1e-8
    warmup_ratio: float = 0.0
    max_grad_norm: float = 1.0
    """Longer gradients are cut to this length; 0 for never."""
    eval_ratios: tuple[float, ...] = (0.02,)
    patience: int = 6
    """So many looks without a strictly better score end the training."""
    optimiser: Optimiser = "adamw"
    reference: bool = False
    """FewNLU's own loop: an update more than ``max_steps``, the last without effect; micro-batches in the drawn order,
    gathered across epochs, and a small one at an epoch's end weighing as much as a full one."""


@dataclass(frozen=True, slots=True)
class Taught:
    """What a training gave: its course, the choice of each interval, and the chosen weights by update."""

    course: Course
    choices: list[Choice]
    weights: Mapping[int, Weights]
    parameters: Mapping[str, torch.nn.Parameter]

    def use(self, choice: Choice) -> None:
        """Set the parameters to the choice's weights; the last ones, if they are the only choice, were not copied."""
        if choice.step in self.weights:
            put(self.weights[choice.step], self.parameters)


def train(
    learner: Learner, items: Sequence[Item], look: Look | None, hyper: Hyper, *, sampler_seed: int, told: Told
) -> Taught:
    """Teach the learner. It ends with the weights of the first interval's choice."""
    if not items:
        raise ModelError("there is nothing to learn from: the split's training part is empty")
    plan = _Plan.of(len(items), hyper)
    watched = watches(hyper.eval_ratios, plan.total, hyper.patience, has_dev=look is not None)
    optimised = [(name, parameter, rate) for name, parameter, rate in learner.optimised() if parameter.requires_grad]
    parameters = {name: parameter for name, parameter, _ in optimised}
    optimiser = make_optimiser(hyper.optimiser, optimised, hyper.learning_rate, hyper.weight_decay, hyper.adam_epsilon)
    losses: list[float] = []
    rates: list[float] = []
    curve: list[tuple[int, dict[str, float]]] = []
    try:
        learner.network.train()
        for update, groups in enumerate(islice(_updates(learner, items, hyper, sampler_seed), plan.updates), start=1):
            share = linear(update - 1, plan.total, plan.warmup, from_zero=hyper.reference)
            set_rate(optimiser, share)
            rates.append(hyper.learning_rate * share)
            found = _parts(learner, groups) if hyper.reference else learner.losses(groups)
            losses.append(_step(found, optimiser, list(parameters.values()), hyper.max_grad_norm, update))
            looking = [watch for watch in watched if watch.looks_at(update)]
            if looking and look is not None:
                dev = look()
                learner.network.train()
                curve.append((update, dev))
                _keep(looking, update, dev, parameters)
            told(update / plan.updates)
            if all(watch.stopped_at is not None for watch in watched):
                break
    except (MemoryError, RuntimeError) as error:
        if _memory_ran_out(error):
            raise ModelError(_TOO_LARGE) from error
        raise
    finally:
        learner.network.eval()
        optimiser.zero_grad(set_to_none=True)
    told(1.0)
    return _ended(watched, Course(len(losses), losses, rates, curve), parameters)


def check_schedule(hyper: Hyper, n_train: int, *, has_dev: bool) -> None:
    """Raise a ConfigError for numbers of updates and looks that make no training."""
    watches(hyper.eval_ratios, _Plan.of(n_train, hyper).total, hyper.patience, has_dev=has_dev)


def scores(learner: Learner, items: Sequence[Item], batch_size: int) -> NDArray[np.float64]:
    """Label scores, one row an item; computed in batches of like length, without a trace in the random numbers."""
    if not items:
        raise ModelError("there is nothing to classify")
    learner.network.eval()
    rows: list[NDArray[np.float64]] = [np.empty(0)] * len(items)
    device = next(learner.network.parameters()).device
    try:
        with torch.no_grad(), untouched_draws(device):
            for places in by_length(items, batch_size):
                found = learner.logits([items[place] for place in places]).double().cpu().numpy()
                for place, row in zip(places, found, strict=True):
                    rows[place] = row
    except (MemoryError, RuntimeError) as error:
        if _memory_ran_out(error):
            raise ModelError(_TOO_LARGE) from error
        raise
    stacked = np.stack(rows)
    if np.isnan(stacked).any():
        raise ModelError("the network's scores are NaN: its weights ran away in training; lower learning_rate")
    return stacked


@dataclass(frozen=True, slots=True)
class _Plan:
    total: int
    """What shares are taken of, and when the learning rate reaches 0."""
    updates: int
    warmup: int

    @classmethod
    def of(cls, n: int, hyper: Hyper) -> _Plan:
        for name, least in (("batch_size", 1), ("micro_batch", 1), ("eval_batch", 1), ("epochs", 1), ("patience", 1)):
            if getattr(hyper, name) < least:
                raise ConfigError(f"{name}: must be at least {least}, got {getattr(hyper, name)}")
        if hyper.max_steps is not None and hyper.max_steps < 1:
            raise ConfigError(f"max_steps: must be at least 1, got {hyper.max_steps}; leave it out to use epochs")
        if hyper.reference:
            parts, gathered = rhythm(n, hyper)
            total = hyper.max_steps or parts // gathered * hyper.epochs
            # So many epochs would do if each ended with an update; with few examples they do not.
            epochs = hyper.max_steps // max(1, parts // gathered) + 1 if hyper.max_steps else hyper.epochs
            updates = parts * epochs // gathered
            updates = min(updates, hyper.max_steps + 1) if hyper.max_steps else updates
        else:
            total = updates = hyper.max_steps or -(-n // hyper.batch_size) * hyper.epochs
        if total < 1 or updates < 1:
            raise ConfigError(f"{n} examples are less than one update of {hyper.batch_size}; lower batch_size")
        return cls(total, updates, int(total * hyper.warmup_ratio))


def rhythm(n: int, hyper: Hyper) -> tuple[int, int]:
    """FewNLU's micro-batches an epoch, and how many of them make an update."""
    size = min(hyper.micro_batch, hyper.batch_size)
    return -(-n // size), hyper.batch_size // size


def _updates(learner: Learner, items: Sequence[Item], hyper: Hyper, seed: int) -> Iterator[list[list[Item]]]:
    """The micro-batches of one update after the other."""
    n, size = len(items), min(hyper.micro_batch, hyper.batch_size)
    if hyper.reference:
        drawn, (_, gathered) = batches(n, size, seed), rhythm(n, hyper)
        while True:
            yield [[items[place] for place in next(drawn)] for _ in range(gathered)]
    for places in batches(n, hyper.batch_size, seed):
        update = [items[place] for place in places]
        groups = by_length(update, size) if learner.regroups else _in_order(len(update), size)
        yield [[update[place] for place in group] for group in groups]


def _parts(learner: Learner, groups: Sequence[Sequence[Item]]) -> Iterator[torch.Tensor]:
    """As FewNLU has it: every micro-batch counts alike."""
    for group in groups:
        yield learner.loss(group) / len(groups)


def _in_order(n: int, size: int) -> list[list[int]]:
    return [list(range(start, min(start + size, n))) for start in range(0, n, size)]


def _step(
    losses: Iterator[torch.Tensor], optimiser: Any, parameters: list[torch.nn.Parameter], max_norm: float, update: int
) -> float:
    optimiser.zero_grad(set_to_none=True)
    total: torch.Tensor | None = None
    for loss in losses:
        loss.backward()
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    value = float(total)
    if not math.isfinite(value):
        what = "NaN" if math.isnan(value) else "infinite"
        raise ModelError(f"the loss became {what} at update {update}; lower learning_rate (or max_grad_norm)")
    if max_norm > 0:
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    optimiser.step()
    return value


def _keep(
    looking: Sequence[Watch], update: int, dev: dict[str, float], parameters: Mapping[str, torch.nn.Parameter]
) -> None:
    weights: Weights | None = None
    for watch in looking:
        if watch.look(update, dev):
            weights = copied(parameters) if weights is None else weights
            watch.weights = weights


def _ended(watched: Sequence[Watch], course: Course, parameters: Mapping[str, torch.nn.Parameter]) -> Taught:
    choices = [watch.choice(course.updates) for watch in watched]
    kept: dict[int, Weights] = {w.step: w.weights for w in watched if w.weights is not None}
    if kept and any(choice.step not in kept for choice in choices):
        kept[course.updates] = copied(parameters)
    taught = Taught(course, choices, kept, parameters)
    taught.use(choices[0])
    return taught


def _memory_ran_out(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(part in text for part in _MEMORY)
