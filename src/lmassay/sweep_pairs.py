"""Two sweeps run by run: each run of the base command with the one of the new command that does the same."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from lmassay.store import RunRecord, Store


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

    A run is paired only where no other one of its sweep would do as well: a guess would judge the wrong run.
    """
    pairs: dict[str, RunRecord] = {}
    ours, theirs = list(base), list(new)
    for key in (_everything, _all_but_model, _label_and_model, _label):
        once = _unique(ours, key), _unique(theirs, key)
        for name in once[0].keys() & once[1].keys():
            before, after = once[0][name], once[1][name]
            pairs[before.id] = after
            ours.remove(before)
            theirs.remove(after)
    return Paired([(run, pairs[run.id]) for run in base if run.id in pairs], ours, theirs)


def listed(runs: Sequence[RunRecord]) -> str:
    """Such as ``a1 (charswap on a model), a2 (keyboard on a model)``."""
    return ", ".join(f"{run.id} ({run.label} on {run.model})" for run in runs)


Key = Callable[[RunRecord], Hashable]


def _unique(runs: Sequence[RunRecord], key: Key) -> dict[Hashable, RunRecord]:
    times = Counter(map(key, runs))
    return {key(run): run for run in runs if times[key(run)] == 1}


def _depends_on(run: RunRecord, *without: str) -> Hashable:
    parts = run.provenance.get("signature", {})
    kept = {name: value for name, value in parts.items() if name not in without}
    return run.task, run.label, json.dumps(kept, sort_keys=True, default=str)


def _everything(run: RunRecord) -> Hashable:
    return run.model, _depends_on(run)


def _all_but_model(run: RunRecord) -> Hashable:
    return _depends_on(run, "model")


def _label_and_model(run: RunRecord) -> Hashable:
    return run.task, run.label, run.model


def _label(run: RunRecord) -> Hashable:
    return run.task, run.label
