"""Which runs ``lmassay compare`` is about: those that were named, or two sweeps run by run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmassay.errors import UserError
from lmassay.statistics.sweep_pairs import listed, pair_sweeps, sweep_of
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
