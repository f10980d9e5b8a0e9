"""Each figure of a report as a file of its own: SVG, and where asked for PNG and PDF."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmassay.errors import DataError
from lmassay.reporting.blocks import Figure
from lmassay.reporting.figure_images import Press
from lmassay.reporting.figure_style import Drawing, standalone
from lmassay.reporting.formats.content import Chapter, figures_in
from lmassay.storage.files import atomic_write

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
    press = Press() if set(formats) - {"svg"} else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [path for file in files for path in _written(file, folder, formats, press)]
    except OSError as error:
        raise DataError(f"cannot write figures to {folder}: {error.strerror or error}") from error


def _written(file: FigureFile, folder: Path, formats: Sequence[FigureFormat], press: Press | None) -> Iterator[Path]:
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
