"""How likely a text of several tokens is in a gap, and what a network would write there itself.

Three orders of filling a gap, as in PET: ``default`` fills the most confident place first and reads again, ``ltr`` goes
from left to right, ``parallel`` fills all places from one reading. Many gaps are read together: those of one example
that are equally long share their first reading, and a gap that is full takes no further part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

import torch

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.learner import Item

Decoding = Literal["default", "ltr", "parallel"]
Positions = Sequence[Sequence[int]]
Reader = Callable[[Sequence[Item], Positions], torch.Tensor]
"""Logits over the vocabulary for what stands at the given positions of each item, one row a position, item by item."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An example and one text for its gap, as tokens."""

    item: Item
    tokens: tuple[int, ...]


def known_decoding(name: str) -> Decoding:
    for known in get_args(Decoding):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise ConfigError(f"unknown decoding strategy {name!r}: use one of {', '.join(get_args(Decoding))}")


def trimmed(item: Item, masks: int) -> Item:
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


def filled(item: Item, tokens: Sequence[int]) -> Item:
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
    read: Reader, items: Sequence[Item], decoding: Decoding = "default", batch_size: int = 32
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


def _write(item: Item, places: list[int], sure: list[float], tokens: list[int], decoding: Decoding) -> None:
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


def _own(item: Item) -> Item:
    """A copy whose ids may be written to."""
    return replace(item, ids=list(item.ids))


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), dim=-1)
