"""A sweep of 8 trainings: two processes and a local Dask cluster of two workers against one process.

    python benchmarks/fewshot.py sweep [--updates 24] [--test-examples 64] [--without dask]

Runs `lmassay run` as a user would, each time with a new results folder, and measures wall-clock time, so it needs two
idle cores. The sweep has four learning rates and two splits of RTE; the model is a random BERT of 11M parameters, and
each training uses one thread. The results must be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.fewshot_common import FOLDERS, SMALL, fewglue, headline, save_bert, verdict

from lmassay.storage.store import Store

TIMES, SLOWER = 1.7, 1.1


def write_config(folder: Path, model: Path, updates: int, test_examples: int) -> Path:
    method = {
        "name": "pet",
        "max_steps": updates,
        "eval_ratios": 0.25,
        "patience": 1000,
        "learning_rate": [1e-5, 2e-5, 5e-5, 1e-4],
    }
    task: dict[str, Any] = {
        "name": "fewshot",
        "data": "rte",
        "data_dir": str(fewglue() / FOLDERS["rte"]),
        "method": method,
    }
    task |= {"splits": {"k": 2}, "test_examples": test_examples}
    path = folder / "sweep.yaml"
    path.write_text(
        json.dumps({"task": task, "model": {"name": "hf", "model": str(model), "device": "cpu", "threads": 1}}),
        encoding="utf-8",
    )
    return path


def run(config: Path, name: str, *crew: str) -> tuple[float, list[Any]]:
    """Seconds of the whole command, and its results."""
    results = config.with_name(name)
    command = [sys.executable, "-m", "lmassay", "run", str(config), "--results", str(results), *crew]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    with Store(results) as store:
        found = [(record.label, record.results) for record in store.runs()]
        rows = [row for record in store.runs() for row in store.rows(record.id)]
    print(f"  {name}: {seconds:.1f} s for {len(rows)} trainings, load {os.getloadavg()[0]:.1f}", flush=True)
    return seconds, found


def on_dask(config: Path) -> tuple[float, list[Any]]:
    from distributed import LocalCluster

    options = {"processes": True, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        return run(config, "dask", "--executor", "dask", "--scheduler", cluster.scheduler_address)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=24, help="in a training (default: %(default)s)")
    parser.add_argument("--test-examples", type=int, default=64)
    parser.add_argument("--without", choices=("dask",), help="leave it out")
    options = parser.parse_args(argv)
    print(headline())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bert"
        print(f"BERT of {save_bert(folder, SMALL)}, RTE, {options.updates} updates of 16 in a training")
        config = write_config(Path(scratch), folder, options.updates, options.test_examples)
        one, expected = run(config, "one")
        two, found = run(config, "two", "--workers", "2")
        met = [verdict("two processes, times as fast as one", one / two, TIMES), found == expected]
        if options.without != "dask":
            cluster, found = on_dask(config)
            met += [verdict("Dask, time against two processes", cluster / two, SLOWER, most=True), found == expected]
    print(f"  results are the same: {'yes' if all(met[1::2]) else 'NO'}")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
