"""Sentence chrF (Popović 2015), compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lmassay.evaluations.robustness.kernels import chrf_numpy
from lmassay.evaluations.robustness.kernels.backend import ChunkSize, Scores
from lmassay.evaluations.robustness.kernels.code_points import Codes, Ints, join, whitespace
from lmassay.evaluations.robustness.kernels.jit import Unsigned, kernel, part
from lmassay.evaluations.robustness.kernels.ngrams_numba import (
    MAX_SYMBOLS,
    ONE,
    ZERO,
    Indices,
    U,
    add_matches,
    make_side,
    make_table,
)

CHUNK = ChunkSize(pairs=2048, characters=1 << 20)
# Longer texts are scored with numpy.
MAX_CHARACTERS = MAX_SYMBOLS

Flags = npt.NDArray[np.uint8]


def chrf_chunk(hyps: Sequence[str], refs: Sequence[str], order: int, beta: float) -> Scores:
    """sacrebleu's sentence chrF of each pair, divided by 100."""
    hyp = join(hyps)
    ref = join(refs)
    if max(np.diff(hyp.starts).max(), np.diff(ref.starts).max()) > MAX_CHARACTERS:
        return chrf_numpy.chrf_chunk(hyps, refs, order, beta)
    scores = np.empty(len(hyps), dtype=np.float64)
    _score_all(hyp.codes, hyp.starts, ref.codes, ref.starts, whitespace(), order, float(beta**2), scores)
    return scores


@kernel
def _score_all(
    hyp_codes: Codes,
    hyp_starts: Ints,
    ref_codes: Codes,
    ref_starts: Ints,
    spaces: Flags,
    order: int,
    factor: float,
    scores: Scores,
) -> None:
    """Compute the score of every pair and write it to ``scores``; ``factor`` is beta²."""
    longest_hyp = np.max(np.diff(hyp_starts))
    longest_ref = np.max(np.diff(ref_starts))
    table = make_table(longest_ref)
    hyp_side = make_side(longest_hyp)
    ref_side = make_side(longest_ref)
    hyp_buffer = np.empty(longest_hyp, dtype=np.uint32)
    ref_buffer = np.empty(longest_ref, dtype=np.uint32)
    hyp_paired = np.empty(longest_hyp, dtype=np.uint8)
    ref_paired = np.empty(longest_ref, dtype=np.uint8)
    matches = np.empty(order, dtype=np.int64)
    for pair in range(len(scores)):
        hyp = _without_spaces(hyp_codes[hyp_starts[pair] : hyp_starts[pair + 1]], spaces, hyp_buffer)
        ref = _without_spaces(ref_codes[ref_starts[pair] : ref_starts[pair + 1]], spaces, ref_buffer)
        hyp_paired[: len(hyp)] = 0
        ref_paired[: len(ref)] = 0
        matches[:] = 0
        # First by the distance from the end of the texts, then by the distance from the start.
        _pair_off(hyp, len(hyp), hyp_paired, ref, len(ref), ref_paired, matches)
        if len(hyp) != len(ref):
            common = min(len(hyp), len(ref))
            _pair_off(hyp, common, hyp_paired, ref, common, ref_paired, matches)
        hyp_remaining = _list_unpaired(hyp_paired, len(hyp), hyp_side.positions)
        ref_remaining = _list_unpaired(ref_paired, len(ref), ref_side.positions)
        add_matches(table, hyp, hyp_side, hyp_remaining, ref, ref_side, ref_remaining, matches)
        scores[pair] = _f_score(matches, len(hyp), len(ref), factor)


@part
def _without_spaces(codes: Codes, spaces: Flags, buffer: Codes) -> Codes:
    """Copy all characters that are not white space to ``buffer``, and return the part that they fill."""
    kept = ZERO
    for code in codes:
        # A space is written, too, and overwritten by the next character.
        buffer[kept] = code
        if code >= len(spaces) or spaces[code] == 0:
            kept += ONE
    return buffer[:kept]


@part
def _pair_off(
    hyp: Codes, hyp_end: int, hyp_paired: Flags, ref: Codes, ref_end: int, ref_paired: Flags, matches: Ints
) -> None:
    """Pair positions that have the same n-grams of all orders and the same distance from the ends of the texts.

    Each such pair is one match of each order, independently of all other n-grams: if an n-gram occurs h and r times
    elsewhere in the two texts, min(h + 1, r + 1) = min(h, r) + 1. Texts that differ little leave few n-grams to count.
    """
    order = U(len(matches))
    at_text_ends = hyp_end == len(hyp) and ref_end == len(ref)
    full = 0
    run = ZERO
    for back in range(U(1), U(min(hyp_end, ref_end)) + ONE):
        hyp_position = U(hyp_end) - back
        ref_position = U(ref_end) - back
        run = run + ONE if hyp[hyp_position] == ref[ref_position] else ZERO
        if run >= order:
            if not (hyp_paired[hyp_position] or ref_paired[ref_position]):
                hyp_paired[hyp_position] = ref_paired[ref_position] = 1
                full += 1
        elif at_text_ends and run == back:
            # The last n-grams of the texts: only the lower orders exist.
            hyp_paired[hyp_position] = ref_paired[ref_position] = 1
            for n in range(run):
                matches[n] += 1
    for n in range(order):
        matches[n] += full


@part
def _list_unpaired(paired: Flags, count: int, positions: Indices) -> Unsigned:
    """Write the positions without a partner to ``positions``, and return how many there are."""
    kept = ZERO
    for position in range(U(count)):
        positions[kept] = position
        if not paired[position]:
            kept += ONE
    return kept


@part
def _f_score(matches: Ints, hyp_count: int, ref_count: int, factor: float) -> float:
    """chrF_beta = (1 + beta²) · chrP · chrR / (beta² · chrP + chrR), the formula of the paper; ``factor`` is beta².

    chrP and chrR are means over the orders that both texts are long enough for. The operations are those of sacrebleu,
    one by one, so that not even the rounding differs.
    """
    effective_order = min(len(matches), hyp_count, ref_count)
    precision, recall = 0.0, 0.0
    for n in range(effective_order):
        precision += matches[n] / (hyp_count - n)
        recall += matches[n] / (ref_count - n)
    if precision + recall == 0:
        return 0.0
    precision /= effective_order
    recall /= effective_order
    score = (1 + factor) * precision * recall
    score /= factor * precision + recall
    # sacrebleu's score is a percentage. It is multiplied and divided by 100, so that even its rounding is the same.
    return 100 * score / 100
