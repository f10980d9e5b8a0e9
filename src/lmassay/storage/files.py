"""Reads text files strictly, and writes files atomically.

Lines end at a line feed, a carriage return or both, as in Python. Trailing white space of a line is removed.
"""

from __future__ import annotations

import atexit
import codecs
import gzip
import hashlib
import io
import os
import shutil
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, TextIO, cast

from lmassay.errors import DataError
from lmassay.storage.file_names import spelled_on_disk

_BLOCK_SIZE = 1 << 20
# The digest of a file is remembered only if its last change is at least this many seconds ago. File systems store times
# in steps of up to two seconds, so two changes in quick succession may have the same time.
_SETTLED_AFTER = 3.0
STANDARD_INPUT = Path("-")
"""The path that stands for standard input if a command expects a text file."""
NO_STANDARD_INPUT = (
    "a configuration cannot read standard input (-), because a run that is resumed needs it again; save the input to a "
    "file"
)
"""The error message if a configuration names ``-`` instead of a file."""
_GZIP_MAGIC = b"\x1f\x8b"
BOM = "\ufeff"
"""The byte-order mark, which some programs write at the beginning of a file."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file that has been checked: it is UTF-8 and has at least one line."""

    path: Path
    lines: int
    """The number of lines."""
    sha256: str
    """The digest of its contents."""
    bom: bool
    """Whether it begins with a byte-order mark."""
    name: str
    """The name of the file in error messages. It differs from the path for a stream, which is read from a copy."""

    def read(self, *, keep_bom: bool = False) -> Iterator[str]:
        """Yield the lines without trailing white space and, unless ``keep_bom`` is set, without the byte-order mark."""
        for number, line in enumerate(_decoded_lines(self.path)):
            text = line.rstrip()
            if number == 0 and self.bom and not keep_bom:
                text = text[1:]
            yield text


def open_text(path: Path, role: str) -> TextFile:
    """Check that a text file exists, is UTF-8 and is not empty. ``role`` names it in error messages.

    Gzip-compressed files are decompressed while they are read. ``-`` is standard input; it and pipes can be read only
    once, so they are copied to a temporary file first.
    """
    path = spelled_on_disk(path)
    require_file(path, role)
    name = "standard input" if path == STANDARD_INPUT else str(path)
    if is_stream(path):
        path = _copied_stream(path)
    record_read(path)
    lines = 0
    has_bom = False
    try:
        for line in _decoded_lines(path):
            if lines == 0:
                has_bom = line.startswith(BOM)
            lines += 1
    except DataError as error:
        raise DataError(str(error).replace(str(path), name)) from None
    if lines == 0:
        described = name if name == "standard input" else f"the {role} file {name}"
        raise DataError(f"{described} is empty; it must have at least one line")
    return TextFile(path, lines, sha256(path), has_bom, name)


def is_stream(path: Path) -> bool:
    """Whether a path can be read only once: standard input (``-``), a pipe, or a character device like a terminal."""
    if path == STANDARD_INPUT:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _copied_stream(path: Path) -> Path:
    """Copy a stream to a temporary file, which is removed when the program ends."""
    handle, name = tempfile.mkstemp(prefix="lmassay-input-")
    copy = Path(name)
    atexit.register(copy.unlink, missing_ok=True)
    with os.fdopen(handle, "wb") as target:
        if path == STANDARD_INPUT:
            shutil.copyfileobj(sys.stdin.buffer, target)
        else:
            with path.open("rb") as source:
                shutil.copyfileobj(source, target)
    return copy


def require_file(path: Path, role: str) -> None:
    """Raise DataError unless ``path`` is a file, or a stream, that can be read."""
    if is_stream(path):
        return
    if path.is_dir():
        raise DataError(f"the {role} file {path} is a folder; give a text file")
    if not path.is_file():
        raise DataError(f"the {role} file {path} does not exist; check the path")
    if not os.access(path, os.R_OK):
        raise DataError(f"the {role} file {path} cannot be read; check its permissions")


_reads: ContextVar[list[Path] | None] = ContextVar("lmassay_reads", default=None)


@contextmanager
def record_reads() -> Iterator[list[Path]]:
    """Yield a list to which each file is added, once, that lmassay reads within the ``with`` block."""
    files: list[Path] = []
    token = _reads.set(files)
    try:
        yield files
    finally:
        _reads.reset(token)


def record_read(path: Path) -> None:
    """Record that a file is read, so that the digest of a plug-in can include its contents."""
    files = _reads.get()
    path = path.absolute()
    if files is not None and path not in files:
        files.append(path)


def data_file(path: Path | str) -> Path:
    """Declare that a plug-in reads a file, and return its absolute path.

    The contents of the file become part of the cache key of answers and of the signature, so that a changed file leads
    to new answers. Call it at the top of the plug-in's module or in ``__init__``, and read the file whenever you like.
    It raises DataError if there is no such file.
    """
    file = Path(path).expanduser().absolute()
    require_file(file, "data")
    record_read(file)
    return file


