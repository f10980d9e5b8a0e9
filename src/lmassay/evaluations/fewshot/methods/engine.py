"""The training loop: the order of the examples, updates, evaluations on the dev set, and the weights that are kept.

An evaluation ratio is the share of the training between two evaluations on the dev set. One training serves several
ratios: an evaluation draws no random numbers, so the weights develop in the same way however often the dev set is
evaluated, and each ratio keeps its own best weights.
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
from lmassay.evaluations.fewshot.methods.contract import Choice, ProgressCallback, TrainingCourse
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, Learner, by_length, selected
from lmassay.evaluations.fewshot.methods.network import untouched_draws

Weights = Mapping[str, torch.Tensor]
Optimiser = Literal["adamw", "hf_adamw"]
DevEvaluation = Callable[[], dict[str, float]]
"""Computes the dev metrics of the current weights."""
DEFAULT_EVAL_RATIO = 0.02
"""The share of the training between two evaluations on the dev set, unless the user chooses another one."""
# FewNLU looks for these substrings in a parameter's name. Some layer norms have other names and are therefore decayed:
# ``lm_head.layer_norm`` of RoBERTa, and ``full_layer_layer_norm`` of ALBERT.
_NOT_DECAYED = ("bias", "LayerNorm.weight")
_BETAS = (0.9, 0.999)
# FewNLU's sampler draws the seed of each epoch from the numbers 0 to 10,000.
_EPOCH_SEEDS = 10_000
_TOO_LARGE = "out of memory; lower micro_batch, eval_batch or max_seq_length, or use a smaller model"
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The options of the loop. ``max_steps`` counts updates; if it is None, ``epochs`` is used."""

    max_steps: int | None = 250
    epochs: int = 3
    batch_size: int = 16
    """Examples per update."""
    micro_batch: int = 4
    """Examples that go through the network at once. It decides how much memory is needed, but without dropout it does
    not change the numbers."""
    eval_batch: int = 32
    learning_rate: float = 1e-5
    weight_decay: float = 0.01
    adam_epsilon: float = 1e-8
    warmup_ratio: float = 0.0
    max_grad_norm: float = 1.0
    """Gradients are clipped to this norm; 0 means no clipping."""
    eval_ratios: tuple[float, ...] = (DEFAULT_EVAL_RATIO,)
    patience: int = 6
    """The training ends after this many evaluations without a strictly better score."""
    optimiser: Optimiser = "adamw"
    reference: bool = False
    """Repeat FewNLU's own loop. It makes one update more than ``max_steps``, with learning rate 0. Its micro-batches
    are in the order in which examples are drawn, and an update may contain micro-batches of two epochs. A smaller
    micro-batch at the end of an epoch counts as much as a full one."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The course of a training, and the weights that each evaluation ratio chose."""

    course: TrainingCourse
    choices: list[Choice]
    """One per evaluation ratio."""
    weights: Mapping[int, Weights]
    """The number of an update → a copy of the weights after it, if a ratio chose them."""
    parameters: Mapping[str, torch.nn.Parameter]
    """The parameters that were trained, by name."""

    def use(self, choice: Choice) -> None:
        """Set the parameters to the weights of this choice."""
        # If the last weights are the only choice, they were not copied: the parameters still have them.
        if choice.step in self.weights:
            load_weights(self.weights[choice.step], self.parameters)


