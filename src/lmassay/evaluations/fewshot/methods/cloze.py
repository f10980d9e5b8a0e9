"""PET's way of classifying: the words of the labels compete for the mask of a pattern (Schick and Schütze 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from lmassay.errors import ModelError
from lmassay.evaluations.fewshot.methods.batches import Batch, collate
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.losses import label_loss
from lmassay.evaluations.fewshot.methods.network import Network
from lmassay.evaluations.fewshot.tasks.examples import InputExample

if TYPE_CHECKING:
    from lmassay.evaluations.fewshot.tasks.nlu import NluTask


class Verbalizer:
    """Which words speak for which label: a label's logit is the mean of its words' logits."""

    def __init__(self, label_tokens: Sequence[Sequence[int]], device: torch.device) -> None:
        rows = sorted({token for tokens in label_tokens for token in tokens})
        self.rows = torch.tensor(rows, device=device)
        """The token ids of all words, each once."""
        shares = torch.zeros(len(label_tokens), len(rows))
        for label, tokens in enumerate(label_tokens):
            for token in tokens:
                # The original reads id 0 as "no word here", yet counts it.
                shares[label, rows.index(token)] += (token > 0) / len(tokens)
        self.shares = shares.to(device)
        """Labels × words; what a word's logit counts for a label."""

    def labels(self, words: torch.Tensor) -> torch.Tensor:
        """Label logits from the logits of the words in ``rows``."""
        return words @ self.shares.T


@dataclass(frozen=True, slots=True)
class Reading:
    """How examples become items: pattern, window, seed of what a pattern draws."""

    pattern: int = 0
    max_seq_length: int = 256
    mode: Literal["cls", "cloze", "ptuning"] = "cloze"
    seed: int = 42

    def pvp(self, task: NluTask, tokenizer: Any) -> Any:
        return task.pvp(
            tokenizer,
            pattern_id=self.pattern,
            mode=self.mode,
            max_seq_length=self.max_seq_length,
            seed=self.seed,
        )


class Cloze(Learner):
    """Label logits at the single mask; nothing else of the vocabulary is computed."""

    def __init__(self, net: Network, task: NluTask, reading: Reading, *, temperature: float = 2.0) -> None:
        self.net, self.task, self.reading = net, task, reading
        self.network: torch.nn.Module = net.module
        self.temperature = temperature
        self.pvp: Any = reading.pvp(task, net.tokenizer)
        self.verbalizer = Verbalizer(self.pvp.label_token_ids(), net.device)

    def encode(self, examples: Sequence[InputExample], *, training: bool) -> list[Item]:
        return [item_of(example, self.pvp, self.task.labels) for example in examples]

    def loss(self, items: Sequence[Item]) -> torch.Tensor:
        return label_loss(self.logits(items), items, self.temperature)

    def logits(self, items: Sequence[Item]) -> torch.Tensor:
        places = torch.tensor([_only_mask(item) for item in items], device=self.net.device)
        states = self.net.hidden_at(self.batch(items), places)
        return self.verbalizer.labels(self.net.decode(states, self.verbalizer.rows))

    def batch(self, items: Sequence[Item]) -> Batch:
        return collate(items, self.net.pad_id, self.net.device)


def item_of(example: InputExample, pvp: Any, labels: Sequence[str]) -> Item:
    """The example in the pattern's words, as tokens."""
    encoded = pvp.encode(example)
    place = place_of(example.label, labels)
    return Item(
        list(encoded.ids), list(encoded.types), list(encoded.masks), list(encoded.prompts), place, example.logits
    )


def place_of(label: str | None, labels: Sequence[str]) -> int:
    """The label's place; -1 for an example without one."""
    if label is None:
        return -1
    if label not in labels:
        raise ModelError(f"the label '{label}' is none of the task's: {', '.join(labels)}")
    return labels.index(label)


def _only_mask(item: Item) -> int:
    if len(item.masks) != 1:
        raise ModelError(f"a pattern with one mask is needed here, this one has {len(item.masks)}; take another one")
    return item.masks[0]
