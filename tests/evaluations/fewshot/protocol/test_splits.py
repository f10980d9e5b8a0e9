"""Splits: what they promise for any data, and what they say of data that cannot be split."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.protocol.splits import (
    SplitUnit,
    count_leaking_groups,
    make_splits,
    missing_label_warnings,
    repeated_split_warnings,
    strategy_name,
    units_of,
)
from lmassay.evaluations.fewshot.protocol.strategies import STRATEGIES, shares
from lmassay.evaluations.fewshot.tasks.examples import InputExample

DRAWN = ("multi_splits", "bagging", "random", "model_informed")
HALF = ("multi_splits", "model_informed", "dev32")


def plain(n, labels=("a", "b")):
    return [SplitUnit(str(i), labels[i % len(labels)]) for i in range(n)]


def rows(units, seed=0):
    return np.random.default_rng(seed).standard_normal((len(units), 3))


def split(strategy, units, **options):
    return make_splits(strategy, units, features=rows(units), **options)


@st.composite
def pools(draw):
    """Units of 8 groups or more, of one to three examples, whose examples need not be neighbours."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=8, max_size=24))
    groups = draw(st.permutations([str(g) for g, size in enumerate(sizes) for _ in range(size)]))
    labels = draw(st.lists(st.sampled_from("xyz"), min_size=len(groups), max_size=len(groups)))
    return [SplitUnit(group, label) for group, label in zip(groups, labels, strict=True)]


@settings(max_examples=60, deadline=None)
@given(pools(), st.sampled_from(list(STRATEGIES)), st.booleans(), st.integers(0, 99), st.floats(0.2, 0.8))
def test_no_group_is_in_both_parts(units, strategy, stratify, seed, ratio):
    splits = split(strategy, units, stratify=stratify, seed=seed, ratio=ratio, k=3)
    assert len(splits) == (1 if strategy in ("fixed", "dev32") else 3)
    assert count_leaking_groups(splits, units) == [0] * len(splits)
    for parts in splits:
        assert not set(parts.train) & set(parts.dev)
        assert parts.train
        assert bool(parts.dev) is (strategy != "fixed")
        for part in (parts.train, parts.dev):
            whole = Counter(unit.group for unit in units)
            seen = Counter(units[i].group for i in set(part))
            assert all(seen[group] == whole[group] for group in seen), "groups stay whole"


@settings(max_examples=40, deadline=None)
@given(pools(), st.sampled_from(["multi_splits", "model_informed", "dev32", "cross_validation"]), st.booleans())
def test_every_example_is_used_once(units, strategy, stratify):
    for parts in split(strategy, units, stratify=stratify):
        assert sorted(parts.train + parts.dev) == list(range(len(units)))


@settings(max_examples=30, deadline=None)
@given(pools(), st.sampled_from(list(STRATEGIES)), st.integers(0, 99))
def test_the_same_seed_gives_the_same_splits(units, strategy, seed):
    assert split(strategy, units, seed=seed) == split(strategy, units, seed=seed)


@settings(max_examples=30, deadline=None)
@given(pools(), st.sampled_from(DRAWN), st.integers(0, 99), st.booleans())
def test_more_splits_leave_the_first_as_they_were(units, strategy, seed, stratify):
    fewer = split(strategy, units, seed=seed, k=2, stratify=stratify)
    assert split(strategy, units, seed=seed, k=5, stratify=stratify)[:2] == fewer


@settings(max_examples=30, deadline=None)
@given(st.integers(4, 40), st.sampled_from(HALF), st.floats(0.3, 0.9), st.booleans())
def test_the_ratio_is_kept_to_the_group(n, strategy, ratio, stratify):
    for parts in split(strategy, plain(n), ratio=ratio, stratify=stratify):
        assert len(parts.train) == int(n * ratio)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.data())
def test_every_fold_validates_on_something_and_all_are_validated_once(n, data):
    k = data.draw(st.integers(2, n))
    stratify = data.draw(st.booleans())
    splits = split("cross_validation", plain(n), k=k, stratify=stratify)
    assert sorted(i for parts in splits for i in parts.dev) == list(range(n))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), st.data())
def test_shares_are_proportional_and_add_up(strata, data):
    number = data.draw(st.integers(0, len(strata)))
    share_of = shares(strata, number)
    assert sum(share_of.values()) == number
    for stratum, count in Counter(strata).items():
        assert abs(share_of[stratum] - number * count / len(strata)) < 1
        assert share_of[stratum] <= count


def test_stratified_splits_give_every_label_its_share():
    units = [SplitUnit(str(i), "rare" if i < 4 else "often") for i in range(32)]
    for strategy in ("multi_splits", "cross_validation", "dev32", "model_informed", "mdl"):
        for parts in split(strategy, units, stratify=True):
            assert Counter(units[i].label for i in parts.dev)["rare"] >= (0 if strategy == "mdl" else 1)
            assert Counter(units[i].label for i in parts.train)["rare"] >= 2
    assert missing_label_warnings(split("cross_validation", units, stratify=True), units) == []
    assert missing_label_warnings(split("cross_validation", units), units) != []


def test_bagging_draws_with_replacement_and_validates_on_the_rest():
    units = plain(40)
    for parts in split("bagging", units, ratio=1.0):
        assert len(parts.train) == 40
        assert len(set(parts.train)) < 40
        assert set(parts.dev) == set(range(40)) - set(parts.train)


def test_random_sampling_holds_out_less_than_it_leaves():
    for parts in split("random", plain(40)):
        assert len(parts.train) == len(set(parts.train)) == 20
        assert 0 < len(parts.dev) < 20


