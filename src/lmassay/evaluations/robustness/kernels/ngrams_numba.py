"""Clipped n-gram matches of two sequences of symbols, compiled; shared by chrF (characters) and BLEU (tokens).

Orders are counted one after the other. An n-gram is identified by its last symbol and by the slot of its (n-1)-gram in
the table of the order before. That is a number and not a hash value, so there are no collisions. Only n-grams whose
(n-1)-gram occurs on both sides can match; all others are dropped, on either side.

Indices are unsigned throughout: for a signed index, numba would check whether it counts from the end, which takes a
third of the time. Mixed with a signed number they become floating point, hence the casts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmassay.evaluations.robustness.kernels.code_points import Codes, Ints
from lmassay.evaluations.robustness.kernels.jit import Unsigned, part

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int32]
Indices = npt.NDArray[np.uint32]

U = np.uint64
ZERO = U(0)
ONE = U(1)

# A key is | generation | slot of the (n-1)-gram | symbol |. Each order of each pair has its own generation, so that
# keys that earlier orders and pairs left in the table can be recognised, and the table need not be cleared.
SYMBOL_BITS = 21
SLOT_BITS = 22
_SLOT_SHIFT = U(SYMBOL_BITS)
_GENERATION_SHIFT = U(SYMBOL_BITS + SLOT_BITS)
_GENERATIONS = U(1 << (64 - SYMBOL_BITS - SLOT_BITS))
# The longest reference whose table, at most a quarter full, has slots of SLOT_BITS bits.
MAX_SYMBOLS = 1 << (SLOT_BITS - 2)
MULTIPLIER = U(0x9E3779B97F4A7C15)  # Fibonacci hashing
_HASH_SHIFT = U(32)


class NgramTable(NamedTuple):
    """A hash table with open addressing: how often the n-gram of each slot occurs on either side."""

    keys: Keys
    ref_counts: Counts
    hyp_counts: Counts
    generation: Keys  # one number


class NgramPositions(NamedTuple):
    """The positions whose n-grams can still match, and the slots of the n-grams there.

    Both arrays keep their size. The functions below get the number of entries that count, from the first one on, as
    ``remaining``.
    """

    positions: Indices
    slots: Indices


@part
def table_size(symbols: Unsigned) -> int:
    """A power of two, so that a mask replaces the modulo; at least four times the number of symbols."""
    size = 16
    while size < 4 * symbols:
        size *= 2
    return size


@part
def make_table(symbols: int) -> NgramTable:
    """A table for the n-grams of one order of a reference with this many symbols."""
    size = table_size(symbols)
    return NgramTable(
        np.zeros(size, dtype=np.uint64),
        np.zeros(size, dtype=np.int32),
        np.zeros(size, dtype=np.int32),
        np.zeros(1, dtype=np.uint64),
    )


@part
def make_side(symbols: int) -> NgramPositions:
    """Positions for a text with this many symbols."""
    return NgramPositions(np.zeros(symbols, dtype=np.uint32), np.zeros(symbols, dtype=np.uint32))


@part
def _next_generation(table: NgramTable) -> Unsigned:
    """Start a new generation: its keys are greater than all others in the table."""
    table.generation[0] += ONE
    if table.generation[0] == _GENERATIONS:
        table.keys[:] = 0
        table.generation[0] = ONE
    return table.generation[0] << _GENERATION_SHIFT


@part
def _find(keys: Keys, key: Unsigned, generation: Unsigned, mask: Unsigned) -> Unsigned:
    """The slot of the key, or the slot where it belongs."""
    slot = (key * MULTIPLIER >> _HASH_SHIFT) & mask
    stored = keys[slot]
    while (stored != key) & (stored >= generation):
        slot = (slot + ONE) & mask
        stored = keys[slot]
    return slot


@part
def _count_ref_ngrams(
    table: NgramTable,
    side: NgramPositions,
    remaining: Unsigned,
    ref: Codes,
    n: int,
    generation: Unsigned,
    mask: Unsigned,
) -> Unsigned:
    """Enter the n-grams at the remaining positions into the table; returns at how many positions there is one.

    A position too near the end of the text has no n-gram of this order and is dropped.
    """
    keys, ref_counts, hyp_counts, _ = table
    positions, slots = side
    last = U(n - 1)
    length = U(len(ref))
    kept = ZERO
    for index in range(U(remaining)):
        position = U(positions[index])
        if position + last >= length:
            continue
        key = generation | U(slots[index]) << _SLOT_SHIFT | U(ref[position + last])
        slot = _find(keys, key, generation, mask)
        if keys[slot] == key:
            ref_counts[slot] += 1
        else:
            keys[slot] = key
            ref_counts[slot] = 1
            hyp_counts[slot] = 0
        positions[kept] = position
        slots[kept] = slot
        kept += ONE
    return kept


@part
def _match_hyp_ngrams(
    table: NgramTable,
    side: NgramPositions,
    remaining: Unsigned,
    hyp: Codes,
    n: int,
    generation: Unsigned,
    mask: Unsigned,
) -> tuple[Unsigned, int]:
    """The number of positions with an n-gram that the reference has, and how many of these match after clipping.

    All other positions are dropped.
    """
    keys, ref_counts, hyp_counts, _ = table
    positions, slots = side
    last = U(n - 1)
    length = U(len(hyp))
    kept = ZERO
    matches = 0
    for index in range(U(remaining)):
        position = U(positions[index])
        if position + last >= length:
            continue
        key = generation | U(slots[index]) << _SLOT_SHIFT | U(hyp[position + last])
        slot = _find(keys, key, generation, mask)
        if keys[slot] == key:
            if hyp_counts[slot] < ref_counts[slot]:
                matches += 1
            hyp_counts[slot] += 1
            positions[kept] = position
            slots[kept] = slot
            kept += ONE
    return kept, matches


@part
def _drop_ngrams_not_in_hyp(table: NgramTable, side: NgramPositions, remaining: Unsigned) -> Unsigned:
    """Keep the positions of the reference whose n-gram the hypothesis has; returns how many these are."""
    hyp_counts = table.hyp_counts
    positions, slots = side
    kept = ZERO
    for index in range(U(remaining)):
        slot = slots[index]
        # The next entry overwrites this one if its n-gram is dropped.
        positions[kept] = positions[index]
        slots[kept] = slot
        if hyp_counts[slot] > 0:
            kept += ONE
    return kept


@part
def add_matches(
    table: NgramTable,
    hyp: Codes,
    hyp_side: NgramPositions,
    hyp_remaining: Unsigned,
    ref: Codes,
    ref_side: NgramPositions,
    ref_remaining: Unsigned,
    matches: Ints,
) -> None:
    """Add the clipped matches of each order n to ``matches[n - 1]``.

    Only the n-grams at the first ``hyp_remaining`` and ``ref_remaining`` positions of either side count.
    """
    mask = U(table_size(ref_remaining) - 1)
    hyp_side.slots[:hyp_remaining] = 0
    ref_side.slots[:ref_remaining] = 0
    for n in range(1, len(matches) + 1):
        generation = _next_generation(table)
        ref_remaining = _count_ref_ngrams(table, ref_side, ref_remaining, ref, n, generation, mask)
        hyp_remaining, matched = _match_hyp_ngrams(table, hyp_side, hyp_remaining, hyp, n, generation, mask)
        matches[n - 1] += matched
        if hyp_remaining == 0:
            break
        ref_remaining = _drop_ngrams_not_in_hyp(table, ref_side, ref_remaining)
