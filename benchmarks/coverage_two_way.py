"""Do 95 % intervals cover 95 % where rows share a noun and a verb? Coverage and width by simulation.

    python benchmarks/coverage_two_way.py [--data-sets 200] [--seed 1]

Every noun and every verb makes its rows easier or harder (a logistic model with crossed random effects), and all nouns
are combined with all verbs, as in template data. What an interval should cover is the rate over all nouns and verbs
that could have been drawn. Three numbers are simulated:

- a rate, as TSE of one construction;
- the mean of three constructions that have the same nouns and verbs, but not the same difficulty;
- the paired difference of two models on the same rows. The effects of nouns and verbs on the difference are drawn
  separately, so the models differ in which nouns and verbs they find hard.

Targets: coverage of the intervals clustered by noun and verb is at least 94 % on average, and below 92 % in no setting
beyond Monte-Carlo error (2.6 standard errors). Intervals clustered by noun only are printed without a target. Exits
with 1 if a target is missed. About two minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmassay.statistics.estimation import Estimate, estimate
from lmassay.statistics.intervals import mean_estimate
from lmassay.statistics.terms import Term

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kind = Literal["rate", "mean of constructions", "difference"]

VERBS = (2, 3, 5, 8, 12, 20)
NOUNS = (10, 30)
RATES = (0.6, 0.93)
# Standard deviations of the effects of nouns and of verbs, in logits.
SPREADS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 2.0))
# Rows of each noun with each verb; the frequent verb, as is/are, has four times as many.
ROWS = 4
FREQUENT = 4
CONSTRUCTIONS = (-0.7, 0.0, 0.7)
MEAN_TARGET, LEAST_TARGET = 0.94, 0.92
STANDARD_ERRORS = 2.6
# Gauss-Hermite quadrature of a standard normal variable.
POINTS, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


@dataclass(frozen=True, slots=True)
class Setting:
    """One design and how much nouns and verbs matter in it."""

    kind: Kind
    verbs: int
    nouns: int
    rate: float
    spreads: tuple[float, float]
    has_frequent_verb: bool

    @property
    def spread(self) -> float:
        """The standard deviation of the sum of both effects."""
        return float(np.hypot(*self.spreads))


@dataclass(slots=True)
class Tally:
    """How often intervals covered, and how wide they were."""

    covered: list[bool] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, estimated: Estimate, truth: float) -> None:
        low, high = estimated.interval()
        if low is None or high is None:
            # All differences are 0 in a few data sets with many equal answers; then there is nothing to cover with.
            return
        self.covered.append(low <= truth <= high)
        self.widths.append(high - low)

    @property
    def coverage(self) -> float:
        return float(np.mean(self.covered))

    @property
    def width(self) -> float:
        return float(np.mean(self.widths))


def settings() -> Iterator[Setting]:
    for verbs in VERBS:
        for nouns in NOUNS:
            for spreads in SPREADS:
                for has_frequent_verb in (False, True):
                    for rate in RATES:
                        yield Setting("rate", verbs, nouns, rate, spreads, has_frequent_verb)
                # Fewer settings of the other two numbers, because they take longer.
                if verbs in (3, 8, 20):
                    yield Setting("mean of constructions", verbs, nouns, RATES[1], spreads, True)
                    yield Setting("difference", verbs, nouns, RATES[0], spreads, True)


def mean_rate(intercept: float, spread: float) -> float:
    """Return the rate over all nouns and verbs: the mean of a logistic function of a normal variable, by quadrature."""
    return float((WEIGHTS * sigmoid(intercept + spread * POINTS)).sum() / WEIGHTS.sum())


@cache
def intercept_of(rate: float, spread: float) -> float:
    """Return the intercept for which :func:`mean_rate` is this rate, by bisection."""
    low, high = -30.0, 30.0
    for _ in range(80):
        middle = (low + high) / 2
        if mean_rate(middle, spread) < rate:
            low = middle
        else:
            high = middle
    return middle


def sigmoid(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logits)))


def simulate(setting: Setting, data_sets: int, rng: np.random.Generator) -> tuple[Tally, Tally]:
    """Return the tallies of intervals clustered by noun and verb, and by noun only."""
    nouns, verbs = (part.ravel() for part in np.indices((setting.nouns, setting.verbs)))
    rows = np.full(len(nouns), float(ROWS))
    if setting.has_frequent_verb:
        rows[verbs == 0] *= FREQUENT
    intercept = intercept_of(setting.rate, setting.spread)
    both, by_noun = Tally(), Tally()
    for _ in range(data_sets):
        effects = drawn_effects(setting, nouns, verbs, rng)
        if setting.kind == "rate":
            shares = drawn_shares(intercept + effects, rows, rng)
            truth = setting.rate
            for tally, clusters in ((both, [nouns, verbs]), (by_noun, [nouns])):
                tally.add(mean_estimate(shares, clusters, weights=rows), truth)
        elif setting.kind == "mean of constructions":
            means = [drawn_shares(intercept + shift + effects, rows, rng) for shift in CONSTRUCTIONS]
            truth = float(np.mean([mean_rate(intercept + shift, setting.spread) for shift in CONSTRUCTIONS]))
            for tally, clusters in ((both, [nouns, verbs]), (by_noun, [nouns])):
                tally.add(mean_of_constructions(means, clusters, rows), truth)
        else:
            other = drawn_effects(setting, nouns, verbs, rng)
            changes = drawn_shares(intercept + other, rows, rng) - drawn_shares(intercept + effects, rows, rng)
            for tally, clusters in ((both, [nouns, verbs]), (by_noun, [nouns])):
                tally.add(estimate([Term(changes, 1.0, clusters, rows, step=1.0)], is_difference=True), 0.0)
    return both, by_noun


def drawn_effects(setting: Setting, nouns: Ints, verbs: Ints, rng: np.random.Generator) -> Floats:
    noun_spread, verb_spread = setting.spreads
    of_nouns = noun_spread * rng.standard_normal(setting.nouns)
    of_verbs = verb_spread * rng.standard_normal(setting.verbs)
    return of_nouns[nouns] + of_verbs[verbs]


def drawn_shares(logits: Floats, rows: Floats, rng: np.random.Generator) -> Floats:
    """Draw the share of right rows of each noun and verb."""
    return np.asarray(rng.binomial(rows.astype(np.int64), sigmoid(logits)) / rows)


def mean_of_constructions(means: Sequence[Floats], clusters: Sequence[Ints], rows: Floats) -> Estimate:
    terms = [Term(shares, 1 / len(means), clusters, rows, weights_are_counts=True) for shares in means]
    return estimate(terms, bounds=(0.0, 1.0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-sets", type=int, default=200, help="data sets in each setting")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    simulated = [(setting, *simulate(setting, arguments.data_sets, rng)) for setting in settings()]

    print(f"{'number':<22} {'verbs':>5}  {'noun and verb: mean, least, width':>34}  {'noun only':>21}")
    for kind in dict.fromkeys(setting.kind for setting, _, _ in simulated):
        for verbs in VERBS:
            chosen = []
            for setting, both, by_noun in simulated:
                if (setting.kind, setting.verbs) == (kind, verbs):
                    chosen.append((both, by_noun))
            if not chosen:
                continue
            cells = []
            for tallies in zip(*chosen, strict=True):
                coverages = [tally.coverage for tally in tallies]
                widths = [tally.width for tally in tallies]
                cells.append(f"{np.mean(coverages):.3f}, {min(coverages):.3f}, {np.mean(widths):.3f}")
            print(f"{kind:<22} {verbs:>5}  {cells[0]:>34}  {cells[1]:>21}")

    mean = float(np.mean([both.coverage for _, both, _ in simulated]))
    missed = []
    for setting, both, _ in simulated:
        error = np.sqrt(LEAST_TARGET * (1 - LEAST_TARGET) / len(both.covered))
        if both.coverage < LEAST_TARGET - STANDARD_ERRORS * error:
            missed.append(f"{setting}: {both.coverage:.3f}")
    print(f"\n{len(simulated)} settings, {arguments.data_sets} data sets each; mean coverage {mean:.3f}")
    for text in missed:
        print(f"missed: {text}")
    is_met = mean >= MEAN_TARGET and not missed
    print(f"targets (mean {MEAN_TARGET}, least {LEAST_TARGET}): {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
