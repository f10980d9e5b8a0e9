"""``lmassay resume``"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from lmassay import runner
from lmassay.cli.common import json_option, results_option
from lmassay.cli.console import progress, say
from lmassay.cli.run import plug_in_output_aside, show_records
from lmassay.store import FILE, Store


@click.command(epilog="Example: lmassay resume latest", short_help="Finish a run.")
@click.argument("run", metavar="RUN")
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), help="A new limit instead of the run's own.")
@click.option("--budget-tokens", type=click.IntRange(min=1), help="The same in tokens.")
@results_option
@json_option
def resume(run: str, budget_usd: float | None, budget_tokens: int | None, results: Path, as_json: bool) -> int:
    """Take a run up where it stopped: judged examples stay, answers in the store are not asked again, errors are."""
    with Store(results, create=(results / FILE).is_file()) as store:
        record = store.run(run)
        if record.status == "done":
            say(f"{record.id} is complete; nothing to do")
            return show_records([record], store, as_json)
        if budget_usd is not None or budget_tokens is not None:
            budget = {"usd": budget_usd, "tokens": budget_tokens}
            record = replace(record, config={**record.config, "budget": budget})
        with progress(f"{record.task}: {record.label} on {record.model}") as advance, plug_in_output_aside():
            finished = runner.resume(record, store, advance)
        return show_records([finished], store, as_json)
