"""Noisy student's noise: whole dimensions of the word embeddings are left out while a network is taught."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from lmassay.errors import ConfigError

RATE = 0.05


def spatial_dropout(
    embeddings: torch.Tensor, rate: float = RATE, generator: torch.Generator | None = None
) -> torch.Tensor:
    """Embeddings (lines × places × width) in which a dimension is 0 at all places of a line or at none.

    The rest is scaled up by 1 / (1 - rate), so that the mean stays. It is Dropout2d with the words as pixels.
    """
    lines, _, width = embeddings.shape
    # Drawn where the generator lives: the same noise on every device.
    source = embeddings.device if generator is None else generator.device
    chance = torch.rand(lines, 1, width, generator=generator, device=source)
    kept = (chance >= rate).to(device=embeddings.device, dtype=embeddings.dtype)
    return embeddings * (kept / (1 - rate))


class WordNoise:
    """Spatial dropout on the input embeddings of a network, in training mode only; ``remove`` ends it.

    It is a hook at the embedding layer: whatever the learner does with its network is noisy, and evaluation is not.
    """

    def __init__(self, network: Any, *, rate: float = RATE, seed: int = 42) -> None:
        if not 0 <= rate < 1:
            raise ConfigError(f"dropout_rate: must be at least 0 and below 1, not {rate}")
        self._network = network
        self._rate = rate
        # Its own numbers: evaluating more often, or drawing elsewhere, does not change the noise.
        self._generator = torch.Generator().manual_seed(seed)
        self._hook = network.get_input_embeddings().register_forward_hook(self._disturb)

    def remove(self) -> None:
        """No more noise."""
        self._hook.remove()

    def _disturb(self, module: torch.nn.Module, arguments: tuple[Any, ...], embedded: torch.Tensor) -> torch.Tensor:
        if not self._network.training or self._rate == 0:
            return embedded
        return spatial_dropout(embedded, self._rate, self._generator)


@contextmanager
def noisy(network: Any, *, rate: float = RATE, seed: int = 42) -> Iterator[None]:
    """Noise while something is taught::

    with noisy(learner.network, seed=lesson.seed):
        ...
    """
    noise = WordNoise(network, rate=rate, seed=seed)
    try:
        yield
    finally:
        noise.remove()
