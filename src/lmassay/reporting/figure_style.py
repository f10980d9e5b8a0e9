"""Turn figures of the page into standalone SVG drawings, with the rules of the style sheets written into their shapes.

On the page, a shape has a class, and the style sheet gives the class its colour. Other programs that read SVG support
only few selectors and no CSS variables. So here every shape gets its own attributes: the colours of the light page, or
greys, on a white background.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

FigureStyle = Literal["colour", "grey"]
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
FONT = "Lmassay Sans"
"""The font in the folder ``fonts``. It has the widths that the layout assumes, and is embedded in PDF files."""
FONTS = (
    f"'{FONT}', 'Segoe UI', 'Helvetica Neue', 'Noto Sans', 'DejaVu Sans', 'Noto Sans CJK KR', 'Noto Sans KR', "
    "'Malgun Gothic', 'Apple SD Gothic Neo', sans-serif"
)
_XML_HEADER = '<?xml version="1.0" encoding="UTF-8"?>\n'
_BACKGROUND = {"--page": "#ffffff", "--card": "#ffffff"}
# CSS properties that can also be written as attributes of SVG elements.
_PROPERTIES = (
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "stroke-linecap",
    "stroke-linejoin",
    "opacity",
    "paint-order",
    "font-size",
    "font-weight",
    "font-style",
    "text-anchor",
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SIMPLE_SELECTOR = re.compile(r"(?P<tag>[a-z]+)?(?P<classes>(?:\.[\w-]+)*)")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,\s*([^()]*))?\)")
_COLOUR_WITH_ALPHA = re.compile(r"#([0-9a-fA-F]{6})([0-9a-fA-F]{2})")
# The size in the shorthand `font: 600 12px/1.4 sans-serif`.
_FONT = re.compile(r"(?:.*\s)?(\d+(?:\.\d+)?)px(?:/\S+)?\s.*", re.DOTALL)
_HATCH = "url(#hatch)"
_MILLIMETRES_PER_PIXEL = 25.4 / 96
# XML cannot contain these characters, not even escaped.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

Step = tuple[str, frozenset[str]]
"""A part of a selector: the type of an element (empty for any) and its classes."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A standalone SVG document with its title and size, in units of the drawing.

    ``unit`` is the length of a unit in millimetres; the font size of all texts is 12 units.
    """

    title: str
    width: float
    height: float
    text: str
    unit: float = _MILLIMETRES_PER_PIXEL

    @property
    def width_mm(self) -> float:
        """The width on paper."""
        return self.width * self.unit


@dataclass(frozen=True, slots=True)
class StyleRule:
    """The declarations of a selector that consists of element types and classes, such as ``svg .label``.

    ``path`` has the steps of the selector from the outermost element to the innermost.
    """

    path: Sequence[Step]
    declarations: Mapping[str, str]

    @property
    def specificity(self) -> tuple[int, int]:
        """The numbers of classes and of types; of two rules for an element, the one with the larger numbers wins."""
        class_count = sum(len(classes) for _, classes in self.path)
        type_count = sum(bool(tag) for tag, _ in self.path)
        return class_count, type_count

    def matches(self, ancestors: Sequence[ET.Element], element: ET.Element) -> bool:
        """Return whether the last step matches the element, and the others match ancestors of it in this order."""
        *outer, last = self.path
        if not _matches_step(element, last):
            return False
        remaining = list(outer)
        for ancestor in ancestors:
            # Ancestors are visited from the outside in, and steps must match in the same order.
            if remaining and _matches_step(ancestor, remaining[0]):
                remaining.pop(0)
        return not remaining


@dataclass(frozen=True, slots=True)
class StyleSheet:
    """The CSS variables of the light page, and the rules in the order of their precedence; later ones win."""

    variables: Mapping[str, str]
    rules: Sequence[StyleRule]

    @property
    def classes(self) -> set[str]:
        """All classes that occur in the rules."""
        names: set[str] = set()
        for rule in self.rules:
            for _, classes in rule.path:
                names |= classes
        return names


@lru_cache(maxsize=2)
def page_style_sheet(style: FigureStyle = "colour") -> StyleSheet:
    """Return the style sheets of the page as one; for grey figures, with greys instead of colours."""
    folder = files("lmassay.reporting").joinpath("templates")
    sheets = [entry for entry in folder.iterdir() if entry.name.endswith(".css")]
    # theme.css and page.css first, as on the page: the other sheets may override them.
    sheets.sort(key=lambda entry: (entry.name != "theme.css", entry.name != "page.css", entry.name))
    if style == "grey":
        sheets.append(folder.joinpath("paper", "grey.css"))
    return parse_style_sheet("\n".join(entry.read_text(encoding="utf-8") for entry in sheets))


def parse_style_sheet(text: str) -> StyleSheet:
    """Read the rules whose selectors consist of types and classes; figures use no others.

    All other rules (for dark screens, print, and states such as hover) are for the page only and are left out.

    >>> sheet = ":root { --ink: #111 } .a, svg text { fill: var(--ink) } @media print { .a { fill: red } }"
    >>> parse_style_sheet(sheet).classes
    {'a'}
    """
    variables: dict[str, str] = {}
    rules = []
    for selectors, body in _blocks(_COMMENT.sub("", text)):
        declarations = dict(_declarations(body))
        for selector in selectors.split(","):
            selector = selector.strip()
            if selector == ":root":
                variables |= _variables_in(declarations)
                continue
            path = _path(selector)
            if path:
                rules.append(StyleRule(path, declarations))
    # The sort is stable: of two rules with the same specificity, the later one wins.
    rules.sort(key=lambda rule: rule.specificity)
    return StyleSheet(variables | _BACKGROUND, rules)


def standalone(drawing: str, about: str = "", sheet: StyleSheet | None = None, unit: float | None = None) -> Drawing:
    """Turn the SVG of a figure on the page into a standalone document; ``about`` becomes its description.

    ``unit`` is the length of a unit in millimetres; by default it is that of a CSS pixel (1/96 inch).
    """
    sheet = sheet or page_style_sheet()
    root = ET.fromstring(_without_invalid(drawing))  # noqa: S314 - we drew it
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    _apply_styles(root, [], sheet, sheet.variables)
    title = ET.Element("title")
    title.text = root.get("aria-label", "")
    description = ET.Element("desc")
    description.text = _without_invalid(about)
    size = {"width": f"{width:g}", "height": f"{height:g}"}
    background = ET.Element("rect", {**size, "fill": "#ffffff"})
    root[:0] = [title, description, background]
    if any(element.get("fill") == _HATCH for element in root.iter()):
        # After title and description, which SVG requires to come first.
        root.insert(2, _hatch(sheet.variables))
    if unit is not None:
        size = {"width": f"{width * unit:.2f}mm", "height": f"{height * unit:.2f}mm"}
    root.attrib.update({"xmlns": SVG, **size, "font-family": FONTS})
    return Drawing(title.text, width, height, document_text(root), unit or _MILLIMETRES_PER_PIXEL)


def document_text(root: ET.Element) -> str:
    """Return the text of the SVG file."""
    return f"{_XML_HEADER}{ET.tostring(root, encoding='unicode')}\n"


def _hatch(variables: Mapping[str, str]) -> ET.Element:
    """Return the definition of the pattern of diagonal lines with which areas are filled."""
    definitions = ET.Element("defs")
    pattern = ET.SubElement(definitions, "pattern", {"id": "hatch", "patternUnits": "userSpaceOnUse"})
    pattern.attrib.update({"width": "4", "height": "4", "patternTransform": "rotate(45)"})
    ET.SubElement(pattern, "rect", {"width": "4", "height": "4", "fill": "#ffffff"})
    ET.SubElement(pattern, "rect", {"width": "1.1", "height": "4", "fill": variables["--hatch"]})
    return definitions


def _without_invalid(text: str) -> str:
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _apply_styles(
    element: ET.Element, ancestors: list[ET.Element], sheet: StyleSheet, variables: Mapping[str, str]
) -> None:
    """Write the styles of an element and of everything inside it into attributes, and remove the classes."""
    declarations: dict[str, str] = {}
    for rule in sheet.rules:
        if rule.matches(ancestors, element):
            declarations |= rule.declarations
    # In CSS, variables are inherited: they apply to the element and everything inside it.
    variables = {**variables, **_variables_in(declarations)}
    font = _FONT.fullmatch(declarations.get("font", ""))
    if font:
        declarations.setdefault("font-size", font[1])
    for name in _PROPERTIES:
        if name in declarations:
            element.set(name, _resolved(declarations[name], variables).removesuffix("px"))
    _split_alpha(element, "fill")
    _split_alpha(element, "stroke")
    for child in element:
        _apply_styles(child, [*ancestors, element], sheet, variables)
    # Removed only now, because rules for the elements inside also look at the classes of their ancestors.
    element.attrib.pop("class", None)
    if element.tag == "text":
        # Browsers show a title on hovering; other programs would draw it as a part of the text.
        for title in element.findall("title"):
            element.remove(title)


def _variables_in(declarations: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in declarations.items() if name.startswith("--")}


def _resolved(value: str, variables: Mapping[str, str]) -> str:
    """Replace the variables in a value by their values, which may contain variables themselves."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        fallback = match[2]
        return variables.get(name, fallback or "none")

    # A limit, in case a variable refers to itself.
    for _ in range(10):
        replaced = _VARIABLE.sub(value_of, value)
        if replaced == value:
            break
        value = replaced
    return value.strip()


