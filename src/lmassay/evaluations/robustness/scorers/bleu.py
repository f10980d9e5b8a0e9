"""Sentence BLEU (Papineni et al. 2002), equal to sacrebleu's to the last digit."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Self

from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.kernels.backend import Scores, choose, score_in_chunks
from lmassay.evaluations.robustness.scorers.base import Scorer

# For a pair without any match, sacrebleu 2.x gives 0; 1.x gave the value of the smoothing floor, a little more than 0.
COMPAT = ("2.x", "1.x")

# Loading compiled code takes at least half a second, in which sacrebleu scores this many pairs.
_NUMBA_PAYS_FROM = 5_000


def bleu_scores(
    hyps: Sequence[str], refs: Sequence[str], *, compat: str = "2.x", engine: str = "auto", threads: int = 1
) -> Scores:
    """BLEU of each pair, in [0, 1]: ``sacrebleu.sentence_bleu(hyp, [ref], "floor", 0.01).score / 100``, at most 1.

    >>> bleu_scores(["the cat sat", "no"], ["the cat sat.", "yes"]).round(4).tolist()
    [0.7165, 0.0]
    """
    zero_without_match = _checked(compat) == "2.x"
    if choose(len(hyps), kernel="bleu_numba", numba_pays_from=_NUMBA_PAYS_FROM, wanted=engine) == "numba":
        from lmassay.evaluations.robustness.kernels.bleu_numba import CHUNK, bleu_chunk
    else:
        from lmassay.evaluations.robustness.kernels.bleu_plain import CHUNK, bleu_chunk

    def score(hyps: Sequence[str], refs: Sequence[str]) -> Scores:
        return bleu_chunk(hyps, refs, zero_without_match)

    return score_in_chunks(score, hyps, refs, CHUNK, threads)


def _checked(compat: str) -> str:
    if compat not in COMPAT:
        raise ConfigError(f"BLEU: compat must be {' or '.join(COMPAT)}, not {compat!r}")
    return compat


class BLEU(Scorer):
    """Sentence BLEU: 13a tokens, floor smoothing 0.01, effective order; divided by 100, at most 1."""

    _name = "BLEU"
    by_chunks = True

    def __init__(self, *, compat: str = "2.x", threads: int = 1) -> None:
        self.compat = _checked(compat)
        self.threads = threads

    @property
    def signature(self) -> str:
        return f"BLEU(tok:13a|smooth:floor[0.01]|eff:yes|compat:{self.compat})"

    @classmethod
    def add_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--bleu-compat",
            choices=COMPAT,
            default="2.x",
            help="BLEU as in sacrebleu 2.x (0 if nothing matches) or 1.x (the smoothing floor)",
        )

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> Self:
        return cls(compat=args.bleu_compat)

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        scores: list[float] = bleu_scores(hyps, refs, compat=self.compat, threads=self.threads).tolist()
        return scores

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        return BLEU.score_corpus(self, [hyp], [ref])[0]
