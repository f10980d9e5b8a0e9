"""How numbers look to a reader."""

from __future__ import annotations

from lmassay.types import Result


def number_text(value: float | None, digits: int = 4) -> str:
    return "no data" if value is None else f"{value:z.{digits}f}"


def value_text(result: Result, digits: int = 4) -> str:
    """The value, or that there is none and on how many it would rest."""
    return f"no data (n = {result.n})" if result.value is None else number_text(result.value, digits)


def interval_text(result: Result, digits: int = 4) -> str:
    if result.low is None or result.high is None:
        return "n/a"
    return f"[{number_text(result.low, digits)}, {number_text(result.high, digits)}]"


def short_text(result: Result, between: str = " ") -> str:
    """Value and interval in one cell, three digits."""
    if result.value is None:
        return value_text(result)
    if result.low is None or result.high is None:
        return f"{result.value:z.3f}"
    return f"{result.value:z.3f}{between}[{result.low:z.3f}, {result.high:z.3f}]"


def p_text(p: float | None) -> str:
    """A p-value; never 0, for a test by resampling cannot say so."""
    if p is None:
        return "n/a"
    return "< 0.0001" if p < 0.0001 else f"{p:.4f}"
