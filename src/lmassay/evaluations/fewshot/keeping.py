"""Trained models on disk: written by the process that trained them, read to label new texts or to test them again.

A kept model is a folder in Hugging Face's format: weights as safetensors, config, tokenizer. ``lmassay.json`` describes
how to use it: task, method with its pattern and words, labels, seeds. The data and the run are not needed for that.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmassay
from lmassay.errors import DataError, LmassayError, ModelError
from lmassay.evaluations.fewshot.methods.contract import (
    TrainedClassifier,
    TrainingInputs,
    as_classifier,
    as_method,
)
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from lmassay.models.cache import populated
from lmassay.plugins.options import build, options_model, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.storage.yamlfile import read_yaml
from lmassay.types import digest

if TYPE_CHECKING:
    from lmassay.contracts import Model
    from lmassay.types import Train

CARD = "lmassay.json"
"""The file that describes a kept model."""
_TASK_FILE = "task.yaml"
_FORMAT = 1
# Entries of a training's spec that are not part of its identity: what it is tested on, which does not influence its
# weights, and the version of the trainer, so that models that an earlier version kept can still be used.
_NOT_IDENTIFYING = ("test", "version")
# The data files that trainings are usually tested on.
_TEST_FILES = ("dev", "test")


def check_folder(folder: Path) -> None:
    """Raise a ModelError if the results folder, in which the model is to be kept, does not exist on this machine."""
    if not folder.parent.is_dir():
        raise ModelError(
            f"keep: the folder {folder.parent} of the results does not exist on {socket.gethostname()}, where the "
            "training runs; workers must share the file system of the results folder, or leave keep out"
        )


def keep(
    classifier: TrainedClassifier,
    inputs: TrainingInputs,
    spec: Mapping[str, Any],
    base_dir: Path,
    folder: Path,
    dev_scores: Sequence[Mapping[str, float]],
) -> None:
    """Write the classifier with its best weights to a folder, which appears only when it is complete.

    ``dev_scores`` has the dev scores of each of the classifier's ``choices`` (the weights that an evaluation ratio
    selects), or one entry for a classifier without choices. They are passed separately, because ``Choice.dev`` is empty
    for a training that simply keeps its last weights.
    """
    best = max(range(len(dev_scores)), key=lambda number: _mean(dev_scores[number]))
    if classifier.choices:
        classifier.use(classifier.choices[best])

    def fill(new_folder: Path) -> None:
        classifier.save(new_folder)
        # ``save`` may have written the course of the training to the same file; it is merged into the description.
        course = _read_json(new_folder / CARD) if (new_folder / CARD).is_file() else {}
        card = {**_description(inputs, spec, base_dir, new_folder), "training": folder.name, **course}
        card["dev"] = dict(dev_scores[best])
        (new_folder / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    populated(folder, fill, cache=False)


def _mean(scores: Mapping[str, float]) -> float:
    return sum(scores.values()) / len(scores) if scores else 0.0


def _description(inputs: TrainingInputs, spec: Mapping[str, Any], base_dir: Path, folder: Path) -> dict[str, Any]:
    """What ``lmassay.json`` says about a kept model, apart from the course of its training."""
    task = inputs.task
    name, given_options = split_spec(spec["method"], "task.method")
    method = as_method(build("method", spec["method"], base_dir, "task.method"))
    # All options are written, including defaults, so that a later version with other defaults encodes texts in the
    # same way.
    checked = options_model(current_registry().get("method", name, base_dir)).model_validate(given_options)
    options = checked.model_dump(mode="json")
    words = {}
    if method.pattern is not None and task.kind == "labels":
        words = method.label_words(task, inputs.model, method.pattern)
    base_model = inputs.model.label
    return {
        "kept_model": _FORMAT,
        "label": f"{base_model} + {name} on {task.name}",
        "lmassay": lmassay.__version__,
        "base_model": base_model,
        "base_weights": weights_digest(inputs.model),
        "kind": inputs.model.kind,
        "task": f"{task.dataset}/{task.name}",
        "data": _data_name(spec["data"], base_dir, folder),
        "labels": list(task.labels),
        "method": {"name": name, **options},
        "base_dir": str(base_dir),
        "pattern": method.pattern,
        "words": words,
        "seed": inputs.seed,
        "sampler_seed": inputs.sampler_seed,
        "max_seq_length": options.get("max_seq_length"),
        "identity": training_identity(spec),
    }


def _data_name(data: str, base_dir: Path, folder: Path) -> str:
    """The name by which ``open_task`` finds the task later.

    A YAML file is copied to the folder of the model, without its key ``data``. A Python file is not copied;
    its absolute path is used.
    """
    if data.endswith((".yaml", ".yml")):
        description = dict(read_yaml(base_dir / Path(data).expanduser()).data)
        description.setdefault("name", Path(data).stem)
        description.pop("data", None)
        # JSON is also valid YAML.
        (folder / _TASK_FILE).write_text(json.dumps(description, indent=1, ensure_ascii=False), encoding="utf-8")
        return _TASK_FILE
    if ".py:" in data:
        file, _, name = data.rpartition(":")
        return f"{(base_dir / Path(file).expanduser()).resolve()}:{name}"
    return data


def training_identity(spec: Mapping[str, Any]) -> str:
    """A digest of everything that a training's weights depend on, except the base model (see ``matching``)."""
    parts = {name: value for name, value in spec.items() if name not in _NOT_IDENTIFYING}
    files = {}
    for name, file_digest in spec["files"].items():
        is_trained_on = name in spec["labelled"]
        if is_trained_on or name not in _TEST_FILES:
            files[name] = file_digest
    parts["files"] = files
    # Only the name counts, because the same task may be in another folder now. Its contents are among the files.
    parts["data"] = Path(spec["data"]).name
    return digest(parts)


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeptModel:
    """A kept model on disk. Its weights are loaded by ``classifier``."""

    folder: Path
    card: Mapping[str, Any]

    @property
    def dev(self) -> dict[str, float]:
        """The dev scores of its weights; empty if there was no dev set."""
        # Earlier versions wrote the scores only as part of the choice.
        return dict(self.card.get("dev") or self.card.get("choice", {}).get("dev", {}))

    @property
    def dev_score(self) -> float | None:
        """The mean of the dev scores, by which the best split is chosen."""
        return _mean(self.dev) if self.dev else None

    def task(self) -> NluTask:
        """The task that the model was trained for, without its data."""
        data = str(self.card["data"])
        data_dir = self.folder if data == _TASK_FILE else None
        task = open_task(data, data_dir, self.folder)
        if task.labels != self.card["labels"]:
            raise DataError(
                f"{self.folder}: the model was trained for the labels {', '.join(self.card['labels'])}, but {data} "
                f"now has {', '.join(task.labels)}"
            )
        return task

    def classifier(self, task: NluTask, *, device: str = "auto") -> TrainedClassifier:
        """Load the weights."""
        card = self.card
        model = build(
            "model",
            {
                "name": "hf",
                "model": str(self.folder),
                "kind": card["kind"],
                "device": device,
                "dtype": card.get("dtype", "auto"),
            },
            self.folder,
        )
        method = as_method(build("method", card["method"], Path(card["base_dir"]), "method"))
        inputs = TrainingInputs(task=task, model=model, train=[], seed=card["seed"], sampler_seed=card["sampler_seed"])
        return as_classifier(method.restore(inputs, self.folder))


