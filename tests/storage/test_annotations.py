"""Notes and tags on runs are stored with a digest, and kept when stores are merged and repaired."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from lmassay.storage.annotations import annotation_from_text, annotation_text, combined
from lmassay.storage.merging import merge
from lmassay.storage.repair import find_damage, repair_store
from lmassay.storage.store import DAMAGED, STORE_FILE, Store
from lmassay.types import Annotation
from tests.compare_kit import add, rates

ANNOTATION = Annotation("do not cite", ("baseline", "paper"))


@pytest.fixture
def folder(tmp_path):
    results = tmp_path / "results"
    run = add(results, "one", rates([1, 0, 1]))
    with Store(results, create=True) as store:
        store.annotate(run, ANNOTATION)
    return results


def annotation(folder):
    with Store(folder) as store:
        return store.run("latest").annotation


def test_a_note_and_tags_are_read_as_they_were_written(folder):
    assert annotation(folder) == ANNOTATION


def test_an_empty_annotation_leaves_nothing_behind(folder):
    with Store(folder, create=True) as store:
        store.annotate(store.run("latest").id, Annotation())
        assert store.database.execute("SELECT COUNT(*) FROM digests WHERE part = 'annotation'").fetchone() == (0,)


def test_an_annotation_that_was_changed_in_the_file_is_damage(folder):
    with sqlite3.connect(folder / STORE_FILE) as database:
        database.execute(
            "UPDATE digests SET value = replace(value, 'do not cite', 'do cite') WHERE part = 'annotation'"
        )
    with Store(folder) as store:
        record = store.run("latest")
    assert record.status == DAMAGED
    assert record.annotation == Annotation()
    assert [damage.problem for damage in find_damage(folder)] == ["its note or tags are not what lmassay wrote"]


def test_a_repair_removes_a_damaged_annotation_and_keeps_the_results(folder):
    with Store(folder) as store:
        before = store.run("latest")
    with sqlite3.connect(folder / STORE_FILE) as database:
        database.execute("UPDATE digests SET value = replace(value, 'paper', 'paqer') WHERE part = 'annotation'")
    repair_store(folder)
    with Store(folder) as store:
        after = store.run("latest")
    assert (after.status, after.results, after.annotation) == (before.status, before.results, Annotation())


def test_a_repair_keeps_an_undamaged_annotation(folder):
    repair_store(folder)
    assert annotation(folder) == ANNOTATION


def test_an_annotation_of_another_run_is_not_accepted():
    stored = annotation_text("one", ANNOTATION)
    assert annotation_from_text("one", stored) == ANNOTATION
    assert annotation_from_text("two", stored) is None


def test_merging_copies_annotations(folder, tmp_path):
    merge([folder], tmp_path / "merged")
    assert annotation(tmp_path / "merged") == ANNOTATION


def test_merging_keeps_the_notes_and_tags_of_both_copies_once(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    with Store(copy, create=True) as store:
        store.annotate(store.run("latest").id, Annotation("typo in the prompt", ("old", "paper")))
    for _ in range(2):
        merge([folder, copy], tmp_path / "merged")
        assert annotation(tmp_path / "merged") == Annotation(
            "do not cite\ntypo in the prompt", ("baseline", "paper", "old")
        )


def test_a_note_that_contains_the_other_is_kept_alone():
    assert combined(Annotation("a"), Annotation("a b")) == Annotation("a b")
    assert combined(Annotation("a b"), Annotation("")) == Annotation("a b")


def test_a_run_in_progress_can_be_annotated_and_keeps_its_annotation(folder):
    with Store(folder, create=True) as store:
        run = store.run("latest").id
        store.set_status(run, "done")
    assert annotation(folder) == ANNOTATION
