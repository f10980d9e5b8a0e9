"""What ``lmassay kobbq`` does: KoBBQ's steps with its own flags and files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lmassay.cli.console import print_error, say, warn, without_controls
from lmassay.cli.exit import INCOMPLETE
from lmassay.cli.progress import progress_bar
from lmassay.contracts import Model
from lmassay.errors import BudgetReached, UserError

if TYPE_CHECKING:
    from lmassay.evaluations.bias.kobbq.steps.infer import InferenceQuestion, InferenceSummary
    from lmassay.types import Response


def expand(templates: Path, output: Path | None, check: bool) -> int:
    """Create all samples from the templates, and compare them with the samples that the authors released."""
    import hashlib

    from lmassay.evaluations.bias.kobbq.steps import expand as step
    from lmassay.storage.files import atomic_write, git_blob_id

    with progress_bar("expanding"):
        expansion = step.expand(templates)
        text = expansion.text()
        data = text.encode()
        if output is not None:
            with atomic_write(output) as stream:
                stream.write(text)
    blob = git_blob_id(data)
    is_released = blob == step.RELEASED_BLOB
    click.echo(f"rows      {len(expansion.samples)}")
    click.echo(f"sha256    {hashlib.sha256(data).hexdigest()}")
    click.echo(f"git blob  {blob}")
    verdict = "yes, byte for byte" if is_released else f"no, the released file is {step.RELEASED_BLOB}"
    click.echo(f"released  {verdict}")
    for defect in expansion.defects():
        say(f"in the data: {defect}")
    return INCOMPLETE if check and not is_released else 0


def preprocess(samples: Path, tsv: Path | None, json: Path | None, prompts: Path, prompt_id: int) -> None:
    """Write each sample as three questions, one for each order of its choices, with one prompt."""
    from lmassay.evaluations.bias.kobbq.steps.preprocess import preprocess as step

    if tsv is None and json is None:
        raise click.UsageError("give --evaluation-tsv-path, --evaluation-json-path or both")
    with progress_bar("preprocessing") as advance:
        summary = step(samples, prompts, prompt_id, tsv_path=tsv, json_path=json, advance=advance)
    if summary.extra:
        say(f"columns that KoBBQ does not have are copied: {', '.join(summary.extra)}")
    for note in summary.notes:
        say(f"in the data: {note}")
    say(f"{summary.questions} questions from {summary.samples} samples")


def infer(
    data_path: Path,
    model_name: str,
    output_dir: Path,
    max_tokens: int,
    batch_size: int,
    base_url: str | None,
    model_config: Path | None,
    overrides: Sequence[str],
    budget_usd: float | None,
    budget_tokens: int | None,
) -> int:
    """Send the questions to a model. Answers are saved as they arrive; questions with a saved answer are skipped."""
    from lmassay.budget import Budget
    from lmassay.cli.actions.run import plugin_output_to_stderr
    from lmassay.evaluations.bias.kobbq.steps import infer as step

    if not model_name.strip():
        raise UserError("--model-name: the name is empty")
    if data_path.suffix != ".json":
        raise UserError(f"--data-path {data_path}: give the .json file of `lmassay kobbq preprocess`")
    questions = step.read_questions(data_path)
    spec = _model_spec(model_name, base_url, model_config, overrides)
    with plugin_output_to_stderr():
        model = _build_model(spec, budget_usd, model_config)
    topic = data_path.name.removesuffix(".json")
    click.echo(topic)
    # An alias such as clova-x does not say which model answers, so the provider's name of the model is shown as well.
    full_model_name = model_name
    if model.metered:
        full_model_name = str(model.identity()["model"])
    shown_model = model_name
    if full_model_name != model_name:
        shown_model = f"{model_name} ({full_model_name})"
        say(f"{model_name} is the model {full_model_name}")
    for note in model.notes():
        warn(note)
    predictions = step.PredictionsFile(step.predictions_path(data_path, output_dir, model_name), topic)
    budget = Budget(budget_usd, budget_tokens)
    stopped: BudgetReached | None = None
    summary = step.InferenceSummary()
    with predictions.opened(), _open_notes(predictions.path) as notes:

        def write_note(question: InferenceQuestion, response: Response) -> None:
            answer_note = step.answer_note(question, response, full_model_name)
            notes.write(json.dumps(answer_note).encode() + b"\n")

        if predictions.had_incomplete_row:
            warn(f"the last row of {predictions.path} was incomplete; its question is sent again")
        if predictions.answered_guids:
            click.echo(f"Continue on {predictions.path}")
        try:
            with progress_bar(f"{topic}: {shown_model}") as advance, plugin_output_to_stderr():
                step.infer(
                    model,
                    questions,
                    predictions,
                    max_tokens=max_tokens,
                    strip=step.strips_answers(spec["name"]),
                    budget=budget,
                    note=write_note,
                    progress=advance,
                    summary=summary,
                )
        except BudgetReached as error:
            stopped = error
        finally:
            model.close()
            _report_usage(summary, model.prices)
    missing = [question for question in questions if question.guid not in predictions.answered_guids]
    if missing:
        reason = ""
        if stopped is not None:
            reason = f": {stopped}"
        print_error(
            f"{len(missing)} of {len(questions)} questions have no answer{reason}; run the same command again to "
            "request the rest"
        )
        for error_text, count in summary.most_frequent_errors():
            say(f"  {count} × {error_text}")
        return INCOMPLETE
    predictions.sort(questions)
    click.echo(f"{topic} - {shown_model} done")
    return 0


def postprocess(predictions: Path, preprocessed: Path, ooc: Path | None, parsing: Any) -> None:
    """Find the choice that each answer names. An answer that names none is left as it is and is out of choice."""
    from lmassay.evaluations.bias.kobbq.answering_model import models_behind
    from lmassay.evaluations.bias.kobbq.steps.postprocess import postprocess as step

    with progress_bar("reading answers") as advance:
        summary = step(predictions, preprocessed, ooc_path=ooc, parsing=parsing, advance=advance)
    _say_models(models_behind(predictions))
    for warning in summary.warnings:
        warn(warning)
    if parsing == "robust":
        reference_rate = _rate(summary.reference_out_of_choice, summary.answers)
        robust_rate = _rate(summary.out_of_choice, summary.answers)
        say(
            f"out of choice: {reference_rate} with the reference parser, {robust_rate} with the robust parser; "
            f"they read {summary.disagreements} answers differently"
        )
    click.echo(f"out-of-choice count {summary.out_of_choice}")


def collect(predictions: Path, preprocessed: Path, output: Path) -> None:
    """Write the questions together with their answers."""
    from lmassay.evaluations.bias.kobbq.steps.collect import collect as step

    with progress_bar("collecting"):
        summary = step(predictions, preprocessed, output)
    _say_models(summary.models)
    for warning in summary.warnings:
        warn(warning)
    if summary.unused:
        say(f"{summary.unused} answers to other questions are left out")
    say(f"{summary.questions} questions, {summary.out_of_choice} answers out of choice")


def evaluate(
    folder: Path, result: Path, topic: str, mode: Any, prompts: Path, prompt_id: int, models: Sequence[str]
) -> None:
    """Evaluate FOLDER/TOPIC_ID_MODEL.tsv of each model; a model without a file is skipped."""
    from lmassay.evaluations.bias.kobbq.pandas_output import count_series
    from lmassay.evaluations.bias.kobbq.steps import evaluate as step

    results = []
    with progress_bar("evaluating") as advance:
        for evaluated in step.evaluate(models, folder, topic, mode, prompts, prompt_id):
            results.append(evaluated)
            advance(len(results), len(models))
            click.echo(without_controls(f"{topic}_{prompt_id} {evaluated.model}"))
            if evaluated.rows is None:
                click.echo(without_controls(f"{evaluated.path} Not Exists - Skip"))
                warn(f"{evaluated.model} is left out: there is no file {evaluated.path}")
                continue
            if any(evaluated.missing.values()):
                click.echo("Nan exists")
                click.echo(without_controls(count_series(evaluated.missing)))
            for warning in (*evaluated.warnings, *evaluated.gaps):
                warn(f"{evaluated.model}: {warning}")
        step.write_results(result, results)


def compare(default: str, debiased: str, prompt_ids: Sequence[str], models: Sequence[str], details: bool) -> None:
    """Compare the means of two sets of results. As in the original, % in the output means percentage points."""
    from lmassay.evaluations.bias.kobbq.steps.compare import compare as step

    for comparison in step(default, debiased, prompt_ids, models):
        click.echo(without_controls(comparison.text()))
        if details:
            click.echo(without_controls(comparison.details()))
        for name, average in ((default, comparison.default), (debiased, comparison.debiased)):
            if not average.rows:
                warn(f"{comparison.model} has no rows in {name}_{','.join(prompt_ids)}.tsv")


def _say_models(models: Sequence[str]) -> None:
    """Print which models an alias such as clova-x stands for."""
    if models:
        say(f"these answers were given by {' and '.join(models)}")


def _rate(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.2%})"


# --- the model of step 2 ----------------------------------------------------------------------------------------------


def _model_spec(name: str, base_url: str | None, config: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration of the model that the options of ``infer`` describe."""
    from lmassay.evaluations.bias.kobbq.steps.infer import model_spec, model_spec_at
    from lmassay.running.config import set_value
    from lmassay.storage.yamlfile import read_mapping

    spec: Any
    if config is not None:
        document, _ = read_mapping(config)
        spec = document.get("model", document)
        if isinstance(spec, str):
            spec = {"name": spec}
        if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
            raise UserError(f"{config}: model: give a name or one mapping with a name")
        spec = dict(spec)
        if base_url is not None:
            spec["base_url"] = base_url
    elif base_url is not None:
        spec = model_spec_at(name, base_url)
    else:
        spec = model_spec(name)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise UserError(f"--set {override}: write key=value, e.g. --set concurrency=4")
        # A key with a dot, such as prices.input, sets one entry of a mapping.
        key, _, inner_key = key.strip().removeprefix("model.").partition(".")
        value = set_value(text, override)
        if inner_key:
            outer = spec.get(key)
            if not isinstance(outer, dict):
                outer = {}
            value = {**outer, inner_key: value}
        spec[key] = value
    return dict(spec)


