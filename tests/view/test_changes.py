"""Notes, tags and deleting in the view: the same changes as those of the commands."""

from __future__ import annotations

import pytest

from lmassay.storage.store import Store
from lmassay.types import Annotation
from lmassay.view.changes import annotation_digest
from tests.view.kit import UGLY, Browser, add_run, sample_folder, viewed

FIRST = "20261101-080000-plain-aaaaaa"
SECOND = "20261101-090000-plain-bbbbbb"


@pytest.fixture
def browser(tmp_path):
    with viewed(sample_folder(tmp_path)) as opened:
        yield opened


def annotation_of(browser: Browser, run: str) -> Annotation:
    with Store(browser.server.folder) as store:
        return store.run(run).annotation


def annotate(browser: Browser, seen: Annotation, **form: str):
    return browser.post(f"/runs/{FIRST}/annotation", {"seen": annotation_digest(seen), **form})


def test_a_note_and_tags_are_saved_and_shown_once_as_done(browser):
    answer = annotate(browser, Annotation(), note=f"first line\r\n{UGLY}", tags="baseline, paper")
    assert answer.status_code == 303
    saved = annotation_of(browser, FIRST)
    assert saved.tags == ("baseline", "paper")
    assert saved.note.startswith("first line\n<script>")
    target = answer.headers["location"]
    assert "The note and the tags have been saved." in browser.page(target)
    assert "The note and the tags have been saved." not in browser.page(target)
    assert 'href="/?tag=baseline"' in browser.page("/")


def test_a_change_made_elsewhere_meanwhile_is_not_overwritten(browser):
    with Store(browser.server.folder, create=True) as store:
        store.annotate(FIRST, Annotation("from the terminal", ("kept",)))
    answer = annotate(browser, Annotation(), note="from the browser", tags="")
    assert answer.status_code == 409
    assert "from the terminal" in answer.text
    assert "from the browser</textarea>" in answer.text
    assert annotation_of(browser, FIRST).note == "from the terminal"
    answer = annotate(browser, Annotation("from the terminal", ("kept",)), note="from the browser", tags="kept")
    assert answer.status_code == 303
    assert annotation_of(browser, FIRST) == Annotation("from the browser", ("kept",))


@pytest.mark.parametrize(
    ("form", "message"),
    [({"tags": "<b>"}, "cannot be a tag"), ({"note": "x" * 10_001}, "write at most 10,000")],
    ids=["tag", "note"],
)
def test_what_cannot_be_saved_comes_back_with_the_reason(browser, form, message):
    answer = annotate(browser, Annotation(), **form)
    assert answer.status_code == 400
    assert message in answer.text
    assert annotation_of(browser, FIRST) == Annotation()


def test_several_runs_are_tagged_at_once(browser):
    assert "Tag 2 runs" in browser.page(f"/tag?run={FIRST}&run={SECOND}")
    assert browser.post("/tag", {"run": [FIRST, SECOND], "tags": "paper v2", "action": "add"}).status_code == 303
    assert browser.post("/tag", {"run": [FIRST], "tags": "paper", "action": "remove"}).status_code == 303
    assert annotation_of(browser, FIRST).tags == ("v2",)
    assert annotation_of(browser, SECOND).tags == ("paper", "v2")
    answer = browser.post("/tag", {"run": [FIRST], "tags": " "})
    assert answer.status_code == 400
    assert "write at least one tag" in answer.text


def test_deleting_asks_first_and_then_removes_the_run(browser):
    page = browser.page(f"/delete?run={FIRST}&run={SECOND}")
    assert "Delete 2 runs?" in page
    assert "cannot be undone" in page
    answer = browser.post("/delete", {"run": [FIRST, SECOND]})
    assert "Removed 2 runs" in browser.page(answer.headers["location"])
    with Store(browser.server.folder) as store:
        assert [record.id[-6:] for record in store.runs()] == ["cccccc"]


def test_cached_answers_are_deleted_only_if_the_user_says_so(browser):
    ugly = "20261101-100000-ugly-cccccc"
    answer = browser.post("/delete", {"run": ugly})
    assert "1 cached answer that no other run uses is kept" in browser.page(answer.headers["location"])
    with Store(browser.server.folder) as store:
        assert store.cached_keys(["key"]) == {"key"}


def test_a_run_in_progress_cannot_be_deleted(browser):
    with Store(browser.server.folder, create=True) as store, store.lock("r9"):
        add_run(store, "r9", status="running")
        assert "in progress and cannot be deleted" in browser.page("/delete?run=r9")
        answer = browser.post("/delete", {"run": "r9"})
        assert answer.status_code == 503
        assert "in progress; stop it first" in answer.text
        assert len(store.runs()) == 4


def test_deleting_a_run_that_is_gone_says_so(browser):
    assert browser.post("/delete", {"run": "gone"}).status_code == 404
    assert browser.post("/delete", {}).status_code == 400
    assert browser.get("/delete").status_code == 400
    assert browser.get("/delete?run=gone").status_code == 404


def test_a_folder_that_was_deleted_is_not_created_again(browser):
    folder = browser.server.folder
    for file in sorted(folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    folder.rmdir()
    for path in ("/delete", "/tag", f"/runs/{FIRST}/annotation"):
        assert browser.post(path, {"run": FIRST, "tags": "x"}).status_code == 503
    assert not folder.exists()


def test_tags_without_a_run_are_refused(browser):
    answer = browser.post("/tag", {"tags": "paper"})
    assert answer.status_code == 400
    assert "No run is selected." in answer.text
