"""``lmassay compare``"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lmassay.cli.console import is_narrow, print_json, print_sentence, print_table, say, warn
from lmassay.cli.options import json_option, results_option
from lmassay.cli.run_tables import interval_title
from lmassay.errors import UserError, did_you_mean
from lmassay.reporting.comparison_data import (
    DIRECTION_TEXTS,
    ComparedRun,
    GateSettings,
    RunComparison,
    compare_pairs,
    interval_text,
    part_text,
)
from lmassay.reporting.numbers import number_text, p_text
from lmassay.reporting.run_labels import distinct_labels
from lmassay.statistics.comparison import Comparison, Side, load_side
from lmassay.statistics.conditions import parse_condition
from lmassay.statistics.flips import Flips
from lmassay.statistics.gate import ALPHA, Verdict, unpaired_text
from lmassay.statistics.ranking import Standing
from lmassay.statistics.run_pairs import named_runs
from lmassay.storage.store import Store
from lmassay.types import Better, RunRecord

_FEW = 10


def _how_many(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    if value is None or value.isdecimal():
        return None if value is None else int(value)
    # Without a number, the option takes what follows for one.
    raise UserError(f"--flips '{value}' is no number; write --flips behind the runs, or --flips {_FEW}")


@click.command(
    epilog='Example: lmassay compare BASE NEW --fail-if "accuracy<-0.02" or --pass-only-if "accuracy>-0.02"',
    short_help="Compare runs.",
)
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
    help='Exit with 1 on evidence that it holds: "accuracy<-0.02", "accuracy<-2%", "accuracy worse by 0.02".',
)
@click.option(
    "--pass-only-if",
    "requirements",
    metavar="CONDITION",
    multiple=True,
    help='Exit with 0 only on evidence that it holds: "accuracy>-0.02", "accuracy not worse by 0.02".',
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 0.5, min_open=True, max_open=True),
    default=ALPHA,
    show_default=True,
    help="What p must be below to be significant.",
)
@click.option("--allow-incomplete", is_flag=True, help="Let the gate judge runs with errors, and unfinished ones.")
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
    requirements: Sequence[str],
    alpha: float,
    allow_incomplete: bool,
    base_results: Path | None,
    results: Path,
    as_json: bool,
) -> int:
    """Compare each NEW run with BASE on the examples both have: difference, its interval, paired test, flips.

    Two options make it a gate. --fail-if exits with 1 on evidence of a change beyond the threshold, and with 0
    without. --pass-only-if exits with 0 on evidence that there is none, and with 1 without. Both exit with 2 if that
    cannot be judged. With several conditions or runs, the p-values of --fail-if are adjusted for their number. Of a
    sweep, "latest latest" judges every run.
    """
    parsed = [parse_condition(text) for text in conditions]
    parsed += [parse_condition(text, "pass only if") for text in requirements]
    gate = GateSettings(parsed, alpha, allow_incomplete)
    part = _parsed_groups(groups)
    if len(runs) < 2:
        raise UserError("give at least two runs: the first is what the others are compared with; see `lmassay ls`")
    with ExitStack() as stack:
        store = stack.enter_context(Store(results))
        base_store = store if base_results is None else stack.enter_context(Store(base_results))
        named = named_runs(base_store, store, runs, gated=bool(parsed), allow_incomplete=allow_incomplete)
        pairs = _with_scores(base_store, store, named.pairs, part)
        found = compare_pairs(pairs, metrics, part, gate)
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
) -> list[tuple[ComparedRun, ComparedRun]]:
    """Each run is read once, however many others it is compared with."""
    from lmassay.reporting.run_labels import short_run_titles

    runs = {base.id: (base_store, base) for base, _ in pairs} | {new.id: (store, new) for _, new in pairs}
    names = short_run_titles([record for _, record in runs.values()])
    sources = {
        run: ComparedRun(home, _side(home, record, part), title)
        for (run, (home, record)), title in zip(runs.items(), names, strict=True)
    }
    return [(sources[base.id], sources[new.id]) for base, new in pairs]


def _side(store: Store, record: RunRecord, part: dict[str, str]) -> Side:
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


# --- what is printed: tables for people, a document for programs ------------------------------------------------------


Answers = Mapping[str, tuple[str, str]]
"""What both runs answered, by id."""
_SHORT, _SHORT_IF_NARROW = 60, 20
# What is shown of two texts that begin alike: so much before they part, and at least so much behind.
_BEFORE, _AFTER = 5, 8


def document(found: RunComparison, most: int | None) -> dict[str, Any]:
    """All of it as JSON; the examples of the flips as many as were asked for."""
    texts, bases = _answers(found, most or 0), found.bases
    return {
        # Several base runs are those of a sweep; each comparison says which is its own.
        "base": bases[0].side.record.id if len(bases) == 1 else None,
        "groups": dict(found.groups),
        "caveats": list(found.caveats),
        "comparisons": [row.as_json() for row in found.rows],
        "against_best": [_standing_document(standing) for standing in found.standings],
        "flips": [_flips_document(flips, most or 0, texts[flips.new]) for flips in found.flips],
        "gate": found.verdict.as_json() if found.verdict else None,
    }


def _standing_document(standing: Standing) -> dict[str, Any]:
    row = standing.row
    return {
        "metric": standing.metric,
        "run": standing.run,
        "mean": standing.mean,
        "mark": standing.mark,
        "best": standing.run if row is None else row.base,
        "difference": None if row is None else row.difference,
        "low": None if row is None else row.low,
        "high": None if row is None else row.high,
        "p": None if row is None else row.p,
        "p_adjusted": None if row is None else row.p_adjusted,
        "adjustment": "holm",
        "tests": standing.tests,
        "n": None if row is None else row.n,
    }


def print_compared(found: RunComparison, most: int | None) -> None:
    """The table of differences, the flips if they were asked for, and the verdict of the gate."""
    _print_differences(found)
    _print_standings(found)
    if most is not None:
        texts = _answers(found, most)
        for flips in found.flips:
            _print_flips(found, flips, most, texts[flips.new])
    if found.verdict is not None:
        _print_verdict(found, found.verdict)


def _print_differences(found: RunComparison) -> None:
    base, several = found.bases[0].side, len(found.others) > 1
    # One run has its name in the title; several need a column for it.
    new = "" if several else f"{found.others[0].side.name} "
    part = f", examples with {found.part}" if found.part else ""
    against = f"{base.record.id} ({base.name})" if len(found.bases) == 1 else "the run of the base that does the same"
    tests, relative = len(found.rows) > 1, not is_narrow()
    means = ["base", "new"] if is_narrow() and not several else ["base mean", "new mean"]
    columns = [*means, "difference", interval_title(base.record)]
    columns += [*(["relative"] if relative else []), "p", *(["p (FDR)"] if tests else []), "n"]
    heads = ["metric", *(["new"] if several else []), *columns]
    # Runs of different sweeps may have the same label; in the table they must be told apart.
    shown = distinct_labels([source.side.record for source in (*found.bases, *found.others)])
    names = {record.id: f"{record.label} on {record.model}" for record in shown}
    print_table(
        f"{new}against {against}{part}; {found.pairing}",
        heads,
        [_row(row, names[row.new] if several else "", relative=relative, tests=tests) for row in found.rows],
        right=range(2 if several else 1, len(heads)),
    )
    directions: tuple[Better, ...] = ("lower", "zero")
    for better in directions:
        metrics = dict.fromkeys(row.metric for row in found.rows if row.better == better)
        if metrics:
            print_sentence(f"{DIRECTION_TEXTS[better]}: {', '.join(metrics)}")
    if tests:
        print_sentence(f"p (FDR): adjusted for {len(found.rows)} rows (false discovery rate, Benjamini and Hochberg)")
    for row in found.rows:
        if unpaired := unpaired_text(row):
            which = f" of {found.title(row.new)}" if several else ""
            print_sentence(f"{row.metric}{which}: {unpaired}")


def _print_standings(found: RunComparison) -> None:
    if not found.standings:
        return
    rows: list[Sequence[object]] = []
    for standing in found.standings:
        row = standing.row
        if row is None:
            numbers = ["", "", ""]
        else:
            numbers = [f"{row.difference:+z.4f}", interval_text(row), p_text(row.p_adjusted)]
        rows.append([standing.metric, found.title(standing.run), number_text(standing.mean), *numbers, standing.mark])
    click.echo("")
    tests = max(standing.tests for standing in found.standings)
    print_table(
        f"all runs against the best; tie: not significantly different from it at {found.alpha:g}",
        ("metric", "run", "mean", "difference", interval_title(found.bases[0].side.record), "p (Holm)", ""),
        rows,
        right=(2, 3, 4, 5),
    )
    print_sentence(f"p (Holm): two-sided, adjusted by Holm's method for the {tests} pairs of runs by each metric")


def _row(row: Comparison, name: str, *, relative: bool, tests: bool) -> list[object]:
    share = "n/a" if row.relative is None else f"{row.relative:+z.1%}"
    return [
        row.metric,
        *([name] if name else []),
        number_text(row.base_mean),
        number_text(row.new_mean),
        f"{row.difference:+z.4f}",
        interval_text(row),
        *([share] if relative else []),
        p_text(row.p),
        *([p_text(row.p_adjusted)] if tests else []),
        row.n,
    ]


def _print_flips(found: RunComparison, flips: Flips, most: int, texts: Answers) -> None:
    which = f" of {found.title(flips.new)}" if len(found.others) > 1 else ""
    rose, fell = len(flips.risen), len(flips.fallen)
    if flips.is_rate:
        counts = f"{fell:,} from 1 to 0, {rose:,} from 0 to 1, {flips.both_one:,} both 1, {flips.both_zero:,} both 0"
    else:
        counts = f"{fell:,} fell, {rose:,} rose, {flips.n - len(flips.changes):,} unchanged"
    title = f"flips in {flips.metric}{which}: {counts}; {flips.left_out.told()}"
    click.echo("")
    if not flips.changes or not most:
        print_sentence(title)
        return
    shown = flips.first(most)
    answered = ("base", "new") if any(change.id in texts for change in shown) else ()
    rows = [
        (c.id, f"{c.before:g}", f"{c.after:g}", *(_in_short(*texts.get(c.id, ("", ""))) if answered else ()))
        for c in shown
    ]
    what = "id" if flips.paired_by == "example" else flips.paired_by
    print_table(title, (what, "before", "after", *answered), rows, right=(1, 2))


def _print_verdict(found: RunComparison, verdict: Verdict) -> None:
    click.echo("")
    for check in verdict.checks:
        which = f" ({found.title(check.row.new)})" if len(found.others) > 1 else ""
        # Without the reading, "PASS accuracy>-0.02" could be taken for a condition that must not hold.
        reading = "" if check.condition.reading == "fail if" else "only if "
        print_sentence(f"{check.state.upper()}  {reading}{check.condition}{which}: {check.why}")
    for text in verdict.how():
        print_sentence(text)


def _flips_document(flips: Flips, most: int, texts: Answers) -> dict[str, Any]:
    shown = flips.as_json(most)
    for example in shown["examples"]:
        example["base_answer"], example["new_answer"] = texts.get(example["id"], ("", ""))
    return shown


def _answers(found: RunComparison, most: int) -> dict[str, Answers]:
    """By run, read once for all that are listed."""
    # The help page must not wait for the parts of the HTML page, which this loads.
    from lmassay.reporting.changed_examples import read_changed_examples

    return {
        source.side.record.id: read_changed_examples(
            base, source, (change for flips in found.flips_of(source) for change in flips.first(most))
        ).answers()
        for base, source in found.pairs
    }


def _in_short(before: str, after: str) -> tuple[str, str]:
    """One line of each, from shortly before the place where they part."""
    most = _SHORT_IF_NARROW if is_narrow() else _SHORT
    one, other = " ".join(before.split()), " ".join(after.split())
    alike = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    whole = one == other or max(len(one), len(other)) <= most or alike < most - _AFTER
    start = 0 if whole else alike - _BEFORE
    return _cut(one, start, most), _cut(other, start, most)


def _cut(line: str, start: int, most: int) -> str:
    begun = f"…{line[start:]}" if start else line
    return begun if len(begun) <= most else f"{begun[: most - 1]}…"
