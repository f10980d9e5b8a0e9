"""What ``lmassay reproduce`` does: compute published numbers again, and print both side by side.

A *figure* is here a number, not a drawing.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmassay.cli.console import print_error, print_json
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.options import ExecutorChoice
from lmassay.cli.table_output import print_sentence, print_table
from lmassay.contracts import ReproducedFigure, Reproduction, ReproductionPart, resolve
from lmassay.datasets.catalogue import catalogue, missing_files
from lmassay.errors import DataError, UserError, did_you_mean
from lmassay.plugins.evaluations import evaluations

if TYPE_CHECKING:
    from lmassay.running.effort import Effort
    from lmassay.storage.store import Store
    from lmassay.types import RunRecord

# Shorter times are printed as "< 0.01" hours, and times from 10 hours on without decimals.
_MIN_HOURS = 0.01
_MANY_HOURS = 10


def reproductions() -> dict[str, Reproduction]:
    """Return all reproductions by name; if two have the same name, the first one is used."""
    by_name: dict[str, Reproduction] = {}
    for evaluation in evaluations():
        for reproduction in evaluation.reproductions:
            by_name.setdefault(reproduction.name, reproduction)
    return by_name


def reproduce(
    name: str | None,
    models: Sequence[str],
    patterns: Sequence[str],
    only_estimate: bool,
    gpu_price: float,
    execution: ExecutorChoice,
    results: Path,
    as_json: bool,
) -> int:
    """Compute published numbers again and print them next to the originals."""
    available = reproductions()
    if name is None:
        _list(available, as_json)
        return 0
    if name not in available:
        raise UserError(f"nothing can be reproduced under the name '{name}'{did_you_mean(name, available)}")
    reproduction = available[name]
    if not reproduction.parts and (models or patterns or only_estimate):
        raise UserError(f"reproducing {name} runs no model; leave out --model, --part and --estimate")
    _require_data(reproduction)
    if not reproduction.parts:
        outcome = _Outcome(resolve(reproduction.path)())
    else:
        selection = _Selection.of(reproduction, models, patterns)
        estimate = _Estimate.of(selection, gpu_price)
        if not as_json:
            estimate.print()
        if only_estimate:
            if as_json:
                print_json({"name": name, "title": reproduction.title, "estimate": estimate.as_json()})
            return 0
        outcome = _run(reproduction, selection, execution, results)
        outcome.estimate = estimate
    if as_json:
        _print_as_json(reproduction, outcome)
    else:
        _print_as_table(reproduction, outcome)
    return INCOMPLETE if outcome.differing or outcome.failures else 0


def _require_data(reproduction: Reproduction) -> None:
    """Raise a DataError if a data set that is needed has not been fetched at all."""
    for name in reproduction.datasets:
        entry = catalogue().find(name)
        files = list(entry.files())
        # A source may lack files, so a data set of which only some files could be fetched is used without the others.
        if len(missing_files(files)) == len(files):
            raise DataError(f"the data set {name} is not on this machine; run lmassay data get {name}")


def _list(available: Mapping[str, Reproduction], as_json: bool) -> None:
    """Print what can be reproduced."""
    if as_json:
        rows = []
        for reproduction in available.values():
            rows.append(
                {
                    "name": reproduction.name,
                    "title": reproduction.title,
                    "datasets": list(reproduction.datasets),
                    "runs_models": bool(reproduction.parts),
                }
            )
        print_json({"reproductions": rows})
        return
    table = []
    for reproduction in available.values():
        runs_models = "yes" if reproduction.parts else "no"
        table.append([reproduction.name, reproduction.title, " ".join(reproduction.datasets), runs_models])
    print_table("", ("name", "what is reproduced", "data", "runs models"), table, whole=(0,))


# --- reproductions that run models ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Selection:
    """The parts to run with the models on this machine, and those that are left out."""

    parts: Sequence[ReproductionPart]
    folders: Mapping[str, str]
    """Model → its folder, for the models on this machine."""
    reasons: Mapping[str, str]
    """Model → why it cannot be run."""
    optional: Sequence[str]
    """The names of slow parts that were left out because ``--part`` does not name them."""

    @classmethod
    def of(cls, reproduction: Reproduction, models: Sequence[str], patterns: Sequence[str]) -> _Selection:
        """Select parts by the values of ``--model`` and ``--part``.

        Raise a UserError if a value names nothing, or if no part is selected.
        """
        all_parts: list[ReproductionPart] = resolve(reproduction.parts)()
        names = list(dict.fromkeys(part.name for part in all_parts))
        for pattern in patterns:
            if not fnmatch.filter(names, pattern):
                hint = did_you_mean(pattern, names) or f"; for example {names[0]}"
                raise UserError(f"--part: {reproduction.name} has no part '{pattern}'{hint}")
        published_models = list(dict.fromkeys(part.model for part in all_parts))
        given_folders = _given_folders(models, published_models)
        parts: list[ReproductionPart] = []
        optional: dict[str, None] = {}
        available: dict[str, None] = {}
        for part in all_parts:
            if given_folders and part.model not in given_folders:
                continue
            available[part.name] = None
            if patterns:
                is_chosen = any(fnmatch.fnmatchcase(part.name, pattern) for pattern in patterns)
            else:
                is_chosen = not part.is_optional
                if part.is_optional:
                    optional[part.name] = None
            if is_chosen:
                parts.append(part)
        if not parts:
            raise UserError(f"{reproduction.name}: no part is selected; use --part with one of {', '.join(available)}")
        folders, reasons = _locate_models([part.model for part in parts], given_folders)
        return cls(parts, folders, reasons, list(optional))


def _given_folders(models: Sequence[str], published_models: Sequence[str]) -> dict[str, str | None]:
    """Parse the values of ``--model``: published model → folder, or None to look for it in the hub's cache.

    The name may be given without its owner, such as ``gpt2-large`` for ``openai-community/gpt2-large``.
    """
    full_names: dict[str, str] = {}
    for model in published_models:
        full_names[model] = model
        full_names[model.rpartition("/")[2]] = model
    folders: dict[str, str | None] = {}
    for text in models:
        name, _, folder = text.partition("=")
        if name not in full_names:
            raise UserError(
                f"--model: '{name}' is not one of the published models{did_you_mean(name, full_names)}; they are "
                f"{', '.join(published_models)}"
            )
        folders[full_names[name]] = folder or None
    return folders


def _locate_models(
    models: Sequence[str], given_folders: Mapping[str, str | None]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the folders of the models on this machine, and the reasons why the others cannot be run, both by model."""
    from lmassay.models.hf.source import find_source

    folders: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for model in dict.fromkeys(models):
        folder = given_folders.get(model)
        if folder is not None:
            # A model without a folder may be missing, but a folder that the user named must have a model: check it.
            source = find_source(folder, None, Path())
            source.check()
            folders[model] = str(source.path)
            continue
        try:
            folders[model] = str(find_source(model, None, Path()).path)
        except DataError as error:
            reasons[model] = f"{error}, or name its folder: --model {model}=FOLDER"
    return folders, reasons


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The estimated time that each model takes, with what the estimate is based on."""

    by_model: Mapping[str, Effort]
    """Model → the hours for all its parts on this machine's CPU, and on a GPU."""
    is_here: Mapping[str, bool]
    """Model → whether it is on this machine."""
    part_counts: Mapping[str, int]
    """Model → the number of parts that run it."""
    cpu_operations: float
    """How many floating-point operations this machine carries out per second."""
    gpu_price: float
    """The price of an hour on a GPU in US dollars."""

    @classmethod
    def of(cls, selection: _Selection, gpu_price: float) -> _Estimate:
        from lmassay.running.effort import Effort, effort, measured_cpu_operations

        cpu_operations = measured_cpu_operations()
        by_model: dict[str, Effort] = {}
        part_counts: dict[str, int] = {}
        for part in selection.parts:
            effort_of_part = effort(part.work, cpu_operations)
            total = by_model.get(part.model, Effort(0.0, 0.0))
            cpu_hours = total.cpu_hours + effort_of_part.cpu_hours
            gpu_hours = total.gpu_hours + effort_of_part.gpu_hours
            by_model[part.model] = Effort(cpu_hours, gpu_hours)
            part_counts[part.model] = part_counts.get(part.model, 0) + 1
        is_here = {model: model in selection.folders for model in by_model}
        return cls(by_model, is_here, part_counts, cpu_operations, gpu_price)

    def print(self) -> None:
        """Print a row for each model."""
        from lmassay.running.effort import GPU_NAME, GPU_OPERATIONS

        rows: list[list[object]] = []
        for model, hours in self.by_model.items():
            rows.append(
                [
                    model,
                    "yes" if self.is_here[model] else "no",
                    self.part_counts[model],
                    _hours(hours.cpu_hours),
                    _hours(hours.gpu_hours),
                    f"{hours.gpu_hours * self.gpu_price:,.2f}",
                ]
            )
        columns = ("model", "here", "parts", "CPU hours", "or GPU hours", "GPU cost, USD")
        print_table("Estimated time with the published models", columns, rows, right=(2, 3, 4, 5), whole=(0,))
        print_sentence(
            "How it is estimated: 2 operations per weight and token, 6 in training, without overhead. CPU: "
            f"{self.cpu_operations / 1e9:,.0f} billion operations per second, half the speed of a matrix product that "
            f"was measured on this machine. GPU: {GPU_OPERATIONS / 1e12:g} trillion, for an {GPU_NAME}, at "
            f"{self.gpu_price:.2f} USD per hour (--gpu-price)."
        )

    def as_json(self) -> list[dict[str, Any]]:
        """Return the rows of the table as plain data."""
        rows: list[dict[str, Any]] = []
        for model, hours in self.by_model.items():
            rows.append(
                {
                    "model": model,
                    "here": self.is_here[model],
                    "parts": self.part_counts[model],
                    "cpu_hours": hours.cpu_hours,
                    "gpu_hours": hours.gpu_hours,
                    "gpu_cost_usd": hours.gpu_hours * self.gpu_price,
                }
            )
        return rows


