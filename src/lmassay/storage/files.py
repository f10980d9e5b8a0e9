"""Reading text files strictly, writing them whole or not at all.

Lines end at a line feed, a carriage return or both (as Python reads text), and lose their trailing white space.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TextIO

from lmassay.errors import DataError

_BLOCK = 1 << 20
# Seconds; file systems store times in steps of up to two seconds.
_SETTLED_AFTER = 3.0
BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file that was read through once: it is UTF-8 and has this many lines."""

    path: Path
    lines: int
    sha256: str
    bom: bool

    def read(self, *, keep_bom: bool = False) -> Iterator[str]:
        """Its lines without trailing white space; a byte-order mark is dropped unless asked for."""
        for number, line in enumerate(_decoded(self.path)):
            text = line.rstrip()
            yield text[1:] if number == 0 and self.bom and not keep_bom else text


def open_text(path: Path, role: str) -> TextFile:
    """Check a text file: it exists, is UTF-8 and is not empty. ``role`` names it in error messages."""
    require_file(path, role)
    record_read(path)
    lines, bom = 0, False
    for number, line in enumerate(_decoded(path)):
        lines = number + 1
        bom = bom or (number == 0 and line.startswith(BOM))
    if lines == 0:
        raise DataError(f"the {role} file {path} is empty; it must have at least one line")
    return TextFile(path, lines, sha256(path), bom)


def require_file(path: Path, role: str) -> None:
    """Raise unless ``path`` is a file that can be read."""
    if path.is_dir():
        raise DataError(f"the {role} file {path} is a folder; give a text file")
    if not path.is_file():
        raise DataError(f"the {role} file {path} does not exist; check the path")
    if not os.access(path, os.R_OK):
        raise DataError(f"the {role} file {path} cannot be read; check its permissions")


_reads: ContextVar[list[Path] | None] = ContextVar("lmassay_reads", default=None)


@contextmanager
def record_reads() -> Iterator[list[Path]]:
    """The files that are read through lmassay within this block, each once, in the order of reading."""
    files: list[Path] = []
    token = _reads.set(files)
    try:
        yield files
    finally:
        _reads.reset(token)


def record_read(path: Path) -> None:
    """Say that a file is read: what a plug-in computes depends on it."""
    files = _reads.get()
    path = path.absolute()
    if files is not None and path not in files:
        files.append(path)


def data_file(path: Path | str) -> Path:
    """A file that a plug-in reads: what it contains becomes part of the key of stored answers and of the signature.

    Call it at the top of the plug-in's file or in ``__init__``, and read the file whenever you like. It raises a
    DataError if there is no such file.
    """
    file = Path(path).expanduser().absolute()
    require_file(file, "data")
    record_read(file)
    return file


@dataclass(frozen=True, slots=True)
class ParallelText:
    """Files whose lines belong together, by role."""

    files: Mapping[str, TextFile]

    @property
    def lines(self) -> int:
        return next(iter(self.files.values())).lines

    def rows(self, *, keep_bom: bool = False) -> Iterator[dict[str, str]]:
        """One mapping role → line for each line number."""
        readers = [file.read(keep_bom=keep_bom) for file in self.files.values()]
        for texts in zip(*readers, strict=True):
            yield dict(zip(self.files, texts, strict=True))

    def chunks(self, size: int, *, keep_bom: bool = False) -> Iterator[list[dict[str, str]]]:
        rows = self.rows(keep_bom=keep_bom)
        while chunk := list(islice(rows, size)):
            yield chunk


def open_parallel(paths: Mapping[str, Path]) -> ParallelText:
    """Check several text files and that they have the same number of lines."""
    for role, path in paths.items():
        require_file(path, role)
    files = {role: open_text(path, role) for role, path in paths.items()}
    (first_role, first), *others = files.items()
    for role, file in others:
        if file.lines != first.lines:
            (long_role, long), (short_role, short) = sorted(
                [(first_role, first), (role, file)], key=lambda pair: -pair[1].lines
            )
            raise DataError(
                f"line {short.lines + 1} of the {long_role} file {long.path} has no partner: it has {long.lines} "
                f"lines, but the {short_role} file {short.path} has {short.lines}; they must have as many"
            )
    return ParallelText(files)


def forbid_overwriting(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path]) -> None:
    """Raise if a file is to be written that is also read, or that another output is written to; keyed by option."""
    seen = {path.resolve(): option for option, path in inputs.items()}
    for option, path in outputs.items():
        if path is None:
            continue
        if path.resolve() in seen:
            raise DataError(f"{option} {path} would overwrite the file of {seen[path.resolve()]}; give another file")
        seen[path.resolve()] = option


def sha256(path: Path) -> str:
    """Hex digest of a file.

    The digest of a file that has not been written for a while is computed once per process: a sweep of 200 trainings
    names the same model weights 200 times. A file that was written a moment ago may be written again without its time
    stamps showing it, so its digest is never remembered.
    """
    status = path.stat()
    last_change = max(status.st_mtime, status.st_ctime)
    if time.time() - last_change < _SETTLED_AFTER:
        return _sha256(path)
    identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _remembered_sha256(path, identity)


@lru_cache(maxsize=1024)
def _remembered_sha256(path: Path, identity: tuple[int, ...]) -> str:
    return _sha256(path)


def _sha256(path: Path) -> str:
    state = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            state.update(block)
    return state.hexdigest()


@contextmanager
def atomic_write(path: Path, *, newline: str = "\n") -> Iterator[TextIO]:
    """Write a text file that appears whole or not at all; bytes go to its ``buffer``."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the name of a file to write")
    if path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced, only written to.
        try:
            with path.open("w", encoding="utf-8", errors="backslashreplace", newline=newline) as stream:
                yield stream
        except BrokenPipeError:
            raise
        except OSError as error:
            raise DataError(f"cannot write {path}: {error.strerror or error}") from error
        return
    # A link stays a link: what it points to is written.
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        # Lone surrogates can stand in a Python string but not in UTF-8; they are written escaped.
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline=newline) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise DataError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def _decoded(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as stream:
            yield from stream
    except UnicodeDecodeError:
        raise DataError(_undecodable(path)) from None


def _undecodable(path: Path) -> str:
    # The exception speaks of a buffer, not of the file: find the line again from the raw bytes.
    number = 0
    with path.open("rb") as stream:
        for raw in stream:
            for part in raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n").split(b"\n"):
                number += 1
                try:
                    part.decode("utf-8")
                except UnicodeDecodeError as error:
                    return (
                        f"{path}, line {number}: byte 0x{part[error.start]:02x} at column {error.start + 1} is not "
                        f"UTF-8; convert the file, e.g. iconv -f latin1 -t utf-8"
                    )
    return f"{path} is not UTF-8; convert it, e.g. iconv -f latin1 -t utf-8"
