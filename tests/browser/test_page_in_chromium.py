"""The page in a real browser: 50,000 rows, some hostile, are sorted, filtered, searched, opened; nothing leaves."""

from __future__ import annotations

import json
import time

import pytest

from tests.browser.many_rows import HOSTILE, MANY, fill, page
from tests.browser.reader import ROWS, Reader

SURROGATE = "\ud800"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    fill(folder)
    (folder / "page.html").write_text(page(folder), encoding="utf-8")
    return (folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def opened(chromium, url):
    reader = Reader(chromium, url)
    reader.open()
    reader.come_to_examples()
    return reader


@pytest.fixture
def reader(opened):
    opened.js("document.querySelector('.controls').reset()")
    opened.until("document.querySelector('.count').textContent.startsWith('50,000 of 50,000')")
    return opened


def test_a_page_of_50000_rows_opens_before_its_examples_are_read(chromium, url):
    reader = Reader(chromium, url)
    reader.open()
    assert reader.js("return document.querySelector('#examples').dataset.ready") is None


def test_a_link_opens_the_section_that_it_leads_to(chromium, url):
    reader = Reader(chromium, url)
    reader.open()
    assert reader.js("return document.querySelectorAll('main details.section[open]').length") == 0
    reader.js("document.querySelector('nav a[href=\"#provenance\"]').click()")
    reader.until("document.querySelector('#provenance').closest('details').open")
    last = "document.documentElement.scrollHeight - innerHeight - scrollY < 2"
    assert reader.js(f"return document.querySelector('#provenance').getBoundingClientRect().top < 160 || {last}")
    reader.open("#evaluation-bias")
    reader.until("document.querySelector('#evaluation-bias').closest('details').open")
    assert reader.js("return document.querySelector('#examples').dataset.ready") is None, "not opened, so not read"


def test_two_buttons_open_and_close_all_sections(chromium, url):
    reader = Reader(chromium, url)
    reader.open()
    open_sections = "document.querySelectorAll('main details.section[open]').length"
    reader.js("document.querySelector('[data-open=true]').click()")
    assert reader.js(f"return {open_sections} === document.querySelectorAll('main details.section').length")
    reader.js("document.querySelector('[data-open=false]').click()")
    assert reader.js(f"return {open_sections}") == 0


def test_an_address_shows_a_search_and_the_back_button_returns_to_the_one_before(chromium, url):
    reader = Reader(chromium, url)
    reader.open(
        "#examples?state=error&run=bias+%3C%2Fscript%3E%3Cscript%3Ewindow.injected+%3D+2%3C%2Fscript%3E+on+a+plain+model"
    )
    reader.until("document.querySelector('#examples').dataset.ready === 'true'")
    assert reader.count == "250 of 50,000 shown"
    reader.set("kind", "category")
    reader.set("value", "category 3")
    narrowed = reader.count
    assert reader.fragment.endswith("&kind=category&value=category 3")
    reader.sort("ooc")
    assert reader.fragment.endswith("&sort=ooc")
    reader.choose(1)
    example = reader.opened_example
    assert reader.fragment.endswith(f"&row={example}")
    address = str(reader.js("return location.hash"))
    for _ in range(3):
        reader.js("history.back()")
        time.sleep(0.05)
    reader.until("!location.hash.includes('value')")
    # The table follows the address, on a busy machine after a while.
    reader.until("document.querySelector('.count').textContent.startsWith('250 of 50,000 shown')")
    assert reader.opened_example is None
    reader.open(address)
    reader.until("document.querySelector('#examples').dataset.ready === 'true'")
    assert reader.count.startswith(narrowed)
    assert reader.opened_example == example


def test_every_answer_is_measured_by_the_page_itself(reader):
    """benchmarks/page.py reports how long they take."""
    reader.js("performance.clearMeasures()")
    for title in ("id", "text"):
        reader.sort(title)
    reader.set("state", "scored")
    reader.set("search", "winter letter")
    assert len(reader.milliseconds()) >= 4


def test_all_rows_are_there_but_few_of_them_are_drawn(reader):
    assert reader.count == f"{MANY:,} of {MANY:,} shown"
    assert 10 < reader.js(f"return document.querySelectorAll('{ROWS}').length") < 80
    reader.js("document.querySelector('.rows').scrollTop = 1e9")
    reader.until(f"[...document.querySelectorAll('{ROWS}')].pop().getAttribute('aria-rowindex') === '{MANY + 1}'")


def test_a_click_on_a_head_sorts_upwards_downwards_and_back(reader):
    before = reader.column("id")
    reader.set("task", "robustness")
    reader.sort("s_src")
    upwards = [float(text) for text in reader.column("s_src")]
    assert upwards == sorted(upwards)
    assert reader.js("return document.querySelector('[aria-sort=ascending]').textContent") == "s_src"
    reader.sort("s_src")
    downwards = [float(text) for text in reader.column("s_src")]
    assert downwards == sorted(downwards, reverse=True)
    assert downwards[0] > 0.99 > 0.01 > upwards[0]
    reader.sort("s_src")
    reader.set("task", "all")
    assert reader.column("id") == before


def test_numbers_in_ids_sort_as_numbers_and_rows_without_a_score_come_last(reader):
    reader.set("task", "robustness")
    reader.sort("id")
    assert reader.column("id")[8:11] == ["9-s", "10-s", "11-s"]
    reader.set("task", "bias")
    for _ in range(2):
        reader.sort("ooc")
        assert "" not in reader.column("ooc")
    reader.js("document.querySelector('.rows').scrollTop = 1e9")
    reader.until(f"[...document.querySelectorAll('{ROWS}')].pop().className === 'failed'")


def test_filters_narrow_each_other(reader):
    reader.set("state", "error")
    assert reader.count == "500 of 50,000 shown"
    reader.set("run", "bias </script><script>window.injected = 2</script> on a plain model")
    assert reader.count == "250 of 50,000 shown"
    reader.set("kind", "category")
    reader.set("value", "category 3")
    assert 0 < int(reader.count.split()[0]) < 60


def test_a_search_looks_into_prompts_answers_ids_and_groups(reader):
    reader.set("search", '"answer 4321"')
    assert reader.count.startswith("2 of")
    reader.set("search", '"answer 4321" plain')
    assert reader.count.startswith("1 of")
    reader.set("search", "q-777")
    assert set(reader.column("id")[:2]) == {"q-777", "q-7770"}
    reader.set("search", "no such words anywhere")
    assert reader.count == "0 of 50,000 shown"


def test_a_row_opens_with_all_its_texts_and_what_was_searched_is_marked(reader):
    reader.set("search", '"answer 4242"')
    text = reader.choose(0)
    for part in ("q-4242", "context", "question", "answer 4242", "read as", "A: one", "right: A: one", "accuracy_amb"):
        assert part in text
    assert "answer 4242" in reader.js("return [...document.querySelectorAll('.detail mark')].map((m) => m.textContent)")
    reader.set("search", "q-47")
    assert "the server is on fire" in reader.choose(0)


def test_everything_can_be_done_with_keys(reader):
    from selenium.webdriver.common.keys import Keys

    reader.js("document.activeElement.blur()")
    reader.press("/")
    assert reader.js("return document.activeElement.name") == "search"
    reader.press("q-47", Keys.ENTER)
    assert reader.js("return document.activeElement.matches('.rows table')")
    reader.until("document.querySelector('.count').textContent.startsWith('222 of')")
    reader.press("j", Keys.ARROW_DOWN, "k")
    assert reader.opened_example is None, "moving opens nothing"
    current = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    assert reader.js(f"return {current}.matches('.cursor')")
    reader.press(Keys.ENTER)
    opened = reader.opened_example
    assert reader.js(f"return {current}.querySelector('th').textContent") == opened
    reader.press("j")
    assert reader.opened_example not in (None, opened), "an open example follows"
    reader.press(Keys.END)
    assert reader.js(f"return {current}.getAttribute('aria-rowindex')") == "223"
    reader.press(Keys.ESCAPE)
    assert reader.opened_example is None


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_shown_as_text(reader, text):
    reader.set("search", f'"{text.partition(SURROGATE)[0]}"')
    shown = text.replace("\x00", "\u2400").replace("\x1b", "\u241b").replace(SURROGATE, "\ufffd")
    assert shown in reader.choose(0)


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_the_page_never_scrolls_sideways(reader, width):
    reader.resize(width)
    reader.choose(2)
    assert reader.js("return innerWidth") == width
    assert reader.js("return document.documentElement.scrollWidth") <= width


def test_nothing_of_the_data_ran_and_nothing_left_the_page(chromium, url, reader):
    """The last test of the module: it looks at the page that all before it have worked on, without opening it again."""
    for text in HOSTILE:
        reader.set("search", f'"{text.partition(SURROGATE)[0]}"')
        reader.choose(0)
    assert reader.js("return window.injected") is None
    assert reader.js("return document.querySelectorAll('img, iframe, object, embed, link, svg[onload]').length") == 0
    assert reader.js("return document.scripts.length") == 1
    assert reader.js("return window.stopped") == []
    assert [entry for entry in chromium.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert asked == {url}
    assert not [m for m in messages if m["method"] == "Network.webSocketCreated"]
