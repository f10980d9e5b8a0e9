"""What a run needs, built and checked before anything is asked or written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import lmassay
from lmassay.contracts import Model, Task, label_of
from lmassay.errors import ConfigError, PluginError
from lmassay.plugins.compatibility import as_model, as_task
from lmassay.plugins.declarations import expected_message
from lmassay.plugins.evaluations import base_task_of, metrics_of
from lmassay.plugins.members import checked_mapping, checked_notes
from lmassay.plugins.options import PluginInputs, record_inputs, split_spec
from lmassay.redaction import redact
from lmassay.running.config import RunConfig
from lmassay.storage import provenance
from lmassay.storage.files import sha256
from lmassay.types import CardPart, Provenance, digest


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that was checked and can start."""

    config: RunConfig
    task: Task
    model: Model | None
    depends_on: Mapping[str, str]
    """What the numbers depend on, by name: the parts of the signature."""
    sweep_label: str = ""
    """The label among the runs of a sweep, where it is more than that of the task."""
    sweep_model: str = ""
    """The model's label among the runs of a sweep, where it is more than the model's own."""
    model_inputs: PluginInputs = field(default_factory=PluginInputs)
    """What the model is made from, if it is a user's own."""

    @property
    def signature(self) -> str:
        return provenance.signature(self.depends_on)

    @property
    def notes(self) -> list[str]:
        """What the task and the model would have the user know before the run."""
        notes = list(checked_notes(f"the task {self.task.name}", self.task.notes()))
        if self.model is not None:
            notes += checked_notes(f"the model {self.model.name}", self.model.notes())
        return notes

    def provenance(self, card: CardPart | None = None) -> Provenance:
        """Where the numbers of a run that starts now come from."""
        evaluation = self.task.evaluation
        return replace(
            provenance.snapshot(),
            signature=self.depends_on,
            evaluation="" if evaluation is None else evaluation.name,
            base_task=base_task_of(self.task),
            base_label=label_of(self.task),
            design=self.task.design,
            metrics=metrics_of(self.task),
            notes=tuple(self.notes),
            card=card,
        )

    @property
    def label(self) -> str:
        return self.sweep_label or label_of(self.task)

    @property
    def model_label(self) -> str:
        if self.sweep_model:
            return self.sweep_model
        return "none" if self.model is None else label_of(self.model)

    @property
    def size(self) -> int | None:
        """Examples in all, where the task knows without reading them."""
        size = self.task.size()
        limit = self.config.limit
        return size if limit is None or size is None else min(size, limit)

    def size_of(self, metric: str) -> int | None:
        """Examples that a metric is about; all of them, unless the task says otherwise."""
        if type(self.task).is_about is Task.is_about or self.size is None:
            return self.size
        count = 0
        for example in islice(self.task.examples(), self.config.limit):
            if self.task.is_about(metric, example):
                count += 1
        return count


def plan(config: RunConfig) -> Plan:
    """Build task and model and check all that can be checked without asking anything."""
    with record_inputs() as task_inputs:
        task = as_task(config.build_task(), config.task)
    with record_inputs() as model_inputs:
        built_model = config.build_model()
    model = None if built_model is None else as_model(built_model, config.model)
    _check_fit(task, model)
    _check_budget(config, model)
    task.check()
    if model is not None:
        model.check()
        task.check_model(model)
    task.check_examples(config.limit)
    parts = _depends_on(config, task, model, task_inputs, model_inputs)
    planned = Plan(config, task, model, parts, model_inputs=model_inputs)
    if _is_users_own(task) or (model is not None and _is_users_own(model)):
        # What a run would ask for: a mistake there must be known before.
        _ = planned.notes
        _check_size(task)
    return planned


def _is_users_own(plugin: Task | Model) -> bool:
    return not type(plugin).__module__.startswith("lmassay.")


def _check_size(task: Task) -> None:
    size: Any = task.size()
    if size is not None and (not isinstance(size, int) or size < 0):
        raise PluginError(f"the task {task.name}: {expected_message('size()', 'a number of examples or None', size)}")


def _check_fit(task: Task, model: Model | None) -> None:
    if not task.needs:
        return
    if model is None:
        can = _list(task.needs)
        raise ConfigError(f"model: the task {task.name} needs a model that can {can}; see `lmassay models`")
    cls = type(model)
    written = {
        "generate": cls.generate is not Model.generate,
        "logprobs": cls.logprobs is not Model.logprobs,
        "slot": cls.slot is not Model.slot,
    }
    silent = [verb for verb, is_written in written.items() if verb in model.can and not is_written]
    if silent:
        raise PluginError(f"the model {model.name} says that it can {_list(silent)}, but has no such method")
    lacking = task.needs - model.can
    if lacking:
        raise ConfigError(
            f"model: {model.name} cannot {_list(lacking)}, which the task {task.name} needs; it can {_list(model.can)}"
        )


