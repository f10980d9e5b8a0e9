"""PET + MLM: beside its own loss a learner goes on with what its network was pre-trained for, on unlabeled examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn import functional

from lmassay.evaluations.fewshot.methods import deberta
from lmassay.evaluations.fewshot.methods.batches import Batch, collate
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.methods.sampler import batches
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tokens import special_ids

# Of the tokens that are learned, so many are masked, and half of the rest are replaced by a random one (BERT).
CHOSEN, MASKED, RANDOM_OF_REST = 0.15, 0.8, 0.5


@dataclass(frozen=True, slots=True)
class Riddle:
    """A batch with some tokens replaced; ``targets`` are the tokens to be told at ``rows`` and ``columns``."""

    batch: Batch
    rows: torch.Tensor
    columns: torch.Tensor
    targets: torch.Tensor

    def parts(self, size: int) -> list[Riddle]:
        """The riddle in parts of at most ``size`` rows."""
        return [self._part(start, start + size) for start in range(0, len(self.batch.ids), size)]

    def _part(self, start: int, stop: int) -> Riddle:
        rows = slice(start, stop)
        batch = Batch(self.batch.ids[rows], self.batch.types[rows], self.batch.attention[rows])
        asked = (self.rows >= start) & (self.rows < stop)
        return Riddle(batch, self.rows[asked] - start, self.columns[asked], self.targets[asked])


class MlmBeside(Learner):
    """A learner whose loss has masked language modelling added to it: each update takes the next riddle, in
    parts no larger than its micro-batches. In FewNLU's loop (``loss``) each micro-batch takes one.

    ``weights`` are those of the learner's own loss and of the language model's; ``summed`` is FewNLU's DeBERTa, whose
    loss is a sum over tokens.
    """

    def __init__(
        self,
        inner: Learner,
        net: Network,
        riddles: Iterator[Riddle],
        weights: tuple[float, float] = (1.0, 1.0),
        *,
        summed: bool = False,
    ) -> None:
        self.inner, self.net, self._riddles, self._weights = inner, net, riddles, weights
        self._summed = summed
        self.network = inner.network
        # As the learner beside which it stands.
        self.regroups = inner.regroups  # type: ignore[misc]

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        return self.inner.encode(examples, training=training)

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        own, language = self._weights
        return own * self.inner.loss(items) + language * self.language_loss(next(self._riddles))

    def losses(self, groups: Sequence[Sequence[Item]]) -> Iterator[torch.Tensor]:
        own, language = self._weights
        for loss in self.inner.losses(groups):
            yield own * loss
        riddle = next(self._riddles)
        # No more at once than of the labelled examples, for which the memory was enough.
        for part in riddle.parts(max(map(len, groups))):
            if len(part.targets):
                yield language * len(part.targets) / len(riddle.targets) * self.language_loss(part)

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        return self.inner.logits(items)

    def optimised(self) -> Iterable[tuple[str, torch.nn.Parameter, float | None]]:
        return self.inner.optimised()

    def language_loss(self, riddle: Riddle) -> torch.Tensor:
        """The mean loss over the riddle's tokens; 0 where there are none. The head is run nowhere else."""
        if not len(riddle.targets):
            return torch.zeros((), device=self.net.device)
        states = self.net.hidden(riddle.batch)
        logits = self.net.decode(states[riddle.rows, riddle.columns])
        if self._summed:
            return deberta.summed_loss(logits, riddle.targets)
        return functional.cross_entropy(logits, riddle.targets)


def riddles(items: Sequence[Item], net: Network, size: int, *, seed: int, sampler_seed: int) -> Iterator[Riddle]:
    """Unlabeled items in batches of ``size``, without end. A causal network is asked for every next token instead."""
    generator = torch.Generator().manual_seed(seed)
    for places in batches(len(items), size, sampler_seed):
        drawn = [items[place] for place in places]
        yield next_tokens(drawn, net) if net.kind == "causal" else masked_tokens(drawn, net, generator)


def masked_tokens(items: Sequence[Item], net: Network, generator: torch.Generator) -> Riddle:
    """15 % of the tokens are to be told; of these 80 % are masked, 10 % are another token, 10 % stay.

    Special tokens, the pattern's own mask and continuous prompt tokens are left alone.
    """
    tokenizer: Any = net.tokenizer
    special = special_ids(tokenizer)
    changed: list[Item] = []
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
    return _riddle(changed, asked, net)


def next_tokens(items: Sequence[Item], net: Network) -> Riddle:
    """Every token but the first is to be told from those before it."""
    asked = [(row, column, token) for row, item in enumerate(items) for column, token in enumerate(item.ids[1:])]
    return _riddle(items, asked, net)


def _riddle(items: Sequence[Item], asked: Sequence[tuple[int, int, int]], net: Network) -> Riddle:
    found = torch.tensor(asked, dtype=torch.long, device=net.device).view(-1, 3)
    return Riddle(collate(items, net.pad_id, net.device), found[:, 0], found[:, 1], found[:, 2])
