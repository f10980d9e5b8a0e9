"""Where pairs come from: files, folders, patterns, grammars; under the name of a construction or several of them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmassay.errors import DataError
from lmassay.evaluations.syntax.grammar.grammar import Grammar, load_grammar, shipped_grammars
from lmassay.evaluations.syntax.pairs import MinimalPair, open_pairs, pair_of, read_pairs
from lmassay.storage.files import TextFile
from lmassay.types import digest

DataSpec = str | dict[str, str | list[str]]

# Rows that grammars wrote, by the grammar's digest, construction and size of the sample. Both limits bound the memory.
_written: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
_LONGEST_KEPT = 2_000
_MOST_KEPT = 100


@dataclass(frozen=True, slots=True)
class FilePairs:
    """The pairs of one file."""

    file: TextFile

    @property
    def sha256(self) -> str:
        return self.file.sha256

    @property
    def name_with_folder(self) -> str:
        return f"{self.file.path.parent.name}/{self.file.path.stem}"

    def pairs(self, most: int | None) -> Iterator[MinimalPair]:
        return read_pairs(self.file, most)


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


def constructions(data: DataSpec, base: Path) -> list[PairSet]:
    """``where``, or ``{name: where or [where, …]}``.

    A place is a .jsonl file, a folder of them, a pattern, a grammar (a shipped name or a .yaml file), or one
    construction of a grammar: ``english:simple``.
    """
    if isinstance(data, str):
        parts = _parts(data, base)
        names = [_name_of(part) for part in parts]
        if len(set(names)) < len(names):
            # Files of one name in several folders.
            names = [part.name_with_folder if isinstance(part, FilePairs) else part.construction for part in parts]
        return [PairSet(name, [part]) for name, part in zip(names, parts, strict=True)]
    if not data:
        raise DataError("task.data: no construction is named; write {name: file.jsonl}")
    found = []
    for name, places in data.items():
        parts = [part for place in ([places] if isinstance(places, str) else places) for part in _parts(place, base)]
        if not parts:
            raise DataError(f"task.data.{name}: no file is given")
        found.append(PairSet(str(name), parts))
    return found


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


def _name_of(part: FilePairs | GrammarPairs) -> str:
    return part.file.path.stem if isinstance(part, FilePairs) else part.construction


def _parts(place: str, base: Path) -> Sequence[FilePairs | GrammarPairs]:
    if not place.strip():
        raise DataError("task.data: the path is empty; give a .jsonl file, a folder, a pattern or a grammar")
    name, colon, construction = place.rpartition(":")
    source = _grammar(name if colon else place, base)
    if source is None:
        return [FilePairs(file) for file in _files(place, base)]
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
            found = sorted(path.glob("*.jsonl"))
            if not found:
                raise DataError(f"task.data: the folder {path} holds no .jsonl file")
            return [open_pairs(file.resolve()) for file in found]
        if path.is_file():
            return [open_pairs(path.resolve())]
        matches = sorted(glob.glob(str(path)))  # noqa: PTH207 - Path.glob does not take absolute patterns
        if matches:
            return [open_pairs(Path(match).resolve()) for match in matches]
    raise DataError(
        f"task.data: there is nothing at {base / place}; give a .jsonl file, a folder, a pattern, or a grammar "
        f"({', '.join(shipped_grammars())} or a .yaml file)"
    )
