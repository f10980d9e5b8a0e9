"""FewNLU's flags to a configuration of lmassay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, DataError, LmassayError
from lmassay.evaluations.fewshot.fewnlu.flags import ARCHITECTURES, BY_NAME, MODEL_TYPES
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from lmassay.models.hf.source import find_source

STUDENT = "sequence_classifier"
_MODES = {"sequence_classifier": "cls", "pet": "cloze", "adapet": "cloze", "ptuning": "ptuning"}
# Flags that only some methods have, and the methods.
_OWN = {
    "adapet_mask_alpha": ("adapet",),
    "adapet_balance_alpha": ("adapet",),
    "max_num_lbl_tok": ("adapet",),
    "embedding_learning_rate": ("ptuning",),
    "prompt_encoder_head_type": ("ptuning",),
    "decoding_strategy": ("pet", "ptuning"),
}
TOGETHER = ("ensemble", "distillation")
"""Trainings of a split that answer together, or teach a student together."""
_GENERATIONS = ("ipet", "noisy_student", "self_training")
_FOR_GENERATIONS = ("generations", "ipet_logits_percentage", "ipet_scale_factor", "ipet_n_most_likely")


@dataclass(frozen=True)
class Wish:
    """What a command line asks for: every flag's value, and which flags were given."""

    values: Mapping[str, Any]
    given: frozenset[str]
    base: Path
    notes: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def has(self, *names: str) -> list[str]:
        """Those of the flags that were given."""
        return [name for name in names if name in self.given]


@dataclass(frozen=True, slots=True)
class Translated:
    """A configuration for one run, the task, and what the user should know."""

    config: dict[str, Any]
    task: NluTask
    patterns: list[int]
    notes: list[str]


def translate(values: Mapping[str, Any], given: frozenset[str], base: Path) -> Translated:
    """The configuration of one run; ConfigError with a reason for what cannot be done."""
    wish = Wish(values, given, base)
    _refuse(wish)
    task = _task(wish)
    patterns = _patterns(wish, task)
    config = {
        "name": "fewnlu",
        "task": {
            "name": "fewshot",
            "data": _data(wish),
            "data_dir": str(_path(wish, "data_dir")),
            "method": _method(wish),
            "splits": _splits(wish),
            "regime": _regime(wish, patterns),
            "labelled": ["train", "dev32"] if wish["with_dev32"] else ["train"],
            "test": wish["eval_set"],
            "seed": wish["seed"],
            "sampler_seeds": list(wish["sampler_seeds"]),
            "label": f"{task.name} {wish['method']} {wish['arch_method']} {wish['few_shot_setting']}",
            **_limits(wish),
            **_extra(wish),
        },
        "model": _model(wish),
    }
    _note_unused(wish)
    return Translated(config, task, patterns, wish.notes)


def in_flags(message: str) -> str:
    """A complaint about a configuration's keys, said of the flags that set them.

    >>> in_flags("task.method.learning_rate: Input should be greater than 0 (got -1.0)")
    '--learning_rate: Input should be greater than 0 (got -1.0)'
    """
    keys = {flag.key: flag.name for flag in BY_NAME.values() if flag.key}
    lines = []
    for line in message.split("\n"):
        key, colon, rest = line.partition(":")
        while key and key not in keys:
            key = key.rpartition(".")[0]
        lines.append(f"--{keys[key]}{colon}{rest}" if key else line)
    return "\n".join(lines)


def _refuse(wish: Wish) -> None:
    """All that would be without effect, at once."""
    reasons = []
    for name in sorted(wish.given):
        flag = BY_NAME[name]
        if flag.state == "refused" and not (name == "reduction" and wish[name] == "mean"):
            reasons.append(f"--{name} is not done: {flag.decision}")
    if wish.has("alpha") and not wish["lm_training"]:
        reasons.append("--alpha weighs the loss of --lm_training; give that, or leave it out")
    if wish.has("alpha") and wish["reference"]:
        reasons.append("--alpha had no effect in FewNLU, whose loop --reference repeats; give one of the two")
    if wish.has("temperature") and wish["arch_method"] != "distillation":
        reasons.append("--temperature is that of --arch_method distillation; nothing else here learns from soft labels")
    if wish["lm_training"] and wish["method"] != "pet":
        reasons.append(f"--lm_training is part of --method pet, not of {wish['method']}")
    if wish["relabel_aug_data"] and (wish["aug_data_dir"] is None or wish["arch_method"] not in _GENERATIONS):
        reasons.append("--relabel_aug_data needs --aug_data_dir and teachers: --arch_method ipet or noisy_student")
    if len(wish["sampler_seeds"]) < wish["repetitions"]:
        reasons.append(f"--sampler_seeds: {wish['repetitions']} repetitions need as many; give one each")
    if not (wish["do_train"] or wish["do_eval"]):
        reasons.append("nothing is asked for: give --do_train, --do_eval or both")
    alone = wish["repetitions"] == 1 and len(wish["pattern_ids"]) == 1 and not wish["use_brother_fold_logits"]
    if wish["arch_method"] in ("ipet", "noisy_student") and wish["generations"] > 1 and alone:
        reasons.append(
            f"--arch_method {wish['arch_method']}: a training that is alone in its split has nobody to teach it; give "
            "several --pattern_ids or --repetitions, or --use_brother_fold_logits to be taught by the other splits"
        )
    if reasons:
        raise ConfigError("\n".join(reasons))


