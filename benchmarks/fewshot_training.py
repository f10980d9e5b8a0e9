"""A whole training of PET against FewNLU's loop, on the same splits.

    python benchmarks/fewshot.py training [--tasks rte wic] [--updates 21] [--test-examples 277]

K = 2 splits of 64 examples of FewGLUE, 21 updates of 16 examples, an evaluation on the dev set every 4 updates and the
test at the end, with a random BERT of 11M parameters. Times are CPU seconds of one thread and include imports.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from benchmarks.fewshot_common import (
    FOLDERS,
    SMALL,
    WINDOW,
    clocked,
    fewglue,
    headline,
    save_bert,
    task_of,
    verdict,
)
from benchmarks.fewshot_original import Original, Trained

from lmassay.evaluations.fewshot import trainer
from lmassay.evaluations.fewshot.methods import training
from lmassay.evaluations.fewshot.task import FewShot, Splits
from lmassay.models.hf.model import HuggingFace
from lmassay.types import Train

TARGETS = {"rte": 5.5, "wic": 12.0}
EVERY = 4
PARTS = ("train", "dev", "test")


@contextmanager
def watched(module: Any, name: str, spent: dict[str, float], part: str) -> Iterator[None]:
    """Add the CPU seconds of a function of a module to ``spent[part]`` while the block lasts."""
    inner: Callable[..., Any] = getattr(module, name)

    def outer(*arguments: Any, **more: Any) -> Any:
        outcome, took = clocked(lambda: inner(*arguments, **more))
        spent[part] += took.cpu
        return outcome

    setattr(module, name, outer)
    try:
        yield
    finally:
        setattr(module, name, inner)


def task_spec(name: str, method: Mapping[str, Any], test_examples: int | None) -> FewShot:
    return FewShot(
        name,
        {"name": "pet", "max_seq_length": WINDOW, "patience": 1000, **method},
        data_dir=fewglue() / FOLDERS[name],
        splits=Splits(k=2),
        test_examples=test_examples,
    )


def trainings(task: FewShot) -> list[Train]:
    requests: list[Train] = []
    for example in task.examples():
        requests += [request for request in task.requests(example) if isinstance(request, Train)]
    return requests


def ours(model: HuggingFace, request: Train) -> tuple[dict[str, Any], dict[str, float]]:
    """Do one training as in a sweep; return its outcome and the CPU seconds of its parts."""
    spent = dict.fromkeys(PARTS, 0.0)
    scoring = {"dev and test": 0.0}
    # Only the test set is scored through the fitted classifier.
    with watched(training, "scores", scoring, "dev and test"), watched(training.FittedNetwork, "logits", spent, "test"):
        outcome, took = clocked(lambda: trainer.teach(model, request.spec, data_paths=request.data_paths))
    spent["dev"] = scoring["dev and test"] - spent["test"]
    spent["train"] = took.cpu - spent["dev"] - spent["test"]
    return outcome, spent


def theirs(folder: Path, name: str, request: Train, updates: int) -> Trained:
    task = task_of(name)
    labelled = trainer.labelled_examples(task, request.spec["labelled"])
    train, dev = ([labelled[index] for index in request.spec[part]] for part in ("train", "dev"))
    original = Original(folder, task, folder.with_name("checkpoint"), max_steps=updates - 1, every=EVERY)
    return original.run(train, dev, trainer.test_examples(task, request.spec))


def compare(name: str, folder: Path, updates: int, test_examples: int | None, imports: float) -> bool:
    method = {"max_steps": updates, "eval_ratios": (EVERY + 0.5) / updates}
    sums = [dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0.0)]
    for number, request in enumerate(trainings(task_spec(name, method, test_examples))):
        outcome, mine = ours(HuggingFace(str(folder), device="cpu", threads=1), request)
        trained = theirs(folder, name, request, updates)
        choice = outcome["choices"][0]
        print(
            f"{FOLDERS[name]}, split {number}: {outcome['updates']} and {trained.updates} updates, "
            f"{len(outcome['curve'])} evaluations, {trained.saves} checkpoints written by the original, test "
            f"{_plain(choice['test'])} and {_plain(trained.test)} on {len(choice['test_logits'])}"
        )
        for total, seconds in zip(sums, (mine, trained.cpu), strict=True):
            for part in PARTS:
                total[part] += seconds[part]
        for name_of_side, seconds in (("lmassay ", mine), ("original", trained.cpu)):
            times = ", ".join(f"{part} {seconds[part]:.1f}" for part in PARTS)
            print(f"  {name_of_side} {times} CPU-s", flush=True)
    for part in PARTS:
        print(f"  {part}: {sums[1][part] / sums[0][part]:.2f} times as fast")
    mine_all, theirs_all = (sum(total.values()) for total in sums)
    print(f"  all: {mine_all:.1f} against {theirs_all:.1f} CPU-s, {theirs_all / mine_all:.2f} without imports")
    return verdict(f"with {imports:.1f} CPU-s of imports", (theirs_all + imports) / (mine_all + imports), TARGETS[name])


def _plain(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--updates", type=int, default=21, help="in a training (default: %(default)s)")
    parser.add_argument("--test-examples", type=int, help="instead of all: 277 of RTE, 638 of WiC")
    options = parser.parse_args(argv)
    imports = time.process_time()
    torch.set_num_threads(1)
    print(headline())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bert"
        print(f"BERT of {save_bert(folder, SMALL)}, K = 2, {options.updates} updates of 16, dev every {EVERY}")
        met = [compare(name, folder, options.updates, options.test_examples, imports) for name in options.tasks]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
