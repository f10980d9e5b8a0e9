"""How probable a text of several tokens is in a gap, and which text a network would write there itself.

A gap is the place of the answer in a pattern. A masked network fills masks there (``MaskedGaps``), a causal one
continues the text before it (``CausalGaps``). Masks are filled in one of three orders, as in PET (Schick and Schütze
2021b, section 3): ``default`` fills the most confident position first and then reads the text again, ``ltr`` goes from
left to right, ``parallel`` fills all positions after one reading.

Reading, that is running the network, takes most of the time. So many gaps are read together, texts for the same gap
share their first reading if they have equally many tokens, and a gap that is full is not read again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

import torch

from lmassay.errors import ConfigError, DataError
from lmassay.evaluations.fewshot.methods.learner import EncodedItem, selected

Decoding = Literal["default", "ltr", "parallel"]
Positions = Sequence[Sequence[int]]
Reader = Callable[[Sequence[EncodedItem], Positions], torch.Tensor]
"""Returns logits over the vocabulary for the given positions of each item, one row per position, item by item."""
_Value = TypeVar("_Value")
Texts = Sequence[Sequence[Sequence[int]]]
"""For each item, the texts that are tried in its gap. A text is a sequence of token ids."""


class Gaps(ABC):
    """Reads gaps: it gives the costs of texts in training and their scores in evaluation, and fills gaps itself."""

    @abstractmethod
    def costs(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[torch.Tensor]]:
        """For each item and text, the cost of each token: its negative log-probability, with gradient."""

    @abstractmethod
    def scores(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[float]]:
        """For each item and text, the sum of its tokens' log-probabilities."""

    @abstractmethod
    def write(self, items: Sequence[EncodedItem]) -> list[list[int]]:
        """The tokens that the network itself puts into each gap, one per mask."""

    @abstractmethod
    def total(self, cost: torch.Tensor) -> torch.Tensor:
        """The cost of a whole text from the costs of its tokens, as the hinge loss compares texts."""


class MaskedGaps(Gaps):
    """Fills masks.

    As in PET, all masks of a pattern are read at once in training, even if a text has fewer tokens than masks.
    """

    def __init__(self, read: Reader, decoding: Decoding, batch_size: int) -> None:
        self._read = read
        self._decoding = decoding
        self._batch_size = batch_size

    def costs(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[torch.Tensor]]:
        """See ``Gaps``. One pass through the network for all texts."""
        # Only as many masks are read as the longest text needs. WSC's texts include padding for its surplus masks.
        counts = []
        positions = []
        for item, texts_of_item in zip(items, texts, strict=True):
            count = max(map(len, texts_of_item), default=0)
            counts.append(count)
            positions.append(item.masks[:count])
        log_p = _log_softmax(self._read(items, positions))
        # One row per position, item by item.
        log_p_by_item = log_p.split(counts)
        costs = []
        for log_p_of_item, texts_of_item in zip(log_p_by_item, texts, strict=True):
            costs.append([-_at_tokens(log_p_of_item, text) for text in texts_of_item])
        return costs

    def scores(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[float]]:
        """See ``Gaps``. Masks are filled in the order of the decoding strategy."""
        gaps = []
        for item, texts_of_item in zip(items, texts, strict=True):
            for text in texts_of_item:
                gaps.append(Gap(item, tuple(text)))
        scores = log_probabilities(self._read, gaps, self._decoding, self._batch_size)
        return _by_item(scores.tolist(), texts)

    def write(self, items: Sequence[EncodedItem]) -> list[list[int]]:
        """See ``Gaps``."""
        return greedy_fill(self._read, items, self._decoding, self._batch_size)

    def total(self, cost: torch.Tensor) -> torch.Tensor:
        """The mean: texts of different length are compared per token."""
        return cost.mean()


