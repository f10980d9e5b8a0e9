"""Where pairs come from: files, folders, patterns, grammars; under the name of a construction or several of them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.datasets import catalogue
from lmassay.errors import DataError
from lmassay.evaluations.syntax.grammar.grammar import Grammar, load_grammar, shipped_grammars
from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, SUFFIXES, PairFormat, read_pair_file
from lmassay.evaluations.syntax.pairs import MinimalPair, open_pairs, pair_of
from lmassay.storage.files import TextFile
from lmassay.types import digest

DataSpec = str | dict[str, str | list[str]]
"""A place, constructions with their places, or a part of a published data set."""

# Rows that grammars wrote, by the grammar's digest, construction and size of the sample. Both limits bound the memory.
_written: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
_LONGEST_KEPT = 2_000
_MOST_KEPT = 100


@dataclass(frozen=True, slots=True)
class FilePairs:
    """The pairs of one file."""

    file: TextFile
    pair_format: PairFormat = BLIMP_FORMAT

    @property
    def sha256(self) -> str:
        if self.pair_format == BLIMP_FORMAT:
            return self.file.sha256
        # The same file read by other columns is other data.
        return digest(self.file.sha256, self.pair_format.model_dump(mode="json"))

    @property
    def name_with_folder(self) -> str:
        return f"{self.file.path.parent.name}/{self.file.path.stem}"

    def pairs(self, most: int | None) -> Iterator[MinimalPair]:
        return read_pair_file(self.file, self.pair_format, most)


@dataclass(frozen=True, slots=True)
class GrammarPairs:
    """The pairs that a grammar writes for one of its constructions."""

    grammar: Grammar
    construction: str

    @property
    def sha256(self) -> str:
        return digest(self.grammar.sha256, self.construction)

    def pairs(self, most: int | None) -> Iterator[MinimalPair]:
        for number, row in enumerate(self._rows(most), 1):
            yield pair_of(row, f"{self.grammar.name}:{self.construction}", number)

    def _rows(self, most: int | None) -> list[dict[str, Any]]:
        """The rows that the grammar writes, from memory if they were written before in this process.

        A sample of ten pairs is drawn from all that the construction allows, often ten thousand, and one run asks for
        it several times: to check it, to count it and to use it.
        """
        if not self.grammar.sha256:
            # A grammar that was not read from a file has nothing to be recognised by.
            return self.grammar.write(self.construction, most=most)
        key = (self.grammar.sha256, self.construction, most)
        rows = _written.get(key)
        if rows is None:
            rows = self.grammar.write(self.construction, most=most)
            if len(rows) <= _LONGEST_KEPT:
                if len(_written) >= _MOST_KEPT:
                    _written.clear()
                _written[key] = rows
        return rows


@dataclass(frozen=True, slots=True)
class PairSet:
    """A named set of pairs, its parts pooled."""

    name: str
    parts: Sequence[FilePairs | GrammarPairs]


def constructions(data: DataSpec, base: Path, pair_format: PairFormat = BLIMP_FORMAT) -> list[PairSet]:
    """The sets of pairs that ``data`` names: one place, ``{construction: place or places}``, or a published data set.

    A place is a file, a folder, a pattern, a grammar (a shipped name or a .yaml file), one construction of a grammar
    (``english:simple``), or a data set of the catalogue (``blimp``, ``clams/de``). A mapping with the key ``name``
    selects a part of a data set: ``{name: clams, language: de}``. ``pair_format`` says how files are read.
    """
    if _is_part_of_data_set(data):
        assert isinstance(data, dict)
        return _published({key: str(value) for key, value in data.items()}) or []
    if isinstance(data, str):
        published = None if _exists(data, base) else _published(data)
        if published is not None:
            return published
        parts = _parts(data, base, pair_format)
        names = [_name_of(part) for part in parts]
        if len(set(names)) < len(names):
            # Files of one name in several folders.
            names = [part.name_with_folder if isinstance(part, FilePairs) else part.construction for part in parts]
        return [PairSet(name, [part]) for name, part in zip(names, parts, strict=True)]
    if not data:
        raise DataError("task.data: no construction is named; write {name: file.jsonl}")
    found = []
    for name, places in data.items():
        pooled: list[FilePairs | GrammarPairs] = []
        for place in [places] if isinstance(places, str) else places:
            pooled.extend(_parts(place, base, pair_format))
        if not pooled:
            raise DataError(f"task.data.{name}: no file is given")
        found.append(PairSet(str(name), pooled))
    return found


def label_of(data: DataSpec) -> str:
    """A short name for the data, for the labels of runs."""
    if isinstance(data, str):
        name, _, part = data.partition("/")
        if name in catalogue.catalogue().entries and "/" not in part:
            return data
        return Path(data).stem
    if _is_part_of_data_set(data):
        return " ".join(str(value) for value in data.values())
    return f"{len(data)} constructions"


def _is_part_of_data_set(data: DataSpec) -> bool:
    """Whether a mapping selects a part of a published data set rather than naming constructions."""
    return isinstance(data, dict) and data.get("name") in catalogue.catalogue().entries


def signature_of(found: Sequence[PairSet]) -> str:
    """One short digest of all data."""
    return digest([[c.name, [part.sha256 for part in c.parts]] for c in found])[:8]


def numbered(
    found: Sequence[PairSet], most_per_part: int | None, most: int | None
) -> Iterator[tuple[str, int, MinimalPair]]:
    """(construction, row number within it, pair) over all data; at most ``most`` rows of each construction."""
    for construction in found:
        number = 0
        for part in construction.parts:
            for pair in part.pairs(most_per_part):
                if most is not None and number >= most:
                    break
                yield construction.name, number, pair
                number += 1


def _published(spec: str | dict[str, str]) -> list[PairSet] | None:
    """The constructions of a data set in the catalogue; None if the text does not name one."""
    selection = catalogue.select(spec)
    if selection is None:
        return None
    pair_format = PairFormat.model_validate(selection.entry.reading)
    sets: list[PairSet] = []
    for path, file in selection.files:
        # Files of several languages have the same names, so the language becomes part of the construction's name.
        name = path.stem
        language = file.labels.get("language")
        if language is not None:
            name = f"{language}/{name}"
        sets.append(PairSet(name, [FilePairs(open_pairs(path), pair_format)]))
    return sets


def _exists(place: str, base: Path) -> bool:
    """Whether there is such a file or folder, which then takes precedence over a data set of that name."""
    return any((root / Path(place).expanduser()).exists() for root in (base, Path()))


def _name_of(part: FilePairs | GrammarPairs) -> str:
    return part.file.path.stem if isinstance(part, FilePairs) else part.construction


def _parts(place: str, base: Path, pair_format: PairFormat) -> Sequence[FilePairs | GrammarPairs]:
    if not place.strip():
        raise DataError("task.data: the path is empty; give a file, a folder, a pattern, a grammar or a data set")
    name, colon, construction = place.rpartition(":")
    source = _grammar(name if colon else place, base)
    if source is None:
        return [FilePairs(file, pair_format) for file in _files(place, base)]
    grammar = load_grammar(source)
    if colon:
        return [GrammarPairs(grammar, grammar.construction(construction).name)]
    return [GrammarPairs(grammar, known.name) for known in grammar.constructions]


def _grammar(place: str, base: Path) -> str | Path | None:
    """A grammar file or the name of a shipped one; None if it is neither."""
    if place.endswith((".yaml", ".yml")):
        return next((root / place for root in (base, Path()) if (root / place).is_file()), base / place)
    return place if place in shipped_grammars() and not (base / place).exists() else None


def _files(place: str, base: Path) -> list[TextFile]:
    for root in (base, Path()):
        path = root / Path(place).expanduser()
        if path.is_dir():
            found = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
            if not found:
                raise DataError(f"task.data: the folder {path} has no file of pairs ({', '.join(SUFFIXES)})")
            return [open_pairs(file.resolve()) for file in found]
        if path.is_file():
            return [open_pairs(path.resolve())]
        matches = sorted(glob.glob(str(path)))  # noqa: PTH207 - Path.glob does not take absolute patterns
        if matches:
            return [open_pairs(Path(match).resolve()) for match in matches]
    raise DataError(
        f"task.data: there is nothing at {base / place}; give a file of pairs, a folder, a pattern, a grammar "
        f"({', '.join(shipped_grammars())} or a .yaml file), or a data set that lmassay data lists"
    )
