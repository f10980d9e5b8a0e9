"""``lmassay show``"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from lmassay.cli.console import print_json, without_controls
from lmassay.cli.options import json_option, results_option
from lmassay.cli.run_tables import print_run
from lmassay.storage.store import Store
from lmassay.types import RunRecord


@click.command(epilog="Example: lmassay show latest --json", short_help="Show the results of a run.")
@click.argument("run", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Print every result, however many there are.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print only the configuration, ready for `lmassay run`.")
@click.option("--provenance", is_flag=True, help="Also print the configuration, versions and machine.")
@results_option
@json_option
def show(run: str, everything: bool, as_yaml: bool, provenance: bool, results: Path, as_json: bool) -> None:
    """Show the results of a run with intervals, n, errors and unscored examples.

    RUN is an id, the beginning or end of an id, or latest. If a task has hundreds of results, only the main ones are
    shown; --all and --json give all.
    """
    with Store(results) as store:
        record = store.run(run)
        if as_yaml:
            click.echo(_as_config_file(record), nl=False)
            return
        document = record.as_json()
        if record.status != "done":
            document["errors"] = dict(store.errors(record.id))
        spending = store.spending(run=record.id)
        if spending:
            document["spending"] = asdict(spending)
        if not as_json:
            print_run(record, store, everything=everything)
    if provenance:
        document["config"] = record.config
        document["provenance"] = record.provenance.as_dict()
        document["created"] = record.created
    if as_json:
        # In a list, like the output of commands that may print several runs.
        print_json({"runs": [document]})
    elif provenance:
        for part in ("config", "provenance"):
            text = json.dumps(document[part], indent=2, ensure_ascii=False)
            click.echo(f"{part}  {without_controls(text)}")


def _as_config_file(record: RunRecord) -> str:
    """Return the configuration as a file that repeats this run, whatever folder it is run from."""
    config = {key: value for key, value in record.config.items() if value not in (None, "")}
    config["base_dir"] = str(Path(str(config.pop("base_dir", ""))).resolve())
    text = _as_yaml(config, allow_unicode=True)
    if without_controls(text) != text:
        # Write control characters, which could change what the terminal shows, as escapes with the same meaning.
        text = _as_yaml(config, allow_unicode=False)
    return f"# {record.id}\n# {without_controls(record.signature)}\n{text}"


def _as_yaml(config: Mapping[str, Any], *, allow_unicode: bool) -> str:
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=allow_unicode, width=120)
