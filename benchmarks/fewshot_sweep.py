"""A sweep of 8 trainings: two processes and a local Dask cluster of two workers against one process.

    python benchmarks/fewshot.py sweep [--updates 24] [--test-examples 64] [--without dask]

Runs `lmassay run` as a user would, each time with a new results folder. It measures wall time, for which it needs two
idle cores, and the CPU-seconds of all processes, which are meaningful on a busy machine too. The sweep has four
learning rates and two splits of RTE; the model is a random BERT of 11M parameters, and each training uses one thread.
The results must be the same. The cluster is started before the measurement; its workers import torch during it, as the
two processes do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Sweep:
    """What a sweep took, and its results."""

    wall: float
    cpu: float
    results: list[Any]


def run(config: Path, name: str, *options: str, cpu_of_workers: Callable[[], float] = lambda: 0.0) -> Sweep:
    """Run the whole command. ``cpu_of_workers`` is what workers that are not its children have used so far."""
    results = config.with_name(name)
    command = [sys.executable, "-m", "lmassay", "run", str(config), "--results", str(results), *options]
    wall, cpu = time.perf_counter(), cpu_of_children() + cpu_of_workers()
    done = subprocess.run(command, capture_output=True, text=True)
    wall, cpu = time.perf_counter() - wall, cpu_of_children() + cpu_of_workers() - cpu
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    with Store(results) as store:
        run_results = [(record.label, record.results) for record in store.runs()]
        rows = [row for record in store.runs() for row in store.rows(record.id)]
    load = os.getloadavg()[0]
    print(f"  {name}: {wall:.1f} s, {cpu:.1f} CPU-seconds for {len(rows)} trainings, load {load:.1f}", flush=True)
    return Sweep(wall, cpu, run_results)


def cpu_of_children() -> float:
    """Return the CPU-seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def on_dask(config: Path) -> Sweep:
    from distributed import Client, LocalCluster

    options = {"processes": True, "dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:

        def cpu_of_workers() -> float:
            return float(sum(client.run(time.process_time).values()))

        address = ("--executor", "dask", "--scheduler", cluster.scheduler_address)
        return run(config, "dask", *address, cpu_of_workers=cpu_of_workers)


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
        one = run(config, "one")
        two = run(config, "two", "--workers", "2")
        met = [verdict("two processes, times as fast as one", one.wall / two.wall, TIMES)]
        same = [two.results == one.results]
        if options.without != "dask":
            dask = on_dask(config)
            met.append(verdict("Dask, time against two processes", dask.wall / two.wall, SLOWER, most=True))
            print(f"  Dask, CPU-seconds against two processes: {dask.cpu / two.cpu:.2f}")
            same.append(dask.results == one.results)
    print(f"  results are the same: {'yes' if all(same) else 'NO'}")
    return 0 if all(met) and all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
