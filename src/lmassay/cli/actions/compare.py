"""What ``lmassay compare`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from lmassay.cli.console import print_json, say, warn
from lmassay.cli.endings import HTML, format_by_ending
from lmassay.cli.run_tables import interval_title
from lmassay.cli.table_output import fits, is_narrow, print_sentence, print_table
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
from lmassay.statistics.comparison import Comparison
from lmassay.statistics.conditions import parse_condition
from lmassay.statistics.flips import Flips
from lmassay.statistics.gate import GateVerdict, unpaired_text
from lmassay.statistics.ranking import Standing
from lmassay.statistics.run_pairs import named_runs
from lmassay.statistics.sides import Side, comparable_sides, load_side
from lmassay.storage.store import Store
from lmassay.types import Better, RunRecord


def compare(
    runs: Sequence[str],
    metrics: Sequence[str],
    groups: Sequence[str],
    max_flips: int | None,
    output: Path | None,
    conditions: Sequence[str],
    requirements: Sequence[str],
    alpha: float,
    allow_incomplete: bool,
    base_results: Path | None,
    results: Path,
    as_json: bool,
) -> int:
    """Compare each NEW run with BASE on the examples they share."""
    parsed = [parse_condition(text) for text in conditions]
    parsed += [parse_condition(text, "pass only if") for text in requirements]
    gate = GateSettings(parsed, alpha, allow_incomplete)
    wanted_groups = _parsed_groups(groups)
    if output is not None:
        format_by_ending(output, HTML, advice=", because the comparison is a page; --json prints the numbers")
    if len(runs) < 2:
        raise UserError("give at least two runs: the others are compared with the first one; see `lmassay ls`")
    with ExitStack() as stack:
        store = stack.enter_context(Store(results, for_display=True))
        base_store = store if base_results is None else stack.enter_context(Store(base_results, for_display=True))
        named = named_runs(base_store, store, runs, gated=bool(parsed), allow_incomplete=allow_incomplete)
        pairs = _compared_runs(base_store, store, named.pairs, wanted_groups)
        comparison = compare_pairs(pairs, metrics, wanted_groups, gate)
        comparison = replace(comparison, caveats=[*named.caveats, *comparison.caveats])
        for caveat in comparison.caveats:
            warn(caveat)
        if as_json:
            print_json(document(comparison, max_flips))
        else:
            print_comparison(comparison, max_flips)
        if output is not None:
            from lmassay.reporting.compare_page import render
            from lmassay.storage.files import atomic_write

            page = render(comparison)
            with atomic_write(output) as stream:
                stream.write(page)
            say(f"page written to {output.resolve()}")
    verdict = comparison.verdict
    if verdict is None:
        return 0
    if verdict.state == "cannot judge":
        raise UserError(f"the gate cannot judge: {verdict.why_not}")
    return verdict.exit_code


def _parsed_groups(texts: Sequence[str]) -> dict[str, str]:
    """Parse the values of ``--group``: kind of group → label. If a kind is given twice, the last label counts."""
    groups = {}
    for text in texts:
        kind, equals, label = text.partition("=")
        if not equals or not kind.strip():
            raise UserError(f"--group '{text}' cannot be read; write KIND=LABEL, such as category=Age")
        groups[kind.strip()] = label.strip()
    return groups


def _compared_runs(
    base_store: Store, store: Store, pairs: Sequence[tuple[RunRecord, RunRecord]], groups: dict[str, str]
) -> list[tuple[ComparedRun, ComparedRun]]:
    """Return each pair with its scores. Each run is read once, however many others it is compared with."""
    from lmassay.reporting.run_labels import short_run_titles

    stores: dict[str, Store] = {}
    records: dict[str, RunRecord] = {}
    for base, _ in pairs:
        stores[base.id] = base_store
        records[base.id] = base
    for _, new in pairs:
        stores[new.id] = store
        records[new.id] = new
    titles = short_run_titles(list(records.values()))
    sides = comparable_sides([_side(stores[record.id], record, groups) for record in records.values()])
    compared: dict[str, ComparedRun] = {}
    for side, title in zip(sides, titles, strict=True):
        run = side.record.id
        compared[run] = ComparedRun(stores[run], side, title)
    return [(compared[base.id], compared[new.id]) for base, new in pairs]


def _side(store: Store, record: RunRecord, groups: dict[str, str]) -> Side:
    """Load the scores of a run; if no example is in the wanted groups, raise a UserError with a suggestion."""
    side = load_side(store, record, groups)
    if groups and not side.table.ids:
        hint = _group_hint(load_side(store, record).table.groups, groups)
        raise UserError(f"{record.id} has no example with {part_text(groups)}{hint}")
    return side


def _group_hint(labels_by_group: dict[str, list[str]], groups: dict[str, str]) -> str:
    """Return a suggestion for the first kind of group, or label of a group, that no example has."""
    for kind, label in groups.items():
        if kind not in labels_by_group:
            return did_you_mean(kind, labels_by_group)
        if label not in labels_by_group[kind]:
            return did_you_mean(label, set(labels_by_group[kind]))
    return ""


# --- JSON -------------------------------------------------------------------------------------------------------------


AnswerPairs = Mapping[str, tuple[str, str]]
"""The id of an example → the answers of the base run and the new run."""


def document(comparison: RunComparison, max_flips: int | None) -> dict[str, Any]:
    """Return the whole comparison as JSON; of each metric, with as many changed examples as ``--flips`` would list."""
    limit = max_flips or 0
    answers = _answers(comparison, limit)
    base_id = None
    if len(comparison.bases) == 1:
        # If the base is a sweep, there is no single base run; each comparison names its own.
        base_id = comparison.bases[0].side.record.id
    gate = None
    if comparison.verdict is not None:
        gate = comparison.verdict.as_json()
    return {
        "base": base_id,
        "groups": dict(comparison.groups),
        "caveats": list(comparison.caveats),
        "comparisons": [row.as_json() for row in comparison.rows],
        "against_best": [_standing_document(standing) for standing in comparison.standings],
        "flips": [_flips_document(flips, limit, answers[flips.new]) for flips in comparison.flips],
        "gate": gate,
    }


def _standing_document(standing: Standing) -> dict[str, Any]:
    """Return how a run compares with the best one, as JSON."""
    data: dict[str, Any] = {
        "metric": standing.metric,
        "run": standing.run,
        "mean": standing.mean,
        "mark": standing.mark,
        # These are the values of the best run, which is not compared with itself; other runs replace them below.
        "best": standing.run,
        "difference": None,
        "low": None,
        "high": None,
        "p": None,
        "p_adjusted": None,
        "adjustment": "holm",
        "tests": standing.tests,
        "n": None,
    }
    row = standing.row
    if row is not None:
        data["best"] = row.base
        data["difference"] = row.difference
        data["low"] = row.low
        data["high"] = row.high
        data["p"] = row.p
        data["p_adjusted"] = row.p_adjusted
        data["n"] = row.n
    return data


def _flips_document(flips: Flips, limit: int, answers: AnswerPairs) -> dict[str, Any]:
    data = flips.as_json(limit)
    for example in data["examples"]:
        example["base_answer"], example["new_answer"] = answers.get(example["id"], ("", ""))
    return data


def _answers(comparison: RunComparison, limit: int) -> dict[str, AnswerPairs]:
    """Return the answers to the changed examples that are listed: the id of the new run → answers."""
    # Imported late: it loads the parts of the HTML page, which the help screen does not need.
    from lmassay.reporting.changed_examples import read_changed_examples

    answers: dict[str, AnswerPairs] = {}
    for base, new in comparison.pairs:
        changes: list[Any] = []
        for flips in comparison.flips_of(new):
            changes += flips.first(limit)
        answers[new.side.record.id] = read_changed_examples(base, new, changes).answers()
    return answers


# --- the terminal -----------------------------------------------------------------------------------------------------


_ANSWER_WIDTH = 60
_ANSWER_WIDTH_IF_NARROW = 20
# If two long answers begin with the same text, this many characters before the first difference are shown.
_CONTEXT_BEFORE_DIFFERENCE = 5
# Answers are shown from their beginning if at least this much of the difference is then visible.
_MIN_VISIBLE_DIFFERENCE = 8


def print_comparison(comparison: RunComparison, max_flips: int | None) -> None:
    """Print the table of differences, the changed examples unless ``max_flips`` is None, and the gate's verdict."""
    _print_differences(comparison)
    _print_standings(comparison)
    if max_flips is not None:
        answers = _answers(comparison, max_flips)
        for flips in comparison.flips:
            _print_flips(comparison, flips, max_flips, answers[flips.new])
    if comparison.verdict is not None:
        _print_verdict(comparison, comparison.verdict)


