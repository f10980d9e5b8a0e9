"""Options and help of ``lmassay kobbq`` and its commands, one per step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lmassay.cli.argparse_style import AbbreviatedCommand, AddedOption, ListOptionsCommand
from lmassay.cli.options import calls

_FILE: Any = click.Path(path_type=Path, dir_okay=False)
_FOLDER: Any = click.Path(path_type=Path, file_okay=False)


class _Steps(click.Group):
    """A group that lists its commands in the order in which they are used, not alphabetically."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_Steps,
    epilog="Example: lmassay kobbq expand --templates-tsv-path KoBBQ_templates.tsv --output-path KoBBQ_all_samples.tsv",
    short_help="KoBBQ's steps, with its flags and files.",
)
def kobbq() -> None:
    """Run KoBBQ's steps with KoBBQ's own flags. They read and write the same files as its programs, byte for byte."""


@kobbq.command(
    epilog="Example: lmassay kobbq expand --templates-tsv-path KoBBQ_templates.tsv --output-path KoBBQ_all_samples.tsv",
    short_help="Step 0: make all samples from the templates.",
)
@click.option("--templates-tsv-path", "templates", type=_FILE, required=True, help="KoBBQ_templates.tsv.")
@click.option("--output-path", "output", type=_FILE, help="File for the samples. Without it, they are only counted.")
@click.option("--check", is_flag=True, help="Exit with code 1 unless the samples equal the released ones.")
@calls("lmassay.evaluations.bias.commands.actions.kobbq:expand")
def expand() -> None:
    """Create all samples from the templates, and compare them with those that the authors released."""


@kobbq.command(
    cls=AbbreviatedCommand,
    epilog="Example: lmassay kobbq preprocess --samples-tsv-path KoBBQ_test_samples.tsv --evaluation-tsv-path "
    "data/KoBBQ_test_evaluation_1.tsv --evaluation-json-path data/KoBBQ_test_evaluation_1.json --prompt-tsv-path "
    "0_evaluation_prompts.tsv --prompt-id 1",
    short_help="Step 1: make questions from samples and a prompt.",
)
@click.option("--samples-tsv-path", "samples", type=_FILE, required=True, help="KoBBQ_test_samples.tsv or all samples.")
@click.option("--evaluation-tsv-path", "tsv", type=_FILE, help="TSV file to write, for the later steps.")
@click.option("--evaluation-json-path", "json", type=_FILE, help="JSON file to write, for step 2.")
@click.option("--prompt-tsv-path", "prompts", type=_FILE, required=True, help="0_evaluation_prompts.tsv or your own.")
@click.option("--prompt-id", type=int, required=True, help="Id of the prompt in that file.")
@calls("lmassay.evaluations.bias.commands.actions.kobbq:preprocess")
def preprocess() -> None:
    """Write each sample as three questions, with its choices in three orders, under one prompt."""


@kobbq.command(
    cls=AbbreviatedCommand,
    epilog="Example: lmassay kobbq infer --data-path data/KoBBQ_test_evaluation_1.json --output-dir outputs/raw "
    "--model-name gpt-4",
    short_help="Step 2: ask a model.",
)
@click.option("--data-path", type=click.Path(path_type=Path), required=True, help="JSON file of step 1.")
@click.option(
    "--model-name", required=True, help="gpt-4, claude-…, clova-x (HCX-005), KoAlpaca-Polyglot-12.8B, a folder, …"
)
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    default=Path("outputs"),
    show_default=True,
    help="Folder for the answers.",
)
@click.option("--max-tokens", type=click.IntRange(min=1), default=30, show_default=True, help="Token limit per answer.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=1,
    help="Accepted, but not used: local models choose their batches by memory, servers get concurrent requests.",
)
@click.option(
    "--base-url",
    cls=AddedOption,
    help="Address of a server. claude-…, clova-x and HCX-… are asked in their provider's protocol and with its key, "
    "all other models as on an OpenAI-compatible server (llama.cpp, vLLM, Ollama).",
)
@click.option(
    "--model-config",
    cls=AddedOption,
    type=click.Path(path_type=Path),
    help="YAML file with `model: {name: …}` that replaces --model-name.",
)
@click.option(
    "--set",
    "overrides",
    cls=AddedOption,
    metavar="KEY=VALUE",
    multiple=True,
    help="Set an option of the model; repeatable.",
)
@click.option(
    "--budget-usd",
    cls=AddedOption,
    type=click.FloatRange(min=0, min_open=True),
    help="Stop when this many US dollars are spent.",
)
@click.option(
    "--budget-tokens", cls=AddedOption, type=click.IntRange(min=1), help="Stop when this many tokens are used."
)
@calls("lmassay.evaluations.bias.commands.actions.kobbq:infer")
def infer() -> None:
    """Send the questions to a model. Answers are saved as they arrive; questions with a saved answer are skipped.

    API keys are read from the environment: OPENAI or OPENAI_API_KEY (with OPENAI_ORG, if needed), CLAUDE or
    ANTHROPIC_API_KEY, CLOVA (with CLOVA_URL, if needed), and for Azure API_KEY with API_VERSION and AZURE_ENDPOINT.
    OPENAI_BASE_URL and ANTHROPIC_BASE_URL set other addresses.
    """


