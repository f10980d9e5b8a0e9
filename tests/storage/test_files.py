"""Files are read strictly and written whole."""

import gzip
import io
import os
import re
import sys
import threading
import time
from pathlib import Path

import pytest

from lmassay.errors import DataError
from lmassay.storage import files
from lmassay.storage.files import atomic_write, git_blob_id, open_parallel, open_text
from tests.helpers import write_lines


def lines_of(path: Path, raw: bytes, **options: bool) -> list[str]:
    path.write_bytes(raw)
    return list(open_text(path, "test").read(**options))


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\r", ["a", "b"]),
        (b"\n\n", ["", ""]),
        (b"  a \t\n", ["  a"]),
        ("a\u2028b\n".encode(), ["a\u2028b"]),
        ("a\u00a0\u3000\n".encode(), ["a"]),
        (b"a\x00b\n", ["a\x00b"]),
    ],
)
def test_lines_end_as_python_reads_text_and_lose_trailing_white_space(tmp_path, raw, lines):
    assert lines_of(tmp_path / "f", raw) == lines


def test_a_byte_order_mark_is_dropped_unless_kept(tmp_path):
    assert lines_of(tmp_path / "f", b"\xef\xbb\xbfa\n") == ["a"]
    assert lines_of(tmp_path / "f", b"\xef\xbb\xbfa\n", keep_bom=True) == ["\ufeffa"]


@pytest.mark.parametrize(("raw", "line"), [(b"ok\nna\xefve\n", 2), (b"a\rb\r\xff", 3), (b"a\r\n\xc3\n", 2)])
def test_undecodable_bytes_are_named_with_file_and_line(tmp_path, raw, line):
    with pytest.raises(DataError, match=rf"bad\.txt, line {line}: byte 0x"):
        lines_of(tmp_path / "bad.txt", raw)


def test_a_gzip_file_is_read_as_its_contents(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\ufeffeins\nzwei\n".encode()))
    text = open_text(path, "src")
    assert (text.lines, text.bom, list(text.read())) == (2, True, ["eins", "zwei"])
    path.write_bytes(gzip.compress(b"ok\nna\xefve\n"))
    with pytest.raises(DataError, match=r"text\.txt\.gz, line 2: byte 0xef"):
        open_text(path, "src")


@pytest.mark.parametrize("cut", [3, 12, -9, -1])
def test_a_damaged_gzip_file_is_named(tmp_path, cut):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"hello\n" * 100)[:cut])
    with pytest.raises(DataError, match=r"text\.gz is a damaged gzip file"):
        open_text(path, "src")


def test_a_pipe_is_read_once_and_kept(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n",))
    writer.start()
    text = open_text(pipe, "src")
    writer.join()
    assert (list(text.read()), list(text.read())) == (["a", "b"], ["a", "b"])


def test_standard_input_is_read_where_the_path_is_a_dash(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\ny\n")))
    assert list(open_text(Path("-"), "src").read()) == ["x", "y"]


@pytest.mark.parametrize(("content", "message"), [(b"", "is empty"), (b"ok\n\xe9\n", "line 2: byte 0xe9")])
def test_errors_name_standard_input_and_not_its_copy(monkeypatch, content, message):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(DataError, match=f"^standard input.*{message}"):
        open_text(Path("-"), "src")


def test_standard_input_cannot_be_two_files():
    with pytest.raises(DataError, match="can be read only once"):
        open_parallel({"src": Path("-"), "ref": Path("-")})


@pytest.mark.parametrize(
    ("encoding", "advice"),
    [
        ("utf-16", "is UTF-16, not UTF-8; convert it: iconv -f utf-16 -t utf-8"),
        ("utf-16-le", "iconv -f utf-16le"),
        ("utf-16-be", "iconv -f utf-16be"),
        ("utf-32", "iconv -f utf-32 "),
        ("latin1", "line 1: byte 0xe9 .* iconv -f latin1"),
    ],
)
def test_the_advice_names_the_encoding_of_the_file(tmp_path, encoding, advice):
    path = tmp_path / "src"
    path.write_bytes("Café\n".encode(encoding))
    with pytest.raises(DataError, match=advice):
        open_text(path, "src")


def test_an_empty_a_missing_and_a_folder_are_distinguished(tmp_path):
    (tmp_path / "empty").touch()
    for name, message in (("empty", "is empty"), ("none", "does not exist"), (".", "is a folder")):
        with pytest.raises(DataError, match=message):
            open_text(tmp_path / name, "src")


def test_files_of_different_length_name_the_line_without_a_partner(tmp_path):
    long, short = write_lines(tmp_path / "long", "abc"), write_lines(tmp_path / "short", "ab")
    with pytest.raises(DataError, match=r"line 3 of the src file .*long has no counterpart.*short has 2"):
        open_parallel({"src": long, "adv_src": short})


def test_a_pipe_of_another_length_is_named_as_the_user_gave_it(tmp_path):
    short = write_lines(tmp_path / "short", "ab")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a\nb\nc\n",))
    writer.start()
    with pytest.raises(DataError, match=rf"line 3 of the src file {re.escape(str(pipe))} has no counterpart"):
        open_parallel({"src": pipe, "adv_src": short})
    writer.join()


def test_chunks_hold_all_rows_in_order(tmp_path):
    a, b = write_lines(tmp_path / "a", "12345"), write_lines(tmp_path / "b", "vwxyz")
    chunks = list(open_parallel({"a": a, "b": b}).chunks(2))
    assert [len(chunk) for chunk in chunks] == [2, 2, 1]
    assert [row["a"] + row["b"] for chunk in chunks for row in chunk] == ["1v", "2w", "3x", "4y", "5z"]


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path):
    file = write_lines(tmp_path / "f", ["old"])

    def half_way():
        with atomic_write(file) as stream:
            stream.write("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half_way()
    assert file.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["f"]


def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path):
    real = write_lines(tmp_path / "real", ["old"])
    link = tmp_path / "link"
    link.symlink_to(real)
    with atomic_write(link) as stream:
        stream.write("new\n")
    assert link.is_symlink()
    assert real.read_text() == "new\n"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(tmp_path / "pipe") as stream:
        stream.write("through\n")
    assert os.read(reader, 100) == b"through\n"
    os.close(reader)


def test_a_folder_or_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    with pytest.raises(DataError, match="is a folder"), atomic_write(tmp_path):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot write"), atomic_write(tmp_path / "file" / "inside"):
        pass


def test_an_error_of_reading_another_file_is_not_blamed_on_the_written_one(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "new"):
        (tmp_path / "missing").read_text(encoding="utf-8")
    assert not (tmp_path / "new").exists()


def test_a_file_written_again_at_once_has_another_digest(tmp_path):
    """Its size and its time stamp may be the same."""
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    before, stamp = files.sha256(path), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert files.sha256(path) != before


def test_the_digest_of_an_old_file_is_computed_once(tmp_path, monkeypatch):
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    computed = []
    compute = files._sha256
    monkeypatch.setattr(files, "_sha256", lambda file: (computed.append(file), compute(file))[1])
    monkeypatch.setattr(files, "_SETTLED_AFTER", 0.0)
    digests = {files.sha256(path) for _ in range(5)}
    assert len(digests) == len(computed) == 1
    time.sleep(0.02)  # longer than the clock's step, so that the time stamp shows the change
    path.write_bytes(b"two")
    assert files.sha256(path) not in digests


def test_gits_id_of_a_content():
    # git hash-object of a file with the line hello
    assert git_blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
