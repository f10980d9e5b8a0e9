"""SuperGLUE's metrics for ReCoRD: an entity that was chosen against the texts that are right."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def answer_scores(chosen: Sequence[str], right: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and token F1, each the best over a question's right answers, mean over questions.

    ``acc`` is exact match by the name that other tasks use for the share of what is right.

    >>> answer_scores(["the Bhutto family"], [["Bhutto", "Benazir Bhutto"]])
    {'acc': 0.0, 'f1': 0.6666666666666666, 'em': 0.0}
    """
    if len(chosen) != len(right) or not chosen:
        raise ValueError(f"{len(chosen)} answers for {len(right)} questions; there must be one each, and at least one")
    exact = [
        max((float(plain(text) == plain(one)) for one in texts), default=0.0) for text, texts in _pairs(chosen, right)
    ]
    close = [max((token_f1(text, one) for one in texts), default=0.0) for text, texts in _pairs(chosen, right)]
    em, f1 = sum(exact) / len(exact), sum(close) / len(close)
    return {"acc": em, "f1": f1, "em": em}


def token_f1(chosen: str, right: str) -> float:
    """The harmonic mean of precision and recall over words.

    >>> token_f1("Benazir Bhutto", "Bhutto")
    0.6666666666666666
    """
    mine, theirs = plain(chosen).split(), plain(right).split()
    hits = sum((Counter(mine) & Counter(theirs)).values())
    return 2 * hits / (len(mine) + len(theirs)) if hits else 0.0


def plain(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _pairs(chosen: Sequence[str], right: Sequence[Sequence[str]]) -> list[tuple[str, Sequence[str]]]:
    return list(zip(chosen, right, strict=True))
