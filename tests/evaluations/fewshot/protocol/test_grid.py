"""Grids of hyper-parameters."""

from __future__ import annotations

import pytest

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.protocol.grid import configurations


def test_all_combinations_come_in_order_and_single_values_stay_out_of_the_name():
    found = configurations({"learning_rate": [1e-5, 2e-5], "pattern_id": [0, 1], "max_steps": 250, "head": "lstm"})
    assert [c.name for c in found] == [
        "learning_rate=1e-05, pattern_id=0",
        "learning_rate=1e-05, pattern_id=1",
        "learning_rate=2e-05, pattern_id=0",
        "learning_rate=2e-05, pattern_id=1",
    ]
    assert found[3].params == {"learning_rate": 2e-5, "pattern_id": 1, "max_steps": 250, "head": "lstm"}


def test_an_empty_grid_is_one_configuration():
    assert [c.params for c in configurations({})] == [{}]
    assert configurations({"max_steps": 5})[0].params == {"max_steps": 5}


def test_keys_joined_by_a_comma_turn_together():
    found = configurations({"lr, prompt_lr": [[5e-6, 1e-5], [1e-5, 1e-4]], "steps": [1, 2]})
    assert [c.params["prompt_lr"] for c in found] == [1e-5, 1e-5, 1e-4, 1e-4]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"lr": []}, "'lr' has no value"),
        ({"lr": [1e-5, 1e-5]}, "has 1e-05 twice"),
        ({"lr, warmup": [[1, 2, 3]]}, "turns 2 keys together"),
        ({"lr, warmup": [1, 2]}, "turns 2 keys together"),
        ({"lr, warmup": [[1, 2]], "lr": [1]}, "'lr' twice"),
        ({"lr,": [1]}, "lacks a name"),
    ],
)
def test_a_grid_that_is_no_grid_is_refused(grid, message):
    with pytest.raises(ConfigError, match=message):
        configurations(grid)
