"""Make the fonts of the figure files from DejaVu Sans: with fewer characters, and with a name of their own.

    pip install fonttools
    python tools/fonts.py /usr/share/fonts/truetype/dejavu src/lmassay/reporting/fonts

Figures look the same on every machine only if they contain their font. DejaVu Sans has the widths that the layout of
charts assumes. The copy has the letters of European languages and of Hebrew, and the symbols that charts use; other
scripts (such as Chinese, Japanese and Korean) would make it many times larger, so they come from the system's fonts.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

FAMILY = "Lmassay Sans"
# Unicode blocks, each as its first and last character.
_BLOCKS = (
    (0x0020, 0x024F),  # Latin
    (0x02B0, 0x03FF),  # modifiers, combining accents, Greek
    (0x0400, 0x052F),  # Cyrillic
    (0x0590, 0x05FF),  # Hebrew
    (0x1E00, 0x1EFF),  # Latin with further accents (Vietnamese)
    (0x2000, 0x20BF),  # punctuation, superscripts, currencies
    (0x2100, 0x22FF),  # letter-like symbols, number forms, arrows, mathematics
    (0x25A0, 0x25FF),  # geometric shapes
    (0xFFFD, 0xFFFD),  # the sign for characters that cannot be shown
)
_FILES = {"DejaVuSans.ttf": ("Regular", "LmassaySans.ttf"), "DejaVuSans-Bold.ttf": ("Bold", "LmassaySans-Bold.ttf")}


def main(source: Path, target: Path) -> None:
    """Write both fonts."""
    characters: list[int] = []
    for first, last in _BLOCKS:
        characters += range(first, last + 1)
    target.mkdir(parents=True, exist_ok=True)
    for name, (style, new_name) in _FILES.items():
        options = subset.Options()
        options.hinting = False
        options.layout_features = ["ccmp", "kern", "mark", "mkmk"]
        options.notdef_outline = True
        font = subset.load_font(str(source / name), options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=characters)
        subsetter.subset(font)
        _rename(font, style)
        # Without the current time as the modification time, the same input always gives the same bytes.
        font["head"].modified = font["head"].created
        font.recalcTimestamp = False
        font.save(str(target / new_name))


def _rename(font: TTFont, style: str) -> None:
    """Replace the family and style in the font's table of names; the numbers are name ids of the OpenType format."""
    names = font["name"]
    postscript_name = f"{FAMILY.replace(' ', '')}-{style}"
    values = {1: FAMILY, 2: style, 3: postscript_name, 4: f"{FAMILY} {style}", 6: postscript_name}
    for record in list(names.names):
        if record.nameID in (16, 17):
            names.removeNames(nameID=record.nameID)
    for name_id, value in values.items():
        for record in names.names:
            if record.nameID == name_id:
                record.string = value


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
