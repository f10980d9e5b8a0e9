"""Scores that pile up at a bound, whose observed spread is too small to be trusted.

If all scores are 0.95 or so, the next ones will be, too. If most scores are 1 and a few 0.5, a sample of this size
cannot rule out that a few other scores are 0. :func:`pile_up` says from 0 to 1 how much scores look like the second
case; the interval of a bounded mean is protected to that degree (see :mod:`lmassay.statistics.estimation`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lmassay.statistics.bounds import FiniteBounds
from lmassay.statistics.terms import Term, TermSummary

# Scores pile up at a bound if their distances from it vary much. The squared coefficient of variation of the distances
# is 1 if they are exponentially distributed, and larger if most scores are at the bound and a few far from it. Between
# these values, protection fades in.
CLEARLY_AWAY = 0.75
PILED_UP = 1.5
# A "wrong row" is a row at the far bound. These are sums of the distances of all rows, in wrong rows. Up to the first
# number, the sample hardly differs from one without any wrong row, so protection is complete. At the second number,
# this reason for protection has faded out.
_NO_WRONG_ROW = 0.25
_A_WRONG_ROW = 0.75
# Few scores do not show how much distances vary: with this many, twice as much as observed is allowed for.
_FEW_SCORES = 8.0


def pile_up(value: float, terms: Sequence[Term], summaries: Sequence[TermSummary], bounds: FiniteBounds) -> float:
    """How much scores look as if most were at a bound and some far from it: from 0 to 1.

    What matters is how much the distances from the bound vary, relative to their mean. A spread that comes from a
    single score is not trusted either.
    """
    import numpy as np

    if len(terms) > 1 or summaries[0].is_binary:
        # Full protection: right/wrong scores are all at a bound, and for a sum of several means there is no single
        # distribution of scores to look at.
        return 1.0
    term = terms[0]
    summary = summaries[0]
    deviations = np.asarray(term.values, dtype=float) - summary.mean
    weights = np.ones(summary.rows) if term.weights is None else term.weights
    sum_of_squares = float((weights**2 * deviations**2).sum())
    if summary.variance <= 0 or sum_of_squares <= 0:
        # Full protection: scores that are all the same do not show how much others may vary.
        return 1.0
    # This many scores of equal deviation would give the same variance: the rows over the kurtosis.
    deviating_scores = sum_of_squares**2 / float((weights**4 * deviations**4).sum())

    low, high = bounds
    distance = min(abs(value - low), abs(high - value))
    squared_variation = math.inf
    if distance > 0:
        squared_variation = summary.coefficient**2 * summary.variance / distance**2
    squared_variation *= 1 + _FEW_SCORES / summary.equal_rows
    by_variation = (squared_variation - CLEARLY_AWAY) / (PILED_UP - CLEARLY_AWAY)

    # This many rows at the far bound, and all others at the near one, would give the same mean.
    equivalent_wrong_rows = summary.equal_rows * distance / (high - low)
    by_closeness = (_A_WRONG_ROW - equivalent_wrong_rows) / (_A_WRONG_ROW - _NO_WRONG_ROW)
    # 1 if the spread comes from a single score, and hardly anything if a few scores share in it.
    by_single_scores = 1 / deviating_scores**2
    return min(max(by_variation, by_closeness, by_single_scores), 1.0)


def with_equivalent_errors(summaries: Sequence[TermSummary], value: float, bounds: FiniteBounds) -> list[TermSummary]:
    """Set the events of graded terms to the equivalent of a rate's errors.

    That is the number of rows that, placed at the rarer bound with all others at the opposite bound, would give the
    same mean.
    """
    low, high = bounds
    share = min(max((value - low) / (high - low), 0.0), 1.0)
    share_of_errors = min(share, 1 - share)
    adjusted = []
    for summary in summaries:
        if not summary.is_binary:
            summary = replace(summary, events=summary.rows * share_of_errors)
        adjusted.append(summary)
    return adjusted
