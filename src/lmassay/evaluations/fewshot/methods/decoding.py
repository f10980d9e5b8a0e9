"""How likely a text of several tokens is in a gap, and what a network would write there itself.

A masked network fills masks (``MaskedGaps``), a causal one writes on (``CausalGaps``). There are three orders of
filling masks, as in PET: ``default`` fills the most confident place first and reads again, ``ltr`` goes from left to
right, ``parallel`` fills all places from one reading. Many gaps are read together: those of one example that are
equally long share their first reading, and a gap that is full takes no further part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

import torch

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.learner import EncodedItem

Decoding = Literal["default", "ltr", "parallel"]
Positions = Sequence[Sequence[int]]
Reader = Callable[[Sequence[EncodedItem], Positions], torch.Tensor]
"""Logits over the vocabulary for what stands at the given positions of each item, one row a position, item by item."""
Texts = Sequence[Sequence[Sequence[int]]]
"""For each item the texts that are tried in its gap, as tokens."""


class Gaps(ABC):
    """Costs of texts while training, their scores when evaluating, and free writing."""

    @abstractmethod
    def costs(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[torch.Tensor]]:
        """For each item and text the tokens' negative log-probabilities, with gradient."""

    @abstractmethod
    def scores(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[float]]:
        """For each item and text the sum of its tokens' log-probabilities."""

    @abstractmethod
    def write(self, items: Sequence[EncodedItem]) -> list[list[int]]:
        """What the network itself puts into each gap, one token a mask."""

    @abstractmethod
    def total(self, cost: torch.Tensor) -> torch.Tensor:
        """One number for a text's tokens, as the hinge compares it."""


class MaskedGaps(Gaps):
    """Masks are filled. In training, all of a pattern's masks are read at once, whatever the text's length (as PET)."""

    def __init__(self, read: Reader, decoding: Decoding, batch_size: int) -> None:
        self._read, self._decoding, self._batch_size = read, decoding, batch_size

    def costs(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[torch.Tensor]]:
        # Only the masks that some text needs; WSC's padding is part of its text.
        needed = [max(map(len, of_item), default=0) for of_item in texts]
        places = [item.masks[:count] for item, count in zip(items, needed, strict=True)]
        rows = self._read(items, places).float().log_softmax(dim=-1).split(needed)
        return [[-_at(scores, text) for text in of_item] for scores, of_item in zip(rows, texts, strict=True)]

    def scores(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[float]]:
        gaps = [Gap(item, tuple(text)) for item, of_item in zip(items, texts, strict=True) for text in of_item]
        found = iter(log_probabilities(self._read, gaps, self._decoding, self._batch_size).tolist())
        return [[next(found) for _ in of_item] for of_item in texts]

    def write(self, items: Sequence[EncodedItem]) -> list[list[int]]:
        return greedy_fill(self._read, items, self._decoding, self._batch_size)

    def total(self, cost: torch.Tensor) -> torch.Tensor:
        return cost.mean()


class CausalGaps(Gaps):
    """A text's log-probability after everything that stands before the gap; what follows the gap is not read."""

    def __init__(self, read: Reader, batch_size: int) -> None:
        self._read, self._batch_size = read, batch_size

    def costs(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[torch.Tensor]]:
        lines, places = _continued(items, texts)
        flat = [text for of_item in texts for text in of_item]
        rows = self._read(lines, places).float().log_softmax(dim=-1).split([len(text) for text in flat])
        found = iter([-_at(scores, text) for scores, text in zip(rows, flat, strict=True)])
        return [[next(found) for _ in of_item] for of_item in texts]

    def scores(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[float]]:
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

    def write(self, items: Sequence[EncodedItem]) -> list[list[int]]:
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


def _continued(items: Sequence[EncodedItem], texts: Texts) -> tuple[list[EncodedItem], Positions]:
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


# --- masks, filled one after the other --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gap:
    """An example and one text for its gap, as tokens."""

    item: EncodedItem
    tokens: tuple[int, ...]


def known_decoding(name: str) -> Decoding:
    for known in get_args(Decoding):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise ConfigError(f"unknown decoding strategy {name!r}: use one of {', '.join(get_args(Decoding))}")


def trimmed(item: EncodedItem, masks: int) -> EncodedItem:
    """The item with only the first ``masks`` of its masks; continuous prompt slots keep their places in the text."""
    dropped = set(item.masks[masks:])
    if masks > len(item.masks):
        raise DataError(f"a text of {masks} tokens does not fit into {len(item.masks)} mask(s) of its pattern")
    if not dropped:
        return item
    kept = [place for place in range(len(item.ids)) if place not in dropped]
    moved = {old: new for new, old in enumerate(kept)}
    return replace(
        item,
        ids=[item.ids[place] for place in kept],
        types=[item.types[place] for place in kept],
        masks=[moved[place] for place in item.masks[:masks]],
        prompts=[moved[place] for place in item.prompts],
    )


def filled(item: EncodedItem, tokens: Sequence[int]) -> EncodedItem:
    """The item with the tokens in place of its masks: as many masks as there are tokens, none left."""
    shorter = trimmed(item, len(tokens))
    ids = list(shorter.ids)
    for place, token in zip(shorter.masks, tokens, strict=True):
        ids[place] = token
    return replace(shorter, ids=ids, masks=[])