def _print_differences(comparison: RunComparison) -> None:
    """Print the differences, followed by sentences that explain the numbers."""
    _print_table_of_differences(comparison)
    directions: tuple[Better, ...] = ("lower", "zero")
    for better in directions:
        metrics = dict.fromkeys(row.metric for row in comparison.rows if row.better == better)
        if metrics:
            print_sentence(f"{DIRECTION_TEXTS[better]}: {', '.join(metrics)}")
    if comparison.adjustment:
        print_sentence(f"p (FDR): {comparison.adjustment}")
    for row in comparison.rows:
        unpaired = unpaired_text(row)
        if unpaired:
            print_sentence(f"{row.metric}{_of_run(comparison, row.new)}: {unpaired}")


def _of_run(comparison: RunComparison, run: str) -> str:
    """Return the words that say which run a sentence is about; empty if only one run is compared with the base."""
    if len(comparison.others) == 1:
        return ""
    return f" of {comparison.title(run)}"


def _print_table_of_differences(comparison: RunComparison) -> None:
    """Print all runs in one table if it fits on the terminal, otherwise one table per run."""
    base = comparison.bases[0].side
    base_run = f"{base.record.id} ({base.name})"
    if len(comparison.bases) > 1:
        base_run = "the matching run of the base"
    title_ending = f"against {base_run}"
    if comparison.part:
        title_ending += f", {base.record.unit}s with {comparison.part}"
    title_ending += f"; {comparison.pairing}"
    # Runs of different sweeps may have the same label, so the labels are made distinct.
    records = [compared.side.record for compared in (*comparison.bases, *comparison.others)]
    names = {record.id: record.title for record in distinct_labels(records)}
    has_several_runs = len(comparison.others) > 1
    if has_several_runs:
        headers, rows = _table_of_differences(comparison, comparison.rows, names=names)
        if fits(headers, rows):
            print_table(title_ending, headers, rows, right=range(2, len(headers)))
            return
    # The name of a single run is in the title. On a narrow terminal, each of several runs has its own table.
    for other in comparison.others:
        compared_rows = [row for row in comparison.rows if row.new == other.side.record.id]
        if compared_rows:
            title = names[other.side.record.id] if has_several_runs else other.side.name
            _print_differences_of_run(comparison, compared_rows, f"{title} {title_ending}")


