"""Sampling by noise: the largest of disturbed logarithms is a sample (the Gumbel-max trick)."""

from __future__ import annotations

import torch

from lmassay.types import Generate, digest, request_as_dict


def generator_of(request: Generate) -> torch.Generator:
    """A source of noise for one request and draw: neighbours and batch sizes change nothing."""
    return torch.Generator().manual_seed(int(digest(request_as_dict(request), request.draw)[:15], 16))


def gumbel(size: int, generator: torch.Generator) -> torch.Tensor:
    """Noise to be added to ``size`` log-probabilities, which were divided by the temperature."""
    noise = torch.rand(size, generator=generator)
    return -torch.log(-torch.log(noise.clamp(1e-20, 1 - 1e-7)))
