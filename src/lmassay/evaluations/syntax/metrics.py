"""EW and MW of Newman et al. (2021): do verbs agree, each verb counting the same or by its probability?

All of a batch at once: contexts × lemmas × two forms. A cut-off needs of the vocabulary's order only where each form
stands in it, that is, the probability before it and the probability behind it. :func:`results` makes the numbers of a
run of them: overall, by construction, by number, along the cut-offs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmassay.statistics import intervals
from lmassay.statistics.estimation import Term, estimate
from lmassay.statistics.intervals import Settings
from lmassay.statistics.observations import Observations, observations
from lmassay.statistics.table import ScoreTable
from lmassay.types import Result

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]
RIGHT, WRONG = 0, 1


@dataclass(frozen=True, slots=True)
class LemmaForms:
    """For each context and lemma the two forms, the agreeing one first: probability, mass above, mass below.

    Lemmas without both forms in the vocabulary have probability 0, are not ``known`` and lie behind everything.
    """

    p: Floats
    known: NDArray[np.bool_]
    above: Floats | None = None
    below: Floats | None = None


@dataclass(frozen=True, slots=True)
class ContextScores:
    """One row a context (and one column a cut-off in curves); NaN where no lemma counts."""

    ew: Floats
    mw: Floats
    mass: Floats


# --- the formulas -----------------------------------------------------------------------------------------------------

# `lmassay run` and `lmassay tse` both come here, and nothing else computes these numbers.


def tse_of_pair(right: float, wrong: float) -> Literal[0, 1]:
    """TSE of one pair of verbs: 1 if the agreeing form is the more probable one."""
    return 1 if right > wrong else 0


def ew_of_lemmas(agreeing: Floats, counted: Floats) -> Floats:
    """EW: the share of the lemmas that count whose agreeing form is the more probable one; NaN if none counts."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(agreeing / counted)


