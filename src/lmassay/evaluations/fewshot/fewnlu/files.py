"""Writes FewNLU's result files from the outcomes of trainings, in the same format as FewNLU."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from lmassay.errors import DataError
from lmassay.evaluations.fewshot import trainer
from lmassay.evaluations.fewshot.fewnlu.trainings import FolderKey, Round
from lmassay.evaluations.fewshot.metrics import predicted_label, task_scores
from lmassay.evaluations.fewshot.outcomes import mean_logits
from lmassay.evaluations.fewshot.predictions import idx_of
from lmassay.evaluations.fewshot.protocol import estimates
from lmassay.evaluations.fewshot.protocol.regimes import teachers_of
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.storage.files import atomic_write
from lmassay.types import Train

Outcome = Mapping[str, Any]
Scores = dict[str, dict[int, list[float]]]
"""Metric → pattern → one value per split and repetition."""


@dataclass(frozen=True, slots=True)
class FewNluSummary:
    """The results of a command."""

    dev: dict[str, float]
    """Metric → the mean dev score over all splits, patterns and repetitions."""
    test: dict[str, float]
    """Metric → the mean test score over all splits, patterns and repetitions."""
    lines: list[str]
    """The lines of result_test.txt; empty without --do_eval."""
    labelled: int
    """The number of labelled examples, which are split into training and dev sets."""


@dataclass(frozen=True, slots=True)
class FewNluWriter:
    """Writes the files of a command."""

    folder: Path
    """The output folder."""
    task: NluTask
    outcomes: Mapping[str, Outcome]
    """The key of a training → its outcome. A training that failed is missing."""
    flags: Mapping[str, Any]
    """The values of all flags."""
    evaluated: bool = True
    """False without --do_eval: then no predictions and scores are written, only the course of the trainings."""

    def write_all(self, rounds: Sequence[Round]) -> FewNluSummary:
        """Write the files of all rounds; returns the summary of the last one."""
        for number, one_round in enumerate(rounds):
            # Only generations (g0, g1 …) label examples for the round after them.
            next_generation = None
            if one_round.folder.startswith("g") and number + 1 < len(rounds):
                next_generation = rounds[number + 1]
            summary = self._write_round(one_round, next_generation)
        # The results of the last generation are also in the output folder itself.
        if self.evaluated and rounds[-1].folder.startswith("g"):
            _write(self.folder / "result_test.txt", summary.lines)
        return summary

    def _write_round(self, one_round: Round, next_generation: Round | None) -> FewNluSummary:
        """Write the files of one round: a folder for each training, and the means over all of them."""
        scores: dict[str, Scores] = {"test": {}, "dev": {}}
        for key, trainings in one_round.trainings.items():
            # If a training of an ensemble is missing, nothing is written: an average over the others would look like
            # the average over all.
            if any(training.key not in self.outcomes for training in trainings):
                continue
            folder = self.folder / one_round.folder / key.folder
            choice = self._choice(trainings)
            written = self._write_training(folder, key, trainings, choice)
            for part, by_metric in scores.items():
                for metric, value in written[part].items():
                    by_metric.setdefault(metric, {}).setdefault(key.pattern, []).append(value)
        if next_generation is not None:
            self._write_pseudo_labels(one_round, next_generation)
        lines = result_lines(scores["test"], scores["dev"])
        if self.evaluated:
            _write(self.folder / one_round.folder / "result_test.txt", lines)
        first = next(iter(one_round.trainings.values()))[0]
        n_labelled = len(trainer.labelled_of(self.task, first.spec))
        return FewNluSummary(_means(scores["dev"]), _means(scores["test"]), lines, n_labelled)

    def _choice(self, trainings: Sequence[Train]) -> dict[str, Any]:
        """Logits and scores of a training; of several trainings, the averaged logits and their scores."""
        choices = [self.outcomes[training.key]["choices"][0] for training in trainings]
        if len(choices) == 1:
            return dict(choices[0])
        spec = trainings[0].spec
        examples_by_part = {"dev": self._dev(spec), "test": trainer.test_examples(self.task, spec)}
        joint: dict[str, Any] = {}
        for part, examples in examples_by_part.items():
            logits = mean_logits([choice[f"{part}_logits"] for choice in choices])
            joint[f"{part}_logits"] = logits
            joint[part] = task_scores(self.task, examples, logits)
        return joint

    def _write_training(
        self, folder: Path, key: FolderKey, trainings: Sequence[Train], choice: Mapping[str, Any]
    ) -> dict[str, dict[str, float]]:
        """Write the files of one folder; returns its scores on test and dev."""
        spec = trainings[0].spec
        results = _course(self.outcomes[trainings[0].key], choice)
        _write(folder / "results.txt", [str(results)], end="")
        train_eval = _train_eval_config(self.flags, self.task, spec["sampler_seed"])
        _write(folder / "train_eval_config.json", [json.dumps(train_eval)], end="")
        wrapper = _wrapper_config(self.flags, self.task, key)
        _write(folder / "wrapper_config.json", [json.dumps(wrapper)], end="")
        if "unlabeled_logits" in choice:
            _write(folder / "unlabeled_logits.txt", _logit_lines(choice["unlabeled_logits"]))
        if not self.evaluated:
            return {"test": {}, "dev": {}}
        results["test_set_after_training"] = choice["test"]
        tested = trainer.test_examples(self.task, spec)
        dev = self._dev(spec)
        _write(folder / "predictions.jsonl", self._predictions(tested, choice, "test"))
        _write(folder / "eval_logits.txt", _logit_lines(choice["test_logits"]))
        if dev:
            results["dev32_set_after_training"] = choice["dev"]
            _write(folder / "dev32_predictions.jsonl", self._predictions(dev, choice, "dev"))
            _write(folder / "dev32_eval_logits.txt", _logit_lines(choice["dev_logits"]))
        _write(folder / "results.json", [json.dumps(results)], end="")
        return {"test": choice["test"], "dev": choice["dev"]}

    def _dev(self, spec: Mapping[str, Any]) -> list[InputExample]:
        labelled = trainer.labelled_of(self.task, spec)
        return [labelled[index] for index in spec["dev"]]

    def _predictions(self, examples: Sequence[InputExample], choice: Mapping[str, Any], part: str) -> list[str]:
        """One line per example: its label or, for ReCoRD, the entity that was chosen."""
        # Trainings of earlier versions did not record the entities.
        answers = choice.get(f"{part}_answers")
        lines = []
        for number, (example, row) in enumerate(zip(examples, choice[f"{part}_logits"], strict=True)):
            label = self.task.labels[predicted_label(row)] if answers is None else answers[number]
            lines.append(json.dumps({"idx": idx_of(example), "label": label}, ensure_ascii=False))
        return lines

    def _write_pseudo_labels(self, one_round: Round, next_generation: Round) -> None:
        """Write the examples that the teachers of this generation labelled for each learner of the next."""
        for key, (training, *_) in next_generation.trainings.items():
            outcomes = []
            for teacher in teachers_of(training):
                if teacher.key in self.outcomes:
                    outcomes.append(self.outcomes[teacher.key])
            # If a teacher failed, the training that learns from it was not done.
            if not outcomes or len(outcomes) < len(teachers_of(training)):
                continue
            spec = training.spec
            own, unlabeled = trainer.source_examples(self.task, spec, training.data_paths, unlabeled=True)
            examples, _ = trainer.training_examples(own, unlabeled, self.task, spec, outcomes)
            name = f"p{key.pattern}-f{key.fold}-i{key.repetition}-unlabeled-train.jsonl"
            # The labelled examples come first. The file gets only those that teachers labelled.
            labelled_by_teachers = examples[len(own) :]
            lines = []
            for example in labelled_by_teachers:
                lines.append(json.dumps(_example_json(example), ensure_ascii=False))
            _write(self.folder / one_round.folder / "next-gen-train-data" / name, lines)


def result_lines(test: Scores, dev: Scores) -> list[str]:
    """The lines of result_test.txt.

    >>> result_lines({"acc": {0: [0.5, 0.75]}}, {"acc": {0: [0.5]}})[:2]
    ['acc-p0: 0.625 +- 0.1767766952966369', 'acc-all-p: 0.625 +- 0.1767766952966369']
    """
    lines = []
    for metric, by_pattern in test.items():
        for pattern, values in by_pattern.items():
            lines.append(f"{metric}-p{pattern}: {_mean_and_spread(values)}")
    for metric, by_pattern in test.items():
        lines.append(f"{metric}-all-p: {_mean_and_spread(_all_patterns(by_pattern))}")
    for metric, by_pattern in dev.items():
        lines.append(f"{metric}-dev32-all-p: {_mean_and_spread(_all_patterns(by_pattern))}")
    return lines


def final_line(flags: Mapping[str, Any], metrics: Sequence[str], summary: FewNluSummary, seconds: float) -> str:
    """The line of a command in the file of final results: folder, dev and test score of each metric, seconds.

    Without a dev set, there are only test scores.
    """
    cells = [Path(flags["output_dir"]).resolve().name]
    for metric in metrics:
        for scores in (summary.dev, summary.test):
            if metric in scores:
                cells.append(str(scores[metric]))
    cells.append(str(int(seconds)))
    return "\t".join(cells)


def final_name(flags: Mapping[str, Any], task: NluTask, labelled: int) -> str:
    """The name of the file of final results, which all commands with the same task, method and model type share.

    As in FewNLU, the name is different if ``adapet_balance_alpha`` is not -1: it begins with ``save_detail`` (without
    an underscore after it) and lacks the number of labelled examples.
    """
    common = f"{task.name}_{flags['few_shot_setting']}_{flags['method']}_{flags['model_type']}"
    if flags["adapet_balance_alpha"] != -1:
        return f"save_detail{flags['arch_method']}_{common}.txt"
    return f"save_{flags['arch_method']}_{common}_{labelled}.txt"


def append_line(path: Path, line: str) -> None:
    """Append a line in one write, so that concurrent commands do not mix their lines; a DataError if it fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error


