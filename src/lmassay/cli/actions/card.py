"""What ``lmassay card`` does."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import yaml

from lmassay.cli.actions.run import (
    can_be_finished,
    plugin_output_to_stderr,
    report_unfinished,
    show_plan,
    work_through,
)
from lmassay.cli.console import print_json, say, warn
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.options import ExecutorChoice
from lmassay.cli.progress import progress_board
from lmassay.cli.table_output import print_sentence, print_table
from lmassay.contracts import CardRequest
from lmassay.errors import PluginError, UnsuitableModel, UserError, did_you_mean
from lmassay.plugins.evaluations import evaluations, unloaded_packages_note
from lmassay.reporting import card as cards
from lmassay.reporting.card import PlannedEvaluation, PublishedPart
from lmassay.reporting.comparison_data import adjustment_text, interval_text
from lmassay.reporting.headline import (
    Headline,
    ModelDifference,
    ReferenceTable,
    card_data_text,
    differences_to_first_model,
    evaluations_without_result,
    headlines,
    inapplicable_evaluations,
    model_order,
    one_per_metric,
    with_missing_models,
)
from lmassay.reporting.numbers import p_text, short_text
from lmassay.reporting.tiles import interval_header, reference_lists
from lmassay.running import runner
from lmassay.running.labels import with_distinct_labels, with_sweep_labels
from lmassay.running.model_spec import DEFAULT_MODEL
from lmassay.running.planning import Plan
from lmassay.running.sweep import record_runs
from lmassay.statistics.comparability import marks
from lmassay.storage.commands import command_line, command_on_results
from lmassay.storage.files import atomic_write
from lmassay.storage.store import Store
from lmassay.types import CardPart, RunRecord
from lmassay.types.wording import run_title

_PAGE_ENDINGS = (".html", ".htm")
DEFAULT_LANGUAGE = CardRequest("standard").language


def evaluation_names() -> list[str]:
    """Return the names of the evaluations that ``lmassay card`` can run."""
    return [evaluation.name for evaluation in cards.card_evaluations()]


def card(
    models: Sequence[str],
    quick: bool,
    full: bool,
    data: str,
    language: str | None,
    only: Sequence[str],
    output: Path,
    folder: Path | None,
    dry_run: bool,
    execution: ExecutorChoice,
    results: Path,
    as_json: bool,
) -> int:
    """Run all evaluations on a model and write one report; several models are shown side by side."""
    if quick and full:
        raise UserError("--quick and --full cannot be combined; leave out both for the standard size")
    if folder is not None and dry_run:
        raise UserError("--write and --dry-run cannot be combined; leave one of them out")
    if language is not None and data == "own":
        raise UserError("--language needs --data published, because the default sentences are English")
    language = language or DEFAULT_LANGUAGE
    _check_target(output)
    for name in only:
        _require_on_card(name)
    size = "standard"
    if quick:
        size = "quick"
    elif full:
        size = "full"
    published: list[PublishedPart] = []
    if data == "published":
        # Missing data sets are reported before a model is downloaded or loaded.
        with plugin_output_to_stderr():
            published = cards.published_parts(CardRequest(size, language), only)
        cards.require_published_data(published)
    if not models and not dry_run and folder is None:
        _fetch_default()
    with plugin_output_to_stderr():
        candidates = cards.card_models(models or [DEFAULT_MODEL], Path.cwd())
        if data == "own":
            parts = cards.plan_card(candidates, size, only)
        else:
            parts = cards.plan_published_card(candidates, published)
    _require_work(parts)
    if folder is not None:
        return _write_configurations(parts, folder)
    with plugin_output_to_stderr():
        parts, plans = _plan(parts)
    _require_work(parts)
    if dry_run:
        _report_inapplicable(parts)
        show_plan(plans, as_json)
        return 0
    sweep = runner.new_sweep()
    with Store(results, create=True) as store, execution.executor_for(plans) as executor, store.lock_sweep(sweep):
        runs = record_runs(plans, store, sweep, _card_part(parts, size, data, language))
        # The board has one bar for each evaluation and model.
        group_of_run = {run.record.id: run_title(run.plan.task.name, run.plan.model_label) for run in runs}
        with progress_board(group_of_run) as display:
            exit_code = work_through(runs, store, executor, display)
        # The store is opened for display, so that secret keys are blanked out: an old version may have stored some.
        with Store(results, for_display=True) as shown:
            records = [record for record in shown.runs() if record.sweep == sweep]
            # The page is written before anything is printed: with `| head`, printing may end the command.
            _write_page(shown, records, output)
            if as_json:
                print_json(card_as_json(shown, records) | {"page": str(output.resolve())})
            else:
                print_card(shown, records)
        # `lmassay resume` repeats failed trainings only with --retry-failed, so the advice differs for these runs.
        trained = {run.record.id for run in runs if run.plan.task.trains}
        exit_code = max(exit_code, report_unfinished(records, store, trained))
        if any(can_be_finished(record, store) for record in records):
            resume = command_on_results(store.folder, "resume")
            report = command_on_results(store.folder, "report", "-o", output)
            say(f"to finish the card: {resume}; then write the page: {report}")
        say(f"report written to {output.resolve()}")
        return INCOMPLETE if exit_code or any(part.is_broken for part in parts) else 0


def _require_on_card(name: str) -> None:
    """Raise a UserError unless ``lmassay card`` can run the evaluation with this name."""
    names = evaluation_names()
    if name not in names:
        hint = did_you_mean(name, names)
        raise UserError(f"--only {name}: there is no such evaluation on the card{hint}{unloaded_packages_note()}")


def _fetch_default() -> None:
    """Download the default model if necessary. Other models are downloaded only by `lmassay models get`."""
    from lmassay.models import cache, embedded

    if embedded.folder(DEFAULT_MODEL) is None:
        cache.require_converter(f"the default model {DEFAULT_MODEL}, which is evaluated if no other is given,")
        size = embedded.EMBEDDED[DEFAULT_MODEL].megabytes
        say(f"no model given; downloading the default model, {DEFAULT_MODEL} ({size} MB, once)")
        embedded.fetch(DEFAULT_MODEL, say)


def _check_target(output: Path) -> None:
    """Check before the work begins that the page can be written."""
    if output.is_dir() or output.suffix.lower() not in _PAGE_ENDINGS:
        raise UserError(
            f"-o {output}: the card is an HTML page; give a file that ends in .html "
            "(`lmassay report` writes other formats)"
        )
    existing_parent = next(folder for folder in output.resolve().parents if folder.exists())
    if not existing_parent.is_dir() or not os.access(existing_parent, os.W_OK):
        raise UserError(f"-o {output}: {existing_parent} is not a folder that you can write to")


def _report_inapplicable(parts: Sequence[PlannedEvaluation]) -> None:
    for part in parts:
        if part.config is None:
            say(f"{part.evaluation} is not applicable to {part.model}: {part.reason}")


def _plan(parts: Sequence[PlannedEvaluation]) -> tuple[list[PlannedEvaluation], list[Plan]]:
    """Plan the runs of all evaluations; return the parts of the card, and the plans of those that can be run.

    A part is marked as not applicable, with the reason, if the model cannot read the data of the card or if the package
    of the evaluation is broken.
    """
    checked_parts: list[PlannedEvaluation] = []
    plans: list[Plan] = []
    for part in parts:
        try:
            plans += with_sweep_labels([runner.plan(config) for config in part.runs()])
        except UnsuitableModel as error:
            part = replace(part, config=None, reason=error.problem)
        except UserError as error:
            # A mistake in what the user gave, such as the model, ends the command. A broken package, possibly as the
            # cause of another error, only leaves its evaluation out.
            if not isinstance(error, PluginError) and not isinstance(error.__cause__, PluginError):
                raise
            warn(f"{part.evaluation} is left out: {error}")
            part = replace(part, config=None, reason=str(error), is_broken=True)
        checked_parts.append(part)
    return checked_parts, with_distinct_labels(plans)


def _require_work(parts: Sequence[PlannedEvaluation]) -> None:
    """Raise a UserError with all reasons if no evaluation is applicable to any model."""
    if all(part.config is None for part in parts):
        reasons = "\n".join(f"  {part.evaluation}: {part.reason}" for part in parts)
        raise UserError(f"no evaluation can be run on this model:\n{reasons}")


def _card_part(parts: Sequence[PlannedEvaluation], size: str, data: str, language: str) -> CardPart:
    """Return what each run records about the card: its size, its data, and which evaluations were not applicable."""
    # Model → evaluation → the reason.
    not_applicable: dict[str, dict[str, str]] = {}
    for part in parts:
        if part.config is None:
            not_applicable.setdefault(part.model, {})[part.evaluation] = part.reason
    models = tuple(dict.fromkeys(part.model for part in parts))
    return CardPart(size, not_applicable, data, language, models)


def _write_page(store: Store, records: Sequence[RunRecord], output: Path) -> None:
    from lmassay.reporting.page import render

    page = render(store, records)
    with atomic_write(output) as stream:
        stream.write(page)


def _write_configurations(parts: Sequence[PlannedEvaluation], folder: Path) -> int:
    """Write each evaluation of the card as a configuration file."""
    _report_inapplicable(parts)
    has_several_models = len(parts) > len({part.evaluation for part in parts})
    folder.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for part in parts:
        if part.config is None:
            continue
        counts[part.evaluation] += 1
        name = part.evaluation
        if has_several_models:
            name = f"{part.evaluation}-{counts[part.evaluation]}"
        path = folder / f"{name}.yaml"
        text = yaml.safe_dump(cards.as_yaml(part), sort_keys=False, allow_unicode=True, width=120)
        with atomic_write(path) as stream:
            stream.write(f"# A part of lmassay's card. To run it: {command_line('run', path)}\n{text}")
        say(f"written: {path}")
    return 0


# --- the card on the terminal and as JSON -----------------------------------------------------------------------------


def print_card(store: Store, records: Sequence[RunRecord]) -> None:
    """Print one row per evaluation and model with its headline, the most important number; then explain the numbers."""
    card_headlines = headlines(store, records)
    not_applicable = inapplicable_evaluations(records)
    without_result = evaluations_without_result(records, card_headlines)
    models = {headline.model for headline in card_headlines} | set(not_applicable) | set(without_result)
    # Columns that would say the same in every row are left out, so that a row fits on one line.
    has_several_models = len(models) > 1
    has_left_out = any(headline.result.n_error or headline.result.n_unscored for headline in card_headlines)
    order = model_order(records)
    rows: list[list[object]] = []

    def row_of(question: str, model: str, metric: str, value: str, scope: str, left_out: str) -> list[object]:
        row: list[object] = [question]
        if has_several_models:
            row.append(model)
        row += [metric, value, scope]
        if has_left_out:
            row.append(left_out)
        return row

    for evaluation in evaluations():
        # (model, row) pairs of the models that have a headline, and of those that have none.
        rows_with_headline: list[tuple[str, list[object]]] = []
        for headline in card_headlines:
            if headline.evaluation.name != evaluation.name:
                continue
            result = headline.result
            left_out = f"{result.n_error} with errors, {result.n_unscored} unscored"
            value = short_text(result)
            row = row_of(headline.question, headline.shown_model, headline.shown_title, value, headline.scope, left_out)
            rows_with_headline.append((headline.model, row))
        rows_without_headline: list[tuple[str, list[object]]] = []
        for status, reasons_by_model in (("not applicable", not_applicable), ("no result", without_result)):
            for model, reasons in reasons_by_model.items():
                if evaluation.name in reasons:
                    row = row_of(evaluation.question, model, status, "", reasons[evaluation.name], "")
                    rows_without_headline.append((model, row))
        rows += [row for _, row in with_missing_models(rows_with_headline, rows_without_headline, order)]
    headers = ["question", "metric", f"value and {interval_header(card_headlines)}", "based on"]
    if has_several_models:
        headers.insert(1, "model")
    if has_left_out:
        headers.append("left out")
    print_table("", headers, rows)
    click.echo()
    about_data = card_data_text(records)
    if about_data:
        print_sentence(about_data)
    _print_explanations(card_headlines)
    _print_references(card_headlines)
    if has_several_models:
        for note in marks(records).notes:
            print_sentence(note)
        _print_differences(store, card_headlines)


def _print_explanations(card_headlines: Sequence[Headline]) -> None:
    """Print what each headline number means, followed by details for each model."""
    for first in one_per_metric(card_headlines):
        print_sentence(f"{first.shown_title}: {first.explanation} {first.distinguishable_text}".rstrip())
        for headline in card_headlines:
            is_same_number = (headline.evaluation.name, headline.metric) == (first.evaluation.name, first.metric)
            if is_same_number and headline.details:
                print_sentence(f"  {headline.shown_model}: {'; '.join(headline.details)}.")


def _print_references(card_headlines: Sequence[Headline]) -> None:
    """Print tables of published numbers, among which those of the evaluated models are marked with ``>``."""
    for first in one_per_metric(card_headlines):
        same_number = []
        for headline in card_headlines:
            if (headline.evaluation.name, headline.metric) == (first.evaluation.name, first.metric):
                same_number.append(headline)
        for references in reference_lists(same_number):
            rows = []
            for label, value, is_own in references.rows:
                rows.append([f"> {label}" if is_own else label, value])
            click.echo()
            print_table(f"Compare: {references.title}", ("", "value"), rows, right=(1,), whole=(0,))
            if references.sources:
                print_sentence(f"Sources: {references.sources}.")


def card_as_json(store: Store, records: Sequence[RunRecord]) -> dict[str, Any]:
    """Return the document that ``--json`` prints."""
    card_headlines = headlines(store, records)
    return {
        "headlines": [_headline_as_dict(headline) for headline in card_headlines],
        "not_applicable": inapplicable_evaluations(records),
        "no_result": evaluations_without_result(records, card_headlines),
        "comparisons": [_difference_as_dict(pair) for pair in differences_to_first_model(store, card_headlines)],
        "runs": [record.as_json() for record in records],
    }


def _headline_as_dict(headline: Headline) -> Mapping[str, Any]:
    return {
        "evaluation": headline.evaluation.name,
        "model": headline.model,
        "metric": headline.metric,
        "title": headline.shown_title,
        "better": headline.better,
        "scope": headline.scope,
        "details": list(headline.details),
        # The old name of the key, for programs that read it.
        "beside": list(headline.details),
        "meaning": headline.shown_meaning,
        "limits": headline.limits,
        "result": headline.result.as_dict(),
        "distinguishable": headline.distinguishable,
        "references": [_references_as_dict(headline, table) for table in headline.references],
        "runs": [record.id for record in headline.records],
    }


def _references_as_dict(headline: Headline, table: ReferenceTable) -> Mapping[str, Any]:
    own_result = table.own or headline.result
    return {"title": table.title, "own": own_result.as_dict(), "rows": [asdict(row) for row in table.rows]}


def _difference_as_dict(pair: ModelDifference) -> Mapping[str, Any]:
    return {
        "evaluation": pair.new.evaluation.name,
        "base_model": pair.base.model,
        "model": pair.new.model,
        **pair.comparison.as_json(),
    }


def _print_differences(store: Store, card_headlines: Sequence[Headline]) -> None:
    """Print the differences between the first model and each of the others."""
    pairs = differences_to_first_model(store, card_headlines)
    if not pairs:
        return
    adjustment = adjustment_text(pair.comparison for pair in pairs)
    rows: list[list[object]] = []
    for pair in pairs:
        row: list[object] = [
            pair.title,
            pair.new.shown_model,
            pair.base.shown_model,
            f"{pair.comparison.difference:+z.3f}",
            interval_text(pair.comparison, "+", 3),
            p_text(pair.comparison.p),
        ]
        if adjustment:
            row.append(p_text(pair.comparison.p_adjusted))
        rows.append([*row, pair.comparison.n])
    click.echo()
    headers = ["number", "model", "against", "difference", "interval", "p", "n"]
    if adjustment:
        headers.insert(-1, "p (FDR)")
    print_table("Paired on the examples that were scored for both models:", headers, rows, right=range(3, len(headers)))
    if adjustment:
        print_sentence(f"p (FDR): {adjustment}")
    notes = dict.fromkeys(pair.new.comparison_note for pair in pairs if pair.new.comparison_note)
    for note in notes:
        print_sentence(note)
