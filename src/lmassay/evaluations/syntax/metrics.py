"""Do verbs agree with their subjects? TSE, and the EW and MW accuracy of Newman et al. (2021).

TSE is targeted syntactic evaluation, which compares the two forms of one given verb. The equally weighted (EW) and the
model-weighted (MW) accuracy compare the forms of many verbs: every verb counts the same, or by its probability.

Notation: v is a lemma of the verb list with the forms v+ (agreeing) and v- (not agreeing), P the model's probability
at the blank.

    TSE: 1 if P(v+) > P(v-) for the verb of the pair
    EW:  the share of lemmas with P(v+) > P(v-)
    MW:  sum of P(v+) / (sum of P(v+) + sum of P(v-))

All contexts of a batch are computed at once (contexts × lemmas × two forms). To apply a cut-off, the whole ranked
vocabulary is not needed: for each form, the summed probability of the more probable tokens (above) and of the less
probable ones (below) is enough. :func:`results` computes the results of a run: overall, by construction, by
grammatical number, and at each cut-off.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmassay.statistics import intervals
from lmassay.statistics.estimation import estimate
from lmassay.statistics.intervals import Settings
from lmassay.statistics.observations import Observations, observations
from lmassay.statistics.table import ScoreTable
from lmassay.statistics.terms import Term
from lmassay.types import Result

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Bins = NDArray[np.int64]
"""For each form or lemma the first cut-off, by its index, whose set of tokens contains it."""
RIGHT, WRONG = 0, 1
"""The positions of the two forms of a lemma: the agreeing form comes first."""


@dataclass(frozen=True, slots=True)
class LemmaForms:
    """For each context and lemma the two forms, the agreeing one first: probability, mass above, mass below.

    Lemmas without both forms in the vocabulary are not ``in_vocabulary``: their probability is 0, and they rank after
    all others.
    """

    p: Floats
    in_vocabulary: NDArray[np.bool_]
    above: Floats | None = None
    below: Floats | None = None


@dataclass(frozen=True, slots=True)
class ContextScores:
    """One row per context (and one column per cut-off in curves); NaN where no lemma counts."""

    ew: Floats
    mw: Floats
    mass: Floats


# --- the formulas -----------------------------------------------------------------------------------------------------

# `lmassay run` and `lmassay tse` both call these functions; nothing else computes these numbers.


def tse_of_pair(right: float, wrong: float) -> Literal[0, 1]:
    """Return TSE of one pair of verbs: 1 if the agreeing form is more probable. A tie counts as wrong."""
    return 1 if right > wrong else 0


def ew_of_lemmas(agreeing: Floats, counted: Floats) -> Floats:
    """Return EW: the share of the counted lemmas whose agreeing form is more probable; NaN if none counts."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(agreeing / counted)


