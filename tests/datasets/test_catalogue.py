"""The catalogue: which data sets exist, and the copies of them on this machine."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lmassay.datasets import catalogue as module
from lmassay.datasets.catalogue import Catalogue, file_called, get, local_path, remove, select, verify
from lmassay.datasets.download import Downloader
from lmassay.datasets.entry import DataSet, read_entry
from lmassay.errors import DataError, StoreError
from lmassay.storage.files import record_reads
from tests.datasets.file_server import file_server
from tests.datasets.small_entry import CONTENT, write_entry, write_mirror


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataSet:
    """The small data set as the only one of the catalogue, with an empty cache."""
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path / "cache"))
    small = read_entry(write_entry(tmp_path / "entries"))
    monkeypatch.setattr(module, "catalogue", lambda: Catalogue({"small": small}, {"small": "test"}, []))
    return small


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return write_mirror(tmp_path / "mirror")


def fetch(entry: DataSet, mirror: Path | str) -> list[module.FailedFile]:
    return get(entry, Downloader(str(mirror), timeout=0.5, pause=0.01), lambda _: None)


def test_a_data_set_is_fetched_once_and_used_offline(entry, mirror):
    assert fetch(entry, mirror) == []
    for file in (mirror / "small").iterdir():
        file.unlink()
    assert fetch(entry, mirror) == []
    assert select("small").paths == [local_path(entry.sources[0], name) for name in CONTENT]


def test_progress_counts_the_files_that_are_already_here(entry, mirror):
    fetch(entry, mirror)
    local_path(entry.sources[0], "plants.jsonl").unlink()
    sizes: list[int] = []
    get(entry, Downloader(str(mirror)), sizes.append)
    assert sizes[0] > len(CONTENT["animals.jsonl"])
    assert sizes[-1] == entry.size


def test_the_cache_can_serve_as_a_mirror(entry, mirror, tmp_path, monkeypatch):
    fetch(entry, mirror)
    first_cache = module.data_folder()
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path / "second"))
    assert fetch(entry, first_cache) == []
    assert verify(entry) == []


def test_what_the_source_has_is_fetched_and_the_rest_is_listed(entry, mirror):
    (mirror / "small" / "plants.jsonl").unlink()
    failures = fetch(entry, mirror)
    assert [failure.path.name for failure in failures] == ["plants.jsonl"]
    assert failures[0].is_missing
    assert select("small/animals").paths[0].is_file()
    with pytest.raises(DataError, match=r"is not complete .* 1 of 2 files was not fetched; run lmassay data get small"):
        select("small")


def test_a_server_that_cannot_be_reached_is_asked_once(entry):
    failures = fetch(entry, "http://127.0.0.1:9")
    assert len(failures) == 2
    assert failures[1].reason.startswith("not tried: cannot reach 127.0.0.1")


def test_a_changed_copy_is_noticed_and_fetched_again(entry, mirror):
    fetch(entry, mirror)
    copy = local_path(entry.sources[0], "animals.jsonl")
    copy.write_bytes(copy.read_bytes().replace(b"bark", b"meow"))
    assert [failure.path for failure in verify(entry)] == [copy]
    with pytest.raises(DataError, match="was changed since it was fetched"):
        select("small")
    assert fetch(entry, mirror) == []
    assert copy.read_bytes() == CONTENT["animals.jsonl"]


def test_removing_leaves_no_file_and_no_empty_folder(entry, mirror):
    fetch(entry, mirror)
    assert remove(entry) == sum(len(content) for content in CONTENT.values())
    assert not (module.data_folder() / "small").exists()
    with pytest.raises(DataError, match="it was not fetched; run lmassay data get small"):
        select("small")


def test_two_commands_do_not_write_the_same_files(entry, tmp_path):
    """The second one gets an error that says to wait; nothing is written twice."""
    content = {f"small/{name}": text for name, text in CONTENT.items()}
    started, proceed = threading.Event(), threading.Event()
    with file_server(content) as server:

        def wait(handler, text, _):
            started.set()
            proceed.wait(10)
            handler.serve(text)

        server.behaviour = wait
        thread = threading.Thread(target=lambda: get(entry, Downloader(server.url), lambda _: None))
        thread.start()
        started.wait(10)
        try:
            with pytest.raises(StoreError, match="another process is working on the data set small"):
                fetch(entry, server.url)
        finally:
            proceed.set()
            thread.join()
    assert verify(entry) == []


def test_what_is_selected_counts_as_read(entry, mirror):
    """A run depends on the files, so that their digests become part of its record."""
    fetch(entry, mirror)
    with record_reads() as read:
        select({"name": "small", "topic": "plants"})
    assert [path.name for path in read] == ["plants.jsonl"]


def test_a_single_file_is_named_by_its_path(entry, mirror):
    with pytest.raises(DataError, match=r"plants\.jsonl of the data set small was not fetched"):
        file_called("small/plants.jsonl")
    fetch(entry, mirror)
    assert file_called("small/plants.jsonl").read_bytes() == CONTENT["plants.jsonl"]
    with pytest.raises(DataError, match=r"no file 'plant\.jsonl'; did you mean 'plants\.jsonl'"):
        file_called("small/plant.jsonl")


def test_a_text_that_names_no_data_set_is_left_to_the_task(entry):
    assert select("some/folder") is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("small/weather", "no topic 'weather'"),
        ({"name": "smal"}, "no data set 'smal'; did you mean 'small'"),
        ({"topic": "plants"}, "needs a 'name'"),
        ({"name": "small", "colour": "red"}, "no 'colour' to select by"),
    ],
)
def test_a_wrong_name_is_an_error_with_a_hint(entry, spec, message):
    with pytest.raises(DataError, match=message):
        select(spec)


def test_an_entry_that_cannot_be_read_does_not_hide_the_others(tmp_path, monkeypatch):
    folder = tmp_path / "entries"
    write_entry(folder)
    (folder / "broken.yaml").write_text("name: [", encoding="utf-8")
    (folder / "again.yaml").write_text((folder / "small.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(module, "_folders", lambda problems: [("some-package", folder)])
    read_catalogue = module._catalogue_on.__wrapped__(())
    assert list(read_catalogue.entries) == ["small"]
    assert len(read_catalogue.problems) == 2
    assert "broken.yaml" in read_catalogue.problems[0]
    assert "already offers" in read_catalogue.problems[1]
    with pytest.raises(DataError, match=r"some-package has a data set that cannot be used: .*broken\.yaml"):
        read_catalogue.find("broken")
    # The name of another file that ends in the same letters is not meant.
    with pytest.raises(DataError, match="there is no data set 'roken'"):
        read_catalogue.find("roken")
    # A configuration that names it gets the same message, instead of one about a missing file.
    monkeypatch.setattr(module, "catalogue", lambda: read_catalogue)
    for spec in ("broken", "broken/part", {"name": "broken"}):
        with pytest.raises(DataError, match=r"some-package has a data set that cannot be used: .*broken\.yaml"):
            select(spec)


def test_the_shipped_entries_are_read_without_problems():
    shipped = module.catalogue()
    assert shipped.problems == []
    names = {"bbq", "blimp", "clams", "fewglue", "jblimp", "kobbq", "mbbq", "rublimp", "teapot", "tse"}
    assert names <= set(shipped.entries)


def test_reading_the_catalogue_is_not_recorded_as_an_input_of_the_plug_in_that_is_created_meanwhile():
    with record_reads() as files:
        entries = module._catalogue_on.__wrapped__(()).entries
    assert "blimp" in entries
    assert files == []
