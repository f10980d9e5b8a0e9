"""Run one training: read the data, fit the method, and test the classifier."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lmassay.errors import DataError, LmassayError, ModelError, PluginError, error_with_location
from lmassay.evaluations.fewshot import keeping
from lmassay.evaluations.fewshot.methods.contract import (
    Choice,
    Method,
    TrainedClassifier,
    TrainingInputs,
    as_classifier,
    as_method,
)
from lmassay.evaluations.fewshot.metrics import task_scores
from lmassay.evaluations.fewshot.protocol import regimes, selftraining
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask, open_task
from lmassay.evaluations.fewshot.tasks.processors import Part
from lmassay.plugins.options import Spec, build, options_model, record_inputs, split_spec
from lmassay.plugins.registry import current_registry
from lmassay.storage import provenance
from lmassay.storage.files import sha256
from lmassay.types import digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
VERSION = 3
"""Part of every training's key. Increase it when a change of the code may change the outcome of a training, so that
stored outcomes are not reused."""
# The choice of a classifier that has only one set of weights and no ``choices``.
_ONLY_CHOICE = Choice(every=None, step=0, dev={}, stopped_at=0)


def teach(
    model: Any,
    spec: Mapping[str, Any],
    *,
    data_paths: Mapping[str, Any],
    earlier: Sequence[Mapping[str, Any]] = (),
    on_progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Run the training that ``spec`` describes, and return its outcome as JSON.

    ``task.FewShot`` makes the spec; the module ``protocol.regimes`` lists the entries that depend on the regime.

    ``data_paths`` says where the data are on this machine and, under ``keep``, in which folder to keep the trained
    model (if at all). ``earlier`` are the outcomes of the trainings that this one builds upon. ``on_progress`` is
    called with the share of the training that is done, and may raise an exception to cancel it.
    """
    teachers: Sequence[Mapping[str, Any]] = earlier
    draws = None
    if spec.get(regimes.PREVIOUS):
        # The last outcome is not that of a teacher, but of the previous training, whose random draws are continued.
        *teachers, previous = earlier
        draws = previous["draws"]
    base_dir = Path(data_paths["base_dir"])
    data_dir = None
    if data_paths["data_dir"] is not None:
        data_dir = Path(data_paths["data_dir"])
    task = open_task(spec["data"], data_dir, base_dir)
    check_files(task, spec["files"])
    method = _regime_method(spec, base_dir)
    if data_paths.get("keep"):
        # This is checked before the training, because an error after hours of training would lose its result.
        keeping.check_folder(Path(data_paths["keep"]))

    labelled = labelled_of(task, spec)
    dev = [labelled[index] for index in spec["dev"]]
    own_examples, unlabeled = source_examples(task, spec, data_paths, unlabeled=wants_unlabeled(method, spec))
    train, notes = training_examples(own_examples, unlabeled, task, spec, teachers)
    inputs = TrainingInputs(
        task=task,
        model=model,
        train=train,
        dev=dev,
        unlabeled=unlabeled if method.uses_unlabeled else [],
        test=test_examples(task, spec),
        seed=spec["seed"],
        sampler_seed=spec["sampler_seed"],
        draws=draws,
        report_progress=on_progress,
    )
    classifier = as_classifier(_named_on_failure(method, lambda: method.fit(inputs)))

    outcome: dict[str, Any] = {"n_train": len(train), "n_dev": len(inputs.dev)}
    if notes:
        outcome["notes"] = notes
    outcome |= _course(classifier)
    if method.continue_draws:
        # This comes before the test below, which may draw random numbers as well.
        outcome["draws"] = classifier.draws_state()
    outcome["choices"] = _named_on_failure(method, lambda: _tested_choices(classifier, inputs, spec, unlabeled))
    if data_paths.get("keep"):
        # This comes last, so that keeping a model cannot change the outcome.
        folder = Path(data_paths["keep"])
        dev_scores = [tested["dev"] for tested in outcome["choices"]]
        _named_on_failure(method, lambda: keeping.keep(classifier, inputs, spec, base_dir, folder, dev_scores))
    return outcome