def open_kept(folder: Path) -> KeptModel:
    """The kept model in a folder; a DataError if there is none."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    try:
        card = _read_json(folder / CARD)
    except OSError:
        raise DataError(f"{folder} is not a kept model: it has no {CARD}") from None
    if card.get("kept_model") != _FORMAT:
        raise DataError(f"{folder / CARD} does not describe a kept model; train with keep: best")
    return KeptModel(folder, card)


def kept_models(models: Path) -> dict[str, KeptModel]:
    """All kept models in a results folder's ``models``, by the identity of their training."""
    by_identity = {}
    for card in sorted(models.glob(f"[!.]*/{CARD}")):
        try:
            kept_model = open_kept(card.parent)
        except LmassayError:
            # This folder is something else, or the model is damaged.
            continue
        by_identity[str(kept_model.card["identity"])] = kept_model
    return by_identity


def matching(training: Train, model: Model, models: Mapping[str, KeptModel]) -> KeptModel | None:
    """The kept model that this training of ``model`` produced, whatever it was tested on; None if there is none.

    ``models`` are the kept models by the identity of their training, as ``kept_models`` returns them.
    """
    kept_model = models.get(training_identity(training.spec))
    if kept_model is None or kept_model.card["base_weights"] != weights_digest(model):
        return None
    return kept_model


def weights_digest(model: Model) -> str:
    """A digest that identifies the weights of the model that a training starts from."""
    identity = model.identity()
    return str(identity.get("weights") or digest(dict(identity)))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} must contain a JSON object")
    return value