def _check_budget(config: RunConfig, model: Model | None) -> None:
    if not config.budget or config.budget.usd is None or model is None or not model.metered:
        return
    if model.prices is None:
        raise ConfigError(
            f"budget.usd: the prices of {label_of(model)} are unknown; give model.prices: {{input: …, output: …}} in "
            "USD for a million tokens, or limit budget.tokens"
        )


def _depends_on(
    config: RunConfig, task: Task, model: Model | None, task_inputs: PluginInputs, model_inputs: PluginInputs
) -> dict[str, str]:
    signature = checked_mapping(f"the task {task.name}", "signature", task.signature())
    parts: dict[str, Any] = {"lmassay": lmassay.__version__, "task": f"{task.name}.{task.version}", **signature}
    parts |= _task_source(config, task, task_inputs)
    if model is not None:
        identity = ",".join(f"{k}={v}" for k, v in model_identity(config, model, model_inputs).items() if k != "name")
        parts["model"] = f"{model.name}({identity})"
    clusters = dict.fromkeys([*task.design.clusters, *task.design.crossed.values()])
    interval_rule = config.settings.signature(list(clusters))
    if task.design.replicates is not None:
        # Repetitions that share data: the correlation that their intervals count with, by metric.
        shared = task.design.replicates.correlation
        interval_rule += ",replicates=" + "+".join(f"{metric}:{rho:.3g}" for metric, rho in sorted(shared.items()))
    parts |= {"limit": config.limit, "seed": config.seed, "ci": interval_rule}
    return {name: redact(provenance.signature_value(value)) for name, value in parts.items() if value is not None}


def _task_source(config: RunConfig, task: Task, inputs: PluginInputs) -> dict[str, str]:
    """What the scores of a user's own task or scorer depend on, besides what the task itself names.

    A run must not be resumed with another scoring than it began with.
    """
    parts: dict[str, str] = {}
    files = list(inputs.files)
    if "task" in inputs.sources:
        _, options = split_spec(config.task, "task")
        files = [*_files_in(options, config.base_dir), *files]
        parts["task_source"] = _source_of(task, inputs.sources["task"])
    if files:
        parts["task_files"] = _digest_of_files(files)
    return parts


def model_identity(config: RunConfig, model: Model, inputs: PluginInputs) -> dict[str, Any]:
    """What makes the model's answers its own; of a user's own class also its source, its options and its files.

    A class that forgets an option in ``identity``, or names a file there without saying what it holds, must not be
    served the answers of another setting.
    """
    identity = dict(checked_mapping(f"the model {model.name}", "identity", model.identity()))
    named_file = inputs.sources.get("model", "")
    if _is_users_own(model) or named_file:
        _, options = split_spec(config.model or "", "model")
        identity |= {"source": _source_of(model, named_file), "options": digest(options)[:8]}
        if files := [*_files_in(options, config.base_dir), *inputs.files]:
            identity["files"] = _digest_of_files(files)
    try:
        digest(identity)
    except (TypeError, ValueError) as error:
        raise PluginError(f"the identity of the model {model.name} is no plain JSON: {error}") from None
    return identity


def _source_of(plugin: Task | Model, named_file: str) -> str:
    """The digest of a plug-in's class and of the file that the configuration names.

    The two are the same unless the file only imports the class, or has a function that makes the plug-in.
    """
    of_class = provenance.source_digest(type(plugin)) if _is_users_own(plugin) else ""
    return provenance.joint_digest(of_class, named_file)


def _digest_of_files(files: Sequence[Path]) -> str:
    """Eight hex digits that change with the contents of the files; one that is named twice counts once."""
    distinct = dict.fromkeys(file.resolve() for file in files)
    return digest([sha256(file) for file in distinct])[:8]


def _files_in(value: Any, base: Path) -> Iterator[Path]:
    """The files that options name, in the order in which they do."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _files_in(inner, base)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _files_in(inner, base)
    elif isinstance(value, str | Path):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            # A long text, one with a zero byte or with the home of nobody is no name of a file, and asking says so.
            path = base / Path(value).expanduser()
            if path.is_file():
                yield path


def _list(verbs: Iterable[str]) -> str:
    return " and ".join(sorted(verbs))