def log_probabilities(
    read: Reader, gaps: Sequence[Gap], decoding: Decoding = "default", batch_size: int = 32
) -> torch.Tensor:
    """The sum of the tokens' log-probabilities, one number a gap; each gap has as many masks as its text has tokens."""
    totals = torch.zeros(len(gaps), dtype=torch.float64)
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, gap in enumerate(gaps):
        by_length[len(gap.tokens)].append(number)
    for length, numbers in by_length.items():
        if length == 0:
            raise DataError("a text for a gap has no tokens")
        ordered = sorted(numbers, key=lambda number: len(gaps[number].item.ids))
        first = _first_reading(read, [gaps[number] for number in ordered], length, batch_size)
        if decoding == "parallel":
            totals[ordered] = first.sum(dim=1)
            continue
        for start in range(0, len(ordered), batch_size):
            batch = ordered[start : start + batch_size]
            chosen = [gaps[number] for number in batch]
            totals[batch] = _fill_known(read, chosen, first[start : start + batch_size], decoding)
    return totals


def _first_reading(read: Reader, gaps: Sequence[Gap], length: int, batch_size: int) -> torch.Tensor:
    """Log-probabilities of each gap's tokens when nothing is filled yet, [gaps, length]."""
    items = {id(gap.item): gap.item for gap in gaps}
    row_of = {key: row for row, key in enumerate(items)}
    waiting: dict[int, list[int]] = defaultdict(list)
    for number, gap in enumerate(gaps):
        waiting[row_of[id(gap.item)]].append(number)
    found = torch.empty(len(gaps), length, dtype=torch.float64)
    short = [trimmed(item, length) for item in items.values()]
    for start in range(0, len(short), batch_size):
        batch = short[start : start + batch_size]
        scores = _log_softmax(read(batch, [item.masks for item in batch])).view(len(batch), length, -1)
        for row, item_scores in enumerate(scores, start):
            for number in waiting[row]:
                tokens = torch.tensor(gaps[number].tokens, device=item_scores.device)
                found[number] = item_scores.gather(1, tokens[:, None])[:, 0].double().cpu()
    return found


def _fill_known(read: Reader, gaps: Sequence[Gap], first: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """Fill the gaps' own tokens one after the other; the gaps are equally long."""
    length = len(gaps[0].tokens)
    items = [_own(trimmed(gap.item, length)) for gap in gaps]
    left = [list(range(length)) for _ in gaps]
    totals = torch.zeros(len(gaps), dtype=torch.float64)
    now = [row.tolist() for row in first]
    for step in range(length):
        if step:
            places = [[item.masks[slot] for slot in slots] for item, slots in zip(items, left, strict=True)]
            scores = _log_softmax(read(items, places))
            tokens = [gap.tokens[slot] for gap, slots in zip(gaps, left, strict=True) for slot in slots]
            picked = scores.gather(1, torch.tensor(tokens, device=scores.device)[:, None])[:, 0]
            now = picked.double().view(len(gaps), length - step).tolist()
        for number, (item, slots, values) in enumerate(zip(items, left, now, strict=True)):
            best = 0 if decoding == "ltr" else values.index(max(values))
            totals[number] += values[best]
            slot = slots.pop(best)
            item.ids[item.masks[slot]] = gaps[number].tokens[slot]
    return totals


def greedy_fill(
    read: Reader, items: Sequence[EncodedItem], decoding: Decoding = "default", batch_size: int = 32
) -> list[list[int]]:
    """What the network itself writes into each item's masks: the likeliest token of one place after the other."""
    written: list[list[int]] = [[] for _ in items]
    ordered = sorted(range(len(items)), key=lambda number: (len(items[number].masks), len(items[number].ids)))
    for start in range(0, len(ordered), batch_size):
        numbers = ordered[start : start + batch_size]
        copies = [_own(items[number]) for number in numbers]
        left = [list(item.masks) for item in copies]
        while any(left):
            active = [number for number, places in enumerate(left) if places]
            scores = read([copies[number] for number in active], [left[number] for number in active])
            sure, tokens = _log_softmax(scores).max(dim=1)
            rows = _rows([len(left[number]) for number in active])
            for number, (begin, end) in zip(active, rows, strict=True):
                _write(copies[number], left[number], sure[begin:end].tolist(), tokens[begin:end].tolist(), decoding)
        for number, item in zip(numbers, copies, strict=True):
            written[number] = [item.ids[place] for place in item.masks]
    return written


def _write(item: EncodedItem, places: list[int], sure: list[float], tokens: list[int], decoding: Decoding) -> None:
    if decoding == "parallel":
        for place, token in zip(places, tokens, strict=True):
            item.ids[place] = token
        places.clear()
        return
    best = 0 if decoding == "ltr" else sure.index(max(sure))
    item.ids[places.pop(best)] = tokens[best]


def _rows(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    return pairwise(ends)


def _own(item: EncodedItem) -> EncodedItem:
    """A copy whose ids may be written to."""
    return replace(item, ids=list(item.ids))


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), dim=-1)
