"""Grammars that write minimal pairs: :func:`load_grammar` reads one, and :meth:`Grammar.write` writes the pairs.

A grammar is read from a YAML file, which also has the words. A mistake in it is reported with file, line and remedy.
The labels are those of refining-tse: -1 if the good sentence is singular, -2 if it is plural.

>>> rows = load_grammar("marvin-linzen").write("simple_agrmt", most=4)
>>> [row["label"] for row in rows]
[-1, -2, -1, -2]
"""

from __future__ import annotations

import itertools
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, StrictBool, model_validator

from lmassay.errors import ConfigError, did_you_mean
from lmassay.evaluations.syntax.grammar.lexicon import (
    ROW_KEYS,
    Feature,
    Features,
    WordCategory,
    read_features,
    read_irregular,
    read_lexicon,
)
from lmassay.evaluations.syntax.grammar.notation import parse
from lmassay.evaluations.syntax.grammar.source import GrammarMistake, GrammarSource, within
from lmassay.evaluations.syntax.grammar.template import GrammarTemplate, WrittenPair, compile_template
from lmassay.plugins.yaml_models import YamlModel, read_model
from lmassay.storage.files import require_file, sha256

_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
MAX_PAIRS = 200_000
"""A construction that may have more pairs than this can only be sampled."""

_EXAMPLE = "docs/grammar.md has a small example"
_NAME = re.compile(r"\w[\w.-]*")
# Names that Windows reserves for devices.
_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GrammarConstruction:
    """Templates that test the same thing. Their pairs make one file."""

    name: str
    templates: tuple[GrammarTemplate, ...]
    factors: Mapping[str, str]
    """Further columns of the file, each with the same value in every row, by which results can be grouped."""
    where: str
    """File, line and key of the construction, for error messages."""

    @property
    def feature(self) -> Feature:
        """The feature that good and bad sentences differ in."""
        return self.templates[0].feature

    @property
    def bound(self) -> int:
        """An upper bound of the number of pairs."""
        return sum(template.bound for template in self.templates)

    @property
    def nouns(self) -> set[str]:
        """The lemmas of all possible head words, such as the subjects. Pairs may be clustered by their head word."""
        lemmas: set[str] = set()
        for template in self.templates:
            lemmas.update(form.lemma for form in template.head.forms)
        return lemmas

    @property
    def can_be_written_out(self) -> bool:
        """Whether all pairs can be written; of a larger construction, only a sample can be."""
        return self.bound <= MAX_PAIRS


@dataclass(frozen=True, slots=True)
class GrammarFile:
    """The contents of a grammar file."""

    name: str
    about: str
    capitalise: bool
    end: str
    constructions: tuple[GrammarConstruction, ...]


class ConstructionKeys(YamlModel):
    """The keys of a construction in a file: one template, or several with names. A text is read as ``template``."""

    template: str | None = None
    templates: dict[str, str] | None = None
    factors: dict[str, str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _template_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"template": value}
        if not isinstance(value, dict):
            raise ValueError("give a template in quotes, or a mapping with the key 'template' or 'templates'")
        return value

    @model_validator(mode="after")
    def _check_templates(self) -> ConstructionKeys:
        if (self.template is None) == (self.templates is None):
            raise ValueError("give either 'template', one text, or 'templates', a mapping of names to texts")
        if self.templates == {}:
            raise ValueError("the construction has no templates; give at least one")
        return self


class GrammarKeys(YamlModel):
    """The keys of a grammar file.

    What ``features``, ``irregular``, ``lexicon`` and the templates contain is checked later, by the functions that read
    them.
    """

    name: str = ""
    about: str = ""
    capitalise: StrictBool = False
    end: str = ""
    features: dict[str, Any] = Field(min_length=1, description=_EXAMPLE)
    irregular: dict[str, Any] | None = None
    lexicon: dict[str, Any] = Field(min_length=1, description=_EXAMPLE)
    constructions: dict[str, ConstructionKeys] = Field(min_length=1, description=_EXAMPLE)


def read_grammar(path: Path) -> GrammarFile:
    """Read and check a grammar file."""
    require_file(path, "grammar")
    keys, file = read_model(path, GrammarKeys)
    source = GrammarSource(file)
    features = read_features(source, keys.features)
    irregular = read_irregular(source, keys.irregular or {}, features)
    categories = read_lexicon(source, keys.lexicon, features, irregular)
    _check_file_names(source, keys.constructions)
    constructions = []
    for name, entry in keys.constructions.items():
        constructions.append(_construction(source, name, entry, categories, features))
    return GrammarFile(keys.name or path.stem, keys.about, keys.capitalise, keys.end, tuple(constructions))