@dataclass(frozen=True, slots=True)
class ParallelText:
    """Text files with the same number of lines, in which lines with the same number belong together."""

    files: Mapping[str, TextFile]
    """A dict from role, such as ``src``, to file."""

    @property
    def lines(self) -> int:
        """The number of lines of each file."""
        return next(iter(self.files.values())).lines

    def rows(self, *, keep_bom: bool = False) -> Iterator[dict[str, str]]:
        """Yield a dict from role to line for each line number."""
        readers = [file.read(keep_bom=keep_bom) for file in self.files.values()]
        for texts in zip(*readers, strict=True):
            yield dict(zip(self.files, texts, strict=True))

    def columns(self, positions: range, size: int) -> Iterator[dict[str, list[str]]]:
        """Yield the lines at these positions, counted from 0: dicts from role to a list of up to ``size`` lines."""
        readers: dict[str, Iterator[str]] = {}
        for role, file in self.files.items():
            readers[role] = islice(file.read(), positions.start, positions.stop)
        for start in range(positions.start, positions.stop, size):
            stop = min(start + size, positions.stop)
            columns: dict[str, list[str]] = {}
            for role, reader in readers.items():
                columns[role] = list(islice(reader, size))
                if len(columns[role]) < stop - start:
                    raise DataError(f"{self.files[role].name} has changed since it was checked; start again")
            yield columns

    def chunks(self, size: int, *, keep_bom: bool = False) -> Iterator[list[dict[str, str]]]:
        """Yield the rows in lists of up to ``size``."""
        rows = self.rows(keep_bom=keep_bom)
        while True:
            chunk = list(islice(rows, size))
            if not chunk:
                return
            yield chunk


def open_parallel(paths: Mapping[str, Path]) -> ParallelText:
    """Check that several text files can be read and have the same number of lines."""
    # Missing files are reported before the first large file is read.
    for role, path in paths.items():
        require_file(path, role)
    streams = [path for path in paths.values() if is_stream(path)]
    for path in streams:
        if streams.count(path) > 1:
            name = "standard input" if path == STANDARD_INPUT else str(path)
            raise DataError(f"{name} is given more than once, but can be read only once; give files for the others")
    files = {role: open_text(path, role) for role, path in paths.items()}
    (first_role, first), *others = files.items()
    for role, file in others:
        if file.lines == first.lines:
            continue
        long_role, long, short_role, short = first_role, first, role, file
        if long.lines < short.lines:
            long_role, long, short_role, short = short_role, short, long_role, long
        raise DataError(
            f"line {short.lines + 1} of the {long_role} file {long.name} has no counterpart: it has {long.lines} "
            f"lines, but the {short_role} file {short.name} has {short.lines}; they must have the same number"
        )
    return ParallelText(files)


def forbid_overwriting(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path]) -> None:
    """Raise DataError if an output would overwrite an input or another output.

    The keys of ``outputs`` and ``inputs`` are the options with which the user named the files, for the message.
    """
    option_of_file = {path.resolve(): option for option, path in inputs.items()}
    for option, path in outputs.items():
        if path is None:
            continue
        file = path.resolve()
        if file in option_of_file:
            raise DataError(f"{option} {path} would overwrite the file of {option_of_file[file]}; give another file")
        option_of_file[file] = option


