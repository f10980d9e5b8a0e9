"""Sentence chrF (Popović 2015) with numpy alone: all n-grams of a chunk are counted with one sort.

For one pair and one order, let h and r be how often an n-gram occurs in the hypothesis and in the reference. Then

    matches = sum of min(h, r) = (hyp n-grams + ref n-grams - sum of |h - r|) / 2.

Each n-gram is a prefix of the longest one at its position, so sorting the longest n-grams sorts those of all orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmassay.evaluations.robustness.kernels.backend import ChunkSize, Scores
from lmassay.evaluations.robustness.kernels.code_points import Ints, join, whitespace

# 9 bits number 511 pairs and the end mark, which leaves 9 bits for each of six characters.
CHUNK = ChunkSize(pairs=511, characters=1 << 18)

Keys = npt.NDArray[np.uint64]
_KEY_BITS = 64
# Cells of the table of pairs x characters that renumbering needs.
_RENUMBERING_TABLE_LIMIT = 1 << 22


class _Chunk(NamedTuple):
    """Character ids (1 to ``distinct``) of all texts without white space: first the hypotheses, then the references.

    Each text is followed by ``order`` zeros, which mark incomplete n-grams at its end. ``starts`` and ``counts`` are
    where each text begins and how many characters it has.
    """

    ids: Keys
    starts: Ints
    counts: Ints
    distinct: int
    order: int

    @property
    def pairs(self) -> int:
        return len(self.counts) // 2

    @property
    def bits(self) -> int:
        """The number of bits of a character id."""
        return self.distinct.bit_length()

    @property
    def fits(self) -> bool:
        """Whether the number of a pair, its longest n-gram and its side fit into one key."""
        return self.pairs.bit_length() + self.order * self.bits + 1 <= _KEY_BITS


def chrf_chunk(hyps: Sequence[str], refs: Sequence[str], order: int, beta: float) -> Scores:
    """sacrebleu's sentence chrF of each pair, divided by 100."""
    chunk = _read(hyps, refs, order)
    # If the ids of all characters of the chunk are too large for a key, ids that are numbered per pair may fit.
    if not chunk.fits and len(hyps) * chunk.distinct <= _RENUMBERING_TABLE_LIMIT:
        chunk = _renumbered(chunk)
    if chunk.fits:
        unmatched = _unmatched_by_keys(chunk)
    elif len(hyps) == 1:
        unmatched = _unmatched_by_columns(chunk)
    else:
        # Fewer pairs have fewer distinct characters.
        half = len(hyps) // 2
        first_scores = chrf_chunk(hyps[:half], refs[:half], order, beta)
        second_scores = chrf_chunk(hyps[half:], refs[half:], order, beta)
        return np.concatenate([first_scores, second_scores])
    return _f_scores(chunk, unmatched, beta)


def _read(hyps: Sequence[str], refs: Sequence[str], order: int) -> _Chunk:
    """Join all texts, drop white space, and number the distinct characters."""
    joined = join([*hyps, *refs], gap=" " * order)
    # The type that numpy uses for indices, so that it need not convert them at each use.
    codes = joined.codes.astype(np.intp)
    # Code point → id: 0 for white space, then 1, 2, … for the characters that occur.
    table = np.zeros(int(codes.max()) + 1, dtype=np.uint64)
    table[codes] = 1
    table[np.flatnonzero(whitespace()[: len(table)])] = 0
    present = np.flatnonzero(table)
    table[present] = np.arange(1, len(present) + 1, dtype=np.uint64)
    ids = table.take(codes)
    # White space is dropped, except the gaps between texts.
    keep = ids != 0
    gaps = joined.starts[1:, None] + np.arange(-order, 0)
    keep[gaps.ravel()] = True
    kept = np.flatnonzero(keep)
    starts = np.searchsorted(kept, joined.starts)
    return _Chunk(ids.take(kept), starts[:-1], np.diff(starts) - order, len(present), order)


