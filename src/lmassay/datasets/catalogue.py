"""The catalogue of all data sets that can be used by name, and their copies on this machine.

Each data set is an entry, which is a YAML file. An evaluation provides entries in a folder (``Evaluation.datasets``). A
package without an evaluation provides them through the entry-point group ``lmassay.datasets``, whose values name a
folder.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lmassay.datasets.download import Downloader, MissingFile, UnreachableSource
from lmassay.datasets.entry import EXAMPLES, DataFile, DataSet, Labels, Source, read_entry
from lmassay.errors import DataError, LmassayError, NotFetched, PluginError, did_you_mean, error_message
from lmassay.plugins.entry_points import installed_points, package_of
from lmassay.plugins.evaluations import installed_evaluations
from lmassay.storage.cache import cache_folder, require_space
from lmassay.storage.files import record_read, record_reads
from lmassay.storage.locks import exclusive

GROUP = "lmassay.datasets"


# --- the catalogue ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All entries by name, and messages about entries that could not be used."""

    entries: Mapping[str, DataSet]
    origins: Mapping[str, str]
    """A dict from the name of an entry to the package that provides it."""
    problems: Sequence[str]
    """A message about each entry or package that could not be used."""
    unusable: Mapping[str, str] = field(default_factory=dict)
    """A dict from the name of a file, without its extension, to the reason why the entry in it cannot be used."""

    def find(self, name: str) -> DataSet:
        """Return the entry with this name. Raises DataError if there is none or if it has a mistake."""
        if name not in self.entries:
            if name in self.unusable:
                # There is an entry, but it has a mistake, which the message names.
                raise DataError(self.unusable[name])
            raise DataError(f"there is no data set '{name}'{did_you_mean(name, self.entries)} (all: lmassay data)")
        return self.entries[name]


def catalogue() -> Catalogue:
    """Return the data sets of lmassay and of all installed packages."""
    return _catalogue_on(tuple(sys.path))


@functools.cache
def _catalogue_on(_path: tuple[str, ...]) -> Catalogue:
    """Return the catalogue. It is cached by the search path, because another path may have other packages."""
    entries: dict[str, DataSet] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    unusable: dict[str, str] = {}
    for package, folder in _folders(problems):
        for path in sorted(folder.glob("*.yaml")):
            try:
                # The catalogue is read once per process, often while a user's task is created and the files that it
                # reads are recorded. ``record_reads`` keeps the catalogue out of that record: it is not an input of the
                # task, and only the first run of a sweep would have it in its signature.
                with record_reads():
                    entry = read_entry(path)
            except LmassayError as error:
                problem = f"the package {package} has a data set that cannot be used: {error}"
                problems.append(problem)
                unusable[path.stem] = problem
                continue
            if entry.name in entries:
                problems.append(
                    f"the package {package} offers the data set '{entry.name}', which {origins[entry.name]} already "
                    f"offers; the one of {origins[entry.name]} is used"
                )
                continue
            entries[entry.name] = entry
            origins[entry.name] = package
    return Catalogue(dict(sorted(entries.items())), origins, problems, unusable)


def _folders(problems: list[str]) -> list[tuple[str, Path]]:
    """Return pairs of package and folder with entries, lmassay's own first. Adds messages to ``problems``."""
    installed = installed_evaluations()
    folders: list[tuple[str, Path]] = []
    for evaluation in installed.evaluations:
        if evaluation.datasets is not None:
            folders.append((installed.origins[evaluation.name], Path(evaluation.datasets)))
    for point in installed_points(GROUP):
        package = package_of(point)
        try:
            folders.append((package, _folder_of(point)))
        except PluginError as error:
            problems.append(f"the data sets of the package {package} could not be loaded: {error}")
    folders.sort(key=lambda pair: (pair[0] != "lmassay", pair[0]))
    return folders


def _folder_of(point: importlib.metadata.EntryPoint) -> Path:
    try:
        value = point.load()
    except Exception as error:
        raise PluginError(error_message(error)) from error
    if not isinstance(value, str | os.PathLike):
        raise PluginError(f"{point.value} must be the path of a folder, not a {type(value).__name__}")
    return Path(value)


# --- copies on this machine -------------------------------------------------------------------------------------------


def data_folder() -> Path:
    """Return the folder with the copies: ``$LMASSAY_CACHE/data``, or a folder in the user's cache folder."""
    return cache_folder() / "data"


