"""Published data for tests come from the catalogue."""

from __future__ import annotations

import pytest

from lmassay.datasets.catalogue import catalogue
from tests import published_data
from tests.helpers import lmassay


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """The user's cache and that of the session are empty, and nothing is remembered afterwards."""
    monkeypatch.setattr(published_data, "_FIRST_CACHE", str(tmp_path / "user"))
    monkeypatch.setattr(published_data, "session_cache", tmp_path / "session")
    published_data._fetched.cache_clear()
    yield tmp_path
    published_data._fetched.cache_clear()


def test_a_data_set_is_fetched_from_the_mirror_into_the_cache_of_the_session(empty_cache, data_mirror, monkeypatch):
    monkeypatch.setenv("LMASSAY_CACHE", "somewhere/else")
    monkeypatch.setattr(published_data, "_FIRST_MIRROR", data_mirror)
    folder = published_data.published_set("jblimp")
    assert folder == empty_cache / "session" / "data" / "jblimp"
    names = [path for _, path, _ in catalogue().find("jblimp").files()]
    assert all((folder / name).is_file() for name in names)
    assert not (empty_cache / "user").exists()


def test_a_data_set_that_the_user_has_is_used_where_it_is(empty_cache, data_mirror, monkeypatch):
    for name in ("jblimp", "teapot"):
        cache = empty_cache / ("user" if name == "jblimp" else "session")
        done = lmassay("data", "get", name, env={"LMASSAY_CACHE": str(cache), "LMASSAY_DATA_MIRROR": data_mirror})
        assert done.returncode == 0, done.stderr
    monkeypatch.setattr(published_data, "_FIRST_MIRROR", data_mirror)
    assert published_data.published_set("jblimp") == empty_cache / "user" / "data" / "jblimp"
    together = published_data.published_sets("jblimp", "teapot")
    assert together == empty_cache / "session" / "data"
    assert (together / "jblimp").samefile(empty_cache / "user" / "data" / "jblimp")
    assert (together / "teapot").is_dir()


def test_without_mirror_and_internet_the_test_is_skipped_with_the_reason(empty_cache, monkeypatch):
    monkeypatch.setattr(published_data, "_FIRST_MIRROR", "http://127.0.0.1:9")
    with pytest.raises(
        pytest.skip.Exception, match=r"jblimp cannot be fetched: cannot reach 127\.0\.0\.1.*set LMASSAY"
    ):
        published_data.published_set("jblimp")
