"""The two ways in which a network deals with a gap of several tokens: it fills masks, or it writes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch

from lmassay.evaluations.fewshot.methods.decoding import (
    Decoding,
    Gap,
    Positions,
    Reader,
    greedy_fill,
    log_probabilities,
)
from lmassay.evaluations.fewshot.methods.learner import Item

Texts = Sequence[Sequence[Sequence[int]]]
"""For each item the texts that are tried in its gap, as tokens."""


class Gaps(ABC):
    """Costs of texts while training, their scores when evaluating, and free writing."""

    @abstractmethod
    def costs(self, items: Sequence[Item], texts: Texts) -> list[list[torch.Tensor]]:
        """For each item and text the tokens' negative log-probabilities, with gradient."""

    @abstractmethod
    def scores(self, items: Sequence[Item], texts: Texts) -> list[list[float]]:
        """For each item and text the sum of its tokens' log-probabilities."""

    @abstractmethod
    def write(self, items: Sequence[Item]) -> list[list[int]]:
        """What the network itself puts into each gap, one token a mask."""

    @abstractmethod
    def total(self, cost: torch.Tensor) -> torch.Tensor:
        """One number for a text's tokens, as the hinge compares it."""


class MaskedGaps(Gaps):
    """Masks are filled. In training, all of a pattern's masks are read at once, whatever the text's length (as PET)."""

    def __init__(self, read: Reader, decoding: Decoding, batch_size: int) -> None:
        self._read, self._decoding, self._batch_size = read, decoding, batch_size

    def costs(self, items: Sequence[Item], texts: Texts) -> list[list[torch.Tensor]]:
        # Only the masks that some text needs; WSC's padding is part of its text.
        needed = [max(map(len, of_item), default=0) for of_item in texts]
        places = [item.masks[:count] for item, count in zip(items, needed, strict=True)]
        rows = self._read(items, places).float().log_softmax(dim=-1).split(needed)
        return [[-_at(scores, text) for text in of_item] for scores, of_item in zip(rows, texts, strict=True)]

    def scores(self, items: Sequence[Item], texts: Texts) -> list[list[float]]:
        gaps = [Gap(item, tuple(text)) for item, of_item in zip(items, texts, strict=True) for text in of_item]
        found = iter(log_probabilities(self._read, gaps, self._decoding, self._batch_size).tolist())
        return [[next(found) for _ in of_item] for of_item in texts]

    def write(self, items: Sequence[Item]) -> list[list[int]]:
        return greedy_fill(self._read, items, self._decoding, self._batch_size)

    def total(self, cost: torch.Tensor) -> torch.Tensor:
        return cost.mean()


class CausalGaps(Gaps):
    """A text's log-probability after everything that stands before the gap; what follows the gap is not read."""

    def __init__(self, read: Reader, batch_size: int) -> None:
        self._read, self._batch_size = read, batch_size

    def costs(self, items: Sequence[Item], texts: Texts) -> list[list[torch.Tensor]]:
        lines, places = _continued(items, texts)
        flat = [text for of_item in texts for text in of_item]
        rows = self._read(lines, places).float().log_softmax(dim=-1).split([len(text) for text in flat])
        found = iter([-_at(scores, text) for scores, text in zip(rows, flat, strict=True)])
        return [[next(found) for _ in of_item] for of_item in texts]

    def scores(self, items: Sequence[Item], texts: Texts) -> list[list[float]]:
        lines, places = _continued(items, texts)
        flat = [text for of_item in texts for text in of_item]
        order = sorted(range(len(lines)), key=lambda number: len(lines[number].ids))
        totals = [0.0] * len(lines)
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            logits = self._read([lines[number] for number in batch], [places[number] for number in batch])
            rows = logits.float().log_softmax(dim=-1).split([len(flat[number]) for number in batch])
            for number, scores in zip(batch, rows, strict=True):
                totals[number] = float(_at(scores, flat[number]).double().sum())
        found = iter(totals)
        return [[next(found) for _ in of_item] for of_item in texts]

    def write(self, items: Sequence[Item]) -> list[list[int]]:
        """From left to right: the next token is read at the end of what stands there."""
        written: list[list[int]] = [[] for _ in items]
        order = sorted(range(len(items)), key=lambda number: len(items[number].masks))
        for start in range(0, len(order), self._batch_size):
            active = order[start : start + self._batch_size]
            while active := [number for number in active if len(written[number]) < len(items[number].masks)]:
                # The token that stands at the last place is only a stand-in: its predecessor says what comes there.
                lines, places = _continued(
                    [items[number] for number in active], [[[*written[number], 0]] for number in active]
                )
                tokens = self._read(lines, [[line_places[-1]] for line_places in places]).argmax(dim=-1).tolist()
                for number, token in zip(active, tokens, strict=True):
                    written[number].append(token)
        return written

    def total(self, cost: torch.Tensor) -> torch.Tensor:
        return cost.sum()


def _continued(items: Sequence[Item], texts: Texts) -> tuple[list[Item], Positions]:
    """Each item cut off before its gap and followed by each text, with the places of the text's tokens."""
    lines, places = [], []
    for item, of_item in zip(items, texts, strict=True):
        start = item.masks[0]
        for text in of_item:
            lines.append(
                replace(
                    item,
                    ids=[*item.ids[:start], *text],
                    types=[*item.types[:start], *(item.types[start] for _ in text)],
                    masks=list(range(start, start + len(text))),
                    prompts=[place for place in item.prompts if place < start],
                )
            )
            places.append(range(start, start + len(text)))
    return lines, places


def _at(scores: torch.Tensor, text: Sequence[int]) -> torch.Tensor:
    tokens = torch.tensor(list(text), dtype=torch.long, device=scores.device)
    return scores[: len(text)].gather(1, tokens[:, None])[:, 0]
