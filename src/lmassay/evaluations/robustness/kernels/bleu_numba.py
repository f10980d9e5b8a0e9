"""Sentence BLEU (Papineni et al. 2002) with 13a tokens, compiled.

The 13a tokenizer applies four regular expressions, each of which puts spaces around characters. What they do to a
character depends only on its neighbours, so one pass over the text finds the tokens (a stop is a full stop or a comma):

1. A symbol is a separate token.
2. ``([^0-9])([.,])``: a stop after a non-digit is a token, unless that non-digit is itself a stop that this rule has
   matched as its second group (matches do not overlap).
3. ``([.,])([^0-9])``: a stop before a non-digit is a token. After rule 2 no two stops are adjacent any more, so no
   match of this rule can consume the stop of the next.
4. ``([0-9])(-)``: a dash after a digit is a token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmassay.evaluations.robustness.kernels import bleu_plain
from lmassay.evaluations.robustness.kernels.backend import ChunkSize, Scores
from lmassay.evaluations.robustness.kernels.code_points import Codes, Ints, JoinedTexts, join, whitespace
from lmassay.evaluations.robustness.kernels.jit import Unsigned, kernel, part
from lmassay.evaluations.robustness.kernels.ngrams_numba import (
    MAX_SYMBOLS,
    MULTIPLIER,
    ONE,
    ZERO,
    Indices,
    Keys,
    U,
    add_matches,
    make_side,
    make_table,
    table_size,
)

CHUNK = ChunkSize(pairs=2048, characters=1 << 20)
# Longer texts are scored by sacrebleu.
MAX_CHARACTERS = MAX_SYMBOLS
ORDER = 4
FLOOR = bleu_plain.FLOOR

_OTHER, _SPACE, _SYMBOL, _STOP, _DASH, _DIGIT = range(6)
_SYMBOLS = '{|}~[\\]^_` !"#$%&()*+:;<=>?@/'
# The symbol of a token that is not in the reference.
_ABSENT = 0
# An entry of the vocabulary is one 64-bit number: the stamp in the upper half, the token in the lower.
_HALF = U(32)

Kinds = npt.NDArray[np.uint8]


class TokenizedTexts(NamedTuple):
    """Token ``i`` is ``codes[starts[i]:ends[i]]``; equal tokens have equal symbols."""

    starts: Indices
    ends: Indices
    symbols: Codes


class Vocabulary(NamedTuple):
    """A hash table of the tokens of a reference: an entry is a stamp and a token.

    The stamp is the number of the pair, counted from 1. An entry with another stamp is from an earlier pair and counts
    as empty, so the table need not be cleared.
    """

    hashes: Keys
    entries: Keys


def bleu_chunk(hyps: Sequence[str], refs: Sequence[str], zero_without_match: bool) -> Scores:
    """sacrebleu's sentence BLEU of each pair, divided by 100 and at most 1."""
    hyp = _prepared(hyps)
    ref = _prepared(refs)
    if max(np.diff(hyp.starts).max(), np.diff(ref.starts).max()) > MAX_CHARACTERS:
        return bleu_plain.bleu_chunk(hyps, refs, zero_without_match)
    scores = np.empty(len(hyps), dtype=np.float64)
    _score_all(hyp.codes, hyp.starts, ref.codes, ref.starts, _kinds(), zero_without_match, scores)
    return np.minimum(scores / 100, 1.0)


def _prepared(texts: Sequence[str]) -> JoinedTexts:
    """The texts after the replacements that 13a makes before it applies its regular expressions, joined."""
    whole = "".join(texts)
    if "&" in whole or "<skipped>" in whole or "-\n" in whole:
        texts = [_unescaped(text.rstrip()) for text in texts]
    return join(texts)


def _unescaped(text: str) -> str:
    """The text with 13a's replacements: markup, line breaks and HTML entities."""
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    return text.replace("&quot;", '"').replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")


@cache
def _kinds() -> Kinds:
    """The kind of each code point; those beyond the table are _OTHER."""
    kinds = np.where(whitespace(), np.uint8(_SPACE), np.uint8(_OTHER))
    for characters, kind in ((_SYMBOLS, _SYMBOL), (".,", _STOP), ("-", _DASH), ("0123456789", _DIGIT)):
        kinds[[ord(character) for character in characters]] = kind
    # Rule 1 puts spaces around a space, too, which makes no difference: it is not a token.
    kinds[ord(" ")] = _SPACE
    kinds.flags.writeable = False
    return kinds


