"""zero_one, also known as exact_match."""

from __future__ import annotations

from collections.abc import Sequence

from lmassay.evaluations.robustness.scorers.base import Scorer


class ZeroOne(Scorer):
    """1 where the two texts are equal, else 0: the accuracy of a classifier."""

    _name = "accuracy"
    by_chunks = True

    @property
    def signature(self) -> str:
        return "accuracy(exact)"

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        return float(hyp == ref)

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        return [float(hyp == ref) for hyp, ref in zip(hyps, refs, strict=True)]
