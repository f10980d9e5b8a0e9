"""The strategies by which groups are dealt to train and dev; each gives one ``Parts`` a split.

"fixed", "dev32", "multi_splits", "cross_validation" and "mdl" are FewNLU's, order included. The other three are only
described in its paper, not programmed; here they are what their docstrings say.
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

# A draw that leaves nothing to validate on is repeated, but not for ever.
_TRIES = 1000
# So many rounds of k-means at most.
_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Pool:
    """Groups to be dealt: a stratum each (all the same where labels do not matter), in file order."""

    strata: tuple[str, ...]
    ratio: float
    seeds: Sequence[int]
    features: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.strata)

    @property
    def number(self) -> int:
        """How many groups are trained on, cut down as FewNLU does."""
        return int(len(self) * self.ratio)


@dataclass(frozen=True, slots=True)
class Parts:
    """Places of groups; ``rng`` goes on where the strategy left it, for what else is drawn for this split."""

    train: Sequence[int]
    dev: Sequence[int]
    rng: random.Random


Splitter = Callable[[Pool], Iterator[Parts]]


def shares(strata: Sequence[str], number: int) -> dict[str, int]:
    """How many of ``number`` each stratum gets: in proportion, by largest remainders, the rarer stratum first.

    >>> shares(["a"] * 5 + ["b"] * 3, 4)
    {'a': 2, 'b': 2}
    """
    counts = Counter(strata)
    n = len(strata)
    whole = {stratum: number * count // n for stratum, count in counts.items()}
    by_remainder = sorted(counts, key=lambda stratum: (-(number * counts[stratum] % n), counts[stratum]))
    for stratum in by_remainder[: number - sum(whole.values())]:
        whole[stratum] += 1
    return whole


def _cut(order: Sequence[int], strata: Sequence[str], number: int) -> tuple[list[int], list[int]]:
    """The first of each stratum up to its share, and the rest, both in the order given."""
    left = shares([strata[place] for place in order], number)
    taken: list[int] = []
    rest: list[int] = []
    for place in order:
        (taken if left[strata[place]] > 0 else rest).append(place)
        left[strata[place]] -= 1
    return taken, rest


def fixed(pool: Pool) -> Iterator[Parts]:
    """All to train on, nothing to select by."""
    yield Parts(range(len(pool)), (), random.Random(pool.seeds[0]))


def dev32(pool: Pool) -> Iterator[Parts]:
    """The first groups of the file to train on, the others to select by."""
    train, dev = _cut(range(len(pool)), pool.strata, pool.number)
    yield Parts(train, dev, random.Random(pool.seeds[0]))


def multi_splits(pool: Pool) -> Iterator[Parts]:
    """Shuffle for each split, then cut at the ratio."""
    for seed in pool.seeds:
        rng = random.Random(seed)
        order = list(range(len(pool)))
        rng.shuffle(order)
        yield Parts(*_cut(order, pool.strata, pool.number), rng)


def cross_validation(pool: Pool) -> Iterator[Parts]:
    """Validate on each of k blocks of the file in turn, train on the others."""
    blocks = _blocks(range(len(pool)), pool.strata, len(pool.seeds))
    for fold, seed in enumerate(pool.seeds):
        train = [place for other, block in enumerate(blocks) if other != fold for place in block]
        yield Parts(train, blocks[fold], random.Random(seed))


def mdl(pool: Pool) -> Iterator[Parts]:
    """Train on the first half and the blocks of the second half before this one (minimum description length)."""
    train, later = _cut(range(len(pool)), pool.strata, len(pool) // 2)
    for block, seed in zip(_blocks(later, pool.strata, len(pool.seeds)), pool.seeds, strict=True):
        yield Parts(tuple(train), block, random.Random(seed))
        train = [*train, *block]


def _blocks(order: Sequence[int], strata: Sequence[str], k: int) -> list[list[int]]:
    """Contiguous blocks; strata, if any, are dealt out one by one instead, so that each block gets its share."""
    if len({strata[place] for place in order}) > 1:
        dealt = sorted(order, key=lambda place: strata[place])
        return [sorted(dealt[fold::k]) for fold in range(k)]
    # FewNLU rounds the size and leaves what remains to the last block; where that is nothing, sizes are made even.
    size = round(len(order) / k)
    bounds = [fold * size for fold in range(k)] + [len(order)]
    if bounds[-2] >= len(order) or size == 0:
        bounds = [fold * len(order) // k for fold in range(k + 1)]
    return [list(order[start:end]) for start, end in itertools.pairwise(bounds)]


def bagging(pool: Pool) -> Iterator[Parts]:
    """Draw ``ratio`` of the groups with replacement to train on; those never drawn are validated on.

    A group drawn twice is trained on twice. A draw of all groups is made again.
    """
    for seed in pool.seeds:
        rng = random.Random(seed)
        for _ in range(_TRIES):
            train: list[int] = []
            for stratum, share in shares(pool.strata, pool.number).items():
                members = [place for place, own in enumerate(pool.strata) if own == stratum]
                train += rng.choices(members, k=share)
            dev = [place for place in range(len(pool)) if place not in set(train)]
            if dev:
                break
        yield Parts(train, dev, rng)


def random_sampling(pool: Pool) -> Iterator[Parts]:
    """Draw ``ratio`` of all groups to train on and, regardless of these, the complement's number of all to validate on.

    Neither draw replaces. What came up in both is trained on only, so nothing overlaps and dev is smaller than in
    "multi_splits" (about a quarter of the groups instead of half for ratio 0.5); if that leaves none, one is drawn.
    """
    for seed in pool.seeds:
        rng = random.Random(seed)
        train = _sample(pool, pool.number, rng)
        rest = sorted(set(range(len(pool))) - set(train))
        dev = [place for place in _sample(pool, len(pool) - pool.number, rng) if place in rest]
        yield Parts(train, dev or [rng.choice(rest)], rng)


def _sample(pool: Pool, number: int, rng: random.Random) -> list[int]:
    order = list(range(len(pool)))
    rng.shuffle(order)
    return _cut(order, pool.strata, number)[0]


def model_informed(pool: Pool) -> Iterator[Parts]:
    """Train on one cluster of what a model makes of the groups, validate on the other.

    The two clusters are of the sizes that the ratio asks for; every split starts k-means anew from its seed, which also
    decides which cluster is trained on.
    """
    assert pool.features is not None
    for seed in pool.seeds:
        rng = random.Random(seed)
        in_first = two_clusters(pool.features, pool.strata, shares(pool.strata, pool.number), rng)
        places = range(len(pool))
        yield Parts([i for i in places if in_first[i]], [i for i in places if not in_first[i]], rng)


def two_clusters(
    features: NDArray[np.float64], strata: Sequence[str], sizes: Mapping[str, int], rng: random.Random
) -> NDArray[np.bool_]:
    """Two-means with given cluster sizes: True for the rows of the first cluster, ``sizes`` of each stratum.

    For given centres the assignment is the cheapest of its size, so the rounds end.
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
    """A row at random and another drawn by squared distance from it (k-means++)."""
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
