"""Your own scorers: how similar are two texts, from 0 to 1?

    lmassay run my_scorer.yaml
    lmassay teapot --src SRC --adv-src ADV --custom-scores-source my_scorer.py --s-src letters

A function is enough. A class has options: the parameters of its ``__init__``.
"""

from difflib import SequenceMatcher

from lmassay import Scorer, scorer


@scorer("letters")
def letters(hypothesis: str, reference: str) -> float:
    """Share of letters that the two texts have in common, in order."""
    return SequenceMatcher(None, hypothesis, reference, autojunk=False).ratio()


class Words(Scorer):
    """Share of the reference's words that the hypothesis has."""

    def __init__(self, lower: bool = True) -> None:
        self.lower = lower

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        hyp_words, ref_words = self.words(hyp), self.words(ref)
        if not ref_words:
            return float(not hyp_words)
        return len(hyp_words & ref_words) / len(ref_words)

    def words(self, text: str) -> set[str]:
        return set((text.lower() if self.lower else text).split())
