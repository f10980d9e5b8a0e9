"""Keys that an old version stored are on no page of the view, however the page cuts, wraps and escapes its texts."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from lmassay import redaction
from lmassay.storage.store import Store
from tests.stored_keys import KEYS, MARK, RUNS, everything_in, folder_with
from tests.view.kit import viewed


@pytest.mark.parametrize("key", KEYS)
def test_no_page_has_any_part_of_a_key(tmp_path, monkeypatch, key):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.delenv("MY_API_KEY", raising=False)
    folder_with(tmp_path, key)
    monkeypatch.setenv("MY_API_KEY", key)
    first, second = RUNS
    paths = ["/", "/live?version=old", "/?group=model", f"/runs/{first}", f"/runs/{first}/live?version=old"]
    paths += [f"/runs/{first}/examples/{number}" for number in (0, 1, 5, 10, 20)]
    paths += [f"/report?run={first}&run={second}&format={name}" for name in ("html", "md", "tex", "csv")]
    paths += [f"/compare?run={first}&run={second}", f"/compare/page?run={first}&run={second}"]
    paths += [f"/tag?run={first}", f"/delete?run={first}"]
    with viewed(tmp_path) as browser:
        for path in paths:
            assert MARK not in everything_in(browser.page(path)), path
        missing = browser.get(f"/runs/{quote(key, safe='')}/live")
    assert missing.status_code == 404
    assert MARK not in missing.text


def test_a_note_with_a_key_can_be_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(redaction, "_in_use", set())
    monkeypatch.delenv("MY_API_KEY", raising=False)
    folder_with(tmp_path, KEYS[0])
    monkeypatch.setenv("MY_API_KEY", KEYS[0])
    address = f"/runs/{RUNS[0]}"
    with viewed(tmp_path) as browser:
        (seen,) = re.findall(r'name="seen" value="(\w+)"', browser.page(address))
        done = browser.post(f"{address}/annotation", {"note": "another note", "tags": "", "seen": seen})
        assert done.status_code == 303, done.text
    with Store(tmp_path) as store:
        assert store.run(RUNS[0]).annotation.note == "another note"
