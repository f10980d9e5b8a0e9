"""Logs of lm-evaluation-harness: samples and totals with damaged bytes, lines and fields."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from tests.fuzzing.data_files import damage_json_line
from tests.fuzzing.mutations import damage_bytes, damage_document, damage_lines
from tests.helpers import ROOT

LOGS = ROOT / "tests" / "interchange" / "logs"


def prepare(folder: Path) -> None:
    """Copy recorded logs."""
    for file in (*LOGS.glob("samples_*.jsonl"), *LOGS.glob("results_*.json")):
        shutil.copy(file, folder / file.name)


def damage(path: Path, rng: random.Random) -> str:
    """Change one log of a folder, or one file."""
    file = path if path.is_file() else rng.choice(sorted(path.glob("*.json*")))
    kind = rng.choice(("fields", "fields", "fields", "lines", "bytes"))
    if kind == "lines":
        return damage_lines(file, rng)
    if kind == "bytes":
        return damage_bytes(file, rng)
    if file.suffix == ".jsonl":
        return damage_json_line(file, rng)
    try:
        document = json.loads(file.read_bytes())
    except ValueError:
        return damage_lines(file, rng)
    document, change = damage_document(document, rng, ["results", "configs", "model_name", "config", "versions"])
    file.write_text(json.dumps(document, default=str), encoding="utf-8")
    return f"{file.name}: {change}"


def commands(folder: Path, rng: random.Random) -> list[list[str]]:
    """Import all logs, or each by itself, and show what was imported."""
    logs = sorted(file.name for file in folder.glob("samples_*.jsonl"))
    shown = rng.choice((["show", "latest"], ["report", "-o", "page.html"], ["export", "latest"], ["ls", "--json"]))
    # One of the logs has several filters.
    with_filters = [log for log in logs if "sums" in log]
    others = [log for log in logs if "sums" not in log]
    imports = [["import", log, "--filter", "strict-match"] for log in with_filters]
    if rng.random() < 0.5:
        imports.append(["import", *others])
    else:
        imports += [["import", log] for log in others]
    return [*imports, shown]
