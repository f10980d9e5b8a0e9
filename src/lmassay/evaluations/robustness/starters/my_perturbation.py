"""Your own perturbation: leetspeak.

    lmassay perturb my_perturbation.py:leet --in FILE --out FILE --rate 0.2 --set signs=a4e3o0
    lmassay run my_perturbation.yaml

Here ``rate`` is the share of letters to replace; what it means is up to you. All randomness must come from ``rng``, so
that the same seed always gives the same text.
"""

from __future__ import annotations

import random

from lmassay import perturbation


@perturbation("leet")
def leet(text: str, rng: random.Random, rate: float, *, signs: str = "a4e3i1o0s5t7") -> str:
    """Replace letters with digits that look like them."""
    table = dict(zip(signs[::2], signs[1::2], strict=True))
    letters = []
    for letter in text:
        digit = table.get(letter.lower())
        # Only letters that have a digit draw a random number.
        letters.append(digit if digit is not None and rng.random() < rate else letter)
    return "".join(letters)
