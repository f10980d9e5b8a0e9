"""Configurations: YAML that is not YAML, unknown and misspelt keys, values of the wrong type."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.fuzzing.mutations import damage_bytes, damage_document, damage_lines, keys_of
from tests.helpers import EVALUATIONS, write_lines

# Small runs of all evaluations, with models that answer at once.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "robustness": {
        "name": "fuzz",
        "seed": 3,
        "resamples": 100,
        "task": {
            "name": "robustness",
            "src": "data/few.txt",
            "ref": "data/few.txt",
            "attack": ["charswap", {"name": "keyboard", "options": {"layout": "azerty"}}],
            "s_src": "chrf",
            "success_threshold": 1.0,
        },
        "model": {"name": "echo", "transform": "upper"},
    },
    "outputs": {
        "task": {
            "name": "robustness",
            "src": "own_data/parallel/source.de",
            "ref": "own_data/parallel/reference.en",
            "attack": {"name": "typing errors", "file": "own_data/parallel/attacked.de"},
        },
        "model": {
            "name": "outputs",
            "files": {"out": "own_data/parallel/output.en", "adv_out": "own_data/parallel/output_attacked.en"},
        },
    },
    "bias": {
        "task": {"name": "bias", "data": "own_data/people.yaml", "prompt_id": [1]},
        "model": {"name": "echo", "label": "says the question"},
    },
    "syntax": {
        "task": [
            {"name": "syntax", "data": "own_data/pairs.jsonl", "clusters": "noun", "cutoffs_top": [0.5, 1.0]},
            {"name": "minimal_pairs", "data": "own_data/pairs.jsonl", "max_per_file": 4},
        ],
        "model": {"name": "my_language_model.py:Bigrams", "text": "data/corpus.txt", "smoothing": 0.5},
    },
    "fewshot": {
        "task": {
            "name": "fewshot",
            "data": "fewshot/reviews.yaml",
            "labelled": ["train"],
            "test_examples": 4,
            "splits": {"strategy": "multi_splits", "k": 2},
            "method": ["majority"],
        },
        "model": {"name": "echo"},
    },
    "api": {
        "task": {"name": "robustness", "src": "data/few.txt", "attack": "charswap", "prompt": "Translate: {x}"},
        "model": {
            "name": "openai",
            "model": "m",
            "base_url": "http://127.0.0.1:9/v1",
            "parameters": {"top_p": 0.9},
            "prices": {"input": 1.0, "output": 2.0},
            "tries": 1,
        },
        "budget": {"usd": 1.0},
    },
}
# Where the data of the samples go: path in the folder → sample.
_FOLDERS = {"own_data/parallel": "robustness/starters/parallel", "fewshot": "fewshot/sample"}
_FILES = {
    "my_language_model.py": "syntax/sample/my_language_model.py",
    "data/corpus.txt": "syntax/sample/corpus.txt",
    "own_data/pairs.jsonl": "syntax/starters/pairs.jsonl",
    "own_data/people.csv": "bias/starters/people.csv",
    "own_data/people.yaml": "bias/starters/people.yaml",
}


def prepare(folder: Path) -> None:
    """Write one configuration per evaluation, and the data that they name."""
    for name, sample in _FOLDERS.items():
        shutil.copytree(EVALUATIONS / sample, folder / name)
    for name, sample in _FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(EVALUATIONS / sample, folder / name)
    write_lines(folder / "data" / "few.txt", ["one small line", "another small line", "the third line is longer"])
    for name, document in CONFIGURATIONS.items():
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def damage(path: Path, rng: random.Random) -> str:
    """Change one configuration of a folder, or one file."""
    file = path
    if path.is_dir():
        # All changes of a case hit the same file, which the commands read.
        file = path / f"{_chosen(path, rng)}.yaml"
    kind = rng.choice(("document", "document", "document", "lines", "bytes", "yaml"))
    if kind == "lines":
        return damage_lines(file, rng)
    if kind == "bytes":
        return damage_bytes(file, rng)
    if kind == "yaml":
        return _add_yaml(file, rng)
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError):
        # An earlier change has already made it something else.
        return damage_lines(file, rng)
    every_key = sorted(keys_of(list(CONFIGURATIONS.values())))
    document, change = damage_document(document, rng, every_key)
    file.write_bytes(yaml.safe_dump(document, sort_keys=False, allow_unicode=False).encode("utf-8", "surrogatepass"))
    return f"{file.name}: {change}"


def _chosen(folder: Path, rng: random.Random) -> str:
    marker = folder / ".chosen"
    if not marker.exists():
        marker.write_text(rng.choice(sorted(CONFIGURATIONS)), encoding="utf-8")
    return marker.read_text(encoding="utf-8")


def _add_yaml(file: Path, rng: random.Random) -> str:
    """Append or prepend what YAML allows and a configuration should not have."""
    text = rng.choice(
        (
            "x: !!python/object/apply:os.getcwd []\n",
            "x: [&a [1, 2], &b [*a, *a, *a], &c [*b, *b, *b], &d [*c, *c, *c], [*d, *d, *d]]\n",
            "<<: *nowhere\n",
            "task: robustness\ntask: bias\n",
            "---\n---\n",
            "%YAML 9.9\n---\n",
            "? [1, 2]\n: 3\n",
            "? {a: 1}\n",
            "2026-01-01: 2026-13-45\n",
            "x: 2026-99-99\n",
            "x: 190:20:30\n",
            "x: !!binary garbage\n",
            "x: !!timestamp x\n",
            "x: !!int x\n",
            "x: !!set {a, b}\n",
            "x: !!float .\n",
            "x: >\n\t tab\n",
            "'" * 7 + "\n",
            "[" * 2000 + "\n",
            "x: " + "{a: " * 1500 + "\n",
            "&x x: *x\n",
            "\ufeff",
            "\x85\u2028",
        )
    )
    content = file.read_bytes()
    addition = text.encode()
    file.write_bytes(content + addition if rng.random() < 0.6 else addition + content)
    return f"{file.name}: adds {text[:40]!r}"


def commands(folder: Path, rng: random.Random) -> list[list[str]]:
    """Check the damaged configuration, and run it if its model needs no server; without damage, all of them."""
    is_damaged = (folder / ".chosen").exists()
    names = [_chosen(folder, rng)] if is_damaged else sorted(CONFIGURATIONS)
    chosen = []
    for name in names:
        file = f"{name}.yaml"
        chosen.append(["check", file])
        chosen.append(["run", file, "--dry-run"] if name == "api" else ["run", file])
    chosen.append(rng.choice((["show", "latest"], ["report", "-o", "page.html"], ["resume"], ["ls"])))
    return chosen
