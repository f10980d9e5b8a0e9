"""What ``lmassay figures`` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmassay.cli.console import say, warn, without_controls
from lmassay.cli.damage import damage_messages, warn_about_damage
from lmassay.cli.options import chosen_runs
from lmassay.errors import UserError, did_you_mean
from lmassay.storage.store import Store
from lmassay.types.wording import counted, enumerated

if TYPE_CHECKING:
    from lmassay.reporting.figure_files import FigureFile, FigureFormat, TextForm
    from lmassay.reporting.figure_style import FigureStyle


def figures(
    runs: Sequence[str],
    output: Path,
    formats: str,
    width: str,
    style: FigureStyle,
    text_form: TextForm,
    only: Sequence[str],
    list_only: bool,
    every: bool,
    results: Path,
) -> None:
    """Write the figures of a report about runs."""
    if every and runs:
        raise UserError("--all takes every run; leave out either --all or the names of runs")
    from lmassay.reporting.figure_files import figure_files, too_wide_message, write_figures
    from lmassay.reporting.formats.content import chapters
    from lmassay.reporting.paper import PaperLayout, is_too_wide, parse_width

    chosen_formats = _formats(formats)
    layout = PaperLayout(parse_width(width), style)
    with Store(results, for_display=True) as store:
        chosen = store.runs() if every else chosen_runs(store, runs)
        records = [store.with_damage(record) for record in chosen]
        warn_about_damage(damage_messages(records), results)
        files = _selected(figure_files(chapters(store, records), layout), only)
    if not files:
        say("the report about these runs has no figures")
        return
    if list_only:
        for file in files:
            click.echo(without_controls(f"{file.name}\t{file.drawing.title}"))
        return
    write_figures(files, output, chosen_formats, text_form, warn)
    for file in files:
        if is_too_wide(file.drawing, layout):
            warn(too_wide_message(file.name, file.drawing, layout))
    say(f"{counted(len(files), 'figure')} written to {output.resolve()} as {enumerated(chosen_formats)}")


def _formats(text: str) -> list[FigureFormat]:
    """Parse the value of ``--format``, such as ``svg,pdf``."""
    from lmassay.reporting.figure_files import FIGURE_FORMATS

    chosen: list[FigureFormat] = []
    for name in text.lower().split(","):
        # The loop, unlike a test with `in`, tells mypy that the name is a FigureFormat.
        for figure_format in FIGURE_FORMATS:
            if name.strip() == figure_format:
                chosen.append(figure_format)
                break
        else:
            raise UserError(
                f"--format: '{name}' is not a format{did_you_mean(name, FIGURE_FORMATS)}; write svg, pdf or png"
            )
    return list(dict.fromkeys(chosen))


def _selected(files: Sequence[FigureFile], only: Sequence[str]) -> list[FigureFile]:
    """Return the figures whose names contain one of the texts of ``--only``."""
    if not only:
        return list(files)
    selected = [file for file in files if any(text.lower() in file.name for text in only)]
    if files and not selected:
        raise UserError(f"no figure has '{only[0]}' in its name; lmassay figures --list lists the names")
    return selected
