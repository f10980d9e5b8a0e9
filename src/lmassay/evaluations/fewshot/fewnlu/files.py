"""FewNLU's result files, written from the outcomes of trainings; texts and JSON only."""

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
from lmassay.evaluations.fewshot.metrics import task_scores
from lmassay.evaluations.fewshot.protocol import estimates
from lmassay.evaluations.fewshot.protocol.regimes import teachers_of
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask
from lmassay.storage.files import atomic_write
from lmassay.types import Train

Outcome = Mapping[str, Any]
Scores = dict[str, dict[int, list[float]]]
"""Metric → pattern → values, one a split and repetition."""


@dataclass(frozen=True, slots=True)
class FewNluSummary:
    """Means over all splits, patterns and repetitions, by metric."""

    dev: dict[str, float]
    test: dict[str, float]
    lines: list[str]
    """Of result_test.txt; none without --do_eval."""
    labelled: int
    """How many examples were split."""


@dataclass(frozen=True, slots=True)
class FewNluWriter:
    """Writes below ``folder``. ``outcomes`` are by the key of their training; one that failed is not there."""

    folder: Path
    task: NluTask
    outcomes: Mapping[str, Outcome]
    values: Mapping[str, Any]
    """All flags."""
    evaluated: bool = True
    """False without --do_eval: what was trained is noted, predictions and scores are not written."""

    def write_all(self, found: Sequence[Round]) -> FewNluSummary:
        """The files of all rounds; the summary is the last one's."""
        for number, one in enumerate(found):
            follows = found[number + 1 : number + 2] if one.folder.startswith("g") else []
            summary = self._write_round(one, follows[0] if follows else None)
        if self.evaluated and found[-1].folder.startswith("g"):
            _write(self.folder / "result_test.txt", summary.lines)
        return summary

    def _write_round(self, found: Round, after: Round | None) -> FewNluSummary:
        test: Scores = {}
        dev: Scores = {}
        for seat, trainings in found.trainings.items():
            if not all(training.key in self.outcomes for training in trainings):
                continue
            place = self.folder / found.folder / seat.folder
            choice = self._choice(trainings)
            scores = self._write_seat(place, seat, trainings, choice)
            for store, part in ((test, "test"), (dev, "dev")):
                for metric, value in scores[part].items():
                    store.setdefault(metric, {}).setdefault(seat.pattern, []).append(value)
        if after is not None:
            self._write_drawn(found, after)
        lines = result_lines(test, dev)
        if self.evaluated:
            _write(self.folder / found.folder / "result_test.txt", lines)
        first = next(iter(found.trainings.values()))[0]
        return FewNluSummary(_means(dev), _means(test), lines, len(trainer.labelled_of(self.task, first.spec)))

    def _choice(self, trainings: Sequence[Train]) -> dict[str, Any]:
        """The chosen weights of a training; of several, their logits averaged and judged anew."""
        choices = [self.outcomes[training.key]["choices"][0] for training in trainings]
        if len(choices) == 1:
            return dict(choices[0])
        spec = trainings[0].spec
        found: dict[str, Any] = {}
        for part, examples in (("dev", self._dev(spec)), ("test", trainer.test_examples(self.task, spec))):
            logits = _mean([choice[f"{part}_logits"] for choice in choices])
            found |= {f"{part}_logits": logits, part: task_scores(self.task, examples, logits)}
        return found

    def _write_seat(
        self, place: Path, seat: FolderKey, trainings: Sequence[Train], choice: Mapping[str, Any]
    ) -> dict[str, dict[str, float]]:
        spec = trainings[0].spec
        results = _course(self.outcomes[trainings[0].key], choice)
        _write(place / "results.txt", [str(results)], end="")
        train_eval = {**_train_eval(self.values, self.task), "sampler_seed": spec["sampler_seed"]}
        _write(place / "train_eval_config.json", [json.dumps(train_eval)], end="")
        _write(place / "wrapper_config.json", [json.dumps(_wrapper(self.values, self.task, seat))], end="")
        if "unlabeled_logits" in choice:
            _write(place / "unlabeled_logits.txt", _logit_lines(choice["unlabeled_logits"]))
        if not self.evaluated:
            return {"test": {}, "dev": {}}
        results["test_set_after_training"] = choice["test"]
        tested, dev = trainer.test_examples(self.task, spec), self._dev(spec)
        _write(place / "predictions.jsonl", self._predictions(tested, choice["test_logits"]))
        _write(place / "eval_logits.txt", _logit_lines(choice["test_logits"]))
        if dev:
            results["dev32_set_after_training"] = choice["dev"]
            _write(place / "dev32_predictions.jsonl", self._predictions(dev, choice["dev_logits"]))
            _write(place / "dev32_eval_logits.txt", _logit_lines(choice["dev_logits"]))
        _write(place / "results.json", [json.dumps(results)], end="")
        return {"test": choice["test"], "dev": choice["dev"]}

    def _dev(self, spec: Mapping[str, Any]) -> list[InputExample]:
        labelled = trainer.labelled_of(self.task, spec)
        return [labelled[place] for place in spec["dev"]]

    def _predictions(self, examples: Sequence[InputExample], logits: Sequence[Sequence[float]]) -> list[str]:
        labels = self.task.labels
        rows = zip(examples, logits, strict=True)
        return [json.dumps({"idx": _idx(e), "label": labels[max(range(len(r)), key=r.__getitem__)]}) for e, r in rows]

    def _write_drawn(self, found: Round, after: Round) -> None:
        """What the teachers of this generation labelled for each pupil of the next."""
        for seat, (training, *_) in after.trainings.items():
            given = [self.outcomes.get(teacher.key) for teacher in teachers_of(training)]
            if not given or any(outcome is None for outcome in given):
                continue
            spec = training.spec
            own, unlabeled = trainer.source_examples(self.task, spec, training.data_paths, unlabeled=True)
            taught, _ = trainer.training_examples(own, unlabeled, self.task, spec, [o for o in given if o is not None])
            name = f"p{seat.pattern}-f{seat.fold}-i{seat.repetition}-unlabeled-train.jsonl"
            lines = [json.dumps(_example(example), ensure_ascii=False) for example in taught[len(own) :]]
            _write(self.folder / found.folder / "next-gen-train-data" / name, lines)