def _build_model(spec: dict[str, Any], budget_usd: float | None, config: Path | None) -> Model:
    """Build and check the model."""
    from lmassay.plugins.compatibility import as_model
    from lmassay.plugins.options import build

    model = as_model(build("model", spec, config.parent if config else Path()), spec["name"])
    if "generate" not in model.can:
        raise UserError(f"the model {spec['name']} cannot generate text")
    model.check()
    if budget_usd is not None and model.prices is None:
        raise UserError(
            "--budget-usd: the prices are unknown; give them, e.g. --set 'prices={input: 0.5, output: 1.5}'"
        )
    return model


def _open_notes(predictions: Path) -> Any:
    """Open the notes file next to the predictions file; it says how each answer ended and how many tokens it took."""
    from lmassay.evaluations.bias.kobbq.answering_model import notes_path

    path = notes_path(predictions)
    stream = path.open("a+b", buffering=0)
    if stream.tell() and path.read_bytes()[-1:] != b"\n":
        # A crash cut off the last note; the next one must begin on a new line.
        stream.write(b"\n")
    return stream


def _report_usage(summary: InferenceSummary, prices: Any) -> None:
    """Print how many requests were sent, how the answers ended, and what they cost; nothing without requests."""
    if not summary.n_requests:
        return
    endings = [f"{count} {finish}" for finish, count in sorted(summary.finishes.items())]
    tokens = f"{summary.tokens_in:,} tokens in, {summary.tokens_out:,} out"
    cost = ""
    if prices:
        cost = f", {prices.of(summary.tokens_in, summary.tokens_out):.4f} USD"
    say(f"{summary.n_requests} requests ({', '.join(endings)}), {tokens}{cost}")
