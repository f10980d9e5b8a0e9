"""Few-shot runs under the protocol: read from the store, sorted into studies, judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmassay.evaluations.fewshot.protocol.judging import Verdict, judge
from lmassay.evaluations.fewshot.protocol.stability import StabilityPoint, point_of, stability
from lmassay.evaluations.fewshot.protocol.trials import Arm, Evidence, Study, Tried, studies
from lmassay.statistics.intervals import Settings
from lmassay.storage.store import Store
from lmassay.types import RunRecord

TASK = "fewshot"


@dataclass(frozen=True, slots=True)
class JudgedArm:
    """A strategy with its verdicts by task, and what they would be with other numbers of splits."""

    arm: Arm
    verdicts: Mapping[str, Verdict]
    curves: Mapping[str, Sequence[StabilityPoint]]
    by_sweeps: bool
    """True where every K was run by itself; else the first splits of the largest stand for it."""

    def evidence(self, task: str) -> Evidence:
        return self.arm.tasks[task]


@dataclass(frozen=True, slots=True)
class JudgedStudy:
    study: Study
    arms: Sequence[JudgedArm]
    settings: Settings

    @property
    def title(self) -> str:
        return self.study.title

    @property
    def verdicts(self) -> dict[str, Mapping[str, Verdict]]:
        return {judged.arm.name: judged.verdicts for judged in self.arms}

    @property
    def families(self) -> list[JudgedArm]:
        """One arm a strategy: of several that differ in K alone the one with the most splits."""
        last = {judged.arm.family: judged for judged in sorted(self.arms, key=lambda judged: judged.arm.k)}
        return [judged for judged in self.arms if judged in last.values()]

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(task for judged in self.arms for task in judged.verdicts))


def is_fewshot(record: RunRecord) -> bool:
    return record.base_task == TASK and isinstance(record.config.get("task"), Mapping)


def tried(store: Store, record: RunRecord) -> Tried:
    """A run of the store as the protocol sees it."""
    task: Mapping[str, Any] = record.config["task"]
    notes = record.provenance.notes
    signature = record.depends_on
    rows = list(store.rows(record.id))
    return Tried(record.id, record.model, task, rows, signature, record.status, record.config.get("limit"), notes)


def judged_studies(store: Store, records: Iterable[RunRecord]) -> list[JudgedStudy]:
    """The few-shot runs among the records, judged."""
    chosen = [record for record in records if is_fewshot(record)]
    if not chosen:
        return []
    return [judged_study(study, chosen[0].settings) for study in studies(tried(store, record) for record in chosen)]


def judged_study(study: Study, settings: Settings) -> JudgedStudy:
    verdicts = {
        arm.name: {task: judge(found.trials, settings, found.splits) for task, found in arm.tasks.items()}
        for arm in study.arms
    }
    return JudgedStudy(study, [_judged(arm, study.arms, verdicts, settings) for arm in study.arms], settings)


def _judged(
    arm: Arm, arms: Sequence[Arm], verdicts: Mapping[str, Mapping[str, Verdict]], settings: Settings
) -> JudgedArm:
    family = sorted((other for other in arms if other.family == arm.family), key=lambda other: other.k)
    own = verdicts[arm.name]
    if len(family) > 1:
        curves = {task: [point_of(verdicts[o.name][task]) for o in family if task in verdicts[o.name]] for task in own}
        return JudgedArm(arm, own, curves, by_sweeps=True)
    found = {task: stability(evidence.trials, settings) for task, evidence in arm.tasks.items()}
    return JudgedArm(arm, own, {task: points for task, points in found.items() if len(points) > 1}, by_sweeps=False)
