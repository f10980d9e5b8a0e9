"""The pages of the view, through a real server."""

from __future__ import annotations

import re
import sqlite3
import sys

import pytest

from lmassay.storage.store import STORE_FILE, Store
from lmassay.types import NewRun, Provenance, RowBatch
from tests.view.kit import add_run, row, sample_folder, viewed

PLAIN = "20261101-080000-plain-aaaaaa"
UGLY_RUN = "20261101-100000-ugly-cccccc"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with viewed(sample_folder(tmp_path_factory.mktemp("pages"))) as opened:
        yield opened


def test_the_list_shows_runs_with_results_and_counts(browser):
    page = browser.page("/")
    assert "3 runs: 2 done, 1 incomplete" in page
    assert "0.667 [0.100, 0.900]" in page
    assert f'value="{PLAIN}"' in page
    assert "1 example with errors" in page


def test_a_filter_is_part_of_the_address(browser):
    page = browser.page("/?model=large")
    assert "1 of 3 runs" in page
    assert '<option value="large" selected>' in page
    assert PLAIN not in page.partition('id="selection"')[2]


def test_texts_cannot_become_markup_or_control_the_page(browser):
    for path in ("/", f"/runs/{UGLY_RUN}", f"/runs/{UGLY_RUN}/examples/0", f"/delete?run={UGLY_RUN}", "/?q=<script>"):
        page = browser.page(path)
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert "\u001b" not in page
        assert "\u202e" not in page
    assert "한국어" in browser.page(f"/runs/{UGLY_RUN}/examples/0")


def test_the_page_of_a_run_has_results_counts_reasons_and_provenance(browser):
    page = browser.page(f"/runs/{PLAIN}")
    for text in ("0.6667", "[0.1000, 0.9000]", "3 scored", "question e1", "answer to", "signature", "name: quiz"):
        assert text in page, text
    ugly = browser.page(f"/runs/{UGLY_RUN}")
    for text in ("1 × HTTP 500", "no answer: refusal", "1 unscored", "1 error", f"lmassay resume {UGLY_RUN}"):
        assert text in ugly, text


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "3 examples"),
        ("state=error", "1 example that matches"),
        ("state=unscored", "1 example that matches"),
        ("state=rubbish&page=x&low=a", "3 examples"),
        ("metric=accuracy&low=0.2&high=0.3", "1 example that matches"),
        ("metric=accuracy&low=0.3", "0 examples that match"),
        ("q=BECAUSE", "1 example that matches"),
        ("q=한국어", "1 example that matches"),
        ("q=HTTP+500", "1 example that matches"),
        ("q=question", "2 examples that match"),
        ("page=99", "3 examples"),
    ],
)
def test_examples_are_filtered_and_searched(browser, query, expected):
    assert f'<p class="count">{expected}</p>' in browser.page(f"/runs/{UGLY_RUN}?{query}")


def test_runs_without_results_are_offered_last_for_a_comparison(tmp_path):
    with Store(tmp_path, create=True) as store:
        for run, status in (("r1", "done"), ("r2", "done"), ("r3", "waiting")):
            add_run(store, run, status=status)
    with viewed(tmp_path) as browser:
        page = browser.page("/runs/r1")
    assert re.findall(r'<option value="(r\d)">', page) == ["r2", "r3"]


def test_an_example_has_its_own_page_with_request_and_response(browser):
    page = browser.page(f"/runs/{UGLY_RUN}/examples/0")
    for text in ("Why?", "Because &lt;script&gt;", "accuracy 0.2500", "category: general", "finish: stop"):
        assert text in page, text
    assert 'rel="next"' in page
    assert 'rel="prev"' not in page
    assert "HTTP 500" in browser.page(f"/runs/{UGLY_RUN}/examples/2")
    assert browser.get(f"/runs/{UGLY_RUN}/examples/3").status_code == 404
    assert browser.get(f"/runs/{UGLY_RUN}/examples/-1").status_code == 404


def test_a_column_of_texts_that_no_example_on_the_page_has_is_left_out(browser):
    page = browser.page(f"/runs/{UGLY_RUN}")
    # The evaluation of this run has a column for contexts, but none of these examples has one.
    assert "<th>answer</th>" in page
    assert "<th>context</th>" not in page
    assert 'data-label="context"' not in page


def test_examples_in_batches_have_pages_too(tmp_path):
    import numpy as np

    with Store(tmp_path, create=True) as store:
        store.add_run(NewRun("long", "s", "n", "t", "m", "long", {"a": 1}, "sig", Provenance(), 130))
        for first in (0, 64, 128):
            ids = [f"line {number}" for number in range(first, min(first + 64, 130))]
            scores = np.arange(first, first + len(ids)) % 2.0
            store.add_batch("long", RowBatch(first, ids, {"s": scores}, inputs={"src": [f"text of {i}" for i in ids]}))
    with viewed(tmp_path) as browser:
        last = browser.page("/runs/long?page=3")
        assert "101 to 130 of 130 examples" in last
        assert "line 129" in last
        assert "line 99" not in last
        assert "1 to 50 of 65 examples that match" in browser.page("/runs/long?metric=s&high=0")
        assert ">1 example that matches<" in browser.page("/runs/long?q=text+of+line+77")
        assert "text of line 128" in browser.page("/runs/long/examples/128")


