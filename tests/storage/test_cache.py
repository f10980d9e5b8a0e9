"""The cache folder, and the space that is left in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lmassay.errors import DataError
from lmassay.storage.cache import cache_folder, require_space


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("LMASSAY_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("LMASSAY_CACHE", "~/here")
    assert cache_folder() == Path.home() / "here"
    monkeypatch.delenv("LMASSAY_CACHE")
    assert cache_folder().name == "lmassay"


def test_too_little_space_is_reported_before_the_work(tmp_path):
    folder = tmp_path / "not" / "there"
    require_space(folder, 1)
    with pytest.raises(DataError, match=r"1,000,000,000\.0 GB are needed .* are free; make room or set"):
        require_space(folder, 10**18)
