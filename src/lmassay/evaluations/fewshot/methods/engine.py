"""The training loop: the order of the examples, updates, looks at the dev set, and the weights that are kept.

One training serves every evaluation interval that is asked for: looking at the dev set draws no random numbers, so the
trajectory is the same however often it is looked at, and each interval keeps its own best weights.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ConfigError, ModelError
from lmassay.evaluations.fewshot.methods.contract import Choice, Course, Told
from lmassay.evaluations.fewshot.methods.learner import Item, Learner, by_length
from lmassay.evaluations.fewshot.methods.network import untouched_draws

Weights = Mapping[str, torch.Tensor]
Optimiser = Literal["adamw", "hf_adamw"]
Look = Callable[[], dict[str, float]]
"""The dev metrics of the weights as they are now."""
# FewNLU looks for these pieces of a parameter's name; RoBERTa's and ALBERT's layer norms of other names are decayed.
_NOT_DECAYED = ("bias", "LayerNorm.weight")
_BETAS = (0.9, 0.999)
# FewNLU's sampler draws the seed of each epoch from 0 to this.
_EPOCH_SEEDS = 10_000
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


def copied(parameters: Mapping[str, torch.nn.Parameter]) -> Weights:
    """What the parameters are now, on the CPU."""
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in parameters.items()}


def put(weights: Weights, parameters: Mapping[str, torch.nn.Parameter]) -> None:
    """Set the parameters to a copy made before."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def _memory_ran_out(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(part in text for part in _MEMORY)


# --- FewNLU's early stopping, for several evaluation intervals of one training ----------------------------------------


@dataclass(slots=True)
class Watch:
    """One evaluation interval: its best weights so far and when it would have stopped."""

    ratio: float | None
    """The share of the training between two looks; None: the last weights are taken unseen."""
    every: int | None
    """The same in updates."""
    patience: int
    best: float = 0.0
    unimproved: int = 0
    step: int = 0
    dev: dict[str, float] = field(default_factory=dict)
    weights: Weights | None = None
    stopped_at: int | None = None

    def looks_at(self, update: int) -> bool:
        return self.every is not None and self.stopped_at is None and update % self.every == 0

    def look(self, update: int, dev: dict[str, float]) -> bool:
        """Whether the weights of now are the best: at least as good as any before, so that of equals the latest wins.

        Only what is strictly better sets the patience back.
        """
        score = sum(dev.values()) / len(dev)
        chosen = score >= self.best
        self.unimproved = 0 if score > self.best else self.unimproved + 1
        if chosen:
            self.best, self.step, self.dev = score, update, dev
        if self.unimproved >= self.patience:
            self.stopped_at = update
        return chosen

    def choice(self, updates: int) -> Choice:
        """What was chosen when the training has ended after ``updates``."""
        return Choice(
            self.ratio, self.step or updates, self.dev, self.stopped_at if self.stopped_at is not None else updates
        )


def watches(ratios: Sequence[float], total: int, patience: int, *, has_dev: bool) -> list[Watch]:
    """One watch a ratio. Without a dev set, or with ratio 1, the last weights are taken."""
    if not has_dev:
        return [Watch(None, None, patience)]
    if len(set(ratios)) != len(ratios):
        raise ConfigError(f"eval_ratios: a ratio stands there twice: {', '.join(f'{ratio:g}' for ratio in ratios)}")
    made = []
    for ratio in ratios:
        if not 0 < ratio <= 1:
            raise ConfigError(f"eval_ratios: {ratio} is no share of a training; write a number above 0, at most 1")
        every = int(ratio * total)
        if every == 0:
            raise ConfigError(
                f"eval_ratios: {ratio} of {total} updates is less than one update, so the dev set would never be "
                f"looked at; the smallest possible is {_smallest(total)}, or train longer (max_steps)"
            )
        made.append(Watch(ratio, None if ratio == 1 else every, patience))
    return made


def _smallest(total: int) -> float:
    """The smallest ratio that comes to an update, in four digits or as many as it takes."""
    for digits in range(4, 16):
        ratio: float = math.ceil(10**digits / total) / 10**digits
        if int(ratio * total) == 1:
            return ratio
    return 1 / total


