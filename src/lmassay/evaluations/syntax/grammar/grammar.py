"""A grammar that writes minimal pairs with any lexicon: :func:`load_grammar`, :class:`Grammar`.

>>> rows = load_grammar("marvin-linzen").write("simple_agrmt", most=4)
>>> [row["label"] for row in rows]
[-1, -2, -1, -2]
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, did_you_mean
from lmassay.evaluations.syntax.grammar.file import MOST_PAIRS, Construction, read_grammar
from lmassay.evaluations.syntax.grammar.template import Pair
from lmassay.storage.files import sha256

_POOL = 20
_SMALLEST_POOL = 2_000
_SHIPPED = Path(__file__).parents[1] / "grammars"


def shipped_grammars() -> list[str]:
    """The names of the grammars that come with lmassay."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def load_grammar(source: str | Path) -> Grammar:
    """A grammar that comes with lmassay, by name, or one from a file."""
    if isinstance(source, str) and source in shipped_grammars():
        source = _SHIPPED / f"{source}.yaml"
    path = Path(source)
    if not path.exists() and not path.suffix:
        raise ConfigError(f"there is no grammar '{source}'{did_you_mean(str(source), shipped_grammars())}")
    file = read_grammar(path)
    return Grammar(file.name, file.constructions, file.about, file.capitalise, file.end, sha256(path))


@dataclass(frozen=True, slots=True)
class Grammar:
    """Constructions that share a lexicon.

    ``capitalise`` and ``end`` say how a sentence is written; ``sha256`` is that of the file.
    """

    name: str
    constructions: tuple[Construction, ...]
    about: str = ""
    capitalise: bool = False
    end: str = ""
    sha256: str = ""

    def construction(self, name: str) -> Construction:
        for construction in self.constructions:
            if construction.name == name:
                return construction
        known = [construction.name for construction in self.constructions]
        raise ConfigError(f"the grammar {self.name} has no construction '{name}'{did_you_mean(name, known)}")

    def write(self, construction: str, *, seed: int = 0, most: int | None = None) -> list[dict[str, Any]]:
        """The minimal pairs of a construction: all, or a balanced sample of at most ``most``.

        A sample has as many pairs of each label and spreads evenly over templates, nouns and kinds of attractor; it
        depends on nothing but grammar and seed. No pair is there twice, and no sentence is good in one and bad in
        another; where there are too many to write out, that holds within the pool the sample is drawn from.
        """
        chosen = self.construction(construction)
        if most is not None and most < 1:
            raise ConfigError(f"a sample has at least one pair; got {most}")
        rng = random.Random(f"{seed}/{construction}")
        if chosen.can_be_written_out:
            pairs = _clean(pair for template in chosen.templates for pair in template.pairs())
        elif most is not None:
            pairs = _clean(_drawn(chosen, rng, max(_POOL * most, _SMALLEST_POOL)))
        else:
            raise ConfigError(
                f"{chosen.where}: up to {chosen.bound} pairs, more than {MOST_PAIRS} are not written out; "
                f"ask for a sample (--max), or use smaller categories"
            )
        if not pairs:
            raise ConfigError(f"{chosen.where}: writes no pair; do the words of the contrast have different forms?")
        if chosen.feature.labels:
            _check_one_word(pairs, chosen)
        if most is not None:
            pairs = _sample(pairs, rng, most, equal=bool(chosen.feature.labels))
        return [self._row(pair, chosen) for pair in pairs]

    def _row(self, pair: Pair, construction: Construction) -> dict[str, Any]:
        row: dict[str, Any] = {"sentence_good": self._sentence(pair.good), "sentence_bad": self._sentence(pair.bad)}
        if construction.feature.labels:
            row["label"] = construction.feature.labels[pair.side]
        row |= {"construction": construction.name, "template": pair.template, "noun": pair.noun}
        row["contrast"] = pair.contrast
        if pair.attractor is not None:
            row["attractor"] = pair.attractor
        return {**row, **construction.factors, **pair.factors}

    def _sentence(self, text: str) -> str:
        return (text[:1].upper() + text[1:] if self.capitalise else text) + self.end


def _drawn(construction: Construction, rng: random.Random, size: int) -> Iterator[Pair]:
    """Pairs at random, the templates in turn."""
    for turn in range(size):
        pair = next(construction.templates[turn % len(construction.templates)].pairs(rng), None)
        if pair is not None:
            yield pair


def _clean(pairs: Iterable[Pair]) -> list[Pair]:
    """Each pair once, and none with a sentence that is good here and bad there."""
    distinct: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        distinct.setdefault((pair.good, pair.bad), pair)
    right, wrong = {good for good, _ in distinct}, {bad for _, bad in distinct}
    return [pair for pair in distinct.values() if pair.good not in wrong and pair.bad not in right]


def _check_one_word(pairs: Iterable[Pair], construction: Construction) -> None:
    for pair in pairs:
        good, bad = pair.good.split(), pair.bad.split()
        if len(good) != len(bad) or sum(map(str.__ne__, good, bad)) != 1:
            raise ConfigError(
                f"{construction.where}: '{pair.good}' and '{pair.bad}' must differ in one word; "
                f"only the word with the contrast may change"
            )


def _sample(pairs: Sequence[Pair], rng: random.Random, most: int, *, equal: bool) -> list[Pair]:
    """Take turns between the sides of the contrast; with ``equal`` no side gets more than another."""
    names = sorted({name for pair in pairs for name in (pair.template, pair.noun)})
    rng.shuffle(names)
    rank = {name: place for place, name in enumerate(names)}
    order = list(pairs)
    rng.shuffle(order)
    sides = {side: _Side(rank) for side in dict.fromkeys(pair.side for pair in pairs)}
    for pair in order:
        sides[pair.side].add(pair)
    taken: list[Pair] = []
    while sides and len(taken) < most:
        # A round that would leave one side ahead is not begun, unless it is the first.
        if equal and taken and len(taken) + len(sides) > most:
            break
        taken += [side.take() for side in sides.values()]
        left = {name: side for name, side in sides.items() if side.left}
        if equal and len(left) < len(sides):
            break
        sides = left
    return taken[:most]


class _Side:
    """The pairs with one value of the contrast, handed out from the template, noun and attractor used least.

    ``rank`` decides where that leaves a choice; all sides share it, so that they get the same nouns.
    """

    def __init__(self, rank: Mapping[str, int]) -> None:
        self.left: dict[str, dict[str, dict[str, list[Pair]]]] = {}
        self._rank = rank
        self._used: Counter[tuple[str, ...]] = Counter()

    def add(self, pair: Pair) -> None:
        nouns = self.left.setdefault(pair.template, {})
        nouns.setdefault(pair.noun, {}).setdefault(pair.attractor or "", []).append(pair)

    def take(self) -> Pair:
        used, rank = self._used, self._rank
        template = min(self.left, key=lambda name: (used["template", name], rank[name]))
        nouns = self.left[template]
        noun = min(nouns, key=lambda name: (used["noun", name], used["noun", name, template], rank[name]))
        kinds = nouns[noun]
        kind = min(kinds, key=lambda name: (used["attractor", name, noun], used["attractor", name], name))
        used.update([("template", template), ("noun", noun), ("noun", noun, template)])
        used.update([("attractor", kind), ("attractor", kind, noun)])
        pair = kinds[kind].pop()
        if not kinds[kind]:
            del kinds[kind]
        if not kinds:
            del nouns[noun]
        if not nouns:
            del self.left[template]
        return pair