def test_again(kept_model: keeping.KeptModel, task: NluTask, spec: Mapping[str, Any], device: str) -> dict[str, Any]:
    """The outcome of a kept model on the dev and test examples of ``spec``.

    The test examples may differ from those that the model was tested on after its training.
    """
    labelled = labelled_of(task, spec)
    dev = [labelled[index] for index in spec["dev"]]
    inputs = TrainingInputs(task=task, model=None, train=[], dev=dev, test=test_examples(task, spec))
    classifier = kept_model.classifier(task, device=device)
    tested = _tested(classifier, inputs, {}, [])
    chosen = {name: kept_model.card["choice"][name] for name in ("every", "step", "stopped_at")}
    course = kept_model.card["course"]
    return {
        "n_train": len(spec["train"]),
        "n_dev": len(dev),
        "updates": course["updates"],
        "losses": [rounded(loss) for loss in course["losses"]],
        "choices": [chosen | tested],
    }


# --- examples ---------------------------------------------------------------------------------------------------------


def labelled_examples(task: NluTask, parts: Sequence[Part]) -> list[InputExample]:
    """All examples that may be used for training or for selection on dev, in the order of the files."""
    examples: list[InputExample] = []
    for part in parts:
        examples += task.with_mirrored(task.examples(part))
    return examples


def labelled_of(task: NluTask, spec: Mapping[str, Any]) -> list[InputExample]:
    """The examples that the indices of a run's splits refer to: all labelled ones, or a limited number of them."""
    examples = labelled_examples(task, spec["labelled"])
    limit = spec.get("labelled_first")
    if not limit:
        return examples
    return restricted(examples, limit["first"], limit["seed"])


def source_examples(
    task: NluTask, spec: Mapping[str, Any], data_paths: Mapping[str, Any], *, unlabeled: bool
) -> tuple[list[InputExample], list[InputExample]]:
    """The training examples before teachers add any, and the unlabeled ones if ``unlabeled`` is true.

    Extra examples are trained on with their own labels. With ``relabel`` these are removed, and the extra examples are
    added to the unlabeled ones, which teachers label.
    """
    labelled = labelled_of(task, spec)
    train = [labelled[index] for index in spec["train"]]
    extra = extra_examples(task, data_paths.get("extra"))
    unlabeled_pool: list[InputExample] = []
    if unlabeled:
        unlabeled_pool += unlabeled_examples(task, spec.get("unlabeled"))
    if not spec.get("relabel"):
        return train + extra, unlabeled_pool
    if unlabeled:
        unlabeled_pool += [replace(example, label=None) for example in extra]
    return train, unlabeled_pool


def unlabeled_examples(task: NluTask, limit: Mapping[str, Any] | None) -> list[InputExample]:
    """The unlabeled examples, or a limited number of them: shuffled with the seed and cut, as FewNLU does."""
    if not task.has("unlabeled"):
        raise DataError(f"{task.dataset}/{task.name} has no unlabeled examples, which this method needs")
    examples = [replace(example, label=None) for example in task.examples("unlabeled")]
    if limit is None:
        return examples
    return restricted(examples, limit["first"], limit["seed"])


def restricted(examples: list[InputExample], limit: int | None, seed: int) -> list[InputExample]:
    """At most ``limit`` examples; they are shuffled only if some have to be left out."""
    if limit is None or limit >= len(examples):
        return examples
    shuffled = list(examples)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:limit]


def test_examples(task: NluTask, spec: Mapping[str, Any]) -> list[InputExample]:
    """The examples that the classifier is tested on."""
    test = spec["test"]
    return restricted(list(task.examples(test["part"])), test["first"], test["seed"])


def extra_examples(task: NluTask, path: str | None) -> list[InputExample]:
    """Further examples to train on, from a file in the task's format."""
    return [] if path is None else task.processor._create_examples(path, "train")


