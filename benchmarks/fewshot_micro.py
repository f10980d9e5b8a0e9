"""One micro-batch of PET, forward and backward, against FewNLU's way: padded to 256, all words at every position.

    python benchmarks/fewshot.py micro [--tasks wic rte boolq] [--micro-batches 4] [--repeats 3]

A random model of BERT-base's size on the first update of a training: 16 examples of FewGLUE in micro-batches of 4, put
together as lmassay does (by length), both ways with the same ones. CPU seconds with dropout, as in training; the
losses are compared without it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

import torch
from benchmarks.fewshot_common import (
    BASE,
    FOLDERS,
    WINDOW,
    clocked,
    headline,
    lengths,
    make_bert,
    make_tokenizer,
    task_of,
    verdict,
)
from benchmarks.fewshot_original import MICRO_BATCH, Pet, read

from lmassay.evaluations.fewshot.methods.cloze import Cloze, Reading
from lmassay.evaluations.fewshot.methods.engine import batches
from lmassay.evaluations.fewshot.methods.learner import Learner, by_length
from lmassay.evaluations.fewshot.methods.network import Network

TARGETS = {"wic": 8.0, "rte": 2.3, "boolq": 1.5}
TOLERANCE = 1e-5
Loss = Callable[[], torch.Tensor]


def compare(name: str, net: Network, micro_batches: int, repeats: int) -> bool:
    task = task_of(name)
    examples = task.examples("train")
    learner: Learner = Cloze(net, task, Reading(max_seq_length=WINDOW))
    original = Pet.of(net.module, task, net.tokenizer)
    items, padded = learner.encode(examples, training=True), read(task, net.tokenizer, examples)
    update = next(batches(len(items), 16, 42))
    groups = [[update[place] for place in group] for group in by_length([items[p] for p in update], MICRO_BATCH)]
    print(f"{FOLDERS[name]}: {len(items)} training examples of {lengths(items)}")
    groups = groups[:: max(1, len(groups) // micro_batches)][:micro_batches]
    mine = [partial(learner.loss, [items[place] for place in group]) for group in groups]
    theirs = [partial(original.loss, padded.at(group)) for group in groups]
    worst = max(abs(a - b) for a, b in zip(_losses(net, mine), _losses(net, theirs), strict=True))
    print(f"  largest difference of the losses {worst:.1e}{'' if worst < TOLERANCE else ': TOO LARGE'}")
    longest = ", ".join(str(max(len(items[place]) for place in group)) for group in groups)
    # In turns, and the least of each: whatever else the machine does only adds to it.
    rounds = [[_seconds(net, way) for way in (mine, theirs)] for _ in range(repeats)]
    seconds = [min(column) for column in zip(*rounds, strict=True)]
    print(f"  CPU-s a micro-batch: lmassay {seconds[0]:.2f} (padded to {longest}), original {seconds[1]:.2f}")
    return verdict("times as fast", seconds[1] / seconds[0], TARGETS[name]) and worst < TOLERANCE


def _losses(net: Network, losses: Sequence[Loss]) -> list[float]:
    net.module.eval()
    with torch.no_grad():
        return [float(loss()) for loss in losses]


def _seconds(net: Network, losses: Sequence[Loss]) -> float:
    """CPU seconds a micro-batch, gradients added up over the update as in training; the first time does not count."""
    net.module.train()
    torch.manual_seed(42)
    losses[-1]().backward()
    net.module.zero_grad(set_to_none=True)

    def update() -> None:
        for loss in losses:
            loss().backward()

    _, took = clocked(update)
    net.module.zero_grad(set_to_none=True)
    return took.cpu / len(losses)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--micro-batches", type=int, default=4, choices=range(1, 5), help="of the update's four")
    parser.add_argument("--repeats", type=int, default=3, help="the least time counts (default: %(default)s)")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(headline())
    module = make_bert(BASE)
    print(f"BERT of {sum(p.numel() for p in module.parameters()) / 1e6:.1f}M random parameters, micro-batches of 4")
    net = Network(module, make_tokenizer(), "masked", torch.device("cpu"))
    met = [compare(name, net, options.micro_batches, options.repeats) for name in options.tasks]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
