"""From logits over the vocabulary to what a Slot asks: no vocabulary-sized array leaves this file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmassay.types import Candidates

Floats = NDArray[np.float64]


def candidate_columns(
    logits: NDArray[np.float32], probabilities: NDArray[np.float32] | None, ids: NDArray[np.int64]
) -> Candidates:
    """Log-probability of the tokens ``ids`` (-1: no token) at one position; with ``probabilities`` rank and masses.

    The vocabulary is ordered by float32 probability, as the published system does; equals have one rank.
    """
    known = ids >= 0
    tokens = ids[known]
    top = logits.max()
    total = np.exp(logits - top).sum(dtype=np.float64)
    logprobs = _spread(logits[tokens].astype(np.float64) - (float(top) + np.log(total)), known)
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
    top = logits.max()
    return float(logits[token] - top) - float(np.log(np.exp(logits - top).sum(dtype=np.float64)))
