"""The figures of a report as files: SVG, PNG and PDF."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmassay.errors import DataError, MissingExtra
from lmassay.reporting.blocks import Figure
from lmassay.reporting.figure_outlines import texts_in, with_outlines
from lmassay.reporting.figure_style import Drawing, standalone
from lmassay.reporting.formats.content import Chapter, figures_in
from lmassay.reporting.paper import MIN_TEXT_POINTS, PaperLayout, paper_drawing
from lmassay.reporting.typesetting import ImageWriter, missing_font_message
from lmassay.storage.file_names import same_file_key
from lmassay.storage.files import atomic_write

FigureFormat = Literal["svg", "png", "pdf"]
FIGURE_FORMATS: tuple[FigureFormat, ...] = ("svg", "png", "pdf")
TextForm = Literal["outlines", "text"]
"""How the text of figures is written to SVG files.

Outlines look the same everywhere. Text can be edited, and is shown in the fonts of the reader's computer.
"""
NO_OUTLINES = (
    "the text in SVG files was not converted to outlines, so readers see it in their own fonts; to convert it, run "
    "pip install 'lmassay[figures]'"
)
_MAX_NAME_BYTES = 150
"""The length at which file names are cut.

Most file systems allow 255 bytes; this leaves room for the extension and for the name of a temporary file.
"""


@dataclass(frozen=True, slots=True)
class FigureFile:
    """A figure of the report that can be written to a file."""

    name: str
    """The name of the file, without the extension."""
    figure: Figure
    """The figure as it is on the page, where the style sheet of the page colours it."""
    drawing: Drawing
    """The same figure with its own colours, title and caption."""


def figure_files(chapters: Sequence[Chapter], layout: PaperLayout | None = None) -> list[FigureFile]:
    """Return the figures in the order of the report, with file names from chapter, number and title.

    ``layout`` lays the figures out for a paper; without it, they are as large as on the page.
    """
    files = []
    taken: set[str] = set()
    for chapter in chapters:
        for number, figure in enumerate(figures_in(chapter.blocks), 1):
            if layout is None:
                drawing = standalone(figure.drawing, figure.caption)
            else:
                drawing = paper_drawing(figure, layout)
            name = _distinct_name(_file_name(f"{chapter.title} {number:02} {drawing.title}"), taken)
            files.append(FigureFile(name, figure, drawing))
    return files


def too_wide_message(name: str, drawing: Drawing, layout: PaperLayout) -> str:
    """Return the warning about a figure that is wider than the layout asks for."""
    return (
        f"{name} is {drawing.width_mm:.0f} mm wide instead of {layout.width:g} mm: its text would be smaller "
        f"than {MIN_TEXT_POINTS:g} pt"
    )


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=3)


def write_figures(
    files: Sequence[FigureFile],
    folder: Path,
    formats: Sequence[FigureFormat],
    text_form: TextForm = "text",
    warn: Callable[[str], None] = _warn,
) -> list[Path]:
    """Write all figures in all formats and return the paths of the files.

    If an optional package is needed and missing, the error is raised before anything is written. ``warn`` is called
    with a message about each problem that does not prevent writing, such as characters that no font has.
    """
    drawings = [file.drawing for file in files]
    writer = figure_writer(drawings, formats, text_form, warn)
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            for extension in dict.fromkeys(formats):
                path = folder / f"{file.name}.{extension}"
                write_figure(file.drawing, path, extension, writer, text_form)
                paths.append(path)
    except OSError as error:
        raise DataError(f"cannot write figures to {folder}: {error.strerror or error}") from error
    return paths


def figure_writer(
    drawings: Sequence[Drawing], formats: Sequence[FigureFormat], text_form: TextForm, warn: Callable[[str], None]
) -> ImageWriter | None:
    """Return the image writer that these formats need, after warning about characters that no font has.

    SVG files whose text stays text need no writer, so the result is None. If only outlines need a writer and the
    optional package is missing, the function warns and returns None, too.
    """
    needs_images = bool(set(formats) - {"svg"})
    if not needs_images and text_form == "text":
        return None
    try:
        writer = ImageWriter()
    except MissingExtra:
        if needs_images:
            raise
        warn(NO_OUTLINES)
        return None
    texts: list[str] = []
    for drawing in drawings:
        texts += texts_in(drawing)
    missing = writer.missing_characters(texts)
    if missing:
        warn(missing_font_message(missing))
    return writer


def write_figure(
    drawing: Drawing,
    path: Path,
    extension: FigureFormat,
    writer: ImageWriter | None = None,
    text_form: TextForm = "text",
) -> None:
    """Write one drawing to a file. Pass the same ``writer`` for all images, because creating one is slow.

    Without a writer, the text of an SVG file stays text, whatever ``text_form`` says.
    """
    image = None
    if extension != "svg":
        # Rendered before the file is opened, so that an error leaves no empty file behind.
        image = (writer or ImageWriter()).image(drawing, extension)
    elif text_form == "outlines" and writer is not None:
        drawing = with_outlines(drawing, writer)
    with atomic_write(path) as stream:
        if image is None:
            stream.write(drawing.text)
        else:
            stream.buffer.write(image)


def _file_name(text: str) -> str:
    """Return a text as a file name that every file system accepts; letters of all scripts are kept.

    >>> _file_name("robustness 01 s_src against d_tgt: 한국어/../<b>")
    'robustness-01-s_src-against-d_tgt-한국어-b'
    """
    words = re.sub(r"[^\w]+", "-", unicodedata.normalize("NFC", text).lower())
    return _cut(words, _MAX_NAME_BYTES).strip("-")


def _cut(text: str, size: int) -> str:
    """Cut a text to at most ``size`` bytes, because file systems limit bytes, not characters."""
    # "ignore" drops a character that was cut in the middle.
    return text.encode("utf-8", "replace")[:size].decode(errors="ignore")


def _distinct_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number if another figure has it, and add it to ``taken``.

    Two figures can have the same name because long names are cut, and some file systems ignore case.

    >>> taken = set()
    >>> [_distinct_name(name, taken) for name in ("a", "A", "b", "a")]
    ['a', 'A-2', 'b', 'a-3']
    """
    distinct = name
    number = 1
    while same_file_key(distinct) in taken:
        number += 1
        ending = f"-{number}"
        distinct = f"{_cut(name, _MAX_NAME_BYTES - len(ending))}{ending}"
    taken.add(same_file_key(distinct))
    return distinct