def train(
    learner: Learner,
    items: Sequence[EncodedItem],
    evaluate_dev: DevEvaluation | None,
    hyper: Hyperparameters,
    *,
    sampler_seed: int,
    report_progress: ProgressCallback,
) -> TrainingResult:
    """Train the learner. Afterwards it has the weights that the first evaluation ratio chose.

    ``evaluate_dev`` is None without a dev set.
    """
    if not items:
        raise ModelError("there is nothing to learn from: the training part of the split is empty")
    plan = _UpdatePlan.of(len(items), hyper)
    rules = stopping_rules(hyper.eval_ratios, plan.total, hyper.patience, has_dev=evaluate_dev is not None)
    trained = []
    parameters: dict[str, torch.nn.Parameter] = {}
    for name, parameter, own_rate in learner.optimised():
        if parameter.requires_grad:
            trained.append((name, parameter, own_rate))
            parameters[name] = parameter
    optimiser = make_optimiser(hyper.optimiser, trained, hyper.learning_rate, hyper.weight_decay, hyper.adam_epsilon)
    losses: list[float] = []
    learning_rates: list[float] = []
    curve: list[tuple[int, dict[str, float]]] = []
    updates = islice(_updates(learner, items, hyper, sampler_seed), plan.updates)
    try:
        learner.module.train()
        for update, micro_batches in enumerate(updates, start=1):
            share = linear(update - 1, plan.total, plan.warmup, from_zero=hyper.reference)
            set_rate(optimiser, share)
            learning_rates.append(hyper.learning_rate * share)
            if hyper.reference:
                parts = _equally_weighted_losses(learner, micro_batches)
            else:
                parts = learner.losses(micro_batches)
            loss = _update_weights(parts, optimiser, list(parameters.values()), hyper.max_grad_norm, update)
            losses.append(loss)
            # Ratios that are due at the same update share one evaluation on the dev set.
            due = [rule for rule in rules if rule.is_due(update)]
            if due and evaluate_dev is not None:
                dev = evaluate_dev()
                # The evaluation has switched the network to evaluation mode.
                learner.module.train()
                curve.append((update, dev))
                _keep_best(due, update, dev, parameters)
            report_progress(update / plan.updates)
            still_running = [rule for rule in rules if rule.stopped_at is None]
            if not still_running:
                break
    except (MemoryError, RuntimeError) as error:
        if _memory_ran_out(error):
            raise ModelError(_TOO_LARGE) from error
        raise
    finally:
        learner.module.eval()
        optimiser.zero_grad(set_to_none=True)
    report_progress(1.0)
    course = TrainingCourse(len(losses), losses, learning_rates, curve)
    return _result(rules, course, parameters)


def check_schedule(hyper: Hyperparameters, n_train: int, *, has_dev: bool) -> None:
    """Raise a ConfigError for numbers of updates and evaluations that are impossible with ``n_train`` examples."""
    plan = _UpdatePlan.of(n_train, hyper)
    stopping_rules(hyper.eval_ratios, plan.total, hyper.patience, has_dev=has_dev)


def scores(learner: Learner, items: Sequence[EncodedItem], batch_size: int) -> NDArray[np.float64]:
    """Label scores, one row per item. Items of similar length share a batch; random generators are left untouched."""
    if not items:
        raise ModelError("there is nothing to classify")
    learner.module.eval()
    rows: list[NDArray[np.float64]] = [np.empty(0)] * len(items)
    device = next(learner.module.parameters()).device
    try:
        with torch.no_grad(), untouched_draws(device):
            for indices in by_length(items, batch_size):
                logits = learner.logits(selected(items, indices))
                for index, row in zip(indices, logits.double().cpu().numpy(), strict=True):
                    rows[index] = row
    except (MemoryError, RuntimeError) as error:
        if _memory_ran_out(error):
            raise ModelError(_TOO_LARGE) from error
        raise
    stacked = np.stack(rows)
    if np.isnan(stacked).any():
        raise ModelError("the network's scores are NaN: the training diverged; lower learning_rate")
    return stacked


