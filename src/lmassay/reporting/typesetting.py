"""Render drawings as PNG and PDF files, and lines of text as outlines, with typst.

Typst needs nothing but pip to install, embeds fonts in PDF files, and finds a font for the characters of any script.
"""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Literal

from lmassay.errors import MissingExtra, UserError
from lmassay.reporting.chart.text import FONT_SIZE
from lmassay.reporting.figure_style import FONTS, SVG, XLINK, Drawing

if TYPE_CHECKING:
    import typst

ImageFormat = Literal["png", "pdf"]
DOTS_PER_UNIT = 3
"""The resolution of a PNG in the size of the page: a drawing that is 400 units wide becomes 1,200 dots wide."""
DOTS_PER_INCH = 600
"""The resolution of a PNG for a paper, which is what publishers ask for in line drawings."""
_MILLIMETRES_PER_POINT = 25.4 / 72
# Millimetres per unit of a drawing on a page: a CSS pixel.
_PAGE_UNIT = 25.4 / 96

# Drawings, titles and texts are passed as data, so typst never interprets them as code.
_IMAGE = b"""
#set page(width: float(sys.inputs.width) * 1pt, height: float(sys.inputs.height) * 1pt, margin: 0pt, fill: white)
#set document(title: sys.inputs.title, date: none)
#image(bytes(sys.inputs.drawing), format: "svg", width: 100%, height: 100%, alt: sys.inputs.title)
"""
# Each line of text is on a page of its own, and the page is as wide as the line.
_LINES = b"""
#set page(width: auto, height: auto, margin: 0pt, fill: none)
#set text(font: json(bytes(sys.inputs.fonts)), size: float(sys.inputs.size) * 1pt, top-edge: "baseline",
  bottom-edge: "baseline", hyphenate: false, lang: "en", dir: ltr)
#for (number, line) in json(bytes(sys.inputs.lines)).enumerate() {
  if number > 0 { pagebreak() }
  text(weight: if line.bold { 700 } else { 400 }, line.text)
}
"""
_TRANSLATION = re.compile(r"matrix\(1 0 0 -1 (\S+) (\S+)\)")
# No font has a character for this code point, which is reserved for private use.
_IN_NO_FONT = "\U0010fffd"
_MAX_LISTED_CHARACTERS = 12
# First word of a character's Unicode name → a free font that has such characters.
_FONTS_BY_SCRIPT = {
    "HANGUL": "Noto Sans CJK KR",
    "CJK": "Noto Sans CJK SC",
    "HIRAGANA": "Noto Sans CJK JP",
    "KATAKANA": "Noto Sans CJK JP",
}


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text."""

    text: str
    bold: bool = False


@dataclass(frozen=True, slots=True)
class PlacedGlyph:
    """The outline of a character as SVG path commands (with y upwards), and the place where it begins in its line."""

    id: str
    path: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class OutlinedLine:
    """The outlines of a line of text, and how wide it is."""

    width: float
    glyphs: Sequence[PlacedGlyph]


class ImageWriter:
    """Renders drawings as images. Use one writer for all images, because creating one searches for fonts."""

    def __init__(self, *, system_fonts: bool = True) -> None:
        try:
            import typst
        except ImportError as error:
            raise MissingExtra("a figure as PNG or PDF", "figures") from error
        self._typst = typst
        with as_file(files("lmassay.reporting").joinpath("fonts")) as folder:
            fonts = typst.Fonts(include_system_fonts=system_fonts, font_paths=[folder])
            self._compiler: typst.Compiler = typst.Compiler(font_paths=fonts)
        # Only installed fonts are named, because typst warns about others.
        installed = set(fonts.families())
        font_names = [name.strip().strip("'") for name in FONTS.split(",")]
        self._families = [name for name in font_names if name in installed]

    def image(self, drawing: Drawing, image_format: ImageFormat) -> bytes:
        """Return the content of a PNG or PDF file; the same drawing always gives the same bytes."""
        points_per_unit = drawing.unit / _MILLIMETRES_PER_POINT
        inputs = {
            "drawing": drawing.text,
            "title": drawing.title,
            "width": f"{drawing.width * points_per_unit:g}",
            "height": f"{drawing.height * points_per_unit:g}",
        }
        is_for_page = abs(drawing.unit - _PAGE_UNIT) < 1e-9
        resolution = 96.0 * DOTS_PER_UNIT if is_for_page else float(DOTS_PER_INCH)
        try:
            image = self._compiler.compile(_IMAGE, format=image_format, ppi=resolution, sys_inputs=inputs)
        except self._typst.TypstError as error:
            raise UserError(
                f"the figure {drawing.title!r} cannot be written as {image_format}: {error}; use svg instead"
            ) from error
        if not isinstance(image, bytes):
            raise UserError(f"the figure {drawing.title!r} takes more than one page as {image_format}; use svg instead")
        return image

    def outlines(self, lines: Sequence[TextLine]) -> list[OutlinedLine]:
        """Return the outlines of lines of text, in the font size of charts."""
        if not lines:
            return []
        inputs = {
            "lines": json.dumps([{"text": line.text, "bold": line.bold} for line in lines]),
            "fonts": json.dumps(self._families),
            "size": f"{FONT_SIZE:g}",
        }
        pages = self._compiler.compile(_LINES, format="svg", sys_inputs=inputs)
        if isinstance(pages, bytes):
            pages = [pages]
        assert pages is not None
        return [_outlined_line(page) for page in pages]

    def missing_characters(self, texts: Sequence[str]) -> list[str]:
        """Return the characters of these texts that no font on this machine has, each once."""
        characters = sorted({character for character in "".join(texts) if _needs_check(character)})
        if not characters:
            return []
        # A font shows the same box for every character that it lacks. The first line is rendered to get this box.
        box_line, *lines = self.outlines([TextLine(character) for character in (_IN_NO_FONT, *characters)])
        box = box_line.glyphs[0].path
        missing = []
        for character, line in zip(characters, lines, strict=True):
            if any(glyph.path == box for glyph in line.glyphs):
                missing.append(character)
        return missing


def _needs_check(character: str) -> bool:
    """Return whether a character may be missing in all fonts; ASCII characters are in every font."""
    if character.isascii():
        return False
    # Combining accents (M), controls (C) and spaces (Z) have no outline of their own.
    return unicodedata.category(character)[0] not in "MCZ"


def missing_font_message(characters: Sequence[str]) -> str:
    """Return the warning about characters that no installed font has."""
    fonts: dict[str, None] = {}
    for character in characters:
        # The name of a character begins with its script, such as "HANGUL SYLLABLE GA".
        script = unicodedata.name(character, "").partition(" ")[0]
        default_font = f"Noto Sans {script.capitalize()}".strip()
        font = _FONTS_BY_SCRIPT.get(script, default_font)
        fonts[font] = None
    excerpt = "".join(characters[:_MAX_LISTED_CHARACTERS])
    more = "…" if len(characters) > _MAX_LISTED_CHARACTERS else ""
    return (
        f"no font on this machine has the characters {excerpt}{more}, so PDF, PNG and outlined SVG show boxes; "
        f"install {' and '.join(fonts)}, or a font that you prefer"
    )


def _outlined_line(page: bytes) -> OutlinedLine:
    root = ET.fromstring(page)  # noqa: S314 - typst wrote it
    paths: dict[str, str] = {}
    for symbol in root.iter(f"{{{SVG}}}symbol"):
        path = symbol.find(f"{{{SVG}}}path")
        paths[symbol.attrib["id"]] = "" if path is None else path.get("d", "")
    _, _, width, _ = map(float, root.attrib["viewBox"].split())
    return OutlinedLine(width, list(_placed_glyphs(root, paths)))


def _placed_glyphs(root: ET.Element, paths: dict[str, str]) -> Iterator[PlacedGlyph]:
    for group in root.iter(f"{{{SVG}}}g"):
        # Consecutive characters of one font form a group, which is placed to the right of the group before it.
        translation = _TRANSLATION.fullmatch(group.get("transform", ""))
        left = top = 0.0
        if translation is not None:
            left = float(translation[1])
            top = float(translation[2])
        for use in group.findall(f"{{{SVG}}}use"):
            glyph = use.attrib[f"{{{XLINK}}}href"].removeprefix("#")
            if glyph in paths:
                x = left + float(use.get("x", 0))
                # Inside the group, y points upwards, but the position of the group is measured downwards.
                y = float(use.get("y", 0)) - top
                yield PlacedGlyph(glyph, paths[glyph], x, y)