def result_lines(test: Scores, dev: Scores) -> list[str]:
    """The lines of result_test.txt.

    >>> result_lines({"acc": {0: [0.5, 0.75]}}, {"acc": {0: [0.5]}})[:2]
    ['acc-p0: 0.625 +- 0.1767766952966369', 'acc-all-p: 0.625 +- 0.1767766952966369']
    """
    lines = [f"{metric}-p{p}: {_spread(values)}" for metric, found in test.items() for p, values in found.items()]
    lines += [f"{metric}-all-p: {_spread(_all(found))}" for metric, found in test.items()]
    return lines + [f"{metric}-dev32-all-p: {_spread(_all(found))}" for metric, found in dev.items()]


def final_line(values: Mapping[str, Any], metrics: Sequence[str], summary: FewNluSummary, seconds: float) -> str:
    """The line of a configuration: folder, dev and test of each metric (test alone without dev), seconds."""
    cells = [Path(values["output_dir"]).resolve().name]
    for metric in metrics:
        cells += [str(part[metric]) for part in (summary.dev, summary.test) if metric in part]
    return "\t".join([*cells, str(int(seconds))])


def final_name(values: Mapping[str, Any], task: NluTask, labelled: int) -> str:
    """The file that the line goes to: one for all configurations of a task, method and model type."""
    rest = f"{task.name}_{values['few_shot_setting']}_{values['method']}_{values['model_type']}"
    if values["adapet_balance_alpha"] != -1:
        return f"save_detail{values['arch_method']}_{rest}.txt"
    return f"save_{values['arch_method']}_{rest}_{labelled}.txt"


def append_line(path: Path, line: str) -> None:
    """Add a line at once, so that commands that run side by side do not write into each other's."""
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
    """The update that was chosen, and the mean loss up to there."""
    step = choice.get("step", outcome.get("updates", 0))
    losses = outcome.get("losses", [])[:step]
    return {"global_step": step, "average_loss": sum(losses) / len(losses) if losses else -1}


def _write(path: Path, lines: Sequence[str], end: str = "\n") -> None:
    with atomic_write(path) as stream:
        stream.write("".join(f"{line}{end}" for line in lines))


