"""Entries of the catalogue: what they say, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from lmassay.datasets.catalogue import catalogue
from lmassay.datasets.entry import DataFile, read_entry
from lmassay.errors import ConfigError, DataError
from tests.datasets.small_entry import CONTENT, entry_document, git_blob, write_entry


def changed(key: str, value: Any) -> dict[str, Any]:
    """The document of the small entry with one key of its source replaced."""
    document = copy.deepcopy(entry_document())
    document["sources"][0][key] = value
    return document


def test_an_entry_counts_its_examples_and_bytes(tmp_path):
    entry = read_entry(write_entry(tmp_path))
    assert entry.examples == 8
    assert entry.size == sum(len(content) for content in CONTENT.values())
    assert entry.licences == "MIT"


def test_a_file_is_addressed_at_the_pinned_commit(tmp_path):
    source = read_entry(write_entry(tmp_path)).sources[0]
    expected = f"https://raw.githubusercontent.com/somebody/small/{'a' * 40}/data/animals.jsonl"
    assert source.address_of("animals.jsonl") == expected


def test_another_host_needs_a_template_of_addresses(tmp_path):
    document = changed("repository", "https://example.org/small")
    with pytest.raises(ConfigError, match="needs 'url'"):
        read_entry(write_entry(tmp_path, document))
    document["sources"][0]["url"] = "https://example.org/{commit}/{path}"
    source = read_entry(write_entry(tmp_path, document)).sources[0]
    assert source.address_of("a b.jsonl") == f"https://example.org/{'a' * 40}/data/a%20b.jsonl"


@pytest.mark.parametrize(
    "url", ["{commit}/{file}", "{commit}/animals.jsonl", "{path}", "{commit}/{path}/{0}", "{commit/{path}", "{path}{"]
)
def test_a_template_of_addresses_without_the_two_placeholders_is_refused(tmp_path, url):
    with pytest.raises(ConfigError, match=r"must contain \{commit\} and \{path\}"):
        read_entry(write_entry(tmp_path, changed("url", f"https://example.org/{url}")))


@pytest.mark.parametrize(
    "path", ["../x.jsonl", "/etc/passwd", "a/../../x", "C:/x", "a\\b", "con.txt", "aux", "a:b", ""]
)
def test_a_path_that_leaves_the_cache_is_refused(tmp_path, path):
    file = entry_document()["sources"][0]["files"]["animals.jsonl"]
    with pytest.raises(ConfigError, match="stays inside its folder"):
        read_entry(write_entry(tmp_path, changed("files", {path: file})))


@pytest.mark.parametrize("folder", ["..", "/tmp", "a/../.."])
def test_a_folder_that_leaves_the_cache_is_refused(tmp_path, folder):
    with pytest.raises(ConfigError, match="stays inside its folder"):
        read_entry(write_entry(tmp_path, changed("folder", folder)))


@pytest.mark.parametrize("address", ["http://github.com/a/b", "file:///etc/passwd", "github.com/a/b"])
def test_a_repository_without_tls_is_refused(tmp_path, address):
    with pytest.raises(ConfigError, match="https://"):
        read_entry(write_entry(tmp_path, changed("repository", address)))


def test_a_file_must_be_pinned(tmp_path):
    with pytest.raises(ConfigError, match="'sha256' or a 'git_blob'"):
        read_entry(write_entry(tmp_path, changed("files", {"animals.jsonl": {"bytes": 3}})))


def test_all_mistakes_are_reported_at_once(tmp_path):
    document = entry_document(name="Not A Name", colour="red")
    document["sources"][0]["commit"] = "main"
    with pytest.raises(ConfigError) as caught:
        read_entry(write_entry(tmp_path, document))
    message = str(caught.value)
    assert "colour" in message
    assert "lower-case" in message
    assert "40 hexadecimal digits" in message


def test_a_file_is_recognised_by_its_git_blob_id(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"some content\n")
    assert DataFile(git_blob=git_blob(b"some content\n")).matches(path)
    assert not DataFile(git_blob=git_blob(b"other content\n")).matches(path)


def test_files_are_selected_by_their_labels(tmp_path):
    entry = read_entry(write_entry(tmp_path))
    assert [path for _, path, _ in entry.select({})] == ["animals.jsonl", "plants.jsonl"]
    assert [path for _, path, _ in entry.select({"topic": "plants"})] == ["plants.jsonl"]
    with pytest.raises(DataError, match="no topic 'plant'; did you mean 'plants'"):
        entry.select({"topic": "plant"})
    with pytest.raises(DataError, match="no 'theme' to select by"):
        entry.select({"theme": "plants"})


def test_the_shipped_entries_pin_what_lies_in_the_published_data(shared: Path):
    """Digest, size and number of examples are those of the files themselves."""
    data = shared / "data"
    digests = {}
    for line in (data / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        digest, path = line.split(maxsplit=1)
        digests[path.removeprefix("./")] = digest
    pinned = {}
    for entry in catalogue().entries.values():
        for source, path, file in entry.files():
            name = f"{source.folder}/{path}"
            if file.sha256 is None:
                assert name not in digests
                continue
            pinned[name] = file.sha256
            assert file.bytes == (data / name).stat().st_size
    assert pinned == digests


def test_numbers_that_are_not_known_in_full_are_marked(tmp_path):
    document = entry_document()
    files = document["sources"][0]["files"]
    del files["plants.jsonl"]["examples"]
    assert read_entry(write_entry(tmp_path / "some", document)).examples_text == "> 3"
    del files["animals.jsonl"]["examples"]
    assert read_entry(write_entry(tmp_path / "none", document)).examples_text == "unknown"
