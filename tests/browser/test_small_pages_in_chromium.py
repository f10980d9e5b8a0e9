"""Small pages in a real browser: what the table shows of a text, and what is said where nothing can be shown."""

from __future__ import annotations

import pytest

from lmassay.reporting.blocks import Body, Cell, Table, TableRow, header_row, name
from lmassay.reporting.browser import BrowserRow, browser
from lmassay.reporting.html_document import document, environment
from tests.browser.reader import Reader

ASK = "Read the passage and answer with one letter.\nPassage: "


def question(number: int, text: str) -> BrowserRow:
    texts = [("prompt", f"{ASK}{text}"), ("answer (length)" if number % 2 else "answer", f"reply {number}")]
    return BrowserRow("a run", "own", f"id {number}", "scored", {}, {"id": float(-number), "good": 0.5}, texts)


@pytest.fixture
def small(chromium, tmp_path):
    """Opens a page of three questions, written as ``change`` has it."""

    def opened(change=lambda page: page) -> Reader:
        rows = [question(number, text) for number, text in enumerate(["the boy", "a letter", "the box"])]
        (tmp_path / "page.html").write_text(change(document("small", browser(rows), browser=True)), encoding="utf-8")
        reader = Reader(chromium, (tmp_path / "page.html").as_uri())
        reader.open()
        return reader

    return opened


def test_the_instructions_that_all_prompts_share_are_left_out_of_the_table(small):
    reader = small()
    reader.come_to_examples()
    assert reader.column("text") == ["… the boy", "… a letter", "… the box"]
    assert ASK in reader.choose(0)
    reader.sort("text")
    assert reader.column("text") == ["… a letter", "… the box", "… the boy"]


def test_a_text_that_begins_like_the_one_above_shows_where_they_differ(chromium, tmp_path):
    story = "The pensioner and the student were waiting at the counter of the library on a rainy day."
    rows = [question(0, f"{story} Who was late?"), question(1, f"{story} Who was early?"), question(2, "a bell")]
    (tmp_path / "page.html").write_text(document("small", browser(rows), browser=True), encoding="utf-8")
    reader = Reader(chromium, (tmp_path / "page.html").as_uri())
    reader.open()
    reader.come_to_examples()
    assert reader.column("text") == [f"… {story} Who was late?", "… The pensioner and … early?", "… a bell"]


def test_a_table_that_goes_on_has_a_shadow_at_its_edge_but_not_in_print(chromium, tmp_path):
    header = header_row(["run"], [f"metric {number}" for number in range(12)])
    wide = Table("", [header], [Body([TableRow([name("a" * 60), *[Cell("-0.1234")] * 12])])])
    body = environment().get_template("blocks.html").module.show(wide)
    (tmp_path / "page.html").write_text(document("wide", body), encoding="utf-8")
    reader = Reader(chromium, (tmp_path / "page.html").as_uri())
    reader.open()
    reader.resize(390)
    scroller = "document.querySelector('.scroll')"
    assert reader.js(f"return {scroller}.scrollWidth > {scroller}.clientWidth")
    background = f"return getComputedStyle({scroller}).backgroundImage"
    assert reader.js(background).count("linear-gradient") == 2
    label = "document.querySelector('tbody th .clip')"
    assert reader.js(f"return {label}.title") == "a" * 60
    assert "−0.1234" in reader.js("return document.querySelector('td').textContent")
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert reader.js(background) == "none"
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_names_of_paradigms_break_only_between_their_words_on_a_phone(chromium, tmp_path):
    names = ["reflexive_sentential_complement", "determiner_adjective_noun", "모호한 맥락에서의 편향과 일관성"]
    cells = [Cell("0.1234", ["[0.1000, 0.2000]"])] * 4
    header = header_row(["paradigm"], [f"metric {number}" for number in range(4)])
    table = Table("a caption", [header], [Body([TableRow([name(text), *cells], "part") for text in names])])
    body = environment().get_template("blocks.html").module.show(table)
    (tmp_path / "page.html").write_text(document("names", body), encoding="utf-8")
    reader = Reader(chromium, (tmp_path / "page.html").as_uri())
    reader.open()
    reader.resize(390)
    # A word that is in two lines has two rectangles.
    broken = reader.js("""
        const broken = [];
        for (const cell of document.querySelectorAll("tbody th")) {
          for (const node of cell.childNodes) {
            for (const word of (node.textContent ?? "").matchAll(/\\S+/g)) {
              const range = document.createRange();
              range.setStart(node, word.index);
              range.setEnd(node, word.index + word[0].length);
              if (range.getClientRects().length > 1) broken.push(word[0]);
            }
          }
        }
        return broken;
    """)
    assert broken == []
    # Names in running text may be longer than a line.
    long = "a" * 80
    reader.js(f"document.body.insertAdjacentHTML('beforeend', '<p>{long}</p><h3>{long}</h3><p class=note>{long}</p>')")
    assert reader.js("return document.documentElement.scrollWidth") == 390
    # The names do need several lines, so they could have been broken.
    assert reader.js("return document.querySelector('tbody th').getBoundingClientRect().height > 40")
    # The shadow at the edge does not darken the caption.
    assert (
        reader.js("return getComputedStyle(document.querySelector('caption')).backgroundColor") == "rgb(255, 255, 255)"
    )


