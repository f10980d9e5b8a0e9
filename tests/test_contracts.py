"""What a task gets from its base class."""

from __future__ import annotations

import pytest

from lmassay import Metric, Task
from lmassay.errors import PluginError
from lmassay.statistics.table import ScoreTable
from lmassay.types import Design, Example, Row, Score, Settings


def table_of(*scores: dict[str, float]) -> ScoreTable:
    return ScoreTable([Row(Example(str(n), {}), "scored", Score(values)) for n, values in enumerate(scores)])


class Rude(Task):
    name = "rude"
    design = Design(weights={"slurs_per_word": "words"})


SCORES = ({"slurs_per_word": 0.5, "words": 2.0}, {"slurs_per_word": 0.0, "words": 8.0})


def test_the_default_mean_uses_the_weights_of_the_design():
    """As comparisons do: one slur in ten words."""
    results = Rude().aggregate(table_of(*SCORES), Settings())
    assert [(result.metric, result.value, result.n) for result in results] == [("slurs_per_word", 0.1, 2)]


def test_values_outside_the_unit_interval_are_weighted_too():
    result, *_ = Rude().aggregate(
        table_of(*({"slurs_per_word": n - 5.0, "words": 1.0 + n % 3} for n in range(12))), Settings()
    )
    weights = [1.0 + n % 3 for n in range(12)]
    assert result.value == pytest.approx(sum((n - 5.0) * w for n, w in enumerate(weights)) / sum(weights))
    assert result.low < result.value < result.high


def test_a_weight_that_no_example_has_is_an_error():
    with pytest.raises(PluginError, match="'words'"):
        Rude().aggregate(table_of({"slurs_per_word": 0.5}), Settings())


def test_metrics_are_reported_in_the_order_in_which_they_are_declared():
    class Declared(Task):
        name = "declared"
        metrics = (Metric("zeal"), Metric("art"))

    results = Declared().aggregate(table_of({"art": 1.0, "zeal": 0.0, "helper": 3.0}), Settings())
    assert [result.metric for result in results] == ["zeal", "art"]
