"""Choose the engine that scores a batch, and score the batch in chunks of bounded size.

All engines are exact, so the choice only affects speed. The environment variable ``LMASSAY_ENGINE`` (numpy, numba or
auto) overrides it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from lmassay.errors import ConfigError, DataError, MissingExtra, did_you_mean
from lmassay.evaluations.robustness.kernels.code_points import Ints, lengths

Engine = Literal["numpy", "numba"]
Scores = npt.NDArray[np.float64]
ChunkScorer = Callable[[Sequence[str], Sequence[str]], Scores]

ENGINE_VARIABLE = "LMASSAY_ENGINE"
_ENGINE_NAMES = ("auto", "numba", "numpy")
# Pairs that this process has scored so far, by kernel.
_pairs_seen: Counter[str] = Counter()


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """The upper bounds of a chunk: pairs, and characters of all its texts. A chunk of a single pair may exceed them."""

    pairs: int
    characters: int


def choose_engine(pairs: int, *, kernel: str, numba_pays_from: int, wanted: str = "auto") -> Engine:
    """The engine for a batch of this many pairs.

    "numpy" stands for everything that is not compiled; BLEU is then computed by sacrebleu. ``numba_pays_from`` is how
    many pairs are scored without numba in the time that loading the module ``kernel`` takes. Callers may pass a file in
    small batches, so "auto" counts the pairs of all batches of this process and switches to numba at that number. This
    takes at most one loading time longer than a choice that knows the total in advance.
    """
    origin = "engine"
    from_environment = os.environ.get(ENGINE_VARIABLE)
    if from_environment:
        origin = ENGINE_VARIABLE
        wanted = from_environment
    if wanted not in _ENGINE_NAMES:
        hint = did_you_mean(wanted, _ENGINE_NAMES)
        raise ConfigError(f"{origin}={wanted!r} is not an engine{hint}")
    if wanted == "numba" and not numba_is_usable():
        raise MissingExtra("the compiled scorer", "fast")
    if wanted != "auto":
        return "numba" if wanted == "numba" else "numpy"
    # If the module is loaded already, compiled code costs nothing more.
    if f"{__package__}.{kernel}" in sys.modules:
        return "numba"
    _pairs_seen[kernel] += pairs
    if _pairs_seen[kernel] >= numba_pays_from and numba_is_usable():
        return "numba"
    return "numpy"


@cache
def numba_is_usable() -> bool:
    """Whether numba can be imported; without it, the other engine gives the same scores."""
    try:
        import numba  # noqa: F401
    except Exception:
        # Not only ImportError (numba is missing, or numpy is too new for it): numba also imports `coverage`, and a
        # user's own coverage.py in the current folder makes that fail in other ways.
        return False
    return True


def score_in_chunks(
    score_chunk: ChunkScorer, hyps: Sequence[str], refs: Sequence[str], size: ChunkSize, threads: int = 1
) -> Scores:
    """Score the whole batch chunk by chunk, so that memory depends on the size of a chunk and not of the batch."""
    if len(hyps) != len(refs):
        raise DataError(f"{len(hyps)} hypotheses but {len(refs)} references; they must pair up")
    if threads < 1:
        raise ConfigError(f"threads={threads}: at least one thread is needed")
    _keep_freed_memory()
    scores = np.empty(len(hyps), dtype=np.float64)

    def score_span(span: slice) -> None:
        scores[span] = score_chunk(hyps[span], refs[span])

    spans = _spans(lengths(hyps) + lengths(refs), size)
    if threads == 1:
        for span in spans:
            score_span(span)
    else:
        with ThreadPoolExecutor(threads) as pool:
            # The loop waits for each chunk and re-raises the error of any.
            for _ in pool.map(score_span, spans):
                pass
    return scores


@cache
def _keep_freed_memory() -> None:
    """Make glibc's allocator, once per process, keep the arrays of a chunk for the next one.

    It returns freed blocks above a threshold to the system, and getting the pages again for the next chunk would take a
    third of the scoring time.
    Freeing one large block raises the threshold to its size. The block is never written to, so it costs nothing.
    """
    np.empty(16 << 20, dtype=np.uint8)


def _spans(characters: Ints, size: ChunkSize) -> Iterator[slice]:
    """The chunks of a batch, given the number of characters of each pair."""
    ends = np.cumsum(characters)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + size.characters, side="right"))
        stop = max(start + 1, min(start + size.pairs, fitting))
        yield slice(start, stop)
        start = stop
