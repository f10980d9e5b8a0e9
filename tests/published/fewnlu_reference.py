"""What FewNLU gave on the examples of ``reference/fewnlu``, and what lmassay gives, in the form of the same files."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.protocol.splits import make_splits, units_of
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from tests.helpers import lmassay
from tests.published import documents
from tests.published.fewnlu_gold import fill
from tests.published.reference_files import REFERENCE

FOLDER = REFERENCE / "fewnlu"
MODEL = FOLDER / "tiny_bert"
FILES = ("encodings_bert.json", "pet_cls_logits.json", "splits.json", "runs.jsonl")
FOLDERS = {"rte": "RTE", "wic": "WiC"}
"""Task → the folder of its data."""
LOGITS, TRAINED = 2e-6, 1e-5
"""Tolerances for other versions of torch: of logits, and of those after a training."""

# The original's errors, which are those of a programming mistake, and what is raised here.
ERRORS = {
    ConfigError: "TypeError: cannot unpack non-iterable NoneType object",
    DataError: "ValueError: max() arg is an empty sequence",
}


def recorded_text(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")


def recorded(file: str) -> dict[str, Any]:
    return parsed(file, recorded_text(file))


def parsed(file: str, text: str) -> dict[str, Any]:
    """The document in a file's text; of ``runs.jsonl``, name → run."""
    if not file.endswith(".jsonl"):
        document: dict[str, Any] = json.loads(text)
        return document
    return {run["name"]: run for run in map(json.loads, text.splitlines())}


def tolerance(file: str) -> documents.Tolerance:
    """Logits and losses have a tolerance; everything else is exact."""

    def of_logits(path: documents.Path, value: float) -> float:
        return LOGITS if path[1] in ("logits", "loss") else 0.0

    def of_runs(path: documents.Path, value: float) -> float:
        is_trained = path[-1] == "average_loss" or any(name.endswith("eval_logits") for name in path)
        return TRAINED if is_trained else 0.0

    return {"pet_cls_logits.json": of_logits, "runs.jsonl": of_runs}.get(file, documents.exact)


@functools.cache
def task(name: str) -> NluTask:
    return open_task(f"superglue/{name}", FOLDER / "data" / FOLDERS[name])


@functools.cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(MODEL)


# --- encodings --------------------------------------------------------------------------------------------------------


def encoding(key: str) -> dict[str, Any]:
    name, mode, pattern, window = key.split("/")
    size = int(window[1:])
    try:
        pvp = task(name).pvp(tokenizer(), mode=mode, pattern_id=int(pattern[1:]), max_seq_length=size)
        encoded = [pvp.encode(example) for example in task(name).examples("train")]
    except (ConfigError, DataError) as error:
        return {"error": ERRORS[type(error)]}
    rows = [[one.ids, one.types, one.masks, one.prompts] for one in encoded]
    text = json.dumps(rows, separators=(",", ":"))
    document: dict[str, Any] = {
        "n": len(rows),
        "sha": hashlib.sha256(text.encode()).hexdigest()[:16],
        "lens": [len(one.ids) for one in encoded],
    }
    if size in (96, 24):
        document["first2"] = rows[:2]
    if mode != "cls":
        document["verbalizers"] = {label: pvp.words(label) for label in task(name).labels}
        document["m2c"] = pvp.label_token_ids()
    return document


# --- logits -----------------------------------------------------------------------------------------------------------


def logits(key: str) -> dict[str, Any]:
    import torch

    from lmassay.evaluations.fewshot.methods.classifier import Classifier
    from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading

    method, _, name, pattern = key.split("/")
    window = 128
    learner: Cloze | Classifier
    if method == "pet":
        learner = Cloze(network("lm"), task(name), Reading(int(pattern[1:]), window))
    else:
        learner = Classifier(network("classifier"), task(name), Reading(0, window, "cls"))
    items = learner.encode(task(name).examples("train"), training=False)
    with torch.no_grad():
        label_logits, loss = learner.logits(items).tolist(), learner.loss(items).item()
    return {"L": window, "logits": label_logits, "labels": [item.label for item in items], "loss": loss}


@functools.cache
def network(head: str) -> Any:
    """The tiny model with a head; its weights are a function of their names."""
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification

    from lmassay.evaluations.fewshot.methods.network import Network

    config = AutoConfig.from_pretrained(MODEL, num_labels=2)
    kind = AutoModelForMaskedLM if head == "lm" else AutoModelForSequenceClassification
    module = fill(kind.from_config(config)).eval()
    return Network(module, tokenizer(), "masked", torch.device("cpu"), reference=True)


def parameters(head: str) -> dict[str, list[int]]:
    """Name → shape of a model's parameters."""
    return {name: list(parameter.shape) for name, parameter in network(head).module.named_parameters()}


# --- splits -----------------------------------------------------------------------------------------------------------


def split(key: str) -> dict[str, Any]:
    name, setting, k, seed, ratio = key.split("/")
    units = units_of(task(name).examples("train"), task(name).original_group)
    all_splits = make_splits(
        setting,
        units,
        k=int(k.removeprefix("k")),
        seed=int(seed.removeprefix("seed")),
        ratio=float(ratio.removeprefix("ratio")),
    )
    return {
        "n": len(units),
        "seeds": [split.seed for split in all_splits],
        "folds": [[list(split.train), list(split.dev) or None] for split in all_splits],
    }


# --- whole commands ---------------------------------------------------------------------------------------------------


def make_room(folder: Path) -> Path:
    """The data and the model, as the recorded commands expect them."""
    shutil.copytree(FOLDER / "data", folder / "data")
    network("lm").module.save_pretrained(folder / "model")
    tokenizer().save_pretrained(folder / "model")
    return folder


def command(run: dict[str, Any], *more: str) -> list[str]:
    """The recorded command line for ``lmassay``."""
    words = [word.replace("{model}", "model") for word in run["args"]]
    return ["fewnlu", *words, "--reference", *more]


def run_command(folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    """Run a recorded command in a folder; gives its files in the form of the recorded run."""
    done = lmassay(*command(run), cwd=folder)
    assert done.returncode == 0, done.stderr
    return outcome(folder, run["name"], run["args"], done.stdout)


def outcome(folder: Path, name: str, args: list[str], printed: str) -> dict[str, Any]:
    place = folder / "out" / name
    assert printed == (place / "result_test.txt").read_text(encoding="utf-8")
    return {
        "name": name,
        "args": args,
        "result_test.txt": printed,
        "final_results": _final_line(folder / "final_results", name),
        "trainings": {path.relative_to(place).as_posix(): _training(path) for path in sorted(place.glob("p*/f*"))},
    }


def _final_line(folder: Path, name: str) -> dict[str, Any]:
    for path in folder.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            # The last cell has the seconds that the command took.
            *cells, _ = line.split("\t")
            if cells[0] == name:
                return {"file": path.name, "line": cells}
    raise AssertionError(f"there is no line for {name} in {folder}")


def _training(place: Path) -> dict[str, Any]:
    results = json.loads((place / "results.json").read_text(encoding="utf-8"))
    document: dict[str, Any] = {"test": results.pop("test_set_after_training")}
    # The original leaves the dev scores out.
    del results["dev32_set_after_training"]
    document["results"] = results
    for name in ("eval_logits", "dev32_eval_logits"):
        lines = (place / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        document[name] = [[float(cell) for cell in line.split()] for line in lines]
    for name in ("predictions", "dev32_predictions"):
        document[name] = (place / f"{name}.jsonl").read_text(encoding="utf-8")
    return document
