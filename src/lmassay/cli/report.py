"""``lmassay report``"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmassay.cli.console import say
from lmassay.cli.options import chosen_runs, results_option
from lmassay.errors import UserError
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import RunRecord

if TYPE_CHECKING:
    from lmassay.reporting.figure_files import FigureFile, FigureFormat
    from lmassay.reporting.formats.content import Chapter, Picture, Pictures

_SUFFIXES = {"": "html", ".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".tex": "tex", ".csv": "csv"}
_FORMATS = ("html", "md", "tex", "csv")
# What a document in each format can show, the better one first.
_SHOWS: Mapping[str, Sequence[FigureFormat]] = {"md": ("svg", "png"), "tex": ("pdf", "png")}
_STANDARD_OUTPUT = Path("-")


@click.command(epilog="Example: lmassay report --all -o report.html", short_help="Write a report: page, text or table.")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File to write, or a folder for it; - is standard output.  [default: report.html, or as --format says]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="A page, Markdown, LaTeX, or all results as CSV.  [default: as -o ends]",
)
@click.option("--fragment", is_flag=True, help="LaTeX: the tables alone, to put into a document of yours.")
@click.option("--figures", type=click.Path(path_type=Path, file_okay=False), help="Write each figure to this folder.")
@click.option(
    "--figure-format",
    "figure_formats",
    type=click.Choice(("svg", "png", "pdf")),
    multiple=True,
    help="How figures are written; may be given several times.  [default: svg; with LaTeX pdf]",
)
@click.option("--all", "every", is_flag=True, help="Report all runs in the folder.")
@results_option
def report(
    runs: Sequence[str],
    output: Path | None,
    form: str | None,
    fragment: bool,
    figures: Path | None,
    figure_formats: Sequence[FigureFormat],
    every: bool,
    results: Path,
) -> None:
    """Write what runs have shown: one self-contained page with tables, figures, examples and provenance, or the same
    tables as Markdown or LaTeX, or all results as CSV. No RUN: all of the last command's.

    --figures writes the figures to files; a report in Markdown or LaTeX that is written with them shows them. Alone, it
    writes nothing else.
    """
    if every and runs:
        raise UserError("--all reports every run; leave out either it or the names")
    if figure_formats and figures is None:
        raise UserError("--figure-format goes with --figures FOLDER")
    alone = figures is not None and output is None and form is None
    form = form or _form_of(output)
    if fragment and form != "tex":
        raise UserError("--fragment goes with --format tex")
    target = _target(output, form)
    from lmassay.reporting.formats.content import chapters

    with Store(results) as store:
        records = store.runs() if every else chosen_runs(store, runs)
        found = chapters(store, records) if figures is not None or form in _SHOWS else []
        pictures: Pictures = {}
        if figures is not None:
            wanted = figure_formats or (("pdf",) if form == "tex" else ("svg",))
            files = _write_figures(found, figures, wanted)
            pictures = _pictures(files, figures, [f for f in _SHOWS.get(form, ()) if f in wanted], target)
        text = "" if alone else _text(store, records, found, "fragment" if fragment else form, pictures)
    if not alone:
        _write(text, target)


def _form_of(output: Path | None) -> str:
    if output is None or output.is_dir():
        return "html"
    if output.suffix.lower() not in _SUFFIXES:
        raise UserError(f"{output} ends like no report; give --format {', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}")
    return _SUFFIXES[output.suffix.lower()]


def _target(output: Path | None, form: str) -> Path:
    if output is None:
        return Path(f"report.{form}")
    return output / f"report.{form}" if output.is_dir() else output


def _text(store: Store, records: Sequence[RunRecord], found: Sequence[Chapter], form: str, pictures: Pictures) -> str:
    if form == "html":
        from lmassay.reporting.page import render

        return render(store, records)
    if form == "csv":
        from lmassay.reporting.formats.spreadsheet import results_csv

        return results_csv(records)
    from lmassay.reporting.formats import latex, markdown

    if form == "fragment":
        return latex.fragment(found)
    return latex.document(found, pictures) if form == "tex" else markdown.markdown(found, pictures)


def _write_figures(found: Sequence[Chapter], folder: Path, formats: Sequence[FigureFormat]) -> list[FigureFile]:
    from lmassay.reporting.figure_files import figure_files, write_figures

    files = figure_files(found)
    if not files:
        say("there is no figure in this report")
        return []
    write_figures(files, folder, formats)
    say(f"{len(files)} figure{'' if len(files) == 1 else 's'} written to {folder.resolve()} as {' and '.join(formats)}")
    return files


def _pictures(
    files: Sequence[FigureFile], folder: Path, formats: Sequence[FigureFormat], target: Path
) -> dict[str, Picture]:
    """Where a report finds its figures: beside it."""
    if not formats:
        return {}
    from lmassay.reporting.formats.content import Picture

    base = Path() if target == _STANDARD_OUTPUT else target.parent
    found = {}
    for file in files:
        path = folder.resolve() / f"{file.name}.{formats[0]}"
        beside = Path(os.path.relpath(path, base.resolve())).as_posix()
        found[str(file.figure.drawing)] = Picture(beside, file.drawing.title)
    return found


def _write(text: str, target: Path) -> None:
    if target == _STANDARD_OUTPUT:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # Data, not words for a person: UTF-8 whatever the console shows.
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
        sys.stdout.write(text)
        return
    with atomic_write(target) as stream:
        stream.write(text)
    say(f"report written to {target.resolve()}")
