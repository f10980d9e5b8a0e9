"""Translates FewNLU's flags into a configuration of lmassay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmassay.errors import ConfigError, DataError, UserError
from lmassay.evaluations.fewshot.fewnlu.flags import ARCHITECTURES, BY_NAME, MODEL_TYPES
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from lmassay.models.hf.source import find_source
from lmassay.storage.yamlfile import read_yaml

STUDENT = "sequence_classifier"
"""The method of the student in distillation."""
# Method → the mode of its patterns.
_MODES = {"sequence_classifier": "cls", "pet": "cloze", "adapet": "cloze", "ptuning": "ptuning"}
# Flag → the methods that use it, for flags that not all methods use.
_FLAGS_OF_METHODS = {
    "adapet_mask_alpha": ("adapet",),
    "adapet_balance_alpha": ("adapet",),
    "max_num_lbl_tok": ("adapet",),
    "embedding_learning_rate": ("ptuning",),
    "prompt_encoder_head_type": ("ptuning",),
    "decoding_strategy": ("pet", "ptuning"),
}
JOINT_REGIMES = ("ensemble", "distillation")
"""Regimes that combine the trainings of a split: their logits are averaged, or they teach a student."""
# The regimes with several generations of trainings, and the flags that only these regimes use.
_GENERATIONS = ("ipet", "noisy_student", "self_training")
_FOR_GENERATIONS = ("generations", "ipet_logits_percentage", "ipet_scale_factor", "ipet_n_most_likely")


@dataclass(frozen=True)
class GivenFlags:
    """The command line: the value of every flag, and which flags the user gave."""

    values: Mapping[str, Any]
    given: frozenset[str]
    base: Path
    """Where relative paths start."""
    notes: list[str] = field(default_factory=list)
    """What the user should know; collected while the flags are translated."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def has(self, *names: str) -> list[str]:
        """Those of the named flags that the user gave."""
        return [name for name in names if name in self.given]


@dataclass(frozen=True, slots=True)
class TranslatedFlags:
    """The configuration of one run, its task and patterns, and notes for the user."""

    config: dict[str, Any]
    task: NluTask
    patterns: list[int]
    notes: list[str]


def translate(values: Mapping[str, Any], given: frozenset[str], base: Path) -> TranslatedFlags:
    """The configuration of one run; a ConfigError names all flags that cannot be used."""
    flags = GivenFlags(values, given, base)
    _refuse(flags)
    task = _task(flags)
    patterns = _patterns(flags, task)
    config = {
        "name": "fewnlu",
        "task": {
            "name": "fewshot",
            "data": _data(flags),
            "data_dir": _data_dir_text(flags),
            "method": _method(flags),
            "splits": _splits(flags),
            "regime": _regime(flags, patterns),
            "labelled": ["train", "dev32"] if flags["with_dev32"] else ["train"],
            "test": flags["eval_set"],
            "seed": flags["seed"],
            "sampler_seeds": list(flags["sampler_seeds"]),
            "keep": flags["keep"],
            "label": f"{task.name} {flags['method']} {flags['arch_method']} {flags['few_shot_setting']}",
            **_limits(flags),
            **_extra(flags),
        },
        "model": _model(flags),
    }
    _note_unused(flags)
    return TranslatedFlags(config, task, patterns, flags.notes)


def in_flags(message: str) -> str:
    """Replace the keys of a configuration in an error message by the flags that set them.

    >>> in_flags("task.method.learning_rate: Input should be greater than 0 (got -1.0)")
    '--learning_rate: Input should be greater than 0 (got -1.0)'
    """
    flag_of_key = {flag.key: flag.name for flag in BY_NAME.values() if flag.key}
    lines = []
    for line in message.split("\n"):
        key, colon, rest = line.partition(":")
        # The key may be inside the value of a flag; then the flag is that of the nearest key above it.
        while key and key not in flag_of_key:
            key = key.rpartition(".")[0]
        if key:
            line = f"--{flag_of_key[key]}{colon}{rest}"
        lines.append(line)
    return "\n".join(lines)


