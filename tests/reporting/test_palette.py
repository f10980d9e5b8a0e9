"""The colours of figures: series can be told apart with any kind of colour vision, and without colour."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from lmassay.reporting.chart import MAX_SERIES
from lmassay.reporting.figure_style import page_style_sheet

# How protanopes, deuteranopes and tritanopes see linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.
VISION = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
JUST_NOTICEABLE = 2.3
"""In CIELAB. Marks that lie apart on paper need a multiple of it."""


def linear(colour: str) -> list[float]:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]


def lab(rgb: list[float]) -> tuple[float, float, float]:
    """CIELAB of linear RGB, with the white of D65."""
    red, green, blue = rgb
    xyz = (
        (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047,
        0.2126729 * red + 0.7151522 * green + 0.0721750 * blue,
        (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883,
    )
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, vision: str) -> tuple[float, float, float]:
    rgb = linear(colour)
    mixed = [sum(share * value for share, value in zip(row, rgb, strict=True)) for row in VISION[vision]]
    return lab([min(max(value, 0.0), 1.0) for value in mixed])


def distance(first: str, second: str, vision: str) -> float:
    pairs = zip(seen(first, vision), seen(second, vision), strict=True)
    return sum((a - b) ** 2 for a, b in pairs) ** 0.5


def series(style: str) -> list[str]:
    variables = page_style_sheet(style).variables
    return [variables[f"--s{number}"] for number in range(MAX_SERIES)]


def test_the_formulas_give_known_distances():
    assert seen("#ffffff", "usual") == pytest.approx((100, 0, 0), abs=0.05)
    assert distance("#ff0000", "#00ff00", "usual") == pytest.approx(170.6, abs=0.2)
    # Red and a dark yellow green look alike without red cones.
    assert distance("#a00000", "#404000", "protanopia") < distance("#a00000", "#404000", "usual") / 3


@pytest.mark.parametrize("vision", VISION)
def test_series_colours_differ_with_every_kind_of_colour_vision(vision):
    for first, second in combinations(series("colour"), 2):
        assert distance(first, second, vision) > 6 * JUST_NOTICEABLE, (first, second)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize(("first", "second"), [("--hit", "--miss"), ("--hit", "--s2"), ("--heat-high", "--heat-low")])
def test_opposites_differ_with_every_kind_of_colour_vision(vision, first, second):
    variables = page_style_sheet().variables
    assert distance(variables[first], variables[second], vision) > 6 * JUST_NOTICEABLE


def test_greys_of_series_differ_in_lightness():
    lightness = sorted(lab(linear(colour))[0] for colour in series("grey"))
    assert min(high - low for low, high in pairwise(lightness)) > 5 * JUST_NOTICEABLE


def test_grey_figures_have_no_colour_at_all():
    for name, value in page_style_sheet("grey").variables.items():
        is_used_in_figures = name.startswith(("--s", "--muted", "--bright", "--heat", "--hit", "--miss", "--region"))
        if value.startswith("#") and is_used_in_figures:
            assert value[1:3] == value[3:5] == value[5:7], name
