"""Small figures as inline SVG: shapes with classes, coloured by the page's style sheet, every text escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from markupsafe import Markup

Side = Callable[[float, float], float]
MOST_SERIES = 5
"""Colours that readers with any kind of colour vision can tell apart, on paper and on a dark screen."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A square plot of the unit square with room for axes."""

    size: int = 300
    left: int = 46
    top: int = 12
    right: int = 12
    bottom: int = 42

    @property
    def width(self) -> int:
        return self.left + self.size + self.right

    @property
    def height(self) -> int:
        return self.top + self.size + self.bottom

    def x(self, value: float) -> float:
        return round(self.left + self.size * value, 1)

    def y(self, value: float) -> float:
        return round(self.top + self.size * (1 - value), 1)


@dataclass(frozen=True, slots=True)
class Point:
    """A dot of a scatter plot."""

    x: float
    y: float
    strong: bool
    title: str


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the unit square beyond a straight line, and the piece of that line inside the square."""

    corners: Sequence[tuple[float, float]]
    edge: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its interval in a row plot; ``told`` is written at the end of its row."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    told: str = ""


def scatter(points: Sequence[Point], region: Region, x_label: str, y_label: str, description: str) -> Markup:
    """Dots in the unit square over a shaded region with its edge."""
    frame = Frame()
    parts = []
    if len(region.corners) > 2:
        corners = " ".join(f"{frame.x(x)},{frame.y(y)}" for x, y in region.corners)
        parts.append(f'<polygon class="region" points="{corners}"/>')
    parts.append(_axes(frame, x_label, y_label))
    if len(region.edge) == 2:
        (ax, ay), (bx, by) = region.edge
        parts.append(
            f'<line class="line" x1="{frame.x(ax)}" y1="{frame.y(ay)}" x2="{frame.x(bx)}" y2="{frame.y(by)}"/>'
        )
    parts += [
        f'<circle class="{"dot hit" if p.strong else "dot miss"}" cx="{frame.x(p.x)}" cy="{frame.y(p.y)}" r="2.6">'
        f"<title>{escape(p.title)}</title></circle>"
        for p in points
    ]
    return svg(frame.width, frame.height, description, parts)


def rows_with_intervals(bars: Sequence[Bar], x_label: str, description: str) -> Markup:
    """One horizontal interval a row over the range 0 to 1, its label above it, so that it also fits a narrow page."""
    row, plot, left, top = 36, 440, 14, 4
    base = top + row * len(bars) + 4

    def x(value: float) -> float:
        return round(left + plot * min(max(value, 0.0), 1.0), 1)

    parts = []
    for tick in range(0, 11, 2):
        at = x(tick / 10)
        parts.append(f'<line class="grid" x1="{at}" y1="{top}" x2="{at}" y2="{base}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{base + 16}" text-anchor="middle">{tick / 10:g}</text>')
    for number, bar in enumerate(bars):
        y = top + row * number
        parts.append(f'<text class="label" x="{left}" y="{y + 14}">{clipped(bar.label, 42 if bar.told else 60)}</text>')
        if bar.told:
            end = f'x="{left + plot}" y="{y + 14}" text-anchor="end"'
            parts.append(f'<text class="tick" {end}>{escape(bar.told)}</text>')
        if bar.low is not None and bar.high is not None:
            parts.append(f'<line class="whisker" x1="{x(bar.low)}" y1="{y + 25}" x2="{x(bar.high)}" y2="{y + 25}"/>')
        if bar.value is not None:
            parts.append(f'<circle class="value" cx="{x(bar.value)}" cy="{y + 25}" r="4.5"/>')
    middle = left + plot / 2
    parts.append(f'<text class="label" x="{middle}" y="{base + 36}" text-anchor="middle">{escape(x_label)}</text>')
    return svg(left + plot + 14, base + 44, description, parts)


def above_diagonal(threshold: float) -> Region:
    """The part of the unit square where x + y exceeds the threshold."""
    return clip_unit_square(lambda x, y: x + y - threshold)


def below_ray(threshold: float) -> Region:
    """The part of the unit square where x / y exceeds the threshold."""
    return clip_unit_square(lambda x, y: x - threshold * y)


def clip_unit_square(side: Side) -> Region:
    """Where in the unit square a linear function is positive (Sutherland and Hodgman's clipping)."""
    corners = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    kept: list[tuple[float, float]] = []
    edge: list[tuple[float, float]] = []
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        a, b = side(ax, ay), side(bx, by)
        if a > 0:
            kept.append((ax, ay))
        if (a > 0) != (b > 0):
            t = a / (a - b)
            edge.append((ax + t * (bx - ax), ay + t * (by - ay)))
            kept.append(edge[-1])
    return Region(kept, edge)


def _axes(frame: Frame, x_label: str, y_label: str) -> str:
    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = frame.x(tick), frame.y(tick)
        parts.append(f'<line class="grid" x1="{x}" y1="{frame.y(0)}" x2="{x}" y2="{frame.y(1)}"/>')
        parts.append(f'<line class="grid" x1="{frame.x(0)}" y1="{y}" x2="{frame.x(1)}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{frame.y(0) + 15}" text-anchor="middle">{tick:g}</text>')
        parts.append(f'<text class="tick" x="{frame.left - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    middle = frame.top + frame.size / 2
    parts.append(
        f'<text class="label" x="{frame.left + frame.size / 2}" y="{frame.height - 8}" text-anchor="middle">'
        f"{escape(x_label)}</text>"
    )
    parts.append(
        f'<text class="label" x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">'
        f"{escape(y_label)}</text>"
    )
    return "".join(parts)


def clipped(text: str, most: int) -> str:
    """A text that fits, escaped; what was cut off is told to those who point at it."""
    if len(text) <= most:
        return escape(text)
    return f"{escape(text[: most - 1])}…<title>{escape(text)}</title>"


def svg(width: int, height: int, description: str, parts: Sequence[str]) -> Markup:
    """A drawing out of shapes whose texts are escaped."""
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(description)}>'
    return Markup(head + "".join(parts) + "</svg>")  # noqa: S704 - all texts were escaped
