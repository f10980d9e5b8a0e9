"""Random damage to model folders, and what ``check`` and ``run`` must still do with them.

``build`` saves tiny models of every kind, ``damage`` changes a file of one of them, and ``check`` runs the commands:
they work, or they say in one line what is wrong.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers import EVALUATIONS, lmassay, write_config, write_lines

KINDS = ("causal", "masked", "encoder-decoder", "gguf")
MAX_ERROR_LINES = 3
MAX_SECONDS = 120.0
Command = Callable[..., "subprocess.CompletedProcess[str]"]
_JSON_FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
)
_TEMPLATES = (
    "{% for i in range(10**12) %}x{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ 'a' * 10**10 }}",
    "{{ messages.__class__.__mro__ }}",
    "{{ raise_exception('no') }}",
    "{% if %}",
    "",
    "{{ undefined.attribute }}",
)


@dataclass(frozen=True, slots=True)
class Truth:
    """The undamaged folders: one for each kind, with a configuration ``c.yaml`` and the model in ``model``."""

    folders: Mapping[str, Path]


def build(folder: Path) -> Truth:
    """Save a tiny model of each kind, each in its own folder with a configuration that uses it."""
    from tests import tiny_models
    from tests.models.hf import test_gguf, translators

    folders = {}
    for kind in KINDS:
        place = folder / kind
        place.mkdir(parents=True)
        write_lines(place / "src.txt", ["the author laughs", "one two three"])
        pair = {"sentence_good": "The author laughs.", "sentence_bad": "The author laugh.", "UID": "agreement"}
        write_lines(place / "pairs.jsonl", [json.dumps(pair), json.dumps({**pair, "sentence_good": "A pilot laughs."})])
        task: dict[str, Any] = {"name": "minimal_pairs", "data": "pairs.jsonl"}
        model = "model"
        limit = None
        if kind == "masked":
            tiny_models.save_model(place / "model", "bert")
        elif kind == "causal":
            tiny_models.save_model(place / "model", "llama", template=tiny_models.TEMPLATE, window=2048)
            data = str(EVALUATIONS / "bias/sample/questions.yaml")
            task = {"name": "bias", "data": data, "prompt_id": 1, "answer_by": "letters"}
            limit = 2
        elif kind == "encoder-decoder":
            translators.save("t5", place / "model")
            task = {"name": "robustness", "src": "src.txt", "attack": "charswap", "max_tokens": 4}
        else:
            (place / "model").mkdir()
            test_gguf.setup_module()
            test_gguf.write_gguf(place / "model" / "model.gguf")
            model = "model/model.gguf"
        config = {"task": task, "model": {"name": "hf", "model": model}, "resamples": 100, "limit": limit}
        write_config(place / "c.yaml", config)
        done = lmassay("check", "c.yaml", cwd=place, env={"LMASSAY_CACHE": str(place / "cache")})
        assert done.returncode == 0, done.stderr
        folders[kind] = place
    return Truth(folders)


# --- damage -----------------------------------------------------------------------------------------------------------


def damage(folder: Path, rng: random.Random) -> str:
    """Damage one file of the model in a folder as ``build`` makes it, and say how."""
    model = folder / "model"
    weights = sorted([*model.glob("*.safetensors"), *model.glob("*.gguf")])
    present = [model / name for name in _JSON_FILES if (model / name).is_file()]
    if not present or rng.random() < 0.2:
        return _damage_bytes(rng.choice(weights), rng)
    if (model / "chat_template.jinja").is_file() and rng.random() < 0.1:
        template = rng.choice(_TEMPLATES)
        (model / "chat_template.jinja").write_text(template, encoding="utf-8")
        return f"chat template {template}"
    file = rng.choice(present)
    if rng.random() < 0.25:
        return _damage_bytes(file, rng)
    return _change_json(file, rng)


def _damage_bytes(file: Path, rng: random.Random) -> str:
    data = bytearray(file.read_bytes())
    kind = rng.choice(["empty", "cut", "byte", "byte", "bytes", "utf-8", "folder", "missing", "deep"])
    if kind == "empty":
        file.write_bytes(b"")
    elif kind == "cut":
        file.write_bytes(bytes(data[: rng.randrange(len(data))]))
    elif kind == "folder":
        file.unlink()
        file.mkdir()
    elif kind == "missing":
        file.unlink()
    elif kind == "deep":
        file.write_text('{"a":' * 50_000, encoding="utf-8")
    else:
        # The beginning is the header, where damage does most.
        limit = len(data) if rng.random() < 0.3 else min(len(data), 3000)
        for _ in range(1 if kind == "byte" else 8):
            data[rng.randrange(limit)] = 0xFF if kind == "utf-8" else rng.randrange(256)
        file.write_bytes(bytes(data))
    return f"{file.name}: {kind}"


def _change_json(file: Path, rng: random.Random) -> str:
    document = json.loads(file.read_text(encoding="utf-8"))
    paths = list(_paths(document))
    if not paths:
        file.write_text("[]", encoding="utf-8")
        return f"{file.name}: a list"
    # Most values of a tokenizer are its vocabulary; the others are more interesting.
    short = [path for path in paths if len(path) <= 2] or paths
    path = rng.choice(short if rng.random() < 0.7 else paths)
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    key = path[-1]
    values: list[Any] = [
        None,
        True,
        -1,
        0,
        10**9,
        10**18,
        0.5,
        math.nan,
        "",
        "unknown",
        [],
        {},
        [1],
        {"type": "Unknown"},
        "\ud800",
    ]
    if rng.random() < 0.3:
        del parent[key]
        how = "deleted"
    else:
        parent[key] = rng.choice(values)
        how = repr(parent[key])
    file.write_text(json.dumps(document), encoding="utf-8")
    return f"{file.name}: {'.'.join(map(str, path))} {how}"


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield the paths to all values of a JSON document."""
    if len(path) > 6:
        return
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, child in items:
        yield (*path, key)
        yield from _paths(child, (*path, key))


# --- what the commands do with it -------------------------------------------------------------------------------------


def check(folder: Path, truth: Truth, call: Command = lmassay) -> list[str]:
    """Run ``check`` and ``run`` on a damaged folder and return what they did wrong, one sentence each."""
    failures = []
    environment = {"LMASSAY_CACHE": str(folder / "cache")}
    for command in (["check", "c.yaml"], ["run", "c.yaml", "--results", "results"]):
        name = command[0]
        started = time.monotonic()
        done = call(*command, cwd=folder, env=environment)
        seconds = time.monotonic() - started
        if done.returncode not in (0, 1, 2):
            failures.append(f"{name}: exit code {done.returncode}")
        if "Traceback" in done.stderr + done.stdout:
            failures.append(f"{name}: a traceback: {done.stderr.strip()[-900:]}")
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        if done.returncode == 2 and len(lines) > MAX_ERROR_LINES:
            failures.append(f"{name}: {len(lines)} lines of error: {lines}")
        if seconds > MAX_SECONDS:
            failures.append(f"{name}: {seconds:.0f} seconds")
    return failures


def copy_of(kind: str, truth: Truth, target: Path) -> Path:
    """Copy the undamaged folder of a kind."""
    return shutil.copytree(truth.folders[kind], target)
