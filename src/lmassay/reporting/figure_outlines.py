"""Replace the texts of a drawing with outlines, so that it looks the same on computers that lack its fonts."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lmassay.reporting.figure_style import SVG, XLINK, Drawing, document_text
from lmassay.reporting.typesetting import ImageWriter, OutlinedLine, TextLine

# A coordinate with decimals in a path. It is rounded, because typst writes more decimals than can be seen.
_NUMBER = re.compile(r"-?\d*\.\d+(?:e-?\d+)?")
# Typst's ids of glyphs are digests, whose beginnings are enough to distinguish the glyphs of a drawing.
_ID_LENGTH = 12
# CSS calls weights from 600 on bold; the package has one bold font for all of them.
_BOLD = 600


@dataclass(frozen=True, slots=True)
class _PlacedLine:
    """A line of a text element, and its anchor: the point on the baseline at which it begins, ends or is centred."""

    line: TextLine
    x: float
    y: float


def with_outlines(drawing: Drawing, writer: ImageWriter) -> Drawing:
    """Return the drawing with a group of outlines in place of each text; the group's ``aria-label`` keeps the text."""
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    root = ET.fromstring(drawing.text)  # noqa: S314 - we drew it
    parents: dict[ET.Element, ET.Element] = {}
    for parent in root.iter():
        for child in parent:
            parents[child] = parent
    texts = list(root.iter(f"{{{SVG}}}text"))
    lines_by_text = [list(_lines(text)) for text in texts]
    # All lines are outlined in one call, because each call runs the typesetting program.
    all_lines: list[TextLine] = []
    for lines in lines_by_text:
        all_lines += [placed.line for placed in lines]
    outlines = iter(writer.outlines(all_lines))
    definitions = ET.Element(f"{{{SVG}}}defs")
    defined: set[str] = set()
    for text, lines in zip(texts, lines_by_text, strict=True):
        outlined = [next(outlines) for _ in lines]
        for outline in outlined:
            _define(outline, definitions, defined)
        _replace(parents[text], text, _group(text, lines, outlined))
    root.insert(0, definitions)
    root.attrib.pop("font-family", None)
    return replace(drawing, text=document_text(root))


def texts_in(drawing: Drawing) -> list[str]:
    """Return all lines of text in a drawing."""
    root = ET.fromstring(drawing.text)  # noqa: S314 - we drew it
    lines: list[str] = []
    for text in root.iter(f"{{{SVG}}}text"):
        lines += [placed.line.text for placed in _lines(text)]
    return lines


def _lines(text: ET.Element) -> Iterator[_PlacedLine]:
    is_bold = int(text.get("font-weight", "400")) >= _BOLD
    x = float(text.get("x", 0))
    y = float(text.get("y", 0))
    if text.text:
        yield _PlacedLine(TextLine(text.text, is_bold), x, y)
    for span in text.findall(f"{{{SVG}}}tspan"):
        y += float(span.get("dy", 0))
        if span.text:
            yield _PlacedLine(TextLine(span.text, is_bold), float(span.get("x", x)), y)


def _group(text: ET.Element, lines: Sequence[_PlacedLine], outlines: Sequence[OutlinedLine]) -> ET.Element:
    """Return the outlines of a text; if it has a halo, the halos of all letters lie below all letters."""
    group = ET.Element(f"{{{SVG}}}g", {"aria-label": " ".join(placed.line.text for placed in lines)})
    group.attrib.update(_attributes(text, ("transform", "opacity")))
    if "stroke" in text.attrib:
        halo = ET.SubElement(group, f"{{{SVG}}}g", _attributes(text, ("stroke", "stroke-width", "stroke-linejoin")))
        for placed, outline in zip(lines, outlines, strict=True):
            halo.append(_outlined(outline, placed, text))
    letters = ET.SubElement(group, f"{{{SVG}}}g", _attributes(text, ("fill", "fill-opacity")))
    for placed, outline in zip(lines, outlines, strict=True):
        letters.append(_outlined(outline, placed, text))
    return group


def _attributes(text: ET.Element, names: Sequence[str]) -> dict[str, str]:
    return {name: text.attrib[name] for name in names if name in text.attrib}


def _outlined(outline: OutlinedLine, placed: _PlacedLine, text: ET.Element) -> ET.Element:
    shares = {"start": 0.0, "middle": 0.5, "end": 1.0}
    left = placed.x - outline.width * shares[text.get("text-anchor", "start")]
    # In the outlines of fonts, the y axis points upwards; in SVG, it points downwards.
    line = ET.Element(f"{{{SVG}}}g", {"transform": f"matrix(1 0 0 -1 {left:.2f} {placed.y:.2f})"})
    for glyph in outline.glyphs:
        position = {"x": f"{glyph.x:.3f}".rstrip("0").rstrip(".")}
        if glyph.y:
            position["y"] = f"{glyph.y:.3f}"
        ET.SubElement(line, f"{{{SVG}}}use", {f"{{{XLINK}}}href": f"#{glyph.id[:_ID_LENGTH]}", **position})
    return line


def _define(outline: OutlinedLine, definitions: ET.Element, defined: set[str]) -> None:
    """Add the glyphs of a line to the definitions, each once; ``defined`` collects the ids of those that are there."""
    for glyph in outline.glyphs:
        name = glyph.id[:_ID_LENGTH]
        if name in defined:
            continue
        defined.add(name)
        path = _NUMBER.sub(lambda match: f"{float(match[0]):.3f}".rstrip("0").rstrip("."), glyph.path)
        ET.SubElement(definitions, f"{{{SVG}}}path", {"id": name, "d": path.strip()})


def _replace(parent: ET.Element, old: ET.Element, new: ET.Element) -> None:
    position = list(parent).index(old)
    parent.remove(old)
    parent.insert(position, new)
