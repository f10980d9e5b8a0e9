"""One micro-batch of PET, forward and backward, compared with FewNLU: padded to 256, all words at every position.

    python benchmarks/fewshot.py micro [--tasks wic rte boolq] [--micro-batches 4] [--repeats 3]

The model has the size of BERT-base and random parameters. Both implementations compute the first update of a training:
16 examples of FewGLUE in the same micro-batches of 4, grouped by length as lmassay does. CPU seconds are measured with
dropout, as in training; the losses are compared without it.
"""

from __future__ import annotations

import argparse
import math
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
    """Compare losses and times on one task; True if the losses agree and the target is met."""
    task = task_of(name)
    examples = task.examples("train")
    learner: Learner = Cloze(net, task, Reading(max_seq_length=WINDOW))
    original = Pet.of(net.module, task, net.tokenizer)
    items = learner.encode(examples, training=True)
    padded = read(task, net.tokenizer, examples)
    print(f"{FOLDERS[name]}: {len(items)} training examples of {lengths(items)}")

    # The examples of the first update, in micro-batches of similar length.
    update = next(batches(len(items), 16, 42))
    groups: list[list[int]] = []
    for group in by_length([items[index] for index in update], MICRO_BATCH):
        groups.append([update[index] for index in group])
    step = max(1, len(groups) // micro_batches)
    groups = groups[::step][:micro_batches]
    our_losses: list[Loss] = []
    original_losses: list[Loss] = []
    longest_items = []
    for group in groups:
        items_of_group = [items[index] for index in group]
        our_losses.append(partial(learner.loss, items_of_group))
        original_losses.append(partial(original.loss, padded.at(group)))
        longest_items.append(str(max(len(item) for item in items_of_group)))

    largest_difference = 0.0
    for ours, theirs in zip(_losses(net, our_losses), _losses(net, original_losses), strict=True):
        largest_difference = max(largest_difference, abs(ours - theirs))
    losses_agree = largest_difference < TOLERANCE
    print(f"  largest difference of the losses {largest_difference:.1e}{'' if losses_agree else ': TOO LARGE'}")

    # The two take turns, and the shortest time of each counts: other work on the machine can only make it longer.
    our_seconds = original_seconds = math.inf
    for _ in range(repeats):
        our_seconds = min(our_seconds, _seconds(net, our_losses))
        original_seconds = min(original_seconds, _seconds(net, original_losses))
    padding = ", ".join(longest_items)
    print(f"  CPU-s per micro-batch: lmassay {our_seconds:.2f} (padded to {padding}), original {original_seconds:.2f}")
    return verdict("times as fast", original_seconds / our_seconds, TARGETS[name]) and losses_agree


def _losses(net: Network, losses: Sequence[Loss]) -> list[float]:
    net.module.eval()
    with torch.no_grad():
        return [float(loss()) for loss in losses]


def _seconds(net: Network, losses: Sequence[Loss]) -> float:
    """CPU seconds per micro-batch, after a warm-up. Gradients are added up over the update, as in training."""
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
    parameters = sum(parameter.numel() for parameter in module.parameters())
    print(f"BERT with {parameters / 1e6:.1f}M random parameters, micro-batches of 4")
    net = Network(module, make_tokenizer(), "masked", torch.device("cpu"))
    met = [compare(name, net, options.micro_batches, options.repeats) for name in options.tasks]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