def _print_differences_of_run(comparison: RunComparison, compared_rows: Sequence[Comparison], title: str) -> None:
    """Print one run against the base in the widest form that the terminal has room for."""
    headers, rows = _table_of_differences(comparison, compared_rows)
    if not fits(headers, rows):
        headers, rows = _table_of_differences(comparison, compared_rows, narrow=True)
    if not fits(headers, rows):
        headers, rows = _table_of_differences(comparison, compared_rows, narrow=True, stacked=True)
    numeric_columns = range(1, len(headers))
    print_table(title, headers, rows, right=numeric_columns, whole=numeric_columns)


def _table_of_differences(
    comparison: RunComparison,
    compared_rows: Sequence[Comparison],
    *,
    names: Mapping[str, str] | None = None,
    narrow: bool = False,
    stacked: bool = False,
) -> tuple[list[str], list[list[object]]]:
    """Return headers and rows; if ``names`` (run id → name) are given, a column has the name of the new run.

    The narrow form leaves out the relative difference; in the stacked form, intervals are below the differences.
    """
    adjustment = comparison.adjustment
    title_of_interval = interval_title(comparison.bases[0].side.record)
    headers = ["metric"]
    if names is not None:
        headers.append("new")
    headers += ["base", "new"] if narrow else ["base mean", "new mean"]
    headers += [f"difference\n{title_of_interval}"] if stacked else ["difference", title_of_interval]
    if not narrow:
        headers.append("relative")
    headers.append("p")
    if adjustment:
        headers.append("p (FDR)")
    headers.append("n")
    rows: list[list[object]] = []
    for row in compared_rows:
        cells: list[object] = [row.metric]
        if names is not None:
            cells.append(names[row.new])
        cells += [number_text(row.base_mean), number_text(row.new_mean)]
        difference = f"{row.difference:+z.4f}"
        cells += [f"{difference}\n{interval_text(row)}"] if stacked else [difference, interval_text(row)]
        if not narrow:
            cells.append("n/a" if row.relative is None else f"{row.relative:+z.1%}")
        cells.append(p_text(row.p))
        if adjustment:
            cells.append(p_text(row.p_adjusted))
        cells.append(row.n)
        rows.append(cells)
    return headers, rows


