"""The record of a run: its configuration, status, results and provenance."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lmassay.types.design import Design, Settings, design_from_dict
from lmassay.types.metrics import Metric, metric_as_dict, metric_from_dict
from lmassay.types.scores import OVERALL, Result
from lmassay.types.wording import NO_MODEL, run_title


@dataclass(frozen=True, slots=True)
class CardPart:
    """What a run records about the card to which it belongs.

    A card (`lmassay card`) runs all evaluations on one or several models and summarises them on one page.
    """

    size: str
    """The size of the card: ``quick``, ``standard`` or ``full``."""
    absent: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """A dict from model to a dict from evaluation to the reason why the evaluation does not apply to the model."""
    data: str = "own"
    """``own`` for the sentences that come with lmassay, ``published`` for published data sets."""
    language: str = "en"
    """The language of the data."""
    models: Sequence[str] = ()
    """The models of the card, in the order in which the user named them; empty for cards of earlier versions."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers of a run come from: software, machine, command, inputs and the declarations of its task."""

    versions: Mapping[str, str] = field(default_factory=dict)
    """A dict from package to version."""
    platform: str = ""
    """The operating system."""
    machine: str = ""
    """The processor architecture."""
    cpus: int | None = None
    """The number of processors."""
    command: tuple[str, ...] = ()
    """The arguments of the command line."""
    signature: Mapping[str, str] = field(default_factory=dict)
    """The parts of the signature by name: everything that the numbers depend on."""
    evaluation: str | None = None
    """The evaluation to which the task belongs. Empty if it belongs to none; None for runs of early versions, which did
    not record it."""
    base_task: str = ""
    """The name of the evaluation's task that was run, even if a plug-in extends that task and has another name; empty
    if the task belongs to no evaluation."""
    base_label: str = ""
    """The run's label without the options that the sweep varies; empty in runs of early versions."""
    design: Design = field(default_factory=Design)
    """The design that the task declares."""
    metrics: tuple[Metric, ...] = ()
    """The metrics that the task and its evaluation declare."""
    notes: tuple[str, ...] = ()
    """Notes of the task and the model for the user."""
    card: CardPart | None = None
    """The card to which the run belongs, if any."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as plain JSON; the fields of the design are stored next to the others."""
        data: dict[str, Any] = {
            "versions": dict(self.versions),
            "platform": self.platform,
            "machine": self.machine,
            "cpus": self.cpus,
            "command": list(self.command),
            "signature": dict(self.signature),
            "base_task": self.base_task,
            **self.design.as_dict(),
            "metrics": [metric_as_dict(metric) for metric in self.metrics],
            "notes": list(self.notes),
        }
        if self.evaluation is not None:
            data["evaluation"] = self.evaluation
        if self.base_label:
            data["base_label"] = self.base_label
        if self.card is not None:
            data["card"] = dataclasses.asdict(self.card)
        return data


def provenance_from_dict(data: Mapping[str, Any]) -> Provenance:
    """Read what :meth:`Provenance.as_dict` wrote; fields that an early version did not store stay empty."""
    card = data.get("card")
    evaluation = data.get("evaluation")
    return Provenance(
        versions=dict(data.get("versions") or {}),
        platform=str(data.get("platform") or ""),
        machine=str(data.get("machine") or ""),
        cpus=data.get("cpus"),
        command=tuple(data.get("command") or ()),
        signature=dict(data.get("signature") or {}),
        evaluation=None if evaluation is None else str(evaluation),
        base_task=str(data.get("base_task") or ""),
        base_label=str(data.get("base_label") or ""),
        design=design_from_dict(data),
        metrics=tuple(metric_from_dict(stored) for stored in data.get("metrics") or ()),
        notes=tuple(data.get("notes") or ()),
        card=None if card is None else CardPart(**card),
    )


@dataclass(frozen=True, slots=True)
class NewRun:
    """The part of a run's record that is known before it starts. :class:`RunRecord` describes the fields."""

    id: str
    sweep: str
    name: str
    task: str
    model: str
    label: str
    config: Mapping[str, Any]
    signature: str
    provenance: Provenance
    planned: int | None


