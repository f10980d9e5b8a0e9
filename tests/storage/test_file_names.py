"""File names: spelled as on the disk, and so that every system accepts them."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmassay.storage.file_names import (
    is_reserved,
    paths_spelled_on_disk,
    run_file,
    safe_name,
    same_file_key,
    spelled_on_disk,
)
from lmassay.storage.files import open_text

COMPOSED = unicodedata.normalize("NFC", "한글 déjà.txt")
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)
RESERVED = ["CON", "con", "NUL", "nul.txt", "AUX.tar.gz", "COM1", "lpt9.csv", "COM²", "CONIN$", "nul .txt", "PRN."]


@pytest.mark.parametrize("name", RESERVED)
def test_names_of_devices_are_changed(name):
    assert is_reserved(name)
    assert not is_reserved(safe_name(name))


@pytest.mark.parametrize("name", ["console", "com10", "nullable.txt", "auxiliary", "a.con"])
def test_other_names_are_not_taken_for_devices(name):
    assert not is_reserved(name)


@given(st.text(st.characters(), max_size=200))
def test_a_safe_name_is_accepted_by_windows_macos_and_linux(text):
    name = safe_name(text)
    assert name
    assert not set(name) & set('<>:"/\\|?*')
    assert name.isprintable() or not name.isascii()
    assert not name.endswith((".", " "))
    assert not is_reserved(name)
    assert len(name.encode("utf-8")) <= 121


def test_names_that_differ_only_in_case_or_normalisation_have_the_same_key():
    assert same_file_key("Straße") == same_file_key("STRASSE")
    assert same_file_key(COMPOSED) == same_file_key(DECOMPOSED)
    assert same_file_key("a") != same_file_key("b")


@pytest.mark.parametrize(("written", "on_disk"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_a_file_is_found_in_another_normalisation(tmp_path, written, on_disk):
    folder = tmp_path / on_disk.removesuffix(".txt") / "ascii"
    folder.mkdir(parents=True)
    (folder / on_disk).write_text("x", encoding="utf-8")
    path = tmp_path / written.removesuffix(".txt") / "ascii" / written
    assert spelled_on_disk(path).read_text(encoding="utf-8") == "x"
    relative = f"{written.removesuffix('.txt')}/ascii/{written}"
    value = {"src": relative, "other": [relative, 3, None], "text": "한글 문장"}
    spelled = paths_spelled_on_disk(value, tmp_path)
    assert Path(spelled["src"]).is_file() or (tmp_path / spelled["src"]).is_file()
    assert spelled["text"] == "한글 문장"


def test_a_text_file_is_read_in_another_normalisation(tmp_path):
    (tmp_path / DECOMPOSED).write_text("one\ntwo\n", encoding="utf-8")
    assert list(open_text(tmp_path / COMPOSED, "input").read()) == ["one", "two"]


def test_a_path_that_is_not_there_stays_as_it_is(tmp_path):
    assert spelled_on_disk(tmp_path / COMPOSED) == tmp_path / COMPOSED
    assert paths_spelled_on_disk("\x00한", tmp_path) == "\x00한"
    assert paths_spelled_on_disk("한" * 5_000, tmp_path) == "한" * 5_000


@pytest.mark.parametrize(
    "ids",
    [
        ("typos", "Typos", "TYPOS"),
        ("straße", "strasse", "STRASSE"),
        (COMPOSED, DECOMPOSED),
        ("../../notes", run_file(Path(), "../../notes").name, "__..__notes"),
        ("Typos", run_file(Path(), "Typos").name, run_file(Path(), "Typos").name.lower()),
    ],
)
def test_no_two_runs_share_a_file_where_case_and_normalisation_do_not_count(ids):
    names = {same_file_key(run_file(Path(), run).name) for run in ids}
    assert len(names) == len(ids)


@given(st.text(max_size=30), st.text(max_size=30))
def test_the_files_of_two_runs_differ_on_every_file_system(one, other):
    same = same_file_key(run_file(Path(), one).name) == same_file_key(run_file(Path(), other).name)
    assert same == (one == other)