class CausalGaps(Gaps):
    """Continues the text before the gap. The text after the gap is not read."""

    def __init__(self, read: Reader, batch_size: int) -> None:
        self._read = read
        self._batch_size = batch_size

    def costs(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[torch.Tensor]]:
        """See ``Gaps``."""
        continued, positions, flat_texts = _continued(items, texts)
        log_p = _log_softmax(self._read(continued, positions))
        lengths = [len(text) for text in flat_texts]
        costs = []
        for log_p_of_text, text in zip(log_p.split(lengths), flat_texts, strict=True):
            costs.append(-_at_tokens(log_p_of_text, text))
        return _by_item(costs, texts)

    def scores(self, items: Sequence[EncodedItem], texts: Texts) -> list[list[float]]:
        """See ``Gaps``. Texts of similar length are read together."""
        continued, positions, flat_texts = _continued(items, texts)

        def length(number: int) -> int:
            return len(continued[number].ids)

        order = sorted(range(len(continued)), key=length)
        totals = [0.0] * len(continued)
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            logits = self._read(selected(continued, batch), selected(positions, batch))
            lengths = [len(flat_texts[number]) for number in batch]
            log_p = _log_softmax(logits).split(lengths)
            for number, log_p_of_text in zip(batch, log_p, strict=True):
                log_p_of_tokens = _at_tokens(log_p_of_text, flat_texts[number])
                totals[number] = float(log_p_of_tokens.double().sum())
        return _by_item(totals, texts)

    def write(self, items: Sequence[EncodedItem]) -> list[list[int]]:
        """See ``Gaps``. Tokens are written from left to right, each time the most probable one."""
        written: list[list[int]] = [[] for _ in items]

        def gap_length(number: int) -> int:
            return len(items[number].masks)

        def is_unfinished(number: int) -> bool:
            return len(written[number]) < gap_length(number)

        # Items with gaps of similar length are in the same batch, so that most of them are finished at the same time.
        order = sorted(range(len(items)), key=gap_length)
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            # An item without masks is finished from the beginning.
            unfinished = list(filter(is_unfinished, batch))
            while unfinished:
                self._write_next(items, written, unfinished)
                unfinished = list(filter(is_unfinished, unfinished))
        return written

    def _write_next(self, items: Sequence[EncodedItem], written: list[list[int]], active: Sequence[int]) -> None:
        """Append the most probable next token to the texts of the ``active`` items."""
        # The 0 is a placeholder for the next token, which is predicted at the position before it.
        unfinished = [[[*written[number], 0]] for number in active]
        continued, positions, _ = _continued(selected(items, active), unfinished)
        last_positions = [[positions_of_text[-1]] for positions_of_text in positions]
        tokens = self._read(continued, last_positions).argmax(dim=-1).tolist()
        for number, token in zip(active, tokens, strict=True):
            written[number].append(token)

    def total(self, cost: torch.Tensor) -> torch.Tensor:
        """The sum, as for any continuation of a causal model."""
        return cost.sum()


def _by_item(values: Sequence[_Value], texts: Texts) -> list[list[_Value]]:
    """One value per text, grouped by the item that the text belongs to."""
    grouped = []
    start = 0
    for texts_of_item in texts:
        grouped.append(list(values[start : start + len(texts_of_item)]))
        start += len(texts_of_item)
    return grouped


def _continued(
    items: Sequence[EncodedItem], texts: Texts
) -> tuple[list[EncodedItem], list[range], list[Sequence[int]]]:
    """Cut each item off before its gap, and append each of its texts to it.

    Returns the new items, the positions of the text's tokens in each, and the texts, in lists of the same length.
    """
    continued: list[EncodedItem] = []
    positions: list[range] = []
    flat_texts: list[Sequence[int]] = []
    for item, texts_of_item in zip(items, texts, strict=True):
        start = item.masks[0]
        type_of_gap = item.types[start]
        prompts_before_gap = [position for position in item.prompts if position < start]
        for text in texts_of_item:
            positions_of_text = range(start, start + len(text))
            with_text = replace(
                item,
                ids=[*item.ids[:start], *text],
                types=[*item.types[:start], *[type_of_gap] * len(text)],
                masks=list(positions_of_text),
                prompts=prompts_before_gap,
            )
            continued.append(with_text)
            positions.append(positions_of_text)
            flat_texts.append(text)
    return continued, positions, flat_texts


def _at_tokens(log_p: torch.Tensor, text: Sequence[int]) -> torch.Tensor:
    """The log-probability of each token of a text, from one row of log-probabilities per position."""
    tokens = torch.tensor(list(text), dtype=torch.long, device=log_p.device)
    return log_p[: len(text)].gather(1, tokens[:, None])[:, 0]


