"""Two-means with given cluster sizes, for splits that ask a model to generalise from one region to another."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 100


def two_clusters(
    features: NDArray[np.float64], strata: Sequence[str], sizes: Mapping[str, int], rng: random.Random
) -> NDArray[np.bool_]:
    """Which rows belong to the first cluster: ``sizes`` of each stratum, the ones nearest to it in comparison.

    The start is a row at random and another drawn by squared distance from it (k-means++). For given centres the
    assignment is the cheapest of its size, so the rounds end.
    """
    first, second = _start(features, rng)
    labels = np.asarray(strata)
    inside = np.zeros(len(features), dtype=np.bool_)
    for _ in range(_ROUNDS):
        pull = ((features - first) ** 2).sum(axis=1) - ((features - second) ** 2).sum(axis=1)
        chosen = np.zeros(len(features), dtype=np.bool_)
        for stratum, size in sizes.items():
            members = np.flatnonzero(labels == stratum)
            chosen[members[np.argsort(pull[members], kind="stable")[:size]]] = True
        if (chosen == inside).all() or chosen.all() or not chosen.any():
            return chosen
        inside = chosen
        first, second = features[inside].mean(axis=0), features[~inside].mean(axis=0)
    return inside


def _start(features: NDArray[np.float64], rng: random.Random) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first = features[rng.randrange(len(features))]
    distances = ((features - first) ** 2).sum(axis=1)
    total = float(distances.sum())
    if total == 0:
        return first, first
    weights = distances / total
    return first, features[rng.choices(range(len(features)), weights=weights.tolist())[0]]