def _memory_ran_out(error: BaseException) -> bool:
    """Whether an error means that there is not enough memory; on some devices only its message says so."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    message = str(error).lower()
    return any(phrase in message for phrase in _OUT_OF_MEMORY)


# --- updates ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _UpdatePlan:
    """How many updates a training has, and over how many the learning rate rises and falls."""

    total: int
    """The planned number of updates. Evaluation ratios are shares of it, and the learning rate reaches 0 there."""
    updates: int
    """How many updates are made. With ``reference`` this may be one more than ``total`` (FewNLU counts from 0 and stops
    after the update that exceeds the maximum)."""
    warmup: int
    """The number of updates at the beginning during which the learning rate rises."""

    @classmethod
    def of(cls, n: int, hyper: Hyperparameters) -> _UpdatePlan:
        """The plan for ``n`` training examples."""
        counts = {
            "batch_size": hyper.batch_size,
            "micro_batch": hyper.micro_batch,
            "eval_batch": hyper.eval_batch,
            "epochs": hyper.epochs,
            "patience": hyper.patience,
        }
        for name, count in counts.items():
            if count < 1:
                raise ConfigError(f"{name}: must be at least 1, got {count}")
        if hyper.max_steps is not None and hyper.max_steps < 1:
            raise ConfigError(f"max_steps: must be at least 1, got {hyper.max_steps}; leave it out to use epochs")
        if hyper.reference:
            total, updates = cls._reference_counts(n, hyper)
        elif hyper.max_steps is not None:
            total = updates = hyper.max_steps
        else:
            total = updates = math.ceil(n / hyper.batch_size) * hyper.epochs
        if total < 1 or updates < 1:
            raise ConfigError(f"{n} examples are less than one update of {hyper.batch_size}; lower batch_size")
        return cls(total, updates, int(total * hyper.warmup_ratio))

    @staticmethod
    def _reference_counts(n: int, hyper: Hyperparameters) -> tuple[int, int]:
        """FewNLU's numbers of updates: those that the schedule is made for, and those that are really made."""
        per_epoch, per_update = micro_batch_counts(n, hyper)
        updates_per_epoch = per_epoch // per_update
        if not hyper.max_steps:
            scheduled = updates_per_epoch * hyper.epochs
            # Micro-batches are accumulated across epochs, so a few more updates may happen than are scheduled.
            updates = per_epoch * hyper.epochs // per_update
            return scheduled, updates
        # FewNLU computes the number of epochs as if each ended with an update. With few examples, this gives too few
        # epochs, and the training ends before max_steps.
        epochs = hyper.max_steps // max(1, updates_per_epoch) + 1
        possible_updates = per_epoch * epochs // per_update
        return hyper.max_steps, min(possible_updates, hyper.max_steps + 1)


def micro_batch_counts(n: int, hyper: Hyperparameters) -> tuple[int, int]:
    """How many micro-batches FewNLU has per epoch of ``n`` examples, and how many of them make an update."""
    size = min(hyper.micro_batch, hyper.batch_size)
    return math.ceil(n / size), hyper.batch_size // size


def _updates(
    learner: Learner, items: Sequence[EncodedItem], hyper: Hyperparameters, seed: int
) -> Iterator[list[list[EncodedItem]]]:
    """Yield the micro-batches of one update after the other, without end."""
    size = min(hyper.micro_batch, hyper.batch_size)
    if hyper.reference:
        drawn = batches(len(items), size, seed)
        _, per_update = micro_batch_counts(len(items), hyper)
        while True:
            # As in FewNLU, an update may contain micro-batches of two epochs.
            yield [selected(items, next(drawn)) for _ in range(per_update)]
    for indices in batches(len(items), hyper.batch_size, seed):
        update = selected(items, indices)
        if learner.regroups:
            # The loss does not depend on how the examples of an update are grouped, so they are grouped by length,
            # which needs less padding.
            yield [selected(update, group) for group in by_length(update, size)]
        else:
            yield [update[start : start + size] for start in range(0, len(update), size)]


def _equally_weighted_losses(
    learner: Learner, micro_batches: Sequence[Sequence[EncodedItem]]
) -> Iterator[torch.Tensor]:
    """The loss of an update as FewNLU computes it: every micro-batch counts the same, whatever its size."""
    for items in micro_batches:
        yield learner.loss(items) / len(micro_batches)


