"""The order of the training examples."""

from __future__ import annotations

from itertools import islice

import pytest

from lmassay.errors import ModelError


def setup_module() -> None:
    """Import torch when the first test runs: collecting the tests does not wait for it."""
    global batches, epochs
    from lmassay.evaluations.fewshot.methods.sampler import batches, epochs


def test_every_epoch_is_another_permutation() -> None:
    first, second = islice(epochs(9, seed=1), 2)
    assert sorted(first) == sorted(second) == list(range(9))
    assert first != second


def test_the_order_follows_the_seed_alone() -> None:
    assert list(islice(epochs(9, seed=1), 3)) == list(islice(epochs(9, seed=1), 3))
    assert next(epochs(9, seed=1)) != next(epochs(9, seed=2))


def test_batches_go_through_an_epoch_before_the_next_begins() -> None:
    parts = list(islice(batches(10, 4, seed=7), 6))
    assert [len(part) for part in parts] == [4, 4, 2, 4, 4, 2]
    assert [place for part in parts[:3] for place in part] == next(epochs(10, seed=7))


def test_nothing_to_draw_from_is_told_instead_of_waiting_for_ever() -> None:
    with pytest.raises(ModelError, match="no examples to draw from"):
        next(batches(0, 4, seed=1))
