"""A grid of hyper-parameters as a list of configurations."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Configuration:
    """A name that tells it from the others of its grid, and its parameters."""

    name: str
    params: Mapping[str, Any]


def configurations(grid: Mapping[str, Any]) -> list[Configuration]:
    """All combinations of the values of a grid, the last key turning fastest; a single value stands for itself.

    Keys joined by a comma turn together: ``{"learning_rate, embedding_learning_rate": [[5e-6, 1e-5], [1e-5, 1e-4]]}``.

    >>> [c.name for c in configurations({"learning_rate": [1e-5, 2e-5], "max_steps": 250})]
    ['learning_rate=1e-05', 'learning_rate=2e-05']
    """
    axes = [_axis(key, values) for key, values in grid.items()]
    names = [name for axis in axes for name in axis[0]]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"the grid has '{twice[0]}' twice: keep one of its keys")
    turning = {name for axis in axes if len(axis) > 1 for name in axis[0]}
    found = []
    for steps in itertools.product(*axes):
        params = {name: value for step in steps for name, value in step.items()}
        told = [f"{name}={_plain(value)}" for name, value in params.items() if name in turning]
        found.append(Configuration(", ".join(told) or "the only one", params))
    return found


def _axis(key: str, values: Any) -> list[dict[str, Any]]:
    """What one key of the grid turns through: a mapping a step."""
    names = [name.strip() for name in key.split(",")]
    if not all(names):
        raise ConfigError(f"the grid's key '{key}' lacks a name beside its comma")
    steps = list(values) if _is_list(values) else [values]
    if not steps:
        raise ConfigError(f"the grid's '{key}' has no value: give at least one or leave the key out")
    axis = list(_steps(key, names, steps))
    plain = [json.dumps(step, sort_keys=True, default=str) for step in axis]
    for place, step in enumerate(plain):
        if step in plain[:place]:
            raise ConfigError(f"the grid's '{key}' has {_plain(steps[place])} twice: the trainings would be the same")
    return axis


def _steps(key: str, names: Sequence[str], steps: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for step in steps:
        if len(names) == 1:
            yield {names[0]: step}
        elif _is_list(step) and len(step) == len(names):
            yield dict(zip(names, step, strict=True))
        else:
            raise ConfigError(f"the grid's '{key}' turns {len(names)} keys together: {step!r} must list as many values")


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