def _update_weights(
    losses: Iterator[torch.Tensor], optimiser: Any, parameters: list[torch.nn.Parameter], max_norm: float, update: int
) -> float:
    """One update from the losses of its micro-batches; returns their sum."""
    optimiser.zero_grad(set_to_none=True)
    total: torch.Tensor | None = None
    for loss in losses:
        loss.backward()
        # The losses are summed as tensors, because reading a number after every micro-batch would make the GPU wait.
        total = loss.detach() if total is None else total + loss.detach()
    assert total is not None
    value = float(total)
    if not math.isfinite(value):
        kind = "NaN" if math.isnan(value) else "infinite"
        raise ModelError(f"the loss became {kind} at update {update}; lower learning_rate (or max_grad_norm)")
    if max_norm > 0:
        torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    optimiser.step()
    return value


# --- the weights that are kept ----------------------------------------------------------------------------------------


def _keep_best(
    due: Sequence[EarlyStopping], update: int, dev: dict[str, float], parameters: Mapping[str, torch.nn.Parameter]
) -> None:
    """Pass the dev metrics to the ratios that are due, and copy the current weights for those that choose them."""
    weights: Weights | None = None
    for rule in due:
        if rule.record(update, dev):
            # Ratios that choose the same update share one copy.
            if weights is None:
                weights = copy_weights(parameters)
            rule.weights = weights


def _result(
    rules: Sequence[EarlyStopping], course: TrainingCourse, parameters: Mapping[str, torch.nn.Parameter]
) -> TrainingResult:
    """What each ratio chose. The parameters are set to the weights that the first ratio chose."""
    choices = [rule.choice(course.updates) for rule in rules]
    kept: dict[int, Weights] = {}
    for rule in rules:
        if rule.weights is not None:
            kept[rule.step] = rule.weights
    # A ratio that never chose any weights keeps the last ones. They must be copied before others are loaded.
    needs_last_weights = any(choice.step not in kept for choice in choices)
    if kept and needs_last_weights:
        kept[course.updates] = copy_weights(parameters)
    result = TrainingResult(course, choices, kept, parameters)
    result.use(choices[0])
    return result


def copy_weights(parameters: Mapping[str, torch.nn.Parameter]) -> Weights:
    """The current values of the parameters, on the CPU."""
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in parameters.items()}


