"""What each part of the rule for clustered rates contributes: coverage and monotonicity without the part.

    python benchmarks/coverage_alternatives.py [--data-sets 1000] [--seed 1] [--rule NAME] [--quick] [--check] [-o FILE]

The rule for rates in clusters (``lmassay/statistics/clustered_rate.py``) has several parts. This script leaves out one
part at a time, and compares two rules of other kinds. All use the same data sets: those of ``coverage.py``, but only a
part of its grid, and of the published sizes all but KoBBQ as a whole. It prints, for each rule,

- in how many published settings with six or more effective clusters the coverage is above 97 %;
- the least coverage in all settings of the grid, and in how many it is below 92 % (beyond Monte-Carlo error);
- the least coverage on the same published sizes if large clusters are easier or harder than small ones, or if their
  rows are more or less similar. No rule takes this into account, but its interval should still cover the rate over all
  rows;
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
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lmassay.statistics import clustered_rate
from lmassay.statistics.clustered_rate import ClusterSizes
from lmassay.statistics.distributions import t_quantile
from lmassay.statistics.variance import (
    LARGEST_CORRELATION,
    LARGEST_SHARE_PENALTY,
    PRIOR_CLUSTERS,
    PRIOR_CORRELATION,
    clusters_of,
)
from lmassay.statistics.wilson import wilson

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


# --- the rule of lmassay without one of its parts ---------------------------------------------------------------------


def whole_rule(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Compute intervals with the rule of lmassay."""
    return clustered_rate.intervals(hits, clustered_rate.cluster_sizes(sizes))


