"""Columns of numbers with their names, printed as pandas prints a Series: KoBBQ's programs show their results so."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

_DIGITS = 6
_LARGE = 1e6
_FIXED = re.compile(r"\s*[+-]?[0-9]+\.[0-9]*")
_GAP = 3


def count_series(counts: Mapping[str, int]) -> str:
    """Whole numbers.

    >>> count_series({"sample_id": 0, "bbq_id": 2856}).splitlines()
    ['sample_id       0', 'bbq_id       2856', 'dtype: int64']
    """
    return _series(list(counts), [f"{count: d}" for count in counts.values()], "int64")


def float_series(values: Mapping[str, float]) -> str:
    """Numbers with six decimals, fewer if all end in zeros, in powers of ten if one would come out as nought.

    >>> float_series({"accuracy": 0.5, "diff-bias": -0.25}).splitlines()
    ['accuracy     0.50', 'diff-bias   -0.25', 'dtype: float64']
    """
    numbers = list(values.values())
    texts = _without_common_zeros([f"{number: .{_DIGITS}f}" for number in numbers])
    small = any(0 < abs(number) < 10**-_DIGITS for number in numbers)
    too_long = max(map(len, texts), default=0) > _DIGITS + 6 and any(abs(number) > _LARGE for number in numbers)
    if small or too_long:
        texts = [f"{number: .{_DIGITS}e}" for number in numbers]
    shown = ["NaN" if math.isnan(number) else text for number, text in zip(numbers, texts, strict=True)]
    return _series(list(values), shown, "float64")


def _without_common_zeros(texts: Sequence[str]) -> Sequence[str]:
    fixed = [text for text in texts if _FIXED.fullmatch(text)]
    spare = min((len(text) - len(text.rstrip("0")) for text in fixed), default=0)
    # One decimal stays in any case.
    spare = min(spare, _DIGITS - 1)
    return [text[: len(text) - spare] if _FIXED.fullmatch(text) else text for text in texts]


def _series(names: Sequence[str], texts: Sequence[str], kind: str) -> str:
    left, right = max(map(len, names)), max(map(len, texts))
    rows = [f"{name:<{left}}{'':{_GAP}}{text:>{right}}" for name, text in zip(names, texts, strict=True)]
    return "\n".join([*rows, f"dtype: {kind}"])
