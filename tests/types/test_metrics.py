"""The declaration of a metric."""

import json
import math

import pytest

from lmassay.types import Metric, Provenance, provenance_from_dict


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"name": ""}, "name must be a text that is not empty"),
        ({"name": 3}, "name must be a text that is not empty"),
        ({"better": "loewr"}, "better must be 'higher', 'lower' or 'zero'"),
        ({"bounds": (1, 0)}, "bounds must be two numbers, the smaller first"),
        ({"bounds": (1, 1)}, "bounds must be two numbers"),
        ({"bounds": (1,)}, "bounds must be two numbers"),
        ({"bounds": "ab"}, "bounds must be two numbers"),
        ({"bounds": (0, math.nan)}, "bounds must be two numbers"),
        ({"bounds": (math.inf, 0)}, "bounds must be two numbers"),
        ({"chance": "half"}, "chance must be a number"),
        ({"chance": math.nan}, "chance must be a number"),
        ({"bounds": (0, 1), "chance": 7}, "chance must be within the bounds"),
    ],
)
def test_a_metric_is_checked_when_it_is_declared(members, message):
    with pytest.raises(ValueError, match=message):
        Metric(**{"name": "m", **members})


@pytest.mark.parametrize(
    ("bounds", "stored", "both"),
    [
        ((0, math.inf), (0.0, None), None),
        ((-math.inf, 1), (None, 1.0), None),
        ((-math.inf, math.inf), None, None),
        ([0, 1], (0.0, 1.0), (0.0, 1.0)),
    ],
)
def test_an_infinite_bound_is_stored_as_none(bounds, stored, both):
    metric = Metric("m", bounds=bounds)
    assert (metric.bounds, metric.range) == (stored, both)
    written = json.loads(json.dumps(Provenance(metrics=(metric,)).as_dict(), allow_nan=False))
    assert provenance_from_dict(written).metrics == (metric,)


def test_a_stored_metric_is_read_without_its_invalid_fields():
    read = provenance_from_dict({"metrics": [{"name": "m", "better": "lower", "bounds": [1, 0], "chance": 7}]})
    assert read.metrics == (Metric("m", better="lower"),)