def _refuse(flags: GivenFlags) -> None:
    """Raise one ConfigError for all flags that are not supported, have no effect or contradict each other."""
    reasons = []
    for name in sorted(flags.given):
        flag = BY_NAME[name]
        if name == "reduction" and flags[name] == "mean":
            # This is the only value with which FewNLU itself worked.
            continue
        if flag.state == "refused":
            reasons.append(f"--{name} is not supported: {flag.decision}")
    if flags.has("alpha") and not flags["lm_training"]:
        reasons.append("--alpha is the weight of --lm_training; add that flag, or leave --alpha out")
    if flags.has("alpha") and flags["reference"]:
        reasons.append("--alpha had no effect in FewNLU, whose loop --reference repeats; use only one of the two")
    if flags.has("temperature") and flags["arch_method"] != "distillation":
        reasons.append("--temperature is for --arch_method distillation; nothing else learns from soft labels")
    if flags["lm_training"] and flags["method"] != "pet":
        reasons.append(f"--lm_training is part of --method pet, not of {flags['method']}")
    if flags["relabel_aug_data"] and (flags["aug_data_dir"] is None or flags["arch_method"] not in _GENERATIONS):
        reasons.append(
            "--relabel_aug_data needs --aug_data_dir and teachers: --arch_method ipet, noisy_student or self_training"
        )
    if len(flags["sampler_seeds"]) < flags["repetitions"]:
        reasons.append(f"--sampler_seeds: {flags['repetitions']} repetitions need as many seeds")
    if not (flags["do_train"] or flags["do_eval"]):
        reasons.append("there is nothing to do: give --do_train, --do_eval or both")
    is_alone = flags["repetitions"] == 1 and len(flags["pattern_ids"]) == 1 and not flags["use_brother_fold_logits"]
    if flags["arch_method"] in ("ipet", "noisy_student") and flags["generations"] > 1 and is_alone:
        reasons.append(
            f"--arch_method {flags['arch_method']}: the only training of a split has no teacher; give several "
            "--pattern_ids or --repetitions, or --use_brother_fold_logits to learn from the other splits"
        )
    if reasons:
        raise ConfigError("\n".join(reasons))


def _data(flags: GivenFlags) -> str:
    """The task as lmassay names it: a file of the user, or a built-in task."""
    dataset = str(flags["dataset_name"])
    name = str(flags["task_name"])
    if name.endswith((".yaml", ".yml")):
        return str(_resolved(flags, name))
    if dataset.endswith(".py"):
        return f"{_resolved(flags, dataset)}:{name}"
    return f"{dataset.lower()}/{name.lower()}"


def _data_dir(flags: GivenFlags) -> Path | None:
    """The folder of the data; None if the task is a YAML file that names its own data files, which are used instead."""
    name = str(flags["task_name"])
    if name.endswith((".yaml", ".yml")):
        file = _resolved(flags, name)
        if file.is_file() and read_yaml(file).data.get("data"):
            return None
    return _path(flags, "data_dir")


def _data_dir_text(flags: GivenFlags) -> str | None:
    folder = _data_dir(flags)
    if folder is None:
        flags.notes.append(f"--data_dir has no effect: {flags['task_name']} names its own files under data:")
        return None
    return str(folder)


def _task(flags: GivenFlags) -> NluTask:
    try:
        return open_task(_data(flags), _data_dir(flags), flags.base)
    except ConfigError as error:
        raise ConfigError(f"--dataset_name, --task_name: {error}") from error
    except DataError as error:
        raise DataError(f"--data_dir: {error}") from error


def _patterns(flags: GivenFlags, task: NluTask) -> list[int]:
    """The patterns that are trained; a ConfigError for one that the task does not have."""
    method = flags["method"]
    patterns = list(flags["pattern_ids"])
    if method == "sequence_classifier":
        if len(patterns) > 1:
            raise ConfigError("--pattern_ids: a classifier uses no pattern, so several would be the same; give one")
        if patterns != [0]:
            flags.notes.append("--pattern_ids has no effect: a classifier uses no pattern")
        return [0]
    if method == "ptuning" and not flags.has("pattern_ids"):
        # FewNLU's default is 0, but P-tuning's patterns are numbered from 1.
        patterns = [1]
    available = task.patterns[_MODES[method]]  # type: ignore[index]  # three modes
    missing = [pattern for pattern in patterns if available and pattern not in available]
    if missing:
        raise ConfigError(
            f"--pattern_ids: {task.name} has no pattern {', '.join(map(str, missing))} for {method}; it has "
            f"{', '.join(map(str, available))}"
        )
    return patterns


