"""Do 95 % intervals cover 95 %? Coverage and width by simulation, for the old rule, the new one and textbook rules.

    python benchmarks/coverage.py [--data-sets 5000] [--seed 1] [--only rates|published|errors|means|differences]
                                  [--processes N]

Rates are drawn from a beta-binomial model: every cluster (template, noun, ...) has its own rate, and the intra-
cluster correlation says how much these vary. The grids are listed below. Targets, printed with the result:

- rates: mean coverage at least 94 %, no setting below 92 % beyond Monte-Carlo error (2.6 standard errors);
- published cluster sizes (KoBBQ and BBQ): at least 92 %; above 97 % (beyond Monte-Carlo error) only with fewer than
  six effective clusters;
- errors: one more error never raises the lower bound and never narrows the interval by more than 5 %;
- means of concentrated scores: from 50 scores on at most 1.1 times as wide as Student's interval.

Other means and differences are printed without a target, as are rates below 5 %. Exits with 1 if a target is missed.
The old rule is that of lmassay 0.1 (Wilson on an effective number of examples below ten informative clusters, Student's
t below 30 clusters, else the percentile bootstrap, here with 500 draws).
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lmassay.statistics.estimation import estimate, rate_intervals
from lmassay.statistics.terms import Term
from lmassay.statistics.variance import clusters_of
from lmassay.statistics.wilson import wilson

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rule = Callable[[Floats, Floats], tuple[Floats, Floats]]

CLUSTERS = (3, 5, 8, 12, 20, 40, 100)
SIZES = (4, 12, 40)
SHAPES = ("equal", "log-normal", "one giant")
RATES = (0.05, 0.2, 0.5, 0.8, 0.95)
CORRELATIONS = (0.0, 0.1, 0.3, 0.5)
PUBLISHED_RATES = (0.6, 0.8, 0.95)
PUBLISHED_CORRELATIONS = (0.1, 0.2, 0.3)
# Rows of each template in ambiguous contexts: KoBBQ's 76,568 samples and six files of BBQ, "1x480" is one template
# with 480 rows. Versions of a KoBBQ template (a to d) belong together.
PUBLISHED = {
    "KoBBQ age": "1x288 1x240 1x216 2x144 1x84 1x80 1x72 4x64 1x48 4x36 1x32 1x24 2x16",
    "KoBBQ disability status": "1x480 1x108 1x84 2x48 1x40 2x36 1x32 2x24 6x16 3x8",
    "KoBBQ gender identity": "1x80 1x64 2x36 1x32 2x24 1x12 2x8 15x4",
    "KoBBQ physical appearance": "1x432 1x324 3x216 1x108 1x100 1x72 1x64 5x36 1x32 2x16 1x12 2x8",
    "KoBBQ race, nationality": "1x3360 1x2376 1x2016 1x1784 1x1616 1x1448 1x1008 1x888 2x840 1x712 1x692 1x640 1x616 "
    "1x600 1x576 1x568 1x560 1x516 1x428 1x420 1x396 1x336 1x324 1x312 1x308 1x288 1x240 1x208 1x192 2x184 1x156 1x136 "
    "1x88 1x80 1x64 1x44 1x36 1x32 2x24 2x8",
    "KoBBQ religion": "1x64 1x48 1x36 1x32 1x24 4x16 4x12 3x8 4x4",
    "KoBBQ ses": "1x900 1x640 1x400 1x264 1x200 5x100 1x80 1x64 2x48 1x40 1x36 1x32 7x24 2x16 1x12",
    "KoBBQ sexual orientation": "1x96 1x48 2x32 1x12 7x8",
    "KoBBQ domestic area of origin": "1x40 2x36 1x32 3x24 8x16 2x12 3x8 2x4",
    "KoBBQ family structure": "1x264 1x64 1x32 1x24 4x16 2x12 6x8 7x4",
    "KoBBQ political orientation": "2x36 1x24 2x16 1x8 5x4",
    "KoBBQ educational background": "1x256 2x192 1x144 1x96 2x80 1x64 5x48 2x36 3x32 3x24 3x12",
    "BBQ nationality": "12x100 2x60 11x20",
    "BBQ age": "2x168 1x144 2x140 2x100 3x80 4x64 4x48 4x36 3x16",
    "BBQ disability status": "1x120 1x84 1x64 1x60 4x36 1x32 7x24 5x16 2x8 1x6 1x4",
    "BBQ religion": "2x60 1x40 22x20",
    "BBQ sexual orientation": "4x24 21x16",
    "BBQ physical appearance": "1x100 1x64 2x48 1x40 9x36 1x24 8x16 1x8 1x4",
}


# --- rules to compare -------------------------------------------------------------------------------------------------


def old_rule(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Compute intervals with the rule of lmassay 0.1, which changes at ten informative clusters and at 30 clusters."""
    n, count = sizes.sum(), len(sizes)
    rates = hits.sum(axis=1) / n
    size = (sizes**2).sum() / n
    informative = np.minimum((hits > 0).sum(axis=1), (hits < sizes).sum(axis=1))
    residuals = ((hits - rates[:, None] * sizes) ** 2).sum(axis=1) * count / (count - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.clip((residuals / (n * rates * (1 - rates)) - 1) / max(size - 1, 1e-9), 0, 1)
    correlation = np.where(informative > 0, np.nan_to_num(correlation), 0.0)
    # The estimate, shrunken towards 1 by one pseudo-cluster.
    shrunken = (correlation * informative + 1) / (informative + 1)
    with_few = wilson(rates, n / (1 + (size - 1) * shrunken), 1.959964)
    with_many = t_on_ratio(hits, sizes) if count < 30 else bootstrap(hits, sizes)
    is_few = informative < 10
    low, high = (np.where(is_few, few, many) for few, many in zip(with_few, with_many, strict=True))
    return low, high


def bootstrap(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return percentiles of the rate when clusters are resampled; all data sets share one set of 500 draws."""
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), 500).astype(float)
    rates = (hits @ drawn.T) / (drawn @ sizes)
    low, high = np.quantile(rates, [0.025, 0.975], axis=1)
    return low, high


def t_on_ratio(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Student's t with one degree of freedom less than clusters: the usual cluster-robust interval (CR1)."""
    n, count = sizes.sum(), len(sizes)
    rates = hits.sum(axis=1) / n
    variance = ((hits - rates[:, None] * sizes) ** 2).sum(axis=1) * count / (count - 1) / n**2
    half = stdtrit(count - 1, 0.975) * np.sqrt(variance)
    return rates - half, rates + half


def cr2(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """CR2 variance with Bell and McCaffrey's degrees of freedom."""
    clusters = clusters_of(sizes)
    n = sizes.sum()
    rates = hits.sum(axis=1) / n
    variance = ((hits - rates[:, None] * sizes) ** 2 / (1 - clusters.shares)).sum(axis=1) / n**2
    half = stdtrit(clusters.degrees_of_freedom(), 0.975) * np.sqrt(variance)
    return rates - half, rates + half


def independent(hits: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval as if all rows were independent."""
    n = sizes.sum()
    low, high = wilson(hits.sum(axis=1) / n, np.full(len(hits), n), 1.959964)
    return np.asarray(low), np.asarray(high)


RULES: dict[str, Rule] = {
    "new": rate_intervals,
    "old": old_rule,
    "t (CR1)": t_on_ratio,
    "t (CR2, BM)": cr2,
    "Wilson, independent": independent,
}


# --- simulated data ---------------------------------------------------------------------------------------------------


def sizes_of(shape: str, count: int, size: int, rng: np.random.Generator) -> Floats:
    if shape == "equal":
        return np.full(count, float(size))
    if shape == "one giant":
        # One cluster has half of all rows.
        return np.array([float(size * (count - 1)), *[float(size)] * (count - 1)])
    drawn = np.exp(rng.normal(0, 1, count))
    return np.asarray(np.maximum(1.0, np.round(drawn / drawn.mean() * size)))


def published_sizes() -> dict[str, Floats]:
    """Return the cluster sizes of each published data set, and of all of KoBBQ."""
    sizes_by_name = {}
    for name, text in PUBLISHED.items():
        sizes: list[float] = []
        for part in text.split():
            times, size = part.split("x")
            sizes += [float(size)] * int(times)
        sizes_by_name[name] = np.array(sizes)
    kobbq = [sizes for name, sizes in sizes_by_name.items() if name.startswith("KoBBQ")]
    return {"KoBBQ, whole": np.concatenate(kobbq), **sizes_by_name}


def draw(sizes: Floats, rate: float, correlation: float, data_sets: int, rng: np.random.Generator) -> Floats:
    rows = sizes.astype(np.int64)
    if correlation == 0:
        return rng.binomial(rows, rate, (data_sets, len(rows))).astype(float)
    spread = (1 - correlation) / correlation
    own = rng.beta(rate * spread, (1 - rate) * spread, (data_sets, len(rows)))
    return rng.binomial(rows, own).astype(float)


@dataclass(frozen=True, slots=True)
class Simulation:
    """Many data sets of one setting: ``hits`` has a row for each data set and a column for each cluster."""

    group: tuple[str, str]
    """The row of the printed table to which the setting belongs."""
    title: str
    sizes: Floats
    rate: float
    hits: Floats


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of a grid, with the coverage and the mean width of every rule."""

    group: tuple[str, str]
    title: str
    effective: float
    coverage: dict[str, float]
    width: dict[str, float]


def measure(simulation: Simulation) -> Setting:
    coverage, width = {}, {}
    for name, rule in RULES.items():
        low, high = rule(simulation.hits, simulation.sizes)
        coverage[name] = float(((low <= simulation.rate) & (simulation.rate <= high)).mean())
        width[name] = float((np.clip(high, 0, 1) - np.clip(low, 0, 1)).mean())
    effective = clusters_of(simulation.sizes).effective
    return Setting(simulation.group, simulation.title, effective, coverage, width)


def measure_all(simulations: Iterable[Simulation], executor: Executor) -> Iterator[Setting]:
    """Measure the simulations in parallel. They are drawn one after the other, so the numbers are always the same.

    Only a few simulations are in memory at a time, because all of them together need more than a gigabyte.
    """
    remaining = iter(simulations)
    while batch := list(itertools.islice(remaining, 32)):
        yield from executor.map(measure, batch)


# --- what is shown ----------------------------------------------------------------------------------------------------


def simulated_rates(data_sets: int, rng: np.random.Generator) -> Iterator[Simulation]:
    for count in CLUSTERS:
        cluster_range = "3 to 8" if count <= 8 else "12 to 100"
        for shape in SHAPES:
            for size in SIZES:
                sizes = sizes_of(shape, count, size, rng)
                for rate in RATES:
                    for correlation in CORRELATIONS:
                        title = f"{count} clusters of {size}, {shape}, rate {rate}, correlation {correlation}"
                        hits = draw(sizes, rate, correlation, data_sets, rng)
                        yield Simulation((cluster_range, shape), title, sizes, rate, hits)


def rates(data_sets: int, rng: np.random.Generator, executor: Executor) -> bool:
    print(f"## Rates: {data_sets:,} data sets for each setting\n")
    settings = list(measure_all(simulated_rates(data_sets, rng), executor))
    _print_table(settings)
    mean = float(np.mean([setting.coverage["new"] for setting in settings]))
    slack = 2.6 * (0.92 * 0.08 / data_sets) ** 0.5
    low = [setting for setting in settings if setting.coverage["new"] < 0.92 - slack]
    print(f"\nnew rule, {len(settings):,} settings: mean {mean:.3f}, least {_least(settings):.3f}")
    for setting in sorted(settings, key=lambda setting: setting.coverage["new"])[:3]:
        print(f"  {setting.coverage['new']:.3f}  {setting.title}")
    is_mean_met = _target("mean coverage at least 94 %", mean >= 0.94)
    return _target(f"no setting below 92 % (beyond {slack:.3f}): {len(low)} are", not low) and is_mean_met


def simulated_rare_rates(data_sets: int, rng: np.random.Generator) -> Iterator[Simulation]:
    for rate in (0.005, 0.01, 0.02):
        for count in (8, 20, 100):
            for shape in SHAPES:
                sizes = sizes_of(shape, count, 12, rng)
                for correlation in CORRELATIONS:
                    hits = draw(sizes, rate, correlation, data_sets, rng)
                    yield Simulation((f"rate {rate}", shape), "", sizes, rate, hits)


def rare(data_sets: int, rng: np.random.Generator, executor: Executor) -> None:
    print("\n## Rates below 5 %, without a target\n")
    _print_table(list(measure_all(simulated_rare_rates(data_sets, rng), executor)))


def simulated_published_sizes(data_sets: int, rng: np.random.Generator) -> Iterator[Simulation]:
    for name, sizes in published_sizes().items():
        for rate in PUBLISHED_RATES:
            for correlation in PUBLISHED_CORRELATIONS:
                hits = draw(sizes, rate, correlation, data_sets, rng)
                yield Simulation((name, str(len(sizes))), name, sizes, rate, hits)


def published(data_sets: int, rng: np.random.Generator, executor: Executor) -> bool:
    print(f"\n## Rates on published cluster sizes: {data_sets:,} data sets for each setting\n")
    names = list(RULES)
    print(f"rates {PUBLISHED_RATES}, correlations {PUBLISHED_CORRELATIONS}; least and largest coverage\n")
    print("| data | clusters | effective | " + " | ".join(names) + " |")
    print("|---|---|---|" + "---|" * len(names))
    least, largest, wide, total = 1.0, 0.0, 0, 0
    # As for the grid: a share that is estimated from few data sets can be above 97 % by chance.
    slack = 2.6 * (0.97 * 0.03 / data_sets) ** 0.5
    measured = measure_all(simulated_published_sizes(data_sets, rng), executor)
    for (name, clusters), group in itertools.groupby(measured, key=lambda setting: setting.group):
        settings = list(group)
        cells = []
        for rule in names:
            covered = [setting.coverage[rule] for setting in settings]
            cells.append(f"{min(covered):.3f} to {max(covered):.3f}")
        effective = settings[0].effective
        print(f"| {name} | {clusters} | {effective:.1f} | " + " | ".join(cells) + " |")
        covered = [setting.coverage["new"] for setting in settings]
        least = min(least, *covered)
        if effective >= 6:
            total += len(covered)
            largest = max(largest, *covered)
            wide += sum(coverage > 0.97 + slack for coverage in covered)
    print()
    is_least_met = _target(f"at least 92 %: the least is {least:.3f}", least >= 0.92)
    statement = (
        f"above 97 % (beyond {slack:.3f}) only with fewer than six effective clusters: {wide} of {total} settings with "
        f"more are; the largest coverage is {largest:.3f}"
    )
    return _target(statement, wide == 0) and is_least_met


def errors(data_sets: int, rng: np.random.Generator) -> bool:
    """Turn one right answer of a data set wrong, in every cluster in turn."""
    print("\n## One more error\n")
    tried: dict[str, int] = {}
    raised: dict[str, int] = {}
    narrowed: dict[str, int] = {}
    most: dict[str, float] = {}
    for sizes, hits in data_for_errors(max(data_sets // 5, 100), rng):
        indices = np.flatnonzero(hits)
        variants = np.repeat(hits[None, :], len(indices) + 1, axis=0)
        variants[np.arange(1, len(indices) + 1), indices] -= 1
        for name in ("new", "old", "t (CR2, BM)"):
            low, high = (np.clip(end, 0, 1) for end in RULES[name](variants, sizes))
            rise = low[1:] - low[0]
            narrowing = (high[1:] - low[1:]) < 0.95 * (high[0] - low[0])
            tried[name] = tried.get(name, 0) + len(indices)
            raised[name] = raised.get(name, 0) + int((rise > 1e-9).sum())
            narrowed[name] = narrowed.get(name, 0) + int(narrowing.sum())
            most[name] = max(most.get(name, 0.0), float(rise.max()))
    print("| rule | errors tried | lower bound rises | by at most | interval narrower by more than 5 % |")
    print("|---|---|---|---|---|")
    for name in tried:
        print(f"| {name} | {tried[name]:,} | {raised[name]:,} | {most[name]:.4f} | {narrowed[name]:,} |")
    print()
    is_lower_met = _target(f"the lower bound never rises: it did {raised['new']:,} times", raised["new"] == 0)
    return (
        _target(f"never narrower by more than 5 %: it was {narrowed['new']:,} times", narrowed["new"] == 0)
        and is_lower_met
    )


def data_for_errors(count: int, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats]]:
    """Yield data sets with more right than wrong answers, with clusters of all shapes."""
    made = 0
    while made < count:
        shape = SHAPES[int(rng.integers(len(SHAPES)))]
        sizes = sizes_of(shape, int(rng.choice(CLUSTERS)), int(rng.choice(SIZES)), rng)
        rate, correlation = float(rng.choice([0.6, 0.8, 0.95, 0.99])), float(rng.choice(CORRELATIONS))
        (hits,) = draw(sizes, rate, correlation, 1, rng)
        if 2 * (hits.sum() - 1) >= sizes.sum():
            made += 1
            yield sizes, hits


MEANS_ROWS = (5, 10, 30, 50, 100, 200)
# From this many concentrated scores on, an interval may be wider than Student's by at most this factor.
CONCENTRATED_ROWS, CONCENTRATED_WIDTH = 50, 1.1


def score_makers(rng: np.random.Generator) -> dict[str, tuple[Callable[[int], Floats], float]]:
    """Return by name a function that draws n scores between 0 and 1, and the mean of its distribution."""

    def mixture(n: int) -> Floats:
        return np.where(rng.random(n) < 0.9, rng.beta(60, 0.6, n), rng.beta(6, 2, n))

    def mostly_zero(n: int) -> Floats:
        return np.where(rng.random(n) < 0.9, 0.0, rng.beta(3, 2, n))

    def mostly_one(n: int) -> Floats:
        return np.where(rng.random(n) < 0.05, 0.0, 1 - 0.001 * rng.random(n))

    def beta(mean: float, deviation: float) -> tuple[Callable[[int], Floats], float]:
        total = mean * (1 - mean) / deviation**2 - 1
        return lambda n: rng.beta(mean * total, (1 - mean) * total, n), mean

    return {
        "close to 1 (mixture)": (mixture, 0.9 * 60 / 60.6 + 0.1 * 0.75),
        "close to 1 (beta)": beta(0.97, 0.07),
        "90 % zeros": (mostly_zero, 0.1 * 0.6),
        "nearly 1, 5 % zeros": (mostly_one, 0.95 * 0.9995),
        "concentrated, 0.95 ± 0.03": beta(0.95, 0.03),
        "concentrated, 0.1 ± 0.05": beta(0.1, 0.05),
        "middle, chrF-like": beta(0.5, 0.15),
        "uniform": (rng.random, 0.5),
    }


def means(data_sets: int, rng: np.random.Generator) -> bool:
    print("\n## Means of scores between 0 and 1, independent examples\n")
    # Every data set is estimated by itself, which is slow, so there are fewer of them.
    fewer_data_sets = max(data_sets // 5, 100)
    print("coverage of the new rule, of Student's t, and median of the new width relative to Student's\n")
    print("| scores | " + " | ".join(f"n = {n}" for n in MEANS_ROWS) + " |")
    print("|---|" + "---|" * len(MEANS_ROWS))
    widest = 0.0
    for name, (make, mean) in score_makers(rng).items():
        cells = []
        for n in MEANS_ROWS:
            covered, covered_by_t, relative = mean_coverage(make, mean, n, fewer_data_sets)
            cells.append(f"{covered:.3f}, {covered_by_t:.3f}, {relative:.2f}")
            if name.startswith("concentrated") and n >= CONCENTRATED_ROWS:
                widest = max(widest, relative)
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()
    statement = f"concentrated scores, n ≥ {CONCENTRATED_ROWS}: at most {CONCENTRATED_WIDTH} times Student's width"
    return _target(f"{statement}: {widest:.2f}", widest <= CONCENTRATED_WIDTH)


def mean_coverage(make: Callable[[int], Floats], mean: float, n: int, data_sets: int) -> tuple[float, float, float]:
    """Return the coverage of the new rule and of Student's t, and the median of the new width relative to t's."""
    covered = covered_by_t = 0
    relative = []
    for _ in range(data_sets):
        values = make(n)
        low, high = estimate([Term(values)], bounds=(0.0, 1.0)).interval()
        assert low is not None
        assert high is not None
        covered += low <= mean <= high
        half = float(stdtrit(n - 1, 0.975)) * float(values.std(ddof=1)) / n**0.5
        covered_by_t += abs(float(values.mean()) - mean) <= half
        if half > 0:
            relative.append((high - low) / (2 * half))
    return covered / data_sets, covered_by_t / data_sets, float(np.median(relative)) if relative else float("inf")


def differences(data_sets: int, rng: np.random.Generator) -> None:
    """Print the coverage of diff-bias: answers are stereotyped (1), against the stereotype (-1) or unknown (0)."""
    print("\n## Diff-bias on published cluster sizes, new rule, without a target\n")
    fewer_data_sets = max(data_sets // 20, 50)
    print("| data | effective | accuracy 0.6 | accuracy 0.95 | accuracy 0.985 |")
    print("|---|---|---|---|---|")
    for name, sizes in published_sizes().items():
        if sizes.sum() > 5_000:
            continue
        rows = sizes.astype(np.int64)
        labels = np.repeat(np.arange(len(rows)), rows)
        cells = []
        for accuracy in (0.6, 0.95, 0.985):
            shares = np.array([accuracy, (1 - accuracy) * 0.65, (1 - accuracy) * 0.35])
            covered = 0
            for _ in range(fewer_data_sets):
                # A Dirichlet-multinomial model with an intra-cluster correlation of 0.2.
                own = rng.dirichlet(shares * 4, len(rows))
                counts = rng.multinomial(rows, own)
                values = np.concatenate([np.repeat([0.0, 1.0, -1.0], cluster) for cluster in counts])
                low, high = estimate([Term(values, 1.0, [labels])], bounds=(-1.0, 1.0)).interval()
                covered += low is not None and high is not None and low <= shares[1] - shares[2] <= high
            cells.append(f"{covered / fewer_data_sets:.3f}")
        print(f"| {name} | {clusters_of(sizes).effective:.1f} | " + " | ".join(cells) + " |")


def _print_table(settings: list[Setting]) -> None:
    groups: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        groups.setdefault(setting.group, []).append(setting)
    names = list(RULES)
    print("mean and least coverage, mean width relative to the new rule\n")
    print("| clusters | sizes | " + " | ".join(names) + " |")
    print("|---|---|" + "---|" * len(names))
    for (group, shape), of_group in sorted(groups.items()):
        cells = []
        for name in names:
            covered = [setting.coverage[name] for setting in of_group]
            relative = np.mean([setting.width[name] / setting.width["new"] for setting in of_group])
            cells.append(f"{np.mean(covered):.3f}, {min(covered):.3f}, {relative:.2f}")
        print(f"| {group} | {shape} | " + " | ".join(cells) + " |")


def _least(settings: list[Setting]) -> float:
    return min(setting.coverage["new"] for setting in settings)


def _target(statement: str, is_met: bool) -> bool:
    print(f"{'met   ' if is_met else 'MISSED'}  {statement}")
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=5_000, help="data sets for each setting (default: 5000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["rates", "published", "errors", "means", "differences"])
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="default: one for each core")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as executor:
        return simulate_all(options, executor)


def simulate_all(options: argparse.Namespace, executor: Executor) -> int:
    def rng(part: int) -> np.random.Generator:
        """Each part has its own generator, so that its numbers are the same alone and with the others."""
        return np.random.default_rng([options.seed, part])

    is_met = True
    if options.only in (None, "rates"):
        is_met &= rates(options.data_sets, rng(1), executor)
        rare(options.data_sets // 5, rng(2), executor)
    if options.only in (None, "published"):
        is_met &= published(options.data_sets, rng(3), executor)
    if options.only in (None, "errors"):
        is_met &= errors(options.data_sets, rng(4))
    if options.only in (None, "means"):
        is_met &= means(options.data_sets, rng(5))
    if options.only in (None, "differences"):
        differences(options.data_sets, rng(6))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
