"""The precision of a result if an experiment was repeated on overlapping data and always tested on the same examples.

Few-shot trainings are an example: a model is trained on K random splits of one labelled pool, and every trained model
is tested on the same test set. In this module, a *repetition* is one training and a *test* is one example of the test
set. The interval should cover the result for another pool and for other tests, so the variance has two parts:

- *from the tests*: the score of a test, averaged over the repetitions, varies from test to test. With one repetition,
  this is the binomial variance of an accuracy.
- *from the repetitions*: the variance of their results is S², but K repetitions are not K independent experiments. If
  the correlation between two of them is ρ because they share data, the variance of their mean is
  ``(1/K + ρ / (1 - ρ)) · S²`` (Nadeau and Bengio 2003, eq. 10). It does not vanish as K grows, because another pool
  would give another mean.

S² also contains noise from the tests: the same test may be right after one split and wrong after another. The expected
size N of this noise is estimated from the two-way table of splits and tests. ``S² - N`` would be unbiased, but if the
split has no effect, it is negative in half of the data sets, and the second part would then be ignored. Instead,
``S² · (S² + N/2) / (S² + N)`` is used, which subtracts at most half of the noise.

If a repetition has no usable answer to a test, its score is NaN and is replaced by the mean of the repetition, which
does not change the result. Such scores do not vary, so the variance between tests would be too small; it is divided by
the squared fraction of scores that are not missing. This is exact if answers are missing at random, even if a test has
no answer in any repetition.

The quantile is Cochran's (1964) for a variance of two parts: the mean of the two quantiles, weighted by the parts.
``benchmarks/fewshot_coverage.py`` shows how often the intervals cover the true value.
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
# If (nearly) all answers are right, the data do not show whether repetitions fail on the same tests. One imagined test
# on which they agree makes the interval as wide as that of a single repetition in this case, and hardly matters in
# others.
_AGREEING_TESTS = 1.0
# Cochran's quantile is converted to degrees of freedom at this probability, which is that of two-sided 95 % intervals.
_USUAL_TAIL = 0.975
# At a correlation of 1, Nadeau and Bengio's factor would be infinite.
_LARGEST_CORRELATION = 0.99
# The variance between repetitions is assumed to be at least this fraction of the noise of the tests.
_MIN_SPREAD = 0.25
# The upper end of the search for degrees of freedom: with so many, Student's t is practically a normal distribution.
_MANY_DEGREES = 1e6


@dataclass(frozen=True, slots=True)
class _Repetitions:
    """The part of the variance of a mean that comes from the repetitions."""

    variance: float
    spread: float
    """The variance before the noise of the tests is subtracted: the weight of this part's quantile."""
    degrees: float
    """Degrees of freedom of this part."""


NO_REPETITIONS = _Repetitions(0.0, 0.0, math.inf)


def overlap_factor(count: int, correlation: float) -> float:
    """Nadeau and Bengio's factor: the variance of a mean over repetitions, in units of their sample variance.

    >>> overlap_factor(4, 0.0), overlap_factor(4, 0.5)
    (0.25, 1.25)
    """
    correlation = min(max(correlation, 0.0), _LARGEST_CORRELATION)
    return 1 / count + correlation / (1 - correlation)


