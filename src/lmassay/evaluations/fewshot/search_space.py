"""The search space of a configuration: lists of choices and ranges of numbers, from which each trial takes values."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from lmassay.errors import ConfigError, PluginError
from lmassay.plugins.options import inner_model, nested_kind, options_model
from lmassay.plugins.registry import current_registry
from lmassay.running.config import ConfigFile, RunConfig, base_folder, expand, takes_list

# Only options below these keys may be searched: a search compares dev scores, so data and splits must stay the same.
SEARCHED = ("task.method", "task.regime", "model")
MAX_CHECKED = 2000
"""If a space has more combinations than this, they are not all checked before the search."""
_RANGE_KEYS = {"low", "high", "log", "step"}


class OptionSampler(Protocol):
    """Chooses a value for each list and range of a configuration. ``name`` is the key of the list or range."""

    def choice(self, name: str, count: int) -> int:
        """Choose one of ``count`` values; returns its index."""

    def number(self, name: str, number_range: Range) -> float:
        """Choose a number of the range."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``, both included."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False
    """Whether the range has whole numbers only, because the option takes no others."""

    def values(self, name: str) -> list[float]:
        """All numbers of the range, for a grid; a ConfigError if they cannot be counted because there is no step."""
        step = self.step
        if step is None and self.whole:
            step = 1
        if step is None or self.log:
            raise ConfigError(f"{name}: a grid needs a step (without log), or a list instead of the range")
        count = math.floor((self.high - self.low) / step + 1e-9) + 1
        values: list[float] = []
        for number in range(count):
            # The step is multiplied and the value rounded, because with floats 0.1 added three times is not 0.3.
            value = self.low + number * step
            values.append(int(value) if self.whole else float(f"{value:.12g}"))
        return values


@dataclass(frozen=True, slots=True)
class Space:
    """A configuration that contains lists of choices and ranges."""

    file: ConfigFile

    @property
    def folder(self) -> Path:
        """The folder of the configuration. Relative paths start there, unless it has a ``base_dir``."""
        return self.file.path.resolve().parent

    def drawn(self, sampler: OptionSampler) -> RunConfig:
        """One run, with the values that the sampler chooses."""
        return self._runs(self._decided(sampler))[0]

    def grid(self) -> list[RunConfig]:
        """One run for every combination of values."""
        return self._runs(self._decided(_GridLists(Range.values)))

    def checked(self) -> RunConfig:
        """Check the values that are searched, and return the first of all runs; a ConfigError if one is not valid."""
        first_values = _FirstValues()
        first = self.drawn(first_values)
        if not first_values.n_decisions:
            raise ConfigError(f"{self.file.path}: there is nothing to search: no list and no range among its options")
        # Only both ends of a range are checked: if they are valid, so is everything between them.
        ends = self._decided(_GridLists(lambda number_range, name: [number_range.low, number_range.high]))
        # In a larger space only the first run is checked now; mistakes in others are reported when they are tried.
        if _count_combinations(ends) <= MAX_CHECKED:
            self._runs(ends)
        return first

    def _runs(self, data: dict[str, Any]) -> list[RunConfig]:
        return expand(data, self.folder, self.file.locate, self.file.path.stem)

    def _decided(self, sampler: OptionSampler | _GridLists) -> dict[str, Any]:
        """The configuration with a chosen value for each list and range. ``_GridLists`` keeps lists instead."""
        decided = {}
        for key, value in self.file.data.items():
            if key in ("task", "model"):
                try:
                    base = base_folder(self.file.data.get("base_dir"), self.folder)
                    decided[key] = _Decider(base, sampler).plugin(key, value, key, key)
                except (ConfigError, PluginError) as error:
                    raise type(error)(self.file.locate(str(error))) from error
            elif isinstance(value, list):
                raise ConfigError(self.file.locate(_not_searched(key)))
            else:
                decided[key] = value
        return decided


@dataclass(slots=True)
class _FirstValues:
    """A sampler that takes the first value of everything, and counts how many lists and ranges there are."""

    n_decisions: int = 0

    def choice(self, name: str, count: int) -> int:
        if count > 1:
            self.n_decisions += 1
        return 0

    def number(self, name: str, number_range: Range) -> float:
        self.n_decisions += 1
        return number_range.low


@dataclass(frozen=True, slots=True)
class _GridLists:
    """Given in place of a sampler if no values should be chosen: lists of choices are kept, and ranges become lists."""

    values: Callable[[Range, str], Sequence[float]]
    """Returns the numbers that replace a range; its second parameter is the key of the range."""