def _logit_lines(logits: Sequence[Sequence[float]]) -> list[str]:
    return [" ".join(str(logit) for logit in row) for row in logits]


def _idx(example: InputExample) -> Any:
    parts = [example.meta.get(name) for name in ("passage_idx", "question_idx", "answer_idx")]
    return example.idx if None in parts else parts


def _example(example: InputExample) -> dict[str, Any]:
    texts = {"text_a": example.text_a, "text_b": example.text_b, "label": example.label}
    return {"guid": example.guid, **texts, "idx": _idx(example), "meta": dict(example.meta)}


def _all(found: Mapping[int, Sequence[float]]) -> list[float]:
    return [value for values in found.values() for value in values]


def _spread(values: Sequence[float]) -> str:
    mean, std = _mean_and_std(values)
    return f"{mean} +- {0 if std is None else std}"


def _means(scores: Scores) -> dict[str, float]:
    return {metric: _mean_and_std(_all(found))[0] for metric, found in scores.items()}


def _mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Computed with fractions, as FewNLU does; only finite numbers have one."""
    if not all(map(math.isfinite, values)):
        return estimates.mean_and_std(values)
    return estimates.mean_and_std([Fraction(value) for value in values])


def _mean(logits: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    import numpy as np

    found: list[list[float]] = np.mean(np.asarray(logits, dtype=np.float64), axis=0).tolist() if logits[0] else []
    return found


_TRAIN_EVAL = (
    *("few_shot_setting", "use_dropout", "ipet_logits_percentage", "ipet_n_most_likely", "ipet_scale_factor"),
    *("use_brother_fold_logits", "generations", "pattern_ids", "train_priming", "eval_priming", "priming_num"),
    *("sampler_seeds", "seed", "repetitions", "cv_k", "do_eval", "do_train", "every_eval_ratio"),
    *("per_gpu_train_batch_size", "per_gpu_unlabeled_batch_size", "per_gpu_eval_batch_size"),
    *("gradient_accumulation_steps", "num_train_epochs", "max_steps", "alpha", "temperature", "warmup_step_ratio"),
    *("adam_epsilon", "weight_decay", "max_grad_norm", "learning_rate", "embedding_learning_rate", "early_stop_epoch"),
    *("reduction", "decoding_strategy", "relabel_aug_data", "lm_training"),
)
_WRAPPER = (
    *("seed", "model_type", "model_name_or_path", "cache_dir", "dataset_name", "task_name", "max_seq_length"),
    *("verbalizer_file", "method", "arch_method", "use_continuous_prompt", "prompt_encoder_head_type", "fix_deberta"),
    *("use_cloze", "dropout_rate", "output_dir"),
)
_ADAPET = ("adapet_mask_alpha", "max_num_lbl_tok", "adapet_balance_alpha")


def _train_eval(values: Mapping[str, Any], task: NluTask) -> dict[str, Any]:
    settled = _settled(values)
    return {**{name: settled[name] for name in _TRAIN_EVAL}, "metrics": list(task.metrics), "device": _device(values)}


def _wrapper(values: Mapping[str, Any], task: NluTask, seat: FolderKey) -> dict[str, Any]:
    settled = _settled(values)
    own = {"label_list": task.labels, "device": _device(values), "pattern_id": seat.pattern}
    own["wrapper_type"] = "cls" if values["method"] == "sequence_classifier" else "mlm"
    adapet = {name: settled[name] for name in _ADAPET} if values["method"] == "adapet" else {}
    return {**{name: settled[name] for name in _WRAPPER}, **own, **adapet}


def _settled(values: Mapping[str, Any]) -> dict[str, Any]:
    """The flags with what the method and the setting decide, as FewNLU keeps them."""
    method = values["method"]
    settled = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    settled |= {"use_cloze": method != "sequence_classifier", "use_continuous_prompt": method == "ptuning"}
    settled |= {"generations": 1} if values["arch_method"] == "default" else {}
    settled |= {"cv_k": 1} if values["few_shot_setting"] in ("fix_setting", "dev32_setting") else {}
    return settled


def _device(values: Mapping[str, Any]) -> str:
    return "cpu" if values["no_cuda"] else "auto"
