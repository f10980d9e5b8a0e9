"""Edit distance (Levenshtein 1966) of characters or words, turned into a similarity."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Literal

from lmassay.errors import ConfigError
from lmassay.evaluations.robustness.scorers.base import Scorer

EditUnit = Literal["character", "word"]


class EditDistance(Scorer):
    """A similarity from 0 to 1: 1 - distance / length of the longer text. Two empty texts have similarity 1.

    ``unit`` is what is inserted, deleted or replaced: a ``character`` (a Unicode code point) or a ``word`` (separated
    by white space). With the extra ``fast``, rapidfuzz computes the same numbers faster.

    >>> EditDistance().score(["kitten", ""], ["sitting", ""])
    [0.5714285714285714, 1.0]
    >>> EditDistance(unit="word").score(["the cat sat"], ["the dog sat"])
    [0.6666666666666667]
    """

    _name = "edit distance"
    by_chunks = True

    def __init__(self, unit: EditUnit = "character") -> None:
        if unit not in ("character", "word"):
            raise ConfigError(f"edit_distance: unit must be character or word, not {unit!r}")
        self.unit = unit

    @property
    def signature(self) -> str:
        return f"edit({self.unit}|norm:longer)"

    def score_sentence(self, hyp: str, ref: str, lang: str | None = None) -> float:
        hyp_units: Sequence[str] = hyp
        ref_units: Sequence[str] = ref
        if self.unit == "word":
            hyp_units = hyp.split()
            ref_units = ref.split()
        longer = max(len(hyp_units), len(ref_units))
        if longer == 0:
            return 1.0
        return 1 - edit_distance(hyp_units, ref_units) / longer


def edit_distance(one: Sequence[str], two: Sequence[str]) -> int:
    """The minimum number of insertions, deletions and replacements that turn one sequence into the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    if importlib.util.find_spec("rapidfuzz") is not None:
        from rapidfuzz.distance import Levenshtein

        return int(Levenshtein.distance(one, two))
    return plain_edit_distance(one, two)


def plain_edit_distance(one: Sequence[str], two: Sequence[str]) -> int:
    """The edit distance without rapidfuzz: one row of Wagner and Fischer's table (1974) at a time.

    >>> plain_edit_distance(["a", "b"], ["b"])
    1
    """
    # The distance from the empty sequence to each prefix of ``two``.
    row = list(range(len(two) + 1))
    for index, unit in enumerate(one, start=1):
        # ``diagonal`` keeps the value above and to the left, which the row has already overwritten.
        diagonal, row[0] = row[0], index
        for column, other in enumerate(two, start=1):
            replaced = diagonal + (unit != other)
            diagonal = row[column]
            row[column] = min(replaced, row[column] + 1, row[column - 1] + 1)
    return row[-1]
