"""Downloads one file of a data set from its repository, or copies it from a mirror.

A file gets its name only after its content was verified. If a download is interrupted, the part that has arrived is
kept in a hidden file in the same folder, and the next attempt continues from there.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlsplit

import httpx2

import lmassay
from lmassay.addresses import is_loopback
from lmassay.datasets.entry import DataFile, Source
from lmassay.errors import DataError
from lmassay.redaction import redact

MIRROR_VARIABLE = "LMASSAY_DATA_MIRROR"
ATTEMPTS = 3
# The largest allowed size, in bytes, of a file whose entry does not name its size, so that a server cannot send data
# forever. The largest published file has 20 MB.
UNKNOWN_SIZE_LIMIT = 512 << 20
_BLOCK = 1 << 16
_PARTIAL_CONTENT = 206
_RANGE_NOT_SATISFIABLE = 416
_NOT_FOUND = (404, 410)
# The status codes of a server that is busy or restarting, so that the next attempt may succeed.
_TEMPORARY = (408, 425, 429, 500, 502, 503, 504)

Progress = Callable[[int], None]
"""A function that is called with the number of bytes that the file has so far."""


class MissingFile(DataError):  # noqa: N818 - reads as what it is
    """The repository or the mirror does not have the file."""


class UnreachableSource(DataError):  # noqa: N818 - reads as what it is
    """The server cannot be reached, so requests for further files would fail, too."""


class _TemporaryError(Exception):
    """This attempt failed; another one may succeed."""


@dataclass(frozen=True, slots=True)
class Downloader:
    """Fetches files from a mirror if one is configured, otherwise from the repositories of the entries."""

    mirror: str | None = None
    """A folder or an address with the layout of the cache: ``FOLDER/PATH`` of every file."""
    timeout: float = 30.0
    """The number of seconds to wait for the next bytes."""
    pause: float = 1.0
    """The number of seconds to wait before the second attempt. The waiting time before later attempts is longer."""

    @classmethod
    def configured(cls) -> Downloader:
        """Return the downloader that the environment variables configure."""
        mirror = os.environ.get(MIRROR_VARIABLE, "").strip() or None
        if mirror is not None and not _is_address(mirror) and not Path(mirror).expanduser().is_dir():
            raise DataError(f"{MIRROR_VARIABLE}: there is no folder {mirror}; give a folder or an https address")
        return cls(mirror)

    def origin(self, source: Source, path: str) -> str:
        """Return where a file comes from: an address, or a path on this machine."""
        if self.mirror is None:
            return source.address_of(path)
        if _is_address(self.mirror):
            return f"{self.mirror.rstrip('/')}/{quote(source.folder)}/{quote(path)}"
        return str(Path(self.mirror).expanduser() / source.folder / path)

    def fetch(self, source: Source, path: str, file: DataFile, target: Path, progress: Progress) -> None:
        """Write the file to ``target``. Raises DataError if that fails or if its content is not the pinned one."""
        origin = self.origin(source, path)
        partial = target.with_name(f".{target.name}.part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if _is_address(origin):
                _require_tls(origin)
                self._download(origin, file, partial, progress)
            else:
                _copy(Path(origin), file, partial, progress)
            _verify(origin, file, partial)
            with partial.open("rb") as stream:
                # The content must be on the disk before the file is renamed, in case the machine crashes in between.
                os.fsync(stream.fileno())
            partial.replace(target)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                partial.unlink(missing_ok=True)
            raise DataError(
                f"cannot write {target}: {error.strerror or error}; make room or set LMASSAY_CACHE to another folder"
            ) from error

    def _download(self, url: str, file: DataFile, partial: Path, progress: Progress) -> None:
        """Download a file to ``partial``, in several attempts if necessary."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._download_once(url, file, partial, progress)
                return
            except _TemporaryError as failure:
                if attempt == ATTEMPTS:
                    raise DataError(
                        f"{_public(url)}: {failure}; tried {ATTEMPTS} times, run the command again"
                    ) from None
                time.sleep(self.pause * attempt)

    def _download_once(self, url: str, file: DataFile, partial: Path, progress: Progress) -> None:
        """Request the bytes that ``partial`` lacks. Raises _TemporaryError if another attempt may succeed."""
        start = partial.stat().st_size if partial.is_file() else 0
        if start and start == file.bytes:
            return
        headers = {
            "User-Agent": f"lmassay/{lmassay.__version__}",
            # No compression: compressed content could expand without limit, and its length does not show its real size.
            "Accept-Encoding": "identity",
        }
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with (
                httpx2.Client(timeout=self.timeout) as client,
                client.stream("GET", url, headers=headers) as response,
            ):
                if response.status_code == _RANGE_NOT_SATISFIABLE:
                    partial.unlink()
                    raise _TemporaryError("the part that was downloaded earlier does not fit the file")
                _check_status(response, url)
                # If the server ignores the requested range, it sends the whole file, which replaces the part.
                continues = response.status_code == _PARTIAL_CONTENT and start > 0
                with partial.open("ab" if continues else "wb") as stream:
                    _receive(response, stream, file, progress)
        except httpx2.ConnectError as error:
            raise UnreachableSource(
                f"cannot reach {_host(url)}: {redact(str(error))}; check the network and the proxy variables"
            ) from error
        except httpx2.TimeoutException:
            raise _TemporaryError(f"no data for {self.timeout:g} seconds") from None
        except httpx2.TransportError as error:
            raise _TemporaryError(f"the connection broke off ({redact(str(error))})") from error
        received = partial.stat().st_size
        if file.bytes is not None and received < file.bytes:
            raise _TemporaryError(f"only {received:,} of {file.bytes:,} bytes arrived")


