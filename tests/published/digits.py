"""Changes of a single digit, to see that a comparison with recorded outputs notices them."""

from __future__ import annotations

import re
from collections.abc import Iterator


def with_one_digit_changed(text: str, most: int | None = None) -> Iterator[str]:
    """The text with one of its digits changed: each digit in turn, or at most ``most``, evenly spread."""
    places = [match.start() for match in re.finditer("[0-9]", text)]
    if most is not None and len(places) > most:
        step = (len(places) - 1) / (most - 1)
        places = [places[round(number * step)] for number in range(most)]
    for place in places:
        # 9 becomes 8, so that no number begins with a 0 that JSON does not allow.
        changed = "8" if text[place] == "9" else str(int(text[place]) + 1)
        yield text[:place] + changed + text[place + 1 :]