def local_path(source: Source, path: str) -> Path:
    """Return the path of a file's copy on this machine, which may not exist.

    A mirror has the same layout, so a copy of the folder can be used as one.
    """
    return data_folder() / source.folder / path


def missing_files(files: Sequence[tuple[Source, str, DataFile]]) -> list[tuple[Source, str, DataFile]]:
    """Return the subset of these files that are not on this machine."""
    missing = []
    for source, path, file in files:
        if not local_path(source, path).is_file():
            missing.append((source, path, file))
    return missing


@dataclass(frozen=True, slots=True)
class FailedFile:
    """A file that could not be downloaded or verified, and the reason."""

    path: Path
    reason: str
    is_missing: bool = False
    """True if the file does not exist: in the source or, if :func:`verify` reports it, on this machine."""
    was_tried: bool = True
    """False if the server could not be reached for an earlier file, so that this one was not requested."""


Advance = Callable[[int], None]
"""A function that is called with the total number of bytes so far. A file that could not be fetched counts as done."""


def get(entry: DataSet, downloader: Downloader, advance: Advance) -> list[FailedFile]:
    """Fetch all files of a data set that are not on this machine yet; return those that could not be fetched.

    Existing copies are verified, and fetched again if their content is not the pinned one. Raises DataError if the disk
    has too little space for all files.
    """
    failures: list[FailedFile] = []
    done = 0
    unreachable = ""
    with _locked(entry):
        # Files that are not on this machine, and files whose content differs from the pinned one.
        to_fetch = []
        for source, path, file in entry.files():
            target = local_path(source, path)
            if target.is_file() and file.matches(target):
                done += file.bytes or 0
                continue
            to_fetch.append((source, path, file))
        require_space(data_folder(), sum(file.bytes or 0 for _, _, file in to_fetch))
        for source, path, file in to_fetch:
            target = local_path(source, path)
            if unreachable:
                failures.append(FailedFile(target, f"not tried: {unreachable}", was_tried=False))
                continue
            before = done

            def progress(size: int, before: int = before) -> None:
                advance(before + size)

            try:
                downloader.fetch(source, path, file, target, progress)
            except UnreachableSource as error:
                unreachable = str(error)
                failures.append(FailedFile(target, unreachable))
            except DataError as error:
                failures.append(FailedFile(target, str(error), is_missing=isinstance(error, MissingFile)))
            done += file.bytes or 0
            advance(done)
    return failures


def verify(entry: DataSet) -> list[FailedFile]:
    """Return the files of a data set that are not on this machine or do not have the pinned content."""
    failures: list[FailedFile] = []
    for source, path, file in entry.files():
        target = local_path(source, path)
        if not target.is_file():
            failures.append(FailedFile(target, "not fetched", is_missing=True))
        elif not file.matches(target):
            failures.append(FailedFile(target, "its content is not the published one"))
    return failures


def remove(entry: DataSet) -> int:
    """Delete the copies of a data set's files; return the number of bytes that this frees."""
    freed = 0
    with _locked(entry):
        for source, path, _ in entry.files():
            target = local_path(source, path)
            partial = target.with_name(f".{target.name}.part")
            for file in (target, partial):
                if file.is_file():
                    freed += file.stat().st_size
                    file.unlink()
            _remove_empty_folders(target.parent)
    return freed


def _locked(entry: DataSet) -> contextlib.AbstractContextManager[None]:
    lock = data_folder() / ".locks" / f"{entry.name}.lock"
    return exclusive(lock, f"the data set {entry.name}", "make room or set LMASSAY_CACHE to another folder")


def _remove_empty_folders(folder: Path) -> None:
    """Remove a folder of the cache and the folders that contain it, up to the first one that is not empty."""
    root = data_folder()
    while folder != root and root in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            # The folder still has files, or does not exist.
            return
        folder = folder.parent


# --- what tasks use ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Selection:
    """The files that ``name``, ``name/part`` or ``{name: …, label: …}`` in a configuration selects."""

    entry: DataSet
    files: Sequence[tuple[Path, DataFile]]

    @property
    def paths(self) -> list[Path]:
        """The paths of the files on this machine."""
        return [path for path, _ in self.files]


DataSpec = str | Labels
"""What a configuration may write for a data set: ``blimp``, ``blimp/wh_island`` or
``{name: bbq, category: [Age, Religion]}``."""


