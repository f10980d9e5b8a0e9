"""Estimated text widths, and texts cut or wrapped to a given width.

A chart is laid out before any browser has seen it, so the width of a text is estimated from a table of advance widths.
The table has those of DejaVu Sans, the widest font in the font lists of the style sheet and of the figure files
(`figure_style.FONTS`). In every other font of the lists a text is narrower than estimated, so texts that do not overlap
by this estimate do not overlap on the reader's screen either.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex  # type: ignore[import-untyped,unused-ignore]

FONT_SIZE = 12.0
"""The font size of all texts in a figure, in units of the drawing; it must be the same in the style sheet."""
LINE_HEIGHT = 15.0
ASCENT = 0.93 * FONT_SIZE
"""How far a line of text extends above its baseline."""
DESCENT = 0.24 * FONT_SIZE
"""How far a line of text extends below its baseline."""
MIDDLE = 0.36 * FONT_SIZE
"""The distance from the middle of a line of digits down to its baseline."""
ELLIPSIS = "…"

# Advance widths of DejaVu Sans, in thousandths of the font size.
_WIDTHS = {
    227: "′",
    275: "'",
    278: "ijl",
    295: "IJ",
    318: " ,.·‘’",
    337: "/:;\\|",
    352: "f",
    361: "-",
    390: "()[]",
    392: "t",
    401: "!⁰¹²³⁴⁵⁶⁷⁸⁹",
    411: "r",
    460: '"',
    500: "*_`–§°",
    518: "“”",
    521: "s",
    525: "z",
    528: "⁻",
    531: "?",
    550: "c",
    557: "L",
    575: "F",
    579: "k",
    592: "vxy",
    603: "P",
    611: "TY",
    613: "ao",
    615: "e",
    632: "Eß",
    636: "0123456789$Shnubdgpq{}µ€",
    656: "K",
    686: "ABVXZ",
    698: "CR",
    732: "U",
    752: "HN",
    770: "D",
    775: "G",
    780: "&",
    787: "OQ",
    818: "w",
    838: "#+<=>^~×±−←→≤≥≠",
    863: "M",
    873: "○",
    950: "%",
    974: "m",
    989: "W",
    1000: "@—…",
}
# Character → advance width as a share of the font size.
_ADVANCES: dict[str, float] = {}
for _width, _characters in _WIDTHS.items():
    for _character in _characters:
        _ADVANCES[_character] = _width / 1000
_WIDE = 1.0
"""The width of East Asian characters, of symbols, and of whatever may be drawn in an East Asian font."""
_OTHER = 0.9
"""The width assumed for letters of scripts that the table does not have; most of them are narrower."""
_REPLACEMENT_WIDTH = 1.03
_BOLD_EXTRA = 0.1
_BOLD_CAPITAL_EXTRA = 0.12
"""By how much bold letters are wider than regular ones. Bold East Asian characters are as wide as regular ones."""
_BREAK_AFTER = frozenset("-/_.,:;·")
"""Characters after which a word that is wider than a line is best broken."""
_ROUNDING_ERROR = 1e-6
_INVISIBLE_CATEGORIES = ("Mn", "Me", "Cf")
# Control characters and surrogates, which XML cannot represent, and characters that change the writing direction, which
# would reorder the numbers next to them.
_UNDRAWABLE = regex.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text set in lines that fit a width. ``full`` is the whole text if a part of it had to be left out."""

    lines: Sequence[str]
    bold: bool = False
    full: str = ""

    @property
    def width(self) -> float:
        return max((text_width(line, bold=self.bold) for line in self.lines), default=0.0)

    @property
    def height(self) -> float:
        return LINE_HEIGHT * len(self.lines)


def fit(text: str, width: float, *, lines: int | None = 1, bold: bool = False) -> TextBlock:
    """Wrap a text to at most ``lines`` lines (None: as many as it needs) that are not wider than ``width``.

    A text that is too long loses its middle, because names of runs and models often differ only at their ends.

    >>> fit("accuracy on the test set", 90, lines=2).lines
    ('accuracy on', 'the test set')
    >>> fit("accuracy on the test set", 90).lines
    ('accura…st set',)
    """
    # A tolerance, because the available width is often the text's own width after additions and subtractions.
    width += _ROUNDING_ERROR
    clean = clean_text(text)
    if not clean:
        return TextBlock((), bold)
    finished: list[str] = []
    remaining = clean
    while remaining:
        is_last_line = lines is not None and len(finished) == lines - 1
        if is_last_line:
            break
        line, remaining = _first_line(remaining, width, bold)
        finished.append(line)
    if not remaining:
        return TextBlock(tuple(finished), bold)
    last_line = truncate(remaining, width, bold=bold)
    full = "" if last_line == remaining else clean
    return TextBlock((*finished, last_line), bold, full)


@dataclass(frozen=True, slots=True)
class Room:
    """A text and the width that is available for it."""

    text: str
    width: float
    bold: bool = False