def _hours(hours: float) -> str:
    if hours < _MIN_HOURS:
        return f"< {_MIN_HOURS}"
    return f"{hours:,.0f}" if hours >= _MANY_HOURS else f"{hours:.2f}"


@dataclass(slots=True)
class _Outcome:
    """The reproduced figures, and what could not be reproduced."""

    figures: Sequence[ReproducedFigure]
    failures: list[str] = field(default_factory=list)
    """Parts whose runs did not finish, with the reason."""
    not_run: list[str] = field(default_factory=list)
    """What was left out, with the reason."""
    estimate: _Estimate | None = None

    @property
    def differing(self) -> list[ReproducedFigure]:
        """The figures that should agree and do not."""
        return [figure for figure in self.figures if not figure.agrees and not figure.excuse]


def _run(reproduction: Reproduction, selection: _Selection, execution: ExecutorChoice, results: Path) -> _Outcome:
    """Run the parts whose models are on this machine.

    Answers are stored, so an interrupted command can be called again and does not start from the beginning.
    """
    # Imported late, because listing and reproductions that run no model do not need these packages.
    from lmassay.cli.actions.run import plugin_output_to_stderr, work_through
    from lmassay.running import runner
    from lmassay.running.config import expand
    from lmassay.running.labels import with_sweep_labels
    from lmassay.running.planning import Plan
    from lmassay.running.sweep import record_runs
    from lmassay.storage.store import Store

    runnable = [part for part in selection.parts if part.model in selection.folders]
    if not runnable:
        models = list(selection.reasons)
        raise DataError(
            f"none of the published models is on this machine ({', '.join(models)}); fetch one, for example with "
            f"lmassay models get {models[0]}, or name its folder: --model {models[0]}=FOLDER"
        )
    plans: list[Plan] = []
    # For each plan, the index of the part that it belongs to.
    part_of_plan: list[int] = []
    with plugin_output_to_stderr():
        for number, part in enumerate(runnable):
            config = {**part.config, "model": {"name": "hf", "model": selection.folders[part.model]}}
            plans_of_part = []
            for run_config in expand(config, Path.cwd(), default_name=f"reproduce {reproduction.name}"):
                plans_of_part.append(runner.plan(run_config))
            plans += with_sweep_labels(plans_of_part)
            part_of_plan += [number] * len(plans_of_part)
    sweep = runner.new_sweep()
    with Store(results, create=True) as store, execution.executor_for(plans) as executor, store.lock_sweep(sweep):
        runs = record_runs(plans, store, sweep)
        work_through(runs, store, executor)
        records = [store.run(run.record.id) for run in runs]
        reasons = {record.id: _why_unfinished(record, store) for record in records if record.status != "done"}
    outcome = _Outcome([])
    figures: list[ReproducedFigure] = []
    for number, part in enumerate(runnable):
        records_of_part = [record for record, owner in zip(records, part_of_plan, strict=True) if owner == number]
        unfinished = [record.id for record in records_of_part if record.id in reasons]
        if unfinished:
            outcome.failures.append(f"{part.model}, {part.name}: {reasons[unfinished[0]]}")
        else:
            figures += part.figures(records_of_part)
    outcome.figures = figures
    outcome.not_run = _not_run(selection)
    return outcome


