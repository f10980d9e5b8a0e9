"""Data from memory take the place of paths wherever an option takes data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import lmassay
from lmassay.errors import ConfigError, DataError
from lmassay.plugins.data_options import DataStorage
from lmassay.plugins.python_objects import PythonObjects


class Reads(lmassay.Task):
    """A user's task with options of several types."""

    name = "reads"

    def __init__(
        self,
        file: Path | None = None,
        files: dict[str, Path] | None = None,
        texts: Annotated[str, lmassay.InMemory("texts")] = "",
        data: Annotated[str | dict[str, str], lmassay.InMemory("rows", described_by="files")] = "",
        rates: list[float] = [],  # noqa: B006 - never written to
        several: list[Path] = [],  # noqa: B006 - never written to
    ) -> None:
        pass


def stored(tmp_path, *, lists_are_data=True, **options):
    objects = PythonObjects()
    name = objects.add_class("task", Reads)
    storage = DataStorage(tmp_path, tmp_path, lists_are_data)
    with objects.active():
        result = storage.store("task", {"name": name, **options})
    assert result.pop("name") == name
    return result


def lines(path):
    return Path(path).read_text(encoding="utf-8").splitlines()


def test_an_option_for_a_path_takes_texts_or_rows(tmp_path):
    assert lines(stored(tmp_path, file=["a", "b"])["file"]) == ["a", "b"]
    assert lines(stored(tmp_path, file=[{"a": 1}])["file"]) == ['{"a": 1}']
    assert stored(tmp_path, file=Path("x.txt"))["file"] == Path("x.txt")
    assert stored(tmp_path, file="x.txt")["file"] == "x.txt"


def test_a_list_in_a_configuration_is_a_list_of_values_to_try(tmp_path):
    assert stored(tmp_path, lists_are_data=False, file=["a", "b"])["file"] == ["a", "b"]
    first, second = stored(tmp_path, lists_are_data=False, file=[lmassay.rows(["a"]), lmassay.rows(["b"])])["file"]
    assert (lines(first), lines(second)) == (["a"], ["b"])


def test_texts_in_a_configuration_are_not_taken_for_names_of_files(tmp_path):
    with pytest.raises(ConfigError, match=r"task\.file: none of these is a file.*lmassay\.rows"):
        stored(tmp_path, lists_are_data=False, file=["Hello world.", "Good morning."])
    (tmp_path / "my file.txt").write_text("a\n", encoding="utf-8")
    assert stored(tmp_path, lists_are_data=False, file=["my file.txt", "x"])["file"] == ["my file.txt", "x"]


def test_an_option_declares_what_it_takes(tmp_path):
    assert lines(stored(tmp_path, texts=["a"])["texts"]) == ["a"]
    with pytest.raises(DataError, match=r"task\.texts: this is a table with the columns a"):
        stored(tmp_path, texts=[{"a": 1}])
    assert stored(tmp_path, data=["kobbq", "bbq"])["data"] == ["kobbq", "bbq"]
    assert stored(tmp_path, data=[{"name": "kobbq"}])["data"] == [{"name": "kobbq"}]
    with pytest.raises(DataError, match=r"task\.data: these are texts, but rows are expected"):
        stored(tmp_path, data=lmassay.rows(["a"]))


def test_a_description_is_written_with_its_data(tmp_path):
    description = {"name": "mine", "language": "en", "files": [{"a": 1}]}
    path = Path(stored(tmp_path, data=description)["data"])
    assert path.name == "mine.yaml"
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["language"] == "en"
    assert lines(written["files"]) == ['{"a": 1}']
    relative = stored(tmp_path, data={"files": "rows.jsonl"})["data"]
    assert json.loads(Path(relative).read_text(encoding="utf-8"))["files"] == str(tmp_path / "rows.jsonl")
    with pytest.raises(DataError, match="must consist of texts, numbers"):
        stored(tmp_path, data={"files": "x", "a": object()})


def test_other_options_stay_as_they_are(tmp_path):
    assert stored(tmp_path, rates=np.array([0.5, 1.0]))["rates"] == [0.5, 1.0]
    assert stored(tmp_path, several=["a.txt", "b.txt"])["several"] == ["a.txt", "b.txt"]
    assert stored(tmp_path, unknown=1)["unknown"] == 1
    assert lines(stored(tmp_path, files={"out": ["a"]})["files"]["out"]) == ["a"]
