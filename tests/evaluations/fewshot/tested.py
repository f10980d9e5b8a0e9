"""Few-shot runs with given answers on each test, without a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lmassay.evaluations.fewshot.protocol.overlap import replicates
from lmassay.storage.store import Store
from lmassay.types import Design, Example, NewRun, PerTestScores, Provenance, Result, Row, RunRecord, Score

DESIGN = Design(
    clusters=("split",),
    headline=("acc", "dev"),
    pair_by=("split",),
    replicates=replicates(["acc"], "multi_splits", 4, 0.5),
)


def answers(rates: Sequence[float], tests: int = 100) -> list[list[int]]:
    """Answers of each split: the first tests are right, up to the share that the rate gives."""
    return [[int(place < round(rate * tests)) for place in range(tests)] for rate in rates]


def rows(right: Sequence[Sequence[int]], *, tests: str = "t", keeps_tests: bool = True, **values: float) -> list[Row]:
    """A training on each split."""
    split_rows = []
    for split, of_split in enumerate(right):
        accuracy = float(np.mean(of_split))
        on_tests = PerTestScores(tests, {"acc": of_split, "test": of_split}) if keeps_tests else None
        scores = {"acc": accuracy, "test": accuracy, "dev": 0.5 + split / 100, **values}
        score = Score(scores, {}, {"n_test": len(of_split)}, test_scores=on_tests)
        split_rows.append(Row(Example(f"split-{split}", {}, None, {"split": str(split)}), "scored", score))
    return split_rows


def add_run(
    store: Store,
    name: str,
    rows: Sequence[Row],
    method: Any = "pet",
    design: Design = DESIGN,
    results: Sequence[Result] = (),
) -> RunRecord:
    config = {"task": {"name": "fewshot", "data": "rte", "method": method}}
    provenance = replace(Provenance(), design=design)
    store.add_run(NewRun(name, "sweep", "n", "fewshot", "m", name, config, "sig", provenance, len(rows)))
    store.add_rows(name, list(enumerate(rows)))
    store.set_results(name, list(results))
    store.set_status(name, "done")
    return store.run(name)
