"""The scorer ``zero_one``, also called ``exact_match``: are two texts equal?"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from lmassay.evaluations.robustness.scorers.base import Scorer

_ARTICLES = frozenset({"a", "an", "the"})


class ZeroOne(Scorer):
    """1 if the two texts are equal, otherwise 0: the accuracy of a classifier.

    ``quasi`` compares short answers like HELM's quasi-exact match, after SQuAD's normalisation: case, punctuation,
    English articles and white space do not count.

    >>> ZeroOne(quasi=True).score([" The sheep.", "Sheep dog"], ["sheep", "sheep"])
    [1.0, 0.0]
    """

    _name = "accuracy"
    by_chunks = True
    is_binary = True

    def __init__(self, quasi: bool = False) -> None:
        self.quasi = quasi

    @property
    def signature(self) -> str:
        return "accuracy(quasi-exact)" if self.quasi else "accuracy(exact)"

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        if self.quasi:
            return float(normalised(hyp) == normalised(ref))
        return float(hyp == ref)

    def score_corpus(self, hyps: Sequence[str], refs: Sequence[str], lang: str | None = None) -> list[float]:
        return [self.score_sentence(hyp, ref) for hyp, ref in zip(hyps, refs, strict=True)]


def normalised(text: str) -> str:
    """Lower case, without punctuation and English articles, words separated by one space.

    >>> normalised(" The  Old-Man's  hat.")
    'oldmans hat'
    """
    letters = [letter for letter in text.casefold() if not unicodedata.category(letter).startswith("P")]
    words = "".join(letters).split()
    return " ".join(word for word in words if word not in _ARTICLES)