def _is_address(text: str) -> bool:
    return urlsplit(text).scheme in ("http", "https")


def _require_tls(url: str) -> None:
    """Raise DataError for an address without TLS: others could read its password and see what is downloaded."""
    if urlsplit(url).scheme == "http" and not is_loopback(url):
        raise DataError(
            f"{MIRROR_VARIABLE}: {_public(url)} is not protected by TLS; use an https address or a copy in a folder"
        )


def _host(url: str) -> str:
    return urlsplit(url).hostname or url


def _public(url: str) -> str:
    """Return an address for messages, without the user name and password that the address of a mirror may have."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.port is not None:
        host += f":{parts.port}"
    return redact(f"{parts.scheme}://{host}{parts.path}")


def _check_status(response: httpx2.Response, url: str) -> None:
    """Raise an error unless the server sends the file; a _TemporaryError if another attempt may succeed."""
    status = response.status_code
    if status in _NOT_FOUND:
        raise MissingFile(f"{_public(url)} does not exist (HTTP {status})")
    if status in _TEMPORARY:
        raise _TemporaryError(f"the server answered HTTP {status}")
    if response.is_redirect:
        # Redirects are not followed, because they could lead to an address without TLS or to another host.
        raise DataError(f"{_public(url)} redirects elsewhere, which is not followed; set {MIRROR_VARIABLE} instead")
    if not response.is_success:
        raise DataError(f"{_public(url)}: the server answered HTTP {status}")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise DataError(f"{_public(url)}: the server sent {encoding} data although plain data was requested")


def _receive(response: httpx2.Response, stream: BinaryIO, file: DataFile, progress: Progress) -> None:
    """Write what the server sends to ``stream``. Raises DataError if this is longer than the published file."""
    limit = UNKNOWN_SIZE_LIMIT if file.bytes is None else file.bytes
    for block in response.iter_raw():
        stream.write(block)
        size = stream.tell()
        if size > limit:
            stream.truncate(0)
            raise DataError(
                f"{_public(str(response.url))} is longer than {limit:,} bytes, so it is not the published file"
            )
        progress(size)


def _copy(origin: Path, file: DataFile, partial: Path, progress: Progress) -> None:
    """Copy a file from a mirror that is a folder on this machine."""
    limit = UNKNOWN_SIZE_LIMIT if file.bytes is None else file.bytes
    try:
        if not origin.is_file():
            raise MissingFile(f"{origin} does not exist in the mirror")
        if origin.stat().st_size > limit:
            raise DataError(f"{origin} is longer than {limit:,} bytes, so it is not the published file")
        stream = origin.open("rb")
    except OSError as error:
        # Not handled together with errors of writing, for which the advice is to use another cache folder.
        raise DataError(f"cannot read {origin}: {error.strerror or error}; check {MIRROR_VARIABLE}") from error
    with stream, partial.open("wb") as copy:
        while block := stream.read(_BLOCK):
            copy.write(block)
            progress(copy.tell())


def _verify(origin: str, file: DataFile, partial: Path) -> None:
    if file.matches(partial):
        return
    partial.unlink()
    source = _public(origin) if _is_address(origin) else origin
    raise DataError(f"{source} is not the published file: its digest differs from the pinned one; nothing was kept")
