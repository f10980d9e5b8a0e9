"""The rows of the example browser: all of them or a stated sample, packed into text that cannot be markup."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace

import pytest

from lmassay import redaction
from lmassay.reporting import browser as browser_module
from lmassay.reporting.browser import BrowserRow, browser
from lmassay.reporting.html_document import document

ROW = BrowserRow("run", "own", "1", "scored", {"kind": "a"}, {"good": 1.0}, [("prompt", "why?"), ("answer", "because")])


def rows(many: int, text: str = "why?") -> list[BrowserRow]:
    return [replace(ROW, id=str(number), texts=[("prompt", f"{text} {number}")]) for number in range(many)]


def unpacked(page: str):
    """What the script of a page would read."""
    (data,) = re.findall(r'<script type="application/gzip">([A-Za-z0-9+/=]+)</script>', page)
    lines = gzip.decompress(base64.b64decode(data)).decode("utf-8").split("\n")
    columns, of_rows, *pieces = map(json.loads, lines)
    return columns, of_rows, [text for piece in pieces for text in piece]


def test_a_row_comes_back_as_it_was():
    columns, of_rows, texts = unpacked(browser([ROW]))
    assert [texts[columns[name][0]] for name in ("run", "task", "id", "state")] == ["run", "own", "1", "scored"]
    assert columns["scores"] == [["good", [1.0]]]
    assert [[kind, [texts[place] for place in of]] for kind, of in columns["groups"]] == [["kind", ["a"]]]
    assert columns["names"] == ["prompt", "answer"]
    assert [texts[place] for place in of_rows[0][1::2]] == ["why?", "because"]


def test_keys_in_use_are_blanked_before_the_rows_are_compressed(monkeypatch):
    monkeypatch.setattr(redaction, "_in_use", {"SENTINEL-0123456789"})
    leak = "the key is SENTINEL-0123456789"
    row = replace(ROW, id=leak, groups={"kind": leak}, texts=[("answer", leak)])
    *_, texts = unpacked(browser([row]))
    assert texts == ["own", "run", "scored", "the key is [redacted]"]


def test_what_a_row_lacks_is_empty_and_never_zero():
    columns, of_rows, _ = unpacked(browser([ROW, BrowserRow("run", "own", "2", "error", {}, {}, [])]))
    assert columns["scores"] == [["good", [1.0, None]]]
    assert columns["groups"][0][1][1] == -1
    assert of_rows[1] == []


def test_a_text_that_many_rows_share_is_kept_once():
    _, _, texts = unpacked(browser([replace(ROW, id=str(number)) for number in range(100)]))
    assert texts.count("why?") == 1
    assert len(texts) == len(set(texts))


@pytest.mark.fault(43)
@pytest.mark.parametrize(
    "text", ["</script><script>alert(1)</script>", "<!--", "a \ud800 b", "\x00", "\u2028", "한국어"]
)
def test_any_text_survives_and_none_is_markup(text):
    page = document("page", browser([replace(ROW, id=text, texts=[(text, text)])]), browser=True)
    columns, _, texts = unpacked(page)
    assert texts[columns["id"][0]] == text
    assert columns["names"] == [text]
    assert page.count("<script") == 2, "the data and our own"
    page.encode("utf-8")


def test_more_rows_than_a_page_bears_are_sampled_and_the_page_says_so(monkeypatch):
    monkeypatch.setattr(browser_module, "MAX_ROWS", 50)
    page = browser(iter(rows(1000)))
    assert "A random sample of 50 of 1,000 examples" in page
    assert "lmassay export RUN --format csv" in page
    columns, _, texts = unpacked(page)
    ids = [int(texts[place]) for place in columns["id"]]
    assert ids == sorted(ids)
    assert len(set(ids)) == 50
    assert ids[-1] > 500 > ids[0], "drawn from all of them"


def test_texts_longer_than_a_page_bears_are_sampled_too(monkeypatch):
    monkeypatch.setattr(browser_module, "MAX_CHARACTERS", 10_000)
    page = browser(iter(rows(100, "w" * 1000)))
    assert "A random sample of 9 of 100 examples" in page


def test_one_very_long_text_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(browser_module, "MAX_TEXT_LENGTH", 10)
    _, _, texts = unpacked(browser([replace(ROW, texts=[("prompt", "x" * 1010)])]))
    assert "xxxxxxxxxx … (1,000 more characters)" in texts


def test_all_rows_are_no_sample():
    assert "sample" not in browser(rows(10))


def test_the_same_rows_give_the_same_text():
    assert browser(rows(100)) == browser(rows(100))


def test_a_page_without_rows_has_no_browser():
    assert browser([]) == ""


def test_a_page_without_script_says_where_the_examples_are():
    assert re.search(r"<noscript>.*lmassay export RUN.*</noscript>", browser([ROW]))


def test_a_heading_names_the_place(tmp_path):
    page = browser([ROW], heading="What <flipped>", anchor="what-flipped")
    assert '<section class="browser" id="what-flipped">' in page
    assert "<h2>What &lt;flipped&gt;</h2>" in page


@pytest.mark.fault(43)
def test_the_policy_allows_our_script_and_no_other():
    with_script, without = document("a", browser([ROW]), browser=True), document("a", browser([]))
    assert re.search(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; script-src 'sha256-[\w+/=]+'; base", with_script
    )
    assert "script-src" not in without
    assert "unsafe" not in with_script