def wants_unlabeled(method: Method, spec: Mapping[str, Any]) -> bool:
    """Whether a training needs the unlabeled examples.

    Its method may learn from them, its teachers may have labelled them, or it may have to label them for others.
    """
    if method.uses_unlabeled:
        return True
    learns_from_teachers = spec.get("pseudo") or spec.get("soft")
    return bool(learns_from_teachers or spec.get("label_unlabeled"))


def training_examples(
    train: list[InputExample],
    unlabeled: list[InputExample],
    task: NluTask,
    spec: Mapping[str, Any],
    teacher_outcomes: Sequence[Mapping[str, Any]],
) -> tuple[list[InputExample], list[str]]:
    """The examples to train on, including those that teachers labelled, and notes on labels with too few of them."""
    teachers = [selftraining.Teacher(_unlabeled_logits(outcome)) for outcome in teacher_outcomes]
    if spec.get("soft"):
        # Distillation: the student is trained only on the unlabeled examples, with the teachers' mean logits.
        mean_logits = selftraining.merged_logits(teachers).tolist()
        examples = []
        for example, logits in zip(unlabeled, mean_logits, strict=True):
            examples.append(replace(example, logits=logits))
        return examples, []
    pseudo = spec.get("pseudo")
    if not pseudo:
        return train, []
    # iPET: this generation has ``scale`` times as many examples as the first one.
    n_new = selftraining.count_new_examples(len(train), pseudo["scale"])
    train_labels = [str(example.label) for example in train]
    sizes = selftraining.label_sizes(train_labels, task.labels, n_new)
    recipe = selftraining.Recipe(pseudo["logits_percentage"], pseudo["n_most_likely"])
    generators = selftraining.generators(spec["seed"] + pseudo["draw"])
    drawn = selftraining.draw(teachers, task.labels, sizes, generators, recipe)
    new_examples = []
    for pseudo_label in drawn.examples:
        new_examples.append(replace(unlabeled[pseudo_label.index], label=pseudo_label.label))
    return train + new_examples, list(drawn.notes)


def _unlabeled_logits(outcome: Mapping[str, Any]) -> NDArray[np.float64]:
    """A teacher's logits for the unlabeled examples, one row each."""
    import numpy as np

    return np.asarray(outcome["choices"][0]["unlabeled_logits"], dtype=np.float64)


# --- checks that data and method have not changed since the run was planned -------------------------------------------


def check_files(task: NluTask, planned: Mapping[str, str]) -> None:
    """Raise a DataError if the data differ from those that the run was planned with, here or on another machine."""
    current = task.digests()
    changed = []
    for name in sorted(planned):
        if current.get(name) != planned[name]:
            changed.append(name)
    if changed:
        raise DataError(
            f"the data of {task.dataset}/{task.name} have changed since the run began ({', '.join(changed)}); start a "
            "new run, or restore the files"
        )


def _regime_method(spec: Mapping[str, Any], base: Path) -> Method:
    """The method of a training, with the options that the regime adds.

    These are the noise of a noisy student, and the temperature of a distilled student unless its own options set one.
    Raises a PluginError if the code or a file of a user's method has changed since the run was planned.
    """
    name, options = split_spec(spec["method"], "task.method")
    if spec.get("noise"):
        options["spatial_dropout"] = spec["noise"]
    known_options = options_model(current_registry().get("method", name, base)).model_fields
    if spec.get("soft") and "temperature" in known_options:
        options.setdefault("temperature", spec["soft"]["temperature"])
    method, made_from = made_method({"name": name, **options}, base)
    for part in ("source", "method_files"):
        if made_from.get(part) != spec.get(part):
            raise PluginError(
                f"{name}, a module that it imports or a file that it reads has changed since the run began; start a "
                "new run"
            )
    return method


