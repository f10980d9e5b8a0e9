"""Two sweeps run by run: each run of the base command with the one of the new command that does the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from lmassay.plugins.evaluations import variation_of
from lmassay.storage.store import Store
from lmassay.types import RunRecord


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

    A run is paired only where no other one of its sweep would do as well: a guess would judge the wrong run. A label is
    a name only where no other run of the sweep has it, not even one that is paired already: of two strengths of an
    attack, the one left over is not the same as another strength.
    """
    pairs: dict[str, RunRecord] = {}
    ours, theirs = list(base), list(new)
    for key in (_everything, _all_but_model, _label_and_model, _label):
        among = (base, new) if key in (_label_and_model, _label) else (ours, theirs)
        once = [_unique(runs, key) for runs in among]
        for name in once[0].keys() & once[1].keys():
            before, after = once[0][name], once[1][name]
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


def _identity(run: RunRecord) -> object:
    """The part of a run's signature that tells it from others of its sweep, where its evaluation names one."""
    return run.depends_on.get(variation_of(run).identity)


def _unique(runs: Sequence[RunRecord], key: Key) -> dict[Hashable, RunRecord]:
    times = Counter(map(key, runs))
    return {key(run): run for run in runs if times[key(run)] == 1}


def _depends_on(run: RunRecord, *without: str) -> Hashable:
    parts = run.depends_on
    # A new version of the toolkit is told, but it makes no other run.
    kept = {name: value for name, value in parts.items() if name not in (*without, "lmassay")}
    # An attack says more than the label that is made of it.
    label = "" if _identity(run) else run.label
    return run.task, label, json.dumps(kept, sort_keys=True, default=str)


def _everything(run: RunRecord) -> Hashable:
    return run.model, _depends_on(run)


def _all_but_model(run: RunRecord) -> Hashable:
    return _depends_on(run, "model")


def _label_and_model(run: RunRecord) -> Hashable:
    return run.task, _identity(run) or run.label, run.model


def _label(run: RunRecord) -> Hashable:
    return run.task, _identity(run) or run.label
