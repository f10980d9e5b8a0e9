"""The figures of a report as files: SVG, PNG and PDF."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
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
_MAX_NAME_BYTES = 150
"""Most file systems allow 255 bytes; this leaves room for the extension and for the name of a temporary file."""


@dataclass(frozen=True, slots=True)
class FigureFile:
    """A figure of the report that can be written to a file."""

    name: str
    """The name of the file, without the extension."""
    figure: Figure
    """The figure as it is on the page, where the style sheet of the page colours it."""
    drawing: Drawing
    """The same figure with its own colours, title and caption."""


def figure_files(chapters: Sequence[Chapter]) -> list[FigureFile]:
    """The figures in the order of the report. Names consist of the chapter, a number and the title."""
    files = []
    for chapter in chapters:
        for number, figure in enumerate(figures_in(chapter.blocks), 1):
            drawing = standalone(figure.drawing, figure.caption)
            name = _file_name(f"{chapter.title} {number:02} {drawing.title}")
            files.append(FigureFile(name, figure, drawing))
    return files


def write_figures(files: Sequence[FigureFile], folder: Path, formats: Sequence[FigureFormat]) -> list[Path]:
    """Write all figures in all formats; a missing extra is reported before anything is written."""
    image_writer = ImageWriter() if set(formats) - {"svg"} else None
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            for extension in dict.fromkeys(formats):
                path = folder / f"{file.name}.{extension}"
                write_figure(file.drawing, path, extension, image_writer)
                paths.append(path)
    except OSError as error:
        raise DataError(f"cannot write figures to {folder}: {error.strerror or error}") from error
    return paths


def write_figure(
    drawing: Drawing, path: Path, extension: FigureFormat, image_writer: ImageWriter | None = None
) -> None:
    """Write one drawing to a file. For several images, give one writer for all of them."""
    image = None
    if extension != "svg":
        # Rendered before the file is opened: a figure that fails leaves no empty file.
        image = (image_writer or ImageWriter()).image(drawing, extension)
    with atomic_write(path) as stream:
        if image is None:
            stream.write(drawing.text)
        else:
            stream.buffer.write(image)


def _file_name(text: str) -> str:
    """A name that every file system accepts; letters of all scripts stay.

    >>> _file_name("robustness 01 s_src against d_tgt: 한국어/../<b>")
    'robustness-01-s_src-against-d_tgt-한국어-b'
    """
    words = re.sub(r"[^\w]+", "-", unicodedata.normalize("NFC", text).lower())
    # File systems limit bytes, not characters.
    return words.encode()[:_MAX_NAME_BYTES].decode(errors="ignore").strip("-")


# --- PNG and PDF ------------------------------------------------------------------------------------------------------

# Typst renders both formats. It can be installed with pip alone and finds a font for every script.

ImageFormat = Literal["png", "pdf"]
DOTS_PER_UNIT = 3
"""The resolution of a PNG: a figure 400 units wide is 1,200 dots wide, enough for a column of a paper."""

# The drawing and its title are passed as data, so typst never interprets them as code. A unit of an SVG drawing is 1/96
# inch, which is 0.75 points.
_TYPST_PAGE = b"""
#set page(width: float(sys.inputs.width) * 0.75pt, height: float(sys.inputs.height) * 0.75pt, margin: 0pt, fill: white)
#set document(title: sys.inputs.title, date: none)
#image(bytes(sys.inputs.drawing), format: "svg", width: 100%, height: 100%, alt: sys.inputs.title)
"""


class ImageWriter:
    """Renders drawings as images. Use one writer for all images, because creating one searches for fonts."""

    def __init__(self) -> None:
        try:
            import typst
        except ImportError as error:
            raise MissingExtra("a figure as PNG or PDF", "figures") from error
        self._typst = typst
        self._compiler: typst.Compiler = typst.Compiler()

    def image(self, drawing: Drawing, image_format: ImageFormat) -> bytes:
        """The drawing as the content of a PNG or PDF file."""
        inputs = {
            "drawing": drawing.text,
            "title": drawing.title,
            "width": f"{drawing.width:g}",
            "height": f"{drawing.height:g}",
        }
        try:
            image = self._compiler.compile(
                _TYPST_PAGE, format=image_format, ppi=96.0 * DOTS_PER_UNIT, sys_inputs=inputs
            )
        except self._typst.TypstError as error:
            raise UserError(
                f"the figure {drawing.title!r} cannot be written as {image_format}: {error}; use svg instead"
            ) from error
        if not isinstance(image, bytes):
            raise UserError(f"the figure {drawing.title!r} takes more than one page as {image_format}; use svg instead")
        return image