def test_on_a_phone_the_number_of_a_score_with_a_long_name_is_shown(chromium, tmp_path):
    scores = {"accuracy": 1.0, "accuracy_of_all_sentences_by_token": 0.2345, "ooc_reference": 0.5}
    row = BrowserRow("a run", "own", "id 1", "scored", {}, scores, [("prompt", "the boy")])
    (tmp_path / "page.html").write_text(document("small", browser([row]), browser=True), encoding="utf-8")
    reader = Reader(chromium, (tmp_path / "page.html").as_uri())
    reader.open()
    reader.resize(390)
    reader.come_to_examples()
    cut = """
        return [...document.querySelectorAll(".rows td.score")].filter((cell) => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return range.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1;
        }).map((cell) => cell.dataset.title);
    """
    assert reader.js("return document.querySelectorAll('.rows td.score').length") == 3
    assert reader.js(cut) == []
    # A table of one row is not as high as one of many.
    assert reader.js("return document.querySelector('.rows').clientHeight < 200")


def test_long_names_of_runs_are_told_apart_in_the_table(chromium, tmp_path):
    runs = ["reviews my_method.py:SharedWords, power=1", "reviews my_method.py:SharedWords, power=2"]
    rows = [BrowserRow(run, "own", "id 1", "scored", {}, {"acc": 1.0}, [("prompt", "the boy")]) for run in runs]
    (tmp_path / "page.html").write_text(document("small", browser(rows), browser=True), encoding="utf-8")
    reader = Reader(chromium, (tmp_path / "page.html").as_uri())
    reader.open()
    reader.come_to_examples()
    assert reader.column("run") == runs
    cells = "[...document.querySelectorAll('.rows td.run')]"
    assert reader.js(f"return {cells}.map((cell) => cell.scrollWidth <= cell.clientWidth)") == [True, True]
    is_whole = "cell.firstChild.scrollHeight <= cell.firstChild.clientHeight + 1"
    assert reader.js(f"return {cells}.map((cell) => {is_whole})") == [True, True]


def test_answers_stand_beside_the_texts_whole_or_cut(small):
    reader = small()
    reader.come_to_examples()
    assert reader.column("answer") == ["reply 0", "reply 1", "reply 2"]


def test_the_message_of_an_error_takes_the_place_of_the_answer(chromium, tmp_path):
    failed = BrowserRow("a run", "own", "id 3", "error", {}, {}, [("prompt", f"{ASK}a bell"), ("error", "HTTP 503")])
    page = document("small", browser([question(0, "the boy"), failed]), browser=True)
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    reader = Reader(chromium, (tmp_path / "page.html").as_uri())
    reader.open()
    reader.come_to_examples()
    assert reader.column("answer") == ["reply 0", "HTTP 503"]


def test_a_score_that_is_called_like_a_column_sorts_by_itself(small):
    reader = small()
    reader.come_to_examples()
    reader.js("[...document.querySelectorAll('.rows thead .score button')].find((b) => b.textContent === 'id').click()")
    assert reader.column("id") == ["id 2", "id 1", "id 0"]
    assert reader.js("return document.querySelectorAll('[aria-sort=ascending]').length") == 1


def test_a_page_that_was_cut_off_says_so(small):
    reader = small(lambda page: page.replace("</script>", "AAAA</script>", 1).replace('gzip">H4sI', 'gzip">H4sIAAAA'))
    reader.open_examples()
    reader.until("document.querySelector('.count').textContent.includes('cannot be read')")


def test_a_browser_that_cannot_unpack_says_what_to_do(chromium, small):
    script = {"source": "delete window.DecompressionStream"}
    added = chromium.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        reader = small()
        reader.open_examples()
        reader.until("document.querySelector('.count').textContent.includes('too old to unpack')")
        assert "lmassay export RUN" in reader.count
    finally:
        chromium.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def test_without_scripts_the_page_says_where_the_examples_are(chromium, small):
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        small()
        chromium.find_element("css selector", "#examples summary").click()
        assert "lmassay export RUN" in chromium.find_element("css selector", "noscript").text
        assert not chromium.find_element("css selector", ".controls").is_displayed()
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_browser_is_left_out_in_print(chromium, small):
    reader = small()
    reader.come_to_examples()
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert reader.js("return getComputedStyle(document.querySelector('.browser')).display") == "none"
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
