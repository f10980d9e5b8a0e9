"""EW and MW against a slow reading of the definition: whole vocabulary, ranks, sets, one lemma after the other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lmassay.evaluations.syntax import metrics
from lmassay.models.hf.logits import candidate_columns

CUTOFFS = [0.05, 0.3, 0.31, 0.5, 0.9, 0.97, 1e-3, 1e-6]


def slow(p, lemmas, is_plural, cutoff, top):
    """EW, MW and mass at one cut-off, by section 1.4 of the definition."""
    order = np.argsort(-p, kind="stable")
    order = order if top else order[::-1]
    reached = np.minimum(np.cumsum(p[order]), 1.0)
    k = next((i for i, c in enumerate(reached) if c >= cutoff), len(p))
    low = reached[k - 1] if k else 0.0
    high = reached[k] if k < len(p) else 1.0
    alpha = (cutoff - low) / (high - low) if high > low else 0.0
    sets = [set(order[:k].tolist()), set(order[: k + 1].tolist())]
    points = []
    for members in sets:
        counted, wins, r, w, mass = 0, 0, 0.0, 0.0, 0.0
        for singular, plural in lemmas:
            right, wrong = (plural, singular) if is_plural else (singular, plural)
            inside = [form in members for form in (right, wrong)]
            if not (any(inside) if top else all(inside)):
                continue
            counted += 1
            wins += p[right] > p[wrong]
            mass += p[right] + p[wrong]
            r += p[right] if inside[0] else 0.0
            w += p[wrong] if inside[1] else 0.0
        points.append((wins / counted if counted else math.nan, r / (r + w) if r + w else math.nan, mass))
    merged = []
    for before, after in zip(*points, strict=True):
        before, after = (after if math.isnan(before) else before), (before if math.isnan(after) else after)
        merged.append((1 - alpha) * before + alpha * after)
    return merged


@st.composite
def contexts(draw):
    size = draw(st.integers(6, 60))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    logits = (rng.normal(size=size) * draw(st.sampled_from([0.5, 3.0, 6.0]))).astype(np.float32)
    count = draw(st.integers(1, size // 2))
    ids = rng.permutation(size)[: 2 * count].reshape(count, 2)
    return logits, ids, draw(st.booleans())


@settings(deadline=None, max_examples=100)
@given(contexts())
def test_curves_follow_the_definition(context):
    logits, lemmas, is_plural = context
    p32 = np.exp(logits - logits.max())
    p32 /= p32.sum()
    candidates = candidate_columns(logits, p32, np.arange(len(logits)))
    columns = [np.asarray(c)[None] for c in (candidates.logprobs, candidates.masses_above, candidates.masses_below)]
    forms = metrics.arrange_by_lemma(*columns, lemmas[:, 0], lemmas[:, 1], np.array([is_plural]))
    p = np.exp(columns[0][0])
    for top, curve in ((True, metrics.top_curve), (False, metrics.bottom_curve)):
        points = curve(forms, CUTOFFS)
        for place, cutoff in enumerate(CUTOFFS):
            expected = slow(p, lemmas, is_plural, cutoff, top)
            got = [points.ew[0, place], points.mw[0, place], points.mass[0, place]]
            np.testing.assert_allclose(got, expected, atol=1e-4, equal_nan=True)


def forms(p, above=None, below=None, plural=(False,)):
    p = np.asarray(p, dtype=float)
    logprobs = np.log(np.where(p > 0, p, np.nan))
    count = p.shape[1] // 2
    return metrics.arrange_by_lemma(
        logprobs, above, below, np.arange(0, 2 * count, 2), np.arange(1, 2 * count, 2), np.array(plural)
    )


def test_the_headline_counts_every_lemma_alike_or_by_its_probability():
    whole = metrics.without_cutoff(forms([[0.4, 0.1, 0.05, 0.2]]))
    assert whole.ew[0] == 0.5
    assert whole.mw[0] == pytest.approx(0.45 / 0.75)
    assert whole.mass[0] == pytest.approx(0.75)


def test_the_plural_form_is_the_right_one_where_the_label_says_so():
    whole = metrics.without_cutoff(forms([[0.4, 0.1]] * 2, plural=(False, True)))
    assert whole.ew.tolist() == [1.0, 0.0]
    assert whole.mw == pytest.approx([0.8, 0.2])


def test_at_the_cutoff_one_every_lemma_counts():
    p, above = [[0.4, 0.1, 0.05, 0.2]], np.array([[0.0, 0.6, 0.7, 0.4]])
    whole = metrics.without_cutoff(forms(p))
    curve = metrics.top_curve(forms(p, above), [1.0])
    assert (curve.ew[0, 0], curve.mw[0, 0]) == pytest.approx((whole.ew[0], whole.mw[0]))


def test_a_tie_is_no_win():
    assert metrics.without_cutoff(forms([[0.2, 0.2]])).ew[0] == 0.0


@pytest.mark.fault(27)
def test_lemmas_with_one_form_in_the_vocabulary_do_not_count():
    whole = metrics.without_cutoff(forms([[0.4, 0.1, 0.3, 0.0]]))
    assert whole.ew[0] == 1.0
    assert whole.mass[0] == pytest.approx(0.5)


@pytest.mark.fault(27)
def test_without_any_lemma_there_is_no_score():
    whole = metrics.without_cutoff(forms([[0.4, 0.0]]))
    assert np.isnan(whole.ew[0])
    assert np.isnan(whole.mw[0])


def test_the_order_of_the_cutoffs_does_not_matter():
    p, above = [[0.4, 0.1, 0.05, 0.2]], np.array([[0.0, 0.6, 0.7, 0.4]])
    one = metrics.top_curve(forms(p, above), [0.1, 0.5, 0.9])
    other = metrics.top_curve(forms(p, above), [0.9, 0.1, 0.5])
    np.testing.assert_allclose(one.ew[0], other.ew[0][[1, 2, 0]], equal_nan=True)
    np.testing.assert_allclose(one.mass[0], other.mass[0][[1, 2, 0]])
