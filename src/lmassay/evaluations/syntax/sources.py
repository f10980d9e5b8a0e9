"""Find the pairs that ``task.data`` names: files, folders, patterns, grammars and published data sets."""

from __future__ import annotations

import glob
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from lmassay.datasets import catalogue
from lmassay.errors import DataError
from lmassay.evaluations.syntax.grammar.grammar import Grammar, load_grammar, shipped_grammars
from lmassay.evaluations.syntax.pair_files import BLIMP_FORMAT, SUFFIXES, PairFormat, read_pair_file
from lmassay.evaluations.syntax.pairs import MinimalPair, open_pairs, pair_of
from lmassay.plugins.data_options import InMemory
from lmassay.plugins.options import DATA_PREFIX
from lmassay.storage.files import NO_STANDARD_INPUT, STANDARD_INPUT, TextFile, format_suffix, stem_of
from lmassay.types import digest
from lmassay.types.wording import counted

DataSpec = str | dict[str, str | list[str]]
"""A source of pairs, a mapping from constructions to their sources, or a published data set or a part of it."""
PairData = Annotated[DataSpec, InMemory("rows", columns=("sentence_good", "sentence_bad"))]
"""The option ``data`` of a task; from Python, it also takes rows with the columns of BLiMP, or pairs of sentences."""

# Rows that grammars wrote, by the grammar's digest, construction and sample size; samples of files, by their
# identity, sample size and seed. The limits bound the memory: a sample of more than _MAX_CACHED_LENGTH pairs is not
# kept, and a cache that would exceed its limit is emptied first.
_cached_rows: dict[tuple[str, str, int | None], list[dict[str, Any]]] = {}
_cached_samples: dict[tuple[tuple[str, ...], int, int], list[MinimalPair]] = {}
_MAX_CACHED_LENGTH = 2_000
_MAX_CACHED_ROWS = 100_000
_MAX_CACHED_SAMPLE_PAIRS = 20_000


@dataclass(frozen=True, slots=True)
class FilePairs:
    """The pairs of one file."""

    file: TextFile
    pair_format: PairFormat = BLIMP_FORMAT

    @property
    def sha256(self) -> str:
        """A digest of the data: of the file and, unless it has BLiMP's columns, of how it is read."""
        if self.pair_format == BLIMP_FORMAT:
            return self.file.sha256
        # Read with other columns, the same file gives other pairs, so the format is a part of the digest. The position
        # of the blank is not, because it does not change the pairs.
        return digest(self.file.sha256, self.pair_format.model_dump(mode="json", exclude={"blank"}))

    @property
    def name(self) -> str:
        """The name of the file without its suffix."""
        return stem_of(self.file.path)

    @property
    def name_with_folder(self) -> str:
        """The name with its folder before it, to distinguish files of the same name."""
        return f"{self.file.path.parent.name}/{stem_of(self.file.path)}"

    @property
    def identity(self) -> tuple[str, ...]:
        """What the pairs depend on: the file, its contents and how it is read."""
        return (str(self.file.path), self.file.sha256, self.pair_format.model_dump_json())

    @property
    def names_numbers_and_nouns(self) -> bool:
        """Whether every pair is known to state its grammatical number and noun. False, as files are not read for it."""
        return False

    def pairs(self, limit: int | None, seed: int | None = None) -> Iterator[MinimalPair]:
        """Yield at most ``limit`` pairs: the first or, with a seed, a random sample in the order of the file."""
        if limit is None or seed is None:
            yield from read_pair_file(self.file, self.pair_format, limit)
            return
        yield from self._sample(limit, seed)

    def _sample(self, limit: int, seed: int) -> list[MinimalPair]:
        """Return a random sample in the order of the file, from memory if it was drawn before in this process.

        Even for a few pairs, the whole file is read, and one run needs the sample several times: to check the pairs, to
        count them and to use them.
        """
        key = (self.identity, limit, seed)
        sample = _cached_samples.get(key)
        if sample is None:
            sample = list(read_pair_file(self.file, self.pair_format))
            if limit < len(sample):
                drawn = sorted(random.Random(seed).sample(range(len(sample)), limit))
                sample = [sample[index] for index in drawn]
            cached_pairs = sum(map(len, _cached_samples.values()))
            if cached_pairs + len(sample) > _MAX_CACHED_SAMPLE_PAIRS:
                _cached_samples.clear()
            if len(sample) <= _MAX_CACHED_LENGTH:
                _cached_samples[key] = sample
        return sample


