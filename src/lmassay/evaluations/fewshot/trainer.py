"""Carries out one training: reads the data, lets the method learn, and tests what it learned."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lmassay.errors import DataError, LmassayError, ModelError, PluginError, error_with_location
from lmassay.evaluations.fewshot.methods.contract import Choice, Lesson
from lmassay.evaluations.fewshot.metrics import judged
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
VERSION = 2
"""Raise it when the same training may come out differently than before."""


def teach(
    model: Any,
    spec: Mapping[str, Any],
    *,
    data_paths: Mapping[str, Any],
    earlier: Sequence[Mapping[str, Any]] = (),
    on_progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Do what ``spec`` says (see ``task.FewShot``); ``earlier`` are the outcomes of the trainings it builds upon."""
    given, previous = _parted(spec, earlier)
    base = Path(data_paths["base_dir"])
    task = open_task(spec["data"], None if data_paths["data_dir"] is None else Path(data_paths["data_dir"]), base)
    check_files(task, spec["files"])
    method = _method(spec, base)
    labelled = labelled_of(task, spec)
    train, unlabeled = material(task, spec, data_paths, unlabeled=wants_unlabeled(method, spec))
    train, notes = taught(train, unlabeled, task, spec, given)
    lesson = Lesson(
        task=task,
        model=model,
        train=train,
        dev=[labelled[place] for place in spec["dev"]],
        unlabeled=unlabeled if getattr(method, "uses_unlabeled", False) else [],
        asked=test_examples(task, spec),
        seed=spec["seed"],
        sampler_seed=spec["sampler_seed"],
        draws=None if previous is None else previous["draws"],
        told=on_progress,
    )
    fitted = _by_name(method, lambda: method.fit(lesson))
    return {
        "n_train": len(train),
        "n_dev": len(lesson.dev),
        **({"notes": notes} if notes else {}),
        **_course(fitted),
        # Asked for before the tests below, which must not move them.
        **({"draws": fitted.draws} if getattr(method, "continue_draws", False) else {}),
        "choices": _by_name(method, lambda: _choices(fitted, lesson, spec, unlabeled)),
    }


def _parted(
    spec: Mapping[str, Any], given: Sequence[Mapping[str, Any]]
) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Any] | None]:
    """The outcomes of the teachers, and that of the training whose draws this one goes on with, if there is one."""
    return (given[:-1], given[-1]) if spec.get(regimes.PREVIOUS) else (given, None)


def labelled_examples(task: NluTask, parts: Sequence[Part]) -> list[InputExample]:
    """All that may be learned from or selected by, in the order of the files."""
    return [example for part in parts for example in task.with_mirrored(task.examples(part))]


def labelled_of(task: NluTask, spec: Mapping[str, Any]) -> list[InputExample]:
    """The examples that a run's splits point into: all labelled ones, or so many of them."""
    examples = labelled_examples(task, spec["labelled"])
    limit = spec.get("labelled_first")
    return restricted(examples, limit["first"], limit["seed"]) if limit else examples


def material(
    task: NluTask, spec: Mapping[str, Any], where: Mapping[str, Any], *, unlabeled: bool
) -> tuple[list[InputExample], list[InputExample]]:
    """What there is before any teacher: training examples, and the unlabeled ones if wanted.

    The extra examples are learned from as they are or, ``relabel``, stand among those that teachers label.
    """
    labelled = labelled_of(task, spec)
    train = [labelled[place] for place in spec["train"]]
    extra = extra_examples(task, where.get("extra"))
    pool = unlabeled_examples(task, spec.get("unlabeled")) if unlabeled else []
    if spec.get("relabel"):
        return train, pool + [replace(example, label=None) for example in extra] if unlabeled else pool
    return train + extra, pool


def unlabeled_examples(task: NluTask, wanted: Mapping[str, Any] | None) -> list[InputExample]:
    """The unlabeled examples, or so many of them: shuffled by the seed and cut, as FewNLU does."""
    if not task.has("unlabeled"):
        raise DataError(f"{task.dataset}/{task.name} has no unlabeled examples, which this method needs")
    examples = [replace(example, label=None) for example in task.examples("unlabeled")]
    return restricted(examples, None if wanted is None else wanted["first"], 42 if wanted is None else wanted["seed"])


def restricted(examples: list[InputExample], most: int | None, seed: int) -> list[InputExample]:
    """So many examples at most; fewer than there are means a shuffle first."""
    if most is None or most >= len(examples):
        return examples
    shuffled = list(examples)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:most]


def test_examples(task: NluTask, spec: Mapping[str, Any]) -> list[InputExample]:
    """What the classifier is tested on."""
    wanted = spec["test"]
    return restricted(list(task.examples(wanted["part"])), wanted["first"], wanted["seed"])


def wants_unlabeled(method: Any, spec: Mapping[str, Any]) -> bool:
    asked = ("label_unlabeled", "pseudo", "soft")
    return bool(getattr(method, "uses_unlabeled", False)) or any(spec.get(name) for name in asked)


def check_files(task: NluTask, digests: Mapping[str, str]) -> None:
    """The data must be what the run was planned with, be it read on another machine or another day."""
    found = task.digests()
    changed = sorted(name for name, digest in digests.items() if found.get(name) != digest)
    if changed:
        raise DataError(
            f"the data of {task.dataset}/{task.name} are not those of the run: {', '.join(changed)} differs"
        )