def _check_file_names(source: GrammarSource, names: Iterable[str]) -> None:
    """Raise if the name of a construction cannot be a file name on every system."""
    # The name as a case-insensitive file system sees it → the name in the grammar.
    name_of_file: dict[str, str] = {}
    for name in names:
        with source.at(f"constructions.{name}"):
            if not _NAME.fullmatch(name):
                raise GrammarMistake(
                    "the name becomes a file name; begin with a letter, a digit or '_', and use only these, '-' and '.'"
                )
            if _DEVICE.fullmatch(name):
                raise GrammarMistake(
                    "the name becomes a file name, and Windows reserves this one for a device; choose another"
                )
            # File systems of macOS treat composed and decomposed letters as equal; folding case may decompose letters.
            composed = unicodedata.normalize("NFC", name)
            file_name = unicodedata.normalize("NFC", composed.casefold())
            if file_name in name_of_file:
                raise GrammarMistake(
                    f"the name and '{name_of_file[file_name]}' are the same file on systems that ignore case; choose "
                    "another"
                )
            name_of_file[file_name] = name


def _construction(
    source: GrammarSource,
    name: str,
    entry: ConstructionKeys,
    categories: Mapping[str, WordCategory],
    features: Features,
) -> GrammarConstruction:
    key = f"constructions.{name}"
    # A construction has either one template, which has the name of the construction, or several with their own names.
    texts = entry.templates or {}
    keys = {template_name: f"{key}.templates.{template_name}" for template_name in texts}
    if entry.template is not None:
        texts = {name: entry.template}
        keys = {name: key}
    factors = entry.factors or {}
    feature_of_value: dict[str, str] = {}
    for feature in features.values():
        for value in feature.values:
            feature_of_value[value] = feature.name
    templates = []
    for template_name, text in texts.items():
        # A single template may be the value of the key ``template`` or of the construction itself. In the latter case,
        # the file has no line for ".template", and the line of the construction is reported.
        with source.at(keys[template_name]), within("" if entry.template is None else ".template"):
            parsed = parse(text, feature_of_value)
            templates.append(compile_template(template_name, parsed, categories, features))
    with source.at(key):
        contrasted_features = {template.feature.name for template in templates}
        if len(contrasted_features) > 1:
            raise GrammarMistake(
                "all templates of a construction must contrast the same feature; make one construction for each feature"
            )
        _check_columns(templates, factors, features)
    return GrammarConstruction(name, tuple(templates), factors, source.locate(key))


def _check_columns(templates: list[GrammarTemplate], factors: Mapping[str, str], features: Features) -> None:
    """Raise if a column of the rows would have two meanings."""
    # The names of choices such as {place: in the house|…}, which become columns.
    recorded: set[str] = set()
    for template in templates:
        recorded.update(slot.name for slot in template.slots if slot.recorded)
    for name in [*factors, *sorted(recorded)]:
        is_given_twice = name in factors and name in recorded
        if name in ROW_KEYS or name in features or is_given_twice:
            part = f".factors.{name}" if name in factors else ""
            raise GrammarMistake(f"'{name}' already has a meaning in each row; choose another name", part)


# --- writing pairs ----------------------------------------------------------------------------------------------------

# If a construction has too many pairs to write out, a sample is taken from a pool of random pairs. The pool has
# _POOL_FACTOR times as many pairs as the sample, but at least _SMALLEST_POOL.
_POOL_FACTOR = 20
_SMALLEST_POOL = 2_000
_SHIPPED = Path(__file__).parents[1] / "grammars"


def shipped_grammars() -> list[str]:
    """Return the names of the grammars that come with lmassay."""
    return sorted(path.stem for path in _SHIPPED.glob("*.yaml"))


