"""From runs to trials: which trainings belong to one method, strategy and task, and which are still wanting.

A run is one configuration of hyper-parameters, its rows are trainings. Runs of one model and method, alike in all that
is no hyper-parameter, make a study; within it they are sorted by strategy (an arm) and task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lmassay.evaluations.fewshot.outcomes import plain
from lmassay.evaluations.fewshot.protocol.judging import Trial
from lmassay.evaluations.fewshot.protocol.regimes import Regime
from lmassay.evaluations.fewshot.protocol.split_strategies import SINGLE
from lmassay.evaluations.fewshot.protocol.splits import strategy_name
from lmassay.evaluations.fewshot.protocol.table import ABBREVIATIONS
from lmassay.evaluations.fewshot.task import Splits
from lmassay.plugins.options import split_spec
from lmassay.types import Row, canonical

ONLY = "the only one"
TOGETHER = ("ensemble", "distillation")
"""Regimes whose patterns are judged together, so that none of them can be chosen."""
# What is no hyper-parameter: runs that differ in these answer different questions.
_FIXED = {
    "labelled": ["train", "dev32"],
    "test": "dev",
    "test_examples": None,
    "unlabeled": None,
    "extra": None,
    "seed": 42,
}
_NO_METRIC = ("test", "dev", "updates", "chosen_step")


@dataclass(frozen=True, slots=True)
class Tried:
    """A few-shot run: ``task`` is that part of its configuration, ``signature`` the parts of its signature."""

    run: str
    model: str
    task: Mapping[str, Any]
    rows: Sequence[Row]
    signature: Mapping[str, str] = field(default_factory=dict)
    status: str = "done"
    limit: int | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Training:
    """A trial with the row it comes from; ``wanting`` says why there is no result."""

    trial: Trial
    run: str
    id: str
    details: Mapping[str, Any] = field(default_factory=dict)
    chosen_step: float | None = None
    wanting: str = ""
    failed: bool = False
    """True where it was tried; a training that is wanting without having failed was not reached yet."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All trainings of one task under one strategy."""

    trainings: Sequence[Training]
    splits: tuple[int, ...]
    """Those that every configuration should have."""
    notes: tuple[str, ...] = ()

    @property
    def trials(self) -> list[Trial]:
        return [training.trial for training in self.trainings]

    @property
    def wanting(self) -> list[Training]:
        return [training for training in self.trainings if training.wanting]

    def reasons(self) -> list[tuple[str, bool, int]]:
        """Why results are wanting, whether the training failed, and how many trainings that concerns."""
        found: dict[tuple[str, bool], set[tuple[str, str]]] = {}
        for t in self.wanting:
            # One training serves all evaluation intervals.
            found.setdefault((t.wanting, t.failed), set()).add((t.run, t.id.partition("-every-")[0]))
        return [(why, failed, len(which)) for (why, failed), which in found.items()]

    def sizes(self, part: str) -> tuple[int, ...]:
        """How many examples ``n_train``, ``n_dev`` or ``n_test`` had, each number once."""
        return tuple(sorted({int(t.details[part]) for t in self.trainings if part in t.details}))


@dataclass(frozen=True, slots=True)
class Arm:
    """A strategy with its settings; ``name`` tells it from the others of its study."""

    name: str
    options: Splits
    tasks: Mapping[str, Evidence]

    @property
    def strategy(self) -> str:
        return strategy_name(self.options.strategy)

    @property
    def k(self) -> int:
        return 1 if self.strategy in SINGLE else self.options.k

    @property
    def family(self) -> str:
        """Arms that differ in K alone have it in common."""
        return canonical({**self.options.model_dump(), "strategy": self.strategy, "k": None})


@dataclass(frozen=True, slots=True)
class Study:
    """One method with one model."""

    model: str
    method: str
    fixed: Mapping[str, Any]
    """What is no hyper-parameter and not as usual."""
    arms: Sequence[Arm]
    runs: Sequence[str]
    title: str = ""


def studies(tried: Iterable[Tried]) -> list[Study]:
    """The runs in order, sorted into studies. Of a training that was done twice, the later result counts."""
    found: dict[str, list[Tried]] = {}
    for run in tried:
        found.setdefault(_study_key(run), []).append(run)
    return _titled([_study(runs) for runs in found.values()])


# --- studies ----------------------------------------------------------------------------------------------------------


def _study_key(run: Tried) -> str:
    name, _ = split_spec(run.task.get("method", "pet"), "task.method")
    return canonical([run.model, run.signature.get("model"), name, _regime(run).name, _fixed(run)])


def _fixed(run: Tried) -> dict[str, Any]:
    return {key: run.task[key] for key, usual in _FIXED.items() if run.task.get(key, usual) != usual}


def _regime(run: Tried) -> Regime:
    return Regime.model_validate(run.task.get("regime") or {})


