"""A figure of the page as a drawing that stands alone: what the style sheet says is written into its shapes.

Inside the page a shape has a class and the style sheet its colour. Programs that read SVG know few selectors and no
variables, so every shape gets its paint here: the light colours, upon white.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

SVG = "http://www.w3.org/2000/svg"
FONTS = (
    "'Segoe UI', 'Helvetica Neue', 'Noto Sans', 'DejaVu Sans', 'Noto Sans CJK KR', 'Noto Sans KR', 'Malgun Gothic', "
    "'Apple SD Gothic Neo', sans-serif"
)
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_BACKGROUND = {"--page": "#ffffff", "--card": "#ffffff"}
_PAINT = ("fill", "stroke")
_WRITTEN = (
    *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap"),
    *("stroke-linejoin", "opacity", "font-size", "font-weight", "font-style", "text-anchor"),
)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SIMPLE = re.compile(r"(?P<tag>[a-z]+)?(?P<classes>(?:\.[\w-]+)*)")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,\s*([^()]*))?\)")
_WITH_ALPHA = re.compile(r"#([0-9a-fA-F]{6})([0-9a-fA-F]{2})")
_FONT = re.compile(r"(?:.*\s)?(\d+(?:\.\d+)?)px(?:/\S+)?\s.*", re.DOTALL)
# XML has no place for these, not even escaped.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG document, what it shows, and its size."""

    title: str
    width: float
    height: float
    text: str


@dataclass(frozen=True, slots=True)
class StyleRule:
    """What a selector of types and classes, one inside the other, says of the last of them."""

    path: Sequence[tuple[str, frozenset[str]]]
    says: Mapping[str, str]

    @property
    def weight(self) -> tuple[int, int]:
        return sum(len(classes) for _, classes in self.path), sum(bool(tag) for tag, _ in self.path)

    def fits(self, above: Sequence[ET.Element], element: ET.Element) -> bool:
        *outer, last = self.path
        if not _is(element, last):
            return False
        ancestors = iter(above)
        return all(any(_is(ancestor, step) for ancestor in ancestors) for step in outer)


@dataclass(frozen=True, slots=True)
class StyleSheet:
    """The variables of the light page, and the rules in the order in which they win."""

    variables: Mapping[str, str]
    rules: Sequence[StyleRule]

    @property
    def classes(self) -> set[str]:
        return {name for rule in self.rules for _, classes in rule.path for name in classes}


@lru_cache(maxsize=1)
def page_style_sheet() -> StyleSheet:
    """The style sheets of the page."""
    folder = files("lmassay.reporting").joinpath("templates")
    sheets = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".css")), key=lambda entry: entry.name)
    # The page's own first: what the figures add comes behind it.
    sheets.sort(key=lambda entry: entry.name != "page.css")
    return parse_style_sheet("\n".join(entry.read_text(encoding="utf-8") for entry in sheets))


def parse_style_sheet(text: str) -> StyleSheet:
    """Rules for figures are plain: types and classes. All else (dark, print, states) is for the page alone.

    >>> read_sheet(":root { --ink: #111 } .a, svg text { fill: var(--ink) } @media print { .a { fill: red } }").classes
    {'a'}
    """
    variables: dict[str, str] = {}
    rules = []
    for selectors, body in _blocks(_COMMENT.sub("", text)):
        says = dict(_declarations(body))
        for selector in map(str.strip, selectors.split(",")):
            if selector == ":root":
                variables |= {name: value for name, value in says.items() if name.startswith("--")}
            elif path := _path(selector):
                rules.append(StyleRule(path, says))
    return StyleSheet(variables | _BACKGROUND, sorted(rules, key=lambda rule: rule.weight))


def standalone(drawing: str, about: str = "", sheet: StyleSheet | None = None) -> Drawing:
    """A drawing of the page as one that needs no page; ``about`` is said in it."""
    sheet = sheet or page_style_sheet()
    root = ET.fromstring(_writable(drawing))  # noqa: S314 - we drew it
    title = root.get("aria-label", "")
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    _paint(root, [], sheet, sheet.variables)
    told = [ET.Element("title"), ET.Element("desc")]
    told[0].text, told[1].text = title, _writable(about)
    size = {"width": f"{width:g}", "height": f"{height:g}"}
    root[:0] = [*told, ET.Element("rect", {**size, "fill": "#ffffff"})]
    root.attrib.update({"xmlns": SVG, **size, "font-family": FONTS})
    return Drawing(title, width, height, f"{_HEAD}{ET.tostring(root, encoding='unicode')}\n")


def _writable(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _paint(element: ET.Element, above: list[ET.Element], sheet: StyleSheet, variables: Mapping[str, str]) -> None:
    says: dict[str, str] = {}
    for rule in sheet.rules:
        if rule.fits(above, element):
            says |= rule.says
    own = {**variables, **{name: value for name, value in says.items() if name.startswith("--")}}
    if font := _FONT.fullmatch(says.get("font", "")):
        says.setdefault("font-size", font[1])
    for name in _WRITTEN:
        if name in says:
            element.set(name, _resolved(says[name], own).removesuffix("px"))
    for paint in _PAINT:
        _split_alpha(element, paint)
    for child in element:
        _paint(child, [*above, element], sheet, own)
    element.attrib.pop("class", None)
    if element.tag == "text":
        # What is told on pointing: programs that draw would take it for a part of the text.
        for told in element.findall("title"):
            element.remove(told)


def _resolved(value: str, variables: Mapping[str, str]) -> str:
    for _ in range(10):
        replaced = _VARIABLE.sub(lambda m: variables.get(m[1], m[2] or "none"), value)
        if replaced == value:
            break
        value = replaced
    return value.strip()


def _split_alpha(element: ET.Element, paint: str) -> None:
    """A colour with its opacity apart, as all programs know it."""
    if found := _WITH_ALPHA.fullmatch(element.get(paint, "")):
        opacity = float(element.get(f"{paint}-opacity", "1")) * int(found[2], 16) / 255
        element.set(paint, f"#{found[1]}")
        element.set(f"{paint}-opacity", f"{opacity:.3g}")


def _is(element: ET.Element, step: tuple[str, frozenset[str]]) -> bool:
    tag, classes = step
    return (not tag or element.tag == tag) and classes <= set(element.get("class", "").split())


def _path(selector: str) -> list[tuple[str, frozenset[str]]]:
    """The steps of a selector, or none where it has more than types and classes in it."""
    found = [_SIMPLE.fullmatch(step) for step in selector.split()]
    steps = [(m["tag"] or "", frozenset(m["classes"].split(".")[1:])) for m in found if m is not None and m[0]]
    return steps if len(steps) == len(found) else []


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Selectors and what is in their braces; rules for a medium are left out."""
    place = 0
    while (start := text.find("{", place)) >= 0:
        selectors, depth, end = text[place:start].strip(), 1, start + 1
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if not selectors.startswith("@"):
            yield selectors, text[start + 1 : end - 1]
        place = end


def _declarations(body: str) -> Iterator[tuple[str, str]]:
    for declaration in body.split(";"):
        name, sign, value = declaration.partition(":")
        if sign:
            yield name.strip(), value.replace("!important", "").strip()
