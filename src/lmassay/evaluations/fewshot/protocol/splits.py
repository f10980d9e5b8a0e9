"""How the labelled examples of a few-shot task are divided into train and dev.

A strategy divides whole groups (a question, a passage, an example with its mirrored copy), never single examples, so
that nothing of a group can leak from train to dev::

    examples = task.examples("train")
    units = units_of(examples, group=task.group)
    for split in make_splits("multi_splits", units, k=4):
        train = [examples[i] for i in split.train]

With FewNLU's groups (``task.original_group``) in the order of the file, seed 42 and ``stratify=False``, the strategies
that FewNLU implements give exactly the same indices as FewNLU.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lmassay.errors import ConfigError, DataError, did_you_mean
from lmassay.evaluations.fewshot.protocol.strategies import DEALT_BY_FOLD, SINGLE, STRATEGIES, Parts, Pool

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lmassay.evaluations.fewshot.tasks.examples import InputExample

Pairs = Literal["all", "cloze", "classifier"]
"""How WSC's pairs of a right and a wrong referent are used; see ``make_splits``."""

# FewNLU's own names, the paper's abbreviations, and other common spellings.
ALIASES = {
    "fix_setting": "fixed",
    "dev32_setting": "dev32",
    "dev32_split": "multi_splits",
    "ms": "multi_splits",
    "cv": "cross_validation",
    "bag": "bagging",
    "rand": "random",
    "random_sampling": "random",
    "mi": "model_informed",
}
# FewNLU draws the seeds of its splits from this range, so the same seed gives the same splits.
_MAX_SEED = 10_000
# WSC's label of a right referent.
_TRUE = "True"
_PURPOSE = {"train": "train on", "dev": "validate on"}


@dataclass(frozen=True, slots=True)
class SplitUnit:
    """The properties of an example that splitting depends on."""

    group: str
    label: str
    pair: str = ""
    """The pair of a right and a wrong example that it belongs to (WSC); if empty, its whole group is one pair."""


@dataclass(frozen=True, slots=True)
class Split:
    """One division of the examples into train and dev."""

    index: int
    """The number of the split, counted from 0."""
    seed: int
    """The split's own seed. "fixed" and "dev32" do not use it; they draw with the base seed."""
    train: tuple[int, ...]
    """Indices in the list of examples. With bagging, an index may occur twice."""
    dev: tuple[int, ...]
    """Indices in the list of examples; empty if no examples are held out."""


def _label(example: InputExample) -> str | None:
    return example.label


def units_of(
    examples: Sequence[InputExample],
    group: Callable[[InputExample], str] | None = None,
    label: Callable[[InputExample], str | None] = _label,
    pair: Callable[[InputExample], str] | None = None,
) -> list[SplitUnit]:
    """What splitting needs to know about each example.

    ``group``, ``label`` and ``pair`` are functions that return these properties of an example. Without ``group``, each
    example is its own group. FewNLU does this for ReCoRD, where the same question may then be in both train and dev.
    An example without a label is a DataError.
    """
    units = []
    for index, example in enumerate(examples):
        label_of_example = label(example)
        if label_of_example is None:
            raise DataError(f"example '{example.guid}' has no label: only labelled examples can be split")
        group_of_example = f"#{index}" if group is None else group(example)
        pair_of_example = "" if pair is None else pair(example)
        units.append(SplitUnit(group_of_example, label_of_example, pair_of_example))
    return units


def strategy_name(name: str) -> str:
    """The name of the strategy that ``name`` stands for; it may be an abbreviation of the paper or FewNLU's own name.

    >>> strategy_name("MS"), strategy_name("dev32_split"), strategy_name("cross-validation")
    ('multi_splits', 'multi_splits', 'cross_validation')
    """
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    plain = ALIASES.get(plain, plain)
    if plain not in STRATEGIES:
        raise ConfigError(f"no split strategy is called '{name}'{did_you_mean(plain, [*STRATEGIES, *ALIASES])}")
    return plain


def split_seeds(seed: int, k: int) -> list[int]:
    """The seed of each of ``k`` splits. If ``k`` is increased, the first splits keep their seeds.

    >>> split_seeds(42, 4)
    [1824, 409, 4506, 4012]
    """
    rng = random.Random(seed)
    return [rng.randint(0, _MAX_SEED) for _ in range(k)]


