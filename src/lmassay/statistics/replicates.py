"""How precise a result is if an experiment was repeated on overlapping data and always tested on the same examples.

Few-shot trainings are the case in point: K splits of one labelled pool, all tested on one test set. Here, a *test* is
one example of the test set. A result should hold for another pool and for other tests, so its variance has two parts:

- *the tests*: the scores of individual tests, averaged over the repetitions, vary from test to test. With one
  repetition this is the binomial variance of an accuracy.
- *the repetitions*: their results differ by S², but K of them are not K independent experiments. If two of them are
  correlated by ρ because they share data, the variance of their mean is ``(1/K + ρ / (1 - ρ)) · S²`` (Nadeau and
  Bengio 2003, eq. 10). It does not vanish as K grows: another pool would give another mean.

S² also contains noise from the tests: the same test is right after one split and wrong after another. The expected
size N of that noise is known from the two-way table of splits and tests. ``S² - N`` would be unbiased, but it is
negative for half of the data sets without an effect of the split, and then says that there is none.
``S² · (S² + N/2) / (S² + N)`` takes out half of the noise at most.

A test that a repetition has no usable answer to is NaN. It is filled in with the mean of its repetition, so it does
not move the result. Filled-in scores do not vary, which would make the variance between tests too small by the squared
share of answers that there are; it is divided by that. The result is exact if answers are missing at random, for
individual tests as well as for a test that no repetition has an answer to.

The quantile is Cochran's (1964) for a variance of two parts: the average of the two quantiles, weighted by the parts.
``benchmarks/fewshot_coverage.py`` shows how often the intervals cover what they should.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lmassay.statistics.bounds import Bounds, finite_bounds
from lmassay.statistics.clustering import MIN_UNITS
from lmassay.statistics.distributions import t_quantile
from lmassay.statistics.estimation import Estimate, estimate
from lmassay.statistics.terms import Term
from lmassay.statistics.variance import clusters_of, design_effect

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Groups = NDArray[np.int64]

UNIT = (0.0, 1.0)
# Where all answers are right, or nearly all, nothing shows whether repetitions fail on the same tests. One imagined
# test on which they agree makes the interval that of a single repetition there, and matters little elsewhere.
_AGREEING_TESTS = 1.0
# Cochran's quantile is turned into degrees of freedom at this probability: that of two-sided 95 % intervals.
_USUAL_TAIL = 0.975
# At a correlation of 1, Nadeau and Bengio's factor would be infinite.
_LARGEST_CORRELATION = 0.99
# The variance between repetitions is taken to be at least this share of what the noise of the tests makes it.
_MIN_SPREAD = 0.25
# Where the search for degrees of freedom ends: with this many, Student's t is the normal distribution in practice.
_MANY_DEGREES = 1e6


@dataclass(frozen=True, slots=True)
class _Repetitions:
    """What the repetitions add to the variance of a mean."""

    variance: float
    spread: float
    """The variance before the noise of the tests is taken out: what the quantile is weighted by."""
    degrees: float


NO_REPETITIONS = _Repetitions(0.0, 0.0, math.inf)


def overlap_factor(count: int, correlation: float) -> float:
    """Nadeau and Bengio's factor: the variance of a mean over repetitions, in units of their sample variance.

    >>> overlap_factor(4, 0.0), overlap_factor(4, 0.5)
    (0.25, 1.25)
    """
    correlation = min(max(correlation, 0.0), _LARGEST_CORRELATION)
    return 1 / count + correlation / (1 - correlation)


def mean_over_repetitions(scores: Floats) -> Floats:
    """The mean of each column over the rows that have a score there; NaN for a column without scores.

    >>> import numpy as np
    >>> mean_over_repetitions(np.array([[1.0, np.nan], [0.0, np.nan]])).tolist()
    [0.5, nan]
    """
    import numpy as np

    has_score = ~np.isnan(scores)
    counts = has_score.sum(axis=0)
    sums = np.where(has_score, scores, 0.0).sum(axis=0)
    means = np.full(scores.shape[1], np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means


def _filled_in(scores: Floats) -> tuple[Floats, float]:
    """The scores, each missing one replaced by the mean of its row, and the share of scores that are not missing."""
    import numpy as np

    has_score = ~np.isnan(scores)
    share = float(has_score.mean())
    if share == 1:
        return scores, share
    counts = has_score.sum(axis=1)
    sums = np.where(has_score, scores, 0.0).sum(axis=1)
    # A repetition without any score is given the mean of all others.
    row_means = np.full(len(scores), sums.sum() / counts.sum())
    np.divide(sums, counts, out=row_means, where=counts > 0)
    return np.where(has_score, scores, row_means[:, None]), share


def rate_on_tests(scores: Floats, correlation: float, groups: Groups | None = None) -> Estimate:
    """A share of right answers: ``scores`` have a row for each repetition and a column for each test.

    ``groups`` are numbers of the groups that tests belong to, such as the passages that questions are about. A single
    repetition gives the interval over tests alone. A missing score is NaN.
    """
    import numpy as np

    repetitions, tests = scores.shape
    n_scores = int((~np.isnan(scores)).sum())
    scores, answered_share = _filled_in(scores)
    by_test = scores.mean(axis=0)
    value = float(by_test.mean())
    if groups is not None and not len(groups):
        # No groups are the same as independent tests.
        groups = None
    units = tests if groups is None else len(np.unique(groups))
    clustered_by = _sources_of_variance(repetitions)
    if groups is not None and units < MIN_UNITS:
        return Estimate(
            value=value,
            kind="rate",
            center=value,
            standard_error=0.0,
            degrees=1.0,
            rows=n_scores,
            units=units,
            effective=0.0,
            bounds=UNIT,
            clustered_by=clustered_by,
            reason="all test examples belong to one group",
        )
    binomial = value * (1 - value)
    # A test that is right after half of the splits tells more about the mean than one answer, which is right or wrong.
    relative = (float(by_test.var()) * tests + _AGREEING_TESTS) / (binomial * tests + _AGREEING_TESTS)
    # But all tests together tell no more than as many independent answers as there are.
    relative = max(relative, answered_share / repetitions)
    effect = 1.0
    degrees = math.inf
    if groups is not None:
        effect, degrees = _effect_of_groups(by_test, groups)
    # The variance that comes from the tests, in units of the binomial variance.
    of_tests = relative * effect / tests / answered_share**2
    # At 0 and 1 the binomial variance is 0; one more right and one more wrong test give the two parts their weights.
    smoothed = (value * tests + 1) / (tests + 2)
    largest = smoothed * (1 - smoothed)
    between = _between_repetitions(scores, correlation, groups, max(largest - binomial, 0.0) / tests)
    of_repetitions = 0.0
    if between.variance > 0:
        of_repetitions = between.variance / binomial
    effective = 1 / (of_tests + of_repetitions)
    return Estimate(
        value=value,
        kind="rate",
        center=value,
        standard_error=math.sqrt(binomial / effective),
        degrees=_cochran(largest * of_tests, degrees, between),
        rows=n_scores,
        units=units,
        effective=effective,
        bounds=UNIT,
        clustered_by=clustered_by,
    )


def _sources_of_variance(repetitions: int) -> tuple[str, ...]:
    """What an interval accounts for, as its method names it."""
    return ("test", "split") if repetitions > 1 else ("test",)


def difference_on_tests(differences: Floats, correlation: float, groups: Groups | None = None) -> Estimate:
    """The mean of paired differences: a row for each repetition that both runs have, a column for each test.

    The difference of a test that one of the runs has no score for is NaN.
    """
    import numpy as np

    n_differences = int((~np.isnan(differences)).sum())
    differences, answered_share = _filled_in(differences)
    clusters = () if groups is None or not len(groups) else (groups,)
    of_tests = estimate([Term(differences.mean(axis=0), 1.0, clusters, step=1.0)], is_difference=True)
    of_tests = replace(
        of_tests,
        rows=n_differences,
        clustered_by=_sources_of_variance(len(differences)),
        standard_error=of_tests.standard_error / answered_share,
        effective=of_tests.effective * answered_share**2,
    )
    if of_tests.reason:
        return of_tests
    between = _between_repetitions(differences, correlation, groups)
    standard_error = math.sqrt(of_tests.standard_error**2 + between.variance)
    degrees = _cochran(of_tests.standard_error**2, of_tests.degrees, between)
    effective = of_tests.effective * of_tests.standard_error**2 / standard_error**2
    # No mean of paired 0/1 scores can differ by more than 1.
    return replace(of_tests, standard_error=standard_error, degrees=degrees, effective=effective, bounds=(-1.0, 1.0))


def difference_of_repetitions(differences: Floats, correlation: float, *, by: str = "split") -> Estimate:
    """The mean of paired differences between repetitions whose scores of individual tests are not known."""
    independent = estimate([Term(differences)], is_difference=True)
    # ``independent`` takes the variance of the mean for S² / K.
    inflation = overlap_factor(len(differences), correlation) * len(differences)
    return replace(
        independent,
        standard_error=independent.standard_error * math.sqrt(inflation),
        effective=independent.effective / inflation,
        clustered_by=(by,),
    )


def mean_of_repetitions(
    values: Floats, correlation: float, bounds: Bounds | None = None, *, by: str = "split"
) -> Estimate:
    """A mean over repetitions whose scores of individual tests are not known: it holds for these tests only."""
    value = float(values.mean())
    count = len(values)
    variance = float(values.var(ddof=1)) if count > 1 else 0.0
    reason = ""
    if count < MIN_UNITS:
        reason = f"one {by} only"
    elif variance <= 0:
        reason = f"all {count} {by}s scored the same"
    factor = overlap_factor(count, correlation)
    return Estimate(
        value=value,
        kind="mean",
        center=value,
        standard_error=math.sqrt(variance * factor),
        degrees=float(count - 1),
        rows=count,
        units=count,
        effective=1 / factor,
        bounds=finite_bounds(bounds),
        clustered_by=(by,),
        reason=reason,
    )


def _between_repetitions(
    scores: Floats, correlation: float, groups: Groups | None, unseen_noise: float = 0.0
) -> _Repetitions:
    """What other data to learn from would add to the variance.

    ``unseen_noise`` is noise of the tests that the scores cannot show: of a model that is nearly always right, two
    splits that differ by one test are not known to differ at all.
    """
    import numpy as np

    count, tests = scores.shape
    if count < 2:
        return NO_REPETITIONS
    results = scores.mean(axis=1)
    # What is left if neither the repetition nor the test explains it: the residuals of the two-way table.
    residuals = scores - results[:, None] - scores.mean(axis=0) + float(scores.mean())
    units = tests
    if groups is not None and len(groups):
        # Tests of one group may be right or wrong together, so that their residuals add up before they are squared.
        names, codes = np.unique(groups, return_inverse=True)
        units = len(names)
        residuals = np.stack([np.bincount(codes, weights=of_repetition) for of_repetition in residuals])
    noise = 0.0
    if units > 1:
        # Fitting the means of rows and columns leaves (count - 1) · (units - 1) degrees of freedom of count · units.
        sum_of_squares = float((residuals**2).sum())
        noise = sum_of_squares / (count - 1) * units / (units - 1) / tests**2
    # Two splits, or three, are now and then as accurate by chance although they are right on different tests. The noise
    # of the tests alone would nearly always make them differ more than this.
    spread = max(float(results.var(ddof=1)), _MIN_SPREAD * noise)
    if spread <= 0:
        return NO_REPETITIONS
    # S² · (S² + N/2) / (S² + N) at the top of this module, with the unseen noise as a part of N.
    share_kept = min((spread + noise / 2) / (spread + noise + unseen_noise), 1.0)
    factor = overlap_factor(count, correlation)
    return _Repetitions(
        variance=factor * spread * share_kept,
        spread=factor * spread,
        degrees=float(count - 1),
    )


def _effect_of_groups(by_test: Floats, groups: Groups) -> tuple[float, float]:
    """The design effect of tests that belong together, and the degrees of freedom that their groups leave."""
    import numpy as np

    tests = len(by_test)
    value = float(by_test.mean())
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    clusters = clusters_of(sizes.astype(float))
    if clusters.are_single_rows or clusters.count < MIN_UNITS:
        return 1.0, math.inf
    residuals = np.bincount(codes, weights=by_test - value)
    # CR2, as for any other mean (Bell and McCaffrey 2002).
    grouped_variance = float((residuals**2 / (1 - clusters.shares)).sum()) / tests**2
    effect = design_effect(
        np.array(grouped_variance),
        np.array(float(by_test.var()) / tests),
        np.array(tests * min(value, 1 - value)),
        clusters,
        of_rate=True,
    )
    return float(effect), clusters.degrees_of_freedom()


def _cochran(variance: float, degrees: float, between: _Repetitions) -> float:
    """The degrees of freedom whose quantile is the average of both parts' quantiles, weighted by the parts.

    Satterthwaite's degrees of freedom are too many where one part has one or two: by chance two or three splits are the
    same, and then this part seems not to count.
    """
    total = variance + between.spread
    if between.spread <= 0 or total <= 0:
        return degrees
    mean_quantile = (variance * _quantile(degrees) + between.spread * _quantile(between.degrees)) / total
    low = min(degrees, between.degrees)
    high = min(max(degrees, between.degrees), _MANY_DEGREES)
    # Bisection: quantiles fall as degrees of freedom grow. The middle is a geometric mean, because the degrees of
    # freedom lie between 1 and a million.
    for _ in range(60):
        middle = math.sqrt(low * high)
        if _quantile(middle) > mean_quantile:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def _quantile(degrees: float) -> float:
    return t_quantile(_USUAL_TAIL, degrees)
