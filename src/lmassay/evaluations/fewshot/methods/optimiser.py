"""AdamW and its schedule: torch's own, or as transformers 4.5.1 had it, with which the published figures were made."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch

Optimiser = Literal["adamw", "hf_adamw"]
# FewNLU looks for these pieces of a parameter's name; RoBERTa's and ALBERT's layer norms of other names are decayed.
_NOT_DECAYED = ("bias", "LayerNorm.weight")
_BETAS = (0.9, 0.999)


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
