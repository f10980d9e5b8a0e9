"""Your own perturbation: leetspeak.

    lmassay perturb my_perturbation.py:leet --in FILE --out FILE --rate 0.2 --set signs=a4e3o0
    lmassay run my_perturbation.yaml

Here ``rate`` is the probability that a letter with a similar digit is replaced; what it means is up to you. All
randomness must come from ``rng``, so that the same seed always gives the same text.
"""

from __future__ import annotations

import random

from lmassay import perturbation


@perturbation("leet")
def leet(text: str, rng: random.Random, rate: float, *, signs: str = "a4e3i1o0s5t7") -> str:
    """Replace letters with digits that look like them; ``signs`` has each letter followed by its digit."""
    digits = dict(zip(signs[::2], signs[1::2], strict=True))
    letters = []
    for letter in text:
        digit = digits.get(letter.lower())
        if digit is not None and rng.random() < rate:
            letters.append(digit)
        else:
            letters.append(letter)
    return "".join(letters)