# --- masks, filled one after the other --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gap:
    """An example and one text for its gap, as tokens."""

    item: EncodedItem
    tokens: tuple[int, ...]


def known_decoding(name: str) -> Decoding:
    """The decoding strategy of this name; a ConfigError if there is none."""
    for strategy in get_args(Decoding):
        if name == strategy:
            return strategy  # type: ignore[no-any-return]
    raise ConfigError(f"unknown decoding strategy {name!r}: use one of {', '.join(get_args(Decoding))}")


def trimmed(item: EncodedItem, masks: int) -> EncodedItem:
    """The item with only the first ``masks`` of its masks. The positions of continuous prompt tokens are adjusted."""
    if masks > len(item.masks):
        raise DataError(f"a text of {masks} tokens does not fit into {len(item.masks)} mask(s) of its pattern")
    dropped = set(item.masks[masks:])
    if not dropped:
        return item
    kept: list[int] = []
    new_positions: dict[int, int] = {}
    for position in range(len(item.ids)):
        if position not in dropped:
            new_positions[position] = len(kept)
            kept.append(position)
    return replace(
        item,
        ids=selected(item.ids, kept),
        types=selected(item.types, kept),
        masks=[new_positions[position] for position in item.masks[:masks]],
        prompts=[new_positions[position] for position in item.prompts],
    )


def filled(item: EncodedItem, tokens: Sequence[int]) -> EncodedItem:
    """The item with the tokens in place of its masks; surplus masks are removed."""
    shorter = trimmed(item, len(tokens))
    ids = list(shorter.ids)
    for position, token in zip(shorter.masks, tokens, strict=True):
        ids[position] = token
    return replace(shorter, ids=ids, masks=[])


def log_probabilities(
    read: Reader, gaps: Sequence[Gap], decoding: Decoding = "default", batch_size: int = 32
) -> torch.Tensor:
    """For each gap, the sum of its tokens' log-probabilities. It gets as many masks as its text has tokens."""
    totals = torch.zeros(len(gaps), dtype=torch.float64)
    numbers_by_length: dict[int, list[int]] = defaultdict(list)
    for number, gap in enumerate(gaps):
        numbers_by_length[len(gap.tokens)].append(number)
    for length, numbers in numbers_by_length.items():
        if length == 0:
            raise DataError("a text for a gap has no tokens")
        ordered = sorted(numbers, key=lambda number: len(gaps[number].item.ids))
        first_log_p = _first_reading(read, selected(gaps, ordered), length, batch_size)
        if decoding == "parallel":
            totals[ordered] = first_log_p.sum(dim=1)
            continue
        for start in range(0, len(ordered), batch_size):
            end = start + batch_size
            batch = ordered[start:end]
            totals[batch] = _fill_with_own_tokens(read, selected(gaps, batch), first_log_p[start:end], decoding)
    return totals


def _first_reading(read: Reader, gaps: Sequence[Gap], length: int, batch_size: int) -> torch.Tensor:
    """The log-probabilities of each gap's tokens while all masks are empty: gaps × length. Each item is read once."""
    # An item contains lists, so it cannot be the key of a dict; its ``id`` is the key.
    items: dict[int, EncodedItem] = {}
    gaps_of_item: dict[int, list[int]] = defaultdict(list)
    for number, gap in enumerate(gaps):
        items[id(gap.item)] = gap.item
        gaps_of_item[id(gap.item)].append(number)
    log_p = torch.empty(len(gaps), length, dtype=torch.float64)
    item_ids = list(items)
    for start in range(0, len(item_ids), batch_size):
        batch = item_ids[start : start + batch_size]
        shorter = [trimmed(items[item_id], length) for item_id in batch]
        logits = read(shorter, [item.masks for item in shorter])
        by_item = _log_softmax(logits).view(len(batch), length, -1)
        for item_id, log_p_of_item in zip(batch, by_item, strict=True):
            for number in gaps_of_item[item_id]:
                log_p[number] = _at_tokens(log_p_of_item, gaps[number].tokens).double().cpu()
    return log_p


