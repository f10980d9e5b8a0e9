"""The criterion and TEAPOT's statistics, on small numbers worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.evaluations.robustness.criterion import (
    relative_decrease,
    success_with_reference,
    success_without_reference,
    summarise,
)

unit = st.floats(0, 1)


def arrays(*values):
    return [np.asarray(v, dtype=float) for v in values]


def test_relative_decrease_is_clamped_and_zero_where_the_base_is_zero():
    base, adv = arrays([0.8, 0.4, 0.0, 0.5], [0.2, 0.6, 0.3, 0.5])
    assert relative_decrease(base, adv) == pytest.approx([0.75, 0, 0, 0])


def test_with_a_reference_the_sum_must_exceed_the_threshold():
    s_src, d_tgt = arrays([0.6, 0.6, 1.0], [0.4, 0.5, 0.0])
    assert success_with_reference(s_src, d_tgt, 1.0).tolist() == [False, True, False]


def test_without_one_a_wholly_destroyed_target_is_a_success_and_nothing_at_all_is_not():
    s_src, s_tgt = arrays([0.5, 0.0, 0.5, 0.5, 0.0], [0.0, 0.0, 0.5, 0.25, 0.5])
    assert success_without_reference(s_src, s_tgt, 1.0).tolist() == [True, False, False, True, False]
    assert success_without_reference(s_src, s_tgt, -1.0).tolist() == [True, False, True, True, True]


def test_percentiles_are_taken_without_interpolation():
    summary = summarise(np.arange(20, dtype=float)[::-1])
    assert (summary.p5, summary.p95) == (1.0, 19.0)
    assert summary.std == pytest.approx(np.arange(20).std(ddof=1))


def test_scores_are_added_in_order_of_size_as_the_original_does():
    scores = np.array([0.3, 0.1, 0.7, 0.2] * 8)
    total = 0.0
    for score in sorted(scores.tolist()):
        total += score
    assert summarise(scores).mean == total / 32


def test_a_single_score_has_no_spread():
    summary = summarise(np.array([0.7]))
    assert (summary.mean, summary.std, summary.p5, summary.p95) == (0.7, 0.0, 0.7, 0.7)


@given(st.lists(st.tuples(unit, unit), min_size=1, max_size=50))
def test_a_stronger_attack_never_loses(pairs):
    base, adv = arrays([p[0] for p in pairs], [p[1] for p in pairs])
    decrease = relative_decrease(base, adv)
    assert ((decrease >= 0) & (decrease <= 1)).all()
    assert (relative_decrease(base, adv / 2) >= decrease - 1e-12).all()