def equal_tails(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Let both ends miss in 2.5 % of data sets, even where the interval can miss on one side only."""
    return clustered_rate.intervals(hits, replace(clustered_rate.cluster_sizes(sizes), tail_increase=0.0))


def normal_quantiles(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Use normal quantiles instead of Student's t."""
    return clustered_rate.intervals(hits, replace(clustered_rate.cluster_sizes(sizes), degrees=math.inf))


def degrees_of_effective_clusters(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Use the effective number of clusters for the degrees of freedom."""
    design = clustered_rate.cluster_sizes(sizes)
    factor = (design.clusters.size / (design.clusters.size - 1)) ** 2
    degrees = max(design.clusters.effective - 1, 1.0) * factor
    return clustered_rate.intervals(hits, replace(design, degrees=degrees))


def without_limit_of_change(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Give the data their full weight even where one error changes the design effect a lot."""
    return clustered_rate.intervals(hits, replace(clustered_rate.cluster_sizes(sizes), data_weight=1.0))


def _with_lower_ends(
    lower_ends: Callable[[Floats, ClusterSizes, float], Floats], hits: Floats, sizes: Floats
) -> tuple[Floats, Floats]:
    """Compute intervals with other lower ends; the upper ends are their mirror image."""
    design = clustered_rate.cluster_sizes(sizes)

    def ends(some_hits: Floats) -> Floats:
        low = lower_ends(some_hits, design, 0.025)
        of_whole_tail = lower_ends(some_hits, design, 0.025 * (1 + design.tail_increase))
        square = t_quantile(0.975, design.degrees) ** 2
        without_hits = square / (design.effective_without_errors() + square)
        return np.where(low < without_hits, np.minimum(of_whole_tail, without_hits), low)

    return ends(hits), 1 - ends(sizes - hits)


def not_monotone(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Use Wilson's interval without the step that makes it monotone."""

    def lower_ends(some_hits: Floats, design: ClusterSizes, tail: float) -> Floats:
        rates = some_hits.sum(axis=-1) / design.total
        within = (some_hits * (1 - some_hits / design.sizes)).sum(axis=-1) / design.degrees_within
        quantile = t_quantile(1 - tail, design.degrees)
        return clustered_rate.raw_lower_ends(rates, within, design, quantile)

    return _with_lower_ends(lower_ends, hits, sizes)


def lowest_over_fewer_errors(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Use the lowest lower end of all data sets with fewer errors, instead of its mean with the highest."""

    def lower_ends(some_hits: Floats, design: ClusterSizes, tail: float) -> Floats:
        lowest, _ = clustered_rate.monotone_ends(some_hits, design, tail)
        return lowest

    return _with_lower_ends(lower_ends, hits, sizes)


# --- other rules ------------------------------------------------------------------------------------------------------


def cr2_rule(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Use the previous rule: correlation from the CR2 variance, Bell and McCaffrey's degrees of freedom."""
    clusters = clusters_of(sizes)
    total = float(sizes.sum())
    rates = hits.sum(axis=-1) / total
    residuals = hits - rates[..., None] * sizes
    variance = (residuals**2 / (1 - clusters.shares)).sum(axis=-1) / total**2
    independent = rates * (1 - rates) / total
    inflation = np.divide(variance, independent, out=np.ones_like(variance), where=independent > 0)
    correlation = np.clip((inflation - 1) / (clusters.size - 1), 0.0, 1.0)
    information = np.minimum(rates, 1 - rates) * total / clusters.size
    weight = information / (information + PRIOR_CLUSTERS)
    weight = weight / (1 + LARGEST_SHARE_PENALTY * float(clusters.shares.max()) ** 2)
    shrunken = weight * correlation + (1 - weight) * PRIOR_CORRELATION
    degrees = clusters.degrees_of_freedom() * (clusters.size / (clusters.size - 1)) ** 2
    quantile = t_quantile(0.975, degrees)
    low, high = wilson(rates, total / (1 + (clusters.size - 1) * shrunken), quantile)
    without_errors = total / (1 + (clusters.size - 1) * LARGEST_CORRELATION)
    square = quantile**2
    low = np.minimum(low, without_errors / (without_errors + square))
    high = np.maximum(high, square / (without_errors + square))
    return np.asarray(low), np.asarray(high)


# Rates and correlations of the beta-binomial posterior. Both grids are finer where the likelihood changes quickly.
_RATE_CELLS = 241
_RATE_ANGLES = (np.arange(_RATE_CELLS) + 0.5) / _RATE_CELLS
_RATES = np.sin(np.pi / 2 * _RATE_ANGLES) ** 2
_CORRELATION_ROOTS = (np.arange(12) + 0.5) / 12
_CORRELATIONS = 0.97 * _CORRELATION_ROOTS**2


def beta_binomial_posterior(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Compute Bayesian intervals in a beta-binomial model.

    The rate has Jeffreys' prior, the correlation a uniform prior.

    The posterior weighs small clusters more than their rows, because the rows of a large cluster are similar. The
    interval is extended so that it contains the rate over all rows.
    """
    posterior = _posterior(hits.astype(np.int64), sizes.astype(np.int64))
    rates = hits.sum(axis=-1) / sizes.sum()
    below = np.cumsum(posterior.sum(axis=2), axis=-1)
    below = (below / below[:, -1:])[:, :-1]
    below = np.pad(below, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1)))
    low, high = (_quantile(below, level) for level in (0.025, 0.975))
    return np.minimum(low, rates), np.maximum(high, rates)


def _posterior(hits: NDArray[np.int64], sizes: NDArray[np.int64]) -> Floats:
    """Return the posterior of each data set on the grid of rates and correlations, not normalised."""
    # The probability of k right answers of m is B(k + a, m - k + b) / B(a, b), up to a factor.
    precision = (1 - _CORRELATIONS) / _CORRELATIONS
    right = _RATES[:, None] * precision

    def sum_over_clusters(counts: NDArray[np.int64], parameters: Floats) -> Floats:
        """Σ log Γ(count + parameter) - log Γ(parameter), computed once for each number of answers."""
        values, indices = np.unique(counts, return_inverse=True)
        table = gammaln(values[:, None] + parameters.ravel()) - gammaln(parameters.ravel())
        frequencies = np.zeros((len(counts), len(values)))
        np.add.at(frequencies, (np.arange(len(counts))[:, None], indices.reshape(counts.shape)), 1.0)
        return np.asarray((frequencies @ table).reshape(len(counts), *parameters.shape))

    # The grid of rates is symmetric, so that the parameters of wrong answers are those of right ones in reverse.
    likelihood = sum_over_clusters(hits, right) + sum_over_clusters(sizes - hits, right[::-1])
    likelihood -= (gammaln(sizes[:, None] + precision) - gammaln(precision)).sum(axis=0)
    # Jeffreys' prior is uniform on the scale of the grid of rates; that of the correlations is on a quadratic scale.
    likelihood += np.log(_CORRELATION_ROOTS)
    likelihood -= likelihood.max(axis=(1, 2), keepdims=True)
    return np.asarray(np.exp(likelihood))


def _quantile(below: Floats, level: float) -> Floats:
    """Return the rates at which distribution functions, given at the edges of the grid of rates, reach a level."""
    upper = np.clip((below < level).sum(axis=-1), 1, _RATE_CELLS)
    data_sets = np.arange(len(below))
    start, end = below[data_sets, upper - 1], below[data_sets, upper]
    angle = (upper - 1 + (level - start) / np.maximum(end - start, 1e-300)) / _RATE_CELLS
    return np.asarray(np.sin(np.pi / 2 * np.clip(angle, 0.0, 1.0)) ** 2)


RULES: dict[str, Interval] = {
    "the rule of lmassay": whole_rule,
    "equal tails": equal_tails,
    "not monotone": not_monotone,
    "lowest over data sets with fewer errors": lowest_over_fewer_errors,
    "no limit to what one error changes": without_limit_of_change,
    "degrees of freedom of the effective clusters": degrees_of_effective_clusters,
    "normal quantiles": normal_quantiles,
    "CR2 variance": cr2_rule,
    "beta-binomial posterior": beta_binomial_posterior,
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
    sizes: Sequence[int]
    """Their mean sizes."""
    with_errors: int
    """How many data sets get an additional error in each cluster in turn."""


@dataclass(slots=True)
class Findings:
    """The results of one rule; ``row`` has them in the order of ``COLUMNS``."""

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
    """Return a row for each rule; all rules are applied to the same data sets."""
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
    return [of_rule.row(name, extent.data_sets) for name, of_rule in findings.items()]


def _published_settings(extent: Extent) -> Iterator[tuple[Floats, float, float]]:
    """Yield the sizes, rates and correlations of the published settings with six or more effective clusters."""
    for sizes in (coverage.published_sizes()[name] for name in extent.published):
        if clusters_of(sizes).effective < 6:
            continue
        for rate in coverage.PUBLISHED_RATES:
            for correlation in coverage.PUBLISHED_CORRELATIONS:
                yield sizes, rate, correlation


def _grid_settings(extent: Extent, rng: np.random.Generator) -> Iterator[tuple[Floats, float, float]]:
    for count in extent.clusters:
        for shape in coverage.SHAPES:
            for size in extent.sizes:
                sizes = coverage.sizes_of(shape, count, size, rng)
                for rate in coverage.RATES:
                    for correlation in coverage.CORRELATIONS:
                        yield sizes, rate, correlation


def _settings_where_sizes_matter(extent: Extent) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield sizes, and for each cluster the expected rate and the correlation, which depend on its size.

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
    """Draw data sets from clusters that have their own rates and correlations."""
    spread = (1 - correlations) / correlations
    own = rng.beta(rates * spread, (1 - rates) * spread, (data_sets, len(sizes)))
    return rng.binomial(sizes.astype(np.int64), own).astype(float)


def _coverage(rule: Interval, hits: Floats, sizes: Floats, rate: float) -> float:
    low, high = rule(hits, sizes)
    return float(((low <= rate) & (rate <= high)).mean())


def _add_errors(findings: Findings, rule: Interval, hits: Floats, sizes: Floats) -> None:
    """Turn one right answer wrong, in every cluster in turn."""
    indices = np.flatnonzero(hits)
    variants = np.repeat(hits[None, :], len(indices) + 1, axis=0)
    variants[np.arange(1, len(indices) + 1), indices] -= 1
    low, high = (np.clip(end, 0, 1) for end in rule(variants, sizes))
    rises = low[1:] - low[0]
    findings.errors += len(indices)
    findings.raised += int((rises > 1e-9).sum())
    findings.raised_by = max(findings.raised_by, float(rises.max()))
    findings.narrowed += int(((high[1:] - low[1:]) < 0.95 * (high[0] - low[0])).sum())


# A part of the grid of ``coverage.py``, because all rules on the whole grid would take hours.
GRID_CLUSTERS = (5, 12, 40)
GRID_SIZES = (12,)
QUICK = Extent(
    data_sets=10, published=("KoBBQ gender identity", "KoBBQ religion"), clusters=(12,), sizes=(12,), with_errors=10
)


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
        published = [name for name in coverage.published_sizes() if name != "KoBBQ, whole"]
        extent = Extent(options.data_sets, published, GRID_CLUSTERS, GRID_SIZES, 300)
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