def _renumbered(chunk: _Chunk) -> _Chunk:
    """The same chunk with ids that are numbered per pair, for scripts with many characters such as Chinese."""
    # All hypotheses come first, then all references, each followed by a gap of ``order`` ids.
    lengths = chunk.counts + chunk.order
    pair = np.tile(np.arange(chunk.pairs), 2).repeat(lengths)
    ids = chunk.ids.astype(np.intp)
    present = np.zeros((chunk.pairs, chunk.distinct + 1), dtype=np.bool_)
    present[pair, ids] = True
    # 0 is white space, which keeps its id.
    present[:, 0] = False
    # The characters of a pair get the ids 1, 2, … in the order of their old ids. A single pair has few of them, so an
    # id needs fewer bits and an n-gram fits into one integer.
    own_ids = np.cumsum(present, axis=1, dtype=np.uint32)
    most_characters = int(own_ids[:, -1].max())
    return chunk._replace(ids=own_ids[pair, ids].astype(np.uint64), distinct=most_characters)


def _windows(ids: Keys, width: int, bits: int) -> Keys:
    """The ``width`` ids from each position on, packed into one number, the first id in the highest bits."""
    if width == 1:
        return ids
    # By doubling: a window of 6 is two windows of 3.
    left = width // 2
    half = _windows(ids, left, bits)
    packed = half << np.uint64(bits * left)
    packed[:-left] |= half[left:]
    if width % 2:
        packed <<= np.uint64(bits)
        packed[: 1 - width] |= ids[width - 1 :]
    return packed


def _unpaired(chunk: _Chunk, windows: Keys) -> Ints:
    """The positions that remain after pairing equal windows at the same distance from the start or end of their texts.

    Removing a position from both sides does not change any h - r. Texts that differ little leave little to sort.
    """
    hyp_counts, ref_counts = np.split(chunk.counts, 2)
    hyp_starts, ref_starts = np.split(chunk.starts, 2)
    common = np.minimum(hyp_counts, ref_counts)
    # The positions 0 … common - 1 of each pair, counted from the start of both texts, for all pairs in one array.
    before = np.cumsum(common) - common
    step = np.arange(int(common.sum()))
    hyp_position = np.repeat(hyp_starts - before, common) + step
    ref_position = np.repeat(ref_starts - before, common) + step
    unpaired = chunk.ids != 0
    for from_the_end in (False, True):
        if from_the_end:
            hyp_position += np.repeat(hyp_counts - common, common)
            ref_position += np.repeat(ref_counts - common, common)
        equal = windows.take(hyp_position) == windows.take(ref_position)
        equal &= unpaired.take(hyp_position) & unpaired.take(ref_position)
        unpaired[hyp_position.compress(equal)] = False
        unpaired[ref_position.compress(equal)] = False
    return np.flatnonzero(unpaired)


def _sorted_keys(chunk: _Chunk) -> Keys:
    """Pair, longest n-gram and side (1: reference) of each position, sorted, and an end mark that no n-gram equals."""
    windows = _windows(chunk.ids, chunk.order, chunk.bits)
    positions = _unpaired(chunk, windows)
    bounds = np.searchsorted(positions, [*chunk.starts, len(chunk.ids)])
    # The number of the pair is in the highest bits, so that sorting keeps the n-grams of a pair together.
    n_gram_bits = chunk.order * chunk.bits
    pair = np.tile(np.arange(chunk.pairs, dtype=np.uint64), 2) << np.uint64(n_gram_bits)
    keys = np.empty(len(positions) + 1, dtype=np.uint64)
    np.bitwise_or(windows.take(positions), pair.repeat(np.diff(bounds)), out=keys[:-1])
    keys[-1] = chunk.pairs << n_gram_bits
    # The lowest bit is the side, so that equal n-grams of both sides are neighbours after sorting.
    keys <<= np.uint64(1)
    keys[bounds[chunk.pairs] : -1] |= np.uint64(1)
    keys.sort()
    return keys