@kobbq.command(
    cls=AbbreviatedCommand,
    epilog="Example: lmassay kobbq postprocess --predictions-tsv-path raw/KoBBQ_test_evaluation_1_gpt-4_predictions.tsv"
    " --preprocessed-tsv-path data/KoBBQ_test_evaluation_1.tsv --ooc-path ooc.tsv",
    short_help="Step 3: turn answers into letters.",
)
@click.option(
    "--predictions-tsv-path", "predictions", type=_FILE, required=True, help="File of step 2; it is rewritten."
)
@click.option("--preprocessed-tsv-path", "preprocessed", type=_FILE, required=True, help="TSV file of step 1.")
@click.option("--ooc-path", "ooc", type=_FILE, help="File for the answers out of choice.")
@click.option(
    "--parsing",
    cls=AddedOption,
    type=click.Choice(["reference", "robust"]),
    default="reference",
    show_default=True,
    help="reference reads answers exactly as KoBBQ's program does; robust also reads answers that reference misreads.",
)
@calls("lmassay.evaluations.bias.commands.actions.kobbq:postprocess")
def postprocess() -> None:
    """Find the choice that each answer names. An answer that names none is left as it is and is out of choice."""


@kobbq.command(
    cls=AbbreviatedCommand,
    epilog="Example: lmassay kobbq collect --predictions-tsv-path raw/KoBBQ_test_evaluation_1_gpt-4_predictions.tsv "
    "--preprocessed-tsv-path data/KoBBQ_test_evaluation_1.tsv --output-path out/KoBBQ_test_evaluation_1_gpt-4.tsv",
    short_help="Step 4: replace letters with the texts of their choices.",
)
@click.option("--predictions-tsv-path", "predictions", type=_FILE, required=True, help="File of steps 2 and 3.")
@click.option("--preprocessed-tsv-path", "preprocessed", type=_FILE, required=True, help="TSV file of step 1.")
@click.option("--output-path", "output", type=_FILE, required=True, help="File for the questions with their answers.")
@calls("lmassay.evaluations.bias.commands.actions.kobbq:collect")
def collect() -> None:
    """Write the questions together with their answers."""


@kobbq.command(
    cls=ListOptionsCommand,
    epilog="Example: lmassay kobbq evaluate --evaluation-result-path result/KoBBQ_test_1.tsv --model-result-tsv-dir "
    "processed --topic KoBBQ_test_evaluation --test-or-all test --prompt-tsv-path 0_evaluation_prompts.tsv "
    "--prompt-id 1 --models gpt-4 claude-2.0",
    short_help="Step 5: accuracy and diff-bias.",
)
@click.option("--model-result-tsv-dir", "folder", type=_FOLDER, required=True, help="Folder with the files of step 4.")
@click.option("--evaluation-result-path", "result", type=_FILE, required=True, help="File for the results.")
@click.option("--topic", required=True, help="Beginning of the file names, e.g. KoBBQ_test_evaluation.")
@click.option(
    "--test-or-all",
    "mode",
    type=click.Choice(["test", "all"]),
    required=True,
    help="test: mean over all rows; all: mean over the rows of each template, then over templates.",
)
@click.option("--prompt-tsv-path", "prompts", type=_FILE, required=True, help="The file given to step 1.")
@click.option("--prompt-id", type=int, required=True, help="The prompt given to step 1.")
@click.option("--models", metavar="MODEL...", multiple=True, required=True, help="One or more models.")
@calls("lmassay.evaluations.bias.commands.actions.kobbq:evaluate")
def evaluate() -> None:
    """Evaluate FOLDER/TOPIC_ID_MODEL.tsv of each model; a model without a file is skipped."""


@kobbq.command(
    cls=ListOptionsCommand,
    epilog="Example: lmassay kobbq compare --evaluation-result-name result/KoBBQ_test "
    "--evaluation-debiased-result-name result/KoBBQ_test_debiased --prompt_ids 1 2 3 --models gpt-4",
    short_help="Step 6: compare default and debiased prompts.",
)
@click.option(
    "--evaluation-result-name", "default", required=True, help="Path of the files of step 5, without _ID.tsv."
)
@click.option("--evaluation-debiased-result-name", "debiased", required=True, help="The same for debiased prompts.")
@click.option(
    "--prompt_ids", "--prompt-ids", metavar="ID...", multiple=True, required=True, help="One or more prompts."
)
@click.option("--models", metavar="MODEL...", multiple=True, required=True, help="One or more models.")
@click.option(
    "--details",
    cls=AddedOption,
    is_flag=True,
    help='Also print relative changes, the same comparison for the rows "overall" alone, and the numbers of rows.',
)
@calls("lmassay.evaluations.bias.commands.actions.kobbq:compare")
def compare() -> None:
    """Compare the means of two sets of results. As in the original, % in the output means percentage points."""
