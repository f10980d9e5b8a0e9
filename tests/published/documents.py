"""Recorded JSON documents and lmassay's own, compared value by value; and changes that a comparison must notice."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[str, ...]
"""The keys that lead to a value; the places of a list are keys, too."""
Tolerance = Callable[[Path, float], float]
"""How far a number may be from the recorded one, by its path and the recorded number."""

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?")


def exact(path: Path, recorded: float) -> float:
    return 0.0


def differences(recorded: Any, here: Any, tolerance: Tolerance = exact, path: Path = ()) -> Iterator[str]:
    """Where a document of lmassay differs from a recorded one, and how."""
    at = "/".join(path)
    if isinstance(recorded, dict) and isinstance(here, dict):
        for key in recorded.keys() ^ here.keys():
            yield f"{at}: {key} is only {'recorded' if key in recorded else 'in lmassay'}"
        for key in recorded.keys() & here.keys():
            yield from differences(recorded[key], here[key], tolerance, (*path, key))
    elif isinstance(recorded, list) and isinstance(here, list):
        if len(recorded) != len(here):
            yield f"{at}: {len(recorded)} recorded, {len(here)} in lmassay"
            return
        for place, (old, new) in enumerate(zip(recorded, here, strict=True)):
            yield from differences(old, new, tolerance, (*path, str(place)))
    elif _is_number(recorded) and _is_number(here):
        if not abs(recorded - here) <= tolerance(path, recorded):
            yield f"{at}: {recorded!r} recorded, {here!r} in lmassay"
    elif recorded != here:
        yield f"{at}: {recorded!r} recorded, {here!r} in lmassay"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def with_a_number_changed(text: str, most: int) -> Iterator[str]:
    """The text with the first significant digit of one of its numbers changed; ``most`` numbers, evenly spread.

    Later digits may lie beyond the tolerance of a comparison. The parts of a digest count as numbers, too.
    """
    numbers = list(_NUMBER.finditer(text))
    step = max(1.0, (len(numbers) - 1) / (most - 1))
    for place in range(min(most, len(numbers))):
        number = numbers[round(place * step)]
        digit = re.search("[1-9]", number.group()) or re.search("0", number.group())
        assert digit is not None
        at = number.start() + digit.start()
        # 9 becomes 8, so that no number begins with a 0 that JSON does not allow.
        changed = "8" if text[at] == "9" else str(int(text[at]) + 1)
        yield text[:at] + changed + text[at + 1 :]
