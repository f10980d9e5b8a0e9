"""A chart: panels with a title and a legend, as one SVG drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from lmassay.reporting.chart import elements
from lmassay.reporting.chart.drawing import draw_panels
from lmassay.reporting.chart.legend import Legend, LegendEntry
from lmassay.reporting.chart.panel import Panel
from lmassay.reporting.chart.text import ASCENT, drawable, fit

_PADDING = 6.0
_GAP = 10.0
_TITLE_LINES = 5
# A panel that is laid out wider also becomes higher, at most by this factor, so that a figure does not fill a page.
_MAX_STRETCH = 1.4
# A column of panels may be as narrow as this share of the width that it was designed for.
_LEAST_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Chart:
    """One or more panels under a title, with a legend above or below them.

    ``description`` says in one line what the chart shows, for screen readers. Panels are placed row by row in
    ``columns`` columns, and None leaves a place empty. ``legend_lines`` is how many lines the label of a legend entry
    may take (None: as many as it needs).

    ``width`` is in units of the drawing. The default fits the screen of a phone, which would shrink a wider drawing
    together with its texts. Charts that are shown side by side should have the same width.
    """

    description: str
    panels: Sequence[Panel | None]
    columns: int = 1
    title: str = ""
    legend: Sequence[LegendEntry] = ()
    legend_side: Literal["top", "bottom"] = "bottom"
    legend_lines: int | None = 2
    width: float = 400.0

    def laid_out(self, width: float) -> Chart:
        """Return the same chart laid out for another width, such as that of a column in a paper.

        ``width`` is in units of the drawing, so texts keep their size. Panels that would become too narrow side by side
        are placed below each other. Panels that become wider also become higher, up to a limit.

        >>> Chart("two models", [None, None], columns=2, width=800).laid_out(420).columns
        1
        """
        designed_width = self.width / self.columns
        columns_that_fit = max(1, int(width / (_LEAST_SHARE * designed_width)))
        columns = min(self.columns, columns_that_fit)
        stretch = width / columns / designed_width
        stretch = max(1.0, min(stretch, _MAX_STRETCH))
        panels: list[Panel | None] = []
        for panel in self.panels:
            if panel is not None:
                panel = replace(panel, height=panel.height * stretch)
            panels.append(panel)
        return replace(self, panels=panels, columns=columns, width=width)

    def svg(self) -> Markup:
        """Return the chart as an SVG element for the page; `figure_style.standalone` turns it into a file."""
        inner_width = self.width - 2 * _PADDING
        legend = Legend(self.legend, inner_width, self.legend_lines)
        parts = []
        y = _PADDING
        title = fit(self.title, inner_width, lines=_TITLE_LINES, bold=True)
        if title.lines:
            parts.append(elements.text(title, _PADDING, y + ASCENT, "label"))
            y += title.height + _GAP
        if self.legend and self.legend_side == "top":
            parts.append(legend.draw(_PADDING, y))
            y += legend.height + _GAP
        panels = draw_panels(self.panels, self.columns, _PADDING, y, inner_width)
        parts.append(panels.markup)
        y = panels.bottom
        if self.legend and self.legend_side == "bottom":
            y += _GAP
            parts.append(legend.draw(_PADDING, y))
            y += legend.height
        width = max(self.width, panels.right + _PADDING)
        return elements.element(
            "svg",
            *parts,
            viewBox=f"0 0 {elements.number(width)} {elements.number(y + _PADDING)}",
            role="img",
            aria_label=drawable(self.description),
        )