def load_grammar(source: str | Path) -> Grammar:
    """Load a grammar that comes with lmassay by its name, or one from a file."""
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

    ``capitalise`` says whether sentences begin with a capital letter, and ``end`` is written after each sentence,
    except that a full stop or the like is not added to a sentence that already ends with one. ``sha256`` is the digest
    of the grammar file; empty for a grammar that was not read from a file.
    """

    name: str
    constructions: tuple[GrammarConstruction, ...]
    about: str = ""
    capitalise: bool = False
    end: str = ""
    sha256: str = ""

    def construction(self, name: str) -> GrammarConstruction:
        """Return a construction by its name, or raise a ConfigError."""
        for construction in self.constructions:
            if construction.name == name:
                return construction
        names = [construction.name for construction in self.constructions]
        raise ConfigError(f"the grammar {self.name} has no construction '{name}'{did_you_mean(name, names)}")

    def write(self, construction: str, *, seed: int = 0, most: int | None = None) -> list[dict[str, Any]]:
        """Return the minimal pairs of a construction as rows: all, or a balanced sample of at most ``most``.

        A sample is spread as evenly as possible over templates, nouns and the values of ``attractor`` (match, mismatch,
        none). If the contrasted feature has labels, the sample has equally many pairs of each label, so it may have
        fewer than ``most`` pairs; only with ``most=1``, it has a single pair. The sample depends only on the grammar,
        ``most`` and ``seed``.

        No pair occurs twice, and a pair is left out if one of its sentences is good in one pair and bad in another. If
        there are too many pairs to write out, these comparisons are limited to the pool that the sample is drawn from.
        """
        chosen = self.construction(construction)
        if most is not None and most < 1:
            raise ConfigError(f"a sample has at least one pair; got {most}")
        # The name is part of the seed, so that a sample does not depend on the other constructions of the grammar.
        rng = random.Random(f"{seed}/{construction}")
        if chosen.can_be_written_out:
            all_pairs = itertools.chain.from_iterable(template.pairs() for template in chosen.templates)
            pairs = _consistent(all_pairs)
        elif most is not None:
            pool_size = max(_POOL_FACTOR * most, _SMALLEST_POOL)
            pairs = _consistent(_random_pairs(chosen, rng, pool_size))
        else:
            raise ConfigError(
                f"{chosen.where}: up to {chosen.bound} pairs; more than {MAX_PAIRS} are not written out; "
                "ask for a sample (--max of `lmassay grammar write`, or max_per_file of a task), "
                "or use smaller categories"
            )
        if not pairs:
            raise ConfigError(f"{chosen.where}: gives no pair; do the words of the contrast have different forms?")
        if chosen.feature.labels:
            _check_one_word(pairs, chosen)
        if most is not None:
            pairs = _sample(pairs, rng, most, equal=bool(chosen.feature.labels))
        return [self._row(pair, chosen) for pair in pairs]

    def _row(self, pair: WrittenPair, construction: GrammarConstruction) -> dict[str, Any]:
        """Return a pair as a row of the file, with the fields of BLiMP and refining-tse."""
        row: dict[str, Any] = {}
        row["sentence_good"] = self._sentence(pair.good)
        row["sentence_bad"] = self._sentence(pair.bad)
        if construction.feature.labels:
            row["label"] = construction.feature.labels[pair.side]
        row["construction"] = construction.name
        row["template"] = pair.template
        row["noun"] = pair.noun
        row["contrast"] = pair.contrast
        if pair.attractor is not None:
            row["attractor"] = pair.attractor
        return {**row, **construction.factors, **pair.factors}

    def _sentence(self, text: str) -> str:
        """Return the sentence as it is written: with a capital letter and an end, if the grammar says so."""
        if self.capitalise:
            text = _capitalised(text)
        # A template may end its sentences itself, for example with a question mark.
        has_end = text.endswith(_SENTENCE_ENDS) and self.end.strip() in _SENTENCE_ENDS
        return text if has_end else text + self.end


def _capitalised(text: str) -> str:
    # A sentence may begin with a quotation mark or, in Spanish, with an inverted question mark.
    for position, character in enumerate(text):
        if character.isalnum():
            return text[:position] + character.upper() + text[position + 1 :]
    return text


def _random_pairs(construction: GrammarConstruction, rng: random.Random, size: int) -> Iterator[WrittenPair]:
    """Yield random pairs, taking the templates in turn."""
    templates = itertools.cycle(construction.templates)
    for template in itertools.islice(templates, size):
        # Only the first pair from each random start, because the pairs after it have the same words in most slots.
        pair = next(template.pairs(rng), None)
        if pair is not None:
            yield pair


def _consistent(pairs: Iterable[WrittenPair]) -> list[WrittenPair]:
    """Return each pair once, without those that have a sentence that is good in one pair and bad in another."""
    distinct: dict[tuple[str, str], WrittenPair] = {}
    for pair in pairs:
        distinct.setdefault((pair.good, pair.bad), pair)
    good_sentences = {good for good, _ in distinct}
    bad_sentences = {bad for _, bad in distinct}
    consistent = []
    for pair in distinct.values():
        if pair.good not in bad_sentences and pair.bad not in good_sentences:
            consistent.append(pair)
    return consistent


def _check_one_word(pairs: Iterable[WrittenPair], construction: GrammarConstruction) -> None:
    """Raise if the sentences of a pair do not differ in exactly one word.

    The metrics TSE, EW and MW compare words at one blank, which is the place of this word.
    """
    for pair in pairs:
        good = pair.good.split()
        bad = pair.bad.split()
        differences = 0
        if len(good) == len(bad):
            differences = sum(good_word != bad_word for good_word, bad_word in zip(good, bad, strict=True))
        if differences != 1:
            raise ConfigError(
                f"{construction.where}: '{pair.good}' and '{pair.bad}' must differ in one word; "
                f"only the word with the contrast may change"
            )


def _sample(pairs: Sequence[WrittenPair], rng: random.Random, most: int, *, equal: bool) -> list[WrittenPair]:
    """Take at most ``most`` pairs, from the sides of the contrast in turn; with ``equal``, equally many from each side.

    A side consists of the pairs whose good sentence has one value of the contrasted feature, such as the singular.
    """
    all_names: set[str] = set()
    for pair in pairs:
        all_names.update((pair.template, pair.noun))
    # Sorted first, so that the shuffle depends on the seed only.
    names = sorted(all_names)
    rng.shuffle(names)
    rank = {name: position for position, name in enumerate(names)}
    # The sides are in the order of the grammar; the pairs of each are in random order.
    sides: dict[str, _BalancedSide] = {}
    for pair in pairs:
        if pair.side not in sides:
            sides[pair.side] = _BalancedSide(rank)
    shuffled = list(pairs)
    rng.shuffle(shuffled)
    for pair in shuffled:
        sides[pair.side].add(pair)
    chosen: list[WrittenPair] = []
    while sides and len(chosen) < most:
        # A round takes one pair from each side. With ``equal``, a round that would exceed ``most`` is not begun, unless
        # it is the first, whose result is cut to ``most`` below.
        if equal and chosen and len(chosen) + len(sides) > most:
            break
        chosen += [side.take() for side in sides.values()]
        unfinished = {name: side for name, side in sides.items() if side.remaining}
        if equal and len(unfinished) < len(sides):
            # One side has no more pairs, so no more may be taken from the others either.
            break
        sides = unfinished
    return chosen[:most]


class _BalancedSide:
    """The pairs on one side of the contrast, taken from the template, noun and kind of attractor used least so far.

    Of templates or nouns that were used equally often, the one with the lowest ``rank`` is taken. All sides have the
    same ranks, so that they get the same nouns.
    """

    def __init__(self, rank: Mapping[str, int]) -> None:
        self.remaining: dict[str, dict[str, dict[str, list[WrittenPair]]]] = {}
        """Template → noun → kind of attractor → the pairs that have not been taken."""
        self._rank = rank
        self._used: Counter[tuple[str, ...]] = Counter()

    def add(self, pair: WrittenPair) -> None:
        nouns = self.remaining.setdefault(pair.template, {})
        nouns.setdefault(pair.noun, {}).setdefault(pair.attractor or "", []).append(pair)

    def take(self) -> WrittenPair:
        """Remove and return a pair whose template, noun and attractor were used least so far."""
        used = self._used
        rank = self._rank

        def template_use(name: str) -> tuple[int, int]:
            return used["template", name], rank[name]

        template = min(self.remaining, key=template_use)
        nouns = self.remaining[template]

        def noun_use(name: str) -> tuple[int, int, int]:
            return used["noun", name], used["noun", name, template], rank[name]

        noun = min(nouns, key=noun_use)
        kinds = nouns[noun]

        def kind_use(name: str) -> tuple[int, int, str]:
            return used["attractor", name, noun], used["attractor", name], name

        kind = min(kinds, key=kind_use)
        used.update([("template", template), ("noun", noun), ("noun", noun, template)])
        used.update([("attractor", kind), ("attractor", kind, noun)])
        pair = kinds[kind].pop()
        if not kinds[kind]:
            del kinds[kind]
        if not kinds:
            del nouns[noun]
        if not nouns:
            del self.remaining[template]
        return pair