@dataclass(frozen=True, slots=True)
class GrammarPairs:
    """The pairs that a grammar writes for one of its constructions."""

    grammar: Grammar
    construction: str

    @property
    def sha256(self) -> str:
        """A digest of the data: of the grammar and the name of the construction."""
        return digest(self.grammar.sha256, self.construction)

    @property
    def name(self) -> str:
        """The name of the construction."""
        return self.construction

    @property
    def name_with_folder(self) -> str:
        """The name; constructions of a grammar have no folder."""
        return self.construction

    @property
    def identity(self) -> tuple[str, ...]:
        """What the pairs depend on: the grammar, its contents and the construction."""
        return (self.grammar.name, self.grammar.sha256, self.construction)

    @property
    def names_numbers_and_nouns(self) -> bool:
        """Whether every pair states its grammatical number and noun, so that neither is inferred from other pairs."""
        return bool(self.grammar.construction(self.construction).feature.labels)

    def pairs(self, limit: int | None, seed: int | None = None) -> Iterator[MinimalPair]:
        """Yield a balanced sample of at most ``limit`` pairs, or all; it does not depend on ``seed``."""
        for number, row in enumerate(self._rows(limit), 1):
            yield pair_of(row, f"{self.grammar.name}:{self.construction}", number)

    def _rows(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the rows that the grammar writes, from memory if they were written before in this process.

        To draw ten pairs, the grammar writes all pairs of the construction, often ten thousand, and one run needs the
        ten several times: to check, to count and to use them.
        """
        if not self.grammar.sha256:
            # A grammar that was not read from a file has no digest to be recognised by.
            return self.grammar.write(self.construction, most=limit)
        key = (self.grammar.sha256, self.construction, limit)
        rows = _cached_rows.get(key)
        if rows is None:
            rows = self.grammar.write(self.construction, most=limit)
            if len(rows) <= _MAX_CACHED_ROWS:
                if sum(map(len, _cached_rows.values())) + len(rows) > _MAX_CACHED_ROWS:
                    _cached_rows.clear()
                _cached_rows[key] = rows
        return rows


@dataclass(frozen=True, slots=True)
class PairSet:
    """The pairs of a construction, pooled from one or several parts: files or constructions of grammars."""

    name: str
    parts: Sequence[FilePairs | GrammarPairs]
    language: str | None = None
    """The language of the sentences; None if it is not known, as for users' own files."""


def constructions(data: DataSpec, base: Path, pair_format: PairFormat = BLIMP_FORMAT) -> list[PairSet]:
    """Return the constructions that ``task.data`` names.

    ``data`` is a source, ``{construction: source or [source, …]}``, or a data set of the catalogue (``blimp``,
    ``clams/de``, or ``{name: clams, language: de}``). A source is a file, a folder, a pattern, a grammar (a shipped
    name or a .yaml file), one construction of a grammar (``english:simple``), or one file of a data set of the
    catalogue (``data:clams/de_evalset/subj_rel.txt``). Paths are relative to ``base`` or, if there is no such file,
    to the working folder. ``pair_format`` says how users' files are read; files of a data set have their own format.
    """
    if _is_part_of_data_set(data):
        assert isinstance(data, dict)
        return _published(data) or []
    if isinstance(data, str):
        # A file or folder of the user comes before a published data set of the same name.
        if not catalogue.is_local(data, base):
            published = _published(data)
            if published is not None:
                return published
        parts = _parts(data, base, pair_format)
        return [PairSet(name, [part]) for name, part in zip(_distinct_names(parts), parts, strict=True)]
    if not data:
        raise DataError("task.data: no construction is named; write {name: file.jsonl}")
    pair_sets = []
    for name, sources in data.items():
        if isinstance(sources, str):
            sources = [sources]
        all_parts: list[FilePairs | GrammarPairs] = []
        for source in sources:
            all_parts += _parts(source, base, pair_format)
        if not all_parts:
            raise DataError(f"task.data.{name}: no file is given")
        pair_sets.append(PairSet(str(name), all_parts))
    return pair_sets


def _distinct_names(parts: Sequence[FilePairs | GrammarPairs]) -> list[str]:
    """Return a name for each part, as short as possible but different from all others."""
    names = [part.name for part in parts]
    if len(set(names)) == len(names):
        return names
    # Files of the same name in several folders.
    names = [part.name_with_folder for part in parts]
    if len(set(names)) == len(names):
        return names
    # Their folders have the same name as well, or they differ only in the suffix. All parts are files here, because the
    # constructions of a grammar have different names.
    paths = [part.file.path for part in parts if isinstance(part, FilePairs)]
    root = os.path.commonpath([path.parent for path in paths])
    return [path.relative_to(root).as_posix() for path in paths]


def label_of(data: DataSpec) -> str:
    """Return a short name for the data, for the labels of runs."""
    if isinstance(data, str):
        return catalogue.label_of(data)
    if _is_part_of_data_set(data):
        return catalogue.label_of(data)
    return counted(len(data), "construction")


def _is_part_of_data_set(data: DataSpec) -> bool:
    """Return True if a mapping selects a part of a published data set rather than naming constructions."""
    return isinstance(data, dict) and data.get("name") in catalogue.catalogue().entries


def signature_of(pair_sets: Sequence[PairSet]) -> str:
    """Return the first eight digits of a digest of all constructions: their names and their data."""
    digests = []
    for pair_set in pair_sets:
        digests.append([pair_set.name, [part.sha256 for part in pair_set.parts]])
    return digest(digests)[:8]


def numbered_pairs(
    pair_sets: Sequence[PairSet], limit_per_part: int | None, limit: int | None, seed: int | None = None
) -> Iterator[tuple[str, int, MinimalPair]]:
    """Yield the pairs of all constructions as (construction, number of the pair within it from 0, pair).

    At most ``limit_per_part`` pairs of each part are taken. Of a file, these are the first or, with a seed, a random
    sample; of a grammar, a balanced sample that does not depend on the seed. Of each construction, at most ``limit``
    pairs are taken: the first of its parts, one part after the other.
    """
    for pair_set in pair_sets:
        number = 0
        for part in pair_set.parts:
            for pair in part.pairs(limit_per_part, seed):
                if limit is not None and number >= limit:
                    break
                yield pair_set.name, number, pair
                number += 1


def _published(spec: DataSpec) -> list[PairSet] | None:
    """Return the constructions of a data set in the catalogue, one for each file; None if ``spec`` names none."""
    selection = catalogue.select(spec)
    if selection is None:
        return None
    pair_format = PairFormat.model_validate(selection.entry.reading)
    pair_sets: list[PairSet] = []
    for path, file in selection.files:
        # Files of several languages have the same names, so the language becomes part of the construction's name.
        name = path.stem
        language = file.labels.get("language")
        if language is not None:
            name = f"{language}/{name}"
        elif len(selection.entry.languages) == 1:
            (language,) = selection.entry.languages
        pair_sets.append(PairSet(name, [FilePairs(open_pairs(path), pair_format)], language))
    return pair_sets


def _published_file(name: str) -> FilePairs:
    """Return the pairs of one file of a data set in the catalogue, such as ``tse/ML/simple_agrmt_all.jsonl``."""
    path = catalogue.file_called(name)
    entry = catalogue.catalogue().find(name.partition("/")[0])
    return FilePairs(open_pairs(path), PairFormat.model_validate(entry.reading))


def _parts(source: str, base: Path, pair_format: PairFormat) -> Sequence[FilePairs | GrammarPairs]:
    if not source.strip():
        raise DataError("task.data: the path is empty; give a file, a folder, a pattern, a grammar or a data set")
    if source.startswith(DATA_PREFIX):
        return [_published_file(source.removeprefix(DATA_PREFIX))]
    name, colon, construction = source.rpartition(":")
    grammar_source = _grammar_source(name if colon else source, base)
    if grammar_source is None:
        return [FilePairs(file, pair_format) for file in _files(source, base, pair_format)]
    grammar = load_grammar(grammar_source)
    if colon:
        return [GrammarPairs(grammar, grammar.construction(construction).name)]
    return [GrammarPairs(grammar, member.name) for member in grammar.constructions]


def _grammar_source(name: str, base: Path) -> str | Path | None:
    """Return the path of a grammar file or the name of a shipped grammar; None if ``name`` is neither.

    Every name that ends in .yaml or .yml is taken as a grammar file; if there is no such file, reading it is an error.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name).expanduser()
        for root in (base, Path()):
            if (root / path).is_file():
                return root / path
        return base / path
    # A file or folder in ``base`` takes precedence over a shipped grammar of the same name.
    return name if name in shipped_grammars() and not (base / name).exists() else None


def _files(source: str, base: Path, pair_format: PairFormat) -> list[TextFile]:
    # A .txt file in a folder may be anything, such as a README, so it is read only if the format is given.
    suffixes = SUFFIXES if pair_format.format == "auto" else (*SUFFIXES, ".txt")
    for root in (base, Path()):
        path = root / Path(source).expanduser()
        if path.is_dir():
            files = sorted(file for file in path.iterdir() if format_suffix(file) in suffixes)
            if not files:
                raise DataError(
                    f"task.data: the folder {path} has no file of pairs ({', '.join(suffixes)}); give another folder "
                    "or a pattern; if good and bad sentences alternate in .txt files, as in CLAMS, add columns: "
                    "{format: alternating}"
                )
            return [open_pairs(file.resolve()) for file in files]
        if path.is_file():
            return [open_pairs(path.resolve())]
        matches = sorted(glob.glob(str(path)))  # noqa: PTH207 - Path.glob does not take absolute patterns
        if matches:
            return [open_pairs(Path(match).resolve()) for match in matches]
    if Path(source) == STANDARD_INPUT:
        raise DataError(f"task.data: {NO_STANDARD_INPUT}")
    data_set_name = source.partition("/")[0]
    data_set = catalogue.catalogue().entries.get(data_set_name)
    if data_set is not None and not catalogue.is_local(data_set_name, base):
        # ``data: NAME`` was handled by :func:`constructions`, so here the data set is the source of one construction.
        _, example, _ = next(data_set.files())
        raise DataError(
            f"task.data: {source} is a data set, which cannot be the source of one construction; write task.data: "
            f"{source} without a construction, or name its files, such as data:{data_set.name}/{example}"
        )
    raise DataError(
        f"task.data: there is no file or folder {base / source}; give a file of pairs, a folder, a pattern, a grammar "
        f"({', '.join(shipped_grammars())} or a .yaml file), or a data set that lmassay data lists"
    )
