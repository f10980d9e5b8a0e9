"""Copies of trained weights in the main memory, and the state of a training's randomness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

Weights = Mapping[str, torch.Tensor]


def copied(parameters: Mapping[str, torch.nn.Parameter]) -> Weights:
    """What the parameters are now, on the CPU."""
    return {name: parameter.detach().to("cpu", copy=True) for name, parameter in parameters.items()}


def put(weights: Weights, parameters: Mapping[str, torch.nn.Parameter]) -> None:
    """Set the parameters to a copy made before."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


@contextmanager
def seeded(seed: int, device: torch.device, threads: int) -> Iterator[None]:
    """Everything drawn inside follows the seed, whatever was drawn before, and nothing outside is changed.

    The number of threads is part of it: sums are added in another order with another one.
    """
    before = torch.get_num_threads()
    with untouched_draws(device):
        torch.manual_seed(seed)
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@contextmanager
def untouched_draws(device: torch.device) -> Iterator[None]:
    """Whatever is drawn inside leaves the draws that follow as they would have been."""
    cards: Sequence[torch.device] = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cards):
        yield