def _print_standings(comparison: RunComparison) -> None:
    """Print a table of how each run compares with the best one, by metric."""
    if not comparison.standings:
        return
    rows: list[list[object]] = []
    for standing in comparison.standings:
        row = standing.row
        difference = ["", "", ""]
        if row is not None:
            difference = [f"{row.difference:+z.4f}", interval_text(row), p_text(row.p_adjusted)]
        title = comparison.title(standing.run)
        rows.append([standing.metric, title, number_text(standing.mean), *difference, standing.mark])
    title_of_interval = interval_title(comparison.bases[0].side.record)
    headers = ["metric", "run", "mean", "difference", title_of_interval, "p (Holm)", ""]
    numeric_columns = [2, 3, 4, 5]
    if not fits(headers, rows):
        # The interval goes below the difference, so that the names of the runs have more room.
        headers[3:5] = [f"difference\n{title_of_interval}"]
        numeric_columns.pop()
        for cells in rows:
            cells[3:5] = [f"{cells[3]}\n{cells[4]}" if cells[4] else ""]
    click.echo("")
    print_table(
        f"all runs against the best; tie: not significantly different from the best at the level {comparison.alpha:g}",
        headers,
        rows,
        right=numeric_columns,
        whole=numeric_columns,
    )
    print_sentence("p (Holm): two-sided, adjusted by Holm's method for all pairs of the runs with this metric")


def _print_flips(comparison: RunComparison, flips: Flips, limit: int, answers: AnswerPairs) -> None:
    """Print how many scores changed in a metric, and up to ``limit`` examples with their answers."""
    rose = len(flips.risen)
    fell = len(flips.fallen)
    if flips.is_rate:
        counts = f"{fell:,} from 1 to 0, {rose:,} from 0 to 1, {flips.both_one:,} both 1, {flips.both_zero:,} both 0"
    else:
        counts = f"{fell:,} fell, {rose:,} rose, {flips.n - len(flips.changes):,} unchanged"
    title = f"changes in {flips.metric}{_of_run(comparison, flips.new)}: {counts}; {flips.left_out.text()}"
    click.echo("")
    if not flips.changes or not limit:
        print_sentence(title)
        return
    changes = flips.first(limit)
    has_answers = any(change.id in answers for change in changes)
    id_header = "id" if flips.paired_by == "example" else flips.paired_by
    headers = [id_header, "before", "after"]
    if has_answers:
        headers += ["base", "new"]
    rows = []
    for change in changes:
        row = [change.id, f"{change.before:g}", f"{change.after:g}"]
        if has_answers:
            row += _shortened_pair(*answers.get(change.id, ("", "")))
        rows.append(row)
    print_table(title, headers, rows, right=(1, 2))


def _print_verdict(comparison: RunComparison, verdict: GateVerdict) -> None:
    """Print the result of each condition, with the reason."""
    click.echo("")
    for check in verdict.checks:
        run = f" ({comparison.title(check.row.new)})" if len(comparison.others) > 1 else ""
        # Without "only if", "PASS accuracy>-0.02" could be read as a condition that must not hold.
        reading = "" if check.condition.reading == "fail if" else "only if "
        print_sentence(f"{check.state.upper()}  {reading}{check.condition}{run}: {check.why}")
    for text in verdict.how():
        print_sentence(text)


def _shortened_pair(before: str, after: str) -> tuple[str, str]:
    """Return two answers on one line each, starting shortly before their first difference if they are long."""
    width = _ANSWER_WIDTH_IF_NARROW if is_narrow() else _ANSWER_WIDTH
    first = " ".join(before.split())
    second = " ".join(after.split())
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    both_fit = max(len(first), len(second)) <= width
    difference_is_visible = common < width - _MIN_VISIBLE_DIFFERENCE
    start = 0
    if first != second and not both_fit and not difference_is_visible:
        start = common - _CONTEXT_BEFORE_DIFFERENCE
    return _shortened(first, start, width), _shortened(second, start, width)


def _shortened(line: str, start: int, width: int) -> str:
    text = f"…{line[start:]}" if start else line
    if len(text) <= width:
        return text
    return f"{text[: width - 1]}…"