# --- AdamW and its schedule: torch's own, or as transformers 4.5.1 had it for the published figures -------------------


@dataclass(slots=True)
class _State:
    mean: torch.Tensor
    square: torch.Tensor
    step: int = 0


class HfAdamW:
    """Adam whose weights decay after the update, eps added before the bias correction (transformers 4.5.1)."""

    def __init__(self, groups: list[dict[str, Any]], epsilon: float) -> None:
        self.param_groups = groups
        self._epsilon = epsilon
        self._state: dict[int, _State] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self) -> None:
        with torch.no_grad():
            for group in self.param_groups:
                self._step(group)

    def _step(self, group: dict[str, Any]) -> None:
        parameters = [p for p in group["params"] if p.grad is not None]
        if not parameters:
            return
        states = [self._state_of(parameter) for parameter in parameters]
        gradients = [p.grad for p in parameters]
        means, squares = [state.mean for state in states], [state.square for state in states]
        first, second = _BETAS
        torch._foreach_mul_(means, first)
        torch._foreach_add_(means, gradients, alpha=1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - second)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, self._epsilon)
        sizes = [-group["lr"] * math.sqrt(1 - second**state.step) / (1 - first**state.step) for state in states]
        torch._foreach_addcdiv_(parameters, means, roots, sizes)
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])

    def _state_of(self, parameter: torch.nn.Parameter) -> _State:
        state = self._state.get(id(parameter))
        if state is None:
            state = self._state[id(parameter)] = _State(torch.zeros_like(parameter), torch.zeros_like(parameter))
        state.step += 1
        return state


def make_optimiser(
    kind: Optimiser,
    optimised: Iterable[tuple[str, torch.nn.Parameter, float | None]],
    learning_rate: float,
    weight_decay: float,
    epsilon: float,
) -> Any:
    """Groups by learning rate and decay; the group's full rate is kept under ``full_lr`` for the schedule."""
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter, own_rate in optimised:
        free = own_rate is not None or any(piece in name for piece in _NOT_DECAYED)
        key = (learning_rate if own_rate is None else own_rate, 0.0 if free else weight_decay)
        groups.setdefault(key, []).append(parameter)
    listed = [
        {"params": parameters, "lr": rate, "full_lr": rate, "weight_decay": decay}
        for (rate, decay), parameters in groups.items()
    ]
    if kind == "hf_adamw":
        return HfAdamW(listed, epsilon)
    return torch.optim.AdamW(listed, lr=learning_rate, eps=epsilon, fused=True)


def linear(update: int, total: int, warmup: int, *, from_zero: bool = True) -> float:
    """The share of the learning rate at an update (counted from 0): up in ``warmup`` updates, then down to 0.

    ``from_zero`` is how transformers has it: the first update of a warm-up has no effect.

    >>> [linear(update, total=4, warmup=2) for update in range(5)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    >>> [linear(update, total=4, warmup=1, from_zero=False) for update in range(2)]
    [0.5, 1.0]
    """
    if update < warmup:
        return update / warmup if from_zero else (update + 1) / (warmup + 1)
    return max(0.0, (total - update) / max(1, total - warmup))


def set_rate(optimiser: Any, share: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = group["full_lr"] * share


# --- the order of the training examples: FewNLU's sampler, whose seed is apart from all other randomness --------------


def epochs(n: int, seed: int) -> Iterator[list[int]]:
    """One permutation of ``range(n)`` after the other, without end.

    Python's generator draws the seed of each epoch, torch's the permutation.
    """
    if n < 1:
        raise ModelError("there are no examples to draw from")
    draws = random.Random(seed)
    while True:
        generator = torch.Generator().manual_seed(draws.randint(0, _EPOCH_SEEDS))
        yield torch.randperm(n, generator=generator).tolist()


def batches(n: int, size: int, seed: int) -> Iterator[list[int]]:
    """Places in batches of ``size``; the last of an epoch may be smaller. Without end."""
    for order in epochs(n, seed):
        yield from (order[start : start + size] for start in range(0, n, size))
