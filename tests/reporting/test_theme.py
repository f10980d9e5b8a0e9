"""The colours of all pages: texts, controls and marks stand out from their backgrounds (WCAG 2.2, level AA)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from lmassay.reporting.figure_style import parse_style_sheet

TEXT_CONTRAST = 4.5
MARK_CONTRAST = 3.0
TEXTS = ("--ink", "--soft", "--link", "--warn")
MARKS = ("--border", "--hit", "--miss", "--heat-high", "--heat-low")
SERIES = [*(f"--s{i}" for i in range(5)), *(f"--muted{i}" for i in range(10)), *(f"--bright{i}" for i in range(7))]
FILLED = ("hit", "miss", "share", "toward", "against")
"""Classes of dots and bars that are a little transparent, so that those behind them can be seen."""


def style(name: str) -> str:
    return files("lmassay.reporting").joinpath(f"templates/{name}").read_text(encoding="utf-8")


def theme(name: str) -> dict[str, str]:
    """The variables of the light or the dark theme; what the dark one does not set is as in the light one."""
    text = style("theme.css")
    variables = dict(parse_style_sheet(text).variables)
    # Figures in files have a white background; on the page it is that of a panel.
    variables["--card"] = re.search(r"--card: (#\w+)", text)[1]
    if name == "dark":
        dark_parts = re.findall(r"@media \(prefers-color-scheme: dark\) \{\s*(:root \{.*?\})\s*\}", text, re.DOTALL)
        assert dark_parts
        for part in dark_parts:
            variables.update(re.findall(r"(--[\w-]+): (#\w+)", part))
    return variables


def channels(colour: str) -> list[float]:
    digits = colour.removeprefix("#")
    return [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]


def luminance(rgb: list[float]) -> float:
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, background: str, opacity: float = 1.0) -> float:
    """The contrast of a colour that is drawn on a background, by the formula of WCAG 2."""
    behind = channels(background)
    blended = [opacity * c + (1 - opacity) * b for c, b in zip(channels(colour), behind, strict=True)]
    lighter, darker = sorted([luminance(blended), luminance(behind)], reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_formula_gives_the_known_extremes():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == 1


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_stand_out_from_every_background(name):
    variables = theme(name)
    for text in TEXTS:
        for background in ("--page", "--card", "--chosen"):
            assert contrast(variables[text], variables[background]) >= TEXT_CONTRAST, (text, background)
    assert contrast(variables["--ink"], variables["--mark"]) >= TEXT_CONTRAST, "a search hit"


@pytest.mark.parametrize("name", ["light", "dark"])
def test_marks_of_figures_and_borders_of_controls_stand_out(name):
    variables = theme(name)
    for mark in (*MARKS, *SERIES):
        for background in ("--page", "--card"):
            assert contrast(variables[mark], variables[background]) >= MARK_CONTRAST, (mark, background)


@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize("drawn", FILLED)
def test_transparent_dots_and_bars_stand_out(name, drawn):
    variables = theme(name)
    rule = re.search(rf"\.{drawn} \{{ fill: var\((--\w+)\); fill-opacity: ([\d.]+); \}}", style("page.css"))
    assert contrast(variables[rule[1]], variables["--card"], float(rule[2])) >= MARK_CONTRAST


def test_no_other_sheet_has_colours():
    for name in ("page.css", "figures.css", "tiles.css"):
        assert re.findall(r"#[0-9a-f]{3,8}\b", style(name)) == [], name