def _method(flags: GivenFlags) -> dict[str, Any]:
    """The method with its options."""
    name = flags["method"]
    options = {"name": name, **_loop_options(flags)}
    for flag, methods in _FLAGS_OF_METHODS.items():
        if name in methods:
            options[flag] = flags[flag]
    if name == "adapet" and flags["reference"] and flags["arch_method"] in ARCHITECTURES:
        # FewNLU seeds its generators only once, so the draws of a training depend on the trainings before it.
        options["continue_draws"] = True
    if flags["lm_training"]:
        options["lm_training"] = True
        options["unlabeled_batch_size"] = _unlabeled_batch(flags)
        if flags.has("alpha"):
            options["alpha"] = flags["alpha"]
    return options


def _unlabeled_batch(flags: GivenFlags) -> int:
    """The number of unlabeled examples per update; with --reference, per micro-batch as in FewNLU's loop."""
    times = 1 if flags["reference"] else flags["gradient_accumulation_steps"]
    return int(flags["per_gpu_unlabeled_batch_size"] * times)


def _loop_options(flags: GivenFlags) -> dict[str, Any]:
    """The options of the training loop, which every method has."""
    options = {
        "max_seq_length": flags["max_seq_length"],
        "batch_size": flags["per_gpu_train_batch_size"] * flags["gradient_accumulation_steps"],
        "micro_batch": flags["per_gpu_train_batch_size"],
        "eval_batch": flags["per_gpu_eval_batch_size"],
        "learning_rate": flags["learning_rate"],
        "weight_decay": flags["weight_decay"],
        "adam_epsilon": flags["adam_epsilon"],
        "warmup_ratio": flags["warmup_step_ratio"],
        "max_grad_norm": flags["max_grad_norm"],
        "eval_ratios": flags["every_eval_ratio"],
        "patience": flags["early_stop_epoch"],
        "reference": flags["reference"],
    }
    # As in FewNLU, a number of steps takes precedence over epochs.
    if flags["max_steps"] > 0:
        options["max_steps"] = flags["max_steps"]
    else:
        epochs = flags["num_train_epochs"]
        if epochs != int(epochs) or epochs < 1:
            raise ConfigError(f"--num_train_epochs: {epochs:g} is not a whole number of epochs above 0")
        options["epochs"] = int(epochs)
    if flags["use_dropout"]:
        options["spatial_dropout"] = flags["dropout_rate"]
    if flags["fix_deberta"] and flags["model_type"].startswith("deberta"):
        options["fix_deberta"] = True
    return options


def _splits(flags: GivenFlags) -> dict[str, Any]:
    return {
        "strategy": flags["few_shot_setting"],
        "k": flags["cv_k"],
        "ratio": flags["split_ratio"],
        "stratify": flags["stratify"],
        "grouped": flags["grouped"],
    }


def _regime(flags: GivenFlags, patterns: list[int]) -> dict[str, Any]:
    """The regime with its options."""
    name = flags["arch_method"]
    regime: dict[str, Any] = {"name": name, "repetitions": flags["repetitions"]}
    if flags["method"] != "sequence_classifier":
        regime["patterns"] = patterns
    if name in _GENERATIONS:
        regime |= {
            "generations": flags["generations"],
            "logits_percentage": flags["ipet_logits_percentage"],
            "scale_factor": flags["ipet_scale_factor"],
            "n_most_likely": flags["ipet_n_most_likely"],
            "cross": flags["use_brother_fold_logits"],
        }
    if name == "noisy_student":
        regime["dropout_rate"] = flags["dropout_rate"]
    if name == "distillation":
        student = {"name": STUDENT, **_loop_options(flags), "temperature": flags["temperature"]}
        regime |= {"temperature": flags["temperature"], "student": student}
    return regime


def _limits(flags: GivenFlags) -> dict[str, int]:
    """The options that limit the numbers of examples; -1 means all of them."""
    options = {
        "train_examples": "labelled_examples",
        "unlabeled_examples": "unlabeled",
        f"{flags['eval_set']}_examples": "test_examples",
    }
    for name in (*options, "dev_examples", "test_examples"):
        if flags[name] < 1 and flags[name] != -1:
            raise ConfigError(f"--{name}: {flags[name]} is not a number of examples; give 1 or more, or -1 for all")
    limits = {}
    for name, option in options.items():
        if flags[name] != -1:
            limits[option] = flags[name]
    return limits


