"""The masks that FewNLU draws, number by number, for comparison with it.

Its draws come from torch's one generator, from which each of its data loaders also takes a number when it is started;
so they depend on the rhythm of the training. And it masks and asks for padding: transformers 4.5.1 counted only [CLS]
and [SEP] among the special tokens of BERT and ALBERT. (With dropout, which draws from the same generator, the numbers
are others.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from lmassay.evaluations.fewshot.methods.batches import Batch
from lmassay.evaluations.fewshot.methods.learner import Item
from lmassay.evaluations.fewshot.methods.mlm import CHOSEN, MASKED, RANDOM_OF_REST, Riddle
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.methods.sampler import epochs
from lmassay.evaluations.fewshot.tokens import special_ids


@dataclass(frozen=True, slots=True)
class Rhythm:
    """After how many micro-batches FewNLU starts its loaders anew."""

    epoch: int
    """Micro-batches of the training set."""
    look: int | None
    """Micro-batches between two looks at the dev set; None without one."""


def reference_riddles(
    items: Sequence[Item],
    net: Network,
    size: int,
    rhythm: Rhythm,
    *,
    max_seq_length: int,
    seed: int,
    sampler_seed: int,
) -> Iterator[Riddle]:
    """As ``mlm.riddles``, but drawn and padded as FewNLU does."""
    generator = torch.Generator().manual_seed(seed)
    orders = epochs(len(items), sampler_seed)
    waiting: list[list[int]] = []
    step = 0
    if rhythm.look is not None:
        _loader_starts(generator)  # for a look before the training
    while True:
        if rhythm.look is not None and step and step % rhythm.look == 0:
            _loader_starts(generator)
        if step % rhythm.epoch == 0:
            _loader_starts(generator)
        if not waiting:
            _loader_starts(generator)
            order = next(orders)
            waiting = [order[start : start + size] for start in range(0, len(order), size)]
        yield _drawn([items[place] for place in waiting.pop(0)], net, max_seq_length, generator)
        step += 1


def _loader_starts(generator: torch.Generator) -> None:
    torch.empty((), dtype=torch.int64).random_(generator=generator)


def _drawn(items: Sequence[Item], net: Network, length: int, generator: torch.Generator) -> Riddle:
    tokenizer = net.tokenizer
    ids = torch.full((len(items), length), net.pad_id)
    types, attention = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, item in enumerate(items):
        ids[row, : len(item)] = torch.tensor(item.ids)
        types[row, : len(item)] = torch.tensor(item.types)
        attention[row, : len(item)] = 1
    whole = ids.clone()
    special: tuple[int, ...] = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    if net.family in ("roberta", "xlm-roberta"):
        special = tuple(special_ids(tokenizer))
    chances = torch.full(ids.shape, CHOSEN).masked_fill(torch.isin(ids, torch.tensor(special)), 0.0)
    chosen = torch.bernoulli(chances, generator=generator).bool()
    masked = torch.bernoulli(torch.full(ids.shape, MASKED), generator=generator).bool() & chosen
    other = torch.bernoulli(torch.full(ids.shape, RANDOM_OF_REST), generator=generator).bool() & chosen & ~masked
    words = torch.randint(len(tokenizer), ids.shape, generator=generator)
    ids = torch.where(masked, tokenizer.mask_token_id, torch.where(other, words, ids))
    rows, columns = torch.nonzero(chosen & (whole != tokenizer.mask_token_id), as_tuple=True)
    batch = Batch(ids.to(net.device), types.to(net.device), attention.to(net.device))
    targets = whole[rows, columns]
    return Riddle(batch, rows.to(net.device), columns.to(net.device), targets.to(net.device))
