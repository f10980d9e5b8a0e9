"""Data files: texts, TSV, CSV, JSON Lines and descriptions of data with damaged bytes, lines and fields."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.fuzzing import configurations
from tests.fuzzing.mutations import damage_bytes, damage_document, damage_lines

# The configuration that reads each file.
READERS = {
    "data/few.txt": "robustness",
    "own_data/parallel/source.de": "outputs",
    "own_data/parallel/reference.en": "outputs",
    "own_data/parallel/attacked.de": "outputs",
    "own_data/parallel/output.en": "outputs",
    "own_data/parallel/output_attacked.en": "outputs",
    "own_data/people.csv": "bias",
    "own_data/people.yaml": "bias",
    "own_data/pairs.jsonl": "syntax",
    "data/corpus.txt": "syntax",
    "fewshot/reviews.yaml": "fewshot",
    "fewshot/train.jsonl": "fewshot",
    "fewshot/dev.jsonl": "fewshot",
}

prepare = configurations.prepare


def damage(path: Path, rng: random.Random) -> str:
    """Change one data file of a folder, or one file."""
    file = path / _chosen(path, rng) if path.is_dir() else path
    kind = rng.choice(("lines", "lines", "bytes", "fields"))
    if kind == "fields" and file.suffix == ".jsonl":
        return damage_json_line(file, rng)
    if kind == "bytes":
        return damage_bytes(file, rng)
    return damage_lines(file, rng)


def damage_json_line(file: Path, rng: random.Random) -> str:
    """Change one field of one line of a file of JSON Lines."""
    lines = file.read_bytes().splitlines()
    if not lines:
        return damage_bytes(file, rng)
    number = rng.randrange(len(lines))
    try:
        document = json.loads(lines[number])
    except ValueError:
        return damage_lines(file, rng)
    document, change = damage_document(document, rng, ["id", "label", "text", "choices", "correct", "groups"])
    lines[number] = json.dumps(document, default=str).encode()
    file.write_bytes(b"\n".join(lines) + b"\n")
    return f"{file.name}, line {number + 1}: {change}"


def _chosen(folder: Path, rng: random.Random) -> str:
    marker = folder / ".chosen"
    if not marker.exists():
        marker.write_text(rng.choice(sorted(READERS)), encoding="utf-8")
    return marker.read_text(encoding="utf-8")


def commands(folder: Path, rng: random.Random) -> list[list[str]]:
    """Check and run the configuration that reads the damaged file, and show the results; without damage, all."""
    is_damaged = (folder / ".chosen").exists()
    names = [READERS[_chosen(folder, rng)]] if is_damaged else sorted(set(READERS.values()))
    chosen = []
    for name in names:
        chosen += [["check", f"{name}.yaml"], ["run", f"{name}.yaml"]]
    chosen.append(
        rng.choice((["show", "latest"], ["report", "-o", "page.html"], ["export", "latest"], ["ls", "--json"]))
    )
    return chosen
