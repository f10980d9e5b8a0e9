"""Plans a run: builds its task and model, and checks them before any request is sent or anything is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import lmassay
from lmassay.contracts import Model, Task, label_of
from lmassay.errors import ConfigError, PluginError
from lmassay.plugins.compatibility import as_model, as_task
from lmassay.plugins.declarations import expected_message
from lmassay.plugins.evaluations import base_task_of, metrics_of
from lmassay.plugins.members import abilities_text, checked_mapping, checked_notes
from lmassay.plugins.options import PluginInputs, Spec, record_inputs, split_spec
from lmassay.redaction import redact
from lmassay.running.config import RunConfig
from lmassay.running.sampling import check_sampling, sampled_design
from lmassay.storage import provenance
from lmassay.storage.files import sha256
from lmassay.types import CardPart, Design, Provenance, digest
from lmassay.types.wording import NO_MODEL, run_title


@dataclass(frozen=True)
class Plan:
    """A run that has been checked and can start."""

    config: RunConfig
    task: Task
    model: Model | None
    sweep_label: str = ""
    """The label that distinguishes the run from others of its sweep; empty if that of the task is enough."""
    sweep_model: str = ""
    """The label that distinguishes the model from others of the sweep; empty if the model's own label is enough."""
    task_inputs: PluginInputs = field(default_factory=PluginInputs)
    """The source and files that the task is made from, if it is a user's own class."""
    model_inputs: PluginInputs = field(default_factory=PluginInputs)
    """The source and files that the model is made from, if it is a user's own class."""

    @cached_property
    def depends_on(self) -> Mapping[str, str]:
        """The parts of the signature by name: everything that the results depend on.

        They are computed when they are first needed. A local model computes a digest of its weights and opens its
        tokenizer for this, which takes seconds and is not necessary for ``lmassay check``.
        """
        return _depends_on(self.config, self.task, self.model, self.task_inputs, self.model_inputs)

    @property
    def signature(self) -> str:
        """One line with everything that the results depend on."""
        return provenance.signature(self.depends_on)

    @property
    def notes(self) -> list[str]:
        """The notes of the task and the model for the user."""
        notes = list(checked_notes(f"the task {self.task.name}", self.task.notes()))
        if self.model is not None:
            notes += checked_notes(f"the model {self.model.name}", self.model.notes())
        return notes

    @property
    def facts(self) -> list[str]:
        """What ``lmassay check`` shows about the task and its model."""
        return list(checked_notes(f"the task {self.task.name}", self.task.facts(), "facts"))

    def provenance(self, card: CardPart | None = None) -> Provenance:
        """Return the provenance of a run that starts now; ``card`` is the card that the run is a part of, if any."""
        evaluation = self.task.evaluation
        return replace(
            provenance.snapshot(),
            signature=self.depends_on,
            evaluation="" if evaluation is None else evaluation.name,
            base_task=base_task_of(self.task),
            base_label=label_of(self.task),
            design=self.design,
            metrics=metrics_of(self.task),
            notes=tuple(self.notes),
            card=card,
        )

    @property
    def label(self) -> str:
        """The label of the run."""
        return self.sweep_label or label_of(self.task)

    @property
    def model_label(self) -> str:
        """The label of the model; ``none`` for a task without a model."""
        if self.sweep_model:
            return self.sweep_model
        if self.model is None:
            return NO_MODEL
        return label_of(self.model)

    @property
    def title(self) -> str:
        """The label of the run and that of the model; only the former if there is no model."""
        return run_title(self.label, self.model_label)

    @property
    def design(self) -> Design:
        """The task's design; repeated samples of one example form a cluster, because they are not independent."""
        return sampled_design(self.task.design, self.config.samples)

    @property
    def size(self) -> int | None:
        """The number of examples, where each counts as often as it is sampled; None if the task does not know it."""
        different_examples = self._different_examples
        if different_examples is None:
            return None
        return different_examples * self.config.samples

    @property
    def _different_examples(self) -> int | None:
        """The number of different examples: each counts once, however often it is sampled."""
        size = self.task.size()
        limit = self.config.limit
        if size is None or limit is None:
            return size
        return min(size, limit)

    def size_of(self, metric: str) -> int | None:
        """Return the number of different examples that can have a value of a metric.

        These are all examples, unless ``Task.is_about`` says otherwise. Unlike in ``size``, an example counts once,
        however often it is sampled. None if the size is unknown.
        """
        is_about_all_examples = type(self.task).is_about is Task.is_about
        if is_about_all_examples or self.size is None:
            return self._different_examples
        count = 0
        for example in islice(self.task.examples(), self.config.limit):
            if self.task.is_about(metric, example):
                count += 1
        return count


