"""SVG elements as escaped markup.

Shapes carry classes, and the style sheets of the page (``templates/*.css``) give classes their colours, so one drawing
serves the light page, the dark page and print. The page's policy allows no ``style`` attributes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from markupsafe import Markup, escape

from lmassay.reporting.chart.text import LINE_HEIGHT, TextBlock, drawable

Anchor = Literal["start", "middle", "end"]


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """Return an SVG element; children that are plain text are escaped, markup is not.

    Attributes that are None or empty are left out. ``class_`` is written as ``class``, and other underscores in the
    names of attributes are written as hyphens.

    >>> element("text", "a < b", x=1.25, class_="tick", text_anchor="end")
    Markup('<text x="1.2" class="tick" text-anchor="end">a &lt; b</text>')
    """
    start = tag
    for name, value in attributes.items():
        start += _attribute(name, value)
    content = join(children)
    if not content:
        return Markup(f"<{start}/>")  # noqa: S704 - attributes are escaped
    return Markup(f"<{start}>{content}</{tag}>")  # noqa: S704 - attributes and children are escaped


def join(parts: Iterable[str]) -> Markup:
    """Join several elements to one markup; parts that are plain text are escaped."""
    return Markup("").join(parts)


def title(text: str) -> Markup:
    """Return the element that gives the element around it a tooltip; empty without a text."""
    if not text:
        return Markup("")
    return element("title", drawable(text))


def path(commands: str, style: str, text: str = "") -> Markup:
    """Return a path that is given by SVG path commands; ``text`` is its tooltip."""
    return element("path", title(text), class_=style, d=commands)


def line(start: tuple[float, float], end: tuple[float, float], style: str, text: str = "") -> Markup:
    """Return a line between two points; ``text`` is its tooltip."""
    (x1, y1), (x2, y2) = start, end
    return element("line", title(text), class_=style, x1=x1, y1=y1, x2=x2, y2=y2)


def rectangle(x: tuple[float, float], y: tuple[float, float], style: str, text: str = "", **more: object) -> Markup:
    """Return a rectangle between two x and two y coordinates, each in any order."""
    left, right = sorted(x)
    top, bottom = sorted(y)
    return element("rect", title(text), class_=style, x=left, y=top, width=right - left, height=bottom - top, **more)


def text(block: TextBlock, x: float, baseline: float, style: str, anchor: Anchor = "start", angle: float = 0) -> Markup:
    """Return a text whose first line is on ``baseline``; if the text had to be cut, the full text is its tooltip."""
    if not block.lines:
        return Markup("")
    first, *others = block.lines
    spans = [element("tspan", line, x=x, dy=LINE_HEIGHT) for line in others]
    rotation = ""
    if angle:
        rotation = f"rotate({number(angle)} {number(x)} {number(baseline)})"
    if block.bold:
        style = f"{style} strong"
    return element(
        "text",
        first,
        *spans,
        title(block.full),
        class_=style,
        x=x,
        y=baseline,
        # "start" is what SVG assumes if the attribute is missing.
        text_anchor="" if anchor == "start" else anchor,
        transform=rotation,
    )


def number(value: float) -> str:
    """Write a coordinate with at most one decimal; a tenth of a unit is smaller than a pixel of any screen.

    >>> number(2.0), number(2.345), number(-0.01)
    ('2', '2.3', '0')
    """
    # Adding zero turns -0.0 into 0.0.
    rounded = round(value, 1) + 0.0
    return f"{rounded:.1f}".removesuffix(".0")


def _attribute(name: str, value: object) -> str:
    if value is None or value == "":
        return ""
    # Most attributes are coordinates, which have nothing to escape.
    text = number(value) if isinstance(value, float) else escape(value)
    return f' {name.rstrip("_").replace("_", "-")}="{text}"'
