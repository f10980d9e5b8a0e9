"""The heat map: a number in every cell, a colour that says on which side of a half it is, room for long names."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from lmassay.evaluations.syntax.report import section
from lmassay.evaluations.syntax.report.heatmap import HeatRow, HeatValue, heat_map
from lmassay.reporting.blocks import Figures
from lmassay.storage.store import Store
from tests.reporting.small_runs import run, two_constructions


def drawn(*rows: HeatRow, columns: tuple[str, ...] = ("MW",)) -> str:
    return str(heat_map(columns, rows, "what it shows").svg())


def cells(text: str) -> list[tuple[str, str, float]]:
    """Title, text and how strongly it is coloured, with its side."""
    drawn_cells = []
    for group in ET.fromstring(text).iter("g"):
        shade = group.findall("rect")[-1]
        strength = float(shade.get("fill-opacity", "0"))
        sign = {"heat-high": 1, "heat-low": -1}.get(shade.get("class", ""), 0)
        drawn_cells.append((group.findtext("title"), group.findtext("text"), sign * strength))
    return drawn_cells


def test_a_cell_has_its_number_and_the_further_from_a_half_the_stronger_its_colour():
    row = HeatRow("row", [HeatValue(value, "title") for value in (0.0, 0.25, 0.5, 0.75, 1.0)])
    drawn_cells = cells(drawn(row, columns=tuple("abcde")))
    assert [text for _, text, _ in drawn_cells] == ["0.00", "0.25", "0.50", "0.75", "1.00"]
    strengths = [strength for *_, strength in drawn_cells]
    assert strengths == sorted(strengths)
    assert strengths[2] == 0
    assert strengths[0] == -strengths[4]


def test_what_was_not_measured_and_what_rests_on_little_is_reported():
    values = [None, HeatValue(None, "no data (n = 0)"), HeatValue(0.5, "few", has_few_contexts=True)]
    drawn_cells = cells(drawn(HeatRow("row", values), columns=("a", "b", "c")))
    assert [(title, text) for title, text, _ in drawn_cells] == [
        ("not measured", "–"),
        ("no data (n = 0)", "–"),
        ("few", "0.50*"),
    ]


def test_names_are_escaped_and_long_ones_are_clipped_inside_the_drawing():
    text = drawn(HeatRow("<b>" * 40, [HeatValue(0.5, "<i>")]), columns=("a model with a name & more than that",))
    assert "<b>" not in text
    root = ET.fromstring(text)
    width, height = map(float, root.get("viewBox").split()[2:])
    for shape in root.iter("rect"):
        assert float(shape.get("x")) + float(shape.get("width")) <= width
        assert float(shape.get("y")) + float(shape.get("height")) <= height
    assert "…" in text


def test_the_syntax_section_has_a_map_of_constructions_by_model(tmp_path):
    run(tmp_path, two_constructions(tmp_path), {"label": "first"}, {"label": "second one"})
    with Store(tmp_path / "results") as store:
        shown = section.section(store, store.runs())
    maps = [f for b in shown.blocks if isinstance(b, Figures) for f in b.figures if "constructions by" in f.caption]
    assert [figure.caption.partition(":")[0] for figure in maps] == ["MW", "EW", "TSE"]
    titles = re.findall(r"<title>([^<]*)</title>", maps[0].drawing)
    assert any(re.fullmatch(r"first, Across: 0\.\d{3} \[.*\], n = 6", text) for text in titles)
    assert any(text.startswith("second one, mean of constructions: 0.") for text in titles)
