"""A network that was taught, as the protocol uses it: scores for examples, one set of weights an interval, files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save_file

from lmassay.errors import ConfigError, StoreError
from lmassay.evaluations.fewshot.methods.contract import Choice, Course
from lmassay.evaluations.fewshot.methods.engine import Taught, scores
from lmassay.evaluations.fewshot.methods.learner import Item, Learner
from lmassay.evaluations.fewshot.methods.network import Network, quiet
from lmassay.evaluations.fewshot.methods.weights import copied, seeded
from lmassay.evaluations.fewshot.tasks.examples import InputExample

CARD, ADDED = "lmassay.json", "added.safetensors"


def answers_in(items: Sequence[Item]) -> list[str] | None:
    """The texts that ReCoRD's questions were answered with."""
    return [str(item.extra["answer"]) for item in items] if all("answer" in item.extra for item in items) else None


class FittedNetwork:
    """What ``fit`` of a trained method returns."""

    def __init__(self, learner: Learner, net: Network, taught: Taught, eval_batch: int, seed: int) -> None:
        self.learner, self.net = learner, net
        self._taught, self._eval_batch, self._seed = taught, eval_batch, seed
        self._used = taught.choices[0]
        self._read: dict[tuple[int, ...], tuple[list[InputExample], list[Item]]] = {}

    @property
    def choices(self) -> list[Choice]:
        """The weights that were kept, one choice an evaluation interval."""
        return self._taught.choices

    @property
    def course(self) -> Course:
        return self._taught.course

    @property
    def facts(self) -> dict[str, Any]:
        """What has a say in the numbers and is not an option of the method."""
        return {"device": self.net.device.type, "dtype": self.net.dtype, "threads": self.net.threads}

    def use(self, choice: Choice) -> None:
        """Go on with the weights of this choice."""
        if choice not in self.choices:
            raise ConfigError(f"these weights were not kept: {choice}")
        if choice.step != self._used.step:
            self._taught.use(choice)
        self._used = choice

    def logits(self, examples: Sequence[InputExample]) -> NDArray[np.float64]:
        # Whatever is drawn here (WSC's masks) is the same for every choice of weights.
        with seeded(self._seed, self.net.device, self.net.threads):
            return scores(self.learner, self._items(examples), self._eval_batch)

    def remember(self, examples: Sequence[InputExample], items: list[Item]) -> None:
        """Tokens that are there already."""
        self._read[tuple(map(id, examples))] = (list(examples), items)

    def _items(self, examples: Sequence[InputExample]) -> list[Item]:
        """Tokens, made once for examples that are asked about under several choices."""
        key = tuple(map(id, examples))
        if key not in self._read:
            # The examples are kept, so that their ids are not given to others.
            self._read[key] = (list(examples), self.learner.encode(examples, training=False))
            self.net.check_lengths(self._read[key][1])
        return self._read[key][1]

    def answers(self, examples: Sequence[InputExample]) -> list[str] | None:
        """The texts that were chosen when these examples were last scored; None for tasks without such."""
        return answers_in(self._items(examples))

    def save(self, folder: Path) -> None:
        """The network as transformers saves it, its tokenizer, further trained parts, and a card about the training."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with quiet():
                self.net.module.save_pretrained(folder)
            self.net.tokenizer.save_pretrained(folder)
            own = {id(parameter) for parameter in self.net.module.parameters()}
            added = {name: p for name, p in self.learner.network.named_parameters() if id(p) not in own}
            if added:
                save_file(dict(copied(added)), folder / ADDED)
            card = {"choice": asdict(self._used), "course": asdict(self.course), **self.facts}
            (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"the trained model cannot be written to {folder}: {error}") from error
