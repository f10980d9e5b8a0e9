"""``lmassay kobbq``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from lmassay.cli.console import plain, progress, say, warn
from lmassay.cli.lists import WithLists
from lmassay.evaluations.bias.commands.kobbq_infer import infer

EXIT_DIFFERENT = 1
_FILE: Any = click.Path(path_type=Path, dir_okay=False)
_FOLDER: Any = click.Path(path_type=Path, file_okay=False)


class _Steps(click.Group):
    """Commands in the order in which they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_Steps,
    epilog="Example: lmassay kobbq expand --templates-tsv-path KoBBQ_templates.tsv --output-path KoBBQ_all_samples.tsv",
    short_help="KoBBQ's steps with its own flags and files.",
)
def kobbq() -> None:
    """Work as with KoBBQ: its six steps with their flags, reading and writing its files byte for byte."""


@kobbq.command(
    epilog="Example: lmassay kobbq expand --templates-tsv-path KoBBQ_templates.tsv --output-path KoBBQ_all_samples.tsv",
    short_help="Step 0: make all samples from the templates.",
)
@click.option("--templates-tsv-path", "templates", type=_FILE, required=True, help="KoBBQ_templates.tsv.")
@click.option("--output-path", "output", type=_FILE, help="File for the samples; without it they are only counted.")
@click.option("--check", is_flag=True, help="Fail (exit code 1) unless the samples are the released ones.")
def expand(templates: Path, output: Path | None, check: bool) -> int:
    """Make every sample that the templates allow; it tells whether they are those that the authors released."""
    import hashlib

    from lmassay.evaluations.bias.kobbq import expansion
    from lmassay.storage.files import atomic_write

    with progress("expanding"):
        made = expansion.expand(templates)
        text = made.text()
        data = text.encode()
        if output is not None:
            with atomic_write(output) as stream:
                stream.write(text)
    blob = expansion.git_blob_id(data)
    released = blob == expansion.RELEASED_BLOB
    click.echo(f"rows      {len(made.samples)}")
    click.echo(f"sha256    {hashlib.sha256(data).hexdigest()}")
    click.echo(f"git blob  {blob}")
    click.echo(f"released  {'yes, byte for byte' if released else f'no, that is {expansion.RELEASED_BLOB}'}")
    for defect in made.defects():
        say(f"in the data: {defect}")
    return EXIT_DIFFERENT if check and not released else 0


@kobbq.command(
    epilog="Example: lmassay kobbq preprocess --samples-tsv-path KoBBQ_test_samples.tsv --evaluation-tsv-path "
    "data/KoBBQ_test_evaluation_1.tsv --evaluation-json-path data/KoBBQ_test_evaluation_1.json --prompt-tsv-path "
    "0_evaluation_prompts.tsv --prompt-id 1",
    short_help="Step 1: samples and a prompt become questions.",
)
@click.option("--samples-tsv-path", "samples", type=_FILE, required=True, help="KoBBQ_test_samples.tsv or all samples.")
@click.option("--evaluation-tsv-path", "tsv", type=_FILE, help="File for the questions, for the later steps.")
@click.option("--evaluation-json-path", "json", type=_FILE, help="File for the questions, for the model.")
@click.option("--prompt-tsv-path", "prompts", type=_FILE, required=True, help="0_evaluation_prompts.tsv or your own.")
@click.option("--prompt-id", type=int, required=True, help="Which of the prompts.")
def preprocess(samples: Path, tsv: Path | None, json: Path | None, prompts: Path, prompt_id: int) -> None:
    """Write each sample with its choices in three orders, under one prompt."""
    from lmassay.evaluations.bias.kobbq.steps.preprocess import preprocess as step

    if tsv is None and json is None:
        raise click.UsageError("give --evaluation-tsv-path, --evaluation-json-path or both")
    with progress("preprocessing") as advance:
        done = step(samples, prompts, prompt_id, tsv_path=tsv, json_path=json, advance=advance)
    if done.extra:
        say(f"columns that KoBBQ does not have are carried along: {', '.join(done.extra)}")
    for note in done.notes:
        say(f"in the data: {note}")
    say(f"{done.questions} questions from {done.samples} samples")


kobbq.add_command(infer)


@kobbq.command(
    epilog="Example: lmassay kobbq postprocess --predictions-tsv-path raw/KoBBQ_test_evaluation_1_gpt-4_predictions.tsv"
    " --preprocessed-tsv-path data/KoBBQ_test_evaluation_1.tsv --ooc-path ooc.tsv",
    short_help="Step 3: answers become letters.",
)
@click.option("--predictions-tsv-path", "predictions", type=_FILE, required=True, help="File of step 2; rewritten.")
@click.option("--preprocessed-tsv-path", "preprocessed", type=_FILE, required=True, help="TSV file of step 1.")
@click.option("--ooc-path", "ooc", type=_FILE, help="File for the answers out of choice.")
@click.option(
    "--parsing",
    type=click.Choice(["reference", "robust"]),
    default="reference",
    show_default=True,
    help="reference reads answers exactly as KoBBQ's program, robust reads what that one misreads or gives up on.",
)
def postprocess(predictions: Path, preprocessed: Path, ooc: Path | None, parsing: Any) -> None:
    """Read a choice out of each answer; where none can be read, the answer stays and counts as out of choice."""
    from lmassay.evaluations.bias.kobbq.steps.postprocess import postprocess as step

    with progress("reading answers") as advance:
        done = step(predictions, preprocessed, ooc_path=ooc, parsing=parsing, advance=advance)
    for warning in done.warnings:
        warn(warning)
    if parsing == "robust":
        say(
            f"out of choice: reference {_rate(done.reference_out_of_choice, done.answers)}, robust "
            f"{_rate(done.out_of_choice, done.answers)}; they read {done.disagreements} answers differently"
        )
    click.echo(f"out-of-choice count {done.out_of_choice}")


