"""The axis of evaluation intervals costs nothing: one training serves two, with what two trainings would choose.

    python benchmarks/fewshot.py intervals [--task wic] [--updates 24] [--test-examples 64] [--repeats 3]

CPU seconds of training and looking at the dev set, with a random BERT of 11M parameters: both intervals in one
training against the finer one alone. The test is apart: weights that differ are tested each, here as there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.fewshot_common import SMALL, headline, save_bert, verdict
from benchmarks.fewshot_training import TARGETS, ours, task_spec, trainings

from lmassay.models.hf.model import HuggingFace

FINE, COARSE = 1 / 12, 1 / 6
MOST = 1.1


def train(folder: Path, task: str, ratios: Any, updates: int, test_examples: int) -> tuple[dict[str, Any], float]:
    """The outcome of the first split's training, and the CPU seconds without the test."""
    method = {"max_steps": updates, "eval_ratios": ratios, "learning_rate": 1e-4}
    request = trainings(task_spec(task, method, test_examples))[0]
    outcome, spent = ours(HuggingFace(str(folder), device="cpu", threads=1), request)
    return outcome, spent["train"] + spent["dev"]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TARGETS, default="wic")
    parser.add_argument("--updates", type=int, default=24, help="a multiple of 12 (default: %(default)s)")
    parser.add_argument("--test-examples", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3, help="the least time counts (default: %(default)s)")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(headline())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bert"
        print(f"BERT of {save_bert(folder, SMALL)}, {options.task}, {options.updates} updates of 16")
        sizes = (options.updates, options.test_examples)
        train(folder, options.task, FINE, 12, 8)  # the first training of a process also loads libraries
        # In turns, and the least of each: whatever else the machine does only adds to it.
        rounds = [
            [train(folder, options.task, ratios, *sizes) for ratios in (FINE, [FINE, COARSE])]
            for _ in range(options.repeats)
        ]
        (fine, both), cpus = (outcome for outcome, _ in rounds[0]), [[cpu for _, cpu in pair] for pair in rounds]
        cpu_fine, cpu_both = (min(column) for column in zip(*cpus, strict=True))
        coarse, cpu_coarse = train(folder, options.task, COARSE, *sizes)
    same = [a == b for a, b in zip(both["choices"], [*fine["choices"], *coarse["choices"]], strict=True)]
    for ratio, choice in zip((FINE, COARSE), both["choices"], strict=True):
        print(f"  every {round(ratio * options.updates)}: weights of update {choice['step']}, dev {choice['dev']}")
    print(f"  choices, dev and test logits equal those of two trainings: {'yes' if all(same) else 'NO'}")
    done = [f"{found['updates']} updates, {len(found['curve'])} looks" for found in (both, fine)]
    print(f"  work: both {done[0]}; finer alone {done[1]}")
    print(f"  CPU-s: both {cpu_both:.1f}, finer alone {cpu_fine:.1f}, coarser alone {cpu_coarse:.1f}", end="")
    print(f"; two trainings would take {(cpu_fine + cpu_coarse) / cpu_both:.2f} times as much")
    return 0 if verdict("both against the finer alone", cpu_both / cpu_fine, MOST, most=True) and all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