def _options(run: Tried) -> Splits:
    return Splits.model_validate(run.task.get("splits") or {})


def _study(runs: Sequence[Tried]) -> Study:
    first = runs[0]
    regime = _regime(first).name
    name, _ = split_spec(first.task.get("method", "pet"), "task.method")
    named = _named([params for run in runs for params, _ in _configurations(run)])
    by_options: dict[str, list[Tried]] = {}
    for run in runs:
        options = _options(run)
        key = {**options.model_dump(), "strategy": strategy_name(options.strategy)}
        by_options.setdefault(canonical(key), []).append(run)
    names = _arm_names([_options(members[0]) for members in by_options.values()])
    tasks = _task_names(runs)
    arms = [
        Arm(title, _options(members[0]), _evidence(members, tasks, title, named))
        for title, members in zip(names, by_options.values(), strict=True)
    ]
    order = list(ABBREVIATIONS)
    arms.sort(key=lambda arm: (order.index(arm.strategy), arm.k) if arm.strategy in order else (len(order), arm.k))
    method = name if regime == "default" else f"{name}, {regime}"
    return Study(first.model, method, _fixed(first), arms, [run.run for run in runs])


def _titled(found: Sequence[Study]) -> list[Study]:
    """Method and model, with what else tells studies apart that share both."""
    plain_titles = [f"{study.method} on {study.model}" if study.model != "none" else study.method for study in found]
    titles = []
    for study, title in zip(found, plain_titles, strict=True):
        told = [f"{key} {plain(value)}" for key, value in study.fixed.items()]
        if plain_titles.count(title) > 1 and not told:
            told = ["as usual" if any(s.fixed for s in found) else study.runs[0].rpartition("-")[2]]
        titles.append(f"{title} ({', '.join(told)})" if told else title)
    twice = {title for title in titles if titles.count(title) > 1}
    return [
        replace(study, title=f"{title}, {study.runs[0].rpartition('-')[2]}" if title in twice else title)
        for study, title in zip(found, titles, strict=True)
    ]


def _arm_names(options: Sequence[Splits]) -> list[str]:
    """The strategy, and what else differs between arms of the same one."""
    names = []
    for own in options:
        strategy = strategy_name(own.strategy)
        alike = [other for other in options if strategy_name(other.strategy) == strategy]
        told = [
            text
            for key, text in (
                ("k", f"K={own.k}"),
                ("ratio", f"ratio {own.ratio:g}"),
                ("stratify", "stratified" if own.stratify else "not stratified"),
                ("grouped", "grouped" if own.grouped else "grouped as published"),
            )
            if len({getattr(other, key) for other in alike}) > 1
        ]
        names.append(", ".join([ABBREVIATIONS.get(strategy, strategy), *told]) if told else strategy)
    return names


def _task_names(runs: Sequence[Tried]) -> dict[str, str]:
    """Run id → task, with the digest of its data only where data of the same name differ."""
    whole = {run.run: run.signature.get("data", "") or str(run.task["data"]) for run in runs}
    short = {key: key.rpartition(".")[0] or key for key in set(whole.values())}
    short |= {str(run.task["data"]): str(run.task["data"]) for run in runs if "data" not in run.signature}
    clear = list(short.values())
    return {run: short[key] if clear.count(short[key]) == 1 else key for run, key in whole.items()}


# --- configurations ---------------------------------------------------------------------------------------------------


def _configurations(run: Tried) -> list[tuple[dict[str, Any], dict[str, str]]]:
    """The configurations that a run holds, each with the groups of its rows: one a pattern and evaluation interval."""
    shared = _hyper_parameters(run)
    seats = list(dict.fromkeys(_seat(row) for row in run.rows)) or _planned_seats(run)
    found = []
    for pattern, every in seats:
        own = {"pattern": _number(pattern)} if pattern is not None else {}
        own |= {"every": _number(every)} if every is not None else {}
        groups = {} if pattern is None else {"pattern": pattern}
        found.append(({**shared, **own}, groups | ({} if every is None else {"every": every})))
    return found


def _hyper_parameters(run: Tried) -> dict[str, Any]:
    _, options = split_spec(run.task.get("method", "pet"), "task.method")
    regime = {k: v for k, v in (run.task.get("regime") or {}).items() if k not in ("name", "repetitions")}
    if _regime(run).name not in TOGETHER:
        # Each pattern is a configuration of its own, told by the rows.
        regime.pop("patterns", None)
    ratios = options.pop("eval_ratios", None)
    every = ratios[0] if isinstance(ratios, list) and len(ratios) == 1 else ratios
    options |= {"every": every} if isinstance(every, int | float) else {}
    return {**options, **{f"regime.{key}": value for key, value in regime.items()}}


