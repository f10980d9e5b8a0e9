"""The strategies that divide groups of examples into train and dev. Each yields one ``Parts`` per split.

"fixed", "dev32", "multi_splits", "cross_validation" and "mdl" work exactly as in FewNLU, including the order of random
draws. "bagging", "random" and "model_informed" are described in the paper (Zheng et al. 2022, section 3.2) but not
implemented in FewNLU; their docstrings say what they do here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A draw that leaves nothing to validate on is repeated up to this number of times.
_MAX_DRAWS = 1000
# The maximum number of iterations of k-means.
_MAX_ITERATIONS = 100


@dataclass(frozen=True, slots=True)
class Pool:
    """The groups of examples to divide, in the order of the file."""

    strata: tuple[str, ...]
    """The stratum of each group: its label or, without stratification, the same text for all groups."""
    ratio: float
    """The share of the groups that is trained on."""
    seeds: Sequence[int]
    """The seed of each split."""
    features: NDArray[np.float64] | None = None
    """One row per group; only "model_informed" needs it."""

    def __len__(self) -> int:
        return len(self.strata)

    @property
    def n_train(self) -> int:
        """How many groups are trained on, rounded down as in FewNLU."""
        return int(len(self) * self.ratio)


@dataclass(frozen=True, slots=True)
class Parts:
    """One division of the groups. A group is given as its index in the pool."""

    train: Sequence[int]
    dev: Sequence[int]
    rng: random.Random
    """The generator that the strategy has drawn from, for further draws for the same split."""


Splitter = Callable[[Pool], Iterator[Parts]]


def shares(strata: Sequence[str], number: int) -> dict[str, int]:
    """Distribute ``number`` over the strata in proportion to their sizes, by the largest remainder method.

    Of strata with the same remainder, the rarer one comes first.

    >>> shares(["a"] * 5 + ["b"] * 3, 4)
    {'a': 2, 'b': 2}
    """
    counts = Counter(strata)
    n = len(strata)
    shares_of_strata: dict[str, int] = {}
    remainders: dict[str, int] = {}
    for stratum, count in counts.items():
        # The share is number * count / n. It is computed with integers, because the rounding of floats could make two
        # equal remainders differ.
        shares_of_strata[stratum], remainders[stratum] = divmod(number * count, n)
    by_remainder = sorted(counts, key=lambda stratum: (-remainders[stratum], counts[stratum]))
    n_left = number - sum(shares_of_strata.values())
    for stratum in by_remainder[:n_left]:
        shares_of_strata[stratum] += 1
    return shares_of_strata


def _cut(order: Sequence[int], strata: Sequence[str], number: int) -> tuple[list[int], list[int]]:
    """Divide the groups in ``order`` in two: ``number`` groups, and the others. Both keep their order.

    The first part takes the first groups of each stratum, as many as the stratum's share of ``number``.
    """
    open_places = shares([strata[index] for index in order], number)
    chosen: list[int] = []
    others: list[int] = []
    for index in order:
        stratum = strata[index]
        if open_places[stratum] > 0:
            chosen.append(index)
        else:
            others.append(index)
        open_places[stratum] -= 1
    return chosen, others


def fixed(pool: Pool) -> Iterator[Parts]:
    """Train on all groups, without a dev set (FewNLU's ``fix_setting``)."""
    yield Parts(range(len(pool)), (), random.Random(pool.seeds[0]))


def dev32(pool: Pool) -> Iterator[Parts]:
    """Train on the first groups of the file, and use the others as dev (``dev32_setting``, FewNLU's default)."""
    train, dev = _cut(range(len(pool)), pool.strata, pool.n_train)
    yield Parts(train, dev, random.Random(pool.seeds[0]))


def multi_splits(pool: Pool) -> Iterator[Parts]:
    """For each split, shuffle all groups and divide them at the ratio. The paper recommends this strategy."""
    for seed in pool.seeds:
        rng = random.Random(seed)
        order = list(range(len(pool)))
        rng.shuffle(order)
        train, dev = _cut(order, pool.strata, pool.n_train)
        yield Parts(train, dev, rng)


def cross_validation(pool: Pool) -> Iterator[Parts]:
    """Divide the file into k blocks. Each block is the dev set of one split, which trains on the others."""
    # As in FewNLU, nothing is shuffled, so a file that is sorted by label needs ``stratify``.
    blocks = _blocks(range(len(pool)), pool.strata, len(pool.seeds))
    for fold, seed in enumerate(pool.seeds):
        train: list[int] = []
        for other, block in enumerate(blocks):
            if other != fold:
                train += block
        yield Parts(train, blocks[fold], random.Random(seed))


def mdl(pool: Pool) -> Iterator[Parts]:
    """Minimum description length (MDL): the training set grows from split to split.

    The second half of the groups is divided into k blocks. Each block is the dev set of one split, which trains on the
    first half and the blocks before this one.
    """
    train, second_half = _cut(range(len(pool)), pool.strata, len(pool) // 2)
    blocks = _blocks(second_half, pool.strata, len(pool.seeds))
    for block, seed in zip(blocks, pool.seeds, strict=True):
        yield Parts(tuple(train), block, random.Random(seed))
        train = [*train, *block]


def _blocks(order: Sequence[int], strata: Sequence[str], k: int) -> list[list[int]]:
    """Divide the groups in ``order`` into ``k`` contiguous blocks.

    With several strata, the groups of each stratum are dealt out in turn instead, so that each block gets its share.
    """
    distinct_strata = {strata[index] for index in order}
    if len(distinct_strata) > 1:
        by_stratum = sorted(order, key=strata.__getitem__)
        blocks = []
        for fold in range(k):
            # Each block gets every k-th group, like cards that are dealt to k players.
            blocks.append(sorted(by_stratum[fold::k]))
        return blocks

    n = len(order)
    # FewNLU rounds the size of a block, and the last block gets what remains.
    size = round(n / k)
    last_start = (k - 1) * size
    nothing_remains = last_start >= n
    blocks = []
    for fold in range(k):
        if size == 0 or nothing_remains:
            # FewNLU would make an empty block here. Blocks of (almost) equal sizes avoid that.
            start = fold * n // k
            end = (fold + 1) * n // k
        else:
            is_last = fold == k - 1
            start = fold * size
            end = n if is_last else start + size
        blocks.append(list(order[start:end]))
    return blocks


def bagging(pool: Pool) -> Iterator[Parts]:
    """Draw a share ``ratio`` of the groups with replacement to train on; those never drawn are the dev set.

    A group that is drawn twice is trained on twice. If all groups are drawn, the draw is repeated.
    """
    members_by_stratum: dict[str, list[int]] = {}
    for index, stratum in enumerate(pool.strata):
        members_by_stratum.setdefault(stratum, []).append(index)
    shares_of_strata = shares(pool.strata, pool.n_train)
    for seed in pool.seeds:
        rng = random.Random(seed)
        for _ in range(_MAX_DRAWS):
            train: list[int] = []
            for stratum, share in shares_of_strata.items():
                train += rng.choices(members_by_stratum[stratum], k=share)
            dev = sorted(set(range(len(pool))) - set(train))
            if dev:
                break
        yield Parts(train, dev, rng)


def random_sampling(pool: Pool) -> Iterator[Parts]:
    """Draw a share ``ratio`` of all groups to train on and, independently, a share ``1 - ratio`` of all groups for dev.

    Both draws are without replacement. Groups that are in both draws are only trained on, so dev is smaller than in
    "multi_splits" (with ratio 0.5, a quarter of the groups instead of half). If no group is left for dev, one is drawn
    from those that are not trained on.
    """
    for seed in pool.seeds:
        rng = random.Random(seed)
        train = _sample(pool, pool.n_train, rng)
        not_trained = sorted(set(range(len(pool))) - set(train))
        drawn_for_dev = _sample(pool, len(pool) - pool.n_train, rng)
        dev = [index for index in drawn_for_dev if index in not_trained]
        if not dev:
            dev = [rng.choice(not_trained)]
        yield Parts(train, dev, rng)


def _sample(pool: Pool, number: int, rng: random.Random) -> list[int]:
    """Draw this number of groups without replacement, from each stratum its share."""
    order = list(range(len(pool)))
    rng.shuffle(order)
    sample, _ = _cut(order, pool.strata, number)
    return sample


def model_informed(pool: Pool) -> Iterator[Parts]:
    """Divide the groups into two clusters by a model's features; train on one, and use the other as dev.

    The clusters have the sizes that the ratio demands. The seed of a split decides where k-means starts, and so also
    which cluster is trained on.
    """
    assert pool.features is not None
    for seed in pool.seeds:
        rng = random.Random(seed)
        in_first = two_clusters(pool.features, pool.strata, shares(pool.strata, pool.n_train), rng)
        train: list[int] = []
        dev: list[int] = []
        for index in range(len(pool)):
            if in_first[index]:
                train.append(index)
            else:
                dev.append(index)
        yield Parts(train, dev, rng)


def two_clusters(
    features: NDArray[np.float64], strata: Sequence[str], sizes: Mapping[str, int], rng: random.Random
) -> NDArray[np.bool_]:
    """K-means with two clusters of given sizes; returns whether each row belongs to the first cluster.

    ``sizes`` says how many rows of each stratum the first cluster gets. In each iteration the rows are assigned in the
    way that has the lowest cost (sum of squared distances to the centres), so the cost never rises and the iterations
    converge.
    """
    import numpy as np

    first, second = _initial_centres(features, rng)
    labels = np.asarray(strata)
    inside = np.zeros(len(features), dtype=np.bool_)
    for _ in range(_MAX_ITERATIONS):
        to_first = ((features - first) ** 2).sum(axis=1)
        to_second = ((features - second) ** 2).sum(axis=1)
        # The smaller the difference, the closer a row is to the first cluster.
        difference = to_first - to_second
        chosen = np.zeros(len(features), dtype=np.bool_)
        for stratum, size in sizes.items():
            members = np.flatnonzero(labels == stratum)
            # A stable sort keeps rows with equal distances in their order, so every platform gives the same clusters.
            nearest_first = np.argsort(difference[members], kind="stable")
            nearest = members[nearest_first[:size]]
            chosen[nearest] = True
        has_converged = (chosen == inside).all()
        one_is_empty = chosen.all() or not chosen.any()
        if has_converged or one_is_empty:
            return chosen
        inside = chosen
        first = features[inside].mean(axis=0)
        second = features[~inside].mean(axis=0)
    return inside


def _initial_centres(
    features: NDArray[np.float64], rng: random.Random
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw two rows as centres: the second with a probability proportional to its squared distance from the first.

    This is the initialization of k-means++.
    """
    first = features[rng.randrange(len(features))]
    distances = ((features - first) ** 2).sum(axis=1)
    total = float(distances.sum())
    if total == 0:
        # All rows are the same: there is no second centre.
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
"""These strategies make one split, whatever ``k`` is."""
# For these strategies the number of folds, not the ratio, decides how much is held out.
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