def plan(config: RunConfig) -> Plan:
    """Build the task and the model of a run and check everything that can be checked without sending a request."""
    with record_inputs() as task_inputs:
        task = as_task(config.build_task(), config.task)
    with record_inputs() as model_inputs:
        built_model = config.build_model()
    model = None if built_model is None else as_model(built_model, config.model)
    if model is not None:
        # This comes first, because the way in which a task asks (``answer_by: auto``) depends on the model, and what it
        # needs from the model depends on the way in which it asks.
        task.choose_for(model)
    # Mistakes in the configuration come before checks that read files and load tokenizers, which take longer.
    _check_fit(task, model)
    _check_budget(config, model)
    task.check()
    if model is not None:
        model.check()
        task.check_model(model)
    task.check_examples(config.limit)
    check_sampling(config, task, model)
    planned = Plan(config, task, model, task_inputs=task_inputs, model_inputs=model_inputs)
    if _is_users_own(task) or (model is not None and _is_users_own(model)):
        # A run reads these members only later. They are read here, so that a mistake in a user's class is reported now.
        _ = planned.depends_on
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
    """Check that the model can do what the task needs, and that it implements what it declares in ``can``."""
    if not task.needs:
        return
    if model is None:
        needs = abilities_text(task.needs)
        raise ConfigError(f"model: the task {task.name} needs a model that can {needs}; see `lmassay models`")
    cls = type(model)
    is_implemented = {
        "generate": cls.generate is not Model.generate,
        "logprobs": cls.logprobs is not Model.logprobs,
        "slot": cls.slot is not Model.slot,
        "gradients": cls.gradients is not Model.gradients,
    }
    claimed = [verb for verb in is_implemented if verb in model.can]
    not_implemented = [verb for verb in claimed if not is_implemented[verb]]
    if not_implemented:
        names = " and ".join(sorted(not_implemented))
        raise PluginError(f"the model {model.name} says that it can {names}, but has no such method")
    missing = task.needs - model.can
    if missing:
        advice = ""
        if "gradients" in missing:
            advice = "; only local causal and encoder-decoder models (name: hf) compute gradients"
        message = (
            f"model: {model.name} cannot {abilities_text(missing)}, which the task {task.name} needs; "
            f"it can {abilities_text(model.can)}{advice}"
        )
        remedy = model.remedy(missing)
        raise ConfigError(f"{message}; {remedy}" if remedy else message)


def _check_budget(config: RunConfig, model: Model | None) -> None:
    """Raise a ConfigError for a limit in USD if the prices of the model are unknown."""
    if not config.budget or config.budget.usd is None or model is None or not model.metered:
        return
    if model.prices is None:
        raise ConfigError(
            f"budget.usd: the prices of {label_of(model)} are unknown; give model.prices: {{input: …, output: …}} in "
            "USD per million tokens, or limit budget.tokens"
        )


def _depends_on(
    config: RunConfig, task: Task, model: Model | None, task_inputs: PluginInputs, model_inputs: PluginInputs
) -> dict[str, str]:
    """Return the parts of the signature by name."""
    signature = checked_mapping(f"the task {task.name}", "signature", task.signature())
    parts: dict[str, Any] = {"lmassay": lmassay.__version__, "task": f"{task.name}.{task.version}", **signature}
    parts |= _task_source(config, task, task_inputs)
    if model is not None:
        identity = model_identity(config, model, model_inputs)
        values = ",".join(f"{name}={value}" for name, value in identity.items() if name != "name")
        parts["model"] = f"{model.name}({values})"
    design = sampled_design(task.design, config.samples)
    clusters = dict.fromkeys([*design.clusters, *design.crossed.values()])
    interval_rule = config.settings.signature(list(clusters))
    if task.design.replicates is not None:
        # The correlation between repetitions that share data widens their intervals.
        correlations = sorted(task.design.replicates.correlation.items())
        interval_rule += ",replicates=" + "+".join(f"{metric}:{rho:.3g}" for metric, rho in correlations)
    parts |= {"limit": config.limit, "seed": config.seed, "ci": interval_rule}
    if config.samples > 1:
        parts["samples"] = config.samples
    parts["temperature"] = config.temperature
    texts: dict[str, str] = {}
    for name, value in parts.items():
        if value is not None:
            texts[name] = redact(provenance.signature_value(value))
    return texts


def _task_source(config: RunConfig, task: Task, inputs: PluginInputs) -> dict[str, str]:
    """Return the digests of the code and files of a user's own task or scorer; empty if there are none.

    The signature that a user's class itself returns may lack them, but a run must not be resumed after the code that
    scores its examples has changed.
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
    """Return what determines the model's answers; for a user's own class also its source, options and files.

    The ``identity`` of a user's class may leave out an option, or contain the name of a file but not its contents.
    Without these digests, such a model would get cached answers that were computed with other settings.
    """
    identity = dict(checked_mapping(f"the model {model.name}", "identity", model.identity()))
    named_file = inputs.sources.get("model", "")
    if _is_users_own(model) or named_file:
        _, options = split_spec(config.model or "", "model")
        identity |= {"source": _source_of(model, named_file), "options": digest(options)[:8]}
        files_digest = digest_of_model_files(config.model or "", config.base_dir, inputs)
        if files_digest:
            identity["files"] = files_digest
    try:
        digest(identity)
    except (TypeError, ValueError) as error:
        raise PluginError(f"the identity of the model {model.name} is not plain JSON: {error}") from None
    return identity


def digest_of_model_files(spec: Spec, base_dir: Path, inputs: PluginInputs) -> str:
    """Return a digest of the files that a user's own model names in its options or read when it was created.

    It is empty if there are none.
    """
    _, options = split_spec(spec, "model")
    files = [*_files_in(options, base_dir), *inputs.files]
    return _digest_of_files(files) if files else ""


def _source_of(plugin: Task | Model, named_file: str) -> str:
    """Return the digest of a plug-in's class and of the file that the configuration names.

    The two are the same unless the file only imports the class, or has a function that creates the plug-in.
    """
    of_class = provenance.source_digest(type(plugin)) if _is_users_own(plugin) else ""
    return provenance.joint_digest(of_class, named_file)


def _digest_of_files(files: Sequence[Path]) -> str:
    """Return eight hexadecimal digits that change with the contents of the files; each file counts once."""
    distinct = dict.fromkeys(file.resolve() for file in files)
    return digest([sha256(file) for file in distinct])[:8]


def _files_in(value: Any, base: Path) -> Iterator[Path]:
    """Yield the files that are named anywhere in the options."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _files_in(inner, base)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _files_in(inner, base)
    elif isinstance(value, str | Path):
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            # A text that is too long, contains a zero byte or names an unknown user's home raises one of these.
            path = base / Path(value).expanduser()
            if path.is_file():
                yield path
