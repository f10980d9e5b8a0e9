"""What ``lmassay report`` does."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lmassay.cli.console import say, warn
from lmassay.cli.damage import damage_messages, warn_about_damage
from lmassay.cli.endings import HTML, format_by_ending
from lmassay.cli.options import chosen_runs
from lmassay.cli.table_options import TableOptions
from lmassay.errors import UserError
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types.wording import counted, enumerated

if TYPE_CHECKING:
    from lmassay.reporting.figure_files import FigureFile, FigureFormat
    from lmassay.reporting.formats.content import Chapter, Picture, Pictures

_ENDINGS = {**HTML, ".md": "md", ".markdown": "md", ".tex": "tex", ".csv": "csv"}
_FORMATS = ("html", "md", "tex", "csv")
# The figure formats that each report format can include, the preferred one first.
_FIGURES_IN: Mapping[str, Sequence[FigureFormat]] = {"md": ("svg", "png"), "tex": ("pdf", "png")}
_STANDARD_OUTPUT = Path("-")


def report(
    runs: Sequence[str],
    output: Path | None,
    form: str | None,
    fragment: bool,
    figures: Path | None,
    figure_formats: Sequence[FigureFormat],
    every: bool,
    table: TableOptions,
    results: Path,
) -> None:
    """Write a report about runs; without RUN, about all runs of the latest command."""
    if every and runs:
        raise UserError("--all reports every run; leave out either --all or the names of runs")
    if figure_formats and figures is None:
        raise UserError("--figure-format requires --figures FOLDER")
    only_figures = figures is not None and output is None and form is None
    form = form or _format_of(output)
    if fragment and form != "tex":
        raise UserError("--fragment requires --format tex")
    target = _target(output, form)
    layout = None
    if table.choose_contents:
        layout = table.layout()
        if form == "csv" or only_figures:
            raise UserError("--rows, --columns and --metric are for HTML, Markdown and LaTeX; see also `lmassay table`")
    elif table.describe_a_table:
        raise UserError(
            "--digits, --interval, --n, --caption and --alpha describe a table; give --rows, --columns or --metric"
        )
    from lmassay.reporting.formats.content import chapters
    from lmassay.reporting.report_text import report_text

    with Store(results, for_display=True) as store:
        chosen = store.runs() if every else chosen_runs(store, runs)
        records = [store.with_damage(record) for record in chosen]
        warn_about_damage(damage_messages(records), results)
        # HTML and CSV reports are written without it.
        needs_content = figures is not None or form in _FIGURES_IN
        content = chapters(store, records, layout) if needs_content else []
        pictures: Pictures = {}
        if figures is not None:
            default_formats: Sequence[FigureFormat] = ("pdf",) if form == "tex" else ("svg",)
            written_formats = figure_formats or default_formats
            files = _write_figures(content, figures, written_formats)
            usable_formats = [kind for kind in _FIGURES_IN.get(form, ()) if kind in written_formats]
            pictures = _pictures(files, figures, usable_formats, target)
        if only_figures:
            return
        text_form = "fragment" if fragment else form
        text = report_text(store, records, text_form, content, pictures, layout)
    _write(text, target)


def _format_of(output: Path | None) -> str:
    """Return the format that the ending of the output file stands for."""
    if output is None or output.is_dir():
        return "html"
    formats = f"{', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}"
    return format_by_ending(output, _ENDINGS, without_ending="html", advice=f", or give --format {formats}")


def _target(output: Path | None, form: str) -> Path:
    """Return the file to write; in a folder, or without ``-o``, it is called ``report`` with the format's ending."""
    if output is None:
        return Path(f"report.{form}")
    if output.is_dir():
        return output / f"report.{form}"
    return output


def _write_figures(content: Sequence[Chapter], folder: Path, formats: Sequence[FigureFormat]) -> list[FigureFile]:
    """Write all figures of a report to a folder."""
    from lmassay.reporting.figure_files import figure_files, write_figures

    files = figure_files(content)
    if not files:
        say("this report has no figures")
        return []
    write_figures(files, folder, formats, warn=warn)
    say(f"{counted(len(files), 'figure')} written to {folder.resolve()} as {enumerated(formats)}")
    return files


def _pictures(
    files: Sequence[FigureFile], folder: Path, formats: Sequence[FigureFormat], target: Path
) -> dict[str, Picture]:
    """Return the figures that a report includes: drawing of the figure → its path relative to the report, and title."""
    if not formats:
        return {}
    from lmassay.reporting.formats.content import Picture

    base = Path() if target == _STANDARD_OUTPUT else target.parent
    pictures = {}
    for file in files:
        path = folder.resolve() / f"{file.name}.{formats[0]}"
        relative_path = Path(os.path.relpath(path, base.resolve())).as_posix()
        pictures[str(file.figure.drawing)] = Picture(relative_path, file.drawing.title)
    return pictures


def _write(text: str, target: Path) -> None:
    """Write the text of a report to a file, or to standard output."""
    if target == _STANDARD_OUTPUT:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A report is data, so it is UTF-8 whatever the console can show.
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
        sys.stdout.write(text)
        return
    with atomic_write(target) as stream:
        stream.write(text)
    say(f"report written to {target.resolve()}")
