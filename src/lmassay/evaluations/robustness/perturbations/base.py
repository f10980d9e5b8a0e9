"""What a perturbation is: a function that turns a sentence into an adversarial one.

    @perturbation("shout")
    def shout(text: str, rng: random.Random, rate: float, *, mark: str = "!") -> str:
        return text.upper() + mark if rng.random() < rate else text

The function gets one line, its own random generator, and the rate in [0, 1]. Keyword-only parameters are its options.
"""

from __future__ import annotations

import inspect
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lmassay.errors import ConfigError, LmassayError, PluginError, error_with_location
from lmassay.evaluations.robustness import DEFAULT_RATE
from lmassay.plugins.options import checked_options
from lmassay.plugins.registry import current_registry, register
from lmassay.storage.provenance import source_digest
from lmassay.types import digest

Function = Callable[..., str]
F = TypeVar("F", bound=Function)

# Everything that str.splitlines splits at.
_LINE_BREAKS = frozenset("\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")


def perturbation(name: str) -> Callable[[F], F]:
    """Decorator: register a function as a perturbation."""
    return register("perturbation", name)


@dataclass(frozen=True, slots=True)
class Perturber:
    """A perturbation with its settings; call it with a line and the line's index.

    >>> make_perturber("charswap", rate=1)("Robust models shrug.", 0)
    'Roubst modles shurg.'
    """

    name: str
    function: Function
    rate: float = DEFAULT_RATE
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    redraws: int = 0
    """How often the perturbation is repeated, with the next seed, for a line that it left unchanged."""

    def __call__(self, text: str, index: int) -> str:
        for draw in range(1 + self.redraws):
            changed = perturb(
                self.function,
                text,
                index=index,
                seed=self.seed + draw,
                rate=self.rate,
                name=self.short_name,
                options=self.options,
            )
            if changed != text:
                return changed
        return text

    @property
    def signature(self) -> str:
        """Everything that the result depends on; a user's own function is identified by the hash of its source.

        >>> make_perturber("keyboard", options={"layout": "azerty"}).signature
        'keyboard(rate:0.3|seed:0|layout:azerty)'
        """
        parts = [f"rate:{self.rate:.12g}", f"seed:{self.seed}"]
        if self.redraws:
            parts.append(f"redraws:{self.redraws}")
        parts += [f"{key}:{self.options[key]}" for key in sorted(self.options)]
        if self.source:
            parts.append(self.source)
        return f"{self.short_name}({'|'.join(parts)})"

    @property
    def source(self) -> str:
        """The hash of the source of a user's own function; empty for the functions of lmassay."""
        if str(getattr(self.function, "__module__", "")).startswith("lmassay."):
            return ""
        return source_digest(self.function)

    @property
    def short_name(self) -> str:
        """The name without the path of a user's file."""
        # The random numbers depend on it, and must not depend on the folder of the file.
        return self.name.rpartition(":")[2]


def make_perturber(
    name: str,
    *,
    rate: float = DEFAULT_RATE,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    base: Path | None = None,
    redraws: int = 0,
    key: str = "",
) -> Perturber:
    """Find a perturbation by name or ``path/file.py:Name``, and check its options and fill in their defaults.

    ``key`` is the key of the options in a configuration, for error messages; by default the name.
    """
    function = current_registry().get("perturbation", name, base)
    if not callable(function):
        raise PluginError(f"'{name}' is not a perturbation: it must be a function (text, rng, rate) -> text")
    checked = checked_options(options_only(name, function), options or {}, base or Path(), key or name)
    return Perturber(name, function, checked_rate(rate), _checked_seed(seed), checked, redraws)


def perturb(
    function: Function,
    text: str,
    *,
    index: int,
    seed: int,
    rate: float,
    name: str,
    options: Mapping[str, Any],
) -> str:
    """Perturb one line. The result depends only on the arguments, not on the order of lines or on other lines."""
    rate = checked_rate(rate)
    rng = random.Random(int(digest(seed, name, index, text), 16))
    try:
        result = function(text, rng, rate, **options)
    except LmassayError:
        raise
    except Exception as error:
        # The reason names a line of the user's file, which must not be confused with the line of the text.
        reason = error_with_location(error)
        raise PluginError(f"the perturbation {name} failed on line {index + 1} of the text: {reason}") from error
    if not isinstance(result, str):
        raise PluginError(f"the perturbation {name} returned {result!r} for line {index + 1}; it must return a str")
    if _line_breaks(result) - _line_breaks(text):
        raise PluginError(f"the perturbation {name} put a line break into line {index + 1}; it must return one line")
    return result


def checked_rate(rate: float) -> float:
    """The rate as a float, if it is a number in [0, 1]."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise ConfigError(f"rate must be a number from 0 to 1, not {rate!r}")
    return float(rate)


def one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise a ConfigError for a value of an option that is not one of the allowed ones."""
    if value not in allowed:
        raise ConfigError(f"{key} must be one of {', '.join(allowed)}, not {value!r}")


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ConfigError(f"seed must be a whole number, not {seed!r}")
    return seed


def _line_breaks(text: str) -> Counter[str]:
    return Counter(character for character in text if character in _LINE_BREAKS)


def _parameters(name: str, function: Function) -> list[inspect.Parameter]:
    """The parameters of a perturbation, checked to begin with (text, rng, rate)."""
    try:
        signature = inspect.signature(function)
        positional = [p for p in signature.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        signature.replace(parameters=positional).bind("", None, 0.0)
    except (TypeError, ValueError) as error:
        raise PluginError(f"the perturbation {name} must take (text, rng, rate): {error}") from error
    return list(signature.parameters.values())


def options_only(name: str, function: Function) -> Callable[..., None]:
    """A function whose parameters are the options of a perturbation: without the text, ``rng`` and the rate.

    It is for functions that read options from parameters, such as ``checked_options``. The parameters of the
    perturbation are checked to begin with (text, rng, rate).
    """
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    options = [p for p in _parameters(name, function) if p.kind in kinds]

    def stand_in(**_: Any) -> None: ...

    stand_in.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    stand_in.__annotations__ = {p.name: p.annotation for p in options if p.annotation is not p.empty}
    # With ``from __future__ import annotations``, hints are strings. Their names are looked up in the module
    # of the function that ``__wrapped__`` refers to.
    stand_in.__wrapped__ = function  # type: ignore[attr-defined]
    return stand_in
