"""What ``lmassay compare`` prints: tables for people, a document for programs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from lmassay.cli.common import interval_title
from lmassay.cli.console import is_narrow, print_table, sentence
from lmassay.reporting.changed import read_both
from lmassay.reporting.compared import WHAT_IS_BETTER, Compared, interval_text
from lmassay.reporting.numbers import number_text, p_text
from lmassay.statistics.comparison import Comparison
from lmassay.statistics.flips import Flips
from lmassay.statistics.gate import Verdict
from lmassay.types import Better

Answers = Mapping[str, tuple[str, str]]
"""What both runs answered, by id."""
_SHORT, _SHORT_IF_NARROW = 60, 20
# What is shown of two texts that begin alike: so much before they part, and at least so much behind.
_BEFORE, _AFTER = 5, 8


def document(found: Compared, most: int | None) -> dict[str, Any]:
    """All of it as JSON; the examples of the flips as many as were asked for."""
    texts, bases = _answers(found, most or 0), found.bases
    return {
        # Several base runs are those of a sweep; each comparison says which is its own.
        "base": bases[0].side.record.id if len(bases) == 1 else None,
        "groups": dict(found.groups),
        "caveats": list(found.caveats),
        "comparisons": [asdict(row) | {"relative": row.relative} for row in found.rows],
        "flips": [_flips_document(flips, most or 0, texts[flips.new]) for flips in found.flips],
        "gate": found.verdict.as_json() if found.verdict else None,
    }


def print_compared(found: Compared, most: int | None) -> None:
    """The table of differences, the flips if they were asked for, and the verdict of the gate."""
    _print_differences(found)
    if most is not None:
        texts = _answers(found, most)
        for flips in found.flips:
            _print_flips(found, flips, most, texts[flips.new])
    if found.verdict is not None:
        _print_verdict(found, found.verdict)


def _print_differences(found: Compared) -> None:
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
    print_table(
        f"{new}against {against}{part}; {found.manner}",
        heads,
        [_row(row, several=several, relative=relative, tests=tests) for row in found.rows],
        right=range(2 if several else 1, len(heads)),
    )
    directions: tuple[Better, ...] = ("lower", "zero")
    for better in directions:
        metrics = dict.fromkeys(row.metric for row in found.rows if row.better == better)
        if metrics:
            sentence(f"{WHAT_IS_BETTER[better]}: {', '.join(metrics)}")


def _row(row: Comparison, *, several: bool, relative: bool, tests: bool) -> list[object]:
    share = "n/a" if row.relative is None else f"{row.relative:+z.1%}"
    return [
        row.metric,
        *([row.new_label] if several else []),
        number_text(row.base_mean),
        number_text(row.new_mean),
        f"{row.difference:+z.4f}",
        interval_text(row),
        *([share] if relative else []),
        p_text(row.p),
        *([p_text(row.p_adjusted)] if tests else []),
        row.n,
    ]


def _print_flips(found: Compared, flips: Flips, most: int, texts: Answers) -> None:
    which = f" of {found.title(flips.new)}" if len(found.others) > 1 else ""
    rose, fell = len(flips.risen), len(flips.fallen)
    if flips.is_rate:
        counts = f"{fell:,} from 1 to 0, {rose:,} from 0 to 1, {flips.both_one:,} both 1, {flips.both_zero:,} both 0"
        counts += f"; McNemar's exact p {p_text(flips.p)}" if flips.p is not None else ""
    else:
        counts = f"{fell:,} fell, {rose:,} rose, {flips.n - len(flips.changes):,} unchanged"
    title = f"flips in {flips.metric}{which}: {counts}; {flips.left_out.told()}"
    click.echo("")
    if not flips.changes or not most:
        sentence(title)
        return
    shown = flips.first(most)
    answered = ("base", "new") if any(change.id in texts for change in shown) else ()
    rows = [
        (c.id, f"{c.before:g}", f"{c.after:g}", *(_in_short(*texts.get(c.id, ("", ""))) if answered else ()))
        for c in shown
    ]
    what = "id" if flips.paired_by == "example" else flips.paired_by
    print_table(title, (what, "before", "after", *answered), rows, right=(1, 2))


def _print_verdict(found: Compared, verdict: Verdict) -> None:
    click.echo("")
    for check in verdict.checks:
        which = f" ({found.title(check.row.new)})" if len(found.others) > 1 else ""
        sentence(f"{check.state.upper()}  {check.condition}{which}: {check.why}")
    if verdict.checks:
        sentence(f"the gate {verdict.how()}")


def _flips_document(flips: Flips, most: int, texts: Answers) -> dict[str, Any]:
    shown = flips.as_json(most)
    for example in shown["examples"]:
        example["base_answer"], example["new_answer"] = texts.get(example["id"], ("", ""))
    return shown


def _answers(found: Compared, most: int) -> dict[str, Answers]:
    """By run, read once for all that are listed."""
    return {
        source.side.record.id: read_both(
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