@kobbq.command(
    epilog="Example: lmassay kobbq collect --predictions-tsv-path raw/KoBBQ_test_evaluation_1_gpt-4_predictions.tsv "
    "--preprocessed-tsv-path data/KoBBQ_test_evaluation_1.tsv --output-path out/KoBBQ_test_evaluation_1_gpt-4.tsv",
    short_help="Step 4: letters become the texts of their choices.",
)
@click.option("--predictions-tsv-path", "predictions", type=_FILE, required=True, help="File of steps 2 and 3.")
@click.option("--preprocessed-tsv-path", "preprocessed", type=_FILE, required=True, help="TSV file of step 1.")
@click.option("--output-path", "output", type=_FILE, required=True, help="File for the questions with their answers.")
def collect(predictions: Path, preprocessed: Path, output: Path) -> None:
    """Put the answers beside the questions."""
    from lmassay.evaluations.bias.kobbq.steps.collect import collect as step

    with progress("collecting"):
        done = step(predictions, preprocessed, output)
    for warning in done.warnings:
        warn(warning)
    if done.unused:
        say(f"{done.unused} answers to other questions are left out")
    say(f"{done.questions} questions, {done.out_of_choice} answers out of choice")


@kobbq.command(
    cls=WithLists,
    epilog="Example: lmassay kobbq evaluate --evaluation-result-path result/KoBBQ_test_1.tsv --model-result-tsv-dir "
    "processed --topic KoBBQ_test_evaluation --test-or-all test --prompt-tsv-path 0_evaluation_prompts.tsv "
    "--prompt-id 1 --models gpt-4 claude-2.0",
    short_help="Step 5: accuracy and diff-bias.",
)
@click.option("--model-result-tsv-dir", "folder", type=_FOLDER, required=True, help="Folder of the files of step 4.")
@click.option("--evaluation-result-path", "result", type=_FILE, required=True, help="File for the results.")
@click.option("--topic", required=True, help="Beginning of the files' names, e.g. KoBBQ_test_evaluation.")
@click.option(
    "--test-or-all",
    "mode",
    type=click.Choice(["test", "all"]),
    required=True,
    help="test: over rows; all: over rows within a template, then the mean over templates.",
)
@click.option("--prompt-tsv-path", "prompts", type=_FILE, required=True, help="The file given to step 1.")
@click.option("--prompt-id", type=int, required=True, help="The prompt given to step 1.")
@click.option("--models", metavar="MODEL...", multiple=True, required=True, help="One or more models.")
def evaluate(
    folder: Path, result: Path, topic: str, mode: Any, prompts: Path, prompt_id: int, models: Sequence[str]
) -> None:
    """Evaluate FOLDER/TOPIC_ID_MODEL.tsv of each model; a model without a file is passed over."""
    from lmassay.evaluations.bias.kobbq.series import count_series
    from lmassay.evaluations.bias.kobbq.steps import evaluate as step

    found = []
    with progress("evaluating") as advance:
        for evaluated in step.evaluate(models, folder, topic, mode, prompts, prompt_id):
            found.append(evaluated)
            advance(len(found), len(models))
            click.echo(plain(f"{topic}_{prompt_id} {evaluated.model}"))
            if evaluated.lines is None:
                click.echo(plain(f"{evaluated.path.name} Not Exists - Skip"))
                warn(f"{evaluated.model} is left out: there is no file {evaluated.path}")
                continue
            if any(evaluated.missing.values()):
                click.echo("Nan exists")
                click.echo(plain(count_series(evaluated.missing)))
            for gap in (*evaluated.warnings, *evaluated.gaps):
                warn(f"{evaluated.model}: {gap}")
        step.write_results(result, found)


@kobbq.command(
    cls=WithLists,
    epilog="Example: lmassay kobbq compare --evaluation-result-name result/KoBBQ_test "
    "--evaluation-debiased-result-name result/KoBBQ_test_debiased --prompt_ids 1 2 3 --models gpt-4",
    short_help="Step 6: default against debiased prompts.",
)
@click.option("--evaluation-result-name", "default", required=True, help="Files of step 5 without _ID.tsv.")
@click.option("--evaluation-debiased-result-name", "debiased", required=True, help="The same for debiased prompts.")
@click.option(
    "--prompt_ids", "--prompt-ids", metavar="ID...", multiple=True, required=True, help="One or more prompts."
)
@click.option("--models", metavar="MODEL...", multiple=True, required=True, help="One or more models.")
@click.option("--details", is_flag=True, help="Also print points, relative change, the overall rows, numbers of rows.")
def compare(default: str, debiased: str, prompt_ids: Sequence[str], models: Sequence[str], details: bool) -> None:
    """Compare the means of results; the % that it prints are percentage points."""
    from lmassay.evaluations.bias.kobbq.steps.compare import compare as step

    for comparison in step(default, debiased, prompt_ids, models):
        click.echo(plain(comparison.text()))
        if details:
            click.echo(plain(comparison.details()))
        for name, average in ((default, comparison.default), (debiased, comparison.debiased)):
            if not average.rows:
                warn(f"{comparison.model} has no rows in {name}_{','.join(prompt_ids)}.tsv")


def _rate(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.2%})"
