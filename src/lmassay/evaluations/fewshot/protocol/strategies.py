"""The strategies that divide groups of examples into train and dev; each gives one ``Parts`` per split.

"fixed", "dev32", "multi_splits", "cross_validation" and "mdl" are FewNLU's, including the order of their draws. The
other three are only described in its paper (Zheng et al. 2022, section 3.2), not implemented there; the docstrings say
what they do here.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A draw that leaves nothing to validate on is repeated up to this many times.
_TRIES = 1000
# The most rounds of k-means.
_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Pool:
    """The groups to be divided, in file order. Each has a stratum, the same for all if labels do not matter."""

    strata: tuple[str, ...]
    ratio: float
    """The share of the groups that is trained on."""
    seeds: Sequence[int]
    """One per split."""
    features: NDArray[np.float64] | None = None
    """One row per group, for "model_informed"."""

    def __len__(self) -> int:
        return len(self.strata)

    @property
    def n_train(self) -> int:
        """How many groups are trained on, rounded down as in FewNLU."""
        return int(len(self) * self.ratio)


@dataclass(frozen=True, slots=True)
class Parts:
    """Indices of groups. ``rng`` continues after the strategy's draws, for what else is drawn for this split."""

    train: Sequence[int]
    dev: Sequence[int]
    rng: random.Random


Splitter = Callable[[Pool], Iterator[Parts]]


