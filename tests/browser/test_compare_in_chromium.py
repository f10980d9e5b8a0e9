"""The page of a comparison in a real browser: hostile texts stay texts, and a telephone can read it."""

from __future__ import annotations

import json

import pytest

from lmassay.cli import main
from lmassay.types import Example, Row, Score
from tests.browser.many_rows import HOSTILE
from tests.browser.reader import Reader
from tests.compare_kit import add

TEXTS = [text for text in HOSTILE if "\ud800" not in text]


def rows(value: float) -> list[Row]:
    """One example for each hostile text, which is its id, its group, its question and its answer."""
    return [
        Row(
            Example(f"{number} {text}", {"question": text}, None, {text: text}),
            "scored",
            Score({TEXTS[0]: value, "accuracy": value}, {}, {"answer": f"{text} {value}"}),
        )
        for number, text in enumerate(TEXTS * 2)
    ]


@pytest.fixture(scope="module")
def reader(chromium, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for run, value in (("base", 1.0), ("new", 0.0)):
        add(folder, run, rows(value), model=f"{TEXTS[2]} {run}", label=TEXTS[1], headline=[TEXTS[0], "accuracy"])
    page = folder / "compare.html"
    condition = f"{TEXTS[0]}<-0.02"
    with pytest.raises(SystemExit) as stop:
        main(["compare", "base", "new", "--results", str(folder), "-o", str(page), "--fail-if", condition])
    assert stop.value.code == 1
    opened_page = Reader(chromium, page.as_uri())
    opened_page.open()
    return opened_page


def test_hostile_texts_of_a_comparison_are_shown_and_do_nothing(reader, chromium):
    reader.js("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    text = reader.js("return document.body.textContent")
    for hostile in TEXTS[:5]:
        assert hostile in text
    assert reader.js("return window.injected") is None
    assert reader.js("return document.querySelectorAll('img, iframe, object, embed, link, svg[onload]').length") == 0
    assert reader.js("return document.scripts.length") == 1
    assert reader.js("return window.stopped") == []
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert asked == {reader.url}


def test_a_telephone_shows_the_figure_large_enough_to_read_and_every_column_has_a_head(reader):
    reader.resize(390)
    assert reader.js("return document.documentElement.scrollWidth") <= 390
    sizes = reader.js(
        "return [...document.querySelectorAll('svg')].map((s) => 12 * s.getBoundingClientRect().width"
        " / s.viewBox.baseVal.width)"
    )
    assert sizes
    assert min(sizes) >= 10
    heads = "return [...document.querySelectorAll('#what-is-compared thead th')].map((cell) => cell.textContent.trim())"
    assert "role" in reader.js(heads)
    assert "" not in reader.js(heads)
