"""Each figure of a report as a file of its own: SVG, and where asked for PNG and PDF."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lmassay.errors import DataError, MissingExtra, UserError
from lmassay.reporting.blocks import Figure
from lmassay.reporting.figure_style import Drawing, standalone
from lmassay.reporting.formats.content import Chapter, figures_in
from lmassay.storage.files import atomic_write

if TYPE_CHECKING:
    import typst


FigureFormat = Literal["svg", "png", "pdf"]
_MOST_BYTES = 150


@dataclass(frozen=True, slots=True)
class FigureFile:
    """A figure as the page has it, the drawing that stands alone, and the name of its file without the ending."""

    name: str
    figure: Figure
    drawing: Drawing


def figure_files(chapters: Sequence[Chapter]) -> list[FigureFile]:
    """The figures in the order of the report; names tell the task and what is drawn, and sort in that order."""
    found = []
    for chapter in chapters:
        for number, figure in enumerate(figures_in(chapter.blocks), 1):
            drawing = standalone(figure.drawing, figure.caption)
            found.append(FigureFile(_slug(f"{chapter.title} {number:02} {drawing.title}"), figure, drawing))
    return found


def write_figures(files: Sequence[FigureFile], folder: Path, formats: Sequence[FigureFormat]) -> list[Path]:
    """All of them in all formats; a missing part is told before anything is written."""
    press = ImageWriter() if set(formats) - {"svg"} else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [path for file in files for path in _written(file, folder, formats, press)]
    except OSError as error:
        raise DataError(f"cannot write figures to {folder}: {error.strerror or error}") from error


def _written(
    file: FigureFile, folder: Path, formats: Sequence[FigureFormat], press: ImageWriter | None
) -> Iterator[Path]:
    for form in dict.fromkeys(formats):
        path = folder / f"{file.name}.{form}"
        image = None if form == "svg" or press is None else press.image(file.drawing, form)
        with atomic_write(path) as stream:
            if image is None:
                stream.write(file.drawing.text)
            else:
                stream.buffer.write(image)
        yield path


def _slug(text: str) -> str:
    """A name that every file system takes; letters of all scripts stay.

    >>> _slug("robustness 01 s_src against d_tgt: 한국어/../<b>")
    'robustness-01-s_src-against-d_tgt-한국어-b'
    """
    words = re.sub(r"[^\w]+", "-", unicodedata.normalize("NFC", text).lower())
    # File systems count bytes.
    return words.encode()[:_MOST_BYTES].decode(errors="ignore").strip("-")


# --- PNG and PDF, by typst: installed by pip alone, it finds a font for every script and makes both -------------------


ImageFormat = Literal["png", "pdf"]
DOTS_A_UNIT = 3
"""Of a PNG: a figure 400 units wide is 1,200 dots wide, enough for a column of a paper."""

# Drawing and texts come in as data, so nothing in them is read as a program.
_PAGE = b"""
#set page(width: float(sys.inputs.width) * 0.75pt, height: float(sys.inputs.height) * 0.75pt, margin: 0pt, fill: white)
#set document(title: sys.inputs.title, date: none)
#image(bytes(sys.inputs.drawing), format: "svg", width: 100%, height: 100%, alt: sys.inputs.title)
"""


class ImageWriter:
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
