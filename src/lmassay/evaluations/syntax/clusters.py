"""Which contexts are independent? Template sets reuse a few nouns, so their rows count for less than they seem to.

Where the data do not name the agreement noun it is found: in contexts of one file and length, the position whose word
alone tells whether the verb is singular or plural, and whose words come back again and again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from lmassay.evaluations.syntax.pairs import Number

# Words that come back this often, on average, are the fillers of a template; in free text nearly all are rare.
_REUSED = 4.0


def agreement_nouns(contexts: Sequence[tuple[tuple[str, ...], Number | None]]) -> list[str | None]:
    """The noun that each (left words, number) agrees with, in lower case and without its plural s; None if unknown."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for place, (left, number) in enumerate(contexts):
        if left and number is not None:
            by_length[len(left)].append(place)
    nouns: list[str | None] = [None] * len(contexts)
    for length, places in by_length.items():
        position = _controller([contexts[place] for place in places], length)
        if position is None:
            continue
        words = {contexts[place][0][position].lower() for place in places}
        for place in places:
            nouns[place] = _without_plural(contexts[place][0][position].lower(), words)
    return nouns


def _controller(contexts: Sequence[tuple[tuple[str, ...], Number | None]], length: int) -> int | None:
    best: tuple[int, int] | None = None
    for position in range(length):
        numbers: dict[str, set[Number | None]] = defaultdict(set)
        counts: Counter[str] = Counter()
        for left, number in contexts:
            word = left[position].lower()
            numbers[word].add(number)
            counts[word] += 1
        decided = all(len(found) == 1 for found in numbers.values())
        both = len({number for found in numbers.values() for number in found}) > 1
        reused = len(contexts) / len(counts) >= _REUSED
        # A verb in a relative clause may tell the number too; there are more nouns than verbs.
        if decided and both and reused and (best is None or len(counts) > best[0]):
            best = (len(counts), position)
    return None if best is None else best[1]


def _without_plural(word: str, words: set[str]) -> str:
    return word[:-1] if word.endswith("s") and word[:-1] in words else word
