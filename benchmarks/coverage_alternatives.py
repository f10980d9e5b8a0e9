"""Other rules for the intervals of clustered rates: what they gain on published cluster sizes, and what they cost.

    python benchmarks/coverage_alternatives.py [--data-sets 1000] [--seed 1] [--rule NAME] [--quick] [--check] [-o FILE]

The rule of lmassay covers more than 97 % in most settings with KoBBQ's and BBQ's cluster sizes. This script simulates
variants that cover less there, and rules of other kinds, on the same data sets: the grids and the additional errors of
``coverage.py``. It prints, for each rule,

- in how many published settings with six or more effective clusters the coverage is above 97 %;
- the least coverage in all settings of the grid, and in how many it is below 92 % (beyond Monte-Carlo error);
- the least coverage on the same published sizes if large clusters are easier or harder than small ones, or if their
  rows are more or less similar. No rule knows that, but its interval is about the rate over all rows all the same;
- how many additional errors raise the lower bound, by how much at most, and how many narrow the interval by more than
  5 %.

``docs/coverage-study.md`` shows the result, which is in ``benchmarks/measured/coverage_alternatives.tsv`` (written by
``-o``). ``--rule NAME`` (repeatable) simulates some rules only, on the same data sets as all together. ``--quick``
simulates a small part; ``--check`` compares that part with ``benchmarks/measured/coverage_alternatives_quick.tsv`` and
exits with 1 if it differs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from lmassay.statistics.distributions import normal_quantile, t_quantile
from lmassay.statistics.estimation import wilson
from lmassay.statistics.variance import (
    LARGEST_CORRELATION,
    LARGEST_SHARE_PENALTY,
    PRIOR_CLUSTERS,
    PRIOR_CORRELATION,
    Clusters,
    clusters_of,
)

# As a script, this file has only its own folder on the path, where `import coverage` could mean the package coverage.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks import coverage

Floats = NDArray[np.float64]
Interval = Callable[[Floats, Floats], tuple[Floats, Floats]]
MEASURED = Path(__file__).parent / "measured"
COLUMNS = (
    "rule",
    "above_97",
    "settings",
    "least",
    "below_92",
    "sizes_matter",
    "errors",
    "raised",
    "raised_by",
    "narrowed",
)


# --- the rules --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rule:
    """Wilson's interval on an effective number of examples; the defaults are the rule of lmassay."""

    prior_correlation: float = PRIOR_CORRELATION
    prior_clusters: float = PRIOR_CLUSTERS
    share_penalty: float = LARGEST_SHARE_PENALTY
    """How much a dominant cluster weakens the estimated correlation."""
    power: float = 1.0
    """The weight of the data grows with this power of the errors."""
    uses_t: bool = True
    is_balanced: bool = False
    """Estimate the correlation from all pairs of rows within clusters, weighted so that large clusters do not dominate,
    in place of the CR2 variance."""
    is_limited: bool = False
    """Limit the weight of the data so that one error in one cluster moves the error of the estimate little."""
    tails: str = "equal"
    """``unequal``: above the lower end of a perfect result, the upper end uses the whole 5 % (and the reverse near 0);
    ``by clusters``: 5 % · (1 - 1/C) for C effective clusters."""

    def __call__(self, hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        clusters = clusters_of(sizes)
        total = float(sizes.sum())
        rates = hits.sum(axis=-1) / total
        if clusters.are_single_rows:
            quantile = normal_quantile(0.975)
            low, high = wilson(rates, np.full_like(rates, total), quantile)
            return np.asarray(low), np.asarray(high)
        effective = total / self._design_effect(hits, sizes, rates, clusters)
        without_errors = total / (1 + (clusters.size - 1) * LARGEST_CORRELATION)
        return self._ends(rates, effective, without_errors, sizes, clusters)

    def _design_effect(self, hits: Floats, sizes: Floats, rates: Floats, clusters: Clusters) -> Floats:
        total = float(sizes.sum())
        rarer = np.minimum(rates, 1 - rates)
        if self.is_balanced:
            correlation = _balanced_correlation(hits, sizes, rates)
            information = rarer * _balanced_clusters(sizes)
        else:
            residuals = hits - rates[..., None] * sizes
            variance = (residuals**2 / (1 - clusters.shares)).sum(axis=-1) / total**2
            independent = rates * (1 - rates) / total
            inflation = np.divide(variance, independent, out=np.ones_like(variance), where=independent > 0)
            correlation = np.clip((inflation - 1) / (clusters.size - 1), 0.0, 1.0)
            information = rarer * total / clusters.size
        information = information**self.power
        weight = information / (information + self.prior_clusters)
        weight = weight / (1 + self.share_penalty * float(clusters.shares.max()) ** 2)
        if self.is_limited:
            weight = np.minimum(weight, self._largest_weight(sizes, rates, clusters))
        shrunken = weight * correlation + (1 - weight) * self.prior_correlation
        return np.asarray(1 + (clusters.size - 1) * shrunken)

    def _largest_weight(self, sizes: Floats, rates: Floats, clusters: Clusters) -> Floats:
        """The weight from which on one error can move the lower end more by narrowing the interval than by its share.

        Computed for an error in the cluster whose rows count most, at the prior correlation.
        """
        total = float(sizes.sum())
        pair_weights = _pair_weights(sizes)
        influence = float((pair_weights * sizes).max()) / float((pair_weights * sizes * (sizes - 1)).sum())
        effect = 1 + (clusters.size - 1) * self.prior_correlation
        spread = np.maximum(rates * (1 - rates), 1e-12)
        error = np.sqrt(spread * effect / total)
        quantile = t_quantile(0.975, clusters.degrees_of_freedom())
        commoner = np.maximum(rates, 1 - rates)
        return np.asarray(0.7 * effect * commoner / (total * quantile * error * (clusters.size - 1) * influence))

    def _ends(
        self, rates: Floats, effective: Floats, without_errors: float, sizes: Floats, clusters: Clusters
    ) -> tuple[Floats, Floats]:
        degrees = clusters.degrees_of_freedom()
        if self.is_balanced:
            degrees = max(_balanced_clusters(sizes) - 1, 1.0)
        degrees *= (clusters.size / (clusters.size - 1)) ** 2

        def quantile(tail: float) -> float:
            return t_quantile(1 - tail, degrees) if self.uses_t else normal_quantile(1 - tail)

        def ends(tail: float) -> tuple[Floats, Floats]:
            low, high = wilson(rates, effective, quantile(tail))
            square = quantile(tail) ** 2
            low = np.minimum(low, without_errors / (without_errors + square))
            high = np.maximum(high, square / (without_errors + square))
            return np.asarray(low), np.asarray(high)

        low, high = ends(0.025)
        if self.tails == "equal":
            return low, high
        tail = 0.05
        if self.tails == "by clusters":
            tail = max(0.05 * (1 - 1 / clusters.effective), 0.025)
        square = quantile(0.025) ** 2
        perfect = without_errors / (without_errors + square)
        return _with_unequal_tails((low, high), ends(tail), perfect)


def _with_unequal_tails(
    equal_tails: tuple[Floats, Floats], whole_tail: tuple[Floats, Floats], perfect: float
) -> tuple[Floats, Floats]:
    """Intervals that use a whole tail where they can miss on one side only.

    No result excludes rates above the lower end of a perfect result from below, so all errors of the interval at these
    rates are errors of its upper end.
    """
    low, high = equal_tails
    low_of_whole_tail, high_of_whole_tail = whole_tail
    high = np.where(high_of_whole_tail >= perfect, high_of_whole_tail, np.minimum(high, max(perfect, 0.0)))
    low = np.where(low_of_whole_tail <= 1 - perfect, low_of_whole_tail, np.maximum(low, 1 - perfect))
    return low, high


def _pair_weights(sizes: Floats) -> Floats:
    """How much a pair of rows of each cluster counts: nearly the inverse variance of the cluster's mean, squared."""
    return np.asarray(1 / (1 + (sizes - 1) * PRIOR_CORRELATION) ** 2)


def _balanced_clusters(sizes: Floats) -> float:
    """How many clusters of equal size would be as informative about the correlation."""
    weights = _pair_weights(sizes) * sizes * (sizes - 1)
    return float(weights.sum() ** 2 / (weights**2).sum())


def _balanced_correlation(hits: Floats, sizes: Floats, rates: Floats) -> Floats:
    """The mean product of the residuals of two rows of a cluster, over their variance."""
    rate = rates[..., None]
    squares = hits * (1 - rate) ** 2 + (sizes - hits) * rate**2
    products = (hits - rate * sizes) ** 2 - squares
    weights = _pair_weights(sizes)
    pairs = float((weights * sizes * (sizes - 1)).sum())
    spread = rates * (1 - rates)
    total = (weights * products).sum(axis=-1)
    correlation = np.divide(total, pairs * spread, out=np.zeros_like(total), where=spread > 0)
    return np.asarray(np.clip(correlation, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class MonotoneRule:
    """Wilson's interval with the correlation of Fleiss and Cuzick (1979), whose lower end never rises with an error.

    This correlation depends on the data only through the rate and the mean variance within clusters. Every row counts
    equally in both, whatever the size of its cluster. The lower end is the least that the formula gives for all data
    sets that differ from the observed one by errors less, so that one more error never raises it; the upper end is the
    mirror image.
    """

    prior_clusters: float = PRIOR_CLUSTERS / 3
    is_monotone: bool = True
    """Take the least over the data sets with fewer errors."""
    has_unequal_tails: bool = False

    def __call__(self, hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        ends = self._lower_end(hits, sizes, 0.025), 1 - self._lower_end(sizes - hits, sizes, 0.025)
        if not self.has_unequal_tails:
            return ends
        whole_tail = self._lower_end(hits, sizes, 0.05), 1 - self._lower_end(sizes - hits, sizes, 0.05)
        perfect = float(self._lower_end(sizes[None, :], sizes, 0.025)[0])
        return _with_unequal_tails(ends, whole_tail, perfect)

    def _lower_end(self, hits: Floats, sizes: Floats, tail: float) -> Floats:
        clusters = clusters_of(sizes)
        total = float(sizes.sum())
        rates = hits.sum(axis=-1) / total
        # The variance within clusters, without bias if rows of a cluster are independent given its rate.
        pairs = max(total - len(sizes), 1.0)
        within_clusters = hits * (sizes - hits) / sizes
        within = within_clusters.sum(axis=-1) / pairs
        if not self.is_monotone:
            return self._wilson_end(rates, within, total, clusters, tail)
        # The lower end falls with the variance between clusters. Removing all errors of a cluster lowers the variance
        # within clusters by its rate for each error, so the clusters with the highest rates come first.
        order = np.argsort(-hits / sizes, axis=-1, kind="stable")
        removed = np.cumsum(np.take_along_axis(sizes - hits, order, axis=-1), axis=-1) / total
        lowered = np.cumsum(np.take_along_axis(within_clusters, order, axis=-1), axis=-1) / pairs
        # Between two such data sets, all others are on or above the straight line.
        removed, lowered = (_with_points_between(np.pad(steps, ((0, 0), (1, 0)))) for steps in (removed, lowered))
        repaired_rates = np.minimum(rates[:, None] + removed, 1.0)
        repaired_within = np.maximum(within[:, None] - lowered, 0.0)
        lower = self._wilson_end(repaired_rates, repaired_within, total, clusters, tail)
        return np.asarray(lower.min(axis=-1))

    def _wilson_end(self, rates: Floats, within: Floats, total: float, clusters: Clusters, tail: float) -> Floats:
        spread = rates * (1 - rates)
        share_within = np.divide(within, spread, out=np.ones_like(spread), where=spread > 1e-12)
        correlation = np.clip(1 - share_within, 0.0, 1.0)
        information = np.minimum(rates, 1 - rates) * clusters.effective
        weight = information / (information + self.prior_clusters)
        shrunken = weight * correlation + (1 - weight) * PRIOR_CORRELATION
        degrees = max(clusters.effective - 1, 1.0) * (clusters.size / (clusters.size - 1)) ** 2
        quantile = t_quantile(1 - tail, degrees)
        low, _ = wilson(rates, total / (1 + (clusters.size - 1) * shrunken), quantile)
        without_errors = total / (1 + (clusters.size - 1) * LARGEST_CORRELATION)
        return np.asarray(np.minimum(low, without_errors / (without_errors + quantile**2)))


def _with_points_between(steps: Floats, parts: int = 8) -> Floats:
    """The steps, and points that divide the way from each to the next into ``parts`` equal parts."""
    before, after = steps[:, :-1], steps[:, 1:]
    between = [before + (after - before) * part / parts for part in range(1, parts)]
    return np.concatenate([steps, *between], axis=-1)


# Rates and correlations of the beta-binomial posterior. Both grids are finer where the likelihood changes quickly.
_RATE_CELLS = 241
_RATE_ANGLES = (np.arange(_RATE_CELLS) + 0.5) / _RATE_CELLS
_RATES = np.sin(np.pi / 2 * _RATE_ANGLES) ** 2
_CORRELATION_ROOTS = (np.arange(12) + 0.5) / 12
_CORRELATIONS = 0.97 * _CORRELATION_ROOTS**2


@dataclass(frozen=True, slots=True)
class PosteriorRule:
    """Bayesian intervals in a beta-binomial model: Jeffreys' prior of the rate, a uniform prior of the correlation.

    The posterior weighs small clusters more than their rows, because the rows of a large cluster are similar. The
    interval is extended so that it contains the rate over all rows.
    """

    is_centred: bool = False
    """Take only the posterior of the correlation, and average Wilson's distribution of the rate over it."""

    def __call__(self, hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
        posterior = _posterior(hits.astype(np.int64), sizes.astype(np.int64))
        total = float(sizes.sum())
        rates = hits.sum(axis=-1) / total
        edges = np.sin(np.pi / 2 * np.arange(1, _RATE_CELLS) / _RATE_CELLS) ** 2
        if self.is_centred:
            weights = posterior.sum(axis=1)
            weights /= weights.sum(axis=-1, keepdims=True)
            effects = 1 + (float((sizes**2).sum()) / total - 1) * _CORRELATIONS
            errors = np.sqrt(edges * (1 - edges) / total)
            distances = (edges - rates[:, None]) / errors
            below = np.zeros_like(distances)
            for weight, effect in zip(weights.T, effects, strict=True):
                below += weight[:, None] * ndtr(distances / math.sqrt(effect))
        else:
            below = np.cumsum(posterior.sum(axis=2), axis=-1)
            below = (below / below[:, -1:])[:, :-1]
        below = np.pad(below, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))
        low, high = (_quantile(below, level) for level in (0.025, 0.975))
        return np.minimum(low, rates), np.maximum(high, rates)


def _posterior(hits: NDArray[np.int64], sizes: NDArray[np.int64]) -> Floats:
    """The posterior of each data set over rates and correlations, not normalised."""
    # The probability of k right answers of m is B(k + a, m - k + b) / B(a, b), up to a factor.
    precision = (1 - _CORRELATIONS) / _CORRELATIONS
    right = _RATES[:, None] * precision

    def sum_over_clusters(counts: NDArray[np.int64], parameters: Floats) -> Floats:
        """Σ log Γ(count + parameter) - log Γ(parameter), computed once for each number of answers."""
        values, places = np.unique(counts, return_inverse=True)
        table = gammaln(values[:, None] + parameters.ravel()) - gammaln(parameters.ravel())
        frequencies = np.zeros((len(counts), len(values)))
        np.add.at(frequencies, (np.arange(len(counts))[:, None], places.reshape(counts.shape)), 1.0)
        return np.asarray((frequencies @ table).reshape(len(counts), *parameters.shape))

    # The grid of rates is symmetric, so that the parameters of wrong answers are those of right ones in reverse.
    likelihood = sum_over_clusters(hits, right) + sum_over_clusters(sizes - hits, right[::-1])
    likelihood -= (gammaln(sizes[:, None] + precision) - gammaln(precision)).sum(axis=0)
    # Jeffreys' prior is uniform on the scale of the grid of rates; that of the correlations is on a quadratic scale.
    likelihood += np.log(_CORRELATION_ROOTS)
    likelihood -= likelihood.max(axis=(1, 2), keepdims=True)
    return np.asarray(np.exp(likelihood))


def _quantile(below: Floats, level: float) -> Floats:
    """Where distribution functions, given at the edges of the grid of rates, reach the level."""
    upper = np.clip((below < level).sum(axis=-1), 1, _RATE_CELLS)
    each = np.arange(len(below))
    start, end = below[each, upper - 1], below[each, upper]
    angle = (upper - 1 + (level - start) / np.maximum(end - start, 1e-300)) / _RATE_CELLS
    return np.asarray(np.sin(np.pi / 2 * np.clip(angle, 0.0, 1.0)) ** 2)


RULES: dict[str, Interval] = {
    "none": Rule(),
    "dominant clusters do not weaken the estimated correlation": Rule(share_penalty=0.0),
    "the same, and the prior counts two thirds": Rule(share_penalty=0.0, prior_clusters=PRIOR_CLUSTERS * 2 / 3),
    "the same, normal quantiles in place of t": Rule(
        share_penalty=0.0, prior_clusters=PRIOR_CLUSTERS * 2 / 3, uses_t=False
    ),
    "prior correlation of 0.2 that counts a third": Rule(prior_correlation=0.2, prior_clusters=PRIOR_CLUSTERS / 3),
    "the weight of the data grows with the square of the errors": Rule(power=2.0),
    "unequal tails": Rule(tails="unequal"),
    "unequal tails by the number of clusters": Rule(tails="by clusters"),
    "unequal tails, the prior counts a third, dominant clusters do not weaken the correlation": Rule(
        tails="unequal", prior_clusters=PRIOR_CLUSTERS / 3, share_penalty=0.0
    ),
    "balanced correlation": Rule(is_balanced=True, share_penalty=0.0),
    "balanced correlation, limited weight": Rule(is_balanced=True, share_penalty=0.0, is_limited=True),
    "correlation of Fleiss and Cuzick, the prior counts a third": MonotoneRule(is_monotone=False),
    "the same, least over data sets with fewer errors": MonotoneRule(),
    "the same, unequal tails": MonotoneRule(has_unequal_tails=True),
    "Wilson's interval averaged over the beta-binomial posterior of the correlation": PosteriorRule(is_centred=True),
    "beta-binomial posterior of the rate": PosteriorRule(),
}


# --- the simulation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is simulated."""

    data_sets: int
    published: Sequence[str]
    """The names of the published cluster sizes."""
    clusters: Sequence[int]
    """The numbers of clusters of the grid."""
    with_errors: int
    """How many data sets get an additional error in each cluster in turn."""


@dataclass(slots=True)
class Findings:
    """What is found out about one rule."""

    published: list[float] = field(default_factory=list)
    grid: list[float] = field(default_factory=list)
    sizes_matter: list[float] = field(default_factory=list)
    errors: int = 0
    raised: int = 0
    raised_by: float = 0.0
    narrowed: int = 0

    def row(self, name: str, data_sets: int) -> list[str]:
        slack = 2.6 * math.sqrt(0.92 * 0.08 / data_sets)
        above = sum(coverage > 0.97 for coverage in self.published)
        below = sum(coverage < 0.92 - slack for coverage in self.grid)
        cells = [name, above, len(self.published), f"{min(self.grid):.3f}", below]
        cells += [f"{min(self.sizes_matter):.3f}", self.errors, self.raised, f"{self.raised_by:.4f}", self.narrowed]
        return [str(cell) for cell in cells]


def simulate(rules: Mapping[str, Interval], seed: int, extent: Extent) -> list[list[str]]:
    """A row for each rule, all on the same data sets."""
    findings = {name: Findings() for name in rules}
    for index, (sizes, rate, correlation) in enumerate(_published_settings(extent)):
        hits = coverage.draw(sizes, rate, correlation, extent.data_sets, np.random.default_rng([seed, 1, index]))
        for name, rule in rules.items():
            findings[name].published.append(_coverage(rule, hits, sizes, rate))
    rng = np.random.default_rng([seed, 2])
    for sizes, rate, correlation in _grid_settings(extent, rng):
        hits = coverage.draw(sizes, rate, correlation, extent.data_sets, rng)
        for name, rule in rules.items():
            findings[name].grid.append(_coverage(rule, hits, sizes, rate))
    for sizes, hits in coverage.data_for_errors(extent.with_errors, np.random.default_rng([seed, 3])):
        for name, rule in rules.items():
            _add_errors(findings[name], rule, hits, sizes)
    rng = np.random.default_rng([seed, 4])
    for sizes, rates, correlations in _settings_where_sizes_matter(extent):
        hits = draw_unequally(sizes, rates, correlations, extent.data_sets, rng)
        for name, rule in rules.items():
            findings[name].sizes_matter.append(_coverage(rule, hits, sizes, float(rates @ sizes / sizes.sum())))
    return [found.row(name, extent.data_sets) for name, found in findings.items()]


def _published_settings(extent: Extent) -> Iterator[tuple[Floats, float, float]]:
    """The published settings with six or more effective clusters."""
    for sizes in (coverage.published_sizes()[name] for name in extent.published):
        if clusters_of(sizes).effective < 6:
            continue
        for rate in coverage.PUBLISHED_RATES:
            for correlation in coverage.PUBLISHED_CORRELATIONS:
                yield sizes, rate, correlation


def _grid_settings(extent: Extent, rng: np.random.Generator) -> Iterator[tuple[Floats, float, float]]:
    for count in extent.clusters:
        for shape in coverage.SHAPES:
            for size in coverage.SIZES:
                sizes = coverage.sizes_of(shape, count, size, rng)
                for rate in coverage.RATES:
                    for correlation in coverage.CORRELATIONS:
                        yield sizes, rate, correlation


def _settings_where_sizes_matter(extent: Extent) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Sizes, and for each cluster the expected rate and the correlation, which depend on its size.

    The log-odds of a right answer rise or fall by half a unit for each standard deviation of the log size, at a
    correlation of 0.1; or the rate is 0.8 everywhere, and the correlation is 0.05 in one half of the clusters and 0.4
    in the other.
    """
    for sizes in (coverage.published_sizes()[name] for name in extent.published):
        if clusters_of(sizes).effective < 6:
            continue
        scale = np.log(sizes)
        scale = (scale - scale.mean()) / scale.std()
        for slope in (0.5, -0.5):
            yield sizes, 1 / (1 + np.exp(-1.2 - slope * scale)), np.full(len(sizes), 0.1)
        is_large = sizes > np.median(sizes)
        for small, large in ((0.05, 0.4), (0.4, 0.05)):
            yield sizes, np.full(len(sizes), 0.8), np.where(is_large, large, small)


def draw_unequally(
    sizes: Floats, rates: Floats, correlations: Floats, data_sets: int, rng: np.random.Generator
) -> Floats:
    """Data sets from clusters that have their own rates and correlations."""
    spread = (1 - correlations) / correlations
    own = rng.beta(rates * spread, (1 - rates) * spread, (data_sets, len(sizes)))
    return rng.binomial(sizes.astype(np.int64), own).astype(float)


def _coverage(rule: Interval, hits: Floats, sizes: Floats, rate: float) -> float:
    low, high = rule(hits, sizes)
    return float(((low <= rate) & (rate <= high)).mean())


def _add_errors(found: Findings, rule: Interval, hits: Floats, sizes: Floats) -> None:
    """Turn one right answer wrong, in every cluster in turn."""
    places = np.flatnonzero(hits)
    variants = np.repeat(hits[None, :], len(places) + 1, axis=0)
    variants[np.arange(1, len(places) + 1), places] -= 1
    low, high = (np.clip(end, 0, 1) for end in rule(variants, sizes))
    rises = low[1:] - low[0]
    found.errors += len(places)
    found.raised += int((rises > 1e-9).sum())
    found.raised_by = max(found.raised_by, float(rises.max()))
    found.narrowed += int(((high[1:] - low[1:]) < 0.95 * (high[0] - low[0])).sum())


QUICK = Extent(data_sets=10, published=("KoBBQ gender identity", "KoBBQ religion"), clusters=(12,), with_errors=10)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=1000, help="for each setting (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rule", action="append", choices=list(RULES), metavar="NAME", help="only this rule; can be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="a small part only")
    parser.add_argument("--check", action="store_true", help="compare the small part with the committed file")
    parser.add_argument("-o", "--output", type=Path, help="write the table to this file as well")
    options = parser.parse_args(argv)
    is_quick = options.quick or options.check
    extent = QUICK
    command = f"python benchmarks/coverage_alternatives.py --seed {options.seed} --quick"
    if not is_quick:
        extent = Extent(options.data_sets, list(coverage.published_sizes()), coverage.CLUSTERS, 600)
        command = f"python benchmarks/coverage_alternatives.py --seed {options.seed} --data-sets {options.data_sets}"
    rules = RULES
    if options.rule is not None:
        rules = {name: RULES[name] for name in options.rule}
        command += "".join(f" --rule {name!r}" for name in rules)
    rows = simulate(rules, options.seed, extent)
    lines = [f"# {command}", "\t".join(COLUMNS), *("\t".join(row) for row in rows)]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    if options.check:
        committed = (MEASURED / "coverage_alternatives_quick.tsv").read_text(encoding="utf-8")
        print("the same as committed" if text == committed else "NOT the same as committed")
        return 0 if text == committed else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
