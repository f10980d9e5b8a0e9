"""Options and help of ``lmassay card``."""

from __future__ import annotations

from pathlib import Path

import click

from lmassay.cli.completion import offer
from lmassay.cli.options import calls, executor_options, json_option, results_option


@click.command(
    epilog="Example: lmassay card --quick;  lmassay card smollm2 path/to/my-model -o card.html",
    short_help="Run all evaluations on a model and write one report.",
)
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@click.option("--quick", is_flag=True, help="Use fewer examples, for a first look with wider intervals.")
@click.option("--full", is_flag=True, help="Use all examples and more attacks, prompts and settings.")
@click.option(
    "--data",
    type=click.Choice(["own", "published"]),
    default="own",
    show_default=True,
    help="Use the sentences that come with lmassay, or published data sets (see lmassay data).",
)
@click.option(
    "--language",
    metavar="CODE",
    shell_complete=offer("lmassay.reporting.card:published_languages"),
    help="Language of the published data, such as de or ko; English by default.",
)
@click.option(
    "--only",
    metavar="EVALUATION",
    multiple=True,
    shell_complete=offer("lmassay.cli.actions.card:evaluation_names"),
    help="Run only this evaluation, such as robustness; repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("card.html"),
    show_default=True,
    help="HTML file to write.",
)
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path),
    help="Write the configurations to this folder instead of running them.",
)
@click.option("--dry-run", is_flag=True, help="Check the models and show the plan, but do not run anything.")
@executor_options
@results_option
@json_option
@calls("lmassay.cli.actions.card:card")
def card() -> None:
    """Run all evaluations on a model and write one report; several models are shown side by side.

    MODEL is smollm2 (the default, a small model, which is downloaded once if you leave MODEL out), a folder or GGUF
    file with a local model, the name of a fetched hub model, a provider and its model such as openai:gpt-5, your own
    class as file.py:Name, a .yaml file, or options such as '{name: openai, base_url: …, model: …}'. Evaluations that do
    not apply to a model are listed with the reason.

    By default, the models are evaluated on sentences that were written for this command, which gives a first
    impression. With --data published, they are evaluated on published data sets, and published results are shown next
    to the numbers; fetch the data first with lmassay data get.
    """
