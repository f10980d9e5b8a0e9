"""A run's provenance as JSON."""

import pytest

from lmassay.types import Provenance, provenance_from_dict


@pytest.mark.parametrize("evaluation", [None, "", "some"])
def test_no_evaluation_differs_from_an_evaluation_that_was_not_recorded(evaluation):
    assert provenance_from_dict(Provenance(evaluation=evaluation).as_dict()).evaluation == evaluation
