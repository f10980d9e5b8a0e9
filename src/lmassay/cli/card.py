"""``lmassay card``"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click
import yaml

from lmassay import runner
from lmassay.card import plan as card_plan
from lmassay.card.models import DEFAULT
from lmassay.card.plan import Part
from lmassay.card.ways import EVALUATIONS, Size
from lmassay.cli.card_shown import card_as_json, print_card
from lmassay.cli.common import json_option, results_option
from lmassay.cli.console import complain, print_json, say
from lmassay.cli.crew import Hands, crew_options
from lmassay.cli.display import board
from lmassay.cli.run import plug_in_output_aside, show_plan, unfinished, work_through
from lmassay.data import atomic_write
from lmassay.errors import UserError
from lmassay.runner import Plan
from lmassay.store import RunRecord, Store
from lmassay.sweep import Entry, register_all


@click.command(
    epilog="Example: lmassay card --quick;  lmassay card smollm2 path/to/my-model -o card.html",
    short_help="Ask all four questions of a model.",
)
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@click.option("--quick", "size", flag_value="quick", help="A first look: fewer examples, wider intervals.")
@click.option("--full", "size", flag_value="full", help="All examples, more attacks, prompts and settings.")
@click.option(
    "--only",
    type=click.Choice(EVALUATIONS),
    multiple=True,
    help="Ask this question only; repeatable.",
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
@crew_options
@results_option
@json_option
def card(
    models: Sequence[str],
    size: str | None,
    only: Sequence[str],
    output: Path,
    folder: Path | None,
    dry_run: bool,
    hands: Hands,
    results: Path,
    as_json: bool,
) -> int:
    """Ask a model all four questions and write one report; several models are put side by side.

    MODEL is smollm2 (the default, a small real model that is fetched once), a folder or GGUF file with a local model,
    the name of a hub model that was fetched, a kind and its model such as openai:gpt-5, a class of your own as
    file.py:Name, a .yaml file or '{name: openai, base_url: …, model: …}' with options. What a model cannot be asked is
    told with the reason.
    """
    chosen: Size = next((known for known in get_args(Size) if known == size), "standard")
    if not models and not dry_run and folder is None:
        _fetch_default()
    with plug_in_output_aside():
        candidates = card_plan.candidates(models or [DEFAULT], Path.cwd())
        parts = card_plan.parts(candidates, chosen, only or EVALUATIONS)
    if folder is not None:
        return _write(parts, folder)
    with plug_in_output_aside():
        planned = [runner.plan(config) for part in parts for config in part.runs()]
    _require_work(parts, planned)
    if dry_run:
        show_plan(planned, as_json)
        return 0
    sweep = runner.new_sweep()
    with Store(results, create=True) as store, hands.crew(planned) as crew, store.lock_sweep(sweep):
        entries = register_all(planned, store, sweep, {"card": _about(parts, chosen)})
        with board(_lines(entries)) as display:
            worst = work_through(entries, store, crew, display)
        records = [record for record in store.runs() if record.sweep == sweep]
        _write_page(store, records, output)
        if as_json:
            print_json(card_as_json(store, records) | {"page": str(output.resolve())})
        else:
            print_card(store, records)
        say(f"the page is {output.resolve()}")
        return max(worst, unfinished(records, store))


def _fetch_default() -> None:
    """The default model is the only one that is fetched unasked: who names none has no other."""
    from lmassay.models import embedded

    if embedded.folder(DEFAULT) is None:
        say(f"no model was named; fetching the default, {DEFAULT} ({embedded.EMBEDDED[DEFAULT].megabytes} MB, once)")
        embedded.fetch(DEFAULT, say)


def _require_work(parts: Sequence[Part], planned: Sequence[Plan]) -> None:
    if not planned:
        told = "\n".join(f"  {part.evaluation}: {part.reason}" for part in parts)
        raise UserError(f"nothing can be asked of this model:\n{told}")


def _about(parts: Sequence[Part], size: Size) -> Mapping[str, Any]:
    absent: dict[str, dict[str, str]] = {}
    for part in parts:
        if part.config is None:
            absent.setdefault(part.model, {})[part.evaluation] = part.reason
    return {"size": size, "absent": absent}


def _lines(entries: Sequence[Entry]) -> dict[str, str]:
    several = len({entry.plan.model_label for entry in entries}) > 1
    return {
        entry.record.id: f"{entry.plan.task.name}: {entry.plan.label}"
        + (f" on {entry.plan.model_label}" if several else "")
        for entry in entries
    }


def _write_page(store: Store, records: Sequence[RunRecord], output: Path) -> None:
    from lmassay.report.page import render

    page = render(store, records)
    with atomic_write(output) as stream:
        stream.write(page)


def _write(parts: Sequence[Part], folder: Path) -> int:
    """Each part as a configuration of its own."""
    several = len(parts) > len({part.evaluation for part in parts})
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(parts):
        if part.config is None:
            complain(f"{part.evaluation} is not applicable to {part.model}: {part.reason}")
            continue
        name = f"{part.evaluation}-{number}" if several else part.evaluation
        path = folder / f"{name}.yaml"
        text = yaml.safe_dump(card_plan.as_yaml(part), sort_keys=False, allow_unicode=True, width=120)
        with atomic_write(path) as stream:
            stream.write(f"# A part of lmassay's card, to be run by itself: lmassay run {path}\n{text}")
        say(f"written: {path}")
    return 0
