"""The tiles of the overview in a real browser: rows are full, and no tile is left alone, however many there are."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from lmassay.reporting.blocks import Tile, TileEntry, Tiles
from lmassay.reporting.html_document import document, environment
from tests.browser.reader import Reader

# The left and right edge of each tile by row, relative to the box around all tiles.
MEASURE = """
const around = document.querySelector(".tiles").getBoundingClientRect();
const rows = {};
for (const tile of document.querySelectorAll(".tile")) {
  const box = tile.getBoundingClientRect();
  (rows[Math.round(box.top)] ??= []).push([box.left - around.left, around.right - box.right]);
}
return Object.values(rows);
"""


def page(count: int) -> str:
    entry = TileEntry("model", "0.500", "[0.400, 0.600]", "100 examples")
    tiles = [Tile(f"Question {number}?", "accuracy", [entry], "What it means.", "", "") for number in range(count)]
    return document("tiles", Markup("<main>{}</main>").format(environment().globals["show"](Tiles(tiles))))


@pytest.mark.parametrize(("width", "most"), [(390, 1), (800, 2), (1280, 4)])
@pytest.mark.parametrize("count", range(1, 13))
def test_rows_of_tiles_are_full_and_no_tile_is_left_alone_on_a_wide_screen(chromium, tmp_path, count, width, most):
    (tmp_path / "page.html").write_text(page(count), encoding="utf-8")
    reader = Reader(chromium, (tmp_path / "page.html").as_uri())
    reader.open()
    reader.resize(width)
    rows = reader.js(MEASURE)
    assert sum(map(len, rows)) == count
    for row in rows:
        assert len(row) <= most
        assert row[0][0] == pytest.approx(0, abs=1)
        assert row[-1][1] == pytest.approx(0, abs=1)
    if width == 1280 and count > 1:
        assert min(map(len, rows)) > 1