def _extra(flags: GivenFlags) -> dict[str, Any]:
    """The options for further training examples; none without --aug_data_dir."""
    if flags["aug_data_dir"] is None:
        return {}
    path = _path(flags, "aug_data_dir")
    if not path.is_file():
        raise ConfigError(
            f"--aug_data_dir: {path} is not a file; despite its name, the flag takes a file like train.jsonl"
        )
    options: dict[str, Any] = {"extra": str(path)}
    if flags["relabel_aug_data"]:
        options["relabel_extra"] = True
    return options


def _model(flags: GivenFlags) -> dict[str, Any]:
    model = _cached(flags) if flags["cache_dir"] else str(flags["model_name_or_path"])
    _check_family(flags, model)
    return {"name": "hf", "model": model, "device": "cpu" if flags["no_cuda"] else "auto"}


def _cached(flags: GivenFlags) -> str:
    """The folder of a model of the Hugging Face hub in the cache that --cache_dir names."""
    name = str(flags["model_name_or_path"])
    if _resolved(flags, name).exists():
        return name
    folder = _path(flags, "cache_dir") / f"models--{name.replace('/', '--')}"
    try:
        commit = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        commit = ""
    snapshot = folder / "snapshots" / commit
    # The file may contain anything; and if it is empty, the path would be that of the folder with all snapshots.
    if not re.fullmatch(r"[0-9a-f]+", commit) or not snapshot.is_dir():
        raise ConfigError(
            f"--cache_dir: {folder.parent} has no model {name}; lmassay does not download while it trains"
        )
    return str(snapshot)


def _check_family(flags: GivenFlags, model: str) -> None:
    """Raise a ConfigError if --model_type is not the family of the model."""
    try:
        source = find_source(model, None, flags.base)
    except UserError as error:
        raise ConfigError(f"--model_name_or_path: {error}") from error
    if source.is_gguf:
        return
    family = source.config.get("model_type")
    given = flags["model_type"]
    if family is None or family in MODEL_TYPES.get(given, (given,)):
        return
    right = family
    for name, families in MODEL_TYPES.items():
        if family in families:
            right = name
            break
    raise ConfigError(f"--model_type {given}: the model at {model} is a {family}; give --model_type {right}")


def _note_unused(flags: GivenFlags) -> None:
    """Add notes about flags that have no effect here; FewNLU ignores them silently."""
    method = flags["method"]
    arch = flags["arch_method"]
    for name in flags.has(*_FLAGS_OF_METHODS):
        if method not in _FLAGS_OF_METHODS[name]:
            flags.notes.append(f"--{name} has no effect with --method {method}")
    if arch not in _GENERATIONS:
        for name in flags.has(*_FOR_GENERATIONS, "use_brother_fold_logits"):
            flags.notes.append(f"--{name} has no effect with --arch_method {arch}")
    if method == "sequence_classifier":
        for name in flags.has("use_cloze", "use_continuous_prompt"):
            flags.notes.append(f"--{name} has no effect: a classifier uses no pattern")
    if flags["fix_deberta"] and not flags["model_type"].startswith("deberta"):
        flags.notes.append(f"--fix_deberta has no effect on a model of type {flags['model_type']}")
    other = "test" if flags["eval_set"] == "dev" else "dev"
    if flags.has(f"{other}_examples"):
        flags.notes.append(f"--{other}_examples has no effect with --eval_set {flags['eval_set']}")
    if flags.has("per_gpu_unlabeled_batch_size") and not flags["lm_training"]:
        flags.notes.append("--per_gpu_unlabeled_batch_size has no effect without --lm_training")
    if flags["use_brother_fold_logits"] and arch in _GENERATIONS:
        flags.notes.append(
            "--use_brother_fold_logits: teachers from other splits were trained on dev examples of this split, so its "
            "dev score is too high"
        )
    if arch in JOINT_REGIMES:
        flags.notes.append(f"--arch_method {arch} is not part of FewNLU; its result is in the folder 'final'")


def _path(flags: GivenFlags, name: str) -> Path:
    return _resolved(flags, str(flags[name]))


def _resolved(flags: GivenFlags, text: str) -> Path:
    return (flags.base / Path(text).expanduser()).resolve()
