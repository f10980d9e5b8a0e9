"""Log-probabilities and ranks of tokens, from logits over the vocabulary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lmassay.errors import FatalModelError
from lmassay.types import Candidates

Floats = NDArray[np.float64]

MIN_LOGPROB = -1e9
"""The logarithm of a probability that a model computes as zero: finite, so that it can be stored and compared."""

NOT_FINITE = "the model computes NaN or infinity; try dtype: float32, or check its weights"


def candidate_columns(
    logits: NDArray[np.float32], probabilities: NDArray[np.float32] | None, ids: NDArray[np.int64]
) -> Candidates:
    """The log-probability of each candidate at one position, from the logits over the vocabulary.

    ``ids`` are the candidates' tokens; -1 stands for a candidate that is not a single token. With ``probabilities``,
    also the rank of each token (from 0) and the probability mass above and below it. The vocabulary is ordered by
    float32 probability, as in refining-tse (the program of Newman et al. 2021); equal probabilities share a rank.
    """
    is_token = ids >= 0
    tokens = ids[is_token]
    # log softmax, with the largest logit subtracted so that exp cannot overflow.
    top = finite_top(logits)
    total = np.exp(logits - top).sum(dtype=np.float64)
    log_total = top + np.log(total)
    logprobs = np.maximum(logits[tokens].astype(np.float64) - log_total, MIN_LOGPROB)
    if probabilities is None:
        return Candidates(_spread(logprobs, is_token))
    token_probabilities = probabilities[tokens]
    ascending = np.sort(probabilities)
    # Sums in double precision: the mass below a rare word is far smaller than a float32 sum could resolve.
    mass_up_to = np.concatenate(([0.0], np.cumsum(ascending, dtype=np.float64)))
    first = np.empty(len(token_probabilities), dtype=np.int64)
    end = np.empty(len(token_probabilities), dtype=np.int64)
    # searchsorted is several times faster when its queries are sorted.
    order = np.argsort(token_probabilities)
    first[order] = np.searchsorted(ascending, token_probabilities[order], side="left")
    end[order] = np.searchsorted(ascending, token_probabilities[order], side="right")
    ranks = (len(logits) - end).astype(np.float64)
    mass_above = np.maximum(1 - mass_up_to[end] / mass_up_to[-1], 0.0)
    mass_below = mass_up_to[first] / mass_up_to[-1]
    return Candidates(
        _spread(logprobs, is_token),
        _spread(ranks, is_token),
        _spread(mass_above, is_token),
        _spread(mass_below, is_token),
    )


def _spread(values: Floats, is_token: NDArray[np.bool_]) -> Floats:
    """One value per candidate: the given values for those that are a token, NaN for the others."""
    column = np.full(len(is_token), np.nan)
    column[is_token] = values
    return column


def log_probability(logits: NDArray[np.float32], token: int) -> float:
    """The natural logarithm of one token's probability."""
    top = finite_top(logits)
    log_total = float(np.log(np.exp(logits - top).sum(dtype=np.float64)))
    return max(float(logits[token]) - top - log_total, MIN_LOGPROB)


def finite_top(logits: NDArray[np.float32]) -> float:
    """The largest logit. Raises a FatalModelError if it is NaN or infinite."""
    top = float(logits.max())
    if not np.isfinite(top):
        raise FatalModelError(NOT_FINITE)
    return top
