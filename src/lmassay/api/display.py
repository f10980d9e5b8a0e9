"""HTML that notebooks show, and reports as files.

For each object, a notebook shows one piece of HTML without scripts or network access. It inherits the colours of the
notebook, so it is readable on light and dark pages. All texts are escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup, escape

from lmassay.errors import UserError
from lmassay.redaction import excerpt
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import RunRecord

NOTHING = Markup("")
_MAX_CELL_CHARACTERS = 400
_STYLE = Markup(
    "<style>"
    ".lmassay{font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;color:inherit}"
    ".lmassay table{border-collapse:collapse;margin:.4em 0;color:inherit;background:none}"
    ".lmassay th,.lmassay td{padding:.25em 1em .25em 0;border:0;border-bottom:1px solid rgba(128,128,128,.4);"
    "text-align:left;vertical-align:top;background:none;color:inherit;white-space:pre-wrap;overflow-wrap:break-word;max-width:36em}"
    ".lmassay .num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    ".lmassay p{margin:.3em 0}"
    ".lmassay .note{opacity:.75}"
    ".lmassay figure{margin:.5em 0}"
    ".lmassay img{background:#fff;border-radius:6px;max-width:100%}"
    "</style>"
)


def page(*parts: Markup) -> str:
    """Join parts into the HTML that a notebook shows, and return it."""
    # Modules for pages are imported late, so that a program that only starts runs does not wait for them.
    from lmassay.reporting.html_document import without_unwritable

    body = Markup("").join(parts)
    return without_unwritable(str(Markup('{}<div class="lmassay">{}</div>').format(_STYLE, body)))


def heading(text: str) -> Markup:
    """Return a title."""
    return Markup("<p><strong>{}</strong></p>").format(text)


def note(text: str) -> Markup:
    """Return a less important line of text, in a lighter colour."""
    return Markup('<p class="note">{}</p>').format(text)


def warning(text: str) -> Markup:
    """Return a line of text that readers must not miss."""
    return Markup("<p>⚠ <strong>{}</strong></p>").format(text)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], kinds: str) -> Markup:
    """Return a table. ``kinds`` has one letter for each column: ``t`` for text, ``n`` for numbers."""
    # Markup.format escapes what it inserts, so no label or model name can become HTML.
    header_cell = Markup('<th scope="col"{}>{}</th>')
    data_cell = Markup("<td{}>{}</td>")
    line = Markup("<tr>{}</tr>")
    classes = [Markup(' class="num"') if kind == "n" else NOTHING for kind in kinds]
    header_cells = []
    for css_class, header in zip(classes, headers, strict=True):
        header_cells.append(header_cell.format(css_class, header))
    lines = [line.format(NOTHING.join(header_cells))]
    for row in rows:
        cells = []
        for css_class, text in zip(classes, row, strict=True):
            cells.append(data_cell.format(css_class, _shortened(text)))
        lines.append(line.format(NOTHING.join(cells)))
    return Markup("<table>{}</table>").format(NOTHING.join(lines))


def image(source: str, alternative_text: str) -> Markup:
    """Return a figure with an image, whose source is a data URL."""
    return Markup('<figure><img src="{}" alt="{}"></figure>').format(source, alternative_text)


def count(number: int, what: str) -> str:
    """Return a count with its noun, in the plural if necessary.

    >>> count(1, "run"), count(2, "run")
    ('1 run', '2 runs')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _shortened(text: str) -> Markup:
    if len(text) > _MAX_CELL_CHARACTERS:
        text = f"{excerpt(text, _MAX_CELL_CHARACTERS)}…"
    return escape(text)


def write_report(folder: Path, records: Sequence[RunRecord], path: Path) -> Path:
    """Write a report about runs; the ending of the file name determines the format."""
    if path.is_dir():
        raise UserError(f"{path} is a folder; give the name of a file, such as {path / 'report.html'}")
    from lmassay.reporting.report_text import format_of, report_text

    form = format_of(path)
    with Store(folder, for_display=True) as store:
        text = report_text(store, records, form)
    with atomic_write(path) as stream:
        stream.write(text)
    return path
