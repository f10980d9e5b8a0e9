"""PET + MLM (Schick and Schütze 2021, section 3.2): masked language modelling on unlabeled examples.

The loss of masked language modelling (MLM), with which the network was pre-trained, is added to a learner's own loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.engine import batches, epochs
from lmassay.evaluations.fewshot.methods.learner import Batch, EncodedItem, Learner, collate, selected
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import special_ids

# BERT's masking (Devlin et al. 2019): 15 % of the tokens are predicted; 80 % of these are masked, and half of the rest
# are replaced by a random token.
PREDICTED = 0.15
MASKED = 0.8
RANDOM_OF_REST = 0.5


@dataclass(frozen=True, slots=True)
class MlmBatch:
    """A batch with some tokens replaced. ``targets`` are the tokens to predict at the positions (row, column)."""

    batch: Batch
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor

    def parts(self, size: int) -> list[MlmBatch]:
        """The batch in parts of up to ``size`` rows."""
        return [self._part(start, start + size) for start in range(0, len(self.batch.ids), size)]

    def _part(self, start: int, stop: int) -> MlmBatch:
        """The rows from ``start`` to ``stop``, with their targets."""
        rows = slice(start, stop)
        batch = Batch(self.batch.ids[rows], self.batch.types[rows], self.batch.attention[rows])
        is_inside = (self.rows >= start) & (self.rows < stop)
        return MlmBatch(
            batch,
            rows=self.rows[is_inside] - start,
            columns=self.columns[is_inside],
            targets=self.targets[is_inside],
        )


class WithMlmLoss(Learner):
    """Adds the loss of masked language modelling to the loss of another learner, ``inner``.

    Each update uses the next batch of unlabeled examples, in parts that are not larger than the micro-batches. In
    FewNLU's loop (``loss``), each micro-batch uses another batch. ``weights`` are the weights of the inner learner's
    loss and of the MLM loss. ``summed`` is for DeBERTa in FewNLU, whose MLM loss is a sum over tokens.
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
        self.inner = inner
        self.net = net
        self._batches = batches
        self._weights = weights
        self._summed = summed
        self.module = inner.module
        self.regroups = inner.regroups  # type: ignore[misc]  # that of the inner learner

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[EncodedItem]:
        """The items of the inner learner."""
        return self.inner.encode(examples, training=training)

    def loss(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The weighted sum for one micro-batch, as FewNLU's loop uses it."""
        inner_weight, mlm_weight = self._weights
        inner_loss = self.inner.loss(items)
        mlm_loss = self.mlm_loss(next(self._batches))
        return inner_weight * inner_loss + mlm_weight * mlm_loss

    def losses(self, micro_batches: Sequence[Sequence[EncodedItem]]) -> Iterator[torch.Tensor]:
        """Yield the parts of the inner learner's loss, then those of the MLM loss."""
        inner_weight, mlm_weight = self._weights
        for loss in self.inner.losses(micro_batches):
            yield inner_weight * loss
        batch = next(self._batches)
        # Not more rows are used at once than in a micro-batch of labelled examples, for which the memory sufficed.
        largest = max(len(items) for items in micro_batches)
        for part in batch.parts(largest):
            if len(part.targets):
                # Weighted by its share of the tokens, so that the parts add up to the mean over the whole batch.
                yield mlm_weight * len(part.targets) / len(batch.targets) * self.mlm_loss(part)

    def logits(self, items: Sequence[EncodedItem]) -> torch.Tensor:
        """The label scores of the inner learner."""
        return self.inner.logits(items)

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        """The parameters of the inner learner."""
        return self.inner.optimised()

    def mlm_loss(self, batch: MlmBatch) -> torch.Tensor:
        """The mean MLM loss over the tokens to predict; 0 if there are none. The head is run at these tokens only."""
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
    """Yield batches of ``size`` unlabeled items with masked tokens, without end.

    For a causal network no token is masked; it predicts every next token.
    """
    generator = torch.Generator().manual_seed(seed)
    for indices in batches(len(items), size, sampler_seed):
        drawn = selected(items, indices)
        if net.kind == "causal":
            yield next_tokens(drawn, net)
        else:
            yield masked_tokens(drawn, net, generator)


def masked_tokens(items: Sequence[EncodedItem], net: Network, generator: torch.Generator) -> MlmBatch:
    """A batch in which 15 % of the tokens are to be predicted.

    Of these, 80 % are masked, 10 % are replaced by a random token, and 10 % are unchanged. Special tokens, the
    pattern's own mask and continuous prompt tokens are never chosen.
    """
    tokenizer: Any = net.tokenizer
    special = special_ids(tokenizer)
    changed: list[EncodedItem] = []
    targets: list[tuple[int, int, int]] = []
    for row, item in enumerate(items):
        for_choice, for_mask, for_random = torch.rand(3, len(item), generator=generator).tolist()
        random_tokens = torch.randint(len(tokenizer), (len(item),), generator=generator).tolist()
        ids = list(item.ids)
        prompts = set(item.prompts)
        for column, token in enumerate(item.ids):
            if for_choice[column] >= PREDICTED or token in special or column in prompts:
                continue
            targets.append((row, column, token))
            if for_mask[column] < MASKED:
                ids[column] = tokenizer.mask_token_id
            elif for_random[column] < RANDOM_OF_REST:
                ids[column] = random_tokens[column]
        changed.append(replace(item, ids=ids))
    return _mlm_batch(changed, targets, net)


def next_tokens(items: Sequence[EncodedItem], net: Network) -> MlmBatch:
    """A batch in which every token but the first is to be predicted from those before it."""
    targets = []
    for row, item in enumerate(items):
        # The state at a position predicts the token after it.
        for column, next_token in enumerate(item.ids[1:]):
            targets.append((row, column, next_token))
    return _mlm_batch(items, targets, net)


def _mlm_batch(items: Sequence[EncodedItem], targets: Sequence[tuple[int, int, int]], net: Network) -> MlmBatch:
    """The items as a batch; ``targets`` are (row, column, token)."""
    batch = collate(items, net.pad_id, net.device)
    # Without any target, the tensor would not have three columns by itself.
    cells = torch.tensor(targets, dtype=torch.long, device=net.device).view(-1, 3)
    rows, columns, tokens = cells.unbind(dim=1)
    return MlmBatch(batch, rows, columns, tokens)


# --- FewNLU's own masks -----------------------------------------------------------------------------------------------

# The following functions reproduce FewNLU's masks exactly, for comparison with it. FewNLU draws them from torch's
# global generator. Each of its data loaders also takes a number from this generator when it starts, so the masks depend
# on when loaders start. FewNLU also masks and predicts padding, because transformers 4.5.1 counted only [CLS] and [SEP]
# as special tokens of BERT and ALBERT. (In FewNLU, dropout draws from the same generator, so with dropout the masks
# differ.)


@dataclass(frozen=True, slots=True)
class LoaderSchedule:
    """After how many micro-batches FewNLU restarts its data loaders."""

    epoch: int
    """The number of micro-batches in an epoch of the training set."""
    evaluation: int | None
    """The number of micro-batches between two evaluations on the dev set; None without a dev set."""


def reference_mlm_batches(
    items: Sequence[EncodedItem],
    net: Network,
    size: int,
    schedule: LoaderSchedule,
    *,
    max_seq_length: int,
    seed: int,
    sampler_seed: int,
) -> Iterator[MlmBatch]:
    """Like ``mlm_batches``, but tokens are drawn and texts padded as in FewNLU."""
    generator = torch.Generator().manual_seed(seed)
    orders = epochs(len(items), sampler_seed)
    waiting: list[list[int]] = []
    step = 0
    if schedule.evaluation is not None:
        # FewNLU evaluates once before the training starts.
        _start_loader(generator)
    while True:
        if schedule.evaluation is not None and step and step % schedule.evaluation == 0:
            _start_loader(generator)
        if step % schedule.epoch == 0:
            _start_loader(generator)
        if not waiting:
            _start_loader(generator)
            order = next(orders)
            waiting = [order[start : start + size] for start in range(0, len(order), size)]
        indices = waiting.pop(0)
        yield _reference_batch(selected(items, indices), net, max_seq_length, generator)
        step += 1


def _start_loader(generator: torch.Generator) -> None:
    """Draw a number, as torch's DataLoader does for its base seed when it starts."""
    torch.empty((), dtype=torch.int64).random_(generator=generator)


def _reference_batch(items: Sequence[EncodedItem], net: Network, length: int, generator: torch.Generator) -> MlmBatch:
    """The items as a batch, with tokens replaced and texts padded as in FewNLU."""
    tokenizer = net.tokenizer
    # The texts are padded to the full length, because tokens are also drawn for padding.
    ids = torch.full((len(items), length), net.pad_id)
    types = torch.zeros_like(ids)
    attention = torch.zeros_like(ids)
    for row, item in enumerate(items):
        ids[row, : len(item)] = torch.tensor(item.ids)
        types[row, : len(item)] = torch.tensor(item.types)
        attention[row, : len(item)] = 1
    original = ids.clone()
    special: tuple[int, ...] = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    if net.family in ("roberta", "xlm-roberta"):
        special = tuple(special_ids(tokenizer))
    is_special = torch.isin(ids, torch.tensor(special))
    chances = torch.full(ids.shape, PREDICTED).masked_fill(is_special, 0.0)

    def drawn(probabilities: torch.Tensor) -> torch.Tensor:
        return torch.bernoulli(probabilities, generator=generator).bool()

    # There are four draws for every position in this order, as in transformers' collator, even if they are not used.
    predicted = drawn(chances)
    masked = drawn(torch.full(ids.shape, MASKED)) & predicted
    replaced = drawn(torch.full(ids.shape, RANDOM_OF_REST)) & predicted & ~masked
    random_tokens = torch.randint(len(tokenizer), ids.shape, generator=generator)
    ids = torch.where(replaced, random_tokens, ids)
    ids = torch.where(masked, tokenizer.mask_token_id, ids)
    # The pattern's own mask is not predicted, even if it was chosen.
    is_target = predicted & (original != tokenizer.mask_token_id)
    rows, columns = torch.nonzero(is_target, as_tuple=True)
    batch = Batch(ids.to(net.device), types.to(net.device), attention.to(net.device))
    targets = original[rows, columns]
    return MlmBatch(batch, rows.to(net.device), columns.to(net.device), targets.to(net.device))
