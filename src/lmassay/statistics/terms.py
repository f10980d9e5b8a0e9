"""The means that an estimate consists of: their values, and a summary of each.

An estimate is ``constant + Σ coefficient · mean`` (see :mod:`lmassay.statistics.estimation`). A :class:`Term` holds the
values of one mean, a :class:`TermSummary` their mean and variance and how many pseudo-observations they need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmassay.statistics.bounds import NumericBounds

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Labels = Sequence[str] | NDArray[np.int64]

# The number of pseudo-observations that are added to a bounded mean close to its bound, and to a difference if most
# values are 0. Agresti and Caffo (2000) and Bonett and Price (2012) add two, one on either side.
PSEUDO_OBSERVATIONS = 2.0
# Smaller differences are rounding errors.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Term:
    """The values of one mean of an estimate, and its coefficient in the sum.

    ``clusters`` holds one sequence of labels for each grouping of the rows: none for independent rows, two if rows are
    grouped twice, for example by noun and by verb. ``weights`` says how much each row counts in the mean. If
    ``weights_are_counts``, each weight is a number of answers, and the value is the fraction of them that are right.
    """

    values: Floats
    coefficient: float = 1.0
    clusters: Sequence[Labels] = ()
    weights: Floats | None = None
    weights_are_counts: bool = False
    step: float | None = None
    """How far from 0 a value is expected to be if it is not 0, e.g. 1 for the difference of two right/wrong outcomes.

    It is the distance of the pseudo-observations from 0 if all values are 0; otherwise, it counts like one more
    observed value in their distance. Default: half the range of the estimate, divided by the coefficient; without
    bounds, only the observed values count.
    """
    unchanged: NDArray[np.bool_] | None = None
    """Which rows did not change, although their values are not 0. A ratio of means, such as a relative drop, is
    estimated from linearised values, and those of unchanged rows are not 0."""


@dataclass(frozen=True, slots=True)
class TermSummary:
    """Mean, variance and pseudo-observations of a term: everything that an estimate needs except its clusters."""

    coefficient: float
    rows: int
    equal_rows: float
    """The number of rows; with weights, the number of equally weighted rows that would be as precise (Kish 1965)."""
    mean: float
    variance: float
    events: float
    """The number of rows that differ from the common value, such as the errors of a model that is mostly right: see
    :func:`lmassay.statistics.variance.design_effect`."""
    is_binary: bool
    """Whether the values are 0 or 1, so that the mean is a rate."""
    pseudo_values: tuple[float, float] | None = None
    """The two values of the pseudo-observations; None if there are none."""
    pseudo_count: float = 0.0
    """The number of pseudo-observations."""

    @property
    def sample_variance(self) -> float:
        """The unbiased variance of the values, as in any t-interval."""
        return self.variance * self.rows / max(self.rows - 1, 1)

    def with_pseudo_observations(self, design_effect: float) -> tuple[float, float]:
        """The mean and its variance after adding the pseudo-observations; each counts as one effective row."""
        effective_rows = self.equal_rows / design_effect
        if self.pseudo_values is None or self.pseudo_count <= 0:
            return self.mean, self.sample_variance / effective_rows
        low, high = self.pseudo_values
        total = effective_rows + self.pseudo_count
        # Half of the pseudo-observations have the lower value, half the higher one.
        pseudo_sum = self.pseudo_count * (low + high) / 2
        pseudo_sum_of_squares = self.pseudo_count * (low**2 + high**2) / 2
        mean = (self.mean * effective_rows + pseudo_sum) / total
        mean_square = ((self.variance + self.mean**2) * effective_rows + pseudo_sum_of_squares) / total
        variance = max(mean_square - mean**2, 0.0)
        return mean, variance / total


def without_weight_0(term: Term) -> Term:
    """Drop rows of weight 0. Otherwise, they would count as rows in which no difference was observed."""
    import numpy as np

    if term.weights is None or bool((term.weights > 0).all()):
        return term
    has_weight = np.asarray(term.weights) > 0
    return replace(
        term,
        values=np.asarray(term.values)[has_weight],
        weights=term.weights[has_weight],
        clusters=[np.asarray(labels)[has_weight] for labels in term.clusters],
        unchanged=None if term.unchanged is None else term.unchanged[has_weight],
    )


def values_exceed_bounds(terms: Sequence[Term], constant: float, bounds: NumericBounds) -> bool:
    """True if some values are beyond the bounds that were declared for the estimate."""
    import numpy as np

    if len(terms) == 1:
        scores = constant + terms[0].coefficient * np.asarray(terms[0].values, dtype=float)
        lowest = float(scores.min())
        highest = float(scores.max())
    else:
        # The bounds of a sum do not limit the values of each single mean, so only the sum can be checked.
        value = constant
        for term in terms:
            value += term.coefficient * float(np.average(term.values, weights=term.weights))
        lowest = highest = value
    return lowest < bounds[0] - ROUNDING or highest > bounds[1] + ROUNDING


def summaries_of(
    terms: Sequence[Term], constant: float, bounds: NumericBounds | None, *, is_difference: bool
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


def _is_signed(terms: Sequence[Term], constant: float, bounds: NumericBounds | None) -> bool:
    """True for a single mean whose bounds allow both signs, even if no observed value is negative.

    A rescaled rate, such as BBQ's 2 · rate - 1, does not count as signed.
    """
    if len(terms) > 1 or bounds is None:
        return False
    is_scaled_rate = bounds == (constant, constant + terms[0].coefficient)
    return bounds[0] < 0 < bounds[1] and not is_scaled_rate


def _summary(term: Term, step: float | None, *, is_signed: bool) -> TermSummary:
    """The summary of one term; ``step`` is how far from 0 a value is expected to be (see :attr:`Term.step`)."""
    import numpy as np

    if term.weights is not None and term.weights_are_counts:
        return _summary_of_counts(term, term.weights)
    values = np.asarray(term.values, dtype=float)
    if term.unchanged is None:
        is_nonzero = np.abs(values) > ROUNDING
    else:
        is_nonzero = ~term.unchanged
    summary = _moments(term, values)
    # Differences that are all 0 or 1 are not treated as a rate: they could have been -1, and the result must not depend
    # on which of the two runs comes first.
    if not is_signed and bool(np.isin(values, (0.0, 1.0)).all()):
        ones = int(is_nonzero.sum())
        return replace(
            summary,
            events=float(min(ones, len(values) - ones)),
            is_binary=True,
            # One additional success and failure, which are used if the rate is part of a difference (Agresti and Caffo
            # 2000).
            pseudo_values=(0.0, 1.0),
            pseudo_count=PSEUDO_OBSERVATIONS,
        )
    events = float(is_nonzero.sum())
    observed_size = None
    if events:
        observed_size = float(np.sqrt((values[is_nonzero] ** 2).mean()))
    return _with_pseudo_values(replace(summary, events=events), observed_size, step, is_signed=is_signed)


def _moments(term: Term, values: Floats) -> TermSummary:
    """A summary with the mean, the variance and the effective number of rows; without pseudo-observations."""
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
    """The summary of a term whose values are rates among several answers: its rate is that of all answers together."""
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
    """Add pseudo-observations, if they are needed, to the summary of graded values or differences.

    ``observed_size`` is the root mean square of the values that are not 0; None if all are 0.
    """
    size = observed_size
    if step is not None:
        size = _pseudo_size(summary.events, observed_size, step)
    if size is None:
        return summary
    if is_signed and summary.variance == 0:
        # All differences are the same. This does not mean that the spread is 0, but that it is unknown, as is the
        # correlation within clusters. So no row counts as an event.
        if observed_size is not None:
            size = observed_size
        return replace(summary, events=0.0, pseudo_values=(-size, size), pseudo_count=PSEUDO_OBSERVATIONS)
    # The more values are 0, the more protection a mean needs. If no value is 0, it needs none.
    share_of_zeros = 1 - summary.events / summary.rows
    if share_of_zeros <= 0:
        return summary
    return replace(summary, pseudo_values=(-size, size), pseudo_count=PSEUDO_OBSERVATIONS * share_of_zeros)


def _pseudo_size(events: float, observed_size: float | None, step: float) -> float:
    """How far from 0 a pseudo-observation is: the root mean square of the values that are not 0 and of ``step``.

    ``step`` counts as one value, so that the distance does not depend on a few observed values alone.
    """
    if observed_size is None:
        return step
    return math.sqrt((events * observed_size**2 + step**2) / (events + 1))
