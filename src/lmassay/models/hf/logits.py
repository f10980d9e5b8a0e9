"""From logits over the vocabulary to what a Slot asks: no vocabulary-sized array leaves this file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import FatalModelError
from lmassay.types import Candidates

Floats = NDArray[np.float64]
# The logarithm of a probability that a model computes as zero: finite, so that it can be stored and compared.
LEAST = -1e9
NO_NUMBERS = "the model computes no finite numbers (NaN or infinity); try dtype: float32, or check its weights"


def candidate_columns(
    logits: NDArray[np.float32], probabilities: NDArray[np.float32] | None, ids: NDArray[np.int64]
) -> Candidates:
    """Log-probability of the tokens ``ids`` (-1: no token) at one position; with ``probabilities`` rank and masses.

    The vocabulary is ordered by float32 probability, as the published system does; equals have one rank.
    """
    known = ids >= 0
    tokens = ids[known]
    top = finite_top(logits)
    total = np.exp(logits - top).sum(dtype=np.float64)
    logprobs = _spread(np.maximum(logits[tokens].astype(np.float64) - (top + np.log(total)), LEAST), known)
    if probabilities is None:
        return Candidates(logprobs)
    wanted = probabilities[tokens]
    ascending = np.sort(probabilities)
    # Sums in double precision: the mass below a rare word is far smaller than a float32 sum could tell.
    up_to = np.concatenate(([0.0], np.cumsum(ascending, dtype=np.float64)))
    first, end = np.empty(len(wanted), dtype=np.int64), np.empty(len(wanted), dtype=np.int64)
    # Sorted questions find their places several times faster.
    order = np.argsort(wanted)
    first[order] = np.searchsorted(ascending, wanted[order], side="left")
    end[order] = np.searchsorted(ascending, wanted[order], side="right")
    above, below = np.maximum(1 - up_to[end] / up_to[-1], 0.0), up_to[first] / up_to[-1]
    ranks = (len(logits) - end).astype(np.float64)
    return Candidates(logprobs, *(_spread(column, known) for column in (ranks, above, below)))


def _spread(values: Floats, known: NDArray[np.bool_]) -> Floats:
    column = np.full(len(known), np.nan)
    column[known] = values
    return column


def log_probability(logits: NDArray[np.float32], token: int) -> float:
    """The natural logarithm of one token's probability."""
    top = finite_top(logits)
    return max(float(logits[token]) - top - float(np.log(np.exp(logits - top).sum(dtype=np.float64))), LEAST)


def finite_top(logits: NDArray[np.float32]) -> float:
    """The largest logit; a model that computes no numbers is told at once."""
    top = float(logits.max())
    if not np.isfinite(top):
        raise FatalModelError(NO_NUMBERS)
    return top