def made_method(spec: Spec, base: Path) -> tuple[Method, dict[str, str]]:
    """A method and, if a user defined it, the digests of its source and of the files that it reads."""
    with record_inputs() as inputs:
        plugin = build("method", spec, base, "task.method")
    is_ours = type(plugin).__module__.startswith("lmassay.")
    class_digest = "" if is_ours else provenance.source_digest(type(plugin))
    made_from = {}
    source = provenance.joint_digest(class_digest, inputs.sources.get("method", ""))
    if source:
        made_from["source"] = source
    if inputs.files:
        made_from["method_files"] = digest([sha256(file) for file in inputs.files])
    return as_method(plugin), made_from


def _named_on_failure(method: Method, work: Callable[[], T]) -> T:
    """Call ``work``, which runs a method's code, and return its result.

    If a user-defined method fails unexpectedly, the error names its class.
    """
    try:
        return work()
    except (LmassayError, OSError):
        raise
    except Exception as error:
        if type(method).__module__.startswith("lmassay."):
            raise
        raise PluginError(f"the method {type(method).__name__} failed: {error_with_location(error)}") from error


# --- the outcome ------------------------------------------------------------------------------------------------------


def _course(classifier: TrainedClassifier) -> dict[str, Any]:
    """Updates, losses, learning rates and dev curve of the training; empty if the classifier has none."""
    course = classifier.course
    if course is None:
        return {}
    return {
        "updates": course.updates,
        "losses": [rounded(loss) for loss in course.losses],
        "learning_rates": [rounded(rate) for rate in course.learning_rates],
        "curve": [[step, scores] for step, scores in course.curve],
    }


def _tested_choices(
    classifier: TrainedClassifier,
    inputs: TrainingInputs,
    spec: Mapping[str, Any],
    unlabeled: Sequence[InputExample],
) -> list[dict[str, Any]]:
    """Each choice of weights with its logits and metrics, one per evaluation ratio.

    Weights that several ratios chose are tested once.
    """
    rows: list[dict[str, Any]] = []
    tested: dict[int, dict[str, Any]] = {}
    for choice in classifier.choices or [_ONLY_CHOICE]:
        if choice.step not in tested:
            if classifier.choices:
                classifier.use(choice)
            tested[choice.step] = _tested(classifier, inputs, spec, unlabeled)
        row = {"every": choice.every, "step": choice.step, "stopped_at": choice.stopped_at}
        rows.append(row | tested[choice.step])
    return rows


def _tested(
    classifier: TrainedClassifier,
    inputs: TrainingInputs,
    spec: Mapping[str, Any],
    unlabeled: Sequence[InputExample],
) -> dict[str, Any]:
    """Logits and metrics on test and dev, and the logits of unlabeled examples if others learn from them."""
    task = inputs.task
    tested: dict[str, Any] = {}
    for part, examples in (("test", inputs.test), ("dev", inputs.dev)):
        logits: list[list[float]] = []
        answers = None
        if examples:
            logits = _logits(classifier, examples, task)
            answers = classifier.answers(examples)
        tested[part] = task_scores(task, examples, logits, answers)
        tested[f"{part}_logits"] = logits
        if answers is not None:
            # These are recorded because ReCoRD's labels do not say which entity was chosen.
            tested[f"{part}_answers"] = answers
    if spec.get("label_unlabeled"):
        tested["unlabeled_logits"] = _logits(classifier, unlabeled, task)
    return tested


def _logits(classifier: TrainedClassifier, examples: Sequence[InputExample], task: NluTask) -> list[list[float]]:
    """The classifier's logits as lists, one row per example; an error if they have a wrong shape or are not finite."""
    import numpy as np

    logits: NDArray[np.float64] = np.asarray(classifier.logits(examples), dtype=np.float64)
    if logits.shape != (len(examples), len(task.labels)):
        raise PluginError(
            f"the classifier gave logits of shape {logits.shape} for {len(examples)} examples and "
            f"{len(task.labels)} labels"
        )
    if not np.isfinite(logits).all():
        raise ModelError("the classifier gave a score that is not finite; lower the learning rate")
    rows = []
    for row in logits.tolist():
        rows.append([rounded(value) for value in row])
    return rows


def rounded(value: float) -> float:
    """The number rounded to eight significant digits, about as many as single precision has."""
    return float(f"{value:.8g}")