def load_weights(weights: Weights, parameters: Mapping[str, torch.nn.Parameter]) -> None:
    """Set the parameters to a copy that ``copy_weights`` made."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


# --- FewNLU's early stopping, for several evaluation ratios of one training -------------------------------------------


@dataclass(slots=True)
class EarlyStopping:
    """One evaluation ratio: its best weights so far, and when it would have ended the training."""

    ratio: float | None
    """The share of the training between two evaluations; None if the last weights are simply kept."""
    every: int | None
    """The number of updates between two evaluations; None if there are no evaluations."""
    patience: int
    best: float = 0.0
    """The best dev score so far: the mean of the dev metrics."""
    unimproved: int = 0
    """How many evaluations there have been since the score last improved."""
    step: int = 0
    """The update after which the best weights were reached; 0 before the first evaluation."""
    dev: dict[str, float] = field(default_factory=dict)
    """The dev metrics of the best weights."""
    weights: Weights | None = None
    """A copy of the best weights."""
    stopped_at: int | None = None
    """The update at which this ratio would have ended the training; None if it has not."""

    def is_due(self, update: int) -> bool:
        """Whether the dev set is evaluated after this update."""
        return self.every is not None and self.stopped_at is None and update % self.every == 0

    def record(self, update: int, dev: dict[str, float]) -> bool:
        """Record the dev metrics after an update; returns whether the current weights are now the best.

        As in FewNLU, weights are chosen if they are at least as good as all before, so of several with the same score
        the latest are kept. But only a strictly better score counts as an improvement.
        """
        score = sum(dev.values()) / len(dev)
        is_chosen = score >= self.best
        if score > self.best:
            self.unimproved = 0
        else:
            self.unimproved += 1
        if is_chosen:
            self.best = score
            self.step = update
            self.dev = dev
        if self.unimproved >= self.patience:
            self.stopped_at = update
        return is_chosen

    def choice(self, updates: int) -> Choice:
        """The choice of this ratio, after a training of ``updates`` updates."""
        stopped_at = updates if self.stopped_at is None else self.stopped_at
        # Without any evaluation the last weights are kept.
        step = self.step or updates
        return Choice(self.ratio, step, self.dev, stopped_at)


def stopping_rules(ratios: Sequence[float], total: int, patience: int, *, has_dev: bool) -> list[EarlyStopping]:
    """One rule per ratio. Without a dev set, or with ratio 1, the last weights are kept."""
    if not has_dev:
        return [EarlyStopping(None, None, patience)]
    if len(set(ratios)) != len(ratios):
        given = ", ".join(f"{ratio:g}" for ratio in ratios)
        raise ConfigError(f"eval_ratios: a ratio is given twice: {given}")
    rules = []
    for ratio in ratios:
        if not 0 < ratio <= 1:
            raise ConfigError(f"eval_ratios: {ratio} is not a share of a training; use a number above 0 and up to 1")
        every = updates_between_evaluations(ratio, total)
        if every == 0:
            raise ConfigError(
                f"eval_ratios: {ratio} of {total} updates is less than one update, so the dev set would never be "
                f"evaluated; the smallest possible is {_smallest_ratio(total)}, or train longer (max_steps)"
            )
        rules.append(EarlyStopping(ratio, None if ratio == 1 else every, patience))
    return rules


def updates_between_evaluations(ratio: float, total: int) -> int:
    """The number of updates between two evaluations on the dev set; 0 if the ratio is less than one update.

    With the default ratio, the dev set is evaluated after every update if there are fewer than 50, because a default
    must not lead to an error.
    """
    if ratio == DEFAULT_EVAL_RATIO:
        return max(1, int(ratio * total))
    return int(ratio * total)


def _smallest_ratio(total: int) -> float:
    """The smallest ratio that is at least one update, rounded up to four decimals or, if necessary, more."""
    for digits in range(4, 16):
        ratio: float = math.ceil(10**digits / total) / 10**digits
        if int(ratio * total) == 1:
            return ratio
    return 1 / total


# --- AdamW and its schedule: torch's, or that of transformers 4.5.1, with which the published figures were computed ---


@dataclass(slots=True)
class _AdamState:
    """The running means of a parameter's gradient (m) and squared gradient (v), and the number of updates (t)."""

    mean: torch.Tensor
    square: torch.Tensor
    step: int = 0


class HfAdamW:
    """AdamW as in transformers 4.5.1.

    Unlike in torch, weights decay after the update, and epsilon is added before the bias correction.
    """

    def __init__(self, groups: list[dict[str, Any]], epsilon: float) -> None:
        self.param_groups = groups
        self._epsilon = epsilon
        self._state: dict[int, _AdamState] = {}

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self) -> None:
        """One update of all parameters that have a gradient."""
        with torch.no_grad():
            for group in self.param_groups:
                self._step(group)

    def _step(self, group: dict[str, Any]) -> None:
        """Update the parameters of one group."""
        beta1, beta2 = _BETAS
        parameters: list[torch.Tensor] = []
        gradients: list[torch.Tensor] = []
        means: list[torch.Tensor] = []
        squares: list[torch.Tensor] = []
        step_sizes: list[float] = []
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self._next_state(parameter)
            parameters.append(parameter)
            gradients.append(parameter.grad)
            means.append(state.mean)
            squares.append(state.square)
            correction = math.sqrt(1 - beta2**state.step) / (1 - beta1**state.step)
            step_sizes.append(-group["lr"] * correction)
        if not parameters:
            return
        # m = β1·m + (1 - β1)·g and v = β2·v + (1 - β2)·g², for all tensors of the group in one call each.
        torch._foreach_mul_(means, beta1)
        torch._foreach_add_(means, gradients, alpha=1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
        # θ = θ - lr · sqrt(1 - β2^t) / (1 - β1^t) · m / (sqrt(v) + eps); torch corrects v before it adds eps.
        denominators = torch._foreach_sqrt(squares)
        torch._foreach_add_(denominators, self._epsilon)
        torch._foreach_addcdiv_(parameters, means, denominators, step_sizes)
        # The decay comes after the update; torch's AdamW decays the weights before it.
        if group["weight_decay"]:
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])

    def _next_state(self, parameter: torch.nn.Parameter) -> _AdamState:
        """The state of a parameter, with its step counted up."""
        state = self._state.get(id(parameter))
        if state is None:
            state = _AdamState(torch.zeros_like(parameter), torch.zeros_like(parameter))
            self._state[id(parameter)] = state
        state.step += 1
        return state