def _seat(row: Row) -> tuple[str | None, str | None]:
    return row.example.groups.get("pattern"), row.example.groups.get("every")


def _planned_seats(run: Tried) -> list[tuple[str | None, str | None]]:
    """What a run without rows would hold, as far as its configuration says."""
    regime = _regime(run)
    _, options = split_spec(run.task.get("method", "pet"), "task.method")
    own = options.get("pattern")
    patterns: list[Any] = [*regime.patterns] or [own]
    ratios = options.get("eval_ratios")
    everys: list[Any] = ratios if isinstance(ratios, list) and len(ratios) > 1 else [None]
    if regime.name in TOGETHER:
        patterns = [None]
    return [
        (None if pattern is None else str(pattern), None if every is None else f"{every:g}")
        for pattern in patterns
        for every in everys
    ]


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _named(every: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """A name for each set of hyper-parameters: those of them that differ."""
    keys = list(dict.fromkeys(key for params in every for key in params))
    varying = []
    for key in keys:
        values = {canonical(params[key]) for params in every if key in params}
        # An option that some leave to its default varies; what only finished trainings tell does not by its absence.
        unsaid = key not in ("pattern", "every") and any(key not in params for params in every)
        if len(values) + unsaid > 1:
            varying.append(key)
    names = {}
    for params in every:
        told = [f"{key}={_plain(params[key])}" if key in params else f"{key} by default" for key in varying]
        told = [text for text in told if text not in ("pattern by default", "every by default")]
        names[canonical(params)] = ", ".join(told) or ONLY
    return names


def _plain(value: Any) -> str:
    return canonical(value) if isinstance(value, Mapping) else plain(value)


# --- evidence ---------------------------------------------------------------------------------------------------------


def _evidence(
    runs: Sequence[Tried], tasks: Mapping[str, str], strategy: str, named: Mapping[str, str]
) -> dict[str, Evidence]:
    found: dict[str, list[Tried]] = {}
    for run in runs:
        found.setdefault(tasks[run.run], []).append(run)
    return {task: _of_task(members, strategy, named) for task, members in found.items()}


def _of_task(runs: Sequence[Tried], strategy: str, named: Mapping[str, str]) -> Evidence:
    options = _options(runs[0])
    single = strategy_name(options.strategy) in SINGLE
    splits = {0} if single else set(range(options.k))
    if any(run.limit is not None for run in runs):
        splits = {_split(row) for run in runs for row in run.rows}
    trainings: dict[str, Training] = {}
    seen: set[str] = set()
    for run in runs:
        for training in _trainings(run, strategy, sorted(splits), named):
            # The same training in two runs: a result is never given up for its absence.
            order, trial = run.task.get("sampler_seeds"), training.trial
            place = canonical([trial.configuration, order, trial.split])
            tried = training.failed or not training.wanting
            key = canonical([place, training.id]) if tried else place
            seen |= {place} if tried else set()
            if key not in trainings or not training.wanting or trainings[key].wanting:
                trainings[key] = training
    # One that was not reached in this run may have been done in another.
    trainings = {key: training for key, training in trainings.items() if key not in seen}
    notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    if not options.grouped:
        notes.append("examples of one question or passage may stand in both train and dev (grouped: false)")
    return Evidence(list(trainings.values()), tuple(sorted(splits)), tuple(notes))


def _trainings(run: Tried, strategy: str, splits: Sequence[int], named: Mapping[str, str]) -> Iterable[Training]:
    for params, groups in _configurations(run):
        name = named[canonical(params)]
        rows = [row for row in run.rows if all(row.example.groups.get(key) == value for key, value in groups.items())]
        yield from (_training(run, strategy, name, params, row) for row in rows)
        for split in sorted(set(splits) - {_split(row) for row in rows}):
            lost = Trial(strategy, name, params, split, math.nan)
            pattern = f"-p{groups['pattern']}" if "pattern" in groups else ""
            yield Training(lost, run.run, f"split-{split}{pattern}", wanting=f"the run is {run.status}")


def _training(run: Tried, strategy: str, name: str, params: Mapping[str, Any], row: Row) -> Training:
    split, values = _split(row), row.score.values
    if row.state != "scored":
        why = row.error or "; ".join(row.score.unscored.values()) or "no result"
        return Training(
            Trial(strategy, name, params, split, math.nan), run.run, row.example.id, wanting=why, failed=True
        )
    on_dev = {key.removeprefix("dev_"): value for key, value in values.items() if key.startswith("dev_")}
    on_test = {k: v for k, v in values.items() if not k.startswith("dev_") and k not in _NO_METRIC}
    trial = Trial(strategy, name, params, split, values.get("dev"), values.get("test"), on_dev, on_test)
    return Training(trial, run.run, row.example.id, row.score.details, values.get("chosen_step"))


def _split(row: Row) -> int:
    return int(row.example.groups["split"])
