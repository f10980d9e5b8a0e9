"""Which runs are compared: those that were named, or two sweeps run by run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from lmassay.errors import UserError
from lmassay.plugins.evaluations import variation_of
from lmassay.storage.store import Store
from lmassay.types import RunRecord

_LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Named:
    """Base runs with the new runs that are held against them, and what to tell about the choice."""

    pairs: Sequence[tuple[RunRecord, RunRecord]]
    caveats: Sequence[str] = ()


def named_runs(
    base_store: Store, store: Store, names: Sequence[str], *, gated: bool, allow_incomplete: bool = False
) -> Named:
    """The first run with each of the others. A gate is not content with the last run of a sweep: it takes all."""
    stores = [base_store, *[store] * (len(names) - 1)]
    records = [home.run(name) for home, name in zip(stores, names, strict=True)]
    ids = [record.id for record in records]
    twice = next((run for run in ids if ids.count(run) > 1), None)
    if twice is not None:
        raise UserError(f"{twice} is given twice; a run compared with itself tells nothing")
    base, *others = records
    if not gated:
        return Named([(base, other) for other in others])
    sweeps = [
        sweep_of(home, record) if name == _LATEST else [record]
        for home, record, name in zip(stores, records, names, strict=True)
    ]
    if all(len(sweep) == 1 for sweep in sweeps):
        return Named([(base, other) for other in others])
    if list(names) != [_LATEST, _LATEST]:
        one = next(sweep for sweep in sweeps if len(sweep) > 1)
        raise UserError(
            f"the gate cannot judge: latest is one of {len(one)} runs of a command ({listed(one)}); name the runs that "
            "are meant, or write latest latest with --base-results to judge all of them"
        )
    return _paired(*sweeps, allow_incomplete=allow_incomplete)


def _paired(base: Sequence[RunRecord], new: Sequence[RunRecord], *, allow_incomplete: bool) -> Named:
    found = pair_sweeps(base, new)
    alone = f"no run of the new command ({len(new)} runs) does the same as {listed(found.only_base)} of the base"
    if not found.pairs or (found.only_base and not allow_incomplete):
        more = ", or give --allow-incomplete" if found.pairs else ""
        raise UserError(f"the gate cannot judge: {alone}; name the runs that are to be compared{more}")
    told = [alone] if found.only_base else []
    if found.only_new:
        told.append(f"nothing in the base to compare with, so not judged: {listed(found.only_new)}")
    return Named(found.pairs, told)


# --- two sweeps: each run of the base command with the one of the new command that does the same ----------------------


@dataclass(frozen=True, slots=True)
class Paired:
    """The pairs, and what is left over on either side."""

    pairs: Sequence[tuple[RunRecord, RunRecord]]
    only_base: Sequence[RunRecord]
    only_new: Sequence[RunRecord]


def sweep_of(store: Store, record: RunRecord) -> list[RunRecord]:
    """All runs of the command that made a run, in their order."""
    return [run for run in store.runs() if run.id == record.id or (record.sweep and run.sweep == record.sweep)]


def pair_sweeps(base: Sequence[RunRecord], new: Sequence[RunRecord]) -> Paired:
    """Pair runs by all that they depend on, or else by all but the model, by label and model, or by label alone.

    A label is first taken whole, with the options that its sweep varies; then without them, for a sweep over other
    options gives the same run another label.

    A run is paired only where no other one of its sweep would do as well: a guess would judge the wrong run. A label is
    a name only where no other run of the sweep has it, not even one that is paired already: of two strengths of an
    attack, the one left over is not the same as another strength.
    """
    pairs: dict[str, RunRecord] = {}
    ours, theirs = list(base), list(new)
    by_options = (_configured, _configured_but_model)
    by_label = (_label_and_model, _label, _base_label_and_model, _base_label)
    for key in (_everything, _signature, _all_but_model, *by_options, *by_label):
        among = (base, new) if key in by_label else (ours, theirs)
        once = [_unique(runs, key) for runs in among]
        for name in once[0].keys() & once[1].keys():
            before, after = once[0][name], once[1][name]
            if key in by_options and _made_labels_alike(before, after):
                continue
            if before in ours and after in theirs and _identity(before) == _identity(after):
                pairs[before.id] = after
                ours.remove(before)
                theirs.remove(after)
    return Paired([(run, pairs[run.id]) for run in base if run.id in pairs], ours, theirs)


def listed(runs: Sequence[RunRecord]) -> str:
    """Such as ``a1 (prompt 1 on a model), a2 (charswap on a model, attack charswap(rate:0.3|seed:0))``."""
    described = []
    for run in runs:
        identity = _identity(run)
        detail = f", {variation_of(run).identity} {identity}" if identity else ""
        described.append(f"{run.id} ({run.label} on {run.model}{detail})")
    return ", ".join(described)


Key = Callable[[RunRecord], Hashable]


def _made_labels_alike(before: RunRecord, after: RunRecord) -> bool:
    """False for a run of an early version and a new one: their labels may differ though they do the same."""
    return bool(before.provenance.base_label) == bool(after.provenance.base_label)


def _identity(run: RunRecord) -> object:
    """The part of a run's signature that tells it from others of its sweep, where its evaluation names one."""
    return run.depends_on.get(variation_of(run).identity)


def _unique(runs: Sequence[RunRecord], key: Key) -> dict[Hashable, RunRecord]:
    times = Counter(map(key, runs))
    return {key(run): run for run in runs if times[key(run)] == 1}


def _all_parts(run: RunRecord, *without: str) -> tuple[str, str, str]:
    parts = run.depends_on
    # A new version of the toolkit is told, but it makes no other run.
    kept = {name: value for name, value in parts.items() if name not in (*without, "lmassay", "ci")}
    # An attack says more than the label that is made of it.
    label = "" if _identity(run) else run.base_label
    return run.task, label, _canonical(kept)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _everything(run: RunRecord) -> Hashable:
    return run.model, _all_parts(run)


def _signature(run: RunRecord) -> Hashable:
    """Everything but what the model is called: a sweep over its options gives it another label."""
    return _all_parts(run)


def _all_but_model(run: RunRecord) -> Hashable:
    return _all_parts(run, "model")


def _configured(run: RunRecord) -> Hashable:
    """Everything, with the task's options in place of the label, which early versions made in another way."""
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
