"""A drawing as PNG or PDF, by typst: installed by pip alone, it finds a font for every script and makes both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lmassay.errors import MissingExtra, UserError
from lmassay.reporting.figure_style import Drawing

if TYPE_CHECKING:
    import typst

ImageFormat = Literal["png", "pdf"]
DOTS_A_UNIT = 3
"""Of a PNG: a figure 400 units wide is 1,200 dots wide, enough for a column of a paper."""

# Drawing and texts come in as data, so nothing in them is read as a program.
_PAGE = b"""
#set page(width: float(sys.inputs.width) * 0.75pt, height: float(sys.inputs.height) * 0.75pt, margin: 0pt, fill: white)
#set document(title: sys.inputs.title, date: none)
#image(bytes(sys.inputs.drawing), format: "svg", width: 100%, height: 100%, alt: sys.inputs.title)
"""


class Press:
    """Makes images of drawings; fonts are looked for once."""

    def __init__(self) -> None:
        try:
            import typst
        except ImportError as error:
            raise MissingExtra("a figure as PNG or PDF", "figures") from error
        self._typst = typst
        self._compiler: typst.Compiler = typst.Compiler()

    def image(self, drawing: Drawing, form: ImageFormat) -> bytes:
        size = {"width": f"{drawing.width:g}", "height": f"{drawing.height:g}"}
        inputs = {"drawing": drawing.text, "title": drawing.title, **size}
        try:
            made = self._compiler.compile(_PAGE, format=form, ppi=96.0 * DOTS_A_UNIT, sys_inputs=inputs)
        except self._typst.TypstError as error:
            raise UserError(f"the figure {drawing.title!r} cannot be written as {form}: {error}; take svg") from error
        if not isinstance(made, bytes):
            raise UserError(f"the figure {drawing.title!r} is more than one page of {form}; take svg")
        return made