def _course(outcome: Outcome, choice: Mapping[str, Any]) -> dict[str, Any]:
    """The update whose weights were chosen, and the mean loss up to it (as in FewNLU, -1 without losses)."""
    step = choice.get("step", outcome.get("updates", 0))
    losses = outcome.get("losses", [])[:step]
    average_loss = -1
    if losses:
        average_loss = sum(losses) / len(losses)
    return {"global_step": step, "average_loss": average_loss}


def _write(path: Path, lines: Sequence[str], end: str = "\n") -> None:
    with atomic_write(path) as stream:
        stream.write("".join(f"{line}{end}" for line in lines))


def _logit_lines(logits: Sequence[Sequence[float]]) -> list[str]:
    return [" ".join(map(str, row)) for row in logits]


def _example_json(example: InputExample) -> dict[str, Any]:
    return {
        "guid": example.guid,
        "text_a": example.text_a,
        "text_b": example.text_b,
        "label": example.label,
        "idx": idx_of(example),
        "meta": dict(example.meta),
    }


def _all_patterns(by_pattern: Mapping[int, Sequence[float]]) -> list[float]:
    all_values: list[float] = []
    for values in by_pattern.values():
        all_values += values
    return all_values


def _mean_and_spread(values: Sequence[float]) -> str:
    mean, std = _mean_and_std(values)
    # FewNLU writes a deviation of 0 for a single value.
    return f"{mean} +- {0 if std is None else std}"


