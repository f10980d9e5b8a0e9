"""Results folders of several machines become one."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from lmassay import evaluate
from lmassay import task as evaluation_task
from lmassay.storage.store import STORE_FILE, Store
from tests.compare_kit import set_created
from tests.helpers import lmassay, write_config, write_lines

OLD_STORE = Path(__file__).parent / "old_store" / f"{STORE_FILE}.gz"


def run(folder: Path, name: str, attack: str = "charswap") -> Path:
    """A results folder with one run of an attack."""
    write_lines(folder / "src.txt", ["the cat sat on the mat", "a dog ran home", "birds sing in spring"])
    task = {"name": "robustness", "src": "src.txt", "attack": {"name": attack, "rate": 1}}
    write_config(folder / "c.yaml", {"task": task, "model": "echo"})
    results = folder / name
    done = lmassay("run", "c.yaml", "--results", results, cwd=folder)
    assert done.returncode == 0, done.stderr
    return results


def numbers(results: Path) -> dict[str, object]:
    document = json.loads(lmassay("ls", "--results", results, "--json").stdout)
    return {record["run"]: record["results"] for record in document["runs"]}


@pytest.fixture
def two(tmp_path):
    return run(tmp_path, "one"), run(tmp_path, "two", "homoglyph")


def test_runs_of_both_folders_are_in_the_new_one_with_the_same_numbers(two, tmp_path):
    first, second = two
    done = lmassay("merge", first, second, "-o", tmp_path / "both")
    assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "both") == numbers(first) | numbers(second)


def test_runs_keep_their_examples_and_answers(two, tmp_path):
    first, second = two
    lmassay("merge", first, second, "-o", tmp_path / "both")
    for results in two:
        (name,) = numbers(results)
        exported = lmassay("export", name, "--results", results).stdout
        assert exported.count("\n") == 3
        assert lmassay("export", name, "--results", tmp_path / "both").stdout == exported
        with Store(results) as store, Store(tmp_path / "both") as merged:
            assert list(merged.requests_and_responses(name)) == list(store.requests_and_responses(name))


def test_merging_again_changes_nothing(two, tmp_path):
    first, second = two
    lmassay("merge", first, second, "-o", tmp_path / "both")
    before = numbers(tmp_path / "both")
    again = json.loads(lmassay("merge", second, first, "-o", tmp_path / "both", "--json").stdout)
    assert [len(folder["already_there"]) for folder in again["folders"]] == [1, 1]
    assert [folder["copied"] for folder in again["folders"]] == [[], []]
    assert numbers(tmp_path / "both") == before


def test_the_latest_run_is_the_one_that_was_created_last(two, tmp_path):
    first, second = two
    set_created(first, next(iter(numbers(first))), "2020-01-01T00:00:00+00:00")
    lmassay("merge", second, first, "-o", tmp_path / "both")
    with Store(tmp_path / "both") as store:
        assert store.run("latest").id == next(iter(numbers(second)))


def test_a_complete_copy_of_a_run_replaces_an_unfinished_one(two, tmp_path):
    first, _ = two
    unfinished = shutil.copytree(first, tmp_path / "unfinished")
    with sqlite3.connect(unfinished / STORE_FILE) as database:
        database.execute("DELETE FROM rows WHERE position = 2")
        database.execute("DELETE FROM digests WHERE part IN ('results', 'rows')")
        database.execute("UPDATE runs SET results = '[]'")
    with Store(unfinished, create=True) as store:
        store.set_status(store.run("latest").id, "running")
    done = lmassay("merge", unfinished, first, "-o", tmp_path / "both", "--json")
    assert done.returncode == 1
    (conflict,) = json.loads(done.stdout)["folders"][1]["conflicts"]
    assert f"the copy in {first} is kept" in conflict
    assert numbers(tmp_path / "both") == numbers(first)


def test_of_two_unfinished_copies_the_one_with_more_examples_is_kept(two, tmp_path):
    first, _ = two
    copies = []
    for examples in (1, 2):
        copy = shutil.copytree(first, tmp_path / f"with-{examples}")
        with sqlite3.connect(copy / STORE_FILE) as database:
            database.execute("DELETE FROM rows WHERE position >= ?", (examples,))
            database.execute("DELETE FROM digests WHERE part IN ('results', 'rows')")
            database.execute("UPDATE runs SET results = '[]'")
        with Store(copy, create=True) as store:
            store.set_status(store.run("latest").id, "running")
        copies.append(copy)
    for order, target in ((copies, "both"), (copies[::-1], "reversed")):
        done = lmassay("merge", *order, "-o", tmp_path / target)
        assert done.returncode == 1
        with Store(tmp_path / target) as store:
            assert store.count(store.run("latest").id)["scored"] == 2


def test_two_complete_copies_that_differ_are_a_conflict_and_the_first_is_kept(two, tmp_path):
    first, _ = two
    other = shutil.copytree(first, tmp_path / "other")
    with Store(other, create=True) as store:
        record = store.run("latest")
        store.set_results(record.id, record.results[:1])
    done = lmassay("merge", first, other, "-o", tmp_path / "both")
    assert done.returncode == 1
    assert "warning: conflict: " in done.stderr
    assert numbers(tmp_path / "both") == numbers(first)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rows SET scores = '{}' WHERE position = 0",
        "UPDATE responses SET response = replace(response, 't', 'x')",
        "UPDATE responses SET request = request || ' '",
        "UPDATE responses SET digest = 'x'",
    ],
)
def test_an_intact_copy_replaces_a_damaged_one_with_as_many_examples(tmp_path, damage):
    target = run(tmp_path, "one")
    intact = shutil.copytree(target, tmp_path / "intact")
    with sqlite3.connect(target / STORE_FILE) as database:
        database.execute(damage)
    done = lmassay("merge", intact, "-o", target)
    assert done.returncode == 1
    assert f"differs from the copy that was there before (damaged); the copy in {intact} is kept" in done.stderr
    with Store(target) as merged, Store(intact) as original:
        record = merged.run("latest")
        assert merged.with_damage(record).status == "done"
        assert list(merged.rows(record.id)) == list(original.rows(record.id))
        expected = list(original.requests_and_responses(record.id))
        assert list(merged.requests_and_responses(record.id)) == expected


def test_different_answers_to_one_request_stay_with_their_runs(tmp_path):
    first, second = run(tmp_path, "one"), run(tmp_path, "two")
    with Store(second, create=True) as store:
        (name,) = (record.id for record in store.runs())
        with sqlite3.connect(second / STORE_FILE) as database:
            rows = database.execute("SELECT key, model, request, response FROM responses").fetchall()
        for key, model, request, response in rows:
            changed = store.cached([key])[key]
            store.add_response(key, name, model, json.loads(request), type(changed)(f"{changed.text}!"))
            assert response
        expected = list(store.requests_and_responses(name))
    merged_both = lmassay("merge", first, second, "-o", tmp_path / "both", "--json")
    document = json.loads(merged_both.stdout)
    assert document["folders"][1]["different_answers"] == len(rows)
    assert document["folders"][1]["damaged_answers"] is False
    assert f"another folder has a different answer to {len(rows)} requests" in merged_both.stderr
    with Store(tmp_path / "both") as merged, Store(first) as original:
        assert list(merged.requests_and_responses(name)) == expected
        (other,) = (record.id for record in original.runs())
        assert list(merged.requests_and_responses(other)) == list(original.requests_and_responses(other))


def test_a_damaged_run_that_is_resumed_uses_its_own_answers_and_not_those_of_another_folder(tmp_path):
    first, second = run(tmp_path, "one"), run(tmp_path, "two")
    with Store(second, create=True) as store:
        (name,) = (record.id for record in store.runs())
        with sqlite3.connect(second / STORE_FILE) as database:
            rows = database.execute("SELECT key, model, request FROM responses").fetchall()
        for key, model, request in rows:
            own_answer = store.cached([key])[key]
            store.add_response(key, name, model, json.loads(request), type(own_answer)(f"{own_answer.text}!"))
        expected = list(store.requests_and_responses(name))
    lmassay("merge", first, second, "-o", tmp_path / "both")
    with sqlite3.connect(tmp_path / "both" / STORE_FILE) as database:
        database.execute("UPDATE rows SET scores = '{}' WHERE run = ?", (name,))
    done = lmassay("resume", name, "--results", tmp_path / "both", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with Store(tmp_path / "both") as merged:
        assert list(merged.requests_and_responses(name)) == expected
        outputs = [row.score.details["out"] for row in merged.rows(name)]
    assert outputs
    assert all(output.endswith("!") for output in outputs)


def test_a_store_of_an_earlier_version_is_merged_and_not_changed(two, tmp_path):
    first, _ = two
    old = tmp_path / "old"
    old.mkdir()
    (old / STORE_FILE).write_bytes(gzip.decompress(OLD_STORE.read_bytes()))
    content = (old / STORE_FILE).read_bytes()
    done = lmassay("merge", old, first, "-o", tmp_path / "both")
    assert done.returncode == 0, done.stderr
    assert (old / STORE_FILE).read_bytes() == content
    assert numbers(tmp_path / "both") == numbers(old) | numbers(first)


def test_a_damaged_record_is_reported_and_not_copied(two, tmp_path):
    first, second = two
    with sqlite3.connect(first / STORE_FILE) as database:
        database.execute("UPDATE runs SET label = 'changed'")
    done = lmassay("merge", first, second, "-o", tmp_path / "both")
    assert done.returncode == 1
    assert "is damaged, so it was not copied" in done.stderr
    assert numbers(tmp_path / "both") == numbers(second)


def test_kept_models_are_copied(two, tmp_path):
    first, _ = two
    (name,) = numbers(first)
    model = first / "models" / "0123456789abcdef"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}", encoding="utf-8")
    (first / "models" / f"{name}.json").write_text(json.dumps({"1": [model.name]}), encoding="utf-8")
    lmassay("merge", first, "-o", tmp_path / "both")
    assert (tmp_path / "both" / "models" / model.name / "config.json").read_text(encoding="utf-8") == "{}"
    assert (tmp_path / "both" / "models" / f"{name}.json").is_file()


def test_kept_models_of_an_unfinished_run_are_copied_although_the_run_has_no_list_of_them_yet(two, tmp_path):
    first, _ = two
    (name,) = numbers(first)
    with Store(first) as store:
        store.set_status(name, "cancelled", "stopped by the user")
    model = first / "models" / "0123456789abcdef"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}", encoding="utf-8")
    lmassay("merge", first, "-o", tmp_path / "both")
    assert (tmp_path / "both" / "models" / model.name / "config.json").is_file()


def test_a_merge_that_was_killed_before_the_kept_models_were_copied_copies_them_when_repeated(two, tmp_path):
    first, _ = two
    (name,) = numbers(first)
    lmassay("merge", first, "-o", tmp_path / "both")
    # As after a kill: the runs are in the store, and their models are not in the folder.
    model = first / "models" / "0123456789abcdef"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}", encoding="utf-8")
    (first / "models" / f"{name}.json").write_text(json.dumps({"1": [model.name]}), encoding="utf-8")
    assert lmassay("merge", first, "-o", tmp_path / "both").returncode == 0
    assert (tmp_path / "both" / "models" / model.name / "config.json").is_file()
    assert (tmp_path / "both" / "models" / f"{name}.json").is_file()


@pytest.mark.parametrize("folders", [("one", "one"), ("one", "two", "one/../two")])
def test_a_folder_that_is_given_twice_is_refused(two, tmp_path, folders):
    done = lmassay("merge", *folders, "-o", "both", cwd=tmp_path)
    assert done.returncode == 2
    assert "is given twice" in done.stderr
    assert not (tmp_path / "both").exists()


def test_a_folder_without_results_is_refused_before_anything_is_written(two, tmp_path):
    done = lmassay("merge", two[0], tmp_path / "missing", "-o", tmp_path / "both")
    assert done.returncode == 2
    # This command has no option --results that could help.
    assert "missing; give folders that contain lmassay.sqlite" in done.stderr
    assert not (tmp_path / "both").exists()


def test_data_from_python_are_copied_and_found_when_the_first_folder_is_gone(tmp_path):
    texts = ["the cat sat on the mat", "a dog ran home"]
    task = evaluation_task("robustness", src=texts, attack={"name": "charswap", "rate": 1})
    (evaluated,) = evaluate(task, "echo", tmp_path / "one")
    assert lmassay("merge", tmp_path / "one", "-o", tmp_path / "both").returncode == 0
    (original,) = (tmp_path / "one" / "inputs").glob("*/*.txt")
    copy = tmp_path / "both" / original.relative_to(tmp_path / "one")
    assert copy.read_bytes() == original.read_bytes()
    shutil.rmtree(tmp_path / "one")
    expected = numbers(tmp_path / "both")
    with Store(tmp_path / "both", create=True) as store:
        store.database.execute("DELETE FROM rows WHERE position = 1")
        assert not store.rows_are_whole(evaluated.id)
    done = lmassay("resume", "--results", tmp_path / "both")
    assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "both") == expected


def test_a_file_that_is_not_text_does_not_stop_the_merge(two, tmp_path):
    strange = two[0] / "inputs" / "0123456789ab" / "strange.txt"
    strange.parent.mkdir(parents=True)
    strange.write_bytes(b"\xff\r\n")
    done = lmassay("merge", two[0], "-o", tmp_path / "both")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "both" / strange.relative_to(two[0])).read_bytes() == b"\xff\r\n"


def test_a_link_among_the_data_copies_no_other_file(two, tmp_path):
    (tmp_path / "private.txt").write_text("private", encoding="utf-8")
    link = two[0] / "inputs" / "0123456789ab" / "link.txt"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "private.txt")
    lmassay("merge", two[0], "-o", tmp_path / "both")
    assert not (tmp_path / "both" / link.relative_to(two[0])).exists()


def _link_in_inputs(results: Path, private: Path) -> None:
    (results / "inputs").mkdir()
    (results / "inputs" / "0123456789ab").symlink_to(private)


def _linked_inputs(results: Path, private: Path) -> None:
    (results / "inputs").symlink_to(private.parent)


def _listed_model(results: Path) -> Path:
    """Return the folder of a kept model, which does not exist yet."""
    (name,) = numbers(results)
    (results / "models").mkdir()
    (results / "models" / f"{name}.json").write_text('{"1": ["0123456789abcdef"]}', encoding="utf-8")
    return results / "models" / "0123456789abcdef"


def _link_in_a_model(results: Path, private: Path) -> None:
    model = _listed_model(results)
    model.mkdir()
    (model / "config.json").symlink_to(private / "id")


def _linked_model(results: Path, private: Path) -> None:
    _listed_model(results).symlink_to(private)


def _linked_models(results: Path, private: Path) -> None:
    _listed_model(results)
    (results / "models").rename(private / "models")
    (private / "models" / "0123456789abcdef").mkdir()
    (private / "id").rename(private / "models" / "0123456789abcdef" / "id")
    (results / "models").symlink_to(private / "models")


def _linked_list(results: Path, private: Path) -> None:
    _listed_model(results)
    (listing,) = (results / "models").glob("*.json")
    listing.unlink()
    listing.symlink_to(private / "id")


def _circle_in_a_model(results: Path, private: Path) -> None:
    model = _listed_model(results)
    model.mkdir()
    (model / "itself").symlink_to(model)


@pytest.mark.skipif(os.name == "nt", reason="creating links needs rights on Windows")
@pytest.mark.parametrize(
    ("put_link", "reported"),
    [
        (_link_in_inputs, "inputs/0123456789ab"),
        (_linked_inputs, "inputs"),
        (_link_in_a_model, "models/0123456789abcdef"),
        (_linked_model, "models/0123456789abcdef"),
        (_linked_models, "models"),
        (_linked_list, "models/"),
        (_circle_in_a_model, "models/0123456789abcdef"),
    ],
)
def test_a_link_anywhere_copies_no_private_file_and_is_reported(tmp_path, put_link, reported):
    results = run(tmp_path, "one")
    private = tmp_path / "home" / "private"
    private.mkdir(parents=True)
    (private / "id").write_text("PRIVATE", encoding="utf-8")
    put_link(results, private)
    done = lmassay("merge", results, "-o", tmp_path / "both", "--json")
    assert done.returncode == 1, done.stderr
    (folder,) = json.loads(done.stdout)["folders"]
    assert len(folder["copied"]) == 1
    (not_copied,) = folder["not_copied"]
    assert not_copied.startswith(reported)
    assert not_copied in done.stderr
    for copy in (tmp_path / "both").rglob("*"):
        assert not copy.is_file() or b"PRIVATE" not in copy.read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="creating links needs rights on Windows")
def test_the_advice_about_a_link_helps(tmp_path):
    results = run(tmp_path, "one")
    elsewhere = tmp_path / "large disk"
    elsewhere.mkdir()
    (elsewhere / "id").touch()
    _linked_models(results, elsewhere)
    done = lmassay("merge", results, "-o", tmp_path / "both")
    assert "replace each link with what it points to and merge again" in done.stderr
    (results / "models").unlink()
    (elsewhere / "models").rename(results / "models")
    done = lmassay("merge", results, "-o", tmp_path / "both")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "both" / "models" / "0123456789abcdef" / "id").is_file()


@pytest.mark.parametrize(
    "listing", ["[]", "{", '{"1": 3}', '{"1": [3]}', '{"1": [""]}', '{"1": [".."]}', "[" * 100_000]
)
def test_a_strange_list_of_models_is_reported_and_not_copied(tmp_path, listing):
    results = run(tmp_path, "one")
    (name,) = numbers(results)
    (results / "models").mkdir()
    (results / "models" / f"{name}.json").write_text(listing, encoding="utf-8")
    done = lmassay("merge", results, "-o", tmp_path / "both", "--json")
    assert done.returncode == 1
    (folder,) = json.loads(done.stdout)["folders"]
    assert (folder["copied"], folder["not_copied"]) == ([name], [f"models/{name}.json"])
    assert not (tmp_path / "both" / "models").exists()