@kernel
def _score_all(
    hyp_codes: Codes,
    hyp_starts: Ints,
    ref_codes: Codes,
    ref_starts: Ints,
    kinds: Kinds,
    zero_without_match: bool,
    scores: Scores,
) -> None:
    """Compute the score of every pair, in per cent, and write it to ``scores``."""
    # All buffers are allocated once, for the longest text of the chunk.
    longest_hyp = np.max(np.diff(hyp_starts))
    longest_ref = np.max(np.diff(ref_starts))
    table = make_table(longest_ref)
    hyp_side = make_side(longest_hyp)
    ref_side = make_side(longest_ref)
    hyp_tokens = _make_tokens(longest_hyp)
    ref_tokens = _make_tokens(longest_ref)
    vocabulary = _make_vocabulary(longest_ref)
    matches = np.empty(ORDER, dtype=np.int64)
    for pair in range(len(scores)):
        hyp = hyp_codes[hyp_starts[pair] : hyp_starts[pair + 1]]
        ref = ref_codes[ref_starts[pair] : ref_starts[pair + 1]]
        hyp_count = _tokenize(hyp, kinds, hyp_tokens)
        ref_count = _tokenize(ref, kinds, ref_tokens)
        # Tokens become numbers, so that n-grams of tokens can be counted like n-grams of characters.
        mask = U(table_size(ref_count) - 1)
        _number_ref_tokens(ref, ref_tokens, ref_count, vocabulary, U(pair) + ONE, mask)
        _number_hyp_tokens(hyp, hyp_tokens, hyp_count, ref, ref_tokens, vocabulary, U(pair) + ONE, mask)
        _list_all(hyp_side.positions, hyp_count)
        _list_all(ref_side.positions, ref_count)
        hyp_symbols = hyp_tokens.symbols[:hyp_count]
        ref_symbols = ref_tokens.symbols[:ref_count]
        matches[:] = 0
        add_matches(table, hyp_symbols, hyp_side, hyp_count, ref_symbols, ref_side, ref_count, matches)
        scores[pair] = _bleu(matches, np.int64(hyp_count), np.int64(ref_count), zero_without_match)


@part
def _make_tokens(characters: int) -> TokenizedTexts:
    """Allocate space for the tokens of a text with this many characters."""
    return TokenizedTexts(
        np.empty(characters, dtype=np.uint32),
        np.empty(characters, dtype=np.uint32),
        np.empty(characters, dtype=np.uint32),
    )


@part
def _make_vocabulary(characters: int) -> Vocabulary:
    """Allocate a vocabulary for a reference with this many characters."""
    size = table_size(characters)
    return Vocabulary(np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint64))


@part
def _kind(kinds: Kinds, code: Unsigned) -> Unsigned:
    return kinds[code] if code < len(kinds) else _OTHER


@part
def _tokenize(codes: Codes, kinds: Kinds, tokens: TokenizedTexts) -> Unsigned:
    """Find the tokens, and return how many there are."""
    starts, ends, _ = tokens
    length = U(len(codes))
    count = ZERO
    in_token = False
    before = _SPACE
    taken_by_rule_2 = False
    for position in range(length):
        kind = _kind(kinds, codes[position])
        alone = kind == _SYMBOL or (kind == _DASH and before == _DIGIT)
        if kind == _STOP:
            taken_by_rule_2 = before != _DIGIT and not taken_by_rule_2
            digit_follows = position + ONE < length and _kind(kinds, codes[position + ONE]) == _DIGIT
            alone = taken_by_rule_2 or not digit_follows
        else:
            taken_by_rule_2 = False
        if in_token and (alone or kind == _SPACE):
            ends[count] = position
            count += ONE
            in_token = False
        if alone:
            starts[count] = position
            ends[count] = position + ONE
            count += ONE
        elif not in_token and kind != _SPACE:
            starts[count] = position
            in_token = True
        before = kind
    if in_token:
        ends[count] = length
        count += ONE
    return count