def mw_of_masses(right: Floats, wrong: Floats) -> Floats:
    """Return MW: the share of the probability of all forms that agreeing ones have; NaN without any."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(right / (right + wrong))


# --- the scores of contexts -------------------------------------------------------------------------------------------


def arrange_by_lemma(
    logprobs: Floats,
    above: Floats | None,
    below: Floats | None,
    singular: Indices,
    plural: Indices,
    is_plural: NDArray[np.bool_],
) -> LemmaForms:
    """Arrange the values of candidates by lemma, the agreeing form first.

    ``logprobs``, ``above`` and ``below`` are the log-probability, the mass above and the mass below (contexts ×
    candidates); ``singular`` and ``plural`` are the candidates that are the forms of each lemma; ``is_plural`` says in
    which contexts the plural agrees.
    """
    # About half of the forms in a verb list have several tokens, which no context can score. Without them, all arrays
    # below are smaller.
    has_score = np.asarray(~np.isnan(logprobs).all(axis=0))
    kept = has_score[singular] & has_score[plural]
    indices = np.stack([singular[kept], plural[kept]], axis=1)

    def in_lemmas(of_candidates: Floats) -> Floats:
        values = of_candidates[:, indices]
        # The agreeing form comes first.
        values[is_plural] = values[is_plural][:, :, ::-1]
        return values

    lemma_logprobs = in_lemmas(logprobs)
    in_vocabulary = np.asarray(~np.isnan(lemma_logprobs).any(axis=2))
    p = np.where(in_vocabulary[:, :, None], np.exp(lemma_logprobs), 0.0)
    if above is None:
        return LemmaForms(p, in_vocabulary)
    lemma_above = in_lemmas(above)
    lemma_below = np.maximum(1 - lemma_above - p, 0.0) if below is None else in_lemmas(below)
    # Lemmas that are not in the vocabulary rank after all others, so that no cut-off includes them.
    lemma_above = np.where(in_vocabulary[:, :, None], lemma_above, np.inf)
    lemma_below = np.where(in_vocabulary[:, :, None], lemma_below, np.inf)
    return LemmaForms(p, in_vocabulary, lemma_above, lemma_below)


def without_cutoff(forms: LemmaForms) -> ContextScores:
    """Return the headline scores: over all lemmas, in double precision."""
    right = forms.p[:, :, RIGHT]
    wrong = forms.p[:, :, WRONG]
    agreeing = ((right > wrong) & forms.in_vocabulary).sum(axis=1)
    right_mass = right.sum(axis=1)
    wrong_mass = wrong.sum(axis=1)
    return ContextScores(
        ew=ew_of_lemmas(agreeing, forms.in_vocabulary.sum(axis=1)),
        mw=mw_of_masses(right_mass, wrong_mass),
        mass=right_mass + wrong_mass,
    )


def top_curve(forms: LemmaForms, cutoffs: Sequence[float]) -> ContextScores:
    """Return the scores over the most probable tokens that together reach each cut-off.

    A lemma counts if either of its forms is among them.
    """
    assert forms.above is not None
    assert forms.below is not None
    return _curve(forms, forms.above, _mass_through(forms.below), cutoffs, top=True)


def bottom_curve(forms: LemmaForms, cutoffs: Sequence[float]) -> ContextScores:
    """Return the scores over the least probable tokens that together reach each cut-off.

    A lemma counts if both of its forms are among them, as in the original.
    """
    assert forms.above is not None
    assert forms.below is not None
    return _curve(forms, forms.below, _mass_through(forms.above), cutoffs, top=False)


def _mass_through(mass_after: Floats) -> Floats:
    """Return the mass up to and including each form, from the mass of the tokens after it; unknown forms stay last."""
    return np.where(np.isinf(mass_after), np.inf, 1 - mass_after)


def _curve(
    forms: LemmaForms, mass_before: Floats, mass_through: Floats, cutoffs: Sequence[float], *, top: bool
) -> ContextScores:
    """Interpolate between the set of tokens that just misses a cut-off and the one that just reaches it.

    ``mass_before`` and ``mass_through`` are the mass before each form and the mass including it, counted from the most
    probable token (``top``) or from the least probable one.
    """
    order = np.argsort(cutoffs)
    sorted_cutoffs = np.asarray(cutoffs, dtype=np.float64)[order]
    # There are two sets per cut-off: the largest whose mass stays below it and the smallest whose mass reaches it. A
    # token is in the first if the mass including it is below the cut-off, in the second if the mass before it is. So
    # each token enters at one bin and stays.
    bin_if_below = np.searchsorted(sorted_cutoffs, mass_through, side="right")
    bin_if_reached = np.searchsorted(sorted_cutoffs, mass_before, side="right")
    alpha = _interpolation_weights(forms.p, mass_before, mass_through, bin_if_below, bin_if_reached, sorted_cutoffs)
    before = _scores_of_sets(forms, bin_if_below, len(sorted_cutoffs), top)
    after = _scores_of_sets(forms, bin_if_reached, len(sorted_cutoffs), top)
    original_order = np.argsort(order)
    return ContextScores(
        ew=_interpolated(before.ew, after.ew, alpha)[:, original_order],
        mw=_interpolated(before.mw, after.mw, alpha)[:, original_order],
        mass=_interpolated(before.mass, after.mass, alpha)[:, original_order],
    )


def _interpolation_weights(
    p: Floats, mass_before: Floats, mass_through: Floats, bin_if_below: Bins, bin_if_reached: Bins, cutoffs: Floats
) -> Floats:
    """Return how far each cut-off is between the two sets (contexts × cut-offs).

    Where no listed token is at the border the sets are equal, so the weight does not matter. Tokens of equal
    probability enter together, but the cut-off is reached by one of them, as in the original.
    """
    alpha = np.zeros((len(mass_before), len(cutoffs)))
    # The tokens that are at the border of some cut-off.
    context, lemma, form = np.nonzero((bin_if_reached < bin_if_below) & (p > 0))
    first_bin = bin_if_reached[context, lemma, form]
    end_bin = bin_if_below[context, lemma, form]
    lower = mass_before[context, lemma, form]
    upper = mass_through[context, lemma, form]
    step = p[context, lemma, form]
    for index, cutoff in enumerate(cutoffs):
        at_border = (first_bin <= index) & (index < end_bin)
        steps = (cutoff - lower[at_border]) / step[at_border]
        # If a form is tied with others, the mass from `lower` to `upper` is a multiple of p (1.5 separates one token
        # from two). The cut-off then falls within one of the tied tokens; its fraction within that token is the weight.
        is_tied = upper[at_border] - lower[at_border] > 1.5 * step[at_border]
        within_one = np.clip(steps, 0, 1)
        within_tie = steps - np.ceil(steps) + 1
        alpha[context[at_border], index] = np.where(is_tied, within_tie, within_one)
    return alpha


def _scores_of_sets(forms: LemmaForms, bins: Bins, cutoffs: int, top: bool) -> ContextScores:
    """Return the scores over the tokens that have entered by each cut-off; ``bins`` says where each form enters."""
    right = forms.p[:, :, RIGHT]
    wrong = forms.p[:, :, WRONG]
    if top:
        # From the top, a lemma counts as soon as one of its forms is in; for MW, each form counts by itself.
        lemma_bins = bins.min(axis=2)
        right_bins = bins[:, :, RIGHT]
        wrong_bins = bins[:, :, WRONG]
    else:
        # From the bottom, a lemma counts when both of its forms are in.
        lemma_bins = bins.max(axis=2)
        right_bins = lemma_bins
        wrong_bins = lemma_bins
    counted = _cumulative(lemma_bins, None, cutoffs)
    agreeing = _cumulative(lemma_bins, (right > wrong).astype(np.float64), cutoffs)
    right_mass = _cumulative(right_bins, right, cutoffs)
    wrong_mass = _cumulative(wrong_bins, wrong, cutoffs)
    return ContextScores(
        ew=ew_of_lemmas(agreeing, counted),
        mw=mw_of_masses(right_mass, wrong_mass),
        # Both forms of a lemma that counts, even if only one of them is in.
        mass=_cumulative(lemma_bins, right + wrong, cutoffs),
    )


def _cumulative(bins: Bins, weights: Floats | None, cutoffs: int) -> Floats:
    """Return sums of weights (or counts) over what has entered by each cut-off."""
    contexts = len(bins)
    # One flat bincount for all contexts: each has its own range of bins, with one more for what never enters.
    flat = (bins + (cutoffs + 1) * np.arange(contexts)[:, None]).ravel()
    flat_weights = None if weights is None else weights.ravel()
    entered = np.bincount(flat, flat_weights, contexts * (cutoffs + 1))
    by_context = entered.reshape(contexts, cutoffs + 1)[:, :cutoffs]
    return np.cumsum(by_context, axis=1).astype(np.float64)


def _interpolated(before: Floats, after: Floats, alpha: Floats) -> Floats:
    """Return the weighted mean of two scores; where one is missing, the other one."""
    start = np.where(np.isnan(before), after, before)
    end = np.where(np.isnan(after), before, after)
    return np.asarray((1 - alpha) * start + alpha * end)


# --- from scores of contexts to results -------------------------------------------------------------------------------

Mask = NDArray[np.bool_]
CLUSTER = "noun"
VERB_PAIR = "verb_pair"
"""The group of TSE's outcomes: the pair of verbs that an outcome belongs to."""
MEAN_OF_CONSTRUCTIONS = "mean of constructions"
"""The group of the mean over constructions with equal weights."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of the table that are reported as one group."""

    group: str
    where: Mask
    is_construction: bool = False
    has_curves: bool = True