def _data(wish: Wish) -> str:
    dataset, name = str(wish["dataset_name"]), str(wish["task_name"])
    if name.endswith((".yaml", ".yml")):
        return str(_resolved(wish, name))
    if dataset.endswith(".py"):
        return f"{_resolved(wish, dataset)}:{name}"
    return f"{dataset.lower()}/{name.lower()}"


def _task(wish: Wish) -> NluTask:
    try:
        return open_task(_data(wish), _path(wish, "data_dir"), wish.base)
    except ConfigError as error:
        raise ConfigError(f"--dataset_name, --task_name: {error}") from error
    except DataError as error:
        raise DataError(f"--data_dir: {error}") from error


def _patterns(wish: Wish, task: NluTask) -> list[int]:
    method = wish["method"]
    asked = list(wish["pattern_ids"])
    if method == "sequence_classifier":
        if len(asked) > 1:
            raise ConfigError("--pattern_ids: a classifier reads the bare texts; more than one pattern is the same")
        if asked != [0]:
            wish.notes.append("--pattern_ids has no effect: a classifier reads the bare texts")
        return [0]
    if method == "ptuning" and not wish.has("pattern_ids"):
        asked = [1]
    known = task.patterns[_MODES[method]]  # type: ignore[index]  # three modes
    missing = [pattern for pattern in asked if known and pattern not in known]
    if missing:
        raise ConfigError(
            f"--pattern_ids: {task.name} has no pattern {', '.join(map(str, missing))} for {method}; it has "
            f"{', '.join(map(str, known))}"
        )
    return asked


def _method(wish: Wish) -> dict[str, Any]:
    name = wish["method"]
    options = {"name": name, **_loop(wish)}
    options |= {flag: wish[flag] for flag, methods in _OWN.items() if name in methods}
    if name == "adapet" and wish["reference"] and wish["arch_method"] in ARCHITECTURES:
        # The original seeds once; what a training draws depends on the trainings before it.
        options["continue_draws"] = True
    if wish["lm_training"]:
        options |= {"lm_training": True, "unlabeled_batch_size": _unlabeled_batch(wish)}
        options |= {"alpha": wish["alpha"]} if wish.has("alpha") else {}
    return options


def _unlabeled_batch(wish: Wish) -> int:
    """Unlabeled examples of an update; the original's loop counts those of a micro-batch."""
    times = 1 if wish["reference"] else wish["gradient_accumulation_steps"]
    return int(wish["per_gpu_unlabeled_batch_size"] * times)


def _loop(wish: Wish) -> dict[str, Any]:
    """The options of the training loop, which every method has."""
    options = {
        "max_seq_length": wish["max_seq_length"],
        "batch_size": wish["per_gpu_train_batch_size"] * wish["gradient_accumulation_steps"],
        "micro_batch": wish["per_gpu_train_batch_size"],
        "eval_batch": wish["per_gpu_eval_batch_size"],
        "learning_rate": wish["learning_rate"],
        "weight_decay": wish["weight_decay"],
        "adam_epsilon": wish["adam_epsilon"],
        "warmup_ratio": wish["warmup_step_ratio"],
        "max_grad_norm": wish["max_grad_norm"],
        "eval_ratios": wish["every_eval_ratio"],
        "patience": wish["early_stop_epoch"],
        "reference": wish["reference"],
    }
    if wish["max_steps"] > 0:
        options["max_steps"] = wish["max_steps"]
    elif wish["num_train_epochs"] != int(wish["num_train_epochs"]) or wish["num_train_epochs"] < 1:
        raise ConfigError(f"--num_train_epochs: {wish['num_train_epochs']:g} is no whole number of epochs above 0")
    else:
        options["epochs"] = int(wish["num_train_epochs"])
    if wish["use_dropout"]:
        options["spatial_dropout"] = wish["dropout_rate"]
    if wish["fix_deberta"] and wish["model_type"].startswith("deberta"):
        options["fix_deberta"] = True
    return options


def _splits(wish: Wish) -> dict[str, Any]:
    return {
        "strategy": wish["few_shot_setting"],
        "k": wish["cv_k"],
        "ratio": wish["split_ratio"],
        "stratify": wish["stratify"],
        "grouped": wish["grouped"],
    }


