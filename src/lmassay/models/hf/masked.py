"""Masked models: what fills a blank, in batches of like length, with only the blank going through the head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from lmassay.errors import ModelError
from lmassay.models.hf.batches import Batcher, by_padded_size
from lmassay.models.hf.heads import logits_at
from lmassay.models.hf.walk import padded

Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True)
class Blank:
    """A sequence of tokens with a mask in it, and the place that is asked about."""

    ids: tuple[int, ...]
    place: int


class Masked:
    """A masked language model over token sequences."""

    def __init__(self, model: Any, device: torch.device, tokens: int, pad: int) -> None:
        self._model = model
        self._device = device
        self._pad = pad
        self._batcher = Batcher(tokens)

    def fill(
        self, blanks: Sequence[Blank], reduce: Callable[[int, NDArray[np.float32]], Outcome]
    ) -> Iterator[tuple[int, Outcome | ModelError]]:
        """For each blank what ``reduce`` makes of its logits, shortest first; equal blanks are computed once."""
        first: dict[Blank, int] = {}
        twins: dict[int, list[int]] = {}
        for place, blank in enumerate(blanks):
            twins.setdefault(first.setdefault(blank, place), []).append(place)
        order = sorted(twins, key=lambda place: len(blanks[place].ids))

        def work(places: Sequence[int]) -> Iterator[list[tuple[int, Outcome]]]:
            values = self._logits([blanks[place] for place in places]).float().cpu().numpy()
            for place, row in zip(places, values, strict=True):
                yield [(twin, reduce(twin, row)) for twin in twins[place]]

        def length(place: int) -> int:
            return len(blanks[place].ids)

        take = by_padded_size(length)
        for place, outcomes in zip(order, self._batcher.run(order, take, work), strict=True):
            if isinstance(outcomes, ModelError):
                yield from ((twin, outcomes) for twin in twins[place])
            else:
                yield from outcomes

    def _logits(self, blanks: Sequence[Blank]) -> torch.Tensor:
        inputs = padded([blank.ids for blank in blanks], self._device, self._pad)
        return logits_at(self._model, inputs, [(line, blank.place) for line, blank in enumerate(blanks)])
