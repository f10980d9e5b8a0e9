"""``lmassay check``"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from lmassay.cli.common import json_option
from lmassay.cli.run import plan_all, plug_in_output_aside, show_plan


@click.command(epilog="Example: lmassay check examples/robustness.yaml", short_help="Check a configuration.")
@click.argument("configs", metavar="CONFIG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--set", "overrides", metavar="KEY=VALUE", multiple=True, help="Override a key; repeatable.")
@json_option
def check(configs: Sequence[Path], overrides: Sequence[str], as_json: bool) -> None:
    """Check keys, files, scorers and what the model can do, and count the requests; nothing is asked or written."""
    with plug_in_output_aside():
        planned = plan_all(configs, overrides)
    show_plan(planned, as_json)