def _regime(wish: Wish, patterns: list[int]) -> dict[str, Any]:
    name = wish["arch_method"]
    regime: dict[str, Any] = {"name": name, "repetitions": wish["repetitions"]}
    regime |= {} if wish["method"] == "sequence_classifier" else {"patterns": patterns}
    if name in _GENERATIONS:
        regime |= {
            "generations": wish["generations"],
            "logits_percentage": wish["ipet_logits_percentage"],
            "scale_factor": wish["ipet_scale_factor"],
            "n_most_likely": wish["ipet_n_most_likely"],
            "cross": wish["use_brother_fold_logits"],
        }
    if name == "noisy_student":
        regime["dropout_rate"] = wish["dropout_rate"]
    if name == "distillation":
        student = {"name": STUDENT, **_loop(wish), "temperature": wish["temperature"]}
        regime |= {"temperature": wish["temperature"], "student": student}
    return regime


def _limits(wish: Wish) -> dict[str, int]:
    names = {
        "train_examples": "labelled_examples",
        "unlabeled_examples": "unlabeled",
        f"{wish['eval_set']}_examples": "test_examples",
    }
    for name in (*names, "dev_examples", "test_examples"):
        if wish[name] < 1 and wish[name] != -1:
            raise ConfigError(f"--{name}: {wish[name]} is no number of examples; give 1 or more, or -1 for all")
    return {option: wish[name] for name, option in names.items() if wish[name] != -1}


def _extra(wish: Wish) -> dict[str, Any]:
    if wish["aug_data_dir"] is None:
        return {}
    path = _path(wish, "aug_data_dir")
    if not path.is_file():
        raise ConfigError(f"--aug_data_dir: {path} is no file; in spite of its name it is a file like train.jsonl")
    return {"extra": str(path), **({"relabel_extra": True} if wish["relabel_aug_data"] else {})}


def _model(wish: Wish) -> dict[str, Any]:
    model = _cached(wish) if wish["cache_dir"] else str(wish["model_name_or_path"])
    _check_family(wish, model)
    return {"name": "hf", "model": model, "device": "cpu" if wish["no_cuda"] else "auto"}


def _cached(wish: Wish) -> str:
    """The folder of a hub name in a hub cache."""
    name = str(wish["model_name_or_path"])
    if _resolved(wish, name).exists():
        return name
    folder = _path(wish, "cache_dir") / f"models--{name.replace('/', '--')}"
    try:
        commit = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        commit = ""
    found = folder / "snapshots" / commit
    if not re.fullmatch(r"[0-9a-f]+", commit) or not found.is_dir():
        raise ConfigError(f"--cache_dir: {folder.parent} has no model {name}; lmassay fetches none while it trains")
    return str(found)


def _check_family(wish: Wish, model: str) -> None:
    try:
        source = find_source(model, None, wish.base)
    except LmassayError as error:
        raise type(error)(f"--model_name_or_path: {error}") from error
    if source.is_gguf:
        return
    own = source.config.get("model_type")
    asked = wish["model_type"]
    if own is not None and own not in MODEL_TYPES.get(asked, (asked,)):
        right = next((name for name, families in MODEL_TYPES.items() if own in families), own)
        raise ConfigError(f"--model_type {asked}: the model at {model} is a {own}; give --model_type {right}")


def _note_unused(wish: Wish) -> None:
    """Flags that were given to something that has no use for them: said, and passed over as FewNLU does."""
    method, arch = wish["method"], wish["arch_method"]
    for name in wish.has(*_OWN):
        if method not in _OWN[name]:
            wish.notes.append(f"--{name} has no effect with --method {method}")
    if arch not in _GENERATIONS:
        for name in wish.has(*_FOR_GENERATIONS, "use_brother_fold_logits"):
            wish.notes.append(f"--{name} has no effect with --arch_method {arch}")
    if method == "sequence_classifier" and wish.has("use_cloze", "use_continuous_prompt"):
        wish.notes.append("--use_cloze has no effect: a classifier reads the bare texts, without a gap to fill")
    if wish["fix_deberta"] and not wish["model_type"].startswith("deberta"):
        wish.notes.append(f"--fix_deberta has no effect on a model of type {wish['model_type']}")
    other = "test" if wish["eval_set"] == "dev" else "dev"
    if wish.has(f"{other}_examples"):
        wish.notes.append(f"--{other}_examples has no effect with --eval_set {wish['eval_set']}")
    if wish.has("per_gpu_unlabeled_batch_size") and not wish["lm_training"]:
        wish.notes.append("--per_gpu_unlabeled_batch_size has no effect without --lm_training")
    if wish["use_brother_fold_logits"] and arch in _GENERATIONS:
        wish.notes.append(
            "--use_brother_fold_logits: teachers from other splits have learned from dev examples of the pupil's, "
            "whose dev score is too good"
        )
    if arch in TOGETHER:
        wish.notes.append(f"--arch_method {arch} is not FewNLU's own; what it comes to is in the folder 'final'")


def _path(wish: Wish, name: str) -> Path:
    return _resolved(wish, str(wish[name]))


def _resolved(wish: Wish, text: str) -> Path:
    return (wish.base / Path(text).expanduser()).resolve()
