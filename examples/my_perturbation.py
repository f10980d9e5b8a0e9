"""A perturbation of your own: leetspeak.

    lmassay perturb examples/my_perturbation.py:leet --in FILE --out FILE --rate 0.2 --set signs=a4e3o0
    lmassay run examples/my_perturbation.yaml

``rate`` is the share of letters to replace here; what it means is up to you. All randomness must come from ``rng``:
then the same seed gives the same text again.
"""

from __future__ import annotations

import random

from lmassay import perturbation


@perturbation("leet")
def leet(text: str, rng: random.Random, rate: float, *, signs: str = "a4e3i1o0s5t7") -> str:
    """Write letters as digits that look like them."""
    table = dict(zip(signs[::2], signs[1::2], strict=True))
    return "".join(table[c.lower()] if c.lower() in table and rng.random() < rate else c for c in text)
