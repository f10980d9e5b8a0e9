"""Two evaluation ratios cost no more than one: a single training serves both and makes the same choices.

    python benchmarks/fewshot.py intervals [--task wic] [--updates 24] [--test-examples 64] [--repeats 3]

Measures the CPU seconds of training and of evaluating on the dev set, with a random BERT of 11M parameters: both
intervals in one training, compared with the finer interval alone. The test set is not included, because the weights
that each interval chooses are tested separately in either case.
"""

from __future__ import annotations

import argparse
import math
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
    """Return the outcome of the first split's training, and its CPU seconds without the test."""
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
        # The first training of a process also loads libraries, so it is not measured.
        train(folder, options.task, FINE, 12, 8)
        # The two take turns, and the shortest time of each counts: other work on the machine can only make it longer.
        # The outcomes of all rounds are the same.
        fine: dict[str, Any] = {}
        both: dict[str, Any] = {}
        cpu_fine = cpu_both = math.inf
        for _ in range(options.repeats):
            fine, seconds = train(folder, options.task, FINE, *sizes)
            cpu_fine = min(cpu_fine, seconds)
            both, seconds = train(folder, options.task, [FINE, COARSE], *sizes)
            cpu_both = min(cpu_both, seconds)
        coarse, cpu_coarse = train(folder, options.task, COARSE, *sizes)
    choices_agree = both["choices"] == [*fine["choices"], *coarse["choices"]]
    for ratio, choice in zip((FINE, COARSE), both["choices"], strict=True):
        print(f"  every {round(ratio * options.updates)}: weights of update {choice['step']}, dev {choice['dev']}")
    print(f"  choices, dev and test logits equal those of two trainings: {'yes' if choices_agree else 'NO'}")
    print(f"  work: both {_work(both)}; finer alone {_work(fine)}")
    print(f"  CPU-s: both {cpu_both:.1f}, finer alone {cpu_fine:.1f}, coarser alone {cpu_coarse:.1f}", end="")
    print(f"; two trainings would take {(cpu_fine + cpu_coarse) / cpu_both:.2f} times as much")
    is_cheap = verdict("both against the finer alone", cpu_both / cpu_fine, MOST, most=True)
    return 0 if is_cheap and choices_agree else 1


def _work(outcome: dict[str, Any]) -> str:
    return f"{outcome['updates']} updates, {len(outcome['curve'])} evaluations"


if __name__ == "__main__":
    sys.exit(main())