@part
def _hash(codes: Codes, start: Unsigned, end: Unsigned) -> Unsigned:
    value = ZERO
    for position in range(start, end):
        value = (value ^ U(codes[position])) * MULTIPLIER
        value ^= value >> _HALF
    return value


@part
def _equal(codes: Codes, start: Unsigned, end: Unsigned, ref: Codes, ref_start: Unsigned, ref_end: Unsigned) -> bool:
    """Whether a token is equal to a token of the reference."""
    if end - start != ref_end - ref_start:
        return False
    # A plain loop, because numba compiles it to machine code.
    for step in range(end - start):
        if codes[start + step] != ref[ref_start + step]:
            return False
    return True


@part
def _find(
    codes: Codes,
    start: Unsigned,
    end: Unsigned,
    ref: Codes,
    ref_tokens: TokenizedTexts,
    vocabulary: Vocabulary,
    stamp: Unsigned,
    mask: Unsigned,
) -> tuple[Unsigned, Unsigned]:
    """The slot of a token, or the empty slot where it belongs, and its hash.

    Tokens with equal hashes are compared character by character.
    """
    hashes, entries = vocabulary
    starts, ends, _ = ref_tokens
    value = _hash(codes, start, end)
    slot = value & mask
    while entries[slot] >> _HALF == stamp:
        if hashes[slot] == value:
            token = entries[slot] & U(0xFFFFFFFF)
            if _equal(codes, start, end, ref, U(starts[token]), U(ends[token])):
                break
        slot = (slot + ONE) & mask
    return slot, value


@part
def _number_ref_tokens(
    ref: Codes, tokens: TokenizedTexts, count: Unsigned, vocabulary: Vocabulary, stamp: Unsigned, mask: Unsigned
) -> None:
    """Give each token of the reference its symbol: 1 plus the index of the first equal token."""
    hashes, entries = vocabulary
    starts, ends, symbols = tokens
    for token in range(count):
        slot, value = _find(ref, U(starts[token]), U(ends[token]), ref, tokens, vocabulary, stamp, mask)
        if entries[slot] >> _HALF != stamp:
            hashes[slot] = value
            entries[slot] = stamp << _HALF | token
        symbols[token] = (entries[slot] & U(0xFFFFFFFF)) + ONE


@part
def _number_hyp_tokens(
    hyp: Codes,
    tokens: TokenizedTexts,
    count: Unsigned,
    ref: Codes,
    ref_tokens: TokenizedTexts,
    vocabulary: Vocabulary,
    stamp: Unsigned,
    mask: Unsigned,
) -> None:
    """Give each token of the hypothesis the symbol of an equal token of the reference, or _ABSENT."""
    entries = vocabulary.entries
    starts, ends, symbols = tokens
    for token in range(count):
        slot, _ = _find(hyp, U(starts[token]), U(ends[token]), ref, ref_tokens, vocabulary, stamp, mask)
        if entries[slot] >> _HALF == stamp:
            symbols[token] = (entries[slot] & U(0xFFFFFFFF)) + ONE
        else:
            symbols[token] = _ABSENT


@part
def _list_all(positions: Indices, count: Unsigned) -> None:
    """Fill ``positions`` with 0, 1, 2, …, ``count`` - 1."""
    for position in range(count):
        positions[position] = position


@part
def _bleu(matches: Ints, hyp_length: np.int64, ref_length: np.int64, zero_without_match: bool) -> float:
    """BP · exp(mean of log p_n), in [0, 100], with the brevity penalty BP = exp(1 - r / c) for c < r (section 2.3).

    The operations are those of sacrebleu with effective order and floor smoothing, one by one, so that not even the
    rounding differs.
    """
    if hyp_length == 0 or (zero_without_match and matches[0] == 0):
        return 0.0
    penalty = 1.0
    if hyp_length < ref_length:
        penalty = math.exp(1 - ref_length / hyp_length)
    logs = 0.0
    effective_order = hyp_length if hyp_length < ORDER else ORDER
    for n in range(effective_order):
        # p_n, with the floor in place of 0 matches.
        matched = 100.0 * matches[n] if matches[n] else 100.0 * FLOOR
        logs += math.log(matched / (hyp_length - n))
    return penalty * math.exp(logs / effective_order)
