"""How the labelled examples of a few-shot task are parted into what is learned from and what is selected by.

A strategy deals whole groups (a question, a passage, an example with its mirrored copy), never single examples, so that
nothing of a group can leak from train to dev::

    units = units_of(task.examples("train"), group=task.group)
    for split in make_splits("multi_splits", units, k=4):
        train = [examples[i] for i in split.train]

Seed 42 and the group order of the file give the very indices of FewNLU.
"""

from __future__ import annotations

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

# FewNLU's own word, the paper's abbreviation, and what else people write.
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
_LARGEST_SEED = 10_000
_TRUE = "True"
_PURPOSE = {"train": "train on", "dev": "validate on"}


@dataclass(frozen=True, slots=True)
class SplitUnit:
    """What a split must know of an example."""

    group: str
    label: str
    pair: str = ""
    """Which pair of a right and a wrong example it belongs to (WSC); where none is named, the group is one."""


@dataclass(frozen=True, slots=True)
class Split:
    """Places in the list of examples; ``dev`` is empty where nothing is held out. Bagging may name a place twice."""

    index: int
    seed: int
    train: tuple[int, ...]
    dev: tuple[int, ...]


def _label(example: InputExample) -> str | None:
    return example.label


def units_of(
    examples: Sequence[InputExample],
    group: Callable[[InputExample], str] | None = None,
    label: Callable[[InputExample], str | None] = _label,
    pair: Callable[[InputExample], str] | None = None,
) -> list[SplitUnit]:
    """The units of examples. Without ``group`` each stands alone, as FewNLU has it for ReCoRD, where questions leak."""
    units = []
    for place, example in enumerate(examples):
        found = label(example)
        if found is None:
            raise DataError(f"example '{example.guid}' has no label: only labelled examples can be split")
        together = f"#{place}" if group is None else group(example)
        units.append(SplitUnit(together, found, "" if pair is None else pair(example)))
    return units


def strategy_name(name: str) -> str:
    """A strategy under its own name, whether given by the paper's abbreviation or by FewNLU's word.

    >>> strategy_name("MS"), strategy_name("dev32_split"), strategy_name("cross-validation")
    ('multi_splits', 'multi_splits', 'cross_validation')
    """
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    plain = ALIASES.get(plain, plain)
    if plain not in STRATEGIES:
        raise ConfigError(f"no split strategy is called '{name}'{did_you_mean(plain, [*STRATEGIES, *ALIASES])}")
    return plain


def split_seeds(seed: int, k: int) -> list[int]:
    """A seed for every split; more splits leave those of the first as they were.

    >>> split_seeds(42, 4)
    [1824, 409, 4506, 4012]
    """
    rng = random.Random(seed)
    return [rng.randint(0, _LARGEST_SEED) for _ in range(k)]


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
    """Part the examples ``k`` times (once for "fixed" and "dev32") by a strategy of ``strategies``.

    ``stratify`` gives every label its share of both parts, as far as whole groups allow; a group counts for the label
    that most of its examples have. ``features`` are for "model_informed": a row an example. ``pairs`` takes one example
    of a pair with both right and wrong ones, for WSC's sentences with two referents each: any in dev and, to train,
    the right one ("cloze", where only referents are learned) or any ("classifier").
    """
    name = strategy_name(strategy)
    k = 1 if name in SINGLE else k
    _check_options(name, k, ratio, pairs)
    groups = _groups(units)
    _check_groups(name, k, ratio, len(groups), len(units))
    rows = _group_features(features, groups, len(units)) if name == "model_informed" else None
    strata = tuple(_stratum(units, members) if stratify else "" for members in groups)
    seeds = split_seeds(seed, k)
    splits = []
    for index, parts in enumerate(STRATEGIES[name](Pool(strata, ratio, seeds, rows))):
        # The two settings with a single split draw from the seed itself, not from the first of the list.
        rng = random.Random(seed) if name in SINGLE else parts.rng
        train, dev = _members(parts, units, groups, pairs, rng)
        if not train or (not dev and name != "fixed"):
            raise DataError(
                f"split {index} of '{name}' (k={k}, ratio={ratio:g}, {len(groups)} groups) has nothing to "
                f"{'train on' if not train else 'validate on'}: change ratio or k, or give more labelled examples"
            )
        splits.append(Split(index, seeds[index], train, dev))
    return splits


def _check_options(name: str, k: int, ratio: float, pairs: str) -> None:
    if k < 1:
        raise ConfigError(f"k={k}: there must be at least one split")
    if name == "cross_validation" and k == 1:
        raise ConfigError("cross-validation with k=1 has nothing to train on: take k=2 or more, or 'multi_splits'")
    if name not in ("fixed", *DEALT_BY_FOLD) and not (0 < ratio < 1 or (name == "bagging" and ratio == 1)):
        raise ConfigError(f"ratio={ratio:g} is no share of the examples to train on: give one between 0 and 1")
    if pairs not in ("all", "cloze", "classifier"):
        raise ConfigError(f"pairs='{pairs}' is not known: take 'all', 'cloze' or 'classifier'")


