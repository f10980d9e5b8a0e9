"""A folder in the cache is absent or complete, whoever writes it and however that ends."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lmassay.errors import UserError
from lmassay.models import cache

NOBODY = 65534


def fill(new: Path) -> None:
    (new / "one.txt").write_text("one", encoding="utf-8")
    cache.write_card(new, {"name": "one"})


def fill_together(folder: Path, barrier, number: int) -> None:
    def write(new: Path) -> None:
        barrier.wait(timeout=300)
        for name in ("a", "b"):
            (new / name).write_text(str(number), encoding="utf-8")

    assert cache.populated(folder, write) == folder


@contextlib.contextmanager
def as_nobody():
    """Root may write anywhere: as root, be somebody else for a while."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_folder_is_filled_once(tmp_path):
    folder = cache.populated(tmp_path / "cache" / "model", fill)
    assert (folder / "one.txt").read_text(encoding="utf-8") == "one"
    assert cache.read_card(folder) == {"name": "one"}

    def again(new: Path) -> None:
        raise AssertionError("filled twice")

    assert cache.populated(folder, again) == folder
    assert os.listdir(folder.parent) == ["model"]


def test_kept_folders_are_found_and_unfinished_ones_are_not(monkeypatch, tmp_path):
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path))
    assert cache.cached_models() == []
    folder = cache.populated(cache.gguf_folder("ab" * 32), fill)
    with cache.temporary_folder(folder.parent) as temporary:
        fill(temporary)
        assert cache.cached_models() == [folder]


def test_a_folder_is_as_readable_as_other_files(tmp_path):
    folder = cache.populated(tmp_path / "model", fill)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain.txt").touch()
    assert folder.stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (folder / "one.txt").stat().st_mode == (tmp_path / "plain.txt").stat().st_mode


def test_a_folder_may_have_subfolders(tmp_path):
    def fill_with_subfolder(new: Path) -> None:
        fill(new)
        (new / "additional_chat_templates").mkdir()
        (new / "additional_chat_templates" / "tools.jinja").write_text("{{ messages }}", encoding="utf-8")

    folder = cache.populated(tmp_path / "model", fill_with_subfolder)
    assert (folder / "additional_chat_templates" / "tools.jinja").is_file()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_what_fails_leaves_nothing(tmp_path, error):
    def fail(new: Path) -> None:
        fill(new)
        raise error

    with pytest.raises(type(error)):
        cache.populated(tmp_path / "cache" / "model", fail)
    assert os.listdir(tmp_path / "cache") == []


def test_a_killed_process_leaves_nothing_that_looks_complete_and_is_tidied_up_after(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom lmassay.models import cache\n"
        "def fill(new):\n    (new / 'half').touch()\n    print('filling', flush=True)\n    sys.stdin.read()\n"
        "cache.populated(Path(sys.argv[1]), fill)"
    )
    folder = tmp_path / "model"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline().strip() == b"filling"
        process.send_signal(signal.SIGKILL)
    assert not folder.exists()
    (left,) = tmp_path.iterdir()

    cache.populated(folder, fill)
    assert left.exists(), "it could be at work still"
    long_ago = time.time() - 7 * 24 * 60 * 60
    os.utime(left, (long_ago, long_ago))
    with cache.temporary_folder(tmp_path):
        assert not left.exists()
    assert os.listdir(tmp_path) == ["model"]


def test_several_processes_at_once_agree_on_one_folder(tmp_path):
    context = multiprocessing.get_context("spawn")
    folder, barrier = tmp_path / "model", context.Barrier(3)
    processes = [context.Process(target=fill_together, args=(folder, barrier, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (folder / "a").read_text(encoding="utf-8") == (folder / "b").read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="this system has no permissions to take away")
def test_a_read_only_cache_is_one_clear_line():
    temporary = Path(tempfile.mkdtemp())
    try:
        temporary.chmod(0o555)
        with as_nobody(), pytest.raises(UserError, match=r"cannot be used: Permission denied; .* set LMASSAY_CACHE"):
            cache.populated(temporary / "gguf" / "model", fill)
        assert os.listdir(temporary) == []
    finally:
        temporary.chmod(0o755)
        shutil.rmtree(temporary)


def test_a_file_in_the_place_of_the_cache_is_one_clear_line(tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(UserError, match=r"the cache folder .* cannot be used"):
        cache.populated(tmp_path / "cache" / "model", fill)


def test_a_card_that_cannot_be_read_is_empty(tmp_path):
    assert cache.read_card(tmp_path) == {}
    (tmp_path / "lmassay.json").write_text("[1]", encoding="utf-8")
    assert cache.read_card(tmp_path) == {}
