"""Where pairs come from: files, folders, patterns, grammars; under the name of a construction or several of them."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lmassay.data import TextFile
from lmassay.errors import DataError
from lmassay.syntax.grammar import load_grammar, shipped_grammars
from lmassay.syntax.pairs import Pair, open_pairs, pair_of, read_pairs
from lmassay.types import digest

DataSpec = str | dict[str, str | list[str]]


@dataclass(frozen=True)
class Construction:
    """A named set of pairs: files that are pooled, or one construction of a grammar."""

    name: str
    files: Sequence[TextFile] = ()
    grammar: str = ""
    part: str = ""
    seed: int = 0

    def pairs(self, most_per_file: int | None) -> Iterator[Pair]:
        for file in self.files:
            yield from read_pairs(file, most_per_file)
        if self.grammar:
            for number, row in enumerate(self._written(most_per_file), 1):
                yield pair_of(row, f"{self.grammar}/{self.part}", number)

    @cached_property
    def sha256(self) -> str:
        if self.grammar:
            return digest(self._written(None))
        return digest([file.sha256 for file in self.files])

    def _written(self, most: int | None) -> list[dict[str, object]]:
        return load_grammar(self.grammar).write(self.part, seed=self.seed, most=most)


def constructions(data: DataSpec, base: Path, seed: int = 0) -> list[Construction]:
    """``path``, or ``{name: path or [path, …]}``; a path may be a pattern, a folder, or a grammar."""
    if isinstance(data, str):
        return _unnamed(data, base, seed)
    if not data:
        raise DataError("task.data: no construction is named; write {name: file.jsonl}")
    found = []
    for name, paths in data.items():
        files = [file for path in ([paths] if isinstance(paths, str) else paths) for file in _files(path, base)]
        if not files:
            raise DataError(f"task.data.{name}: no file is given")
        found.append(Construction(str(name), files))
    return found


def _unnamed(path: str, base: Path, seed: int) -> list[Construction]:
    grammar = _grammar(path, base)
    if grammar is not None:
        return [
            Construction(c.name, grammar=grammar, part=c.name, seed=seed) for c in load_grammar(grammar).constructions
        ]
    return [Construction(file.path.stem, [file]) for file in _files(path, base)]


def _grammar(path: str, base: Path) -> str | None:
    if path.endswith((".yaml", ".yml")):
        here = [root / path for root in (base, Path()) if (root / path).is_file()]
        return str(here[0].resolve() if here else base / path)
    return path if path in shipped_grammars() and not (base / path).exists() else None


def _files(path: str, base: Path) -> list[TextFile]:
    place = Path(path).expanduser()
    for root in (base, Path()):
        full = root / place
        if full.is_dir():
            found = sorted(full.glob("*.jsonl"))
            if not found:
                raise DataError(f"the folder {full} holds no .jsonl file")
            return [open_pairs(file.resolve()) for file in found]
        if full.is_file():
            return [open_pairs(full.resolve())]
        if any(sign in path for sign in "*?["):
            matches = sorted(glob.glob(str(full)))  # noqa: PTH207 - Path.glob does not take absolute patterns
            if matches:
                return [open_pairs(Path(match).resolve()) for match in matches]
    hint = f"; shipped grammars: {', '.join(shipped_grammars())}" if "." not in place.name else ""
    raise DataError(
        f"task.data: there is nothing at {base / place}; give a .jsonl file, a folder, a pattern or a grammar{hint}"
    )


def signature_of(found: Sequence[Construction]) -> str:
    """One short digest of all data."""
    return digest([[c.name, c.sha256] for c in found])[:8]


def numbered(
    found: Sequence[Construction], most_per_file: int | None, most: int | None
) -> Iterator[tuple[str, int, Pair]]:
    """(construction, row number within it, pair) over all data; ``most`` rows of each construction."""
    for construction in found:
        for number, pair in enumerate(construction.pairs(most_per_file)):
            if most is not None and number >= most:
                break
            yield construction.name, number, pair
