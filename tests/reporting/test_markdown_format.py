"""A report in Markdown: tables that readers of Markdown understand, texts that they leave alone."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markupsafe import Markup

from lmassay.reporting.blocks import Body, Cell, Figure, Figures, Folded, Heading, Note, Table, TableRow, name
from lmassay.reporting.formats.content import Chapter, Picture, chapters
from lmassay.reporting.formats.markdown import escape, markdown
from lmassay.storage.store import Store
from tests.reporting.four_evaluations import ATTACK

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
SIGNS = "ab1 _*`~<>|&;#[]()!\\$-+=.:{}\"'한\n"


def shown(text: str) -> str:
    """What a reader of the rendered text sees."""
    return html.unescape(re.sub(r"<[^>]*>", "", READER.render(text))).strip()


def note(text: str) -> str:
    return markdown([Chapter("t", [Note(text)])]).partition("## t\n\n")[2]


@given(st.text(SIGNS, min_size=1, max_size=30).filter(str.strip))
@example("<script>alert(1)</script>")
@example("[x](javascript:alert(1)) ![y](z) [a]: b")
@example("&lt;b&gt; &#60; &amp;")
@example("1. no list")
@example("- no list")
@example("===")
@example("__init__")
@example("_a__b_ a__b__c")
@example("# no heading")
def test_a_note_is_shown_as_it_is(text):
    assert shown(note(text)) == " ".join(text.split())


@given(st.text(SIGNS, min_size=1, max_size=30).filter(str.strip))
@example("a|b\\|c")
def test_a_cell_is_shown_as_it_is(text):
    table = Table("", [[Cell("x", kind="text"), Cell("y")]], [Body([TableRow([name(text), Cell("1")])])])
    rendered = READER.render(markdown([Chapter("t", [table])]))
    cells = [html.unescape(re.sub(r"<[^>]*>", "", c)) for c in re.findall(r"<td[^>]*>(.*?)</td>", rendered)]
    assert cells == [" ".join(text.split()), "1"]


def test_signs_that_turn_the_writing_are_left_out():
    assert escape("a\u202eb\u202c\x1b[31m") == "ab [31m"


def test_heads_above_several_columns_stand_in_each_of_them():
    heads = [[Cell("", kind="text"), Cell("model", span=2)], [Cell("what", kind="text"), Cell("MW"), Cell("EW")]]
    lines = [TableRow([name("one", "small"), Cell("0.5", ("[0.4, 0.6]",)), Cell("")]), TableRow([name("all")], "total")]
    text = markdown([Chapter("t", [Table("Said of it.", heads, [Body(lines)])])])
    assert text.endswith(
        "| what | model<br>MW | model<br>EW |\n| --- | ---: | ---: |\n"
        "| one<br>small | 0.5<br>[0.4, 0.6] |  |\n| **all** |  |  |\n\nSaid of it.\n"
    )


def test_what_the_page_folds_is_folded():
    text = markdown([Chapter("t", [Folded("a <b>", [Heading("inside")])])])
    assert "<details><summary>a &lt;b&gt;</summary>\n\n### inside\n\n</details>" in text


def test_figures_are_shown_where_there_are_files(four):
    figure = Figure("<svg/>", "Said [of] it.")
    assert "![" not in markdown([Chapter("t", [Figures([figure])])])
    text = markdown([Chapter("t", [Figures([figure])])], {"<svg/>": Picture("a folder/b.svg", "what [it] is")})
    assert "![what \\[it\\] is](a%20folder/b.svg)\n\nSaid [of] it." in text


@pytest.fixture(scope="module")
def report(four):
    with Store(four) as store:
        return markdown(chapters(store, store.runs()))


def test_all_four_evaluations_are_in_it_with_their_numbers(report):
    assert re.findall(r"^## (.*)", report, flags=re.MULTILINE)[-5:] == [
        "robustness",
        "syntax",
        "bias",
        "fewshot",
        "Runs",
    ]
    rendered = READER.render(report)
    assert rendered.count("<table>") == len(re.findall(r"^\| --- ", report, flags=re.MULTILINE)) > 15
    assert "ambiguous contexts<br>accuracy" in report
    assert "Signature: lmassay:" in report


def test_names_stay_names(report):
    rendered = READER.render(report)
    assert html.escape(ATTACK, quote=False).replace('"', "&quot;") in rendered
    assert "<script" not in rendered
    assert not re.search(r"<(b|i|em|del|code)>", rendered)


FIGURE = Figures([Figure(Markup("<svg></svg>"), "A caption.")])


def test_a_heading_over_a_figure_without_a_file_is_left_out_with_the_note_that_explains_it():
    blocks = [
        Heading("Curves"),
        Note("Blue is better.", explains_figures=True),
        FIGURE,
        Heading("Numbers"),
        Note("The end."),
        FIGURE,
    ]
    text = markdown([Chapter("t", blocks)])
    assert "Curves" not in text
    assert "Blue" not in text
    assert text.endswith("### Numbers\n\nThe end.\n")


def test_a_heading_over_a_figure_with_a_file_stays():
    pictures = {FIGURE.figures[0].drawing: Picture("figure.svg", "a picture")}
    text = markdown(
        [Chapter("t", [Heading("Curves"), Note("Blue is better.", explains_figures=True), FIGURE])], pictures
    )
    assert "### Curves\n\nBlue is better.\n\n![a picture](figure.svg)\n\nA caption." in text
