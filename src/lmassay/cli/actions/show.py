"""What ``lmassay show`` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import yaml

from lmassay.cli.console import print_json, say, without_controls
from lmassay.cli.run_tables import print_run
from lmassay.errors import StoreError
from lmassay.storage.commands import command_on_results
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord


def show(
    run: str, everything: bool, signature: bool, as_yaml: bool, provenance: bool, results: Path, as_json: bool
) -> None:
    """Show the results of a run with intervals, and how many examples were scored (n), failed or are unscored."""
    with Store(results, for_display=True) as store:
        record = store.run(run)
        if record.status == DAMAGED and not record.config and (as_yaml or provenance):
            raise StoreError(f"the run {record.id} is damaged: {record.note}")
        if as_yaml:
            click.echo(_as_config_file(record), nl=False)
            return
        document = record.as_json()
        if record.status not in ("done", DAMAGED):
            document["errors"] = dict(store.errors(record.id))
        spending = None
        if record.status != DAMAGED:
            spending = store.spending(run=record.id)
            reasons = store.unscored_reasons(record)
            if reasons:
                document["unscored"] = dict(reasons)
        if spending:
            document["spending"] = asdict(spending)
        if not as_json:
            print_run(record, store, everything=everything, with_signature=everything or signature)
            if run == "latest":
                _name_other_runs(record, store)
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


def _name_other_runs(record: RunRecord, store: Store) -> None:
    """If the command that started the latest run started several runs, say so, and say how to list them."""
    runs_of_command = [other for other in store.runs() if record.sweep and other.sweep == record.sweep]
    if len(runs_of_command) > 1:
        command = command_on_results(store.folder, "ls")
        say(f"this is the last of {len(runs_of_command)} runs of one command; to list them: {command}")


def _as_config_file(record: RunRecord) -> str:
    """Return the text of a configuration file that repeats this run, whatever folder it is run from."""
    config = {key: value for key, value in record.config.items() if value not in (None, "")}
    config["base_dir"] = str(Path(str(config.pop("base_dir", ""))).resolve())
    text = _as_yaml(config, allow_unicode=True)
    if without_controls(text) != text:
        # Write control characters, which could change what the terminal shows, as escapes with the same meaning.
        text = _as_yaml(config, allow_unicode=False)
    return f"# {record.id}\n# {without_controls(record.signature)}\n{text}"


def _as_yaml(config: Mapping[str, Any], *, allow_unicode: bool) -> str:
    return yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=allow_unicode, width=120)
