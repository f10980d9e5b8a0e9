"""ADAPET's second text: a label that may be wrong in place, and a few words masked that are to be guessed from it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from lmassay.evaluations.fewshot.methods.adapet_losses import right_texts
from lmassay.evaluations.fewshot.methods.batches import collate
from lmassay.evaluations.fewshot.methods.decoding import filled
from lmassay.evaluations.fewshot.methods.learner import Item
from lmassay.evaluations.fewshot.methods.network import Network


@dataclass(frozen=True, slots=True)
class Told:
    """An item with a label or text in place of its masks."""

    ids: list[int]
    right: bool


@dataclass(frozen=True, slots=True)
class Hidden:
    """A told item with some of its words hidden: ``places`` are those whose token is now the mask."""

    told: Told
    ids: list[int]
    places: list[int]


class Draws:
    """What is left to chance: the labels, how many words are hidden and which.

    Two generators, used in the original's order: with the seed that its two global ones have, the draws are its draws.
    """

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.RandomState(seed)
        self._places = random.Random(seed)

    def labels(self, choices: int, count: int) -> list[int]:
        return [int(label) for label in self._numbers.randint(choices, size=count)]

    def hidden(self, length: int, alpha: float) -> list[int]:
        """Places among the first ``length``, special tokens included: ``max(int(u·alpha·length), 2) - 1`` of them."""
        count = max(int(self._numbers.rand() * alpha * length), 2) - 1
        return self._places.sample(range(length), min(count, length))


def told_labels(items: Sequence[Item], words: Sequence[int], draws: Draws) -> list[Told]:
    """Each item with the word of a drawn label at its mask."""
    labels = draws.labels(len(words), len(items))
    return [
        Told(filled(item, [words[label]] * len(item.masks)).ids, label == item.label)
        for item, label in zip(items, labels, strict=True)
    ]


def told_texts(items: Sequence[Item], draws: Draws, *, reference: bool) -> list[Told]:
    """Each item with one of its texts in place of its masks, drawn.

    Quirk 16: with ``reference`` the text is always the right one, and only the target follows the draw.
    """
    told = []
    alike = len({len(item.extra["texts"]) for item in items}) == 1
    drawn = draws.labels(len(items[0].extra["texts"]), len(items)) if alike else None
    for number, item in enumerate(items):
        texts, right = item.extra["texts"], right_texts(item)
        label = drawn[number] if drawn else draws.labels(len(texts), 1)[0]
        shown = right.index(True) if reference else label
        told.append(Told(filled(item, texts[shown]).ids, right[label]))
    return told


def told_referents(items: Sequence[Item]) -> list[Told]:
    """Each item with its true referent, and padding in its surplus masks."""
    return [Told(filled(item, item.extra["target"]).ids, True) for item in items]


def hide(told: Sequence[Told], draws: Draws, alpha: float, *, mask_id: int, pad_id: int) -> list[Hidden]:
    """Hide words of each text. Its length is counted without padding, whose id is the tokenizer's own (quirk 18)."""
    found = []
    for one in told:
        ids = list(one.ids)
        length = sum(token != pad_id for token in ids)
        for place in draws.hidden(length, alpha):
            ids[place] = mask_id
        places = [place for place, (old, new) in enumerate(zip(one.ids, ids, strict=True)) if old != new]
        found.append(Hidden(one, ids, places))
    return found


def hidden_log_probabilities(net: Network, hidden: Sequence[Hidden]) -> torch.Tensor:
    """The log-probability of each hidden word, text by text.

    As in the original, all tokens are of the first type here, and padding is not looked at even inside a text.
    """
    items = [Item(one.ids, [0] * len(one.ids)) for one in hidden]
    batch = collate(items, net.pad_id, net.device)
    batch = replace(batch, attention=(batch.ids != net.pad_id).long())
    states = net.hidden(batch)
    cells = [(row, place, one.told.ids[place]) for row, one in enumerate(hidden) for place in one.places]
    # A micro-batch may have nothing hidden.
    rows, columns, words = torch.tensor(cells, dtype=torch.long, device=net.device).view(-1, 3).unbind(dim=1)
    return net.decode(states[rows, columns]).log_softmax(dim=-1).gather(1, words[:, None])[:, 0]