def _unmatched_by_keys(chunk: _Chunk) -> Ints:
    """Sum of |h - r| for each order (row) and pair (column)."""
    keys = _sorted_keys(chunk)
    is_ref = (keys & np.uint64(1)).astype(np.int32)
    # h - r of a group of equal n-grams is the difference of the balance at its two ends.
    balance = _balance(is_ref[:-1])
    # The first key of each pair.
    limits = np.arange(chunk.pairs + 1, dtype=np.uint64) << np.uint64(chunk.order * chunk.bits + 1)
    unmatched = np.zeros((chunk.order, chunk.pairs), dtype=np.int64)
    new = np.ones(len(keys), dtype=np.bool_)
    total = np.zeros(len(keys), dtype=np.int32)
    # Groups of a lower order are unions of groups of the order above, so the lists get shorter from order to order.
    for n in range(chunk.order, 0, -1):
        # Two keys have the same n-gram if they agree in all bits from this one on.
        shift = 1 + chunk.bits * (chunk.order - n)
        np.greater_equal(keys[1:] ^ keys[:-1], np.uint64(1 << shift), out=new[1 : len(keys)])
        starts = np.flatnonzero(new[: len(keys)])
        keys = keys.take(starts)
        balance = balance.take(starts)
        # An n-gram whose last id is 0 reaches beyond the end of its text and does not exist.
        complete = (keys[:-1] & np.uint64(((1 << chunk.bits) - 1) << shift)) != 0
        np.cumsum(np.abs(balance[1:] - balance[:-1]) * complete, out=total[1 : len(keys)])
        unmatched[n - 1] = np.diff(total.take(np.searchsorted(keys, limits)))
    return unmatched


def _unmatched_by_columns(chunk: _Chunk) -> Ints:
    """The same sums for a single pair whose n-grams do not fit into 64 bits: a sort by one column per character."""
    positions = np.flatnonzero(chunk.ids)
    columns = [chunk.ids[positions + n] for n in range(chunk.order)]
    by_ngram = np.lexsort(columns[::-1])
    balance = _balance((positions[by_ngram] >= chunk.starts[1]).astype(np.int32))
    unmatched = np.zeros((chunk.order, 1), dtype=np.int64)
    new = np.zeros(len(positions) + 1, dtype=np.bool_)
    new[[0, -1]] = True
    for n, column in enumerate(columns):
        last = column[by_ngram]
        # A new group begins where any of the first n characters differs.
        new[1:-1] |= last[1:] != last[:-1]
        starts = np.flatnonzero(new)
        complete = last[starts[:-1]] != 0
        unmatched[n] = np.abs(np.diff(balance[starts]))[complete].sum()
    return unmatched


def _balance(is_ref: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Hypothesis n-grams minus reference n-grams before each position of the sorted list, and after the last."""
    balance = np.zeros(len(is_ref) + 1, dtype=np.int32)
    np.cumsum(1 - 2 * is_ref, out=balance[1:])
    return balance


def _f_scores(chunk: _Chunk, unmatched: Ints, beta: float) -> Scores:
    """chrF_beta = (1 + beta²) · chrP · chrR / (beta² · chrP + chrR), the formula of the paper.

    chrP and chrR are means over the orders that both texts are long enough for. The operations are those of sacrebleu,
    one by one, so that not even the rounding differs.
    """
    hyp_counts, ref_counts = np.split(chunk.counts, 2)
    shorter = np.minimum(hyp_counts, ref_counts)
    precision = np.zeros(chunk.pairs)
    recall = np.zeros(chunk.pairs)
    for n, difference in enumerate(unmatched):
        # A text of c characters has c - n n-grams of order n + 1.
        hyp_grams = hyp_counts - n
        ref_grams = ref_counts - n
        are_long_enough = shorter > n
        # The sum of |h - r| is the number of n-grams on both sides without a partner; the others are in pairs.
        matches = (hyp_grams + ref_grams - difference) // 2
        precision += np.divide(matches, hyp_grams, out=np.zeros(chunk.pairs), where=are_long_enough)
        recall += np.divide(matches, ref_grams, out=np.zeros(chunk.pairs), where=are_long_enough)
    effective_order = np.clip(shorter, 1, chunk.order)
    precision /= effective_order
    recall /= effective_order
    factor = beta**2
    score = (1 + factor) * precision * recall
    np.divide(score, factor * precision + recall, out=score, where=precision + recall > 0)
    # sacrebleu's score is a percentage. It is multiplied and divided by 100, so that even its rounding is the same.
    return 100 * score / 100
