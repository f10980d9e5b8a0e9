"""``lmassay compare``"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lmassay.cli.common import json_option, results_option
from lmassay.cli.console import print_json, say, warn
from lmassay.errors import UserError, did_you_mean
from lmassay.statistics.gate import ALPHA, parse_condition

if TYPE_CHECKING:
    from lmassay.reporting.compared import Source
    from lmassay.statistics.comparison import Side
    from lmassay.storage.store import Store
    from lmassay.types import RunRecord

_FEW = 10


def _how_many(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    if value is None or value.isdecimal():
        return None if value is None else int(value)
    # Without a number, the option takes what follows for one.
    raise UserError(f"--flips '{value}' is no number; write --flips behind the runs, or --flips {_FEW}")


@click.command(epilog='Example: lmassay compare BASE NEW --fail-if "accuracy<-0.02"', short_help="Compare runs.")
@click.argument("runs", metavar="BASE NEW...", nargs=-1, required=True)
@click.option("--metric", "metrics", metavar="NAME", multiple=True, help="Compare by this metric, not by the headline.")
@click.option("--group", "groups", metavar="KIND=LABEL", multiple=True, help="Only examples of a group: category=Age.")
@click.option(
    "--flips",
    "most",
    metavar="[N]",
    is_flag=False,
    flag_value=str(_FEW),
    callback=_how_many,
    help=f"List examples whose score changed: N of each kind, {_FEW} if no N is given.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page about it.")
@click.option(
    "--fail-if",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    help='Exit with 1 if so and significant: "accuracy<-0.02", "accuracy<-2%", "accuracy worse by 0.02".',
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=ALPHA,
    show_default=True,
    help="What p must be below to be significant.",
)
@click.option("--allow-incomplete", is_flag=True, help="Let --fail-if judge runs with errors, and unfinished ones.")
@click.option(
    "--base-results", type=click.Path(path_type=Path, file_okay=False), help="Folder that holds BASE, if another."
)
@results_option
@json_option
def compare(
    runs: Sequence[str],
    metrics: Sequence[str],
    groups: Sequence[str],
    most: int | None,
    output: Path | None,
    conditions: Sequence[str],
    alpha: float,
    allow_incomplete: bool,
    base_results: Path | None,
    results: Path,
    as_json: bool,
) -> int:
    """Compare each NEW run with BASE on the examples both have: difference, its interval, paired test, flips.

    --fail-if makes it a gate: exit 1 if a difference is beyond the threshold and significant, 0 if not, 2 if that
    cannot be judged. With several conditions or runs, p is adjusted for their number. Of a sweep, "latest latest"
    judges every run.
    """
    from lmassay.cli.compare_print import document, print_compared
    from lmassay.reporting.compared import Gate, compare_sources
    from lmassay.statistics.run_pairs import named_runs
    from lmassay.storage.store import Store

    gate = Gate([parse_condition(text) for text in conditions], alpha, allow_incomplete)
    part = _parsed_groups(groups)
    if len(runs) < 2:
        raise UserError("give at least two runs: the first is what the others are compared with; see `lmassay ls`")
    with ExitStack() as stack:
        store = stack.enter_context(Store(results))
        base_store = store if base_results is None else stack.enter_context(Store(base_results))
        named = named_runs(base_store, store, runs, gated=bool(conditions), allow_incomplete=allow_incomplete)
        pairs = _with_scores(base_store, store, named.pairs, part)
        found = compare_sources(pairs, metrics, part, gate)
        found = replace(found, caveats=[*named.caveats, *found.caveats])
        for caveat in found.caveats:
            warn(caveat)
        if as_json:
            print_json(document(found, most))
        else:
            print_compared(found, most)
        if output is not None:
            from lmassay.reporting.compare_page import render
            from lmassay.storage.files import atomic_write

            page = render(found)
            with atomic_write(output) as stream:
                stream.write(page)
            say(f"page written to {output.resolve()}")
    if found.verdict is None:
        return 0
    if found.verdict.state == "cannot judge":
        raise UserError(f"the gate cannot judge: {found.verdict.why_not}")
    return found.verdict.exit_code


def _parsed_groups(groups: Sequence[str]) -> dict[str, str]:
    found = {}
    for group in groups:
        kind, sign, label = group.partition("=")
        if not sign or not kind.strip():
            raise UserError(f"--group '{group}' cannot be read; write KIND=LABEL, such as category=Age")
        found[kind.strip()] = label.strip()
    return found


def _with_scores(
    base_store: Store, store: Store, pairs: Sequence[tuple[RunRecord, RunRecord]], part: dict[str, str]
) -> list[tuple[Source, Source]]:
    """Each run is read once, however many others it is compared with."""
    from lmassay.reporting.blocks import titles
    from lmassay.reporting.compared import Source

    runs = {base.id: (base_store, base) for base, _ in pairs} | {new.id: (store, new) for _, new in pairs}
    names = titles([record for _, record in runs.values()])
    sources = {
        run: Source(home, _side(home, record, part), title)
        for (run, (home, record)), title in zip(runs.items(), names, strict=True)
    }
    return [(sources[base.id], sources[new.id]) for base, new in pairs]


def _side(store: Store, record: RunRecord, part: dict[str, str]) -> Side:
    from lmassay.reporting.compared import part_text
    from lmassay.statistics.comparison import load_side

    side = load_side(store, record, part)
    if part and not side.table.ids:
        known = _known_groups(load_side(store, record).table.groups, part)
        raise UserError(f"{record.id} has no example with {part_text(part)}{known}")
    return side


def _known_groups(groups: dict[str, list[str]], part: dict[str, str]) -> str:
    """What might have been meant: the first kind, or label of a kind, that no example has."""
    for kind, label in part.items():
        if kind not in groups:
            return did_you_mean(kind, groups)
        if label not in groups[kind]:
            return did_you_mean(label, set(groups[kind]))
    return ""