def _fill_with_own_tokens(
    read: Reader, gaps: Sequence[Gap], first_log_p: torch.Tensor, decoding: Decoding
) -> torch.Tensor:
    """Fill each gap with its own tokens one after the other, and add up their log-probabilities.

    All gaps have the same number of tokens. ``first_log_p`` has their log-probabilities while all masks are empty.
    """
    length = len(gaps[0].tokens)
    items = [_copy_of(trimmed(gap.item, length)) for gap in gaps]
    # For each gap, the numbers of the masks that are not filled yet.
    unfilled = [list(range(length)) for _ in gaps]
    totals = torch.zeros(len(gaps), dtype=torch.float64)
    log_p: list[list[float]] = first_log_p.tolist()
    for step in range(length):
        if step > 0:
            # The items are read again: the tokens filled so far change what is probable at the other positions.
            positions: list[Sequence[int]] = []
            tokens: list[int] = []
            for gap, item, open_masks in zip(gaps, items, unfilled, strict=True):
                positions.append(selected(item.masks, open_masks))
                tokens += selected(gap.tokens, open_masks)
            at_tokens = _at_tokens(_log_softmax(read(items, positions)), tokens)
            log_p = at_tokens.double().view(len(gaps), length - step).tolist()
        for number, gap in enumerate(gaps):
            next_index = _next_to_fill(log_p[number], decoding)
            totals[number] += log_p[number][next_index]
            mask = unfilled[number].pop(next_index)
            item = items[number]
            item.ids[item.masks[mask]] = gap.tokens[mask]
    return totals


def _next_to_fill(log_p: Sequence[float], decoding: Decoding) -> int:
    """The index of the unfilled mask that is filled next: the first one, or the most confident one."""
    if decoding == "ltr":
        return 0
    return log_p.index(max(log_p))


def greedy_fill(
    read: Reader, items: Sequence[EncodedItem], decoding: Decoding = "default", batch_size: int = 32
) -> list[list[int]]:
    """The tokens that the network itself writes into each item's masks: at each position the most probable one."""
    written: list[list[int]] = [[] for _ in items]

    def masks_and_length(number: int) -> tuple[int, int]:
        return len(items[number].masks), len(items[number].ids)

    # An item is read once per mask, so items with equally many masks are finished at the same time.
    order = sorted(range(len(items)), key=masks_and_length)
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        copies = [_copy_of(items[number]) for number in batch]
        _fill_greedily(read, copies, decoding)
        for number, item in zip(batch, copies, strict=True):
            written[number] = selected(item.ids, item.masks)
    return written


def _fill_greedily(read: Reader, items: Sequence[EncodedItem], decoding: Decoding) -> None:
    """Replace all masks of the items with tokens. The items are read together until no mask is left."""
    unfilled = [list(item.masks) for item in items]
    while any(unfilled):
        active = [number for number, positions in enumerate(unfilled) if positions]
        logits = read(selected(items, active), selected(unfilled, active))
        confidences, tokens = _log_softmax(logits).max(dim=1)
        # One row per unfilled position, item by item.
        start_row = 0
        for number in active:
            end_row = start_row + len(unfilled[number])
            confidences_of_item = confidences[start_row:end_row].tolist()
            tokens_of_item = tokens[start_row:end_row].tolist()
            _fill_next(items[number], unfilled[number], confidences_of_item, tokens_of_item, decoding)
            start_row = end_row


def _fill_next(
    item: EncodedItem, positions: list[int], confidences: list[float], tokens: list[int], decoding: Decoding
) -> None:
    """Write one token of a reading (with ``parallel`` all) into the item, and remove its position from the list."""
    if decoding == "parallel":
        for position, token in zip(positions, tokens, strict=True):
            item.ids[position] = token
        positions.clear()
        return
    next_index = _next_to_fill(confidences, decoding)
    position = positions.pop(next_index)
    item.ids[position] = tokens[next_index]


def _copy_of(item: EncodedItem) -> EncodedItem:
    """A copy of the item with its own list of ids, which may be changed."""
    return replace(item, ids=list(item.ids))


def _log_softmax(logits: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), dim=-1)
