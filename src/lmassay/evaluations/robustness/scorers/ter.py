"""Sentence TER (Snover et al. 2006), turned into a similarity: 1 - TER, at least 0."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from lmassay.evaluations.robustness.scorers.base import Scorer


class TER(Scorer):
    """1 minus the translation edit rate: insertions, deletions, substitutions and shifts of words per reference word.

    Computed by sacrebleu. TER has no upper limit; more edits than reference words give a score of 0.
    ``case_sensitive``, ``normalized``, ``no_punct`` and ``asian_support`` are sacrebleu's options.

    >>> TER().score(["the cat sat on the mat", "mat the cat sat on the"], ["the cat sat on the mat"] * 2)
    [1.0, 0.8333333333333334]
    """

    _name = "TER"
    by_chunks = True

    def __init__(
        self,
        *,
        case_sensitive: bool = False,
        normalized: bool = False,
        no_punct: bool = False,
        asian_support: bool = False,
    ) -> None:
        self._options = {
            "case_sensitive": case_sensitive,
            "normalized": normalized,
            "no_punct": no_punct,
            "asian_support": asian_support,
        }

    @property
    def signature(self) -> str:
        # The abbreviations are those of sacrebleu's signatures.
        case = "mixed" if self._options["case_sensitive"] else "lc"
        normalized = _yes_or_no(self._options["normalized"])
        punctuation = _yes_or_no(not self._options["no_punct"])
        asian = _yes_or_no(self._options["asian_support"])
        return f"1-TER(case:{case}|norm:{normalized}|punct:{punctuation}|asian:{asian})"

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        if not ref.strip():
            # There is no reference word to count edits by.
            return 1.0 if not hyp.strip() else 0.0
        edit_rate = float(self._metric.sentence_score(hyp, [ref]).score) / 100
        return max(0.0, 1.0 - edit_rate)

    @cached_property
    def _metric(self) -> Any:
        from sacrebleu import metrics

        return metrics.TER(**self._options)


def _yes_or_no(is_set: bool) -> str:
    return "yes" if is_set else "no"
