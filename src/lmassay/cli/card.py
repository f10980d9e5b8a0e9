"""``lmassay card``"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import yaml

from lmassay.cli.completion import offer
from lmassay.cli.console import print_json, print_sentence, print_table, say, warn
from lmassay.cli.options import ExecutorOptions, executor_options, json_option, results_option
from lmassay.cli.progress import progress_board
from lmassay.cli.run import EXIT_WITH_ERRORS, plugin_output_to_stderr, report_unfinished, show_plan, work_through
from lmassay.errors import PluginError, UserError, did_you_mean
from lmassay.plugins.evaluations import evaluations, unloaded_packages_note
from lmassay.reporting import card as cards
from lmassay.reporting.card import PlannedEvaluation
from lmassay.reporting.comparison_data import interval_text
from lmassay.reporting.headline import (
    Headline,
    ModelDifference,
    differences_to_first_model,
    evaluations_without_result,
    headlines,
    inapplicable_evaluations,
    one_per_metric,
)
from lmassay.reporting.numbers import p_text, short_text
from lmassay.reporting.tiles import interval_header
from lmassay.running import runner
from lmassay.running.labels import with_distinct_labels, with_sweep_labels
from lmassay.running.model_spec import DEFAULT_MODEL
from lmassay.running.planning import Plan
from lmassay.running.sweep import SweepRun, record_runs
from lmassay.statistics.comparability import marks
from lmassay.storage.files import atomic_write
from lmassay.storage.provenance import command_line
from lmassay.storage.store import Store
from lmassay.types import CardPart, RunRecord

_PAGES = (".html", ".htm")


@click.command(
    epilog="Example: lmassay card --quick;  lmassay card smollm2 path/to/my-model -o card.html",
    short_help="Ask all questions of a model.",
)
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@click.option("--quick", is_flag=True, help="A first look: fewer examples, wider intervals.")
@click.option("--full", is_flag=True, help="All examples, more attacks, prompts and settings.")
@click.option(
    "--only",
    metavar="EVALUATION",
    multiple=True,
    shell_complete=offer(lambda: [evaluation.name for evaluation in cards.card_evaluations()]),
    help="Ask the question of this evaluation only; repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("card.html"),
    show_default=True,
    help="Page to write.",
)
@click.option("--write", "folder", type=click.Path(path_type=Path), help="Only write the configurations into a folder.")
@click.option("--dry-run", is_flag=True, help="Check and show the plan; ask nothing, write nothing.")
@executor_options
@results_option
@json_option
def card(
    models: Sequence[str],
    quick: bool,
    full: bool,
    only: Sequence[str],
    output: Path,
    folder: Path | None,
    dry_run: bool,
    execution: ExecutorOptions,
    results: Path,
    as_json: bool,
) -> int:
    """Ask a model all questions and write one report; several models are put side by side.

    MODEL is smollm2 (the default, a small real model that is fetched once), a folder or GGUF file with a local model,
    the name of a hub model that was fetched, a kind and its model such as openai:gpt-5, a class of your own as
    file.py:Name, a .yaml file or '{name: openai, base_url: …, model: …}' with options. What a model cannot be asked is
    told with the reason.
    """
    if quick and full:
        raise UserError("--quick and --full: give one of them, or neither for the usual size")
    if folder is not None and dry_run:
        raise UserError("--write writes configurations and --dry-run nothing; leave one of them out")
    _check_target(output)
    for name in only:
        _require_on_card(name)
    size = "quick" if quick else "full" if full else "standard"
    if not models and not dry_run and folder is None:
        _fetch_default()
    with plugin_output_to_stderr():
        candidates = cards.card_models(models or [DEFAULT_MODEL], Path.cwd())
        parts = cards.plan_card(candidates, size, only)
    _require_work(parts)
    if folder is not None:
        return _write(parts, folder)
    with plugin_output_to_stderr():
        parts, planned = _plan(parts)
    _require_work(parts)
    if dry_run:
        _tell_absent(parts)
        show_plan(planned, as_json)
        return 0
    sweep = runner.new_sweep()
    with Store(results, create=True) as store, execution.executor_for(planned) as executor, store.lock_sweep(sweep):
        entries = record_runs(planned, store, sweep, _about(parts, size))
        with progress_board({entry.record.id: _line(entry) for entry in entries}) as display:
            worst = work_through(entries, store, executor, display)
        records = [record for record in store.runs() if record.sweep == sweep]
        # First of all: who reads only the beginning of what is printed (`| head`) ends the command.
        _write_page(store, records, output)
        if as_json:
            print_json(card_as_json(store, records) | {"page": str(output.resolve())})
        else:
            print_card(store, records)
        left = max(worst, report_unfinished(records, store))
        if left:
            rest, page = (command_line(verb, "--results", store.folder) for verb in ("resume", "report"))
            say(f"to finish the card: {rest}; then for the page: {page} -o {shlex.quote(str(output))}")
        say(f"the page is {output.resolve()}")
        return EXIT_WITH_ERRORS if left or any(part.is_broken for part in parts) else 0


def _require_on_card(name: str) -> None:
    known = [evaluation.name for evaluation in cards.card_evaluations()]
    if name not in known:
        hint = did_you_mean(name, known)
        raise UserError(f"--only {name}: there is no such evaluation on the card{hint}{unloaded_packages_note()}")


def _fetch_default() -> None:
    """The default model is the only one that is fetched unasked: who names none has no other."""
    from lmassay.models import embedded

    if embedded.folder(DEFAULT_MODEL) is None:
        size = embedded.EMBEDDED[DEFAULT_MODEL].megabytes
        say(f"no model given; downloading the default model, {DEFAULT_MODEL} ({size} MB, once)")
        embedded.fetch(DEFAULT_MODEL, say)


def _check_target(output: Path) -> None:
    """What can be known of the page's place before the work begins."""
    if output.is_dir() or output.suffix.lower() not in _PAGES:
        raise UserError(
            f"-o {output}: the card is a page; give a file that ends in .html (`lmassay report` has others)"
        )
    above = next(folder for folder in output.resolve().parents if folder.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise UserError(f"-o {output}: {above} is no folder that can be written to")


def _tell_absent(parts: Sequence[PlannedEvaluation]) -> None:
    for part in parts:
        if part.config is None:
            say(f"{part.evaluation} is not applicable to {part.model}: {part.reason}")


def _plan(parts: Sequence[PlannedEvaluation]) -> tuple[list[PlannedEvaluation], list[Plan]]:
    """The runs of all parts. A part whose task cannot be used is not applicable, with the reason; the others go on."""
    usable: list[PlannedEvaluation] = []
    planned: list[Plan] = []
    for part in parts:
        try:
            planned += with_sweep_labels([runner.plan(config) for config in part.runs()])
        except UserError as error:
            # A mistake in the package. One in what the user gave, such as the model, ends the command.
            if not isinstance(error, PluginError) and not isinstance(error.__cause__, PluginError):
                raise
            warn(f"{part.evaluation} is left out: {error}")
            part = replace(part, config=None, reason=str(error), is_broken=True)
        usable.append(part)
    return usable, with_distinct_labels(planned)


def _require_work(parts: Sequence[PlannedEvaluation]) -> None:
    if all(part.config is None for part in parts):
        told = "\n".join(f"  {part.evaluation}: {part.reason}" for part in parts)
        raise UserError(f"nothing can be asked of this model:\n{told}")


def _about(parts: Sequence[PlannedEvaluation], size: str) -> CardPart:
    absent: dict[str, dict[str, str]] = {}
    for part in parts:
        if part.config is None:
            absent.setdefault(part.model, {})[part.evaluation] = part.reason
    return CardPart(size, absent)


def _line(entry: SweepRun) -> str:
    """The line of the board that a run belongs to."""
    return f"{entry.plan.task.name} on {entry.plan.model_label}"


def _write_page(store: Store, records: Sequence[RunRecord], output: Path) -> None:
    from lmassay.reporting.page import render

    page = render(store, records)
    with atomic_write(output) as stream:
        stream.write(page)


def _write(parts: Sequence[PlannedEvaluation], folder: Path) -> int:
    """Each part as a configuration of its own."""
    _tell_absent(parts)
    several = len(parts) > len({part.evaluation for part in parts})
    folder.mkdir(parents=True, exist_ok=True)
    written: Counter[str] = Counter()
    for part in parts:
        if part.config is None:
            continue
        written[part.evaluation] += 1
        name = f"{part.evaluation}-{written[part.evaluation]}" if several else part.evaluation
        path = folder / f"{name}.yaml"
        text = yaml.safe_dump(cards.as_yaml(part), sort_keys=False, allow_unicode=True, width=120)
        with atomic_write(path) as stream:
            stream.write(f"# A part of lmassay's card, to be run by itself: {command_line('run', path)}\n{text}")
        say(f"written: {path}")
    return 0


# --- the card on the terminal and as JSON -----------------------------------------------------------------------------


def print_card(store: Store, records: Sequence[RunRecord]) -> None:
    """The headline numbers: a row a question and model, then what they mean."""
    found, missing = headlines(store, records), inapplicable_evaluations(records)
    failed = evaluations_without_result(records, found)
    several = len({headline.model for headline in found} | set(missing) | set(failed)) > 1
    left_out = any(headline.result.n_error or headline.result.n_unscored for headline in found)
    rows = []
    for evaluation in evaluations():
        for headline in (h for h in found if h.evaluation.name == evaluation.name):
            result = headline.result
            cells: list[object] = [headline.question, *([headline.model_name] if several else []), headline.shown_title]
            counts = [f"{result.n_error} in error, {result.n_unscored} unscored"] if left_out else []
            rows.append([*cells, short_text(result), headline.scope, *counts])
        for what, lacking in (("not applicable", missing), ("no result", failed)):
            for model, reasons in lacking.items():
                if evaluation.name in reasons:
                    name, counts = [model] if several else [], [""] if left_out else []
                    rows.append([evaluation.question, *name, what, "", reasons[evaluation.name], *counts])
    value = f"value and {interval_header(found)}"
    heads = ["question", *(["model"] if several else []), "number", value, "of", *(["left out"] if left_out else [])]
    print_table("", heads, rows)
    click.echo()
    for first in one_per_metric(found):
        print_sentence(f"{first.shown_title}: {first.explanation}")
        for headline in found:
            is_same_number = (headline.evaluation.name, headline.metric) == (first.evaluation.name, first.metric)
            if is_same_number and headline.beside:
                print_sentence(f"  {headline.model_name}: {'; '.join(headline.beside)}.")
    if several:
        for note in marks(records).notes:
            print_sentence(note)
        _print_differences(store, found)


def card_as_json(store: Store, records: Sequence[RunRecord]) -> dict[str, Any]:
    """What ``--json`` prints."""
    found = headlines(store, records)
    return {
        "headlines": [_as_dict(headline) for headline in found],
        "not_applicable": inapplicable_evaluations(records),
        "no_result": evaluations_without_result(records, found),
        "comparisons": [_pair_as_dict(pair) for pair in differences_to_first_model(store, found)],
        "runs": [record.as_json() for record in records],
    }


def _as_dict(headline: Headline) -> Mapping[str, Any]:
    return {
        "evaluation": headline.evaluation.name,
        "model": headline.model,
        "metric": headline.metric,
        "title": headline.shown_title,
        "better": headline.better,
        "scope": headline.scope,
        "beside": list(headline.beside),
        "meaning": headline.shown_meaning,
        "limits": headline.limits,
        "result": headline.result.as_dict(),
        "runs": [record.id for record in headline.records],
    }


def _pair_as_dict(pair: ModelDifference) -> Mapping[str, Any]:
    return {
        "evaluation": pair.new.evaluation.name,
        "base_model": pair.base.model,
        "model": pair.new.model,
        **pair.row.as_json(),
    }


def _print_differences(store: Store, found: Sequence[Headline]) -> None:
    pairs = differences_to_first_model(store, found)
    rows = [
        (
            pair.title,
            pair.new.model_name,
            pair.base.model_name,
            f"{pair.row.difference:+z.3f}",
            interval_text(pair.row, "+", 3),
            p_text(pair.row.p),
            p_text(pair.row.p_adjusted),
            pair.row.n,
        )
        for pair in pairs
    ]
    if rows:
        click.echo()
        heads = ("number", "model", "against", "difference", "interval", "p", "p (FDR)", "n")
        print_table("Paired on what both were asked:", heads, rows, right=(3, 4, 5, 6, 7))
        print_sentence(f"p (FDR): adjusted for {len(rows)} rows (false discovery rate, Benjamini and Hochberg)")
        for note in dict.fromkeys(pair.new.comparison_note for pair in pairs if pair.new.comparison_note):
            print_sentence(note)
