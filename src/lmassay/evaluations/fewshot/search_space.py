"""What a configuration leaves open for a search: lists of choices and ranges of numbers, drawn from trial by trial."""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from lmassay.errors import ConfigError, PluginError
from lmassay.plugins.options import inner_model, nested_kind, options_model
from lmassay.plugins.registry import current_registry
from lmassay.running.config import ConfigFile, RunConfig, expand, takes_list

# A search compares dev scores: only what leaves the question the same may be searched over.
SEARCHED = ("task.method", "task.regime", "model")
MOST_CHECKED = 2000
_KEYS = {"low", "high", "log", "step"}


class OptionSampler(Protocol):
    """Decides what a configuration leaves open; ``name`` is the key that is asked about."""

    def choice(self, name: str, many: int) -> int:
        """Which of so many values."""

    def number(self, name: str, between: Range) -> float:
        """A number of the range."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; whole ones where the option takes no others."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    whole: bool = False

    def values(self, name: str) -> list[float]:
        """All of them, for a grid."""
        step = 1 if self.whole and self.step is None else self.step
        if step is None or self.log:
            raise ConfigError(f"{name}: a grid needs a step (without log), or a list instead of the range")
        many = math.floor((self.high - self.low) / step + 1e-9) + 1
        # Counted up from the beginning: 0.1 added three times is not 0.3.
        found = [self.low + place * step for place in range(many)]
        return [int(value) for value in found] if self.whole else [float(f"{value:.12g}") for value in found]


@dataclass(frozen=True, slots=True)
class Space:
    """A configuration with choices and ranges in it."""

    file: ConfigFile

    @property
    def base(self) -> Path:
        return self.file.path.resolve().parent

    def drawn(self, chooser: OptionSampler) -> RunConfig:
        """One run, everything that is open decided by the chooser."""
        data = {key: self._part(key, value, chooser) for key, value in self.file.data.items()}
        return expand(data, self.base, self.file.locate, self.file.path.stem)[0]

    def grid(self) -> list[RunConfig]:
        """Every combination."""
        return expand(self._spread(Range.values), self.base, self.file.locate, self.file.path.stem)

    def checked(self) -> RunConfig:
        """The first of all runs. What can be wrong with the values that are searched is told."""
        noted = _FirstValues()
        first = self.drawn(noted)
        if not noted.asked:
            raise ConfigError(f"{self.file.path}: there is nothing to search: no list and no range among its options")
        ends = self._spread(lambda between, name: [between.low, between.high])
        if _size(ends) <= MOST_CHECKED:
            # Ranges by their ends: what fits both fits all between.
            expand(ends, self.base, self.file.locate, self.file.path.stem)
        return first

    # --- inside -------------------------------------------------------------------------------------------------------

    def _spread(self, values: typing.Callable[[Range, str], Sequence[float]]) -> dict[str, Any]:
        """The configuration with lists in place of its ranges."""
        spreader = _GridLists(values)
        return {key: self._part(key, value, spreader) for key, value in self.file.data.items()}

    def _part(self, key: str, value: Any, chooser: OptionSampler) -> Any:
        try:
            if key in ("task", "model"):
                return _spec(key, value, key, key, self.base, chooser)
        except (ConfigError, PluginError) as error:
            raise type(error)(self.file.locate(str(error))) from error
        if isinstance(value, list):
            raise ConfigError(self.file.locate(_not_searched(key)))
        return value


@dataclass(slots=True)
class _FirstValues:
    """Takes the first of everything and counts what it was asked."""

    asked: int = 0

    def choice(self, name: str, many: int) -> int:
        self.asked += many > 1
        return 0

    def number(self, name: str, between: Range) -> float:
        self.asked += 1
        return between.low


@dataclass(frozen=True, slots=True)
class _GridLists:
    """Leaves choices as the lists they are, and writes ranges as lists."""

    values: typing.Callable[[Range, str], Sequence[float]]

    def choice(self, name: str, many: int) -> int:
        raise AssertionError("lists are kept")

    def number(self, name: str, between: Range) -> float:
        raise AssertionError("ranges become lists")


def _spec(kind: str, value: Any, key: str, name: str, base: Path, chooser: OptionSampler) -> Any:
    """A plug-in with its options. ``key`` is where it stands in the file, ``name`` tells also which entry of a list."""
    if isinstance(value, list):
        return _of_list(value, key, name, chooser, lambda item, inner: _spec(kind, item, key, inner, base, chooser))
    if isinstance(value, dict) and isinstance(value.get("name"), list):
        named = [{**value, "name": each} for each in value["name"]]
        return _spec(kind, named, key, name, base, chooser)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return value  # a bare name; what is neither is told when the run is checked
    try:
        model = options_model(current_registry().get(kind, value["name"], base))
    except PluginError as error:
        raise PluginError(f"{key}.name: {error}") from error
    return _options(value, model, key, name, base, chooser)


def _options(
    values: Mapping[str, Any], model: type[BaseModel], key: str, name: str, base: Path, chooser: OptionSampler
) -> dict[str, Any]:
    decided = {}
    for option, value in values.items():
        field = model.model_fields.get(option)
        known = field is not None and option != "name"
        inner = (f"{key}.{option}", f"{name}.{option}")
        decided[option] = _option(value, field, *inner, base, chooser) if known else value
    return decided


def _option(value: Any, field: Any, key: str, name: str, base: Path, chooser: OptionSampler) -> Any:
    plug_in = nested_kind(field)
    if plug_in is not None:
        return _spec(plug_in, value, key, name, base, chooser)
    if isinstance(value, list) and not takes_list(field.annotation):
        return _of_list(value, key, name, chooser, lambda item, inner: _option(item, field, key, inner, base, chooser))
    model = inner_model(field.annotation)
    if isinstance(value, dict) and model is not None:
        return _options(value, model, key, name, base, chooser)
    if isinstance(value, dict) and value.keys() & {"low", "high"} and not takes_mapping(field.annotation):
        between = read_range(value, field.annotation, key)
        _check_searched(key)
        return list(chooser.values(between, key)) if isinstance(chooser, _GridLists) else chooser.number(name, between)
    return value


def _of_list(
    values: list[Any], key: str, name: str, chooser: OptionSampler, inside: typing.Callable[[Any, str], Any]
) -> Any:
    if not values:
        raise ConfigError(f"{key}: the list is empty; give at least one value")
    if len(values) > 1:
        _check_searched(key)
    if isinstance(chooser, _GridLists):
        found = [inside(value, name) for value in values]
        # A range among the entries has become a list of its own.
        return [item for value in found for item in (value if isinstance(value, list) else [value])]
    place = chooser.choice(name, len(values))
    # Options of different entries are different questions.
    return inside(values[place], f"{name}[{place}]" if isinstance(values[place], dict) else name)


def read_range(value: Mapping[str, Any], annotation: Any, key: str) -> Range:
    """``{low: 1e-6, high: 1e-4, log: true}`` or ``{low: 100, high: 500, step: 50}``."""
    kinds = number_kinds(annotation)
    if not kinds:
        raise ConfigError(f"{key}: a range is for an option that takes a number; write a list of values")
    unknown = sorted(map(str, value.keys() - _KEYS))
    if unknown or not {"low", "high"} <= value.keys():
        what = f"'{unknown[0]}' is unknown" if unknown else "low and high are both needed"
        raise ConfigError(f"{key}: {what}; a range is {{low: …, high: …}}, with log: true or step: … if you like")
    whole = float not in kinds
    low, high, step = (_number(value.get(part), f"{key}.{part}", whole) for part in ("low", "high", "step"))
    log = value.get("log", False)
    assert low is not None
    assert high is not None
    if not isinstance(log, bool):
        raise ConfigError(f"{key}.log: must be true or false (got {log!r})")
    if not low < high:
        raise ConfigError(f"{key}: low must be less than high (got {value['low']} and {value['high']})")
    if step is not None and not 0 < step <= high - low:
        raise ConfigError(f"{key}.step: must be above 0 and fit between low and high (got {value['step']})")
    if log and (low <= 0 or step is not None):
        raise ConfigError(f"{key}.log: needs a low above 0 and no step")
    return Range(low, high, log, step, whole)


def number_kinds(annotation: Any) -> set[type]:
    """Which of int and float an option takes.

    >>> number_kinds(int | None), number_kinds(str)
    ({<class 'int'>}, set())
    """
    if annotation is Any:
        return {int, float}
    if annotation in (int, float):
        return {annotation}
    return {kind for part in typing.get_args(annotation) if part is not annotation for kind in number_kinds(part)}


def takes_mapping(annotation: Any) -> bool:
    """Whether a mapping may be the value itself."""
    kind = typing.get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return True
    return any(takes_mapping(part) for part in typing.get_args(annotation))


def _number(value: Any, key: str, whole: bool) -> float | None:
    if value is None and key.endswith(".step"):
        return None
    if isinstance(value, str):
        # YAML reads 1e-5 as text: it wants 1.0e-5.
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"{key}: must be a number (got {value!r})")
    if whole and value != int(value):
        raise ConfigError(f"{key}: this option takes whole numbers (got {value!r})")
    return int(value) if whole else float(value)


def _check_searched(key: str) -> None:
    if not any(key == part or key.startswith(f"{part}.") for part in SEARCHED):
        raise ConfigError(_not_searched(key))


def _not_searched(key: str) -> str:
    what = key.rpartition(".")[2]
    return (
        f"{key}: dev scores of different {what} cannot be compared, so a search takes one value here; for several, "
        "use lmassay run"
    )


def _size(data: Any) -> int:
    """How many combinations there are at most."""
    if isinstance(data, list):
        return sum(map(_size, data)) or 1
    return math.prod(map(_size, data.values())) if isinstance(data, dict) else 1
