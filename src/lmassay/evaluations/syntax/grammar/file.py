"""Reading a grammar from YAML; every mistake is told with file, line and remedy."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.evaluations.syntax.grammar.compile import compile_template
from lmassay.evaluations.syntax.grammar.lexicon import ROW_KEYS, Features, read_features, read_irregular, read_lexicon
from lmassay.evaluations.syntax.grammar.notation import parse
from lmassay.evaluations.syntax.grammar.source import Misfit, Source, check_keys, mapping, text
from lmassay.evaluations.syntax.grammar.template import Template
from lmassay.evaluations.syntax.grammar.words import Category, Feature
from lmassay.storage.files import require_file
from lmassay.storage.yamlfile import read_mapping

MOST_PAIRS = 200_000
"""A construction that may have more pairs is only sampled."""

_TOP = ("name", "about", "capitalise", "end", "features", "irregular", "lexicon", "constructions")
_REQUIRED = ("features", "lexicon", "constructions")
_CONSTRUCTION = ("template", "templates", "factors")
_NAME = re.compile(r"\w[\w.-]*")
_DEVICE = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Construction:
    """Templates that test the same thing: one file of pairs. ``factors`` stand in each of its rows."""

    name: str
    templates: tuple[Template, ...]
    factors: Mapping[str, str]
    where: str

    @property
    def feature(self) -> Feature:
        """What good and bad sentences differ in."""
        return self.templates[0].feature

    @property
    def bound(self) -> int:
        """No more pairs than this come out."""
        return sum(template.bound for template in self.templates)

    @property
    def nouns(self) -> set[str]:
        """The words that its pairs may be clustered by."""
        return {cell.lemma for template in self.templates for cell in template.head.cells}

    @property
    def can_be_written_out(self) -> bool:
        """Whether all of its pairs can be had, not only a sample."""
        return self.bound <= MOST_PAIRS


@dataclass(frozen=True, slots=True)
class GrammarFile:
    """What a grammar file says."""

    name: str
    about: str
    capitalise: bool
    end: str
    constructions: tuple[Construction, ...]


def read_grammar(path: Path) -> GrammarFile:
    """Read and check a grammar file."""
    require_file(path, "grammar")
    data, lines = read_mapping(path)
    source = Source(path, lines)
    with source.at("the file"):
        check_keys(data, _TOP)
        for key in _REQUIRED:
            if not data.get(key):
                raise Misfit(f"the key '{key}' is required; docs/grammar.md has a small example")
    parts = {key: _part(source, key, data) for key in (*_REQUIRED, "irregular")}
    features = read_features(source, parts["features"])
    irregular = read_irregular(source, parts["irregular"], features)
    categories = read_lexicon(source, parts["lexicon"], features, irregular)
    texts = {}
    for key, default in (("name", path.stem), ("about", ""), ("end", "")):
        with source.at(key):
            texts[key] = text(data.get(key, default))
    with source.at("capitalise"):
        capitalise = data.get("capitalise", False)
        if not isinstance(capitalise, bool):
            raise Misfit("must be true or false")
    _check_file_names(source, parts["constructions"])
    constructions = (
        _construction(source, name, entry, categories, features) for name, entry in parts["constructions"].items()
    )
    return GrammarFile(texts["name"], texts["about"], capitalise, texts["end"], tuple(constructions))


def _part(source: Source, key: str, data: Mapping[str, Any]) -> dict[str, Any]:
    with source.at(key):
        return mapping(data.get(key))


def _check_file_names(source: Source, names: Iterable[str]) -> None:
    """Each construction gets a file of its own, on every system."""
    taken: dict[str, str] = {}
    for name in names:
        with source.at(f"constructions.{name}"):
            if not _NAME.fullmatch(name):
                raise Misfit("the name becomes a file name; use letters, digits, '_', '-' and '.'")
            if _DEVICE.fullmatch(name):
                raise Misfit("the name becomes a file name, and Windows keeps this one for a device; choose another")
            same = unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
            if same in taken:
                raise Misfit(f"the name and '{taken[same]}' are one file where case does not count; choose another")
            taken[same] = name


def _construction(
    source: Source, name: str, entry: Any, categories: Mapping[str, Category], features: Features
) -> Construction:
    key = f"constructions.{name}"
    with source.at(key):
        if isinstance(entry, str):
            entry = {"template": entry}
        if not isinstance(entry, dict):
            raise Misfit("give a template in quotes, or a mapping with the key 'template' or 'templates'")
        check_keys(entry, _CONSTRUCTION)
        if ("template" in entry) == ("templates" in entry):
            raise Misfit("give either 'template', one text, or 'templates', a mapping of names to texts")
        written = mapping(entry.get("templates")) if "templates" in entry else {name: entry["template"]}
        if not written:
            raise Misfit("the construction has no templates; give at least one")
        factors = {factor: text(value) for factor, value in mapping(entry.get("factors")).items()}
    values = {value: feature.name for feature in features.values() for value in feature.values}
    templates = []
    for label, words in written.items():
        with source.at(f"{key}.templates.{label}" if "templates" in entry else key):
            templates.append(compile_template(label, parse(text(words), values), categories, features))
    with source.at(key):
        if len({template.feature.name for template in templates}) > 1:
            raise Misfit("all templates of a construction contrast the same feature; make two constructions of it")
        _check_columns(templates, factors, features)
    return Construction(name, tuple(templates), factors, source.place(key))


def _check_columns(templates: list[Template], factors: Mapping[str, str], features: Features) -> None:
    """Each name in a row means one thing."""
    recorded = {slot.name for template in templates for slot in template.slots if slot.recorded}
    for name in [*factors, *sorted(recorded)]:
        if name in ROW_KEYS or name in features or (name in factors and name in recorded):
            raise Misfit(f"'{name}' has a meaning in each row already; choose another name")