def make_splits(
    strategy: str,
    units: Sequence[SplitUnit],
    *,
    k: int = 4,
    ratio: float = 0.5,
    seed: int = 42,
    stratify: bool = False,
    features: NDArray[np.float64] | None = None,
    pairs: Pairs = "all",
) -> list[Split]:
    """Divide the examples ``k`` times (once for "fixed" and "dev32") by one of the strategies in ``strategies``.

    - ``ratio`` is the share of the groups that is trained on; "fixed", "cross_validation" and "mdl" do not use it.
    - ``stratify`` gives every label its share of train and dev, as far as whole groups allow. A group counts for the
      label that most of its examples have.
    - ``features`` has one row per example; only "model_informed" needs it.
    - ``pairs`` is for WSC, where a sentence with a right and one with a wrong referent are a pair. With "all", both are
      used. Otherwise dev gets one of them at random, and train gets the right one ("cloze", for methods that learn
      from right referents only) or one at random ("classifier").
    """
    name = strategy_name(strategy)
    k = 1 if name in SINGLE else k
    _check_options(name, k, ratio, pairs)
    groups = _groups(units)
    _check_groups(name, k, ratio, len(groups), len(units))
    group_features = None
    if name == "model_informed":
        group_features = _group_features(features, groups, len(units))
    # Without stratification, all groups are in the same stratum.
    strata = [""] * len(groups)
    if stratify:
        strata = [_majority_label(units, members) for members in groups]
    seeds = split_seeds(seed, k)
    pool = Pool(tuple(strata), ratio, seeds, group_features)
    splits = []
    for index, parts in enumerate(STRATEGIES[name](pool)):
        # As in FewNLU, the two strategies with a single split draw with the base seed, not with the split's own seed.
        rng = random.Random(seed) if name in SINGLE else parts.rng
        train, dev = _examples_of(parts, units, groups, pairs, rng)
        purpose = ""
        if not train:
            purpose = _PURPOSE["train"]
        elif not dev and name != "fixed":
            purpose = _PURPOSE["dev"]
        if purpose:
            raise DataError(
                f"split {index} of '{name}' (k={k}, ratio={ratio:g}, {len(groups)} groups) has nothing to {purpose}: "
                "change ratio or k, or give more labelled examples"
            )
        splits.append(Split(index, seeds[index], train, dev))
    return splits


def _check_options(name: str, k: int, ratio: float, pairs: str) -> None:
    """Raise a ConfigError for options with which nothing can be divided."""
    if k < 1:
        raise ConfigError(f"k={k}: there must be at least one split")
    if name == "cross_validation" and k == 1:
        raise ConfigError("cross-validation with k=1 has nothing to train on: use k=2 or more, or 'multi_splits'")
    uses_ratio = name not in ("fixed", *DEALT_BY_FOLD)
    is_valid = 0 < ratio < 1
    if name == "bagging" and ratio == 1:
        # Bagging draws with replacement, so with a ratio of 1 some groups are not drawn and remain to validate on.
        is_valid = True
    if uses_ratio and not is_valid:
        raise ConfigError(f"ratio={ratio:g} is not a share of the examples to train on: use a number between 0 and 1")
    if pairs not in ("all", "cloze", "classifier"):
        raise ConfigError(f"pairs='{pairs}' is not known: use 'all', 'cloze' or 'classifier'")


def _check_groups(name: str, k: int, ratio: float, n: int, n_examples: int) -> None:
    """Raise an error if there are too few groups (``n``) for the strategy and its options."""
    if n_examples == 0:
        raise DataError("there is no labelled example to split")
    if name == "fixed":
        return
    if n == 1:
        raise DataError(
            f"all {n_examples} examples are one group, which a split must not divide: add examples of other groups"
        )
    max_folds = None
    if name == "cross_validation":
        max_folds = n
    elif name == "mdl":
        # MDL validates only on the second half of the groups.
        max_folds = n - n // 2
    if max_folds is not None and k > max_folds:
        raise ConfigError(f"k={k} folds of '{name}' need as many groups to validate on, but there are {max_folds}")
    if name not in DEALT_BY_FOLD and int(n * ratio) == 0:
        # This is rounded up, because a ratio that is rounded down would leave no group again.
        smallest_ratio = math.ceil(100 / n) / 100
        raise DataError(
            f"'{name}' with ratio={ratio:g} leaves none of {n} groups to train on: "
            f"use a ratio of at least {smallest_ratio:g} or give more labelled examples"
        )