def sha256(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal.

    The digest of a file that has not been written recently is computed once per process, because a sweep of 200
    trainings names the same model weights 200 times. A file that was written a moment ago may be written again without
    a change of its time stamps, so its digest is computed each time.
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
        while True:
            block = stream.read(_BLOCK_SIZE)
            if not block:
                return state.hexdigest()
            state.update(block)


def git_blob_id(content: bytes) -> str:
    """Return git's id of the content of a file.

    It is a SHA-1 digest. Here, it only identifies a file and has no security purpose.
    """
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@contextmanager
def atomic_write(path: Path, *, newline: str = "\n") -> Iterator[TextIO]:
    """Open a text file for writing; it gets its name only when it is complete.

    Bytes can be written to the stream's ``buffer``. If the block raises an exception, an existing file stays unchanged.
    A pipe or a device is written to directly. Raises DataError if the file cannot be written.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; give the name of a file to write")
    if path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced, only written to.
        try:
            with path.open("w", encoding="utf-8", errors="backslashreplace", newline=newline) as stream:
                yield stream
        except BrokenPipeError:
            # The program that reads the pipe has ended. This is not a problem with the file, so the error is kept.
            raise
        except OSError as error:
            if _is_about_another_file(error, str(path)):
                raise
            raise DataError(f"cannot write {path}: {error.strerror or error}") from error
        return
    # If the path is a link, the file it points to is replaced, and the link stays.
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        # UTF-8 cannot represent lone surrogates, which a Python string may contain; they are escaped.
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline=newline) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp creates private files; give this one the usual permissions. The umask can only be read by setting it.
        umask = os.umask(0)
        os.umask(umask)
        Path(temporary).chmod(0o666 & ~umask)
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError) and not _is_about_another_file(error, temporary, str(path)):
            raise DataError(f"cannot write {path}: {error.strerror or error}") from error
        raise


def _is_about_another_file(error: OSError, *own: str) -> bool:
    """Return whether the block could not read another file, or lost a connection; the message must not blame this file.

    Errors of writing to an open file have no file name.
    """
    # A timeout of the operating system, such as that of a network drive, has a number; one of a library has none.
    if isinstance(error, ConnectionError) or (isinstance(error, TimeoutError) and error.errno is None):
        return True
    return error.filename is not None and str(error.filename) not in own


@contextmanager
def atomic_write_compressed(path: Path) -> Iterator[TextIO]:
    """Like :func:`atomic_write`, but a file whose name ends in .gz is compressed with gzip.

    Equal texts give equal files, because the time and the name are left out of the gzip header.
    """
    with atomic_write(path) as stream:
        if path.suffix.lower() != ".gz":
            yield stream
            return
        with (
            gzip.GzipFile(filename="", mode="wb", fileobj=stream.buffer, mtime=0) as compressed,
            io.TextIOWrapper(compressed, encoding="utf-8", errors="backslashreplace", newline="\n") as text,
        ):
            yield text


def format_suffix(path: Path) -> str:
    """The file extension of the format in lower case; the .gz of a compressed file is ignored.

    >>> format_suffix(Path("pairs.JSONL.gz"))
    '.jsonl'
    """
    if path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    return path.suffix.lower()


def stem_of(path: Path) -> str:
    """The name of a file without the extension of its format and without .gz.

    >>> stem_of(Path("data/pairs.jsonl.gz")), stem_of(Path("pairs.jsonl"))
    ('pairs', 'pairs')
    """
    if path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    return path.stem


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes; a gzip-compressed file is decompressed."""
    with path.open("rb") as raw:
        is_compressed = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        raw.seek(0)
        if not is_compressed:
            yield raw
            return
        try:
            with gzip.GzipFile(fileobj=raw) as decompressed:
                yield cast("IO[bytes]", decompressed)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path} is a damaged gzip file: {error}; fetch or compress it again") from None


@contextmanager
def open_decoded(path: Path, *, encoding: str = "utf-8", newline: str | None = None) -> Iterator[TextIO]:
    """Open a text file for reading; a gzip-compressed file is decompressed."""
    with open_bytes(path) as stream, io.TextIOWrapper(stream, encoding=encoding, newline=newline) as text:
        yield text


def _decoded_lines(path: Path) -> Iterator[str]:
    try:
        with open_decoded(path) as stream:
            yield from stream
    except UnicodeDecodeError:
        raise DataError(_not_utf8_message(path)) from None


def _detected_encoding(path: Path) -> str:
    """Return a UTF-32 or UTF-16 encoding if a byte-order mark or NUL bytes at the beginning indicate it; else empty."""
    with open_bytes(path) as stream:
        beginning = stream.read(64)
    # UTF-32 is checked first, because its byte-order mark begins with that of UTF-16.
    for encoding, marks in (
        ("utf-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
        ("utf-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
    ):
        if beginning.startswith(marks):
            return encoding
    # Without a byte-order mark, NUL bytes indicate UTF-16: every second byte of Latin letters is NUL.
    if beginning[1:2] == b"\0" and beginning[:1] != b"\0":
        return "utf-16le"
    if beginning[:1] == b"\0" and beginning[1:2] != b"\0":
        return "utf-16be"
    return ""


def _not_utf8_message(path: Path) -> str:
    """Return an error message with the line and column of the first byte that is not UTF-8.

    They are searched for here, because the exception has only the position in its buffer.
    """
    encoding = _detected_encoding(path)
    if encoding:
        return f"{path} is {encoding.upper()}, not UTF-8; convert it: iconv -f {encoding} -t utf-8"
    number = 0
    with open_bytes(path) as stream:
        for raw in stream:
            # Binary mode splits at line feeds only, text mode also at carriage returns.
            unified = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n")
            for line in unified.split(b"\n"):
                number += 1
                try:
                    line.decode("utf-8")
                except UnicodeDecodeError as error:
                    return (
                        f"{path}, line {number}: byte 0x{line[error.start]:02x} at column {error.start + 1} is not "
                        f"UTF-8; convert the file, e.g. iconv -f latin1 -t utf-8"
                    )
    return f"{path} is not UTF-8; convert it, e.g. iconv -f latin1 -t utf-8"
