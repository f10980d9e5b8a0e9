"""Answers that grow side by side out of the tree of their prompts, which is kept once and not once for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from lmassay.models.hf.trie import Tokens
from lmassay.models.hf.walk import Walk, attention_mask


class Branches:
    """What a model has read of sorted prompts, all but their last tokens, and of the answers that grow behind them."""

    def __init__(self, walk: Walk, model: Any, device: torch.device, prompts: Sequence[Tokens], nodes: int) -> None:
        paths, self._memory = walk.read([prompt[:-1] for prompt in prompts], nodes)
        self._model, self._device = model, device
        self._sees = torch.zeros((len(prompts), self._memory.get_seq_length()), dtype=torch.bool)
        for line, path in enumerate(paths):
            self._sees[line, torch.from_numpy(path)] = True
        self._ends = [len(prompt) - 1 for prompt in prompts]

    def grow(self, lines: Sequence[int], tokens: torch.Tensor) -> torch.Tensor:
        """Put a token at the end of some prompts; the logits of what comes next there."""
        own = torch.zeros((len(self._sees), len(lines)), dtype=torch.bool)
        own[lines, range(len(lines))] = True
        self._sees = torch.cat([self._sees, own], dim=1)
        places = torch.tensor([self._ends[line] for line in lines], device=self._device)
        with torch.inference_mode():
            logits: torch.Tensor = self._model(
                input_ids=tokens[None],
                position_ids=places[None],
                attention_mask=attention_mask(self._sees[list(lines)], self._model, self._device),
                past_key_values=self._memory,
                use_cache=True,
            ).logits
        for line in lines:
            self._ends[line] += 1
        return logits[0]


def search_along(branches: Branches, pad: int) -> Callable[..., torch.Tensor]:
    """The library's greedy search with another way to compute: a decoding loop for ``generate``.

    What the model's own settings ask for (penalties, tokens that end a text) comes in as processors and criteria.
    """

    def search(
        model: Any, input_ids: torch.Tensor, logits_processor: Any, stopping_criteria: Any, **_: Any
    ) -> torch.Tensor:
        unfinished = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
        while True:
            lines = unfinished.nonzero().flatten()
            grown = branches.grow(lines.tolist(), input_ids[lines, -1]).float()
            logits = grown.new_zeros((len(input_ids), grown.shape[-1]))
            logits[lines] = grown
            best = logits_processor(input_ids, logits).argmax(dim=-1)
            input_ids = torch.cat([input_ids, torch.where(unfinished, best, pad)[:, None]], dim=-1)
            unfinished = unfinished & ~stopping_criteria(input_ids, None)
            if not unfinished.any():
                return input_ids

    return search
