"""Sentence BLEU computed by sacrebleu itself, without compiled code; one BLEU object for all pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from lmassay.evaluations.robustness.kernels.backend import ChunkSize, Scores

CHUNK = ChunkSize(pairs=4096, characters=1 << 20)
# Smoothing: an order without any match is computed as if it had this many matches.
FLOOR = 0.01


def bleu_chunk(hyps: Sequence[str], refs: Sequence[str], zero_without_match: bool) -> Scores:
    """sacrebleu's sentence BLEU of each pair, divided by 100 and at most 1."""
    scores = [_score(hyp, ref, zero_without_match) for hyp, ref in zip(hyps, refs, strict=True)]
    return np.minimum(np.array(scores, dtype=np.float64) / 100, 1.0)


@cache
def _metric() -> Any:
    from sacrebleu.metrics import BLEU

    return BLEU(smooth_method="floor", smooth_value=FLOOR, effective_order=True)


def _score(hyp: str, ref: str, zero_without_match: bool) -> float:
    result = _metric().sentence_score(hyp, [ref])
    if zero_without_match or any(result.counts) or not result.sys_len:
        return float(result.score)
    # As sacrebleu 1.x: the brevity penalty times the geometric mean of the smoothed precisions (Papineni et al. 2002,
    # section 2.3), over the orders that the hypothesis is long enough for.
    precisions = [100.0 * FLOOR / total for total in result.totals if total]
    return float(result.bp) * math.exp(sum(map(math.log, precisions)) / len(precisions))