def test_model_informed_splits_train_on_one_region_and_validate_on_the_other():
    units = plain(20)
    features = np.zeros((20, 2))
    features[::2] = [5.0, 5.0]
    sides = set()
    for parts in make_splits("MI", units, features=features + rows(units)[:, :2] * 0.1, k=8):
        assert set(parts.train) in (set(range(0, 20, 2)), set(range(1, 20, 2)))
        sides.add(parts.train[0])
    assert sides == {0, 1}, "either cluster may be trained on"


def test_units_take_groups_and_labels_from_callables():
    examples = [InputExample(f"train-{i}", "text", label="x", meta={"q": i // 2}) for i in range(4)]
    assert [u.group for u in units_of(examples, group=lambda e: str(e.meta["q"]))] == ["0", "0", "1", "1"]
    assert len({u.group for u in units_of(examples)}) == 4
    assert units_of(examples, label=lambda e: "y")[0].label == "y"
    with pytest.raises(DataError, match="example 'u-1' has no label"):
        units_of([InputExample("u-1", "text")])


def test_strategies_have_the_names_of_paper_and_original():
    paper = {"CV": "cross_validation", "MDL": "mdl", "BAG": "bagging", "RAND": "random", "MI": "model_informed"}
    original = {"fix_setting": "fixed", "dev32_setting": "dev32", "dev32_split": "multi_splits"}
    for known, name in {**paper, **original, "MS": "multi_splits", "Multi-Splits": "multi_splits"}.items():
        assert strategy_name(known) == name


def test_an_unknown_strategy_is_answered_with_a_similar_name():
    with pytest.raises(ConfigError, match="did you mean 'bagging'"):
        strategy_name("baging")


@pytest.mark.parametrize(
    ("strategy", "n", "options", "error", "message"),
    [
        ("multi_splits", 0, {}, DataError, "no labelled example"),
        ("multi_splits", 1, {}, DataError, "one group"),
        (
            "multi_splits",
            4,
            {"ratio": 0.2},
            DataError,
            "use a ratio of at least 0.25",
        ),
        ("multi_splits", 4, {"ratio": 1.0}, ConfigError, "ratio=1 is not a share"),
        ("multi_splits", 4, {"ratio": float("nan")}, ConfigError, "ratio=nan is not a share"),
        ("multi_splits", 4, {"k": 0}, ConfigError, "at least one split"),
        ("cross_validation", 4, {"k": 5}, ConfigError, "k=5 folds of 'cross_validation' need as many groups"),
        ("cross_validation", 4, {"k": 1}, ConfigError, "k=2 or more"),
        ("mdl", 6, {"k": 4}, ConfigError, "there are 3"),
        ("multi_splits", 4, {"pairs": "some"}, ConfigError, "pairs='some'"),
    ],
)
def test_what_cannot_be_split_is_refused_with_a_remedy(strategy, n, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make_splits(strategy, plain(n), **options)


@pytest.mark.parametrize("n", [2, 3, 6, 7, 9, 25, 33, 100, 150])
def test_the_ratio_that_the_message_recommends_works(n):
    with pytest.raises(DataError) as error:
        make_splits("multi_splits", plain(n), ratio=0.5 / n)
    recommended = float(re.search(r"a ratio of at least ([\d.]+)", str(error.value)).group(1))
    assert make_splits("multi_splits", plain(n), ratio=recommended)


def test_bagging_that_can_hold_nothing_out_says_so():
    units = [SplitUnit("1", "a"), SplitUnit("2", "b")]
    with pytest.raises(DataError, match=r"split 0 of 'bagging' \(k=4, ratio=1, 2 groups\) has nothing to validate on"):
        make_splits("bagging", units, ratio=1.0, stratify=True)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (None, ConfigError, "one row per example"),
        (np.zeros((3, 2)), DataError, r"shape \(3, 2\) do not fit 4 examples"),
        (np.array([[0.0], [np.nan], [1.0], [2.0]]), DataError, "features of example 1"),
    ],
)
def test_features_must_fit_the_examples(features, error, message):
    with pytest.raises(error, match=message):
        make_splits("model_informed", plain(4), features=features)


def test_features_that_are_all_alike_still_split():
    units = plain(6)
    for parts in make_splits("model_informed", units, features=np.ones((6, 2))):
        assert len(parts.train) == len(parts.dev) == 3


def test_gaps_name_split_label_and_part():
    units = [SplitUnit(str(i), "neutral" if i == 0 else "yes") for i in range(4)]
    splits = make_splits("dev32", units)
    assert missing_label_warnings(splits, units) == ["split 0: no example of 'neutral' to validate on"]
    assert missing_label_warnings(splits, units, labels=["yes", "no"]) == [
        "split 0: no example of 'no' to train on",
        "split 0: no example of 'no' to validate on",
    ]
    assert missing_label_warnings(make_splits("fixed", units), units) == []


def test_splits_that_repeat_are_reported():
    units = plain(2)
    notes = repeated_split_warnings(make_splits("multi_splits", units, k=4))
    assert notes
    assert re.fullmatch(r"split \d divides the examples as split \d does", notes[0])


def test_one_of_a_pair_is_taken_and_examples_without_a_wrong_one_stay():
    units = [SplitUnit(str(i // 2), "True" if i % 2 else "False") for i in range(8)]
    units += [SplitUnit("lone", "False"), SplitUnit("twin", "True"), SplitUnit("twin", "True")]
    for parts in make_splits("multi_splits", units, pairs="cloze"):
        assert all(units[i].label == "True" or units[i].group == "lone" for i in parts.train)
        seen = Counter(units[i].group for i in parts.train + parts.dev)
        assert seen == {"0": 1, "1": 1, "2": 1, "3": 1, "lone": 1, "twin": 2}
