"""What ``lmassay check`` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import click

from lmassay.cli.actions.run import plan_all, plugin_output_to_stderr, show_plan
from lmassay.cli.console import warn, without_controls
from lmassay.cli.table_output import print_sentence, print_table
from lmassay.contracts import Model
from lmassay.errors import ConfigError, ModelError, UserError
from lmassay.plugins.evaluations import metrics_of
from lmassay.running.planning import Plan
from lmassay.statistics import ALPHA
from lmassay.statistics.conditions import Condition, likely_mistake, parse_condition
from lmassay.statistics.gate import require_reachable
from lmassay.statistics.sample_size import Need, checked_metric, expected, needs
from lmassay.statistics.sides import Side, comparable_sides, load_side
from lmassay.storage.store import Store

_MAX_EARLIER_RUNS = 2


def check(
    configs: Sequence[Path],
    overrides: Sequence[str],
    selections: Sequence[str],
    strict: bool,
    conditions: Sequence[str],
    requirements: Sequence[str],
    like: Sequence[str],
    online: bool,
    results: Path,
    as_json: bool,
) -> None:
    """Check a configuration and show its runs, without sending requests or writing anything."""
    parsed = [parse_condition(text) for text in conditions]
    parsed += [parse_condition(text, "pass only if") for text in requirements]
    if like and not parsed:
        raise UserError("--like requires --fail-if or --pass-only-if")
    if len(like) > _MAX_EARLIER_RUNS:
        raise UserError("give --like at most twice: one earlier run, or two runs to compare")
    with plugin_output_to_stderr():
        planned = plan_all(
            configs, overrides, selections=selections, strict=strict, require=_require_answerable_example
        )
    plans = planned.plans
    earlier_runs = _load_runs(like, results)
    needed = _needs(parsed, plans, earlier_runs)
    # Keys of the JSON document in addition to the runs.
    further: dict[str, Any] = planned.as_json()
    if parsed:
        further["gate"] = [need.as_json() for need in needed]
    servers: list[_ServerTest] = []
    if online:
        with plugin_output_to_stderr():
            servers = _test_servers(plans)
        further["servers"] = [asdict(server) for server in servers]
    show_plan(plans, as_json, further)
    planned.report_not_applicable()
    if not as_json:
        _print_needs(parsed, needed, plans, earlier_runs)
        _print_servers(online, servers)


def _require_answerable_example(plan: Plan) -> None:
    """Raise a ConfigError if the model cannot answer any example of a run, because then none would be scored."""
    model = plan.model
    if model is None or plan.task.trains or type(model).unanswerable is Model.unanswerable:
        return
    reason = ""
    for example in islice(plan.task.examples(), plan.config.limit):
        requests = plan.task.requests(example)
        reason = model.unanswerable(requests)
        if reason and plan.task.scores_unusable:
            # This task scores an example even if only some of its requests have an answer.
            has_answerable_request = any(not model.unanswerable([request]) for request in requests)
            if has_answerable_request:
                reason = ""
        if not reason:
            return
    if reason:
        raise ConfigError(f"no example of {plan.label} can be scored: {reason}")


# --- servers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ServerTest:
    """The result of testing the server of a model."""

    model: str
    server: str
    """What only the server knows about itself, such as its version; see ``ConnectionReport.signature``."""
    findings: list[str]


def _test_servers(plans: Sequence[Plan]) -> list[_ServerTest]:
    """Test the server of each model once, for everything that the tasks of all its runs need from it."""
    models: dict[str, Model] = {}
    labels: dict[str, str] = {}
    abilities: dict[str, set[str]] = {}
    for plan in plans:
        if plan.model is None:
            continue
        # Runs with the same identity of the model use the same server.
        key = plan.depends_on["model"]
        models.setdefault(key, plan.model)
        labels.setdefault(key, plan.model_label)
        abilities.setdefault(key, set()).update(plan.task.needs)
    tests = []
    for key, model in models.items():
        try:
            report = model.connect(abilities[key])
        except ModelError as error:
            # During a run, this would be recorded as the failure of a request. Here it is reported to the user.
            raise UserError(str(error)) from error
        if report is not None:
            tests.append(_ServerTest(labels[key], report.signature, list(report.findings)))
    return tests


def _print_servers(online: bool, tests: Sequence[_ServerTest]) -> None:
    if online and not tests:
        print_sentence("no run needs probabilities from a server, so no server was contacted")
    for test in tests:
        click.echo("")
        click.echo(without_controls(f"server of {test.model}: {test.server}"))
        for finding in test.findings:
            print_sentence(f"  {finding}")


# --- gates ------------------------------------------------------------------------------------------------------------


def _load_runs(names: Sequence[str], results: Path) -> list[Side]:
    if not names:
        return []
    with Store(results, for_display=True) as store:
        return comparable_sides([load_side(store, store.run(name)) for name in names])


def _needs(conditions: Sequence[Condition], planned: Sequence[Plan], earlier_runs: Sequence[Side]) -> list[Need]:
    """Compute for each condition and run how many examples are needed; equal results are returned once."""
    all_needs: list[Need] = []
    # As in the gate of `lmassay compare`, the significance level of --fail-if is divided by the number of tests, and
    # that of --pass-only-if is not.
    tests = len(planned) * sum(condition.reading == "fail if" for condition in conditions)
    for condition in conditions:
        for plan in planned:
            metric = checked_metric(condition.metric, metrics_of(plan.task), earlier_runs)
            warning = likely_mistake(condition, metric)
            if warning:
                warn(warning)
            if metric.range is not None:
                require_reachable(condition.directed(metric), metric.range)
            alpha = ALPHA / tests if condition.reading == "fail if" else ALPHA
            expected_changes = expected(condition.metric, earlier_runs)
            size = plan.size_of(condition.metric)
            for need in needs(condition, metric, expected_changes, size, alpha):
                # Runs of a sweep usually have the same number of examples; equal rows are printed once.
                if need not in all_needs:
                    all_needs.append(need)
    return all_needs


def _print_needs(
    conditions: Sequence[Condition], all_needs: Sequence[Need], planned: Sequence[Plan], earlier_runs: Sequence[Side]
) -> None:
    """Print how many examples each condition needs, and the assumptions of the computation."""
    for condition in conditions:
        needs_of_condition = [need for need in all_needs if need.condition == condition]
        click.echo("")
        if condition.reading == "fail if":
            _print_fail_if(condition, needs_of_condition)
        else:
            _print_pass_only_if(condition, needs_of_condition)
    if not conditions:
        return
    fail_if = [condition for condition in conditions if condition.reading == "fail if"]
    tests = len(planned) * len(fail_if)
    adjusted = f"; level of --fail-if adjusted for {tests} tests" if tests > 1 else ""
    print_sentence(f"one-sided tests at the level {ALPHA:g} with a power of 80 %{adjusted}")
    print_sentence("answers that change are assumed to change at random: half for the better, half for the worse")
    print_sentence("in CONFIG: examples per run that count for the metric")
    if earlier_runs:
        names = " and ".join(side.record.id for side in earlier_runs)
        print_sentence(f"clusters and sizes of changes as in {names}")
        return
    clusters: dict[str, None] = {}
    for plan in planned:
        clusters |= dict.fromkeys(plan.task.design.clusters)
    if clusters:
        warn(
            f"examples are clustered by {' and '.join(clusters)}, but this estimate treats them as independent, so "
            "more are needed; --like RUN uses the clusters of an earlier run"
        )


def _print_fail_if(condition: Condition, needs_of_condition: Sequence[Need]) -> None:
    """Print a table for a condition of ``--fail-if``, by the share of answers that change."""
    # All rows of the table detect the same drop: twice the threshold, or a small one if the threshold is 0.
    drop = needs_of_condition[0].drop or 0.0
    rows = []
    for need in needs_of_condition:
        available = "unknown" if need.available is None else f"{need.available:,}"
        detectable = "n/a" if need.detectable is None else f"{need.detectable:.4f}"
        rows.append((need.changed, _count(need.needed), available, detectable))
    threshold = "twice the threshold" if condition.threshold else "the threshold is 0"
    print_table(
        f"{condition.option}: examples needed to detect a change of {drop:g} ({threshold})",
        ("answers that change", "needed", "in CONFIG", "change CONFIG detects"),
        rows,
        right=(1, 2, 3),
    )


def _print_pass_only_if(condition: Condition, needs_of_condition: Sequence[Need]) -> None:
    """Print a table for a condition of ``--pass-only-if``, by the share of answers that change."""
    rows = []
    for need in needs_of_condition:
        if need.available is None:
            available = enough = "unknown"
        else:
            available = f"{need.available:,}"
            is_enough = need.needed is not None and need.available >= need.needed
            enough = "yes" if is_enough else "no"
        rows.append((need.changed, _count(need.needed), available, enough))
    print_table(
        f"{condition.option}: examples needed to pass if neither run is better",
        ("answers that change", "needed", "in CONFIG", "enough"),
        rows,
        right=(1, 2),
    )


def _count(needed: int | None) -> str:
    if needed is None:
        return "over 100 million"
    return f"{needed:,}"
