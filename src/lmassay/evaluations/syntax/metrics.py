"""EW and MW of Newman et al. (2021): do verbs agree, each verb counting alike or by its probability?

All of a batch at once: contexts × lemmas × two forms. A cut-off needs of the vocabulary's order only where each form
stands in it, that is, the probability before it and the probability behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]
RIGHT, WRONG = 0, 1


@dataclass(frozen=True, slots=True)
class Forms:
    """For each context and lemma the two forms, the agreeing one first: probability, mass above, mass below.

    Lemmas without both forms in the vocabulary have probability 0, are not ``known`` and lie behind everything.
    """

    p: Floats
    known: NDArray[np.bool_]
    above: Floats | None = None
    below: Floats | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """One row a context (and one column a cut-off in curves); NaN where no lemma counts."""

    ew: Floats
    mw: Floats
    mass: Floats


def forms_of(columns: Sequence[Floats | None], singular: Bins, plural: Bins, is_plural: NDArray[np.bool_]) -> Forms:
    """Sort columns of candidates (contexts × candidates: log-probability, mass above, mass below) into lemmas."""
    assert columns[0] is not None
    # About half of a verb list is spelled with several tokens; what no context can score is left out at once.
    spelled = np.asarray(~np.isnan(columns[0]).all(axis=0))
    kept = spelled[singular] & spelled[plural]
    places = np.stack([singular[kept], plural[kept]], axis=1)

    def in_lemmas(column: Floats) -> Floats:
        found = column[:, places]
        found[is_plural] = found[is_plural][:, :, ::-1]
        return found

    logprobs, above, below = (None if column is None else in_lemmas(column) for column in columns)
    assert logprobs is not None
    known = np.asarray(~np.isnan(logprobs).any(axis=2))
    p = np.where(known[:, :, None], np.exp(logprobs), 0.0)
    if above is None:
        return Forms(p, known)
    if below is None:
        below = np.maximum(1 - above - p, 0.0)
    return Forms(p, known, *(np.where(known[:, :, None], mass, np.inf) for mass in (above, below)))


def without_cutoff(forms: Forms) -> Scores:
    """The headline: over all lemmas, in double precision."""
    right, wrong = forms.p[:, :, RIGHT], forms.p[:, :, WRONG]
    with np.errstate(invalid="ignore", divide="ignore"):
        ew = ((right > wrong) & forms.known).sum(axis=1) / forms.known.sum(axis=1)
        r, w = right.sum(axis=1), wrong.sum(axis=1)
        return Scores(np.asarray(ew), np.asarray(r / (r + w)), r + w)


def top_curve(forms: Forms, cutoffs: Sequence[float]) -> Scores:
    """Only the most probable tokens that reach each cut-off together: a lemma counts with either form in."""
    assert forms.above is not None
    assert forms.below is not None
    return _curve(forms, forms.above, _behind(forms.below), cutoffs, top=True)


def bottom_curve(forms: Forms, cutoffs: Sequence[float]) -> Scores:
    """Only the least probable tokens that reach each cut-off together: a lemma counts with both forms in."""
    assert forms.above is not None
    assert forms.below is not None
    return _curve(forms, forms.below, _behind(forms.above), cutoffs, top=False)


def _behind(mass: Floats) -> Floats:
    return np.where(np.isinf(mass), np.inf, 1 - mass)


def _curve(forms: Forms, low: Floats, high: Floats, cutoffs: Sequence[float], *, top: bool) -> Scores:
    """Interpolate between the set that just misses a cut-off and the one that just reaches it."""
    order = np.argsort(cutoffs)
    v = np.asarray(cutoffs, dtype=np.float64)[order]
    # A token is in the missing set of every cut-off above the mass that includes it, in the reaching set of every
    # cut-off above the mass before it; so each token enters at one bin and stays.
    missing = np.searchsorted(v, high, side="right")
    reaching = np.searchsorted(v, low, side="right")
    alpha = _alpha(forms.p, low, high, missing, reaching, v)
    pre, post = (_of_set(forms, bins, len(v), top) for bins in (missing, reaching))
    back = np.argsort(order)
    return Scores(
        *(
            _between(before, after, alpha)[:, back]
            for before, after in ((pre.ew, post.ew), (pre.mw, post.mw), (pre.mass, post.mass))
        )
    )


def _alpha(p: Floats, low: Floats, high: Floats, missing: Bins, reaching: Bins, v: Floats) -> Floats:
    """How far each cut-off lies between the two sets. Where no listed token is at the border the sets are equal.

    Tokens of equal probability enter together, but the cut-off is reached by one of them, as in the original.
    """
    alpha = np.zeros((len(low), len(v)))
    context, lemma, form = np.nonzero((reaching < missing) & (p > 0))
    first, end = reaching[context, lemma, form], missing[context, lemma, form]
    lo, hi, step = (column[context, lemma, form] for column in (low, high, p))
    for j in range(len(v)):
        at = (first <= j) & (j < end)
        steps = (v[j] - lo[at]) / step[at]
        several = hi[at] - lo[at] > 1.5 * step[at]
        alpha[context[at], j] = np.where(several, steps - np.ceil(steps) + 1, np.clip(steps, 0, 1))
    return alpha


def _of_set(forms: Forms, bins: Bins, cutoffs: int, top: bool) -> Scores:
    right, wrong = forms.p[:, :, RIGHT], forms.p[:, :, WRONG]
    lemma = bins.min(axis=2) if top else bins.max(axis=2)
    counted = _up_to(lemma, None, cutoffs)
    wins = _up_to(lemma, (right > wrong).astype(np.float64), cutoffs)
    r = _up_to(bins[:, :, RIGHT] if top else lemma, right, cutoffs)
    w = _up_to(bins[:, :, WRONG] if top else lemma, wrong, cutoffs)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Scores(wins / counted, r / (r + w), _up_to(lemma, right + wrong, cutoffs))


def _up_to(bins: Bins, weights: Floats | None, cutoffs: int) -> Floats:
    """Sums over what has entered by each cut-off."""
    contexts = len(bins)
    flat = (bins + (cutoffs + 1) * np.arange(contexts)[:, None]).ravel()
    entered = np.bincount(flat, None if weights is None else weights.ravel(), contexts * (cutoffs + 1))
    return np.cumsum(entered.reshape(contexts, cutoffs + 1)[:, :cutoffs], axis=1).astype(np.float64)


def _between(pre: Floats, post: Floats, alpha: Floats) -> Floats:
    before = np.where(np.isnan(pre), post, pre)
    after = np.where(np.isnan(post), pre, post)
    return np.asarray((1 - alpha) * before + alpha * after)
