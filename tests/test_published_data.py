"""Published data for tests come from the catalogue."""

from __future__ import annotations

import pytest

from lmassay.datasets.catalogue import catalogue
from tests import published_data


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """Data sets are fetched into an empty cache, and nothing is remembered afterwards."""
    monkeypatch.setattr(published_data, "_FIRST_CACHE", str(tmp_path / "cache"))
    published_data._fetched.cache_clear()
    yield tmp_path / "cache"
    published_data._fetched.cache_clear()


def test_a_data_set_is_fetched_from_the_mirror(empty_cache, data_mirror, monkeypatch):
    monkeypatch.setenv("LMASSAY_CACHE", "somewhere/else")
    monkeypatch.setattr(published_data, "_FIRST_MIRROR", data_mirror)
    folder = published_data.published_set("jblimp")
    assert folder == empty_cache / "data" / "jblimp"
    names = [path for _, path, _ in catalogue().find("jblimp").files()]
    assert all((folder / name).is_file() for name in names)


def test_without_mirror_and_internet_the_test_is_skipped_with_the_reason(empty_cache, monkeypatch):
    monkeypatch.setattr(published_data, "_FIRST_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(
        pytest.skip.Exception, match=r"jblimp cannot be fetched: cannot reach 127\.0\.0\.1.*set LMASSAY"
    ):
        published_data.published_set("jblimp")