def shares(strata: Sequence[str], number: int) -> dict[str, int]:
    """How many of ``number`` each stratum gets: in proportion, by largest remainders; of equals the rarer one first.

    >>> shares(["a"] * 5 + ["b"] * 3, 4)
    {'a': 2, 'b': 2}
    """
    counts = Counter(strata)
    n = len(strata)
    shares_of_strata = {stratum: number * count // n for stratum, count in counts.items()}
    by_remainder = sorted(counts, key=lambda stratum: (-(number * counts[stratum] % n), counts[stratum]))
    n_left = number - sum(shares_of_strata.values())
    for stratum in by_remainder[:n_left]:
        shares_of_strata[stratum] += 1
    return shares_of_strata


def _cut(order: Sequence[int], strata: Sequence[str], number: int) -> tuple[list[int], list[int]]:
    """The first of each stratum up to its share, and the others, both in the order given."""
    open_places = shares([strata[index] for index in order], number)
    taken: list[int] = []
    others: list[int] = []
    for index in order:
        stratum = strata[index]
        if open_places[stratum] > 0:
            taken.append(index)
        else:
            others.append(index)
        open_places[stratum] -= 1
    return taken, others


def fixed(pool: Pool) -> Iterator[Parts]:
    """Train on everything; nothing to select on."""
    yield Parts(range(len(pool)), (), random.Random(pool.seeds[0]))


def dev32(pool: Pool) -> Iterator[Parts]:
    """Train on the first groups of the file, select on the others."""
    train, dev = _cut(range(len(pool)), pool.strata, pool.n_train)
    yield Parts(train, dev, random.Random(pool.seeds[0]))


def multi_splits(pool: Pool) -> Iterator[Parts]:
    """Shuffle for each split, then cut at the ratio."""
    for seed in pool.seeds:
        rng = random.Random(seed)
        order = list(range(len(pool)))
        rng.shuffle(order)
        yield Parts(*_cut(order, pool.strata, pool.n_train), rng)


def cross_validation(pool: Pool) -> Iterator[Parts]:
    """Validate on each of k blocks of the file in turn, train on the others."""
    blocks = _blocks(range(len(pool)), pool.strata, len(pool.seeds))
    for fold, seed in enumerate(pool.seeds):
        train: list[int] = []
        for other, block in enumerate(blocks):
            if other != fold:
                train += block
        yield Parts(train, blocks[fold], random.Random(seed))


def mdl(pool: Pool) -> Iterator[Parts]:
    """Train on the first half and the blocks of the second half before this one (minimum description length)."""
    train, later = _cut(range(len(pool)), pool.strata, len(pool) // 2)
    for block, seed in zip(_blocks(later, pool.strata, len(pool.seeds)), pool.seeds, strict=True):
        yield Parts(tuple(train), block, random.Random(seed))
        train = [*train, *block]


def _blocks(order: Sequence[int], strata: Sequence[str], k: int) -> list[list[int]]:
    """K contiguous blocks. With strata, the groups of each are dealt out in turn, so that each block gets its share."""
    if len({strata[index] for index in order}) > 1:
        by_stratum = sorted(order, key=lambda index: strata[index])
        return [sorted(by_stratum[fold::k]) for fold in range(k)]
    # FewNLU rounds the size of a block, and the last block gets what remains. If nothing remains, sizes are made even.
    size = round(len(order) / k)
    last_start = (k - 1) * size
    if size == 0 or last_start >= len(order):
        bounds = [fold * len(order) // k for fold in range(k + 1)]
    else:
        bounds = [*(fold * size for fold in range(k)), len(order)]
    return [list(order[start:end]) for start, end in itertools.pairwise(bounds)]


def bagging(pool: Pool) -> Iterator[Parts]:
    """Draw ``ratio`` of the groups with replacement to train on; those never drawn are validated on.

    A group drawn twice is trained on twice. A draw that contains all groups is repeated.
    """
    for seed in pool.seeds:
        rng = random.Random(seed)
        for _ in range(_TRIES):
            train: list[int] = []
            for stratum, share in shares(pool.strata, pool.n_train).items():
                members = [index for index, own in enumerate(pool.strata) if own == stratum]
                train += rng.choices(members, k=share)
            dev = sorted(set(range(len(pool))) - set(train))
            if dev:
                break
        yield Parts(train, dev, rng)


def random_sampling(pool: Pool) -> Iterator[Parts]:
    """Draw ``ratio`` of all groups to train on and, independently, ``1 - ratio`` of all groups to validate on.

    Both draws are without replacement. Groups in both draws are trained on only, so nothing overlaps, and dev is
    smaller than in "multi_splits" (a quarter of the groups instead of half for ratio 0.5). If that leaves no group for
    dev, one is drawn.
    """
    for seed in pool.seeds:
        rng = random.Random(seed)
        train = _sample(pool, pool.n_train, rng)
        not_trained = sorted(set(range(len(pool))) - set(train))
        dev = [index for index in _sample(pool, len(pool) - pool.n_train, rng) if index in not_trained]
        yield Parts(train, dev or [rng.choice(not_trained)], rng)


def _sample(pool: Pool, number: int, rng: random.Random) -> list[int]:
    order = list(range(len(pool)))
    rng.shuffle(order)
    return _cut(order, pool.strata, number)[0]


def model_informed(pool: Pool) -> Iterator[Parts]:
    """Cluster the groups by a model's features; train on one cluster, validate on the other.

    The two clusters have the sizes that the ratio asks for. Every split starts k-means from its own seed, which also
    decides which cluster is trained on.
    """
    assert pool.features is not None
    for seed in pool.seeds:
        rng = random.Random(seed)
        in_first = two_clusters(pool.features, pool.strata, shares(pool.strata, pool.n_train), rng)
        train: list[int] = []
        dev: list[int] = []
        for index in range(len(pool)):
            (train if in_first[index] else dev).append(index)
        yield Parts(train, dev, rng)


def two_clusters(
    features: NDArray[np.float64], strata: Sequence[str], sizes: Mapping[str, int], rng: random.Random
) -> NDArray[np.bool_]:
    """Two-means with given cluster sizes: True for the rows of the first cluster, ``sizes`` of each stratum.

    For given centres the assignment is the cheapest of its size, so the cost never rises and the rounds end.
    """
    import numpy as np

    first, second = _initial_centres(features, rng)
    labels = np.asarray(strata)
    inside = np.zeros(len(features), dtype=np.bool_)
    for _ in range(_ROUNDS):
        # How much nearer each row is to the first centre than to the second: the smaller, the nearer.
        pull = ((features - first) ** 2).sum(axis=1) - ((features - second) ** 2).sum(axis=1)
        chosen = np.zeros(len(features), dtype=np.bool_)
        for stratum, size in sizes.items():
            members = np.flatnonzero(labels == stratum)
            nearest = members[np.argsort(pull[members], kind="stable")[:size]]
            chosen[nearest] = True
        if (chosen == inside).all() or chosen.all() or not chosen.any():
            return chosen
        inside = chosen
        first, second = features[inside].mean(axis=0), features[~inside].mean(axis=0)
    return inside


def _initial_centres(
    features: NDArray[np.float64], rng: random.Random
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A random row, and another drawn with probability proportional to its squared distance (k-means++)."""
    first = features[rng.randrange(len(features))]
    distances = ((features - first) ** 2).sum(axis=1)
    total = float(distances.sum())
    if total == 0:
        return first, first
    weights = distances / total
    second = rng.choices(range(len(features)), weights=weights.tolist())[0]
    return first, features[second]


STRATEGIES: dict[str, Splitter] = {
    "fixed": fixed,
    "dev32": dev32,
    "multi_splits": multi_splits,
    "cross_validation": cross_validation,
    "mdl": mdl,
    "bagging": bagging,
    "random": random_sampling,
    "model_informed": model_informed,
}
SINGLE = ("fixed", "dev32")
"""These make one split, whatever K is."""
# For these the number of folds, not the ratio, decides how much is held out.
DEALT_BY_FOLD = ("cross_validation", "mdl")
ABBREVIATIONS = {
    "cross_validation": "CV",
    "mdl": "MDL",
    "bagging": "BAG",
    "random": "RAND",
    "model_informed": "MI",
    "multi_splits": "MS",
    "dev32": "dev32",
    "fixed": "fixed",
}
"""The paper's abbreviations, in the order of its tables."""