def _check_groups(name: str, k: int, ratio: float, n: int, n_examples: int) -> None:
    if n_examples == 0:
        raise DataError("there is no labelled example to split")
    if name == "fixed":
        return
    if n == 1:
        raise DataError(f"all {n_examples} examples are one group, which no split may part: give examples of others")
    held_out = {"cross_validation": n, "mdl": n - n // 2}.get(name)
    if held_out is not None and k > held_out:
        raise ConfigError(f"k={k} folds of '{name}' need as many groups to validate on, and there are {held_out}")
    if name not in DEALT_BY_FOLD and int(n * ratio) == 0:
        raise DataError(
            f"'{name}' with ratio={ratio:g} leaves none of {n} groups to train on: "
            f"take a ratio of at least {1 / n:.2g} or give more labelled examples"
        )


def _groups(units: Sequence[SplitUnit]) -> list[tuple[int, ...]]:
    """Places of each group's examples, groups in the order in which they begin."""
    found: dict[str, list[int]] = {}
    for place, unit in enumerate(units):
        found.setdefault(unit.group, []).append(place)
    return [tuple(places) for places in found.values()]


def _stratum(units: Sequence[SplitUnit], members: Sequence[int]) -> str:
    # most_common keeps the order of appearance among equals.
    return Counter(units[place].label for place in members).most_common(1)[0][0]


def _group_features(
    features: NDArray[np.float64] | None, groups: Sequence[tuple[int, ...]], n: int
) -> NDArray[np.float64]:
    """One row a group: the mean of its examples."""
    import numpy as np

    if features is None:
        raise ConfigError("'model_informed' splits need features: an array with one row an example")
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or len(rows) != n:
        raise DataError(f"features of shape {rows.shape} do not fit {n} examples: give one row an example")
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise DataError(f"the features of example {bad} hold a value that is no number: recompute them")
    return np.stack([rows[list(members)].mean(axis=0) for members in groups])


def _members(
    parts: Parts, units: Sequence[SplitUnit], groups: Sequence[tuple[int, ...]], pairs: Pairs, rng: random.Random
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if pairs == "all":
        return tuple(i for g in parts.train for i in groups[g]), tuple(i for g in parts.dev for i in groups[g])

    def taken(group: int, cloze: bool) -> list[int]:
        found: dict[str, list[int]] = {}
        for place in groups[group]:
            found.setdefault(units[place].pair, []).append(place)
        return [place for members in found.values() for place in one_of(members, cloze)]

    def one_of(members: list[int], cloze: bool) -> list[int]:
        right = [place for place in members if units[place].label == _TRUE]
        if not right or len(right) == len(members):
            return members
        return [right[0] if cloze else members[int(rng.random() * len(members))]]

    train = tuple(place for group in parts.train for place in taken(group, pairs == "cloze"))
    return train, tuple(place for group in parts.dev for place in taken(group, False))


# --- what to know of splits before trusting them ----------------------------------------------------------------------


def leaks(splits: Sequence[Split], units: Sequence[SplitUnit]) -> list[int]:
    """For each split, how many groups have examples in both parts."""
    counts = []
    for split in splits:
        train = {units[place].group for place in split.train}
        dev = {units[place].group for place in split.dev}
        counts.append(len(train & dev))
    return counts


def gaps(
    splits: Sequence[Split],
    units: Sequence[SplitUnit],
    *,
    labels: Sequence[str] | None = None,
    parts: Sequence[str] = ("train", "dev"),
) -> list[str]:
    """Classes (``labels``, else those that occur) without an example in a part, one line each."""
    known = list(dict.fromkeys(unit.label for unit in units)) if labels is None else list(labels)
    notes = []
    for split in splits:
        for part in parts:
            places = split.train if part == "train" else split.dev
            # A part that is empty by design, such as the dev set of "fixed", lacks nothing.
            if not places:
                continue
            present = {units[place].label for place in places}
            for label in known:
                if label not in present:
                    notes.append(f"split {split.index}: no example of '{label}' to {_PURPOSE[part]}")
    return notes


def repeats(splits: Sequence[Split]) -> list[str]:
    """Splits that part the examples as an earlier one does: they add a training, but no evidence."""
    first: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    notes = []
    for split in splits:
        key = (tuple(sorted(split.train)), tuple(sorted(split.dev)))
        if key in first:
            notes.append(f"split {split.index} parts the examples as split {first[key]} does")
        first.setdefault(key, split.index)
    return notes