def _means(scores: Scores) -> dict[str, float]:
    means = {}
    for metric, by_pattern in scores.items():
        means[metric], _ = _mean_and_std(_all_patterns(by_pattern))
    return means


def _mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation, computed with exact fractions as in Python's ``statistics``, which FewNLU uses."""
    # Values that are not finite cannot be written as fractions.
    if not all(map(math.isfinite, values)):
        return estimates.mean_and_std(values)
    return estimates.mean_and_std([Fraction(value) for value in values])


# --- FewNLU's two files of settings -----------------------------------------------------------------------------------

# The flags in train_eval_config.json.
_TRAIN_EVAL = (
    "few_shot_setting",
    "use_dropout",
    "ipet_logits_percentage",
    "ipet_n_most_likely",
    "ipet_scale_factor",
    "use_brother_fold_logits",
    "generations",
    "pattern_ids",
    "train_priming",
    "eval_priming",
    "priming_num",
    "sampler_seeds",
    "seed",
    "repetitions",
    "cv_k",
    "do_eval",
    "do_train",
    "every_eval_ratio",
    "per_gpu_train_batch_size",
    "per_gpu_unlabeled_batch_size",
    "per_gpu_eval_batch_size",
    "gradient_accumulation_steps",
    "num_train_epochs",
    "max_steps",
    "alpha",
    "temperature",
    "warmup_step_ratio",
    "adam_epsilon",
    "weight_decay",
    "max_grad_norm",
    "learning_rate",
    "embedding_learning_rate",
    "early_stop_epoch",
    "reduction",
    "decoding_strategy",
    "relabel_aug_data",
    "lm_training",
)
# The flags in wrapper_config.json; with ADAPET, also those in _ADAPET.
_WRAPPER = (
    "seed",
    "model_type",
    "model_name_or_path",
    "cache_dir",
    "dataset_name",
    "task_name",
    "max_seq_length",
    "verbalizer_file",
    "method",
    "arch_method",
    "use_continuous_prompt",
    "prompt_encoder_head_type",
    "fix_deberta",
    "use_cloze",
    "dropout_rate",
    "output_dir",
)
_ADAPET = ("adapet_mask_alpha", "max_num_lbl_tok", "adapet_balance_alpha")


def _train_eval_config(flags: Mapping[str, Any], task: NluTask, sampler_seed: int) -> dict[str, Any]:
    settings = _settings(flags)
    config = {name: settings[name] for name in _TRAIN_EVAL}
    config["metrics"] = list(task.metrics)
    config["device"] = _device(flags)
    config["sampler_seed"] = sampler_seed
    return config


def _wrapper_config(flags: Mapping[str, Any], task: NluTask, key: FolderKey) -> dict[str, Any]:
    settings = _settings(flags)
    config = {name: settings[name] for name in _WRAPPER}
    config["label_list"] = task.labels
    config["device"] = _device(flags)
    config["pattern_id"] = key.pattern
    config["wrapper_type"] = "cls" if flags["method"] == "sequence_classifier" else "mlm"
    if flags["method"] == "adapet":
        config |= {name: settings[name] for name in _ADAPET}
    return config


def _settings(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, with the values that FewNLU derives from the method and the few-shot setting."""
    settings = dict(flags)
    for name, value in flags.items():
        if isinstance(value, tuple):
            settings[name] = list(value)
    settings["use_cloze"] = flags["method"] != "sequence_classifier"
    settings["use_continuous_prompt"] = flags["method"] == "ptuning"
    if flags["arch_method"] == "default":
        settings["generations"] = 1
    if flags["few_shot_setting"] in ("fix_setting", "dev32_setting"):
        settings["cv_k"] = 1
    return settings


def _device(flags: Mapping[str, Any]) -> str:
    return "cpu" if flags["no_cuda"] else "auto"
