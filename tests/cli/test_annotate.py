"""Notes and tags: written by a command, shown wherever a run is shown."""

from __future__ import annotations

import csv
import json

import pytest

from lmassay.storage.store import Store
from lmassay.types import Annotation
from tests.compare_kit import add, rates
from tests.helpers import lmassay

KEY = "SENTINEL0a1b2c3d4e5f6a7b"
RESULTS = [{"metric": "accuracy", "group": "overall", "value": 0.5, "n": 2}]


@pytest.fixture
def folder(tmp_path):
    add(tmp_path, "one", rates([1, 0]), results=RESULTS)
    return tmp_path


def annotated(folder):
    assert lmassay("note", "one", "first line\nsecond line", "--results", folder).returncode == 0
    assert lmassay("tag", "latest", "baseline", "paper", "--results", folder).returncode == 0


def test_show_prints_note_and_tags(folder):
    annotated(folder)
    shown = lmassay("show", "one", "--results", folder).stdout
    assert "tags       baseline paper\nnote       first line\n           second line\n" in shown


def test_the_commands_print_what_is_there_without_changing_it(folder):
    annotated(folder)
    assert lmassay("note", "one", "--results", folder).stdout == "first line\nsecond line\n"
    assert lmassay("tag", "one", "--results", folder).stdout == "baseline paper\n"


def test_json_documents_have_note_and_tags(folder):
    annotated(folder)
    for command in (["ls"], ["show", "one"]):
        (run,) = json.loads(lmassay(*command, "--json", "--results", folder).stdout)["runs"]
        assert (run["note"], run["tags"]) == ("first line\nsecond line", ["baseline", "paper"])


@pytest.mark.parametrize("form", ["html", "md", "tex", "csv"])
def test_every_report_has_note_and_tags(folder, tmp_path, form):
    annotated(folder)
    target = tmp_path / f"r.{form}"
    assert lmassay("report", "one", "-o", target, "--results", folder).returncode == 0
    text = target.read_text(encoding="utf-8")
    if form == "csv":
        (row,) = csv.DictReader(text.splitlines(keepends=True))
        assert (row["tags"], row["note"].split()) == ("baseline paper", ["first", "line", "second", "line"])
    else:
        assert "baseline, paper" in text
        assert "second line" in text


def test_an_export_has_note_and_tags(folder, tmp_path):
    annotated(folder)
    done = lmassay("export", "one", "--format", "every-eval-ever", "-o", tmp_path / "e.json", "--results", folder)
    assert done.returncode == 0, done.stderr
    details = json.loads((tmp_path / "e.json").read_text(encoding="utf-8"))["eval_library"]["additional_details"]
    assert (details["tags"], details["note"]) == ("baseline paper", "first line\nsecond line")


def test_an_empty_text_removes_the_note_and_keeps_the_tags(folder):
    annotated(folder)
    done = lmassay("note", "one", "", "--results", folder)
    assert "note removed from one" in done.stderr
    (run,) = json.loads(lmassay("ls", "--json", "--results", folder).stdout)["runs"]
    assert (run["note"], run["tags"]) == ("", ["baseline", "paper"])


def test_a_tag_is_removed(folder):
    annotated(folder)
    assert lmassay("tag", "one", "paper", "--remove", "--results", folder).stdout == "baseline\n"


def test_removing_a_tag_that_is_not_there_is_an_error(folder):
    annotated(folder)
    done = lmassay("tag", "one", "papr", "--remove", "--results", folder)
    assert done.returncode == 2
    assert "one has no tag 'papr'; did you mean 'paper'?" in done.stderr


def test_a_tag_is_stored_once(folder):
    annotated(folder)
    assert lmassay("tag", "one", "paper", "--results", folder).stdout == "baseline paper\n"


@pytest.mark.parametrize("name", ["two words", "", "a*", "-x"])
def test_a_tag_that_would_need_quotes_is_refused(folder, name):
    done = lmassay("tag", "--results", folder, "--", "one", name)
    assert done.returncode == 2
    assert "cannot be a tag" in done.stderr
    assert "begin with a letter, a digit or _" in done.stderr


def test_terminal_controls_in_a_note_are_not_printed(folder):
    lmassay("note", "one", "red \x1b[31m alert", "--results", folder)
    assert "\x1b" not in lmassay("show", "one", "--results", folder).stdout


@pytest.fixture
def old_folder(folder, monkeypatch):
    """A results folder of a version that stored keys in notes and tags."""
    with monkeypatch.context() as earlier:
        earlier.setattr("lmassay.storage.store.redact", lambda text: text)
        with Store(folder, create=True) as store:
            store.annotate("one", Annotation(f"asked with {KEY}", ("paper", KEY)))
    return folder


@pytest.mark.parametrize(
    "command", [["note", "one"], ["note", "one", "--json"], ["tag", "one"], ["tag", "one", "--json"]]
)
def test_keys_that_an_old_version_stored_are_not_printed(old_folder, command):
    done = lmassay(*command, "--results", old_folder, env={"MY_API_KEY": KEY})
    assert done.returncode == 0
    assert "[redacted]" in done.stdout
    assert KEY not in done.stdout + done.stderr


def test_a_key_that_an_old_version_stored_as_a_tag_can_be_removed(old_folder):
    done = lmassay("tag", "one", KEY, "--remove", "--results", old_folder, env={"MY_API_KEY": KEY})
    assert (done.returncode, done.stdout) == (0, "paper\n")


def test_what_is_written_is_not_taken_from_what_is_shown(old_folder, monkeypatch):
    """What the store blanks when it writes is its own decision; the command passes on the tags as they are."""
    monkeypatch.setattr("lmassay.storage.store.redact", lambda text: text)
    assert lmassay("tag", "one", "more", "--results", old_folder, env={"MY_API_KEY": KEY}).returncode == 0
    with Store(old_folder) as store:
        assert store.run("one").annotation == Annotation(f"asked with {KEY}", ("paper", KEY, "more"))


@pytest.mark.parametrize("command", [["note", "one"], ["tag", "one"], ["ls"], ["show", "one"]])
def test_a_stored_text_that_looks_like_a_key_is_not_printed_even_if_no_key_is_in_use(folder, monkeypatch, command):
    key = "sk-proj-SENTINEL0a1b2c3d"
    with monkeypatch.context() as earlier:
        earlier.setattr("lmassay.storage.store.redact", lambda text: text)
        with Store(folder, create=True) as store:
            store.annotate("one", Annotation(key, (key,)))
    done = lmassay(*command, "--results", folder)
    assert done.returncode == 0
    assert "[redacted]" in done.stdout
    assert "SENTINEL" not in done.stdout