def mw_of_masses(right: Floats, wrong: Floats) -> Floats:
    """MW: the share of the probability of all forms that agreeing ones have; NaN without any."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(right / (right + wrong))


# --- the scores of contexts -------------------------------------------------------------------------------------------


def forms_of(
    columns: Sequence[Floats | None], singular: Bins, plural: Bins, is_plural: NDArray[np.bool_]
) -> LemmaForms:
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
        return LemmaForms(p, known)
    if below is None:
        below = np.maximum(1 - above - p, 0.0)
    return LemmaForms(p, known, *(np.where(known[:, :, None], mass, np.inf) for mass in (above, below)))


def without_cutoff(forms: LemmaForms) -> ContextScores:
    """The headline: over all lemmas, in double precision."""
    right, wrong = forms.p[:, :, RIGHT], forms.p[:, :, WRONG]
    ew = ew_of_lemmas(((right > wrong) & forms.known).sum(axis=1), forms.known.sum(axis=1))
    r, w = right.sum(axis=1), wrong.sum(axis=1)
    return ContextScores(ew, mw_of_masses(r, w), r + w)


def top_curve(forms: LemmaForms, cutoffs: Sequence[float]) -> ContextScores:
    """Only the most probable tokens that reach each cut-off together: a lemma counts with either form in."""
    assert forms.above is not None
    assert forms.below is not None
    return _curve(forms, forms.above, _behind(forms.below), cutoffs, top=True)


def bottom_curve(forms: LemmaForms, cutoffs: Sequence[float]) -> ContextScores:
    """Only the least probable tokens that reach each cut-off together: a lemma counts with both forms in."""
    assert forms.above is not None
    assert forms.below is not None
    return _curve(forms, forms.below, _behind(forms.above), cutoffs, top=False)


def _behind(mass: Floats) -> Floats:
    return np.where(np.isinf(mass), np.inf, 1 - mass)


def _curve(forms: LemmaForms, low: Floats, high: Floats, cutoffs: Sequence[float], *, top: bool) -> ContextScores:
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
    return ContextScores(
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


def _of_set(forms: LemmaForms, bins: Bins, cutoffs: int, top: bool) -> ContextScores:
    right, wrong = forms.p[:, :, RIGHT], forms.p[:, :, WRONG]
    lemma = bins.min(axis=2) if top else bins.max(axis=2)
    counted = _up_to(lemma, None, cutoffs)
    wins = _up_to(lemma, (right > wrong).astype(np.float64), cutoffs)
    r = _up_to(bins[:, :, RIGHT] if top else lemma, right, cutoffs)
    w = _up_to(bins[:, :, WRONG] if top else lemma, wrong, cutoffs)
    return ContextScores(ew_of_lemmas(wins, counted), mw_of_masses(r, w), _up_to(lemma, right + wrong, cutoffs))


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


# --- from scores of contexts to results -------------------------------------------------------------------------------

Mask = NDArray[np.bool_]
CLUSTER = "noun"
VERB_PAIR = "verb_pair"
"""What the outcomes of TSE are labelled by."""
MEAN_OF_CONSTRUCTIONS = "mean of constructions"
"""The group of the mean over constructions, each counting alike."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """Some rows of the table under a name."""

    group: str
    where: Mask
    is_construction: bool = False
    has_curves: bool = True


def results(table: ScoreTable, ew_names: Sequence[str], settings: Settings) -> list[Result]:
    """TSE, EW, MW and mass for every part of the data; curves overall and by construction."""
    parts = list(_parts(table))
    found: list[Result] = []
    for part in parts:
        found.append(_tse(table, settings, part))
        found += [_mean(table, metric, settings, part) for metric in ("ew", "mw", "mass")]
    constructions = [part for part in parts if part.is_construction]
    if constructions:
        found += [_macro(table, metric, constructions, found, settings) for metric in ("tse", "ew", "mw", "mass")]
    for part in parts:
        for ew in ew_names if part.has_curves else ():
            at = ew.partition("@")[2]
            found += [_mean(table, f"{metric}@{at}", settings, part) for metric in ("ew", "mw", "mass")]
            found.append(_invalid(table, at, settings, part))
    return found


def _parts(table: ScoreTable) -> Iterator[TablePart]:
    yield TablePart("overall", np.ones(len(table), dtype=bool))
    numbers = [(label, where) for label, where in table.parts("number") if label in ("singular", "plural")]
    yield from (TablePart(f"number={label}", where, has_curves=False) for label, where in numbers)
    constructions = dict(table.parts("construction"))
    if len(constructions) < 2:
        return
    for name in dict.fromkeys(table.groups["construction"]):
        inside = constructions[name]
        yield TablePart(f"construction={name}", inside, is_construction=True)
        for label, where in numbers:
            if (inside & where).any():
                yield TablePart(f"construction={name},number={label}", inside & where, has_curves=False)


def _mean(table: ScoreTable, metric: str, settings: Settings, part: TablePart) -> Result:
    return intervals.mean_result(table, metric, settings, group=part.group, where=part.where, cluster=CLUSTER)


def _tse(table: ScoreTable, settings: Settings, part: TablePart) -> Result:
    """Over rows, as published: a context counts as often as the data try a pair of verbs in it."""
    rows = np.array([float(count) for count in table.groups["rows"]])
    in_error = table.in_error()
    n_error = int(rows[part.where & in_error].sum())
    n = int(np.nan_to_num(table.column("tse_rows"))[part.where].sum())
    n_unscored = int(rows[part.where & ~in_error].sum()) - n
    observed = _observed(table, "tse", part.where)
    if observed is None:
        return Result("tse", part.group, None, None, None, 0, n_error, n_unscored)
    estimated = intervals.mean_estimate(observed.values, observed.clusters, weights=observed.weights)
    return intervals.observed_result(estimated, observed, "tse", part.group, (n, n_error, n_unscored), settings)


def _observed(table: ScoreTable, metric: str, where: Mask) -> Observations | None:
    """The values of a metric: TSE by pair of verbs, counted by rows, because contexts share verbs as well as nouns."""
    if metric != "tse":
        return observations(table, metric, where, clusters=(CLUSTER,))
    return observations(table, metric, where, clusters=(CLUSTER,), weight="tse_rows", crossed=VERB_PAIR)


def _invalid(table: ScoreTable, at: str, settings: Settings, part: TablePart) -> Result:
    """The share of contexts in which no lemma is within the cut-off; only a model that ranks its words can tell."""
    whole = part.where & ~np.isnan(table.column(f"mass@{at}"))
    n = int(whole.sum())
    n_error = table.counts("ew", part.where)[1]
    n_unscored = int(part.where.sum()) - n - n_error
    if n == 0:
        return Result(f"invalid@{at}", part.group, None, None, None, 0, n_error, n_unscored)
    without = np.isnan(table.column(f"ew@{at}"))[whole]
    estimated = intervals.mean_estimate(without.astype(float), [table.codes(CLUSTER)[1][whole]])
    counts = (n, n_error, n_unscored)
    return intervals.result_of(estimated, f"invalid@{at}", part.group, counts, settings, (CLUSTER,))


def _macro(
    table: ScoreTable, metric: str, parts: Sequence[TablePart], found: Sequence[Result], settings: Settings
) -> Result:
    """The mean over constructions, each counting alike; large templates would drown the others.

    Constructions share their nouns and verbs, so what a noun or a verb adds to each of them is added up before its
    spread is looked at. The constructions themselves are those asked about, not a sample of others.
    """
    groups = {part.group for part in parts}
    rows = [r for r in found if r.metric == metric and r.group in groups]
    counts = (sum(r.n for r in rows), sum(r.n_error for r in rows), sum(r.n_unscored for r in rows))
    scored: list[Observations] = []
    for part in parts:
        observed = _observed(table, metric, part.where)
        if observed is not None:
            scored.append(observed)
    if not scored:
        return Result(metric, MEAN_OF_CONSTRUCTIONS, None, None, None, *counts)
    terms = []
    for one in scored:
        terms.append(Term(one.values, 1 / len(scored), one.clusters, one.weights, are_counts=metric == "tse"))
    estimated = estimate(terms, bounds=(0.0, 1.0))
    mean = replace(scored[0], mean=float(np.mean([one.mean for one in scored])))
    return intervals.observed_result(estimated, mean, metric, MEAN_OF_CONSTRUCTIONS, counts, settings)