def _groups(units: Sequence[SplitUnit]) -> list[tuple[int, ...]]:
    """The indices of each group's examples. The groups are in the order of their first examples."""
    by_group: dict[str, list[int]] = {}
    for index, unit in enumerate(units):
        by_group.setdefault(unit.group, []).append(index)
    return [tuple(indices) for indices in by_group.values()]


def _majority_label(units: Sequence[SplitUnit], members: Sequence[int]) -> str:
    """The label that most members of a group have; of several equally frequent ones, the one that occurs first."""
    counts = Counter(units[index].label for index in members)
    label, _ = counts.most_common(1)[0]
    return label


def _group_features(
    features: NDArray[np.float64] | None, groups: Sequence[tuple[int, ...]], n: int
) -> NDArray[np.float64]:
    """The features of the groups, one row each: the mean over the examples of the group."""
    import numpy as np

    if features is None:
        raise ConfigError("'model_informed' splits need features: an array with one row per example")
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != n:
        raise DataError(f"features of shape {rows.shape} do not fit {n} examples: give one row per example")
    is_finite = np.isfinite(rows).all(axis=1)
    if not is_finite.all():
        first_bad = int(np.flatnonzero(~is_finite)[0])
        raise DataError(f"the features of example {first_bad} have a value that is not finite: recompute them")
    means = [rows[list(members)].mean(axis=0) for members in groups]
    return np.stack(means)


def _examples_of(
    parts: Parts, units: Sequence[SplitUnit], groups: Sequence[tuple[int, ...]], pairs: Pairs, rng: random.Random
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The indices of the examples in train and in dev, from the indices of the groups."""
    train: list[int] = []
    dev: list[int] = []
    # Train comes before dev, because both may draw from the same generator, and FewNLU draws for train first.
    for group in parts.train:
        members = groups[group]
        train += members if pairs == "all" else _one_per_pair(units, members, take_right=pairs == "cloze", rng=rng)
    for group in parts.dev:
        members = groups[group]
        dev += members if pairs == "all" else _one_per_pair(units, members, take_right=False, rng=rng)
    return tuple(train), tuple(dev)


def _one_per_pair(
    units: Sequence[SplitUnit], group: Sequence[int], *, take_right: bool, rng: random.Random
) -> list[int]:
    """One example of each pair of a right and a wrong one: the right one if ``take_right``, else one at random."""
    by_pair: dict[str, list[int]] = {}
    for index in group:
        by_pair.setdefault(units[index].pair, []).append(index)
    chosen: list[int] = []
    for members in by_pair.values():
        right = [index for index in members if units[index].label == _TRUE]
        if not right or len(right) == len(members):
            # These are not a right and a wrong example, so all of them are used.
            chosen += members
        elif take_right:
            chosen.append(right[0])
        else:
            # As in FewNLU, random() is called once per pair; rng.choice() would give other draws.
            drawn = int(rng.random() * len(members))
            chosen.append(members[drawn])
    return chosen


# --- checks that find problems of splits ------------------------------------------------------------------------------


def count_leaking_groups(splits: Sequence[Split], units: Sequence[SplitUnit]) -> list[int]:
    """For each split, how many groups have examples in both train and dev."""
    counts = []
    for split in splits:
        train = {units[index].group for index in split.train}
        dev = {units[index].group for index in split.dev}
        counts.append(len(train & dev))
    return counts


def missing_label_warnings(
    splits: Sequence[Split],
    units: Sequence[SplitUnit],
    *,
    labels: Sequence[str] | None = None,
    parts: Sequence[str] = ("train", "dev"),
) -> list[str]:
    """A warning for each label that has no example in a part of a split.

    ``labels`` are the labels to look for, by default all that occur.
    """
    if labels is None:
        labels = list(dict.fromkeys(unit.label for unit in units))
    warnings = []
    for split in splits:
        for part in parts:
            indices = split.train if part == "train" else split.dev
            # A part may be empty by design, such as the dev set of "fixed".
            if not indices:
                continue
            present = {units[index].label for index in indices}
            for label in labels:
                if label not in present:
                    warnings.append(f"split {split.index}: no example of '{label}' to {_PURPOSE[part]}")
    return warnings


def repeated_split_warnings(splits: Sequence[Split]) -> list[str]:
    """A warning for each split that equals an earlier one: it costs another training but adds no information."""
    first: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    warnings = []
    for split in splits:
        key = (tuple(sorted(split.train)), tuple(sorted(split.dev)))
        if key in first:
            warnings.append(f"split {split.index} divides the examples as split {first[key]} does")
        first.setdefault(key, split.index)
    return warnings