def make_optimiser(
    kind: Optimiser,
    trained: Iterable[tuple[str, torch.nn.Parameter, float | None]],
    learning_rate: float,
    weight_decay: float,
    epsilon: float,
) -> Any:
    """An optimiser with one group of parameters for each pair of learning rate and weight decay.

    ``trained`` has (name, parameter, own learning rate or None) of each parameter. The schedule changes the learning
    rate ``lr`` of a group, so the full learning rate is stored as ``full_lr``.
    """
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter, own_rate in trained:
        if own_rate is not None:
            # Parameters with their own learning rate, such as a prompt encoder's, are not decayed in FewNLU.
            key = (own_rate, 0.0)
        elif any(piece in name for piece in _NOT_DECAYED):
            key = (learning_rate, 0.0)
        else:
            key = (learning_rate, weight_decay)
        groups.setdefault(key, []).append(parameter)
    param_groups = []
    for (rate, decay), parameters in groups.items():
        param_groups.append({"params": parameters, "lr": rate, "full_lr": rate, "weight_decay": decay})
    if kind == "hf_adamw":
        return HfAdamW(param_groups, epsilon)
    return torch.optim.AdamW(param_groups, lr=learning_rate, eps=epsilon, fused=True)


def linear(update: int, total: int, warmup: int, *, from_zero: bool = True) -> float:
    """The share of the full learning rate at an update, counted from 0.

    It rises during ``warmup`` updates and then falls to 0. With ``from_zero``, as in transformers, the first update of
    a warm-up has the learning rate 0, so it has no effect.

    >>> [linear(update, total=4, warmup=2) for update in range(5)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    >>> [linear(update, total=4, warmup=1, from_zero=False) for update in range(2)]
    [0.5, 1.0]
    """
    if update >= warmup:
        return max(0.0, (total - update) / max(1, total - warmup))
    if from_zero:
        return update / warmup
    return (update + 1) / (warmup + 1)


def set_rate(optimiser: Any, share: float) -> None:
    """Set the learning rate of every group to this share of its full learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = group["full_lr"] * share


# --- the order of the training examples: FewNLU's sampler, whose seed is separate from all other randomness -----------


def epochs(n: int, seed: int) -> Iterator[list[int]]:
    """Yield one permutation of ``range(n)`` after the other, without end.

    As in FewNLU, Python's generator draws the seed of each epoch, and torch's generator the permutation.
    """
    if n < 1:
        raise ModelError("there are no examples to draw from")
    epoch_seeds = random.Random(seed)
    while True:
        epoch_seed = epoch_seeds.randint(0, _EPOCH_SEEDS)
        generator = torch.Generator().manual_seed(epoch_seed)
        yield torch.randperm(n, generator=generator).tolist()


def batches(n: int, size: int, seed: int) -> Iterator[list[int]]:
    """Yield indices in batches of ``size``, without end. The last batch of an epoch may be smaller."""
    for order in epochs(n, seed):
        for start in range(0, n, size):
            yield order[start : start + size]