@dataclass(frozen=True, slots=True)
class Annotation:
    """The note and the tags that a user gave to a run."""

    note: str = ""
    """Free text."""
    tags: tuple[str, ...] = ()
    """Short names by which runs are selected."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is stored: configuration, status, provenance and results, without its examples."""

    id: str
    """A unique id, such as ``20260101-120000-charswap-1a2b3c``."""
    sweep: str
    """The id of the sweep: all runs of one command have the same one."""
    name: str
    """The name of the configuration."""
    task: str
    """The name of the task."""
    model: str
    """The label of the model; ``none`` for a task without one."""
    label: str
    """A short name, such as ``charswap``, that distinguishes the run from others of its sweep."""
    status: str
    """One of

    - ``waiting``: recorded, but not started;
    - ``running``;
    - ``done``;
    - ``incomplete``: finished, but with errors, or no example could be scored;
    - ``stopped``: the budget was reached;
    - ``cancelled``: the user pressed Ctrl-C;
    - ``failed``: an exception ended it;
    - ``interrupted``: its process died;
    - ``damaged``: something that is stored about it, such as its record or its results, is not what lmassay wrote.
    """
    config: Mapping[str, Any]
    """The configuration of this run. If the user gave a list of values, it has only the value of this run."""
    signature: str
    """One line with everything that the numbers depend on."""
    provenance: Provenance
    """Where the numbers come from."""
    results: Sequence[Result]
    """The results; empty until the run is finished."""
    note: str
    """If the run is not done, the reason. The note that the user wrote is in :attr:`annotation`."""
    planned: int | None
    """The number of examples, if it was known before the run started."""
    created: str
    """When the run was recorded, in ISO format."""
    finished: str | None
    """When the run ended, in ISO format; None while it is waiting or running."""
    mark: str = ""
    """A mark such as ``[b]`` that distinguishes runs with different settings when they are shown together. It is not
    stored."""
    annotation: Annotation = field(default_factory=Annotation)
    """The user's note and tags."""

    @property
    def title(self) -> str:
        """The name of the run in sentences and headings: label and model, or only the label without a model."""
        return run_title(self.label, self.model)

    @property
    def has_model(self) -> bool:
        """Whether the run's task has a model."""
        return self.model not in ("", NO_MODEL)

    @property
    def model_cell(self) -> str:
        """The model in the column of a table; a dash if there is none."""
        return self.model if self.has_model else "–"

    @property
    def design(self) -> Design:
        """The design that the run's task declares."""
        return self.provenance.design

    @property
    def unit(self) -> str:
        """A singular noun for what the run scores: ``example``, or ``split`` in few-shot runs."""
        return self.design.unit

    @property
    def depends_on(self) -> Mapping[str, str]:
        """The parts of the signature by name: everything that the numbers depend on."""
        return self.provenance.signature

    @property
    def base_task(self) -> str:
        """The name of the evaluation's task that was run, even if a plug-in extends that task and has another name.

        For tasks that do not belong to an evaluation, and for runs of early versions, it is the run's own task.
        """
        return self.provenance.base_task or self.task

    @property
    def base_label(self) -> str:
        """The label without the options that the sweep varies; in runs of early versions, the whole label."""
        return self.provenance.base_label or self.label

    @property
    def settings(self) -> Settings:
        """The settings for intervals. For those that an early version did not record, the defaults are used."""
        recorded: dict[str, Any] = {}
        for field_name in ("confidence", "resamples", "seed"):
            if field_name in self.config:
                recorded[field_name] = self.config[field_name]
        return Settings(**recorded)

    def result(self, metric: str, group: str = OVERALL) -> Result | None:
        """Return the result of a metric, over all examples or in one group; None if there is none."""
        for result in self.results:
            if result.metric == metric and result.group == group:
                return result
        return None

    def as_json(self) -> dict[str, Any]:
        """Return the document that commands print with ``--json``."""
        return {
            "run": self.id,
            "task": self.task,
            "model": self.model,
            "label": self.label,
            "status": self.status,
            # The user's note. ``self.note``, the reason for the status, is not part of the document.
            "note": self.annotation.note,
            "tags": list(self.annotation.tags),
            "signature": self.signature,
            "results": [result.as_dict() for result in self.results],
        }
