"""The accuracy on BLiMP with three kinds of clusters, as docs/syntax.md shows it.

    lmassay data get blimp
    python benchmarks/blimp_clusters.py [--pairs 20] [--model smollm2] [-o FILE]

Runs the first pairs of each of BLiMP's 67 paradigms and writes how many of them the model gets right, by paradigm and
phenomenon. The three intervals follow from these counts. ``benchmarks/measured/blimp_clusters.tsv`` has the counts of
SmolLM2 (written by ``-o``), which takes a few minutes on two cores.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lmassay import evaluate
from lmassay.statistics.intervals import mean_estimate

COLUMNS = ("paradigm", "phenomenon", "right", "pairs")
Counts = dict[tuple[str, str], tuple[int, int]]
"""(paradigm, phenomenon) → right answers and pairs."""


def counts_of(model: str, pairs: int, results: Path) -> Counts:
    task = {"name": "minimal_pairs", "data": "blimp", "max_per_file": pairs}
    (run,) = evaluate({"task": task, "model": model}, results)
    counts: Counts = {}
    for row in run.rows():
        if row["state"] != "scored":
            continue
        key = (row["groups"]["paradigm"], row["groups"]["phenomenon"])
        right, total = counts.get(key, (0, 0))
        counts[key] = (right + int(row["scores"]["accuracy"]), total + 1)
    return counts


def intervals(counts: Counts) -> dict[str, tuple[float, float, float]]:
    """Clusters → accuracy, and both ends of its interval."""
    values: list[float] = []
    paradigms: list[int] = []
    phenomena: list[int] = []
    names = sorted({phenomenon for _, phenomenon in counts})
    for number, ((_, phenomenon), (right, pairs)) in enumerate(counts.items()):
        values += [1.0] * right + [0.0] * (pairs - right)
        paradigms += [number] * pairs
        phenomena += [names.index(phenomenon)] * pairs
    interval_by_clusters = {}
    for name, labels in (("none", None), ("paradigm", paradigms), ("phenomenon", phenomena)):
        groupings = [] if labels is None else [np.array(labels)]
        estimated = mean_estimate(np.array(values), groupings)
        low, high = estimated.interval()
        assert low is not None
        assert high is not None
        interval_by_clusters[name] = (estimated.value, low, high)
    return interval_by_clusters


def read(path: Path) -> Counts:
    counts: Counts = {}
    # The first two lines are the command and the header.
    for line in path.read_text(encoding="utf-8").splitlines()[2:]:
        paradigm, phenomenon, right, pairs = line.split("\t")
        counts[paradigm, phenomenon] = (int(right), int(pairs))
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20, help="of each paradigm (default: %(default)s)")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--results", type=Path, help="results folder, to continue an interrupted run")
    parser.add_argument("-o", "--output", type=Path, help="write the counts to this file")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as scratch:
        counts = counts_of(options.model, options.pairs, options.results or Path(scratch))
    if options.output is not None:
        command = f"# python benchmarks/blimp_clusters.py --pairs {options.pairs} --model {options.model}"
        lines = [command, "\t".join(COLUMNS)]
        for (paradigm, phenomenon), (right, pairs) in sorted(counts.items()):
            lines.append(f"{paradigm}\t{phenomenon}\t{right}\t{pairs}")
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for clusters, (value, low, high) in intervals(counts).items():
        print(f"{clusters:12}{value:.3f} [{low:.3f}, {high:.3f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
