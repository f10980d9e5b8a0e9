"""Few-shot sweeps in a moment: rows as trainings leave them, without a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmassay.evaluations.fewshot.protocol.trials import Tried
from lmassay.storage.store import Store
from lmassay.types import Example, NewRun, Result, Row, Score, provenance_of

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


def tried(run: str, options: Mapping[str, Any], rows: Sequence[Row], **more: Any) -> Tried:
    return Tried(run, more.pop("model", "tiny"), options, rows, **more)


def sweep(
    scores: Mapping[float, Sequence[tuple[float, float]]], data: str = "superglue/rte", **options: Any
) -> list[Tried]:
    """One run a learning rate, with (dev, test) of every split."""
    return [
        tried(
            f"run-{data.rpartition('/')[2]}-{rate:g}-{len(found)}",
            task(data, method={"name": "pet", "learning_rate": rate}, **options),
            [row(split, dev, test) for split, (dev, test) in enumerate(found)],
        )
        for rate, found in scores.items()
    ]


# Dev ranks them as test does, but for the last two.
GRID = {
    1e-5: [(0.50, 0.51), (0.54, 0.53)],
    2e-5: [(0.60, 0.61), (0.66, 0.65)],
    3e-5: [(0.70, 0.74), (0.72, 0.76)],
    4e-5: [(0.74, 0.70), (0.76, 0.72)],
    5e-5: [(0.40, 0.45), (0.44, 0.43)],
}


def fill(folder: Path, runs: Sequence[Tried], sweep_id: str = "one", notes: Sequence[str] = ()) -> Path:
    """A results folder that holds the runs."""
    with Store(folder, create=True) as store:
        for number, run in enumerate(runs):
            config = {"task": dict(run.task), "model": None, "seed": 0, "limit": run.limit}
            provenance = {"signature": dict(run.signature), "headline": ["acc", "dev"], "command": ["run"]}
            provenance |= {"notes": list(notes)} if notes else {}
            new = NewRun(
                f"{run.run}-{number}",
                sweep_id,
                "",
                "fewshot",
                run.model,
                run.run,
                config,
                "s",
                provenance_of(provenance),
                None,
            )
            store.add_run(new)
            store.add_rows(new.id, list(enumerate(run.rows)))
            if run.rows:
                store.set_results(new.id, [Result("acc", "overall", 0.5, 0.4, 0.6, len(run.rows))])
            store.set_status(new.id, run.status)
    return folder


def _id(groups: Mapping[str, str]) -> str:
    pattern = f"-p{groups['pattern']}" if "pattern" in groups else ""
    every = f"-every-{groups['every']}" if "every" in groups else ""
    return f"split-{groups['split']}{pattern}{every}"
