"""Legends: as many columns as fit, and whole names where they are wanted."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from lmassay.reporting.chart import Dot, LegendEntry
from lmassay.reporting.chart.legend import Legend

LONG = "a name that is a good deal longer than a line of the legend can be, and then some more"


def texts(legend: Legend) -> list[ET.Element]:
    return list(ET.fromstring(f"<svg>{legend.draw(0, 0)}</svg>").iter("text"))


def keys(*names: str) -> list[LegendEntry]:
    return [LegendEntry(name, [Dot(0.5, 0.5)]) for name in names]


def test_short_names_stand_side_by_side():
    labels = texts(Legend(keys("one", "two", "three"), 300))
    assert len({text.get("y") for text in labels}) == 1
    assert len({text.get("x") for text in labels}) == 3


def test_long_names_stand_below_each_other_and_are_wrapped():
    labels = texts(Legend(keys("one", "a name that is longer than a line of the legend"), 260))
    assert len({text.get("x") for text in labels}) == 1
    assert labels[1].find("tspan") is not None


def test_names_are_cut_after_two_lines_unless_they_are_to_be_whole():
    (cut,), (whole,) = (texts(Legend(keys(LONG), 200, lines=lines)) for lines in (2, None))
    assert cut.findtext("title") == LONG
    assert whole.find("title") is None
    assert " ".join(whole.itertext()) == LONG


def test_the_height_holds_all_rows():
    legend = Legend(keys("one", LONG, "three"), 200, lines=None)
    lowest = 0.0
    for text in texts(legend):
        lowest = max(lowest, float(text.get("y")) + 15 * len(text.findall("tspan")))
    assert lowest < legend.height