def results(table: ScoreTable, ew_names: Sequence[str], settings: Settings) -> list[Result]:
    """Return TSE, EW, MW and mass for every part of the data, and the curves overall and by construction.

    The curves are EW, MW, mass and the share of contexts without any lemma, at each cut-off.
    ``ew_names`` are the names of EW at the cut-offs, e.g. ``ew@top0.9``.
    """
    parts = list(_parts(table))
    computed: list[Result] = []
    for part in parts:
        computed.append(_tse(table, settings, part))
        for metric in ("ew", "mw", "mass"):
            computed.append(_mean(table, metric, settings, part))
    constructions = [part for part in parts if part.is_construction]
    if constructions:
        for metric in ("tse", "ew", "mw", "mass"):
            computed.append(_mean_of_constructions(table, metric, constructions, computed, settings))
    for part in parts:
        if not part.has_curves:
            continue
        for ew_name in ew_names:
            cutoff = ew_name.partition("@")[2]
            for metric in ("ew", "mw", "mass"):
                computed.append(_mean(table, f"{metric}@{cutoff}", settings, part))
            computed.append(_invalid(table, cutoff, settings, part))
    return computed


def _parts(table: ScoreTable) -> Iterator[TablePart]:
    """Yield the parts of the data that have results: everything, numbers, constructions, and numbers in these."""
    yield TablePart("overall", np.ones(len(table), dtype=bool))
    numbers = [(label, where) for label, where in table.parts("number") if label in ("singular", "plural")]
    for label, where in numbers:
        yield TablePart(f"number={label}", where, has_curves=False)
    constructions = dict(table.parts("construction"))
    if len(constructions) < 2:
        return
    # In the order of the data.
    for name in dict.fromkeys(table.groups["construction"]):
        inside = constructions[name]
        yield TablePart(f"construction={name}", inside, is_construction=True)
        for label, where in numbers:
            if (inside & where).any():
                yield TablePart(f"construction={name},number={label}", inside & where, has_curves=False)