def test_the_page_follows_a_run_that_goes_on(tmp_path):
    with Store(tmp_path, create=True) as store, viewed(tmp_path) as browser:
        page = browser.page("/")
        assert "No runs yet" in page
        assert re.search(r"<pre>lmassay init (\w+)\nlmassay run \1\.yaml --results", page)
        assert "Filter runs" not in page
        with store.lock("r1"):
            add_run(store, "r1", status="running", scores={"a": 1.0, "b": 0.0})
            browser.server.context.folder.forget_snapshot()
            live = browser.live("/live")
            assert "0 of 2" in live["parts"]["runs"]
            assert "running" in live["parts"]["summary"]
            assert '<option value="tiny">' in live["parts"]["filters"]
            run = browser.live("/runs/r1/live")
            assert "Examples appear here" in run["parts"]["examples"]
            store.add_rows("r1", [(0, row("a", 1.0))])
            browser.server.context.folder.forget_snapshot()
            later = browser.live(f"/runs/r1/live?version={run['version']}")
            assert "1 of 2" in later["parts"]["state"]
            assert ">1 example<" in later["parts"]["examples"]
        browser.server.context.folder.forget_snapshot()
        ended = browser.live(f"/runs/r1/live?version={later['version']}")
        assert "The process of this run was killed" in ended["parts"]["state"]
        assert browser.get(f"/runs/r1/live?version={ended['version']}").status_code == 204


def test_a_run_that_was_deleted_says_so_on_its_open_page(tmp_path):
    with viewed(sample_folder(tmp_path)) as browser:
        browser.page(f"/runs/{PLAIN}")
        assert browser.post("/delete", {"run": PLAIN}).status_code == 303
        answer = browser.get(f"/runs/{PLAIN}/live?version=x")
        assert answer.status_code == 404
        assert "It may have been deleted" in answer.json()["problem"]
        assert "It may have been deleted" in browser.get(f"/runs/{PLAIN}").text
        assert browser.get(f"/runs/{PLAIN}/examples/0").status_code == 404


def test_a_damaged_example_is_reported_and_other_runs_work(tmp_path):
    sample_folder(tmp_path)
    with sqlite3.connect(tmp_path / STORE_FILE) as file:
        file.execute("UPDATE rows SET inputs = '{}' WHERE run = ? AND id = 'e2'", (PLAIN,))
    file.close()
    with viewed(tmp_path) as browser:
        page = browser.page(f"/runs/{PLAIN}")
        assert "Damaged: example &#39;e2&#39; is not what lmassay wrote" in page
        assert browser.get(f"/runs/{PLAIN}/examples/1").status_code == 503
        assert ">3 examples<" in browser.page(f"/runs/{UGLY_RUN}")


def test_a_folder_that_cannot_be_read_says_why(tmp_path):
    (tmp_path / STORE_FILE).write_bytes(b"this is not a database" * 100)
    with viewed(tmp_path) as browser:
        assert "is damaged or not an lmassay store" in browser.page("/")
        assert browser.get(f"/runs/{PLAIN}").status_code == 404
        assert browser.get("/report?run=x").status_code == 503


def test_keys_in_use_are_blanked_out(tmp_path, monkeypatch):
    from lmassay import redaction

    with Store(tmp_path, create=True) as store:
        add_run(store, "r1", label="key-0123456789abcdef")
    monkeypatch.setattr(redaction, "_in_use", {"key-0123456789abcdef"})
    with viewed(tmp_path) as browser:
        for path in ("/", "/live", "/runs/r1", "/report?run=r1"):
            assert "key-0123456789abcdef" not in browser.page(path)


def test_an_unknown_address_is_a_page_with_a_way_back(browser):
    answer = browser.get("/nothing/here")
    assert answer.status_code == 404
    assert "There is no such page" in answer.text
    assert 'href="/"' in answer.text


@pytest.mark.parametrize("number", ["9" * 16, str(2**63), "9" * 5000, "-1", "x"])
def test_an_address_with_an_impossible_example_is_not_found(browser, number):
    answer = browser.get(f"/runs/{PLAIN}/examples/{number}")
    assert answer.status_code == 404
    assert "damaged" not in answer.text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems refuse names that are not UTF-8")
def test_a_problem_in_a_folder_whose_name_is_not_utf_8_is_shown_while_the_page_is_open(tmp_path):
    folder = tmp_path / "results-\udcff"
    folder.mkdir()
    (folder / STORE_FILE).write_bytes(b"damaged" * 1000)
    with viewed(folder) as browser:
        answer = browser.get("/runs/gone/live")
    assert answer.status_code == 404
    assert "is damaged or not an lmassay store" in answer.json()["problem"]