@dataclass(frozen=True, slots=True)
class _Decider:
    """Walks through the options of a plug-in and lets the sampler choose a value for each list and range.

    In all methods ``key`` is the key in the file, such as ``task.method.learning_rate``. ``name`` also says which entry
    of a list it belongs to: ``task.method[0].learning_rate``. The sampler gets the name, because the options of
    different entries are chosen independently.
    """

    base: Path
    sampler: OptionSampler | _GridLists

    def plugin(self, kind: str, value: Any, key: str, name: str) -> Any:
        """A plug-in with its options, or a list of plug-ins to choose from."""
        if isinstance(value, list):
            return self._from_list(value, key, name, lambda entry, inner: self.plugin(kind, entry, key, inner))
        if isinstance(value, dict) and isinstance(value.get("name"), list):
            # A list of names is short for a list of plug-ins with the same options.
            plugins = [{**value, "name": plugin_name} for plugin_name in value["name"]]
            return self.plugin(kind, plugins, key, name)
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            # This is a name without options. Any other value is not valid, which is reported when the run is checked.
            return value
        try:
            model = options_model(current_registry().get(kind, value["name"], self.base))
        except PluginError as error:
            raise PluginError(f"{key}.name: {error}") from error
        return self._options(value, model, key, name)

    def _options(self, values: Mapping[str, Any], model: type[BaseModel], key: str, name: str) -> dict[str, Any]:
        """All options of a plug-in or of a group of options; ``model`` describes them."""
        decided = {}
        for option, value in values.items():
            field = model.model_fields.get(option)
            if field is None or option == "name":
                decided[option] = value
            else:
                decided[option] = self._option(value, field, f"{key}.{option}", f"{name}.{option}")
        return decided

    def _option(self, value: Any, field: Any, key: str, name: str) -> Any:
        """The chosen value of an option: a plug-in, a list of choices, a group of options, a range or a plain value."""
        plugin_kind = nested_kind(field)
        if plugin_kind is not None:
            return self.plugin(plugin_kind, value, key, name)
        if isinstance(value, list) and not takes_list(field.annotation):
            return self._from_list(value, key, name, lambda entry, inner: self._option(entry, field, key, inner))
        if not isinstance(value, dict):
            return value
        model = inner_model(field.annotation)
        if model is not None:
            return self._options(value, model, key, name)
        if value.keys() & {"low", "high"} and not takes_mapping(field.annotation):
            number_range = read_range(value, field.annotation, key)
            _check_searched(key)
            if isinstance(self.sampler, _GridLists):
                return list(self.sampler.values(number_range, key))
            return self.sampler.number(name, number_range)
        return value

    def _from_list(self, values: list[Any], key: str, name: str, decide: Callable[[Any, str], Any]) -> Any:
        """One value of a list of choices; with ``_GridLists``, the whole list.

        ``decide`` chooses the values inside an entry, which may itself have lists and ranges.
        """
        if not values:
            raise ConfigError(f"{key}: the list is empty; give at least one value")
        if len(values) > 1:
            _check_searched(key)
        if isinstance(self.sampler, _GridLists):
            decided: list[Any] = []
            for value in values:
                entry = decide(value, name)
                if isinstance(entry, list):
                    # A range among the entries has become a list.
                    decided += entry
                else:
                    decided.append(entry)
            return decided
        index = self.sampler.choice(name, len(values))
        entry_name = f"{name}[{index}]" if isinstance(values[index], dict) else name
        return decide(values[index], entry_name)


def read_range(value: Mapping[str, Any], annotation: Any, key: str) -> Range:
    """Read ``{low: 1e-6, high: 1e-4, log: true}`` or ``{low: 100, high: 500, step: 50}``."""
    kinds = number_kinds(annotation)
    if not kinds:
        raise ConfigError(f"{key}: this option does not take a number, so it has no range; write a list of values")
    unknown = sorted(map(str, value.keys() - _RANGE_KEYS))
    if unknown or not {"low", "high"} <= value.keys():
        problem = f"'{unknown[0]}' is unknown" if unknown else "low and high are both needed"
        raise ConfigError(f"{key}: {problem}; a range is {{low: …, high: …}}, optionally with log: true or step: …")
    is_whole = float not in kinds
    low = _number(value["low"], f"{key}.low", is_whole)
    high = _number(value["high"], f"{key}.high", is_whole)
    step = None
    if value.get("step") is not None:
        step = _number(value["step"], f"{key}.step", is_whole)
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError(f"{key}.log: must be true or false (got {log!r})")
    if not low < high:
        raise ConfigError(f"{key}: low must be less than high (got {value['low']} and {value['high']})")
    if step is not None and not 0 < step <= high - low:
        raise ConfigError(f"{key}.step: must be above 0 and fit between low and high (got {value['step']})")
    if log and (low <= 0 or step is not None):
        raise ConfigError(f"{key}.log: needs a low above 0 and no step")
    return Range(low, high, log, step, is_whole)


def number_kinds(annotation: Any) -> set[type]:
    """Which of int and float an option takes.

    >>> number_kinds(int | None), number_kinds(str)
    ({<class 'int'>}, set())
    """
    if annotation is Any:
        return {int, float}
    if annotation in (int, float):
        return {annotation}
    kinds: set[type] = set()
    for part in typing.get_args(annotation):
        if part is not annotation:
            kinds |= number_kinds(part)
    return kinds


def takes_mapping(annotation: Any) -> bool:
    """Whether the option takes a mapping as its value, so that ``{low: …, high: …}`` need not be a range."""
    kind = typing.get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return True
    return any(takes_mapping(part) for part in typing.get_args(annotation))


def _number(value: Any, key: str, is_whole: bool) -> float:
    """A number of a range; a ConfigError if it is not one, or not a whole number where ``is_whole`` demands it."""
    if isinstance(value, str):
        # YAML 1.1 reads 1e-5 as text; only 1.0e-5 is a number there.
        with suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise ConfigError(f"{key}: must be a number (got {value!r})")
    if is_whole and value != int(value):
        raise ConfigError(f"{key}: this option takes whole numbers (got {value!r})")
    return int(value) if is_whole else float(value)


def _check_searched(key: str) -> None:
    if not any(key == part or key.startswith(f"{part}.") for part in SEARCHED):
        raise ConfigError(_not_searched(key))


def _not_searched(key: str) -> str:
    option = key.rpartition(".")[2]
    return (
        f"{key}: dev scores with different {option} cannot be compared, so a search takes one value here; use lmassay "
        "run for several"
    )


def _count_combinations(data: Any) -> int:
    """An upper bound for the number of runs that a configuration with lists leads to."""
    if isinstance(data, list):
        return sum(map(_count_combinations, data)) or 1
    if isinstance(data, dict):
        return math.prod(map(_count_combinations, data.values()))
    return 1
