"""A report as the text of a file, in any format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmassay.errors import UserError
from lmassay.reporting.formats.content import Chapter, Pictures, chapters
from lmassay.reporting.run_table import TableLayout
from lmassay.storage.store import Store
from lmassay.types import RunRecord

SUFFIXES = {"": "html", ".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".tex": "tex", ".csv": "csv"}
"""The suffix of a file → the format of the report."""


def format_of(path: Path) -> str:
    """Return the format that the suffix of a file stands for."""
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"{path} does not have the suffix of a report format; use .html, .md, .tex or .csv")
    return SUFFIXES[path.suffix.lower()]


def report_text(
    store: Store,
    records: Sequence[RunRecord],
    form: str,
    content: Sequence[Chapter] | None = None,
    pictures: Pictures | None = None,
    layout: TableLayout | None = None,
) -> str:
    """Return a report about runs.

    ``form`` is ``html``, ``md``, ``tex``, ``csv``, or ``fragment`` for only the tables of the LaTeX report. ``layout``
    describes a table that the user configured; it comes first, but not in a CSV file. ``content`` is what `chapters`
    returns for the same runs and layout, if the caller has it already; ``html`` and ``csv`` do not use it.
    """
    # The writers are imported late, because each needs only its own libraries.
    if form == "html":
        from lmassay.reporting.page import render

        return render(store, records, layout)
    if form == "csv":
        from lmassay.reporting.formats.spreadsheet import results_csv

        return results_csv(records)
    from lmassay.reporting.formats import latex, markdown

    if content is None:
        content = chapters(store, records, layout)
    if form == "fragment":
        return latex.fragment(content)
    if form == "tex":
        return latex.document(content, pictures)
    return markdown.markdown(content, pictures)