def fit_distinct(rooms: Sequence[Room], lines: int | None = 2) -> list[TextBlock]:
    """Wrap each text as :func:`fit` does; texts that would look the same after cutting get as many lines as they need.

    >>> labels = ["a long name, rate=0.1, on a model", "a long name, rate=0.3, on a model"]
    >>> [block.lines[1] for block in fit_distinct([Room(label, 100) for label in labels])]
    ['rate=0.1, on a', 'rate=0.3, on a']
    """
    blocks = [fit(room.text, room.width, lines=lines, bold=room.bold) for room in rooms]
    texts_by_lines: dict[tuple[str, ...], set[str]] = {}
    for room, block in zip(rooms, blocks, strict=True):
        texts_by_lines.setdefault(tuple(block.lines), set()).add(clean_text(room.text))
    for position, room in enumerate(rooms):
        if len(texts_by_lines[tuple(blocks[position].lines)]) > 1:
            blocks[position] = fit(room.text, room.width, lines=None, bold=room.bold)
    return blocks


def truncate(text: str, width: float, *, bold: bool = False) -> str:
    """Replace the middle of a text that is wider than ``width`` by an ellipsis.

    >>> truncate("a-model-with-a-long-name-7b", 120)
    'a-model-…name-7b'
    """
    if text_width(text, bold=bold) <= width:
        return text
    clusters = _clusters(text)
    # The largest number of clusters that fits is found by bisection: more clusters are never narrower.
    fits = 0
    too_many = len(clusters)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if text_width(_without_middle(clusters, middle), bold=bold) <= width:
            fits = middle
        else:
            too_many = middle
    return _without_middle(clusters, fits)


def text_width(text: str, *, bold: bool = False) -> float:
    """Return the estimated width of a line of text, in units of the drawing.

    >>> round(text_width("accuracy")), round(text_width("정확도"))
    (54, 36)
    """
    total = 0.0
    for character in unicodedata.normalize("NFC", text):
        width = _advance(character)
        if bold and 0 < width < _WIDE:
            width += _BOLD_CAPITAL_EXTRA if character.isupper() else _BOLD_EXTRA
        total += width
    return total * FONT_SIZE


def clean_text(text: str) -> str:
    """Return the text as it is drawn: in one line, without characters that cannot be drawn."""
    return drawable(" ".join(text.split()))


def drawable(text: str) -> str:
    """Return the text with a replacement for each character that SVG cannot represent."""
    replaced: str = _UNDRAWABLE.sub("\N{REPLACEMENT CHARACTER}", text)
    return replaced


@lru_cache(maxsize=4096)
def _advance(character: str) -> float:
    """Return the width of one character as a share of the font size."""
    if character in _ADVANCES:
        return _ADVANCES[character]
    if character == "\N{REPLACEMENT CHARACTER}":
        return _REPLACEMENT_WIDTH
    if unicodedata.category(character) in _INVISIBLE_CATEGORIES:
        return 0.0
    east_asian_width = unicodedata.east_asian_width(character)
    if east_asian_width in ("W", "F"):
        return _WIDE
    # An accented letter is as wide as the letter without its accent.
    letter = unicodedata.normalize("NFD", character)[0]
    if letter in _ADVANCES:
        return _ADVANCES[letter]
    # "A" stands for ambiguous: wide if an East Asian font draws it.
    return _WIDE if east_asian_width == "A" else _OTHER


def _first_line(text: str, width: float, bold: bool) -> tuple[str, str]:
    """Return as many words as fit in a line, and the rest of the text. A word wider than a line is broken."""
    words = text.split(" ")
    line = ""
    for position, word in enumerate(words):
        longer = f"{line} {word}" if line else word
        if text_width(longer, bold=bold) > width:
            if not line:
                return _broken(text, width, bold)
            return line, " ".join(words[position:])
        line = longer
    return line, ""


def _broken(text: str, width: float, bold: bool) -> tuple[str, str]:
    """Return as many characters as fit in a line, but at least one, and the rest of the text."""
    line = ""
    end_of_part = 0
    for cluster in _clusters(text):
        if line and text_width(line + cluster, bold=bold) > width:
            break
        line += cluster
        if cluster in _BREAK_AFTER:
            end_of_part = len(line)
    # A line that is half empty looks worse than a word broken anywhere.
    if end_of_part > len(line) / 2:
        line = line[:end_of_part]
    return line, text[len(line) :].lstrip()


def _clusters(text: str) -> list[str]:
    """Split a text into what readers see as characters: a letter with its accents, an emoji with its modifiers."""
    clusters: list[str] = regex.findall(r"\X", text)
    return clusters


def _without_middle(clusters: Sequence[str], kept: int) -> str:
    """Return a text with only ``kept`` of its characters, half of them from each end, around an ellipsis."""
    head = math.ceil(kept / 2)
    tail = kept - head
    end = clusters[len(clusters) - tail :] if tail else []
    return f"{''.join(clusters[:head]).rstrip()}{ELLIPSIS}{''.join(end)}"