def _why_unfinished(record: RunRecord, store: Store) -> str:
    """Return the status of a run, with the most frequent error of its examples."""
    text = f"the run {record.id} is {record.status}: {record.note}"
    errors = store.errors(record.id)
    return f"{text} ({errors[0][0]})" if errors else text


def _not_run(selection: _Selection) -> list[str]:
    """Return what was not run, one line each with the reason."""
    lines = [f"{model}: {reason}" for model, reason in selection.reasons.items()]
    if selection.optional:
        lines.append(f"{', '.join(selection.optional)}: slow, so not run by default; select them with --part")
    return lines


# --- printing ---------------------------------------------------------------------------------------------------------


def _print_as_json(reproduction: Reproduction, outcome: _Outcome) -> None:
    """Print the reproduced figures as one JSON document."""
    rows = []
    for figure in outcome.figures:
        row: dict[str, Any] = {
            "name": figure.name,
            "published": figure.published,
            "computed": figure.computed,
            "agrees": figure.agrees,
            "verdict": figure.verdict,
        }
        if figure.tolerance is not None:
            row["tolerance"] = figure.tolerance
        rows.append(row)
    document: dict[str, Any] = {"name": reproduction.name, "title": reproduction.title, "figures": rows}
    if outcome.estimate is not None:
        document["estimate"] = outcome.estimate.as_json()
        document["failed"] = outcome.failures
        document["not_run"] = outcome.not_run
        document["notes"] = list(reproduction.notes)
    print_json(document)


