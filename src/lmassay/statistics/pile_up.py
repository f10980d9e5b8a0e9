"""Scores of which most are at a bound (a ceiling or floor effect), so that their spread is too small to be trusted.

If all scores are close to 0.95, further scores will probably be, too. But if most scores are 1 and a few are 0.5, the
scores *pile up* at the bound 1, and the sample cannot rule out that a few further scores would be 0. :func:`pile_up`
measures, from 0 to 1, how much the scores look like the second case, and the interval of a bounded mean is widened to
that degree (see *protection* in :mod:`lmassay.statistics.estimation`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from lmassay.statistics.bounds import NumericBounds
from lmassay.statistics.terms import Term, TermSummary

# Scores pile up at a bound if their distances from it vary much. The squared coefficient of variation of the distances
# is 1 if they are exponentially distributed, and larger if most scores are at the bound and a few far from it. Between
# these values, protection fades in.
CLEARLY_AWAY = 0.75
PILED_UP = 1.5
# The sum of all distances from the nearer bound, divided by the distance between the bounds: as many rows that are
# entirely wrong would give the same sum. Up to the first number, the sample hardly differs from one without any wrong
# row, so it is fully protected. From the second number on, closeness to the bound is no reason for protection.
_NO_WRONG_ROW = 0.25
_A_WRONG_ROW = 0.75
# Few scores do not show how much distances vary: for this many scores, the observed variation is doubled.
_FEW_SCORES = 8.0


def pile_up(value: float, terms: Sequence[Term], summaries: Sequence[TermSummary], bounds: NumericBounds) -> float:
    """The degree, from 0 to 1, to which scores look as if most were at a bound and some far from it.

    The degree depends on how much the distances from the bound vary, relative to their mean. It is also high if all
    spread comes from a single score, because such a spread cannot be trusted.
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
    # The number of rows divided by the kurtosis: k if k scores deviate equally from all others.
    deviating_scores = sum_of_squares**2 / float((weights**4 * deviations**4).sum())

    low, high = bounds
    distance = min(abs(value - low), abs(high - value))
    squared_variation = math.inf
    if distance > 0:
        squared_variation = summary.coefficient**2 * summary.variance / distance**2
    squared_variation *= 1 + _FEW_SCORES / summary.equal_rows
    by_variation = (squared_variation - CLEARLY_AWAY) / (PILED_UP - CLEARLY_AWAY)

    # The number of rows at the far bound that would give the same mean if all others were at the near bound.
    equivalent_wrong_rows = summary.equal_rows * distance / (high - low)
    by_closeness = (_A_WRONG_ROW - equivalent_wrong_rows) / (_A_WRONG_ROW - _NO_WRONG_ROW)
    # 1 if the spread comes from a single score, and nearly 0 if it comes from several.
    by_single_scores = 1 / deviating_scores**2
    return min(max(by_variation, by_closeness, by_single_scores), 1.0)


def with_equivalent_errors(summaries: Sequence[TermSummary], value: float, bounds: NumericBounds) -> list[TermSummary]:
    """Return the summaries with new ``events`` for graded terms, which are comparable to the number of a rate's errors.

    They are the number of rows at the farther bound that would give the same mean if all others were at the nearer one.
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
