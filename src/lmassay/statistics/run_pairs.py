"""Decides which runs are compared: those that the user named, or the runs of two sweeps, pair by pair.

A *sweep* is the set of runs that one command started.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from lmassay.errors import StoreError, UserError
from lmassay.plugins.evaluations import variation_of
from lmassay.storage.store import DAMAGED, Store
from lmassay.types import RunRecord

_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class RunPairs:
    """The pairs of a base run and the new run that is compared with it."""

    pairs: Sequence[tuple[RunRecord, RunRecord]]
    caveats: Sequence[str] = ()
    """Warnings about runs that are in no pair."""


def named_runs(
    base_store: Store, store: Store, names: Sequence[str], *, gated: bool, allow_incomplete: bool = False
) -> RunPairs:
    """Pair the first of the named runs, which is looked up in ``base_store``, with each of the others.

    For a gate (``gated``), ``latest latest`` means all runs of the latest sweep in each store, which are paired with
    each other. A single ``latest`` is an error if it is one of several runs of a sweep, because the gate would judge
    only that one.
    """
    stores = [base_store, *[store] * (len(names) - 1)]
    records: list[RunRecord] = []
    for run_store, name in zip(stores, names, strict=True):
        record = run_store.run(name)
        _require_undamaged(record)
        if any(record.id == earlier.id for earlier in records):
            raise UserError(
                f"{record.id} is given twice; a run compared with itself shows no difference, so give another run"
            )
        records.append(record)
    base, *others = records
    pairs = [(base, other) for other in others]
    if not gated:
        return RunPairs(pairs)
    sweeps: list[list[RunRecord]] = []
    for run_store, record, name in zip(stores, records, names, strict=True):
        if name == _LATEST:
            sweeps.append(sweep_of(run_store, record))
        else:
            sweeps.append([record])
    larger_sweeps = [sweep for sweep in sweeps if len(sweep) > 1]
    if not larger_sweeps:
        return RunPairs(pairs)
    if list(names) != [_LATEST, _LATEST]:
        sweep = larger_sweeps[0]
        raise UserError(
            f"the gate cannot judge: latest is one of {len(sweep)} runs of a command ({listed(sweep)}); name the runs "
            "you mean, or write latest latest with --base-results to judge all of them"
        )
    base_sweep, new_sweep = sweeps
    for record in (*base_sweep, *new_sweep):
        _require_undamaged(record)
    return _paired(base_sweep, new_sweep, allow_incomplete=allow_incomplete)


def _require_undamaged(record: RunRecord) -> None:
    if record.status == DAMAGED:
        raise StoreError(f"the run {record.id} is damaged: {record.note}")


def _paired(base: Sequence[RunRecord], new: Sequence[RunRecord], *, allow_incomplete: bool) -> RunPairs:
    """Pair two sweeps for a gate. Unless ``allow_incomplete`` is set, each base run must have a counterpart."""
    sweeps = pair_sweeps(base, new)
    unpaired = f"no run of the new command ({len(new)} runs) matches {listed(sweeps.only_base)} of the base"
    if not sweeps.pairs or (sweeps.only_base and not allow_incomplete):
        alternative = ", or give --allow-incomplete" if sweeps.pairs else ""
        raise UserError(f"the gate cannot judge: {unpaired}; name the runs to compare{alternative}")
    warnings = []
    if sweeps.only_base:
        warnings.append(unpaired)
    if sweeps.only_new:
        warnings.append(f"not judged, because the base has no matching run: {listed(sweeps.only_new)}")
    return RunPairs(sweeps.pairs, warnings)


# --- two sweeps: pair each run of the base command with the equivalent run of the new command -------------------------


@dataclass(frozen=True, slots=True)
class SweepPairs:
    """The pairs of runs of two sweeps, and the runs that are in no pair."""

    pairs: Sequence[tuple[RunRecord, RunRecord]]
    only_base: Sequence[RunRecord]
    only_new: Sequence[RunRecord]


def sweep_of(store: Store, record: RunRecord) -> list[RunRecord]:
    """All runs of the command that started this run, in their order."""
    runs = []
    for run in store.runs():
        is_same_sweep = bool(record.sweep) and run.sweep == record.sweep
        if run.id == record.id or is_same_sweep:
            runs.append(run)
    return runs


def pair_sweeps(base: Sequence[RunRecord], new: Sequence[RunRecord]) -> SweepPairs:
    """Pair each run of the base sweep with the equivalent run of the new sweep.

    Two runs are equivalent if they have the same key. Several keys are tried, the strictest first: everything that a
    run depends on; everything but the model; label and model; and the label alone. Labels are compared first with the
    options that a sweep varies, then without them, because the same run has another label in a sweep over other
    options. If one of the runs is from an early version, the options of the tasks are compared instead of the labels.

    A run is paired only if it is the only one of its sweep with this key, because a guess could compare the wrong runs.
    A label identifies a run only if no other run of the sweep has it, not even a run that is already paired. Otherwise,
    if each sweep had one attack at two strengths and only one strength were in both, the two runs with other strengths
    would be paired.
    """
    new_run_of: dict[str, RunRecord] = {}
    unpaired_base = list(base)
    unpaired_new = list(new)
    by_options = (_configured, _configured_but_model)
    by_label = (_label_and_model, _label, _base_label_and_model, _base_label)
    # From the strictest key to the loosest.
    for key in (_everything, _signature, _all_but_model, *by_options, *by_label):
        if key in by_label:
            candidates_base = _unique(base, key)
            candidates_new = _unique(new, key)
        else:
            candidates_base = _unique(unpaired_base, key)
            candidates_new = _unique(unpaired_new, key)
        for name in candidates_base.keys() & candidates_new.keys():
            before = candidates_base[name]
            after = candidates_new[name]
            if key in by_options and _have_comparable_labels(before, after):
                # Options stand in for labels, so they are used only where labels cannot be compared.
                continue
            are_unpaired = before in unpaired_base and after in unpaired_new
            if are_unpaired and _identity(before) == _identity(after):
                new_run_of[before.id] = after
                unpaired_base.remove(before)
                unpaired_new.remove(after)
    pairs = [(run, new_run_of[run.id]) for run in base if run.id in new_run_of]
    return SweepPairs(pairs, unpaired_base, unpaired_new)


def listed(runs: Sequence[RunRecord]) -> str:
    """The runs as a text: ``a1 (prompt 1 on a model), a2 (charswap on a model, attack charswap(rate:0.3|seed:0))``."""
    described = []
    for run in runs:
        identity = _identity(run)
        detail = f", {variation_of(run).identity} {identity}" if identity else ""
        described.append(f"{run.id} ({run.title}{detail})")
    return ", ".join(described)


Key = Callable[[RunRecord], Hashable]


def _have_comparable_labels(before: RunRecord, after: RunRecord) -> bool:
    """False if only one of the runs is from an early version: equivalent runs may then have different labels."""
    return bool(before.provenance.base_label) == bool(after.provenance.base_label)


def _identity(run: RunRecord) -> object:
    """The part of the signature, such as the attack, that distinguishes a run from others of its sweep.

    None if its evaluation does not name one.
    """
    return run.depends_on.get(variation_of(run).identity)


def _unique(runs: Sequence[RunRecord], key: Key) -> dict[Hashable, RunRecord]:
    """A dict from key to run, without the runs that share their key with another run."""
    counts = Counter(map(key, runs))
    return {key(run): run for run in runs if counts[key(run)] == 1}


def _all_parts(run: RunRecord, *without: str) -> tuple[str, str, str]:
    """The task, the label, and the signature without the parts ``without``."""
    # A newer version of lmassay, or another method for intervals ("ci"), does not make it a different run. Caveats
    # report such differences.
    left_out = (*without, "lmassay", "ci")
    parts = {name: value for name, value in run.depends_on.items() if name not in left_out}
    # The attack in the signature is more precise than the label that is derived from it.
    label = "" if _identity(run) else run.base_label
    return run.task, label, _canonical(parts)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _everything(run: RunRecord) -> Hashable:
    return run.model, _all_parts(run)


def _signature(run: RunRecord) -> Hashable:
    """Everything but the name of the model: the model has another name in a sweep over its options."""
    return _all_parts(run)


def _all_but_model(run: RunRecord) -> Hashable:
    return _all_parts(run, "model")


def _configured(run: RunRecord) -> Hashable:
    """Everything, but with the task's options instead of the label, which was built differently in early versions."""
    task, _, signature = _all_parts(run)
    return run.model, task, signature, _canonical(run.config.get("task"))


def _configured_but_model(run: RunRecord) -> Hashable:
    task, _, signature = _all_parts(run, "model")
    return task, signature, _canonical(run.config.get("task"))


def _label_and_model(run: RunRecord) -> Hashable:
    return *_label(run), run.model


def _label(run: RunRecord) -> tuple[object, ...]:
    return run.task, _identity(run) or run.base_label, run.label.removeprefix(run.base_label)


def _base_label_and_model(run: RunRecord) -> Hashable:
    return *_base_label(run), run.model


def _base_label(run: RunRecord) -> tuple[object, ...]:
    return run.task, _identity(run) or run.base_label