def mean_over_repetitions(scores: Floats) -> Floats:
    """The mean of each column over the rows that are not NaN; NaN for a column without scores.

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
    """The scores with missing ones replaced by the mean of their row, and the fraction that was not missing."""
    import numpy as np

    has_score = ~np.isnan(scores)
    answered_fraction = float(has_score.mean())
    if answered_fraction == 1:
        return scores, answered_fraction
    counts = has_score.sum(axis=1)
    sums = np.where(has_score, scores, 0.0).sum(axis=1)
    # A repetition without any score gets the mean of all others.
    row_means = np.full(len(scores), sums.sum() / counts.sum())
    np.divide(sums, counts, out=row_means, where=counts > 0)
    return np.where(has_score, scores, row_means[:, None]), answered_fraction


def rate_on_tests(scores: Floats, correlation: float, groups: Groups | None = None) -> Estimate:
    """Estimate an accuracy from scores of single tests.

    ``scores`` has a row for each repetition and a column for each test; NaN is a missing score. ``groups`` has the
    number of the group to which each test belongs, such as the passage that a question is about. With a single
    repetition, the interval covers only other tests.
    """
    import numpy as np

    repetitions, tests = scores.shape
    n_scores = int((~np.isnan(scores)).sum())
    scores, answered_fraction = _filled_in(scores)
    by_test = scores.mean(axis=0)
    value = float(by_test.mean())
    if groups is not None and not len(groups):
        # An empty array of groups means that tests are independent.
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
    # The variance of the tests' mean scores relative to that of single answers. It is at most 1: the mean over several
    # splits varies less than one answer, which is either right or wrong.
    relative = (float(by_test.var()) * tests + _AGREEING_TESTS) / (binomial * tests + _AGREEING_TESTS)
    # But it cannot be smaller than if all answers, in all repetitions, were independent.
    relative = max(relative, answered_fraction / repetitions)
    effect = 1.0
    degrees = math.inf
    if groups is not None:
        effect, degrees = _effect_of_groups(by_test, groups)
    # The variance that comes from the tests, in units of the binomial variance.
    of_tests = relative * effect / tests / answered_fraction**2
    # At a rate of 0 or 1, the binomial variance is 0. One more right and one more wrong test make it positive, so that
    # the two parts of the variance have weights.
    smoothed = (value * tests + 1) / (tests + 2)
    smoothed_binomial = smoothed * (1 - smoothed)
    between = _between_repetitions(scores, correlation, groups, max(smoothed_binomial - binomial, 0.0) / tests)
    of_repetitions = 0.0
    if between.variance > 0:
        # Repetitions differ only if some answers are right and some are wrong, so the binomial variance is not 0.
        of_repetitions = between.variance / binomial
    effective = 1 / (of_tests + of_repetitions)
    return Estimate(
        value=value,
        kind="rate",
        center=value,
        standard_error=math.sqrt(binomial / effective),
        degrees=_cochran(smoothed_binomial * of_tests, degrees, between),
        rows=n_scores,
        units=units,
        effective=effective,
        bounds=UNIT,
        clustered_by=clustered_by,
    )


def _sources_of_variance(repetitions: int) -> tuple[str, ...]:
    """The sources of variance that an interval covers, as its method names them."""
    return ("test", "split") if repetitions > 1 else ("test",)


def difference_on_tests(differences: Floats, correlation: float, groups: Groups | None = None) -> Estimate:
    """Estimate the mean of paired differences between two runs.

    ``differences`` has a row for each repetition that both runs have and a column for each test; a value is NaN if one
    of the runs has no score for this test.
    """
    import numpy as np

    n_differences = int((~np.isnan(differences)).sum())
    differences, answered_fraction = _filled_in(differences)
    clusters = () if groups is None or not len(groups) else (groups,)
    # ``step`` is 1, because the score of a test is 0 or 1, so a changed score differs by 1.
    of_tests = estimate([Term(differences.mean(axis=0), 1.0, clusters, step=1.0)], is_difference=True)
    of_tests = replace(
        of_tests,
        rows=n_differences,
        clustered_by=_sources_of_variance(len(differences)),
        standard_error=of_tests.standard_error / answered_fraction,
        effective=of_tests.effective * answered_fraction**2,
    )
    if of_tests.reason:
        return of_tests
    between = _between_repetitions(differences, correlation, groups)
    standard_error = math.sqrt(of_tests.standard_error**2 + between.variance)
    degrees = _cochran(of_tests.standard_error**2, of_tests.degrees, between)
    effective = of_tests.effective * of_tests.standard_error**2 / standard_error**2
    # Scores are 0 or 1, so their means cannot differ by more than 1.
    return replace(of_tests, standard_error=standard_error, degrees=degrees, effective=effective, bounds=(-1.0, 1.0))


def difference_of_repetitions(differences: Floats, correlation: float, *, by: str = "split") -> Estimate:
    """Estimate the mean of paired differences between repetitions if the scores of single tests are unknown."""
    independent = estimate([Term(differences)], is_difference=True)
    # ``independent`` has the variance of the mean of independent differences, S² / K.
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
    """Estimate the mean over repetitions if the scores of single tests are unknown.

    The interval covers other training data, but not other tests.
    """
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
    """The part of the variance that comes from the training data of the repetitions.

    ``unseen_noise`` is noise of the tests that the scores do not show: if a model is nearly always right, two splits
    whose results differ by one test may not really differ.
    """
    import numpy as np

    count, tests = scores.shape
    if count < 2:
        return NO_REPETITIONS
    results = scores.mean(axis=1)
    # The residuals of the two-way table: the deviations that neither the repetition nor the test explains.
    residuals = scores - results[:, None] - scores.mean(axis=0) + float(scores.mean())
    units = tests
    if groups is not None and len(groups):
        # Tests of one group may be right or wrong together, so their residuals are added up before they are squared.
        names, codes = np.unique(groups, return_inverse=True)
        units = len(names)
        residuals = np.stack([np.bincount(codes, weights=of_repetition) for of_repetition in residuals])
    noise = 0.0
    if units > 1:
        # Of count · units values, (count - 1) · (units - 1) degrees of freedom are left after the means of rows and
        # columns are subtracted.
        sum_of_squares = float((residuals**2).sum())
        noise = sum_of_squares / (count - 1) * units / (units - 1) / tests**2
    # Two or three splits sometimes have the same accuracy by chance, although they are right on different tests. The
    # noise of the tests alone nearly always makes their results differ more than this.
    spread = max(float(results.var(ddof=1)), _MIN_SPREAD * noise)
    if spread <= 0:
        return NO_REPETITIONS
    # S² · (S² + N/2) / (S² + N) from the docstring of this module; the unseen noise is a part of N.
    kept_fraction = min((spread + noise / 2) / (spread + noise + unseen_noise), 1.0)
    factor = overlap_factor(count, correlation)
    return _Repetitions(
        variance=factor * spread * kept_fraction,
        spread=factor * spread,
        degrees=float(count - 1),
    )


def _effect_of_groups(by_test: Floats, groups: Groups) -> tuple[float, float]:
    """The design effect of tests that are grouped, and the degrees of freedom, which depend on the groups."""
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
    """The degrees of freedom whose quantile is the mean of both parts' quantiles, weighted by the parts.

    Satterthwaite's formula gives too many degrees if one part has only one or two: the results of two or three splits
    may be equal by chance, and then the formula ignores this part.
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
