"""PET + MLM: beside its own loss a learner goes on with what its network was pre-trained for, on unlabeled examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.engine import batches, epochs
from lmassay.evaluations.fewshot.methods.learner import Batch, EncodedItem, Learner, collate
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import special_ids

# Of the tokens that are learned, so many are masked, and half of the rest are replaced by a random one (BERT).
CHOSEN, MASKED, RANDOM_OF_REST = 0.15, 0.8, 0.5


@dataclass(frozen=True, slots=True)
class MlmBatch:
    """A batch with some tokens replaced; ``targets`` are the tokens to be predicted at ``rows`` and ``columns``."""

    batch: Batch
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor

    def parts(self, size: int) -> list[MlmBatch]:
        """The batch in parts of at most ``size`` rows."""
        return [self._part(start, start + size) for start in range(0, len(self.batch.ids), size)]

    def _part(self, start: int, stop: int) -> MlmBatch:
        rows = slice(start, stop)
        batch = Batch(self.batch.ids[rows], self.batch.types[rows], self.batch.attention[rows])
        asked = (self.rows >= start) & (self.rows < stop)
        return MlmBatch(batch, self.rows[asked] - start, self.columns[asked], self.targets[asked])


class WithMlmLoss(Learner):
    """A learner whose loss has masked language modelling added to it: each update takes the next batch, in
    parts no larger than its micro-batches. In FewNLU's loop (``loss``) each micro-batch takes one.

    ``weights`` are those of the learner's own loss and of the language model's; ``summed`` is FewNLU's DeBERTa, whose
    loss is a sum over tokens.
    """

    def __init__(
        self,
        inner: Learner,
        net: Network,
        batches: Iterator[MlmBatch],
        weights: tuple[float, float] = (1.0, 1.0),
        *,
        summed: bool = False,
    ) -> None:
        self.inner, self.net, self._batches, self._weights = inner, net, batches, weights
        self._summed = summed
        self.network = inner.network
        # As the learner beside which it stands.
        self.regroups = inner.regroups  # type: ignore[misc]

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        return self.inner.encode(examples, training=training)

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        own, language = self._weights
        return own * self.inner.loss(items) + language * self.language_loss(next(self._batches))

    def losses(self, groups: Sequence[Sequence[EncodedItem]]) -> Iterator[torch.Tensor]:
        own, language = self._weights
        for loss in self.inner.losses(groups):
            yield own * loss
        batch = next(self._batches)
        # No more at once than of the labelled examples, for which the memory was enough.
        for part in batch.parts(max(map(len, groups))):
            if len(part.targets):
                yield language * len(part.targets) / len(batch.targets) * self.language_loss(part)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        return self.inner.logits(items)

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        return self.inner.optimised()

    def language_loss(self, batch: MlmBatch) -> torch.Tensor:
        """The mean loss over the batch's tokens; 0 where there are none. The head is run nowhere else."""
        if not len(batch.targets):
            return torch.zeros((), device=self.net.device)
        states = self.net.hidden(batch.batch)
        logits = self.net.decode(states[batch.rows, batch.columns])
        if self._summed:
            return deberta.summed_loss(logits, batch.targets)
        return functional.cross_entropy(logits, batch.targets)


def mlm_batches(
    items: Sequence[EncodedItem], net: Network, size: int, *, seed: int, sampler_seed: int
) -> Iterator[MlmBatch]:
    """Unlabeled items in batches of ``size``, without end. A causal network is asked for every next token instead."""
    generator = torch.Generator().manual_seed(seed)
    for places in batches(len(items), size, sampler_seed):
        drawn = [items[place] for place in places]
        yield next_tokens(drawn, net) if net.kind == "causal" else masked_tokens(drawn, net, generator)


def masked_tokens(items: Sequence[EncodedItem], net: Network, generator: torch.Generator) -> MlmBatch:
    """15 % of the tokens are to be predicted; of these 80 % are masked, 10 % are another token, 10 % stay.

    Special tokens, the pattern's own mask and continuous prompt tokens are left alone.
    """
    tokenizer: Any = net.tokenizer
    special = special_ids(tokenizer)
    changed: list[EncodedItem] = []
    asked: list[tuple[int, int, int]] = []
    for row, item in enumerate(items):
        chosen, masked, random = torch.rand(3, len(item), generator=generator).tolist()
        words = torch.randint(len(tokenizer), (len(item),), generator=generator).tolist()
        ids, prompts = list(item.ids), set(item.prompts)
        for column, token in enumerate(item.ids):
            if chosen[column] >= CHOSEN or token in special or column in prompts:
                continue
            asked.append((row, column, token))
            if masked[column] < MASKED:
                ids[column] = tokenizer.mask_token_id
            elif random[column] < RANDOM_OF_REST:
                ids[column] = words[column]
        changed.append(replace(item, ids=ids))
    return _mlm_batch(changed, asked, net)


def next_tokens(items: Sequence[EncodedItem], net: Network) -> MlmBatch:
    """Every token but the first is to be predicted from those before it."""
    asked = [(row, column, token) for row, item in enumerate(items) for column, token in enumerate(item.ids[1:])]
    return _mlm_batch(items, asked, net)


def _mlm_batch(items: Sequence[EncodedItem], asked: Sequence[tuple[int, int, int]], net: Network) -> MlmBatch:
    found = torch.tensor(asked, dtype=torch.long, device=net.device).view(-1, 3)
    return MlmBatch(collate(items, net.pad_id, net.device), found[:, 0], found[:, 1], found[:, 2])


# --- FewNLU's own masks -----------------------------------------------------------------------------------------------


# Number by number, for comparison with it. Its draws come from torch's one generator, from which each of its data
# loaders also takes a number when it is started; so they depend on the rhythm of the training. And it masks and asks
# for padding: transformers 4.5.1 counted only [CLS] and [SEP] among the special tokens of BERT and ALBERT. (With
# dropout, which draws from the same generator, the numbers are others.)


@dataclass(frozen=True, slots=True)
class LoaderSchedule:
    """After how many micro-batches FewNLU starts its loaders anew."""

    epoch: int
    """Micro-batches of the training set."""
    look: int | None
    """Micro-batches between two looks at the dev set; None without one."""


def reference_mlm_batches(
    items: Sequence[EncodedItem],
    net: Network,
    size: int,
    rhythm: LoaderSchedule,
    *,
    max_seq_length: int,
    seed: int,
    sampler_seed: int,
) -> Iterator[MlmBatch]:
    """As ``mlm_batches``, but drawn and padded as FewNLU does."""
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


def _drawn(items: Sequence[EncodedItem], net: Network, length: int, generator: torch.Generator) -> MlmBatch:
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
    return MlmBatch(batch, rows.to(net.device), columns.to(net.device), targets.to(net.device))
