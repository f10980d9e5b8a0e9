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


@click.command(epilog="Example: lmassay show latest --json", short_help="Show a run's results.")
@click.argument("run", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Print every result, however many there are.")
@click.option("--yaml", "as_yaml", is_flag=True, help="Print only the configuration, ready for `lmassay run`.")
@click.option("--provenance", is_flag=True, help="Also print the configuration, versions and machine.")
@results_option
@json_option
def show(run: str, everything: bool, as_yaml: bool, provenance: bool, results: Path, as_json: bool) -> None:
    """Show a run's results with intervals, n, errors and unscored. RUN is an id, part of one, or latest.

    Where a task has hundreds of results, those that it puts first are shown; --all and --json give all.
    """
    with Store(results) as store:
        record = store.run(run)
        if as_yaml:
            click.echo(_runnable(record), nl=False)
            return
        document = record.as_json() | ({"errors": dict(store.errors(record.id))} if record.status != "done" else {})
        spent = store.spending(run=record.id)
        document |= {"spending": asdict(spent)} if spent else {}
        if not as_json:
            print_run(record, store, everything=everything)
    if provenance:
        document |= {"config": record.config, "provenance": record.provenance.as_dict(), "created": record.created}
    if as_json:
        # In a list, as for commands that may have several runs, so that a program reads one form only.
        print_json({"runs": [document]})
        return
    if provenance:
        for part in ("config", "provenance"):
            click.echo(f"{part}  {without_controls(json.dumps(document[part], indent=2, ensure_ascii=False))}")


def _runnable(record: RunRecord) -> str:
    """The configuration as a file that gives this run again, from whatever folder it is run."""
    config = {key: value for key, value in record.config.items() if value not in (None, "")}
    base = {"base_dir": str(Path(str(config.pop("base_dir", ""))).resolve())}
    text = _as_yaml({**config, **base}, allow_unicode=True)
    if without_controls(text) != text:
        # Signs that would turn the writing of a terminal around, as escapes that mean the same.
        text = _as_yaml({**config, **base}, allow_unicode=False)
    return f"# {record.id}\n# {without_controls(record.signature)}\n{text}"


def _as_yaml(config: Mapping[str, Any], *, allow_unicode: bool) -> str:
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=allow_unicode, width=120)
