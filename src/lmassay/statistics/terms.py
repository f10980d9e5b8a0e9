"""The means that an estimate is made of: their values, and what the estimate needs to know of each.

An estimate is ``constant + Σ coefficient · mean`` (see :mod:`lmassay.statistics.estimation`). A :class:`Term` holds the
values of one mean, a :class:`TermSummary` their mean and variance and how many pseudo-observations they need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmassay.statistics.bounds import FiniteBounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Labels = Sequence[str] | NDArray[np.int64]

# Pseudo-observations of a bounded mean close to its bound, and of a difference that is mostly 0. Two, one on either
# side, are what Agresti and Caffo (2000) and Bonett and Price (2012) add.
PSEUDO_OBSERVATIONS = 2.0
# Differences below this are rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Term:
    """One mean of an estimate, and how much it counts in it.

    ``clusters`` holds one sequence of labels for each grouping of the rows: none for independent rows, two for rows
    that share a noun or a verb. ``weights`` says how much each row counts in the mean. If ``weights_are_counts``, each
    weight is a number of rows, and the value is the share of right answers among them.
    """

    values: Floats
    coefficient: float = 1.0
    clusters: Sequence[Labels] = ()
    weights: Floats | None = None
    weights_are_counts: bool = False
    step: float | None = None
    """How far from 0 a value is expected to be if it is not 0, e.g. 1 for the difference of two right/wrong outcomes.

    It places the pseudo-observations where all values are 0, and is averaged in where some are not. Default: half the
    range of the estimate, divided by the coefficient; without bounds, only the observed values count.
    """
    unchanged: NDArray[np.bool_] | None = None
    """Which rows count as 0 although their values are not: linearised values of a ratio, such as a relative drop."""


@dataclass(frozen=True, slots=True)
class TermSummary:
    """What an estimate needs to know of a term, except its clusters."""

    coefficient: float
    rows: int
    equal_rows: float
    """The number of rows; with weights, of equally weighted rows that would be as precise (Kish 1965)."""
    mean: float
    variance: float
    events: float
    """Rows that differ from the common value: see :func:`lmassay.statistics.variance.design_effect`."""
    is_binary: bool
    pseudo_values: tuple[float, float] | None = None
    """Where pseudo-observations of a difference are placed; None where it needs none."""
    pseudo_count: float = 0.0
    """The number of pseudo-observations."""

    @property
    def sample_variance(self) -> float:
        """The unbiased variance of the values, as in any t-interval."""
        return self.variance * self.rows / max(self.rows - 1, 1)

    def with_pseudo_observations(self, design_effect: float) -> tuple[float, float]:
        """The mean and its variance with pseudo-observations on both sides, counted in effective rows."""
        effective_rows = self.equal_rows / design_effect
        if self.pseudo_values is None or self.pseudo_count <= 0:
            return self.mean, self.sample_variance / effective_rows
        low, high = self.pseudo_values
        total = effective_rows + self.pseudo_count
        # Half of the pseudo-observations are at either value.
        pseudo_sum = self.pseudo_count * (low + high) / 2
        pseudo_sum_of_squares = self.pseudo_count * (low**2 + high**2) / 2
        mean = (self.mean * effective_rows + pseudo_sum) / total
        mean_square = ((self.variance + self.mean**2) * effective_rows + pseudo_sum_of_squares) / total
        variance = max(mean_square - mean**2, 0.0)
        return mean, variance / total


def without_weight_0(term: Term) -> Term:
    """Drop rows of weight 0; otherwise their zeros would be counted as observed "no difference"."""
    import numpy as np

    if term.weights is None or bool((term.weights > 0).all()):
        return term
    counts = np.asarray(term.weights) > 0
    return replace(
        term,
        values=np.asarray(term.values)[counts],
        weights=term.weights[counts],
        clusters=[np.asarray(labels)[counts] for labels in term.clusters],
        unchanged=None if term.unchanged is None else term.unchanged[counts],
    )


def values_exceed_bounds(terms: Sequence[Term], constant: float, bounds: FiniteBounds) -> bool:
    """True if some values are beyond the bounds that were declared for the estimate."""
    import numpy as np

    if len(terms) == 1:
        scores = constant + terms[0].coefficient * np.asarray(terms[0].values, dtype=float)
        lowest = float(scores.min())
        highest = float(scores.max())
    else:
        # Bounds of a sum do not say which values each of the means can have, so only the sum can be checked.
        value = constant
        for term in terms:
            value += term.coefficient * float(np.average(term.values, weights=term.weights))
        lowest = highest = value
    return lowest < bounds[0] - ROUNDING or highest > bounds[1] + ROUNDING


def summaries_of(
    terms: Sequence[Term], constant: float, bounds: FiniteBounds | None, *, is_difference: bool
) -> list[TermSummary]:
    """The summary of each term."""
    is_signed = is_difference or _is_signed(terms, constant, bounds)
    summaries = []
    for term in terms:
        step = term.step
        if step is None and bounds is not None:
            step = (bounds[1] - bounds[0]) / 2 / abs(term.coefficient)
        summaries.append(_summary(term, step, is_signed=is_signed))
    return summaries


def _is_signed(terms: Sequence[Term], constant: float, bounds: FiniteBounds | None) -> bool:
    """True for a single mean whose bounds allow both signs (unless it is a rescaled rate).

    That holds even if no observed value is negative.
    """
    if len(terms) > 1 or bounds is None:
        return False
    is_scaled_rate = bounds == (constant, constant + terms[0].coefficient)
    return bounds[0] < 0 < bounds[1] and not is_scaled_rate


def _summary(term: Term, step: float | None, *, is_signed: bool) -> TermSummary:
    """The summary of one term; ``step`` is how far a value could be from 0."""
    import numpy as np

    if term.weights is not None and term.weights_are_counts:
        return _summary_of_counts(term, term.weights)
    values = np.asarray(term.values, dtype=float)
    if term.unchanged is None:
        is_nonzero = np.abs(values) > ROUNDING
    else:
        is_nonzero = ~term.unchanged
    summary = _moments(term, values)
    # Differences that are all 0 or 1 are not a rate: they could have been -1, and the result must not depend on which
    # of two runs comes first.
    if not is_signed and bool(np.isin(values, (0.0, 1.0)).all()):
        ones = int(is_nonzero.sum())
        return replace(
            summary,
            events=float(min(ones, len(values) - ones)),
            is_binary=True,
            # One success and one failure more, if the rate is part of a difference (Agresti and Caffo 2000).
            pseudo_values=(0.0, 1.0),
            pseudo_count=PSEUDO_OBSERVATIONS,
        )
    events = float(is_nonzero.sum())
    observed_size = None
    if events:
        observed_size = float(np.sqrt((values[is_nonzero] ** 2).mean()))
    return _with_pseudo_values(replace(summary, events=events), observed_size, step, is_signed=is_signed)


def _moments(term: Term, values: Floats) -> TermSummary:
    """Mean and variance of the values, and how many equally weighted rows they are worth."""
    weights = term.weights
    if weights is None:
        mean = float(values.mean())
        variance = float(((values - mean) ** 2).mean())
        equal_rows = float(len(values))
    else:
        total = float(weights.sum())
        squared_weights = weights**2
        mean = float((values * weights).sum() / total)
        # The variance of a weighted mean is Σ w² (x - mean)² / (Σ w)², that is ``variance / equal_rows``.
        variance = float((squared_weights * (values - mean) ** 2).sum() / squared_weights.sum())
        equal_rows = total**2 / float(squared_weights.sum())
    if variance < ROUNDING**2:
        variance = 0.0
    return TermSummary(
        coefficient=term.coefficient,
        rows=len(values),
        equal_rows=equal_rows,
        mean=mean,
        variance=variance,
        events=0.0,
        is_binary=False,
    )


def _summary_of_counts(term: Term, counts: Floats) -> TermSummary:
    """Each value stands for many rows, which are right or wrong: sum up the rows, not the values."""
    import numpy as np

    values = np.asarray(term.values, dtype=float)
    total = float(counts.sum())
    mean = float((values * counts).sum() / total)
    return TermSummary(
        coefficient=term.coefficient,
        rows=len(values),
        equal_rows=total,
        mean=mean,
        variance=mean * (1 - mean),
        events=min(mean * total, (1 - mean) * total),
        is_binary=True,
        pseudo_values=(0.0, 1.0),
        pseudo_count=PSEUDO_OBSERVATIONS,
    )


def _with_pseudo_values(
    summary: TermSummary, observed_size: float | None, step: float | None, *, is_signed: bool
) -> TermSummary:
    """Graded values or differences, with the pseudo-observations that they need.

    ``observed_size`` is the root mean square of the values that are not 0; None if all are 0.
    """
    size = observed_size
    if step is not None:
        size = _pseudo_size(summary.events, observed_size, step)
    if size is None:
        return summary
    if is_signed and summary.variance == 0:
        # All differences are the same: the spread is unknown, not 0, and so is how similar clusters are.
        if observed_size is not None:
            size = observed_size
        return replace(summary, events=0.0, pseudo_values=(-size, size), pseudo_count=PSEUDO_OBSERVATIONS)
    # The share of zeros says how much protection a mean needs: one of graded values, all different, needs none.
    share_of_zeros = 1 - summary.events / summary.rows
    if share_of_zeros <= 0:
        return summary
    return replace(summary, pseudo_values=(-size, size), pseudo_count=PSEUDO_OBSERVATIONS * share_of_zeros)


def _pseudo_size(events: float, observed_size: float | None, step: float) -> float:
    """How far from 0 a pseudo-observation is: as far as the values that are not 0.

    One value of the size ``step`` is averaged in (by the mean of squares), so that a few observed values do not decide
    alone.
    """
    if observed_size is None:
        return step
    return math.sqrt((events * observed_size**2 + step**2) / (events + 1))
