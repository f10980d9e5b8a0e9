"""The style of the view: its colours are those of the report, whose contrast is tested there."""

from __future__ import annotations

import re
from importlib.resources import files


def test_the_style_sheet_has_no_colours_of_its_own():
    style = files("lmassay.view").joinpath("static/view.css").read_text(encoding="utf-8")
    assert re.findall(r"#[0-9a-f]{3,8}\b|rgba?\(|hsl|: *(?:red|green|blue|white|black|gr[ae]y)\b", style) == []
    theme = files("lmassay.reporting").joinpath("templates/theme.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\((--[\w-]+)\)", style))
    assert used
    assert used <= set(re.findall(r"(--[\w-]+):", theme))