def _print_as_table(reproduction: Reproduction, outcome: _Outcome) -> None:
    """Print the reproduced figures as a table, followed by notes and by what was not run or failed."""
    figures = outcome.figures
    has_tolerance = any(figure.tolerance is not None for figure in figures)
    columns = ["figure", "published", "lmassay", "difference", "verdict"]
    if has_tolerance:
        columns.insert(4, "tolerance")
    rows: list[list[object]] = []
    for figure in figures:
        row: list[object] = [figure.name, figure.published, figure.computed, _difference(figure)]
        if has_tolerance:
            row.append(_tolerance(figure))
        rows.append([*row, figure.verdict])
    if figures:
        # All columns are aligned right but the name of the figure and the verdict.
        print_table(reproduction.title, columns, rows, right=range(1, len(columns) - 1), whole=(0,))
        print_sentence(_summary(figures, has_tolerance))
    for note in reproduction.notes:
        print_sentence(f"Note: {note}")
    for line in outcome.not_run:
        print_sentence(f"Not run: {line}.")
    for line in outcome.failures:
        print_error(line)


def _summary(figures: Sequence[ReproducedFigure], has_tolerance: bool) -> str:
    """Return a sentence that counts the figures that agree and those that differ for a known reason."""
    agreeing = sum(figure.agrees for figure in figures)
    excused = sum(not figure.agrees and bool(figure.excuse) for figure in figures)
    how = "within their tolerance" if has_tolerance else "to the last printed digit"
    text = f"{agreeing} of {len(figures)} figures agree {how}"
    if excused:
        text += f"; {excused} differ as noted in the last column"
    return f"{text}."


def _difference(figure: ReproducedFigure) -> str:
    """Return the difference, with as many decimals as the figures have.

    It is empty for figures that are not numbers, and for figures without a tolerance that agree.
    """
    try:
        difference = float(figure.computed) - float(figure.published)
    except ValueError:
        return ""
    if figure.agrees and figure.tolerance is None:
        return ""
    return f"{difference:+.{_decimals(figure)}f}"


def _tolerance(figure: ReproducedFigure) -> str:
    return "" if figure.tolerance is None else f"{figure.tolerance:.{_decimals(figure) + 1}f}"


def _decimals(figure: ReproducedFigure) -> int:
    """Return the number of decimals of the figure that has more of them."""
    return max(len(number.partition(".")[2]) for number in (figure.published, figure.computed))
