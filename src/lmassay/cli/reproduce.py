"""``lmassay reproduce``: published numbers next to ours."""

from __future__ import annotations

import click

from lmassay.cli.completion import offer
from lmassay.cli.console import print_json, print_sentence, print_table
from lmassay.cli.options import json_option
from lmassay.contracts import ReproducedFigure, Reproduction, resolve
from lmassay.datasets.catalogue import catalogue, missing_files
from lmassay.errors import DataError, UserError, did_you_mean
from lmassay.plugins.evaluations import evaluations

_DIFFERENT = 1


def _reproductions() -> dict[str, Reproduction]:
    """All that can be reproduced, by name."""
    known: dict[str, Reproduction] = {}
    for evaluation in evaluations():
        for reproduction in evaluation.reproductions:
            known.setdefault(reproduction.name, reproduction)
    return known


@click.command(
    epilog="Example: lmassay reproduce blimp",
    short_help="Compute published numbers again and compare them.",
)
@click.argument("name", required=False, shell_complete=offer(_reproductions))
@json_option
def reproduce(name: str | None, as_json: bool) -> int:
    """Compute published numbers again and print them next to the originals.

    Without NAME, list what can be reproduced. The exit code is 1 if a number that should agree does not.
    """
    known = _reproductions()
    if name is None:
        _list(known, as_json)
        return 0
    if name not in known:
        raise UserError(f"nothing can be reproduced under the name '{name}'{did_you_mean(name, known)}")
    reproduction = known[name]
    _require_data(reproduction)
    figures: list[ReproducedFigure] = resolve(reproduction.path)()
    differing = [figure for figure in figures if not figure.agrees and not figure.excuse]
    if as_json:
        _print_as_json(reproduction, figures)
    else:
        _print_as_table(reproduction, figures)
    return _DIFFERENT if differing else 0


def _require_data(reproduction: Reproduction) -> None:
    for name in reproduction.datasets:
        entry = catalogue().find(name)
        files = list(entry.files())
        # A source may lack files, so a data set that was fetched in part is used as far as it goes.
        if len(missing_files(files)) == len(files):
            raise DataError(f"the data set {name} is not on this machine; run lmassay data get {name}")


def _list(known: dict[str, Reproduction], as_json: bool) -> None:
    if as_json:
        rows = []
        for reproduction in known.values():
            rows.append(
                {"name": reproduction.name, "title": reproduction.title, "datasets": list(reproduction.datasets)}
            )
        print_json({"reproductions": rows})
        return
    table = []
    for reproduction in known.values():
        table.append([reproduction.name, reproduction.title, " ".join(reproduction.datasets)])
    print_table("", ("name", "what is reproduced", "data"), table, whole=(0,))


def _print_as_json(reproduction: Reproduction, figures: list[ReproducedFigure]) -> None:
    rows = []
    for figure in figures:
        rows.append(
            {
                "name": figure.name,
                "published": figure.published,
                "computed": figure.computed,
                "agrees": figure.agrees,
                "verdict": figure.verdict,
            }
        )
    print_json({"name": reproduction.name, "title": reproduction.title, "figures": rows})


def _print_as_table(reproduction: Reproduction, figures: list[ReproducedFigure]) -> None:
    rows = []
    for figure in figures:
        rows.append([figure.name, figure.published, figure.computed, _difference(figure), figure.verdict])
    columns = ("figure", "published", "lmassay", "difference", "verdict")
    print_table(reproduction.title, columns, rows, right=(1, 2, 3), whole=(0,))
    agreeing = sum(figure.agrees for figure in figures)
    excused = sum(not figure.agrees and bool(figure.excuse) for figure in figures)
    text = f"{agreeing} of {len(figures)} figures agree to the last printed digit"
    if excused:
        text += f"; {excused} are known to differ"
    print_sentence(f"{text}.")


def _difference(figure: ReproducedFigure) -> str:
    """The difference with as many decimals as the figures have; empty for texts."""
    if figure.agrees:
        return ""
    try:
        difference = float(figure.computed) - float(figure.published)
    except ValueError:
        return ""
    decimals = len(figure.published.partition(".")[2])
    return f"{difference:+.{decimals}f}"