def _mean(table: ScoreTable, metric: str, settings: Settings, part: TablePart) -> Result:
    """Return the mean of a metric over the contexts of a part."""
    return intervals.mean_result(table, metric, settings, group=part.group, where=part.where, cluster=CLUSTER)


def _tse(table: ScoreTable, settings: Settings, part: TablePart) -> Result:
    """Return TSE over rows, as published.

    Each context is weighted by the number of its rows (verb pairs) in the data.
    """
    # n counts rows of the data, as in the paper, although the table has a line per context.
    rows = np.array([float(count) for count in table.groups["rows"]])
    scored_rows = np.nan_to_num(table.column("tse_rows"))
    has_error = table.has_error()
    n = int(scored_rows[part.where].sum())
    n_error = int(rows[part.where & has_error].sum())
    n_unscored = int(rows[part.where & ~has_error].sum()) - n
    observed = _observed(table, "tse", part.where)
    if observed is None:
        return Result("tse", part.group, None, None, None, 0, n_error, n_unscored)
    estimated = intervals.mean_estimate(observed.values, observed.clusters, weights=observed.weights)
    counts = (n, n_error, n_unscored)
    return intervals.observed_result(estimated, observed, "tse", part.group, counts, settings)


def _observed(table: ScoreTable, metric: str, where: Mask) -> Observations | None:
    """Return the values of a metric with their clusters.

    TSE is weighted by rows and also clustered by pair of verbs, because contexts share both nouns and verbs.
    """
    if metric != "tse":
        return observations(table, metric, where, clusters=(CLUSTER,))
    return observations(table, metric, where, clusters=(CLUSTER,), weight="tse_rows", crossed=VERB_PAIR)


def _invalid(table: ScoreTable, cutoff: str, settings: Settings, part: TablePart) -> Result:
    """Return the share of contexts in which no lemma is within the cut-off; needs a model that returns masses."""
    has_cutoff = part.where & ~np.isnan(table.column(f"mass@{cutoff}"))
    n = int(has_cutoff.sum())
    n_error = table.counts("ew", part.where)[1]
    n_unscored = int(part.where.sum()) - n - n_error
    if n == 0:
        return Result(f"invalid@{cutoff}", part.group, None, None, None, 0, n_error, n_unscored)
    # A context has a mass but no EW if none of its lemmas is within the cut-off.
    has_no_lemma = np.isnan(table.column(f"ew@{cutoff}"))[has_cutoff]
    _, cluster_codes = table.codes(CLUSTER)
    estimated = intervals.mean_estimate(has_no_lemma.astype(float), [cluster_codes[has_cutoff]])
    counts = (n, n_error, n_unscored)
    return intervals.result_of(estimated, f"invalid@{cutoff}", part.group, counts, settings, (CLUSTER,))


def _mean_of_constructions(
    table: ScoreTable, metric: str, parts: Sequence[TablePart], computed: Sequence[Result], settings: Settings
) -> Result:
    """Return the mean over constructions with equal weights; otherwise large templates would dominate.

    Constructions share their nouns and verbs, so the contributions of a noun or a verb are added up over constructions
    before their variance is estimated. The constructions themselves are taken as given, not as a sample of others.
    """
    groups = {part.group for part in parts}
    n = 0
    n_error = 0
    n_unscored = 0
    for result in computed:
        if result.metric == metric and result.group in groups:
            n += result.n
            n_error += result.n_error
            n_unscored += result.n_unscored
    counts = (n, n_error, n_unscored)
    scored: list[Observations] = []
    for part in parts:
        observed = _observed(table, metric, part.where)
        if observed is not None:
            scored.append(observed)
    if not scored:
        return Result(metric, MEAN_OF_CONSTRUCTIONS, None, None, None, *counts)
    weight = 1 / len(scored)
    # TSE weighs a context by its number of rows, so its weights are counts of observations.
    are_counts = metric == "tse"
    terms = []
    means = []
    for observed in scored:
        terms.append(Term(observed.values, weight, observed.clusters, observed.weights, weights_are_counts=are_counts))
        means.append(observed.mean)
    estimated = estimate(terms, bounds=(0.0, 1.0))
    mean = replace(scored[0], mean=float(np.mean(means)))
    return intervals.observed_result(estimated, mean, metric, MEAN_OF_CONSTRUCTIONS, counts, settings)
