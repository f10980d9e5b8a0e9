"""Downloads that break off, lie or do not end: one clear reason each, and nothing half-written."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lmassay.datasets import download
from lmassay.datasets.download import Downloader, MissingFile, UnreachableSource
from lmassay.datasets.entry import DataFile, DataSet, Source
from lmassay.errors import DataError
from tests.datasets.file_server import BOMB, FileServer, Handler, cut_off, file_server
from tests.datasets.small_entry import entry_document, git_blob

CONTENT = bytes(range(256)) * 2000
FILE = DataFile(sha256=hashlib.sha256(CONTENT).hexdigest(), bytes=len(CONTENT))
NAME = "data.bin"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server({f"small/{NAME}": CONTENT}) as running:
        yield running


@pytest.fixture
def source() -> Source:
    return DataSet.model_validate(entry_document()).sources[0]


@pytest.fixture
def fetch(server: FileServer, source: Source, tmp_path: Path) -> Callable[..., Path]:
    def call(file: DataFile = FILE, name: str = NAME) -> Path:
        target = tmp_path / "cache" / name
        Downloader(server.url, timeout=0.5, pause=0.01).fetch(source, name, file, target, lambda _: None)
        return target

    return call


def leftovers(tmp_path: Path) -> list[str]:
    folder = tmp_path / "cache"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_a_file_arrives_whole(fetch):
    assert fetch().read_bytes() == CONTENT


def test_the_progress_counts_bytes(server, source, tmp_path):
    sizes: list[int] = []
    Downloader(server.url).fetch(source, NAME, FILE, tmp_path / NAME, sizes.append)
    assert sizes == sorted(sizes)
    assert sizes[-1] == len(CONTENT)


def test_a_connection_that_breaks_off_is_continued(fetch, server):
    def first_breaks_off(handler: Handler, content: bytes, earlier: int) -> None:
        if earlier == 0:
            cut_off(handler, content, 100_000)
        else:
            handler.serve(content)

    server.behaviour = first_breaks_off
    assert fetch().read_bytes() == CONTENT
    assert server.requests[1][1] == "bytes=100000-"


def test_what_an_interrupted_command_left_is_continued(fetch, server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f".{NAME}.part").write_bytes(CONTENT[:1234])
    assert fetch().read_bytes() == CONTENT
    assert server.requests == [(f"/small/{NAME}", "bytes=1234-")]


def test_a_server_that_ignores_ranges_sends_the_file_again(fetch, server, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f".{NAME}.part").write_bytes(CONTENT[:1234])
    server.behaviour = lambda handler, content, _: handler.reply(200, content)
    assert fetch().read_bytes() == CONTENT


def test_a_part_of_another_file_is_thrown_away(fetch, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f".{NAME}.part").write_bytes(b"x" * 1234)
    with pytest.raises(DataError, match="digest differs"):
        fetch()
    assert leftovers(tmp_path) == []
    assert fetch().read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_thrown_away(fetch, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f".{NAME}.part").write_bytes(CONTENT + b"more")
    assert fetch().read_bytes() == CONTENT


def test_a_file_that_always_breaks_off_is_an_error_after_three_attempts(fetch, server, tmp_path):
    server.behaviour = lambda handler, content, _: cut_off(handler, content, 10)
    with pytest.raises(DataError, match="tried 3 times"):
        fetch()
    assert len(server.requests) == 3
    assert leftovers(tmp_path) == [f".{NAME}.part"]


def test_a_busy_server_is_asked_again(fetch, server):
    def busy_twice(handler: Handler, content: bytes, earlier: int) -> None:
        if earlier < 2:
            handler.reply(503, b"busy")
        else:
            handler.serve(content)

    server.behaviour = busy_twice
    assert fetch().read_bytes() == CONTENT


def test_a_server_that_says_nothing_is_not_waited_for_forever(fetch, server):
    server.behaviour = lambda *_: server.closing.wait(5) and None
    with pytest.raises(DataError, match=r"no data for 0\.5 seconds"):
        fetch()


@pytest.mark.parametrize("status", [401, 403, 418])
def test_a_refusal_is_not_repeated(fetch, server, status):
    server.behaviour = lambda handler, *_: handler.reply(status, b"")
    with pytest.raises(DataError, match=f"HTTP {status}"):
        fetch()
    assert len(server.requests) == 1


def test_a_missing_file_is_reported_as_missing(fetch, tmp_path):
    with pytest.raises(MissingFile, match="does not exist"):
        fetch(name="other.bin")
    assert leftovers(tmp_path) == []


def test_a_redirect_is_not_followed(fetch, server):
    server.behaviour = lambda handler, *_: handler.reply(302, b"", {"Location": "http://127.0.0.1:1/"})
    with pytest.raises(DataError, match="redirects elsewhere"):
        fetch()


def test_an_address_without_tls_is_refused_before_anything_is_sent(source, tmp_path):
    with pytest.raises(
        DataError, match=r"http://mirror\.example/small/data\.bin is not protected by TLS; use an https"
    ):
        Downloader("http://user:password@mirror.example").fetch(source, NAME, FILE, tmp_path / NAME, lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_this_machine_needs_no_tls(fetch, server):
    assert server.url.startswith("http://127.0.0.1:")
    assert fetch().read_bytes() == CONTENT


@pytest.mark.fault(25)
def test_wrong_content_is_not_kept(fetch, server, tmp_path):
    server.behaviour = lambda handler, content, _: handler.reply(200, b"x" * len(content))
    with pytest.raises(DataError, match="is not the published file"):
        fetch()
    assert leftovers(tmp_path) == []


def test_content_that_is_too_long_is_cut_off(fetch, server):
    server.behaviour = lambda handler, content, _: handler.reply(200, content * 5)
    with pytest.raises(DataError, match="is longer than 512,000 bytes"):
        fetch()


def test_a_file_of_unknown_size_ends_somewhere(fetch, monkeypatch):
    monkeypatch.setattr(download, "UNKNOWN_SIZE_LIMIT", 1000)
    with pytest.raises(DataError, match="is longer than 1,000 bytes"):
        fetch(DataFile(git_blob=git_blob(CONTENT)))


def test_compressed_content_is_not_unpacked(fetch, server):
    server.behaviour = lambda handler, *_: handler.reply(200, BOMB, {"Content-Encoding": "gzip"})
    with pytest.raises(DataError, match="sent gzip data"):
        fetch()


def test_a_server_that_is_not_there_is_named(source, tmp_path):
    with pytest.raises(UnreachableSource, match=r"cannot reach 127\.0\.0\.1"):
        Downloader("http://127.0.0.1:9").fetch(source, NAME, FILE, tmp_path / NAME, lambda _: None)


def test_a_password_in_the_address_of_a_mirror_is_not_shown(server, source, tmp_path):
    mirror = server.url.replace("http://", "http://user:hunter2@")
    with pytest.raises(DataError) as caught:
        Downloader(mirror).fetch(source, "other.bin", FILE, tmp_path / NAME, lambda _: None)
    assert "hunter2" not in str(caught.value)


def test_a_full_disk_is_reported_and_leaves_nothing(fetch, monkeypatch, tmp_path):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(download, "_receive", full)
    with pytest.raises(DataError, match="No space left on device; make room"):
        fetch()
    assert leftovers(tmp_path) == []


def test_a_folder_is_a_mirror_too(source, tmp_path):
    mirror = tmp_path / "mirror"
    (mirror / "small").mkdir(parents=True)
    (mirror / "small" / NAME).write_bytes(CONTENT)
    target = tmp_path / "cache" / NAME
    Downloader(str(mirror)).fetch(source, NAME, FILE, target, lambda _: None)
    assert target.read_bytes() == CONTENT
    (mirror / "small" / NAME).write_bytes(b"x" * len(CONTENT))
    with pytest.raises(DataError, match="digest differs"):
        Downloader(str(mirror)).fetch(source, NAME, FILE, target, lambda _: None)
    assert target.read_bytes() == CONTENT


def test_a_mirror_that_cannot_be_read_is_not_reported_as_an_error_of_writing(source, tmp_path, monkeypatch):
    file = tmp_path / "mirror" / "small" / NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    original_open = Path.open

    def refuse(path: Path, *args: str) -> object:
        if path == file:
            raise PermissionError(errno.EACCES, "Permission denied")
        return original_open(path, *args)

    # As administrators, who may read everything, tests could not take the permission away.
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"cannot read .*data\.bin: Permission denied; check LMASSAY_DATA_MIRROR"):
        Downloader(str(tmp_path / "mirror")).fetch(source, NAME, FILE, tmp_path / "cache" / NAME, lambda _: None)
