"""Sentence chrF (Popović 2015), the F-score of character n-grams, equal to sacrebleu's to the last digit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.kernels.backend import ChunkSize, Scores, choose_engine, score_in_chunks
from lmassay.evaluations.robustness.scorers.base import Scorer

# sacrebleu's defaults: n-grams of up to 6 characters, and recall counts twice as much as precision.
CHAR_ORDER = 6
BETA = 2

# Loading compiled code takes at least half a second, in which numpy scores this many pairs.
_NUMBA_PAYS_FROM = 50_000
_WORD_CHUNK = ChunkSize(pairs=4096, characters=1 << 20)


def chrf_scores(
    hyps: Sequence[str],
    refs: Sequence[str],
    *,
    char_order: int = CHAR_ORDER,
    beta: float = BETA,
    engine: str = "auto",
    threads: int = 1,
) -> Scores:
    """chrF of each pair, in [0, 1]: ``sacrebleu.sentence_chrf(hyp, [ref]).score / 100``.

    >>> chrf_scores(["the cat", ""], ["the bat", "the bat"]).round(4).tolist()
    [0.2806, 0.0]
    """
    if choose_engine(len(hyps), kernel="chrf_numba", numba_pays_from=_NUMBA_PAYS_FROM, wanted=engine) == "numba":
        from lmassay.evaluations.robustness.kernels.chrf_numba import CHUNK, chrf_chunk
    else:
        from lmassay.evaluations.robustness.kernels.chrf_numpy import CHUNK, chrf_chunk

    def score(hyps: Sequence[str], refs: Sequence[str]) -> Scores:
        return chrf_chunk(hyps, refs, char_order, beta)

    return score_in_chunks(score, hyps, refs, CHUNK, threads)


def chrf_with_words_scores(
    hyps: Sequence[str], refs: Sequence[str], *, char_order: int = CHAR_ORDER, word_order: int = 2, beta: float = BETA
) -> Scores:
    """chrF+ and chrF++ (Popović 2017) of each pair, in [0, 1], computed by sacrebleu itself, one pair at a time."""
    from sacrebleu.metrics import CHRF

    metric = CHRF(char_order=char_order, word_order=word_order, beta=beta)

    def score(hyps: Sequence[str], refs: Sequence[str]) -> Scores:
        percentages = []
        for hyp, ref in zip(hyps, refs, strict=True):
            percentages.append(metric.sentence_score(hyp, [ref]).score)
        return np.array(percentages) / 100

    return score_in_chunks(score, hyps, refs, _WORD_CHUNK)


class ChrF(Scorer):
    """Sentence chrF (chrF++ with ``word_order=2``) with sacrebleu's defaults, divided by 100."""

    _name = "ChrF"
    by_chunks = True

    def __init__(
        self, *, char_order: int = CHAR_ORDER, word_order: int = 0, beta: float = BETA, threads: int = 1
    ) -> None:
        if char_order < 1 or word_order < 0 or beta <= 0:
            raise ConfigError(
                f"chrF with char_order={char_order}, word_order={word_order}, beta={beta}: "
                "char_order must be at least 1, word_order at least 0 and beta greater than 0"
            )
        self.char_order = char_order
        self.word_order = word_order
        self.beta = beta
        self.threads = threads

    @property
    def signature(self) -> str:
        # The engine is not part of the signature: all engines give the same scores.
        name = f"chrF{self.beta:g}{'+' * self.word_order}"
        return f"{name}(nc:{self.char_order}|nw:{self.word_order}|space:no|case:mixed|eff:yes)"

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        if self.word_order:
            scores = chrf_with_words_scores(
                hyps, refs, char_order=self.char_order, word_order=self.word_order, beta=self.beta
            )
        else:
            scores = chrf_scores(hyps, refs, char_order=self.char_order, beta=self.beta, threads=self.threads)
        result: list[float] = scores.tolist()
        return result

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        # Not self.score_corpus: in a subclass that overrides score_sentence, that calls score_sentence again.
        return ChrF.score_corpus(self, [hyp], [ref])[0]


class ChrFPlusPlus(ChrF):
    """Sentence chrF++ (Popović 2017): chrF with n-grams of one and two words.

    >>> [round(score, 4) for score in ChrFPlusPlus().score(["the cat"], ["the bat"])]
    [0.2729]
    """

    _name = "ChrF++"

    def __init__(self, *, char_order: int = CHAR_ORDER, beta: float = BETA) -> None:
        super().__init__(char_order=char_order, word_order=2, beta=beta)