def _method(spec: Mapping[str, Any], base: Path) -> Any:
    """The method with what its regime adds: noise, and a student's temperature unless it names its own."""
    name, options = split_spec(spec["method"], "task.method")
    if spec.get("noise"):
        options["spatial_dropout"] = spec["noise"]
    known = options_model(current_registry().get("method", name, base)).model_fields
    if spec.get("soft") and "temperature" in known:
        options.setdefault("temperature", spec["soft"]["temperature"])
    method, made_from = made_method({"name": name, **options}, base)
    changed = [part for part in ("source", "method_files") if made_from.get(part) != spec.get(part)]
    if changed:
        raise PluginError(
            f"{name}, a module that it imports or a file that it reads has changed since the run began; start a new run"
        )
    return method


def made_method(spec: Spec, base: Path) -> tuple[Any, dict[str, str]]:
    """A method, and the digests of what it is made from if it is a user's own: its source, and files that it reads."""
    with record_inputs() as inputs:
        method = build("method", spec, base, "task.method")
    own = not type(method).__module__.startswith("lmassay.")
    of_class = provenance.source_digest(type(method)) if own else ""
    made_from = {"source": provenance.joint_digest(of_class, inputs.sources.get("method", ""))}
    if inputs.files:
        made_from["method_files"] = digest([sha256(file) for file in inputs.files])
    return method, {part: value for part, value in made_from.items() if value}


def extra_examples(task: NluTask, path: str | None) -> list[InputExample]:
    """Further examples to train on, from a file in the task's format."""
    return [] if path is None else task.processor._create_examples(path, "train")


def taught(
    train: list[InputExample],
    unlabeled: list[InputExample],
    task: NluTask,
    spec: Mapping[str, Any],
    given: Sequence[Mapping[str, Any]],
) -> tuple[list[InputExample], list[str]]:
    """The examples that are learned from, the given ones and what earlier trainings make of the unlabeled; and what
    could not be had."""
    teachers = [selftraining.Teacher(_unlabeled_logits(outcome)) for outcome in given]
    if spec.get("soft"):
        soft = selftraining.merged_logits(teachers).tolist()
        return [replace(example, logits=logits) for example, logits in zip(unlabeled, soft, strict=True)], []
    pseudo = spec.get("pseudo")
    if not pseudo:
        return train, []
    new = int(len(train) * pseudo["scale"] - len(train))
    sizes = selftraining.label_sizes([str(example.label) for example in train], task.labels, new)
    recipe = selftraining.Recipe(pseudo["logits_percentage"], pseudo["n_most_likely"])
    luck = selftraining.chance(spec["seed"] + pseudo["draw"])
    drawn = selftraining.draw(teachers, task.labels, sizes, luck, recipe)
    return train + [replace(unlabeled[pick.index], label=pick.label) for pick in drawn.examples], list(drawn.notes)


def _unlabeled_logits(outcome: Mapping[str, Any]) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(outcome["choices"][0]["unlabeled_logits"], dtype=np.float64)


def _by_name(method: Any, work: Callable[[], T]) -> T:
    """What a method's own code does; a failure in a class of the user's own names it."""
    try:
        return work()
    except (LmassayError, OSError):
        raise
    except Exception as error:
        if type(method).__module__.startswith("lmassay."):
            raise
        raise PluginError(f"the method {type(method).__name__} failed: {error_with_location(error)}") from error


def _course(fitted: Any) -> dict[str, Any]:
    course = getattr(fitted, "course", None)
    if course is None:
        return {}
    return {
        "updates": course.updates,
        "losses": [short(loss) for loss in course.losses],
        "learning_rates": [short(rate) for rate in course.learning_rates],
        "curve": [[step, scores] for step, scores in course.curve],
    }


def _choices(
    fitted: Any, lesson: Lesson, spec: Mapping[str, Any], unlabeled: Sequence[InputExample]
) -> list[dict[str, Any]]:
    """What each evaluation interval chose, tested. Intervals that chose the same weights are tested once."""
    rows: list[dict[str, Any]] = []
    tested: dict[int, dict[str, Any]] = {}
    for choice in getattr(fitted, "choices", None) or [Choice(None, 0, {}, 0)]:
        if choice.step not in tested:
            use = getattr(fitted, "use", None)
            if callable(use):
                use(choice)
            tested[choice.step] = _tested(fitted, lesson, spec, unlabeled)
        found = tested[choice.step]
        row = {"every": choice.every, "step": choice.step, "stopped_at": choice.stopped_at, **found}
        rows.append(row)
    return rows


def _tested(fitted: Any, lesson: Lesson, spec: Mapping[str, Any], unlabeled: Sequence[InputExample]) -> dict[str, Any]:
    task, tested = lesson.task, lesson.asked
    found: dict[str, Any] = {}
    for name, examples in (("test", tested), ("dev", lesson.dev)):
        logits = _logits(fitted, examples, task) if examples else []
        told = getattr(fitted, "answers", None)
        answers = told(examples) if callable(told) and examples else None
        found |= {name: judged(task, examples, logits, answers), f"{name}_logits": logits}
    if spec.get("label_unlabeled"):
        found["unlabeled_logits"] = _logits(fitted, unlabeled, task)
    return found


def _logits(fitted: Any, examples: Sequence[InputExample], task: NluTask) -> list[list[float]]:
    import numpy as np

    found: NDArray[np.float64] = np.asarray(fitted.logits(examples), dtype=np.float64)
    if found.shape != (len(examples), len(task.labels)):
        raise PluginError(f"the classifier gave logits of shape {found.shape} for {len(examples)} examples")
    if not np.isfinite(found).all():
        raise ModelError("the classifier gave a score that is no finite number; lower the learning rate")
    return [[short(value) for value in row] for row in found]


def short(value: float) -> float:
    """A number with the digits that single precision has."""
    return float(f"{value:.8g}")
