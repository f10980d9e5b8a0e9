"""Few-shot sweeps in a moment: rows as trainings leave them, without a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Result, Row, RunRecord, Score, provenance_from_dict

Run = tuple[RunRecord, Sequence[Row]]
"""A run and its rows, as they come out of a store."""

NAN = "the loss is no number after update 3"


def task(data: str = "superglue/rte", **options: Any) -> dict[str, Any]:
    return {"name": "fewshot", "data": data, "method": {"name": "pet"}, **options}


def row(split: int, dev: float | None = 0.5, test: float = 0.5, *, pattern: int | None = 0, **more: Any) -> Row:
    """A training that ended well; ``every`` and ``metrics`` in ``more``."""
    every, metrics = more.get("every"), more.get("metrics", ("acc",))
    groups = {"split": str(split)} | ({} if pattern is None else {"pattern": str(pattern)})
    groups |= {} if every is None else {"every": f"{every:g}"}
    values = dict.fromkeys(metrics, test) | {"test": test, "updates": 8.0, "chosen_step": 4.0}
    values |= {} if dev is None else {f"dev_{metric}": dev for metric in metrics} | {"dev": dev}
    curve = [[step, dict.fromkeys(metrics, (dev or 0.5) - 0.02 * (step - 4) ** 2 / 16)] for step in (2, 4, 6, 8)]
    details = {"n_train": 32, "n_dev": 32, "n_test": 277, "curve": curve, "losses": [0.7, 0.6]}
    return Row(Example(_id(groups), {}, None, groups), "scored", Score(values, {}, details))


def failed(split: int, error: str = NAN, pattern: int | None = 0) -> Row:
    groups = {"split": str(split)} | ({} if pattern is None else {"pattern": str(pattern)})
    return Row(Example(_id(groups), {}, None, groups), "error", error=error)


def fewshot_run(
    name: str,
    options: Mapping[str, Any],
    rows: Sequence[Row],
    *,
    model: str = "tiny",
    status: str = "done",
    limit: int | None = None,
    signature: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Run:
    config = {"task": dict(options), "model": None, "seed": 0, "limit": limit}
    provenance = {"signature": dict(signature or {}), "headline": ["acc", "dev"], "command": ["run"], "notes": notes}
    record = RunRecord(
        id=name,
        sweep="one",
        name="",
        task="fewshot",
        model=model,
        label=name,
        status=status,
        config=config,
        signature="s",
        provenance=provenance_from_dict(provenance),
        results=[],
        note="",
        planned=None,
        created="",
        finished=None,
    )
    return record, rows


def sweep(
    scores: Mapping[float, Sequence[tuple[float, float]]], data: str = "superglue/rte", **options: Any
) -> list[Run]:
    """One run a learning rate, with (dev, test) of every split."""
    return [
        fewshot_run(
            f"run-{data.rpartition('/')[2]}-{rate:g}-{len(split_scores)}",
            task(data, method={"name": "pet", "learning_rate": rate}, **options),
            [row(split, dev, test) for split, (dev, test) in enumerate(split_scores)],
        )
        for rate, split_scores in scores.items()
    ]


# Dev ranks them as test does, but for the last two.
GRID = {
    1e-5: [(0.50, 0.51), (0.54, 0.53)],
    2e-5: [(0.60, 0.61), (0.66, 0.65)],
    3e-5: [(0.70, 0.74), (0.72, 0.76)],
    4e-5: [(0.74, 0.70), (0.76, 0.72)],
    5e-5: [(0.40, 0.45), (0.44, 0.43)],
}


def fill(folder: Path, runs: Sequence[Run], sweep_id: str = "one", notes: Sequence[str] = ()) -> Path:
    """A results folder that holds the runs."""
    with Store(folder, create=True) as store:
        for number, (record, rows) in enumerate(runs):
            new = NewRun(
                f"{record.id}-{number}",
                sweep_id,
                record.name,
                record.task,
                record.model,
                record.label,
                record.config,
                record.signature,
                replace(record.provenance, notes=tuple(notes)),
                None,
            )
            store.add_run(new)
            store.add_rows(new.id, list(enumerate(rows)))
            if rows:
                store.set_results(new.id, [Result("acc", "overall", 0.5, 0.4, 0.6, len(rows))])
            store.set_status(new.id, record.status)
    return folder


def _id(groups: Mapping[str, str]) -> str:
    pattern = f"-p{groups['pattern']}" if "pattern" in groups else ""
    every = f"-every-{groups['every']}" if "every" in groups else ""
    return f"split-{groups['split']}{pattern}{every}"
