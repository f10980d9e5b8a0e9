"""FewNLU's training of PET, rewritten for current versions of torch.

It keeps only what determines the original's speed: all texts are padded to the window, the head computes logits of
the whole vocabulary at every position, the dev set is tokenized again for every evaluation, full checkpoints are
written at every tie and improvement, and the model is loaded again for the test (twice, as in the original).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.fewshot_common import WINDOW, clocked, labels_of
from numpy.typing import NDArray
from transformers import AutoTokenizer, BertForMaskedLM

from lmassay.evaluations.fewshot import tokens
from lmassay.evaluations.fewshot.methods.engine import batches, linear, make_optimiser, set_rate
from lmassay.evaluations.fewshot.metrics import scores
from lmassay.evaluations.fewshot.tasks.examples import InputExample
from lmassay.evaluations.fewshot.tasks.nlu import NluTask

EVAL_BATCH = 32
# Examples in a micro-batch, and micro-batches in an update.
MICRO_BATCH, GATHERED = 4, 4
LEARNING_RATE, WEIGHT_DECAY, EPSILON, MAX_NORM = 1e-5, 0.01, 1e-8, 1.0


@dataclass(frozen=True)
class Padded:
    """Examples as tensors, each as long as the window."""

    ids: torch.Tensor
    types: torch.Tensor
    attention: torch.Tensor
    masks: torch.Tensor
    """1 at the mask, -1 elsewhere."""
    labels: torch.Tensor

    def at(self, indices: Sequence[int]) -> Padded:
        chosen = (part[list(indices)] for part in (self.ids, self.types, self.attention, self.masks, self.labels))
        return Padded(*chosen)

    def __len__(self) -> int:
        return len(self.labels)


def read(task: NluTask, tokenizer: Any, examples: Sequence[InputExample]) -> Padded:
    """Tokenize examples without using the cache of an earlier call, as the original does."""
    tokens._CACHES.pop(tokenizer, None)
    # A pattern-verbalizer pair turns an example into a text with a mask.
    pvp = task.pvp(tokenizer, max_seq_length=WINDOW)
    columns: list[list[list[int]]] = [[], [], [], []]
    for example in examples:
        encoded = pvp.encode(example)
        gap = WINDOW - len(encoded.ids)
        masks = [-1] * WINDOW
        masks[encoded.masks[0]] = 1
        ids = encoded.ids + [tokenizer.pad_token_id] * gap
        rows = (ids, encoded.types + [0] * gap, [1] * len(encoded.ids) + [0] * gap, masks)
        for column, row in zip(columns, rows, strict=True):
            column.append(row)
    ids, types, attention, masks = map(torch.tensor, columns)
    return Padded(ids, types, attention, masks, torch.tensor(labels_of(task, examples)))


@dataclass
class Pet:
    """The network, and the words of the labels as a matrix that is padded to the label with the most words."""

    module: Any
    words: torch.Tensor
    counts: torch.Tensor

    @classmethod
    def of(cls, module: Any, task: NluTask, tokenizer: Any) -> Pet:
        words = task.pvp(tokenizer, max_seq_length=WINDOW).label_token_ids()
        longest = max(map(len, words))
        filled = [ids + [-1] * (longest - len(ids)) for ids in words]
        return cls(module, torch.tensor(filled), torch.tensor([len(ids) for ids in words], dtype=torch.float))

    def logits(self, batch: Padded) -> torch.Tensor:
        logits = self.module(input_ids=batch.ids, token_type_ids=batch.types, attention_mask=batch.attention).logits
        at_masks = logits[batch.masks >= 0]
        words = at_masks[:, self.words.clamp(min=0).view(-1)].view(len(batch), *self.words.shape)
        return (words * (self.words > 0)).sum(dim=-1) / self.counts

    def loss(self, batch: Padded) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(self.logits(batch), batch.labels)


@dataclass
class Trained:
    """Metrics of the weights that were chosen, and CPU seconds by part."""

    test: dict[str, float] = field(default_factory=dict)
    dev: dict[str, float] = field(default_factory=dict)
    updates: int = 0
    saves: int = 0
    cpu: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "dev": 0.0, "test": 0.0})


@dataclass
class Original:
    """One training: the loop of the original's wrapper class, then the evaluation of the weights on the disk."""

    model: Path
    task: NluTask
    output: Path
    max_steps: int
    """The loop makes one update more."""
    every: int
    seed: int = 42

    def run(self, train: Sequence[InputExample], dev: Sequence[InputExample], test: Sequence[InputExample]) -> Trained:
        trained = Trained()
        _, whole = clocked(lambda: self._train(train, dev, trained))
        trained.cpu["train"] = whole.cpu - trained.cpu["dev"]
        _, last = clocked(lambda: self._test(dev, test, trained))
        trained.cpu["test"] = last.cpu
        return trained

    def _train(self, train: Sequence[InputExample], dev: Sequence[InputExample], trained: Trained) -> None:
        torch.manual_seed(self.seed)
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        pet = Pet.of(BertForMaskedLM.from_pretrained(self.model), self.task, tokenizer)
        data = read(self.task, tokenizer, train)
        parameters = list(pet.module.parameters())
        named = [(name, parameter, None) for name, parameter in pet.module.named_parameters()]
        optimiser = make_optimiser("hf_adamw", named, LEARNING_RATE, WEIGHT_DECAY, EPSILON)
        best = 0.0
        self._evaluate_dev(pet, tokenizer, dev, trained)
        drawn = batches(len(data), MICRO_BATCH, self.seed)
        for update in range(1, self.max_steps + 2):
            set_rate(optimiser, linear(update - 1, self.max_steps, 0))
            pet.module.train()
            for indices in islice(drawn, GATHERED):
                (pet.loss(data.at(indices)) / GATHERED).backward()
            torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM)
            optimiser.step()
            optimiser.zero_grad()
            trained.updates = update
            if update % self.every == 0:
                score = float(np.mean(list(self._evaluate_dev(pet, tokenizer, dev, trained).values())))
                if score >= best:
                    best = score
                    trained.saves += 1
                    pet.module.save_pretrained(self.output)
                    tokenizer.save_pretrained(self.output)

    def _evaluate_dev(
        self, pet: Pet, tokenizer: Any, examples: Sequence[InputExample], trained: Trained
    ) -> dict[str, float]:
        metrics, took = clocked(lambda: self._evaluated(pet, tokenizer, examples))
        trained.cpu["dev"] += took.cpu
        return metrics

    def _test(self, dev: Sequence[InputExample], test: Sequence[InputExample], trained: Trained) -> None:
        tokenizer = AutoTokenizer.from_pretrained(self.output)
        BertForMaskedLM.from_pretrained(self.model)  # the wrapper makes its model before it loads the trained one
        pet = Pet.of(BertForMaskedLM.from_pretrained(self.output), self.task, tokenizer)
        trained.test = self._evaluated(pet, tokenizer, test)
        trained.dev = self._evaluated(pet, tokenizer, dev)

    def _evaluated(self, pet: Pet, tokenizer: Any, examples: Sequence[InputExample]) -> dict[str, float]:
        data = read(self.task, tokenizer, examples)
        pet.module.eval()
        rows: list[NDArray[np.float32]] = []
        with torch.no_grad():
            for start in range(0, len(data), EVAL_BATCH):
                rows.append(pet.logits(data.at(range(start, min(start + EVAL_BATCH, len(data))))).numpy())
        predicted = np.concatenate(rows).argmax(axis=1).tolist()
        return scores(self.task.metrics, data.labels.tolist(), predicted)