def _split_alpha(element: ET.Element, paint: str) -> None:
    """Write a colour such as ``#b5461f1a`` as a colour and an opacity, because not every program reads eight digits."""
    match = _COLOUR_WITH_ALPHA.fullmatch(element.get(paint, ""))
    if match is None:
        return
    alpha = int(match[2], 16) / 255
    opacity = float(element.get(f"{paint}-opacity", "1")) * alpha
    element.set(paint, f"#{match[1]}")
    element.set(f"{paint}-opacity", f"{opacity:.3g}")


def _matches_step(element: ET.Element, step: Step) -> bool:
    tag, classes = step
    if tag and element.tag != tag:
        return False
    return classes <= set(element.get("class", "").split())


def _path(selector: str) -> list[Step]:
    """Return the steps of a selector; empty if it contains anything other than types and classes."""
    steps: list[Step] = []
    for part in selector.split():
        match = _SIMPLE_SELECTOR.fullmatch(part)
        if match is None:
            return []
        classes = frozenset(match["classes"].split(".")[1:])
        steps.append((match["tag"] or "", classes))
    return steps


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield each rule as (selectors, text between the braces); at-rules such as ``@media`` are left out."""
    position = 0
    while True:
        start = text.find("{", position)
        if start < 0:
            return
        selectors = text[position:start].strip()
        # At-rules contain blocks with braces themselves, so the matching brace is found by counting.
        depth = 1
        end = start + 1
        while depth and end < len(text):
            if text[end] == "{":
                depth += 1
            elif text[end] == "}":
                depth -= 1
            end += 1
        if not selectors.startswith("@"):
            yield selectors, text[start + 1 : end - 1]
        position = end


def _declarations(body: str) -> Iterator[tuple[str, str]]:
    for declaration in body.split(";"):
        name, colon, value = declaration.partition(":")
        if colon:
            yield name.strip(), value.replace("!important", "").strip()