def select(spec: DataSpec, role: str = EXAMPLES) -> Selection | None:
    """Return the files on this machine that a configuration selects; None if a text is not the name of a data set.

    Raises NotFetched if a file was not fetched, and DataError if it was changed afterwards, both with the command to
    run. Raises DataError, too, if the data set has no such part or label, or if its entry has a mistake.
    """
    entry, labels = _parse(spec)
    if entry is None:
        return None
    chosen = entry.select(labels, role)
    missing = missing_files(chosen)
    if missing:
        command = f"lmassay data get {entry.name}"
        problem = "is not on this machine: it was not fetched"
        if len(missing) < len(chosen):
            verb = "was" if len(missing) == 1 else "were"
            problem = f"is not complete on this machine: {len(missing)} of {len(chosen)} files {verb} not fetched"
        message = f"the data set {entry.name} {problem}; run {command}"
        raise NotFetched(message, command)
    files: list[tuple[Path, DataFile]] = []
    for source, path, file in chosen:
        files.append((_verified(entry, source, path, file), file))
    return Selection(entry, files)


def is_local(source: str, base: Path) -> bool:
    """Return True if there is a file or folder with this name, which takes precedence over a data set with the name.

    It is looked for in the folder ``base`` and in the working folder.
    """
    path = Path(source).expanduser()
    return (base / path).exists() or path.exists()


def label_of(spec: DataSpec) -> str:
    """Return a short name for the data of a configuration, for the labels of runs."""
    if not isinstance(spec, str):
        words: list[str] = []
        for value in spec.values():
            words.append(value if isinstance(value, str) else f"({len(value)} parts)")
        return " ".join(words)
    name, _, part = spec.partition("/")
    if name in catalogue().entries and "/" not in part:
        return spec
    return Path(spec).stem


def file_called(name: str) -> Path:
    """Return the path of a single file of a data set: ``teapot/MT/src.fr`` is ``MT/src.fr`` of the data set teapot."""
    dataset, _, wanted = name.partition("/")
    entry = catalogue().find(dataset)
    for source, path, file in entry.files():
        if path == wanted:
            return _verified(entry, source, path, file)
    paths = [path for _, path, _ in entry.files()]
    raise DataError(f"the data set {dataset} has no file '{wanted}'{did_you_mean(wanted, paths)}")


def _verified(entry: DataSet, source: Source, path: str, file: DataFile) -> Path:
    """Return the copy of a file on this machine, and record that it is read.

    Raises DataError, with the command to run, if it was not fetched or was changed afterwards.
    """
    local = local_path(source, path)
    if not local.is_file():
        raise DataError(f"{path} of the data set {entry.name} was not fetched; run lmassay data get {entry.name}")
    if not file.matches(local):
        raise DataError(f"{local} was changed since it was fetched; run lmassay data get {entry.name}")
    record_read(local)
    return local


def files_to_fetch(spec: DataSpec, role: str = EXAMPLES) -> tuple[int, int]:
    """Return how many files of a configuration are not on this machine, and how many files it selects altogether."""
    entry, labels = _parse(spec)
    if entry is None:
        raise DataError(f"there is no data set '{spec}'; see lmassay data")
    chosen = entry.select(labels, role)
    return len(missing_files(chosen)), len(chosen)


def _parse(spec: DataSpec) -> tuple[DataSet | None, dict[str, str | Sequence[str]]]:
    """Return the entry of a data set and the labels to select by; no entry if a text is not the name of a data set."""
    available = catalogue()
    if isinstance(spec, str):
        name, _, part = spec.partition("/")
        entry = available.entries.get(name)
        if entry is None:
            if name in available.unusable:
                raise DataError(available.unusable[name])
            return None, {}
        if not part:
            return entry, {}
        if entry.part is None:
            raise DataError(f"the data set {name} has no parts; write {name} without '/{part}'")
        return entry, {entry.part: part}
    labels: dict[str, str | Sequence[str]] = {}
    for key, value in spec.items():
        if isinstance(value, list | tuple):
            labels[str(key)] = [str(item) for item in value]
        else:
            labels[str(key)] = str(value)
    dataset_name = labels.pop("name", "")
    if not dataset_name or not isinstance(dataset_name, str):
        raise DataError("a data set needs a 'name', such as {name: …, category: …}")
    return available.find(dataset_name), labels
