"""``lmassay check``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lmassay.cli.console import print_sentence, print_table, warn
from lmassay.cli.options import json_option, results_option
from lmassay.cli.run import plan_all, plugin_output_to_stderr, show_plan
from lmassay.errors import UserError
from lmassay.plugins.evaluations import metrics_of
from lmassay.running.planning import Plan
from lmassay.statistics.comparison import Side, load_side
from lmassay.statistics.conditions import Condition, likely_slip, parse_condition
from lmassay.statistics.gate import ALPHA, require_reachable
from lmassay.statistics.sample_size import Need, checked_metric, expected, needs
from lmassay.storage.store import Store

_MOST_LIKE = 2


@click.command(
    epilog='Example: lmassay check examples/robustness.yaml --fail-if "success>0.05"',
    short_help="Check a configuration.",
)
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Override a key; repeatable.")
@click.option(
    "--fail-if",
    "conditions",
    metavar="CONDITION",
    multiple=True,
    help='How many examples would a gate need that fails if so: "accuracy<-0.02".',
)
@click.option(
    "--pass-only-if",
    "requirements",
    metavar="CONDITION",
    multiple=True,
    help='How many examples would a gate need that passes only if so: "accuracy>-0.02".',
)
@click.option(
    "--like",
    metavar="RUN",
    multiple=True,
    help="Base that on an earlier run: its clusters and scores. Given twice: on the changes between two runs.",
)
@results_option
@json_option
def check(
    configs: Sequence[Path],
    overrides: Sequence[str],
    conditions: Sequence[str],
    requirements: Sequence[str],
    like: Sequence[str],
    results: Path,
    as_json: bool,
) -> None:
    """Check keys, files, scorers and what the model can do, and count the requests; nothing is asked or written.

    With --fail-if or --pass-only-if, it also says how many examples such a gate of `lmassay compare` needs.
    """
    parsed = [parse_condition(text) for text in conditions]
    parsed += [parse_condition(text, "pass only if") for text in requirements]
    if like and not parsed:
        raise UserError("--like is for --fail-if and --pass-only-if, which say what to plan for")
    if len(like) > _MOST_LIKE:
        raise UserError("give --like at most twice: one earlier run, or two that are compared")
    with plugin_output_to_stderr():
        planned = plan_all(configs, overrides)
    earlier = _earlier(like, results)
    found = _needs(parsed, planned, earlier)
    show_plan(planned, as_json, {"gate": [need.as_json() for need in found]} if parsed else None)
    if not as_json:
        _print_needs(parsed, found, planned, earlier)


def _earlier(names: Sequence[str], results: Path) -> list[Side]:
    if not names:
        return []
    with Store(results) as store:
        return [load_side(store, store.run(name)) for name in names]


def _needs(conditions: Sequence[Condition], planned: Sequence[Plan], like: Sequence[Side]) -> list[Need]:
    found: list[Need] = []
    # As the gate does: what may fail is adjusted for the number of tests, what must be shown is not.
    tests = len(planned) * sum(condition.reading == "fail if" for condition in conditions)
    for condition in conditions:
        for plan in planned:
            metric = checked_metric(condition.metric, metrics_of(plan.task), like)
            slip = likely_slip(condition, metric)
            if slip:
                warn(slip)
            if metric.bounds is not None and None not in metric.bounds:
                low, high = (float(end or 0.0) for end in metric.bounds)
                require_reachable(condition.directed(metric), (low, high))
            alpha = ALPHA / tests if condition.reading == "fail if" else ALPHA
            of_plan = needs(condition, metric, expected(condition.metric, like), plan.size_of(condition.metric), alpha)
            # Runs of a sweep mostly have the same examples; what holds for all is said once.
            found += [need for need in of_plan if need not in found]
    return found


def _print_needs(
    conditions: Sequence[Condition], found: Sequence[Need], planned: Sequence[Plan], like: Sequence[Side]
) -> None:
    for condition in conditions:
        own = [need for need in found if need.condition == condition]
        click.echo("")
        if condition.reading == "fail if":
            _print_fail_if(condition, own)
        else:
            _print_pass_only_if(condition, own)
    if not conditions:
        return
    fail_if = [condition for condition in conditions if condition.reading == "fail if"]
    tests = len(planned) * len(fail_if)
    adjusted = f"; adjusted for {tests} tests that may fail" if tests > 1 else ""
    print_sentence(f"one-sided tests at {ALPHA:g}, found or shown in 4 of 5 comparisons{adjusted}")
    print_sentence("answers that change: by chance, half of them for the better and half for the worse")
    print_sentence("in CONFIG: the examples of a run that the metric is about")
    if like:
        names = " and ".join(side.record.id for side in like)
        print_sentence(f"clusters and sizes of changes as in {names}")
        return
    clusters = dict.fromkeys(name for plan in planned for name in plan.task.design.clusters)
    if clusters:
        warn(
            f"examples are clustered by {' and '.join(clusters)}, but counted as independent here, so more are needed; "
            "--like RUN takes the clusters of an earlier run"
        )


def _print_fail_if(condition: Condition, found: Sequence[Need]) -> None:
    drop = found[0].drop or 0.0
    rows = []
    for need in found:
        has = "unknown" if need.has is None else f"{need.has:,}"
        seen = "n/a" if need.detectable is None else f"{need.detectable:.4f}"
        rows.append((need.changed, _count(need.needed), has, seen))
    twice = "twice the threshold" if condition.threshold else "the threshold is 0"
    print_table(
        f"{condition.option}: examples needed to find a change of {drop:g} ({twice})",
        ("answers that change", "needed", "in CONFIG", "change found with those"),
        rows,
        right=(1, 2, 3),
    )


def _print_pass_only_if(condition: Condition, found: Sequence[Need]) -> None:
    rows = []
    for need in found:
        has = "unknown" if need.has is None else f"{need.has:,}"
        enough = "unknown"
        if need.has is not None:
            enough = "yes" if need.needed is not None and need.has >= need.needed else "no"
        rows.append((need.changed, _count(need.needed), has, enough))
    print_table(
        f"{condition.option}: examples needed to show it if neither run is better",
        ("answers that change", "needed", "in CONFIG", "enough"),
        rows,
        right=(1, 2),
    )


def _count(needed: int | None) -> str:
    return "over 100 million" if needed is None else f"{needed:,}"
