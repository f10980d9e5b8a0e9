"""What can be known to be wrong with a few-shot run before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lmassay.errors import ConfigError
from lmassay.evaluations.fewshot.protocol.regimes import Regime
from lmassay.evaluations.fewshot.protocol.splits import Split
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


def check_unlabeled(data: str, task: NluTask, method: Any, regime: Regime) -> None:
    """Unlabeled examples that are asked for must be there."""
    wanted = regime.uses_unlabeled or getattr(method, "uses_unlabeled", False)
    if not wanted or task.has("unlabeled"):
        return
    key = "task.regime" if regime.uses_unlabeled else "task.method"
    own = data.endswith((".yaml", ".yml"))
    where = "name them under data: in the task's file" if own else "put unlabeled.jsonl beside the other files"
    raise ConfigError(f"{key}: this needs unlabeled examples, and {data} has none; {where}")


def check_regime(task: NluTask, name: str, method: Any, regime: Regime) -> None:
    """Whether a regime fits the task and the method, and the patterns exist."""
    if task.kind == "entities" and regime.name != "default":
        raise ConfigError(
            f"task.regime: answers of {task.name} are texts of each example, which can neither be averaged nor taught "
            f"as labels; {regime.name} does not fit, take default"
        )
    if regime.patterns and not hasattr(method, "pattern"):
        raise ConfigError(f"task.regime.patterns: the method {name} has no pattern; leave them out")
    if regime.name == "noisy_student" and not hasattr(method, "spatial_dropout"):
        raise ConfigError(f"task.regime.name: the method {name} cannot be made noisy; take ipet")
    check = getattr(method, "check_pattern", None)
    if not callable(check):
        return
    own: Any = getattr(method, "pattern", None)
    if own is None:
        return
    key, patterns = ("task.regime.patterns", regime.patterns) if regime.patterns else ("task.method.pattern", [own])
    for pattern in patterns:
        try:
            check(task, pattern)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from None


def check_lessons(method: Any, splits: Sequence[Split]) -> None:
    """Numbers of updates and looks that make no training of such a size."""
    check = getattr(method, "check_lesson", None)
    if not callable(check):
        return
    for split in splits:
        try:
            check(len(split.train), has_dev=bool(split.dev))
        except ConfigError as error:
            raise ConfigError(f"task.method.{error}") from None


def without_labels(tested: Sequence[InputExample]) -> list[str]:
    """A note if the test examples cannot be scored."""
    without = sum(example.label is None for example in tested)
    return [f"{without} of {len(tested)} test examples have no label: nothing is scored on test"] if without else []
